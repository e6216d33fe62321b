//! What a forward pass reads and leaves, and what stays of a text.

use outrider_models::{ModelConfig, Position, Rotary};
use wgpu::Buffer;

use crate::{error::GpuError, gpu::Gpu, kernels::MOST_IN_FOURS, listed::Listing};

/// Tokens that a forward pass reads at most: rows of whole workgroups ([`Tile`](crate::kernels::Tile)).
pub(crate) const MOST_ROWS: usize = 64;
/// Rows of logits that it leaves at most, of the same.
pub(crate) const MOST_LOGITS: usize = 8;
// Kernels compute whole tiles, and write all rows of them: of 32, which rows of logits have no room for.
const _: () = assert!(MOST_ROWS.is_multiple_of(32) && MOST_LOGITS <= MOST_IN_FOURS && MOST_LOGITS.is_multiple_of(4));
/// Guesses that it is followed by at most, before somebody waits for them.
pub(crate) const MOST_GUESSES: usize = 32;

/// What a forward pass reads and leaves.
#[derive(Debug)]
pub(crate) struct Rows {
    /// Tokens. shape: `[MOST_ROWS]`
    pub(crate) ids: Buffer,
    /// `Step` of the shaders.
    pub(crate) step: Buffer,
    /// shape: `[MOST_LOGITS, vocab_size]`
    pub(crate) logits: Buffer,
    /// `Choice` of the shaders.
    pub(crate) choice: Buffer,
    /// Guesses and the next best ones. shape: `[MOST_GUESSES, 2]`
    pub(crate) chosen: Buffer,
    /// The best of each workgroup, and its sums.
    pub(crate) best: Buffer,
    pub(crate) sums: Buffer,
    /// How rows are listed, and their lists. shape: `[MOST_LOGITS, words of a list]`
    pub(crate) listing: Listing,
    pub(crate) lists: Buffer,
    /// The largest logit of each piece of a row; and what those that are listed are at least, with the largest.
    pub(crate) largest: Buffer,
    pub(crate) bounds: Buffer,
    /// What logits are made of. shape: `[MOST_ROWS, hidden_size]`
    pub(crate) final_hidden: Buffer,
    pub(crate) hidden: Buffer,
    pub(crate) normed: Buffer,
    /// The projections of each row: queries, keys, values.
    pub(crate) heads: Buffer,
    pub(crate) context: Buffer,
    pub(crate) projected: Buffer,
    /// Inside the feed-forward part. shape: `[MOST_ROWS, intermediate_size]`
    pub(crate) inner: Buffer,
}

impl Rows {
    pub(crate) fn new(gpu: &Gpu, config: &ModelConfig) -> Result<Self, GpuError> {
        let (queries, keys) = (config.heads * config.head_dim, config.kv_heads * config.head_dim);
        let rows = |width| gpu.numbers("rows of a forward pass", MOST_ROWS * width);
        let listing = Listing::new(config.vocab_size);
        Ok(Self {
            ids: rows(1)?,
            step: gpu.numbers("a step", 4)?,
            logits: gpu.numbers("logits", MOST_LOGITS * config.vocab_size)?,
            choice: gpu.numbers("what guesses are chosen by", 6)?,
            chosen: gpu.numbers("guesses", 2 * MOST_GUESSES)?,
            best: gpu.numbers("the best guesses of each workgroup", 6 * listing.groups)?,
            sums: gpu.numbers("sums of each workgroup", 5 * listing.groups)?,
            lists: gpu.numbers("the largest logits", MOST_LOGITS * listing.words())?,
            largest: gpu.numbers("the largest logits of pieces", MOST_LOGITS * listing.all_pieces().max(1))?,
            bounds: gpu.numbers("bounds of rows", 2 * MOST_LOGITS)?,
            listing,
            // The norm before the head is of all rows, a product of whole groups of them.
            final_hidden: rows(config.hidden_size)?,
            hidden: rows(config.hidden_size)?,
            normed: rows(config.hidden_size)?,
            heads: rows(queries + 2 * keys)?,
            context: rows(queries)?,
            projected: rows(config.hidden_size)?,
            inner: rows(config.intermediate_size)?,
        })
    }
}

/// Keys and values of a text, and how its positions are told.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Tokens there is room for.
    pub(crate) capacity: usize,
    /// Of each layer: keys and values, `[capacity, kv_heads × head_dim]` each, in f16.
    pub(crate) layers: Vec<[Buffer; 2]>,
    /// Cosines and sines, `[capacity, pairs, 2]`.
    pub(crate) global: Option<Buffer>,
    pub(crate) local: Option<Buffer>,
}

impl Memory {
    pub(crate) fn new(gpu: &Gpu, config: &ModelConfig, capacity: usize) -> Result<Self, GpuError> {
        let width = config.kv_heads * config.head_dim;
        // Rows are multiples of four numbers; two of them are a word.
        let halves = || gpu.numbers("a layer's keys or values", capacity * width / 2);
        let layers = (0..config.layers).map(|_| Ok([halves()?, halves()?])).collect::<Result<_, GpuError>>()?;
        let angles = |rotary: &Rotary| gpu.holding("the angles of positions", &angles(rotary, config, capacity));
        let (global, local) = match &config.block.position {
            Position::Rotary { global, local, .. } => (Some(angles(global)?), local.as_ref().map(angles).transpose()?),
            Position::Learned { .. } => (None, None),
        };
        Ok(Self { capacity, layers, global, local })
    }

    /// Gives its buffers back at once, and not when a browser collects garbage.
    pub(crate) fn destroy(&self) {
        self.layers.iter().flatten().chain(&self.global).chain(&self.local).for_each(Buffer::destroy);
    }
}

/// The processor's cosines and sines: those of GPUs are coarse.
fn angles(rotary: &Rotary, config: &ModelConfig, positions: usize) -> Vec<u8> {
    let frequencies = rotary.frequencies(config.head_dim);
    let mut bytes = Vec::with_capacity(8 * positions * frequencies.len());
    for position in 0..positions {
        for frequency in &frequencies {
            let (sin, cos) = libm::sincosf(position as f32 * frequency);
            bytes.extend([cos * rotary.magnitude, sin * rotary.magnitude].into_iter().flat_map(f32::to_le_bytes));
        }
    }
    bytes
}
