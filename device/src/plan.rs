//! Memory needed by a model on a device, computed before anything is copied.

use std::fmt;

use bytesize::ByteSize;
use outrider_models::{ModelConfig, StoredModel};

/// Number of rows per forward pass in the estimate: the server's default maximum.
const PASS_ROWS: usize = 256;
/// Number of f32 vectors per row that a block holds at a time, of the width of the residual stream and of the
/// feed-forward part.
const HIDDEN_VECTORS: usize = 8;
const INNER_VECTORS: usize = 3;
/// Bytes per logit: the logit, its probability, and their sums (f64).
const BYTES_PER_LOGIT: usize = 16;

/// Memory of a device, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Free memory in bytes.
    pub free: usize,
    /// Total memory in bytes.
    pub total: usize,
}

/// Memory needed by a model, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Size of the weights, in the types of their file.
    pub weights: usize,
    /// Size of all sessions' KV caches: the requested size in whole pages.
    pub caches: usize,
    /// Estimated peak of a large forward pass.
    pub pass: usize,
}

impl Plan {
    /// Memory needed by `model` with `caches` bytes of KV caches.
    pub(crate) fn of(model: &StoredModel, caches: usize) -> Self {
        let StoredModel { config, weights } = model;
        let other = [&weights.embedding].into_iter().filter(|_| weights.head.is_some()).chain(&weights.positions);
        let bytes = weights.multiplied().chain(other).map(|matrix| matrix.bytes.len()).sum();
        Self { weights: bytes, caches, pass: pass(config) }
    }

    fn needed(&self) -> usize {
        self.weights.saturating_add(self.caches).saturating_add(self.pass)
    }

    /// Remedy if the model does not fit into the free memory; `None` if it fits.
    pub(crate) fn lacks(&self, memory: Memory) -> Option<Advice> {
        let left = memory.free.saturating_sub(self.weights).saturating_sub(self.pass);
        (self.needed() > memory.free).then_some(Advice { left })
    }
}

/// Remedy for a model that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Advice {
    /// Number of bytes left for KV caches.
    left: usize,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.left {
            0 => f.write_str("take a model with fewer or smaller weights, such as a quantized file"),
            left => write!(f, "lower --kv-memory to {}", ByteSize(left as u64)),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [weights, caches, pass, needed] =
            [self.weights, self.caches, self.pass, self.needed()].map(|bytes| ByteSize(bytes as u64));
        write!(f, "{needed} ({weights} of weights, {caches} of KV caches, {pass} for a forward pass)")
    }
}

/// Peak memory of a pass of [`PASS_ROWS`] rows, in bytes.
fn pass(config: &ModelConfig) -> usize {
    let ModelConfig { vocab_size, hidden_size, intermediate_size, .. } = *config;
    let vectors = HIDDEN_VECTORS * hidden_size + INNER_VECTORS * intermediate_size;
    PASS_ROWS * (4 * vectors + BYTES_PER_LOGIT * vocab_size)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: usize = 1 << 30;

    #[test]
    fn what_does_not_fit_is_known_with_what_would() {
        let plan = Plan { weights: 15 * GIB, caches: 8 * GIB, pass: GIB };
        let advice = |free| plan.lacks(Memory { free, total: 24 * GIB }).map(|advice| advice.to_string());
        assert_eq!(advice(24 * GIB), None);
        let needed = plan.to_string();
        assert_eq!(needed, "24.0 GiB (15.0 GiB of weights, 8.0 GiB of KV caches, 1.0 GiB for a forward pass)");
        assert_eq!(advice(20 * GIB).as_deref(), Some("lower --kv-memory to 4.0 GiB"));
        assert!(advice(12 * GIB).is_some_and(|advice| advice.ends_with("such as a quantized file")));
    }
}
