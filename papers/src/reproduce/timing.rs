//! Times of forward passes, measured on this machine.

use std::{hint::black_box, time::Instant};

use outrider_models::{Chunk, ElementType, Model, shapes::Shape};

use super::sessions::Failure;

/// Tokens before a timed pass, and passes of which the median counts.
const CACHED: usize = 128;
const REPEATS: usize = 9;
/// The most that the third quartile may be above the first, and measurements until that is so.
const MOST_SPREAD: f64 = 1.25;
const TRIALS: usize = 3;
/// Rows of a timed pass that judges.
const ROWS: usize = 9;
/// Time of a model's passes, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct PassTimes {
    /// Time of a pass with one row.
    pub pass: f64,
    /// Time that each further row adds.
    pub row: f64,
}

/// Times of passes of models of the papers' sizes on this processor: random weights in Q8_0, since time depends on the
/// shape alone.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// A model of 135 million weights, as the papers' drafts.
    pub small: PassTimes,
    /// A model of 1.1 billion weights, as their smaller targets.
    pub large: PassTimes,
}

/// Error of timing passes on a machine that does other work.
#[derive(Debug, thiserror::Error)]
#[error(
    "passes of the same model took {fast:.1} to {slow:.1} ms (quartiles): the machine is too busy to time them; try \
     again when it is idle, or give times with --times draft=MS,row=MS,pass=MS"
)]
pub struct BusyError {
    fast: f64,
    slow: f64,
}

pub(super) fn random(shape: &Shape) -> Result<Model, Failure> {
    let stored = shape.model(ElementType::Q8_0).ok_or("there are no random weights in Q8_0")?;
    Ok(stored.into_model()?)
}

/// Times passes of a model on a machine that does nothing else; tries several times.
pub(super) fn steady(model: &Model) -> Result<PassTimes, Failure> {
    let mut found = timed(model)?;
    for _ in 1..TRIALS {
        if is_steady(found.1) {
            break;
        }
        found = timed(model)?;
    }
    let (times, [fast, slow]) = found;
    if is_steady([fast, slow]) { Ok(times) } else { Err(BusyError { fast: 1e3 * fast, slow: 1e3 * slow }.into()) }
}

fn is_steady([fast, slow]: [f64; 2]) -> bool {
    slow <= MOST_SPREAD * fast
}

pub(super) fn time(model: &Model) -> Result<PassTimes, Failure> {
    Ok(timed(model)?.0)
}

/// Times of a model's passes, and the first and third quartile of those of one row.
fn timed(model: &Model) -> Result<(PassTimes, [f64; 2]), Failure> {
    let vocabulary = model.config().vocab_size as u32;
    let cached = CACHED.min(model.config().context_length.saturating_sub(ROWS));
    let text: Vec<u32> = (0..(cached + ROWS) as u32).map(|index| index * 37 % vocabulary).collect();
    let mut cache = model.new_cache();
    model.forward(&mut [Chunk { cache: &mut cache, tokens: &text[..cached], positions: &[] }])?;
    let mut sorted = |rows: usize| -> Result<Vec<f64>, Failure> {
        let positions: Vec<usize> = (0..rows).collect();
        let mut times = Vec::with_capacity(REPEATS);
        for _ in 0..REPEATS {
            cache.truncate(cached);
            let tokens = &text[cached..cached + rows];
            let began = Instant::now();
            black_box(model.forward(&mut [Chunk { cache: &mut cache, tokens, positions: &positions }])?);
            times.push(began.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        Ok(times)
    };
    let (one, judging) = (sorted(1)?, sorted(ROWS)?[REPEATS / 2]);
    let pass = one[REPEATS / 2];
    let times = PassTimes { pass, row: ((judging - pass) / (ROWS - 1) as f64).max(0.0) };
    Ok((times, [one[REPEATS / 4], one[REPEATS - 1 - REPEATS / 4]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times of an idle machine, and those of one where other work took half of the processor now and then.
    #[test]
    fn a_busy_machine_gives_no_times() {
        assert!(is_steady([41.0, 42.5]) && !is_steady([41.0, 83.0]));
        let error = BusyError { fast: 41.0, slow: 83.0 }.to_string();
        assert!(error.starts_with("passes of the same model took 41.0 to 83.0 ms"), "{error}");
    }
}
