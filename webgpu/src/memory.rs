//! Buffers of a forward pass, and the KV cache of a text.

use outrider_models::{DraftVocabulary, ModelConfig, Position, Rotary};
use wgpu::Buffer;

use crate::{error::GpuError, gpu::Gpu, kernels::MOST_IN_FOURS, listed::Listing};

/// Maximum number of rows in a forward pass, a multiple of the rows per workgroup ([`Tile`](crate::kernels::Tile)).
pub(crate) const MOST_ROWS: usize = 64;
/// Maximum number of logit rows of a forward pass.
pub(crate) const MOST_LOGITS: usize = 8;
// Kernels compute and write whole tiles; buffers of logits have no space for tiles of 32 rows.
const _: () = assert!(MOST_ROWS.is_multiple_of(32) && MOST_LOGITS <= MOST_IN_FOURS && MOST_LOGITS.is_multiple_of(4));
/// Maximum number of guesses per read-back.
pub(crate) const MOST_GUESSES: usize = 32;

/// Buffers of a forward pass.
#[derive(Debug)]
pub(crate) struct Rows {
    /// Token ids to read, shape: `[MOST_ROWS]`
    pub(crate) ids: Buffer,
    /// Contents of the shaders' `Step`.
    pub(crate) step: Buffer,
    /// Rows of logits, shape: `[MOST_LOGITS, vocab_size]`
    pub(crate) logits: Buffer,
    /// Output of a head with rows for some tokens, if the model has one.
    pub(crate) trimmed: Option<Trimmed>,
    /// Contents of the shaders' `Choice`.
    pub(crate) choice: Buffer,
    /// Guesses and the second-best tokens. shape: `[MOST_GUESSES, 2]`
    pub(crate) chosen: Buffer,
    /// Best tokens of each workgroup, and their sums.
    pub(crate) best: Buffer,
    pub(crate) sums: Buffer,
    /// Layout of lists, and the lists. shape: `[MOST_LOGITS, words of a list]`
    pub(crate) listing: Listing,
    pub(crate) lists: Buffer,
    /// Largest logit of each piece of a row; then, for each row, the lower bound of listed logits and the largest
    /// logit.
    pub(crate) largest: Buffer,
    pub(crate) bounds: Buffer,
    /// Hidden states before the output head. shape: `[MOST_ROWS, hidden_size]`
    pub(crate) final_hidden: Buffer,
    pub(crate) hidden: Buffer,
    pub(crate) normed: Buffer,
    /// Projections of each row: queries, keys, values.
    pub(crate) heads: Buffer,
    pub(crate) context: Buffer,
    pub(crate) projected: Buffer,
    /// Activations inside the feed-forward part. shape: `[MOST_ROWS, intermediate_size]`
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
            trimmed: config.draft_vocabulary.as_ref().map(|known| Trimmed::new(gpu, config, known)).transpose()?,
            choice: gpu.numbers("what guesses are chosen by", 6)?,
            chosen: gpu.numbers("guesses", 2 * MOST_GUESSES)?,
            best: gpu.numbers("the best guesses of each workgroup", 6 * listing.groups)?,
            sums: gpu.numbers("sums of each workgroup", 5 * listing.groups)?,
            lists: gpu.numbers("the largest logits", MOST_LOGITS * listing.words())?,
            largest: gpu.numbers("the largest logits of pieces", MOST_LOGITS * listing.all_pieces().max(1))?,
            bounds: gpu.numbers("bounds of rows", 2 * MOST_LOGITS)?,
            listing,
            // The final norm covers all rows, because the product works on whole groups of them.
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

/// Output of a head with rows for some tokens of the vocabulary.
#[derive(Debug)]
pub(crate) struct Trimmed {
    /// Logits of the head, shape: `[MOST_LOGITS, stride]`
    pub(crate) logits: Buffer,
    /// Number of rows of the head; a table of embeddings that is also the head has one more, for all other tokens.
    pub(crate) rows: usize,
    pub(crate) stride: usize,
    /// Row of each token, or the number of rows, shape: `[vocab_size]`
    pub(crate) row_of: Buffer,
}

impl Trimmed {
    fn new(gpu: &Gpu, config: &ModelConfig, known: &DraftVocabulary) -> Result<Self, GpuError> {
        let stride = known.rows + usize::from(config.tied_embeddings);
        let row_of = (0..config.vocab_size as u32).flat_map(|token| known.row_of(token).to_le_bytes());
        Ok(Self {
            logits: gpu.numbers("logits of the tokens that the draft knows", MOST_LOGITS * stride)?,
            rows: known.rows,
            stride,
            row_of: gpu.holding("rows of tokens", &row_of.collect::<Vec<u8>>())?,
        })
    }
}

/// KV cache of a text, and the rotary angles of its positions.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Capacity of the cache in tokens.
    pub(crate) capacity: usize,
    /// Keys and values of each layer, `[capacity, kv_heads × head_dim]` each, in f16.
    pub(crate) layers: Vec<[Buffer; 2]>,
    /// Cosines and sines, `[capacity, pairs, 2]`.
    pub(crate) global: Option<Buffer>,
    pub(crate) local: Option<Buffer>,
}

impl Memory {
    pub(crate) fn new(gpu: &Gpu, config: &ModelConfig, capacity: usize) -> Result<Self, GpuError> {
        let width = config.kv_heads * config.head_dim;
        // Rows are multiples of four numbers, and two numbers fit into a word.
        let halves = || gpu.numbers("a layer's keys or values", capacity * width / 2);
        let layers = (0..config.layers).map(|_| Ok([halves()?, halves()?])).collect::<Result<_, GpuError>>()?;
        let angles = |rotary: &Rotary| gpu.holding("the angles of positions", &angles(rotary, config, capacity));
        let (global, local) = match &config.block.position {
            Position::Rotary { global, local, .. } => (Some(angles(global)?), local.as_ref().map(angles).transpose()?),
            Position::Learned { .. } => (None, None),
        };
        Ok(Self { capacity, layers, global, local })
    }

    /// Frees the buffers at once, instead of during a browser's garbage collection.
    pub(crate) fn destroy(&self) {
        self.layers.iter().flatten().chain(&self.global).chain(&self.local).for_each(Buffer::destroy);
    }
}

/// Cosines and sines from the CPU, because those of GPUs are imprecise.
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
