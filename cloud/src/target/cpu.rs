//! The target on this processor, with our own kernels.

use outrider_models::{Chunk, HostPages, KvCache, Model, ModelConfig, ModelError, Scratch};
use outrider_speculation::judge::Round;

use crate::target::engine::{Answer, Backend, Engine, EngineSettings};

/// A model with the scratch memory of its forward passes.
pub struct CpuTarget {
    model: Model,
    scratch: Scratch,
}

impl std::fmt::Debug for CpuTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CpuTarget")
    }
}

impl From<Model> for CpuTarget {
    fn from(model: Model) -> Self {
        Self { model, scratch: Scratch::default() }
    }
}

impl Engine {
    /// Starts the engine's thread for a model on this processor, with default settings and at most `sessions` at a
    /// time.
    ///
    /// # Errors
    /// If the operating system cannot start a thread.
    pub fn start(model: Model, sessions: usize) -> std::io::Result<Self> {
        Self::start_with(CpuTarget::from(model), EngineSettings { sessions, ..EngineSettings::default() })
    }
}

impl Backend for CpuTarget {
    type Pages = HostPages;

    fn config(&self) -> &ModelConfig {
        self.model.config()
    }

    fn name(&self) -> &'static str {
        outrider_models::instruction_set()
    }

    /// The kernels give a row the same bits in every batch.
    fn batching(&self) -> &'static str {
        "bit-identical"
    }

    fn warms_up(&self) -> bool {
        true
    }

    fn new_cache(&self) -> KvCache {
        self.model.new_cache()
    }

    fn copy(&self, cache: &KvCache, len: usize) -> Option<KvCache> {
        cache.prefix(len).ok()
    }

    fn run(&mut self, chunks: &mut [Chunk<'_>], _rounds: &[Option<&Round>]) -> Result<Vec<Answer>, String> {
        let logits = self.model.forward_with(chunks, &mut self.scratch).map_err(|error| reason(&error))?;
        Ok(logits.iter().map(|rows| Answer::Rows(rows.iter().map(<[f32]>::to_vec).collect())).collect())
    }
}

/// Error of a pass for the log, with the setting to lower if memory is short.
fn reason(error: &ModelError) -> String {
    match error {
        ModelError::OutOfMemory { .. } => {
            format!("{error}: lower --kv-memory or --max-context, or give the server more memory")
        }
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_allocation_says_what_to_lower() {
        let text = reason(&ModelError::OutOfMemory { needed: 1 << 20 });
        assert!(text.contains("1048576 bytes of a KV cache") && text.contains("lower --kv-memory"), "{text}");
        assert!(!reason(&ModelError::CacheMismatch { chunk: 0 }).contains("--kv-memory"));
    }
}
