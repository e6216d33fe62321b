//! Passes that every engine is asked for, natively and in the browser: some tokens after others.

use std::error::Error;

/// Reason why an engine cannot run a pass.
pub type Failure = Box<dyn Error + Send + Sync>;

/// A pass, by its numbers of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pass {
    /// Number of tokens of the pass.
    pub rows: usize,
    /// Number of cached tokens before them.
    pub cached: usize,
    /// Logits of every row rather than the last.
    pub all_logits: bool,
}

/// A model that is loaded.
pub trait Engine {
    /// Makes exactly the first `cached` of `tokens` cached, as cheaply as it can.
    fn rewind(&mut self, cached: usize, tokens: &[u32]) -> Result<(), Failure>;

    /// Runs `tokens` after the `pass.cached` ones that are cached.
    fn run(&mut self, pass: Pass, tokens: &[u32]) -> Result<(), Failure>;
}

/// The text that every engine sees: words, no special tokens, and few that repeat.
pub fn text(vocabulary: u32) -> Vec<u32> {
    let first = 259.min(vocabulary.saturating_sub(1));
    (0..2048u32).map(|index| first + index * 37 % (vocabulary - first).max(1)).collect()
}

/// Milliseconds, by a clock `now`, of each of `times` passes after one that is not timed.
pub fn time<E: Engine>(
    engine: &mut E,
    pass: Pass,
    times: usize,
    text: &[u32],
    now: impl Fn() -> f64,
) -> Result<Vec<f64>, Failure> {
    let rows = text.get(pass.cached..pass.cached + pass.rows).ok_or("the text is shorter")?;
    let mut found = Vec::with_capacity(times);
    for round in 0..=times {
        engine.rewind(pass.cached, text)?;
        let start = now();
        engine.run(pass, rows)?;
        if round > 0 {
            found.push(now() - start);
        }
    }
    Ok(found)
}
