//! The Llama architecture over a packed, ragged batch, on tensors.

use candle_core::{DType, Device, Tensor};
use candle_nn::{
    ops::rms_norm,
    rotary_emb::{rope, rope_i},
};
use outrider_models::{Chunk, KvCache, LayerWeights, ModelConfig, RopeLayout, StoredMatrix, StoredModel, feed};

use crate::{
    attention::{Layout, Span},
    cache::{DeviceCache, DevicePages, Pool, slot},
    error::DeviceError,
    matrix::{Matrix, Projections},
};

/// A language model on a device, with the memory of its sessions' KV caches.
#[derive(Debug)]
pub struct DeviceModel {
    config: ModelConfig,
    embedding: Matrix,
    layers: Vec<Layer>,
    norm: Tensor,
    head: Matrix,
    /// Radians per position, `[1, head_dim / 2]`.
    frequencies: Tensor,
    pool: Pool,
    device: Device,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Tensor,
    query_key_value: Projections,
    attention_output: Matrix,
    feed_forward_norm: Tensor,
    gate_up: Projections,
    down: Matrix,
}

/// Rows of next-token logits on the device, of all chunks of a batch.
#[derive(Debug, Clone)]
pub struct BatchRows {
    /// `[wanted, vocab_size]` in f32; none if no row was wanted.
    pub(crate) logits: Option<Tensor>,
    /// For each chunk, where its rows end.
    pub(crate) ends: Vec<usize>,
}

impl BatchRows {
    /// Rows that somebody else computed: `[rows, vocab_size]`, with the end of each chunk's.
    ///
    /// # Errors
    /// If they do not fill the shape, or the device fails.
    pub fn new(logits: Vec<f32>, vocab_size: usize, ends: Vec<usize>, device: &Device) -> Result<Self, DeviceError> {
        let rows = ends.last().copied().unwrap_or(0);
        let logits = if rows == 0 { None } else { Some(Tensor::from_vec(logits, (rows, vocab_size), device)?) };
        Ok(Self { logits, ends })
    }

    /// Which rows are the `index`-th chunk's.
    pub(crate) fn range(&self, index: usize) -> std::ops::Range<usize> {
        let first = if index == 0 { 0 } else { self.ends[index - 1] };
        first..self.ends[index]
    }

    /// All rows of a chunk, brought to main memory.
    ///
    /// # Errors
    /// If the device fails.
    ///
    /// # Panics
    /// If there is no `index`-th chunk.
    pub fn rows(&self, index: usize) -> Result<Vec<Vec<f32>>, DeviceError> {
        let rows = self.range(index);
        match &self.logits {
            Some(logits) if !rows.is_empty() => Ok(logits.narrow(0, rows.start, rows.len())?.to_vec2()?),
            _ => Ok(Vec::new()),
        }
    }
}

impl DeviceModel {
    /// Brings a model to the device, with `kv_bytes` for the KV caches of all its sessions.
    ///
    /// Keys and values are of the type of the weights, f16 where those are quantized; on the CPU all is f32.
    ///
    /// # Errors
    /// If the device has too little memory.
    pub fn new(model: StoredModel, device: &Device, kv_bytes: usize) -> Result<Self, DeviceError> {
        let StoredModel { config, weights } = model;
        let embedding = Matrix::load("the embedding table", weights.embedding, device)?;
        let head = match weights.head {
            Some(head) => Matrix::load("the output head", head, device)?,
            None => embedding.clone(),
        };
        let layers = weights.layers.into_iter().map(|layer| Layer::load(layer, device));
        let layers = layers.collect::<Result<Vec<_>, _>>()?;
        let frequencies = config.rope_frequencies();
        let frequencies = Tensor::from_vec(frequencies, (1, config.head_dim / 2), device)?;
        let stored = layers.first().map_or(DType::F32, |layer| layer.query_key_value.activation_type());
        let dtype = if device.is_cpu() { DType::F32 } else { stored };
        let pool = Pool::new(&config, dtype, kv_bytes, device)?;
        let norm = Tensor::new(weights.norm, device)?;
        Ok(Self { config, embedding, layers, norm, head, frequencies, pool, device: device.clone() })
    }

    /// Shape and constants.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Where it is.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// An empty cache for a session of this model.
    #[must_use]
    pub fn new_cache(&self) -> DeviceCache {
        KvCache::new(self.pool.pages.clone())
    }

    /// Runs the tokens of all chunks through the model together and leaves, for each wanted position, a row of logits
    /// on the device.
    ///
    /// Where no logits are wanted, the last block computes keys and values only.
    ///
    /// # Errors
    /// [`DeviceError`] says what is wrong. The caches then hold what they held.
    pub fn forward(&self, batch: &mut [Chunk<'_, DevicePages>]) -> Result<BatchRows, DeviceError> {
        feed(&self.config, &self.pool.pages, batch, |batch| self.run(batch))
    }

    fn run(&self, batch: &[Chunk<'_, DevicePages>]) -> Result<BatchRows, DeviceError> {
        let mut ends = Vec::with_capacity(batch.len());
        let (mut tokens, mut wanted) = (Vec::new(), Vec::new());
        for chunk in batch {
            wanted.extend(chunk.positions.iter().map(|position| (tokens.len() + position) as u32));
            tokens.extend_from_slice(chunk.tokens);
            ends.push(wanted.len());
        }
        if tokens.is_empty() {
            return Ok(BatchRows { logits: None, ends });
        }
        let all = Rows::new(self, batch, |chunk| (0..chunk.tokens.len()).collect())?;
        let last = match wanted.len() {
            0 => Last::KeysAndValues,
            count if count == tokens.len() => Last::AllRows,
            _ => {
                let rows = Rows::new(self, batch, |chunk| chunk.positions.to_vec())?;
                Last::Wanted(Tensor::new(wanted, &self.device)?, rows)
            }
        };
        let slots = self.slots(batch)?;
        let mut hidden = self.embedding.embed(&Tensor::new(tokens, &self.device)?)?;
        let epsilon = self.config.rms_norm_eps;
        for (index, (layer, pool)) in self.layers.iter().zip(&self.pool.layers).enumerate() {
            let normed = rms_norm(&hidden, &layer.attention_norm, epsilon)?;
            let [mut query, key, value] = layer.query_key_value(&normed)?;
            let key = self.turn(&key, self.config.kv_heads, &all)?.reshape(value.dims())?;
            pool.scatter_set(&slots, &Tensor::cat(&[key, value], 1)?.to_dtype(pool.dtype())?, 0)?;
            let mut rows = &all;
            if index + 1 == self.layers.len() {
                match &last {
                    Last::KeysAndValues => return Ok(BatchRows { logits: None, ends }),
                    Last::AllRows => {}
                    Last::Wanted(wanted, wanted_rows) => {
                        hidden = hidden.index_select(wanted, 0)?;
                        query = query.index_select(wanted, 0)?;
                        rows = wanted_rows;
                    }
                }
            }
            let query = self.turn(&query, self.config.heads, rows)?;
            let context = rows.layout.attend(&query, pool)?;
            let context = context.reshape((hidden.dim(0)?, self.config.heads * self.config.head_dim))?;
            hidden = (hidden + layer.attention_output.multiply(&context)?)?;
            let normed = rms_norm(&hidden, &layer.feed_forward_norm, epsilon)?;
            hidden = (&hidden + layer.feed_forward(&normed)?)?;
        }
        let normed = rms_norm(&hidden, &self.norm, epsilon)?;
        let (logits, tokens) = (self.head.multiply(&normed)?, self.config.vocab_size);
        // The head may have rows behind the last token.
        let logits = if logits.dim(1)? > tokens { logits.narrow(1, 0, tokens)?.contiguous()? } else { logits };
        Ok(BatchRows { logits: Some(logits), ends })
    }

    /// Where the forward pass's keys and values go, an index for each of their elements:
    /// `[rows, 2 × kv_heads × head_dim]`.
    fn slots(&self, batch: &[Chunk<'_, DevicePages>]) -> Result<Tensor, DeviceError> {
        let slots: Vec<u32> = batch
            .iter()
            .flat_map(|chunk| {
                let held = chunk.cache.len();
                (held..held + chunk.tokens.len()).map(move |index| slot(chunk.cache, index) as u32)
            })
            .collect();
        let (count, width) = (slots.len(), 2 * self.config.kv_heads * self.config.head_dim);
        Ok(Tensor::from_vec(slots, (count, 1), &self.device)?.broadcast_as((count, width))?.contiguous()?)
    }

    /// Turns every head by its row's position: `[rows, heads × head_dim]` to `[rows × heads, head_dim]`.
    fn turn(&self, x: &Tensor, heads: usize, rows: &Rows) -> Result<Tensor, DeviceError> {
        let head_dim = self.config.head_dim;
        let x = x.reshape((rows.count, heads, 1, head_dim))?;
        let turned = match self.config.rope_layout {
            RopeLayout::Interleaved => rope_i(&x, &rows.cos, &rows.sin)?,
            RopeLayout::HalfSplit => rope(&x, &rows.cos, &rows.sin)?,
        };
        Ok(turned.reshape((rows.count * heads, head_dim))?)
    }
}

/// What the last block computes: only rows that lead to logits matter beyond their keys and values.
enum Last {
    KeysAndValues,
    AllRows,
    Wanted(Tensor, Rows),
}

/// Rows of a forward pass: their positions in the texts, and what they attend to.
struct Rows {
    count: usize,
    /// `[rows, 1, head_dim / 2]`.
    cos: Tensor,
    sin: Tensor,
    layout: Layout,
}

impl Rows {
    /// Those rows of each chunk that `chosen` gives, as indices into its tokens.
    fn new(
        model: &DeviceModel,
        batch: &[Chunk<'_, DevicePages>],
        chosen: impl Fn(&Chunk<'_, DevicePages>) -> Vec<usize>,
    ) -> Result<Self, DeviceError> {
        let span = |chunk| {
            let Chunk { cache, .. }: &Chunk<'_, DevicePages> = chunk;
            let held = cache.len();
            Span { cache, visible: chosen(chunk).into_iter().map(|index| held + index + 1).collect() }
        };
        let spans: Vec<Span<'_>> = batch.iter().map(span).collect();
        let positions: Vec<f32> =
            spans.iter().flat_map(|span| span.visible.iter().map(|&visible| (visible - 1) as f32)).collect();
        let count = positions.len();
        let angles = Tensor::from_vec(positions, (count, 1), &model.device)?.broadcast_mul(&model.frequencies)?;
        let angles = angles.unsqueeze(1)?;
        let layout = Layout::new(&spans, &model.config, &model.device)?;
        Ok(Self { count, cos: angles.cos()?, sin: angles.sin()?, layout })
    }
}

impl Layer {
    fn load(layer: LayerWeights<StoredMatrix>, device: &Device) -> Result<Self, DeviceError> {
        Ok(Self {
            attention_norm: Tensor::new(layer.attention_norm, device)?,
            query_key_value: Projections::load(
                "a block's query, key and value",
                vec![layer.query, layer.key, layer.value],
                device,
            )?,
            attention_output: Matrix::load("a block's attention output", layer.attention_output, device)?,
            feed_forward_norm: Tensor::new(layer.feed_forward_norm, device)?,
            gate_up: Projections::load("a block's gate and up", vec![layer.gate, layer.up], device)?,
            down: Matrix::load("a block's down", layer.down, device)?,
        })
    }

    fn query_key_value(&self, normed: &Tensor) -> Result<[Tensor; 3], DeviceError> {
        let products = self.query_key_value.multiply(normed)?;
        products.try_into().map_err(|_| candle_core::Error::Msg("three projections".to_owned()).into())
    }

    fn feed_forward(&self, normed: &Tensor) -> candle_core::Result<Tensor> {
        let mut gated = self.gate_up.multiply(normed)?.into_iter();
        let (Some(gate), Some(up)) = (gated.next(), gated.next()) else {
            candle_core::bail!("two projections");
        };
        self.down.multiply(&(gate.silu()? * up)?)
    }
}
