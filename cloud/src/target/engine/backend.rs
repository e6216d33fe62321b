//! Interface between the engine's thread and a model.

use outrider_models::{Chunk, KvCache, ModelConfig, PageSource};
use outrider_speculation::judge::{Judgement, Round};

/// A target model, on the CPU or a device.
pub trait Backend: Send + 'static {
    /// Source of the pages of its KV caches.
    type Pages: PageSource<Page: Send> + Send + 'static;

    /// Shape and constants of the model.
    fn config(&self) -> &ModelConfig;

    /// Name of the instruction set or device that computes.
    fn name(&self) -> &'static str;

    /// Effect of sharing a run on the logits of a row, as `/metrics` reports it.
    fn batching(&self) -> &'static str;

    /// Returns true if answers are rows of logits.
    fn gives_rows(&self) -> bool {
        true
    }

    /// Returns true if a run of many rows takes hardly longer than one of a quarter of them, as on a GPU.
    fn are_rows_cheap(&self) -> bool {
        false
    }

    /// Returns true if passes may be run, and are timed, before there is a session.
    fn warms_up(&self) -> bool {
        false
    }

    /// Creates an empty cache for a session.
    fn new_cache(&self) -> KvCache<Self::Pages>;

    /// Copies the first `len` tokens of a cache; `None` if a backend reads them again instead.
    fn copy(&self, _cache: &KvCache<Self::Pages>, _len: usize) -> Option<KvCache<Self::Pages>> {
        None
    }

    /// Runs the model once and returns an answer for each chunk. `rounds` has the round that the rows of each chunk
    /// judge; `None` for a chunk that ends no pass.
    ///
    /// # Errors
    /// The reason why there is no answer, for the log. The caches are unchanged then.
    fn run(&mut self, chunks: &mut [Chunk<'_, Self::Pages>], rounds: &[Option<&Round>]) -> Result<Vec<Answer>, String>;
}

/// Result of a run for one chunk.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Rows of logits, `[rows, vocab_size]`. The task of the session judges them, so that sessions do not wait for each
    /// other's sampling.
    Rows(Vec<Vec<f32>>),
    /// Judgement of a backend that judges where its logits are.
    Judged(Judgement),
}
