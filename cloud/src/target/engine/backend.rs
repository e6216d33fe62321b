//! What the engine's thread runs.

use outrider_models::{Chunk, KvCache, ModelConfig, PageSource};
use outrider_speculation::judge::{Judgement, Round};

/// A target model, where it runs.
pub trait Backend: Send + 'static {
    /// Where its KV caches have their pages.
    type Pages: PageSource<Page: Send> + Send + 'static;

    /// Shape and constants of the model.
    fn config(&self) -> &ModelConfig;

    /// What multiplies: an instruction set, or a device.
    fn name(&self) -> &'static str;

    /// What sharing a run does to the logits of a row.
    fn batching(&self) -> &'static str;

    /// An empty cache for a session.
    fn new_cache(&self) -> KvCache<Self::Pages>;

    /// A copy of the first `len` tokens of a cache; `None` where a backend reads them again instead.
    fn copy(&self, _cache: &KvCache<Self::Pages>, _len: usize) -> Option<KvCache<Self::Pages>> {
        None
    }

    /// Runs the model once; gives an answer for each chunk. `rounds` has what the chunks' rows judge, `None` for one
    /// that ends no pass.
    ///
    /// # Errors
    /// Why there is no answer, for the log; the caches are then as they were.
    fn run(&mut self, chunks: &mut [Chunk<'_, Self::Pages>], rounds: &[Option<&Round>]) -> Result<Vec<Answer>, String>;
}

/// What a run gives for a chunk.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Rows of logits. They are judged by the task that asked, so that sessions do not wait for each other's sampling.
    Rows(Vec<Vec<f32>>),
    /// The judgement of a backend that judges where its logits are.
    Judged(Judgement),
}
