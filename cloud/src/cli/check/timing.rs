//! Times of the parts of a round on this machine, repeated until they are stable.

use std::time::{Duration, Instant};

use outrider_speculation::control::goodput::RowCosts;

use crate::cli::output::CommandError;

/// Numbers of rows of the timed passes, ascending.
pub(super) const ROWS: [usize; 4] = [1, 2, 4, 8];
/// Least and most repetitions.
const LEAST: usize = 7;
const MOST: usize = 60;
/// Time after which no repetition begins, stable or not.
const LIMIT: Duration = Duration::from_secs(20);
/// Largest spread of stable times.
const STABLE: f64 = 0.1;

/// Repeated measurements of several durations in turn, in seconds.
#[derive(Debug)]
pub(super) struct Series<const N: usize> {
    samples: [Vec<f64>; N],
}

impl<const N: usize> Series<N> {
    pub(super) fn new() -> Self {
        Self { samples: std::array::from_fn(|_| Vec::new()) }
    }

    pub(super) fn add(&mut self, seconds: [f64; N]) {
        self.samples.iter_mut().zip(seconds).for_each(|(samples, seconds)| samples.push(seconds));
    }

    /// Median of each duration.
    pub(super) fn medians(&self) -> [f64; N] {
        self.quantiles(0.5)
    }

    /// Largest distance between the quartiles of a duration, as a share of its median.
    pub(super) fn spread(&self) -> f64 {
        let (low, middle, high) = (self.quantiles(0.25), self.medians(), self.quantiles(0.75));
        (0..N).map(|which| (high[which] - low[which]) / middle[which].max(f64::MIN_POSITIVE)).fold(0.0, f64::max)
    }

    pub(super) fn is_stable(&self) -> bool {
        self.spread() <= STABLE
    }

    fn len(&self) -> usize {
        self.samples.first().map_or(0, Vec::len)
    }

    fn quantiles(&self, share: f64) -> [f64; N] {
        std::array::from_fn(|which| {
            let mut sorted = self.samples[which].clone();
            sorted.sort_by(f64::total_cmp);
            let last = sorted.len().saturating_sub(1);
            sorted.get((share * last as f64).round() as usize).copied().unwrap_or_default()
        })
    }
}

/// Measures until the times are stable, or long enough to call the machine busy. The first measurement warms up and is
/// not counted.
pub(super) fn repeated<const N: usize>(
    mut once: impl FnMut() -> Result<[f64; N], CommandError>,
) -> Result<Series<N>, CommandError> {
    once()?;
    let (began, mut series) = (Instant::now(), Series::new());
    while series.len() < LEAST || (!series.is_stable() && series.len() < MOST && began.elapsed() < LIMIT) {
        series.add(once()?);
    }
    Ok(series)
}

/// Mean seconds of `count` calls.
pub(super) fn mean_seconds(
    count: u32,
    mut work: impl FnMut() -> Result<(), CommandError>,
) -> Result<f64, CommandError> {
    let began = Instant::now();
    for _ in 0..count {
        work()?;
    }
    Ok(began.elapsed().as_secs_f64() / f64::from(count))
}

/// Costs of judged guesses from the seconds of passes of [`ROWS`] rows. Between two sizes, time is linear in the rows;
/// above the last size it goes on with the last slope.
pub(super) fn row_costs(passes: &[f64; ROWS.len()]) -> RowCosts {
    let seconds = |rows: usize| {
        let upper = ROWS.iter().position(|&size| rows <= size).unwrap_or(ROWS.len() - 1).max(1);
        let slope = (passes[upper] - passes[upper - 1]) / (ROWS[upper] - ROWS[upper - 1]) as f64;
        passes[upper - 1] + slope * (rows - ROWS[upper - 1]) as f64
    };
    RowCosts::of(|guesses| (seconds(guesses + 1) / passes[0] - 1.0).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_cost_what_their_rows_add_to_a_pass() {
        let costs = row_costs(&[0.040, 0.048, 0.060, 0.100]);
        for (guesses, cost) in [(1, 0.2), (2, 0.35), (3, 0.5), (5, 1.0), (7, 1.5), (11, 2.5), (15, 3.5)] {
            assert!((costs.all(guesses) - cost).abs() < 1e-12, "{guesses}: {}", costs.all(guesses));
        }
        assert_eq!(row_costs(&[0.040, 0.039, 0.039, 0.039]).all(4), 0.0, "noise makes no row cheaper than none");
    }

    #[test]
    fn times_are_stable_if_their_quartiles_are_close() {
        let mut series = Series::new();
        for sample in 0..9 {
            series.add([1.0 + 0.01 * f64::from(sample), 2.0]);
        }
        assert!(series.is_stable() && (series.spread() - 0.04 / 1.04).abs() < 1e-9, "{}", series.spread());
        // One interruption in nine leaves the quartiles where they are; every second one does not.
        series.add([9.0, 2.0]);
        assert!(series.is_stable());
        (0..8).for_each(|_| series.add([1.5, 2.0]));
        assert!(!series.is_stable());
        assert_eq!(Series::<1>::new().medians(), [0.0]);
    }

    #[test]
    fn measuring_ends_on_a_busy_machine() {
        let mut calls = 0;
        let busy = repeated(|| {
            calls += 1;
            Ok([if calls % 2 == 0 { 1.0 } else { 2.0 }])
        });
        assert!(!busy.unwrap().is_stable() && calls == MOST + 1, "{calls}");
        let mut calls = 0;
        let quiet = repeated(|| {
            calls += 1;
            Ok([if calls == 1 { 9.0 } else { 1.0 }])
        });
        assert!(quiet.unwrap().is_stable() && calls == LEAST + 1, "{calls}");
    }
}
