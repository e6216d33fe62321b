//! The Llama architecture over a packed, ragged batch.

use std::io::Read;

use crate::{
    attention::{RowSpan, attend},
    cache::{KvCache, LayerCache},
    config::ModelConfig,
    error::{LoadError, ModelError},
    kernels::{add_assign, gated_silu, pool::in_pool, rms_norm},
    linear::Linear,
    loader::{GgufLoader, SafetensorsLoader, read_to_end},
    logits::Logits,
    rope::{Angles, Rope},
    weights::{LayerWeights, ModelWeights},
};

/// A language model of the Llama architecture: RMSNorm, rotary positions, grouped-query attention, SwiGLU,
/// output head tied to the embedding table or not. Weights only; what a sequence has seen is in its
/// [`KvCache`], so that one model serves any number of sequences.
pub struct Model {
    config: ModelConfig,
    weights: ModelWeights,
    rope: Rope,
}

/// What one sequence contributes to a batch.
#[derive(Debug)]
pub struct Chunk<'a> {
    /// The sequence's past. Grows by `tokens` if the forward pass succeeds.
    pub cache: &'a mut KvCache,
    /// Tokens that follow those in the cache. May be empty.
    pub tokens: &'a [u32],
    /// Indices into `tokens` after which next-token logits are wanted; strictly ascending, may be empty.
    pub positions: &'a [usize],
}

impl Model {
    /// Loads a GGUF file of architecture `llama`, from the reader's position to its end, as a
    /// [`GgufLoader`](crate::GgufLoader) that does not know its length.
    ///
    /// Weights: F32, F16, BF16 and the block types Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K; norms F32, F16
    /// or BF16. They go straight to where they stay; beyond them, memory is one piece of the file.
    ///
    /// # Errors
    /// Any file gives a model or a [`LoadError`], never a panic, and nothing is allocated that the file
    /// does not hold. Features that are not implemented are refused.
    pub fn from_gguf<R: Read>(reader: &mut R) -> Result<Self, LoadError> {
        let mut loader = GgufLoader::new(None);
        read_to_end(reader, |piece| loader.push(piece))?;
        loader.finish()
    }

    /// Loads a Hugging Face `LlamaForCausalLM` from the bytes of `config.json` and `model.safetensors`.
    ///
    /// Weights: F32, F16 or BF16; products are computed in f32.
    ///
    /// # Errors
    /// As for [`from_gguf`](Self::from_gguf).
    pub fn from_safetensors(config_json: &[u8], weights: &[u8]) -> Result<Self, LoadError> {
        let mut loader = SafetensorsLoader::new(config_json, Some(weights.len() as u64))?;
        loader.push(weights)?;
        loader.finish()
    }

    /// Opens a `.gguf` file, a `.safetensors` file with `config.json` next to it, or a folder that holds
    /// `model.safetensors` and `config.json`.
    ///
    /// # Errors
    /// As for [`from_gguf`](Self::from_gguf), and [`LoadError::UnknownFormat`] for other paths.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(path: &std::path::Path) -> Result<Self, LoadError> {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let (config, weights) = match extension {
            _ if path.is_dir() => (path.join("config.json"), path.join("model.safetensors")),
            Some("safetensors") => (path.with_file_name("config.json"), path.to_owned()),
            Some("gguf") => {
                let mut file = std::fs::File::open(path)?;
                let mut loader = GgufLoader::new(Some(file.metadata()?.len()));
                read_to_end(&mut file, |piece| loader.push(piece))?;
                return loader.finish();
            }
            _ => return Err(LoadError::UnknownFormat { path: path.display().to_string() }),
        };
        let config = std::fs::read(config)?;
        let mut file = std::fs::File::open(weights)?;
        let mut loader = SafetensorsLoader::new(&config, Some(file.metadata()?.len()))?;
        read_to_end(&mut file, |piece| loader.push(piece))?;
        loader.finish()
    }

    /// Shape and constants.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// An empty cache for a sequence of this model.
    #[must_use]
    pub fn new_cache(&self) -> KvCache {
        KvCache::new(&self.config)
    }

    /// Runs the tokens of all chunks through the model together and returns, for each chunk, a row of
    /// logits and the hidden state it comes from per wanted position.
    ///
    /// The tokens of all chunks form one matrix in the linear layers; attention is per sequence. The logits
    /// of a position are bit-identical however its tokens were grouped into calls and whatever other
    /// chunks there were, on the same machine and build. Where no logits are wanted, the last block computes
    /// keys and values only. Memory beyond the caches is about
    /// `4 × tokens × (4 × hidden + 2 × intermediate)` bytes plus the logits; feed long prompts in pieces.
    ///
    /// # Errors
    /// [`ModelError`] says which chunk is wrong and how. The caches are then as they were.
    pub fn forward(&self, batch: &mut [Chunk<'_>]) -> Result<Vec<Logits>, ModelError> {
        for (index, chunk) in batch.iter().enumerate() {
            self.check(index, chunk)?;
        }
        let pass = Pass::new(self, batch);
        let multiplications = pass.tokens.len() * self.weights.multiplications();
        let (values, hidden) = in_pool(multiplications, || pass.run(batch));
        for chunk in batch.iter_mut() {
            chunk.cache.commit(chunk.tokens.len());
        }
        let (vocab_size, hidden_size) = (self.config.vocab_size, self.config.hidden_size);
        let (mut values, mut hidden) = (values.into_iter(), hidden.into_iter());
        let logits = |chunk: &Chunk<'_>| {
            let rows = chunk.positions.len();
            let values = values.by_ref().take(rows * vocab_size).collect();
            let hidden = hidden.by_ref().take(rows * hidden_size).collect();
            Logits::new(values, vocab_size, hidden, hidden_size)
        };
        Ok(batch.iter().map(logits).collect())
    }

    pub(crate) fn new(config: ModelConfig, weights: ModelWeights) -> Self {
        let rope = Rope::new(&config);
        Self { config, weights, rope }
    }

    fn check(&self, chunk_index: usize, chunk: &Chunk<'_>) -> Result<(), ModelError> {
        let config = &self.config;
        if !chunk.cache.fits(config) {
            return Err(ModelError::CacheMismatch { chunk: chunk_index });
        }
        let (cached, added) = (chunk.cache.len(), chunk.tokens.len());
        if added > config.context_length - cached {
            let context_length = config.context_length;
            return Err(ModelError::ContextExceeded { chunk: chunk_index, cached, added, context_length });
        }
        for (index, &token) in chunk.tokens.iter().enumerate() {
            if token as usize >= config.vocab_size {
                let vocab_size = config.vocab_size;
                return Err(ModelError::TokenOutOfRange { chunk: chunk_index, index, token, vocab_size });
            }
        }
        let mut lowest = 0;
        for &position in chunk.positions {
            if position < lowest || position >= added {
                return Err(ModelError::Position { chunk: chunk_index, position, tokens: added });
            }
            lowest = position + 1;
        }
        Ok(())
    }
}

/// One forward pass: the rows of the packed batch.
struct Pass<'m> {
    model: &'m Model,
    tokens: Vec<u32>,
    spans: Vec<RowSpan>,
    /// Number of rows of each chunk.
    lengths: Vec<usize>,
    /// Rows whose logits are wanted, ascending.
    wanted: Vec<usize>,
}

/// Buffers that every block reuses.
#[derive(Default)]
struct Scratch {
    normed: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    context: Vec<f32>,
    projected: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
}

impl<'m> Pass<'m> {
    fn new(model: &'m Model, batch: &[Chunk<'_>]) -> Self {
        let mut pass = Self { model, tokens: Vec::new(), spans: Vec::new(), lengths: Vec::new(), wanted: Vec::new() };
        for (sequence, chunk) in batch.iter().enumerate() {
            let first = pass.tokens.len();
            pass.wanted.extend(chunk.positions.iter().map(|position| first + position));
            pass.lengths.push(chunk.tokens.len());
            pass.tokens.extend(chunk.tokens);
            let visible = (1..=chunk.tokens.len()).map(|new| chunk.cache.len() + new);
            pass.spans.extend(visible.map(|visible| RowSpan { sequence, visible }));
        }
        pass
    }

    /// Stages keys and values in the caches and returns the wanted logits, `[wanted, vocab_size]`, and the normed
    /// hidden states that the head makes them from, `[wanted, hidden_size]`.
    fn run(mut self, batch: &mut [Chunk<'_>]) -> (Vec<f32>, Vec<f32>) {
        let model = self.model;
        if self.tokens.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let mut hidden = model.weights.embedding.embed(&self.tokens);
        let positions: Vec<usize> = self.spans.iter().map(|span| span.visible - 1).collect();
        let mut angles = model.rope.angles(&positions);
        let mut scratch = Scratch::default();
        let last = model.weights.layers.len() - 1;
        for (index, layer) in model.weights.layers.iter().enumerate() {
            self.stage_keys_and_values(index, layer, &hidden, &angles, &mut scratch, batch);
            if index == last {
                // From here on only rows that lead to logits matter.
                if self.wanted.is_empty() {
                    return (Vec::new(), Vec::new());
                }
                if self.wanted.len() < self.spans.len() {
                    let width = model.config.hidden_size;
                    hidden = gather(&hidden, width, &self.wanted);
                    scratch.normed = gather(&scratch.normed, width, &self.wanted);
                    self.spans = self.wanted.iter().map(|&row| self.spans[row]).collect();
                    let positions: Vec<usize> = self.spans.iter().map(|span| span.visible - 1).collect();
                    angles = model.rope.angles(&positions);
                }
            }
            let caches: Vec<&LayerCache> = batch.iter().map(|chunk| chunk.cache.layer(index)).collect();
            self.attention(layer, &mut hidden, &angles, &mut scratch, &caches);
            self.feed_forward(layer, &mut hidden, &mut scratch);
        }
        rms_norm(&hidden, &model.weights.norm, model.config.rms_norm_eps, &mut scratch.normed);
        let head: &Linear = model.weights.head.as_ref().unwrap_or(&model.weights.embedding);
        let mut logits = Vec::new();
        head.forward(&scratch.normed, &mut logits);
        (logits, scratch.normed)
    }

    fn stage_keys_and_values(
        &self,
        index: usize,
        layer: &LayerWeights,
        hidden: &[f32],
        angles: &Angles,
        scratch: &mut Scratch,
        batch: &mut [Chunk<'_>],
    ) {
        let config = &self.model.config;
        rms_norm(hidden, &layer.attention_norm, config.rms_norm_eps, &mut scratch.normed);
        layer.key.forward(&scratch.normed, &mut scratch.key);
        layer.value.forward(&scratch.normed, &mut scratch.value);
        self.model.rope.rotate(&mut scratch.key, config.kv_heads, angles);
        let width = config.kv_heads * config.head_dim;
        let (mut keys, mut values) = (scratch.key.as_slice(), scratch.value.as_slice());
        for (chunk, rows) in batch.iter_mut().zip(&self.lengths) {
            let (own_keys, other_keys) = keys.split_at(rows * width);
            let (own_values, other_values) = values.split_at(rows * width);
            chunk.cache.stage(index, own_keys, own_values);
            (keys, values) = (other_keys, other_values);
        }
    }

    /// `hidden += attention(normed)`; `scratch.normed` holds the normed rows.
    fn attention(
        &self,
        layer: &LayerWeights,
        hidden: &mut [f32],
        angles: &Angles,
        scratch: &mut Scratch,
        caches: &[&LayerCache],
    ) {
        let config = &self.model.config;
        layer.query.forward(&scratch.normed, &mut scratch.query);
        self.model.rope.rotate(&mut scratch.query, config.heads, angles);
        scratch.context.resize(scratch.query.len(), 0.0);
        attend(config, &scratch.query, &self.spans, caches, &mut scratch.context);
        layer.attention_output.forward(&scratch.context, &mut scratch.projected);
        add_assign(hidden, &scratch.projected);
    }

    /// `hidden += feed_forward(norm(hidden))`.
    fn feed_forward(&self, layer: &LayerWeights, hidden: &mut [f32], scratch: &mut Scratch) {
        let epsilon = self.model.config.rms_norm_eps;
        rms_norm(hidden, &layer.feed_forward_norm, epsilon, &mut scratch.normed);
        layer.gate.forward(&scratch.normed, &mut scratch.gate);
        layer.up.forward(&scratch.normed, &mut scratch.up);
        gated_silu(&mut scratch.gate, &scratch.up);
        layer.down.forward(&scratch.gate, &mut scratch.projected);
        add_assign(hidden, &scratch.projected);
    }
}

/// The given rows of `x`, `[…, width]`.
fn gather(x: &[f32], width: usize, rows: &[usize]) -> Vec<f32> {
    rows.iter().flat_map(|row| &x[row * width..(row + 1) * width]).copied().collect()
}
