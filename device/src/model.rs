//! Forward pass over a packed, ragged batch of tensors: an interpreter of [`Block`](outrider_models::Block).

use candle_core::{Device, Tensor};
use candle_nn::{
    ops::{layer_norm, rms_norm},
    rotary_emb::{rope, rope_i},
};
use outrider_models::{
    Activation, Chunk, ElementType, FeedForward, KvCache, LayerWeights, ModelConfig, Norm, Position, RopeLayout,
    Rotary, RotaryScope, StoredMatrix, StoredModel, feed,
};

use crate::{
    attention::{Layout, Scores, Span, soft_cap},
    cache::{DeviceCache, DevicePages, Pool, PoolSize, slot},
    error::DeviceError,
    gpu::memory,
    matrix::{Matrix, Projections, activation_type},
    plan::Plan,
};

/// Language model on a device, with the memory of its sessions' KV caches.
#[derive(Debug)]
pub struct DeviceModel {
    config: ModelConfig,
    embedding: Matrix,
    positions: Option<Matrix>,
    layers: Vec<Layer>,
    norm: Scales,
    head: Matrix,
    /// Rotary frequencies of all layers except local ones.
    global: Option<Frequencies>,
    local: Option<Frequencies>,
    pool: Pool,
    device: Device,
}

#[derive(Debug)]
struct Layer {
    attention_norm: Option<Scales>,
    query_key_value: Projections,
    /// Biases of queries, keys and values.
    biases: [Option<Tensor>; 3],
    /// Norm scales of queries and of keys.
    head_norms: [Option<Tensor>; 2],
    attention_output: Matrix,
    attention_output_bias: Option<Tensor>,
    after_attention_norm: Option<Tensor>,
    feed_forward_norm: Option<Scales>,
    /// Gate projection, if there is one, and up projection.
    widening: Projections,
    widening_biases: Vec<Option<Tensor>>,
    down: Matrix,
    down_bias: Option<Tensor>,
    after_feed_forward_norm: Option<Tensor>,
}

/// Scales and biases of a norm.
#[derive(Debug)]
struct Scales {
    scales: Tensor,
    biases: Option<Tensor>,
}

/// Frequencies of a rotary embedding.
#[derive(Debug)]
struct Frequencies {
    /// Radians per position, `[1, rotated / 2]`.
    radians: Tensor,
    rotary: Rotary,
}

/// Next-token logits of all chunks in a batch, on the device.
#[derive(Debug, Clone)]
pub struct BatchRows {
    /// Logits, `[wanted, vocab_size]` in f32; `None` if no row was requested.
    pub(crate) logits: Option<Tensor>,
    /// End of each chunk's rows, as a row index.
    pub(crate) ends: Vec<usize>,
}

impl BatchRows {
    /// Creates rows from logits computed elsewhere: `[rows, vocab_size]`, with the end of each chunk's rows.
    ///
    /// # Errors
    /// [`DeviceError::Device`] if the length does not match the shape, or if the device fails.
    pub fn new(logits: Vec<f32>, vocab_size: usize, ends: Vec<usize>, device: &Device) -> Result<Self, DeviceError> {
        let rows = ends.last().copied().unwrap_or(0);
        let logits = if rows == 0 { None } else { Some(Tensor::from_vec(logits, (rows, vocab_size), device)?) };
        Ok(Self { logits, ends })
    }

    /// Range of rows of the chunk at `index`.
    pub(crate) fn range(&self, index: usize) -> std::ops::Range<usize> {
        let first = if index == 0 { 0 } else { self.ends[index - 1] };
        first..self.ends[index]
    }

    /// Copies all rows of a chunk to main memory.
    ///
    /// # Errors
    /// [`DeviceError::Device`] if the device fails.
    ///
    /// # Panics
    /// If `index` is not below the number of chunks.
    pub fn rows(&self, index: usize) -> Result<Vec<Vec<f32>>, DeviceError> {
        let rows = self.range(index);
        match &self.logits {
            Some(logits) if !rows.is_empty() => Ok(logits.narrow(0, rows.start, rows.len())?.to_vec2()?),
            _ => Ok(Vec::new()),
        }
    }
}

impl DeviceModel {
    /// Copies a model to the device and allocates `kv_bytes` for the KV caches of all sessions.
    ///
    /// Keys and values have the type of the weights, or f16 if those are quantized. On the CPU everything is f32.
    ///
    /// # Errors
    /// [`DeviceError`] if the device lacks memory, which is checked before anything is copied, or if a weight type has
    /// no kernels.
    pub fn new(model: StoredModel, device: &Device, kv_bytes: usize) -> Result<Self, DeviceError> {
        if let Some(vocabulary) = &model.config.draft_vocabulary {
            let (rows, vocab_size) = (vocabulary.rows, model.config.vocab_size);
            return Err(DeviceError::DraftVocabulary { rows, vocab_size });
        }
        if let Some(experts) = &model.config.block.experts {
            return Err(DeviceError::Experts { count: experts.count });
        }
        let element = model.weights.layers.first().map_or(ElementType::F32, |layer| layer.query.element);
        let pool = PoolSize::within(kv_bytes, &model.config, activation_type(element, device));
        if let Some(memory) = memory(device)? {
            let plan = Plan::of(&model, pool.bytes());
            if let Some(advice) = plan.lacks(memory) {
                return Err(DeviceError::TooLarge { plan, memory, advice });
            }
        }
        let StoredModel { config, weights } = model;
        let embedding = Matrix::load("the embedding table", weights.embedding, device)?;
        let head = match weights.head {
            Some(head) => Matrix::load("the output head", head, device)?,
            None => embedding.clone(),
        };
        let layers = weights.layers.into_iter().map(|layer| Layer::load(layer, device));
        let layers = layers.collect::<Result<Vec<_>, _>>()?;
        let frequencies = |rotary: &Rotary| -> Result<Frequencies, DeviceError> {
            let radians = rotary.frequencies(config.head_dim);
            let radians = Tensor::from_vec(radians, (1, rotary.rotated(config.head_dim) / 2), device)?;
            Ok(Frequencies { radians, rotary: rotary.clone() })
        };
        let (global, local) = match &config.block.position {
            Position::Rotary { global, local, .. } => {
                (Some(frequencies(global)?), local.as_ref().map(frequencies).transpose()?)
            }
            Position::Learned { .. } => (None, None),
        };
        let positions = weights.positions.map(|table| Matrix::load("the table of positions", table, device));
        let positions = positions.transpose()?;
        let pool = Pool::new(config.layers, pool, device)?;
        let norm = Scales::load(weights.norm, weights.norm_bias, device)?;
        Ok(Self { config, embedding, positions, layers, norm, head, global, local, pool, device: device.clone() })
    }

    /// Shape and constants of the model.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Device that holds the model.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Creates an empty cache for a session of this model.
    #[must_use]
    pub fn new_cache(&self) -> DeviceCache {
        KvCache::new(self.pool.pages.clone())
    }

    /// Runs the tokens of all chunks through the model. Leaves one row of logits on the device for each requested
    /// position.
    ///
    /// For rows without requested logits, the last block computes only keys and values.
    ///
    /// # Errors
    /// [`DeviceError`] describes the cause. The caches are then unchanged.
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
        let mut hidden = self.embed(tokens, &all)?;
        let ModelConfig { heads, kv_heads, head_dim, ref block, norm_epsilon: epsilon, .. } = self.config;
        for (index, (layer, pool)) in self.layers.iter().zip(&self.pool.layers).enumerate() {
            let normed = self.normed(&layer.attention_norm, &hidden)?;
            let [mut query, key, value] = layer.query_key_value(&normed)?;
            let key = head_norm(key, &layer.head_norms[1], epsilon)?;
            let key = self.rotate(index, &key, kv_heads, &all)?.reshape(value.dims())?;
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
            let query = head_norm(query, &layer.head_norms[0], epsilon)?;
            let query = self.rotate(index, &query, heads, rows)?;
            let scores = Scores { scale: self.config.score_scale(), softcap: block.score_softcap };
            let context = rows.layout.attend(&query, pool, scores, block.window(index).is_some())?;
            let context = context.reshape((hidden.dim(0)?, heads * head_dim))?;
            let attended = add_bias(layer.attention_output.multiply(&context)?, &layer.attention_output_bias)?;
            hidden = self.add(hidden, attended, &layer.after_attention_norm)?;
            let normed = self.normed(&layer.feed_forward_norm, &hidden)?;
            let fed = layer.feed_forward(&normed, block.feed_forward)?;
            hidden = self.add(hidden, fed, &layer.after_feed_forward_norm)?;
        }
        let normed = self.norm.apply(&hidden, block.norm, epsilon)?;
        let (logits, tokens) = (self.head.multiply(&normed)?, self.config.vocab_size);
        // The head may have more rows than there are tokens.
        let logits = if logits.dim(1)? > tokens { logits.narrow(1, 0, tokens)?.contiguous()? } else { logits };
        let logits = scaled(logits, block.logit_scale)?;
        let logits = if let Some(cap) = block.logit_softcap { soft_cap(&logits, cap)? } else { logits };
        Ok(BatchRows { logits: Some(logits), ends })
    }

    fn embed(&self, tokens: Vec<u32>, rows: &Rows) -> Result<Tensor, DeviceError> {
        let hidden = self.embedding.embed(&Tensor::new(tokens, &self.device)?)?;
        let hidden = scaled(hidden, self.config.block.embedding_scale)?;
        match (&self.positions, &self.config.block.position) {
            (Some(table), Position::Learned { offset }) => {
                let places: Vec<u32> = rows.places.iter().map(|place| (place + offset) as u32).collect();
                Ok((hidden + table.embed(&Tensor::new(places, &self.device)?)?)?)
            }
            _ => Ok(hidden),
        }
    }

    /// Input of a part: the norm of `hidden`, or `hidden` itself.
    fn normed(&self, norm: &Option<Scales>, hidden: &Tensor) -> candle_core::Result<Tensor> {
        match norm {
            Some(norm) => norm.apply(hidden, self.config.block.norm, self.config.norm_epsilon),
            None => Ok(hidden.clone()),
        }
    }

    /// Computes hidden + scale · norm(part).
    fn add(&self, hidden: Tensor, part: Tensor, norm: &Option<Tensor>) -> candle_core::Result<Tensor> {
        let part = match norm {
            Some(scales) => rms_norm(&part, scales, self.config.norm_epsilon)?,
            None => part,
        };
        hidden + scaled(part, self.config.block.residual_scale)?
    }

    /// Slots for the keys and values of the pass, one index per element: `[rows, 2 × kv_heads × head_dim]`.
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

    /// Applies the layer's rotary embedding to every head of every row: `[rows, heads × head_dim]` to `[rows × heads,
    /// head_dim]`.
    fn rotate(&self, layer: usize, x: &Tensor, heads: usize, rows: &Rows) -> Result<Tensor, DeviceError> {
        let head_dim = self.config.head_dim;
        let flat = (rows.count * heads, head_dim);
        let rotary = self.config.block.rotary_scope(layer).and_then(|scope| match scope {
            RotaryScope::Global => Some((self.global.as_ref()?, rows.global.as_ref()?)),
            RotaryScope::Local => Some((self.local.as_ref()?, rows.local.as_ref()?)),
        });
        let Some((Frequencies { rotary, .. }, Angles { cos, sin })) = rotary else { return Ok(x.reshape(flat)?) };
        let x = x.reshape((rows.count, heads, 1, head_dim))?;
        let rotated = rotary.rotated(head_dim);
        let part = if rotated < head_dim { x.narrow(3, 0, rotated)?.contiguous()? } else { x.clone() };
        let part = match rotary.layout {
            RopeLayout::Interleaved => rope_i(&part, cos, sin)?,
            RopeLayout::HalfSplit => rope(&part, cos, sin)?,
        };
        let whole = match rotated < head_dim {
            true => Tensor::cat(&[part, x.narrow(3, rotated, head_dim - rotated)?], 3)?,
            false => part,
        };
        Ok(whole.reshape(flat)?)
    }
}

/// Rows of the last block. Rows without requested logits only need keys and values.
enum Last {
    KeysAndValues,
    AllRows,
    Wanted(Tensor, Rows),
}

/// Rows of a forward pass: their positions in the texts, and their visible keys.
struct Rows {
    count: usize,
    places: Vec<usize>,
    global: Option<Angles>,
    local: Option<Angles>,
    layout: Layout,
}

/// Cosines and sines, `[rows, 1, rotated / 2]` each.
struct Angles {
    cos: Tensor,
    sin: Tensor,
}

impl Angles {
    fn new(frequencies: &Frequencies, positions: &Tensor) -> candle_core::Result<Self> {
        let angles = positions.broadcast_mul(&frequencies.radians)?.unsqueeze(1)?;
        let magnitude = frequencies.rotary.magnitude;
        Ok(Self { cos: scaled(angles.cos()?, magnitude)?, sin: scaled(angles.sin()?, magnitude)? })
    }
}

impl Rows {
    /// Creates the rows of each chunk that `chosen` selects, as indices into its tokens.
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
        let places: Vec<usize> = spans.iter().flat_map(|span| span.visible.iter().map(|seen| seen - 1)).collect();
        let count = places.len();
        let positions: Vec<f32> = places.iter().map(|&place| place as f32).collect();
        let positions = Tensor::from_vec(positions, (count, 1), &model.device)?;
        let angles = |frequencies: &Frequencies| Angles::new(frequencies, &positions);
        let global = model.global.as_ref().map(angles).transpose()?;
        let local = model.local.as_ref().map(angles).transpose()?;
        let layout = Layout::new(&spans, &model.config, &model.device)?;
        Ok(Self { count, places, global, local, layout })
    }
}

impl Scales {
    fn load(scales: Vec<f32>, biases: Option<Vec<f32>>, device: &Device) -> Result<Self, DeviceError> {
        Ok(Self { scales: Tensor::new(scales, device)?, biases: vector(biases, device)? })
    }

    fn apply(&self, x: &Tensor, norm: Norm, epsilon: f32) -> candle_core::Result<Tensor> {
        match (norm, &self.biases) {
            (Norm::Layer, Some(biases)) => layer_norm(x, &self.scales, biases, epsilon),
            _ => rms_norm(x, &self.scales, epsilon),
        }
    }
}

fn vector(values: Option<Vec<f32>>, device: &Device) -> candle_core::Result<Option<Tensor>> {
    values.map(|values| Tensor::new(values, device)).transpose()
}

fn add_bias(x: Tensor, bias: &Option<Tensor>) -> candle_core::Result<Tensor> {
    match bias {
        Some(bias) => x.broadcast_add(bias),
        None => Ok(x),
    }
}

fn scaled(x: Tensor, scale: f32) -> candle_core::Result<Tensor> {
    if scale == 1.0 { Ok(x) } else { x * f64::from(scale) }
}

/// RMSNorm of rows, each as long as `scales`.
fn head_norm(x: Tensor, scales: &Option<Tensor>, epsilon: f32) -> candle_core::Result<Tensor> {
    let Some(scales) = scales else { return Ok(x) };
    let width = scales.elem_count();
    rms_norm(&x.reshape((x.elem_count() / width, width))?, scales, epsilon)?.reshape(x.shape())
}

fn activate(x: &Tensor, activation: Activation) -> candle_core::Result<Tensor> {
    match activation {
        Activation::Silu => x.silu(),
        Activation::GeluTanh => x.gelu(),
        Activation::Relu => x.relu(),
    }
}

impl Layer {
    fn load(layer: LayerWeights<StoredMatrix>, device: &Device) -> Result<Self, DeviceError> {
        let scales = |scales: Option<Vec<f32>>, biases| -> Result<Option<Scales>, DeviceError> {
            scales.map(|scales| Scales::load(scales, biases, device)).transpose()
        };
        let vector = |values| vector(values, device);
        let widening_biases = match layer.gate.is_some() {
            true => vec![vector(layer.gate_bias)?, vector(layer.up_bias)?],
            false => vec![vector(layer.up_bias)?],
        };
        let (Some(up), Some(down)) = (layer.up, layer.down) else {
            return Err(DeviceError::Experts { count: layer.experts.len() });
        };
        let widening: Vec<StoredMatrix> = layer.gate.into_iter().chain([up]).collect();
        Ok(Self {
            attention_norm: scales(layer.attention_norm, layer.attention_norm_bias)?,
            query_key_value: Projections::load(
                "a block's query, key and value",
                vec![layer.query, layer.key, layer.value],
                device,
            )?,
            biases: [vector(layer.query_bias)?, vector(layer.key_bias)?, vector(layer.value_bias)?],
            head_norms: [vector(layer.query_norm)?, vector(layer.key_norm)?],
            attention_output: Matrix::load("a block's attention output", layer.attention_output, device)?,
            attention_output_bias: vector(layer.attention_output_bias)?,
            after_attention_norm: vector(layer.after_attention_norm)?,
            feed_forward_norm: scales(layer.feed_forward_norm, layer.feed_forward_norm_bias)?,
            widening: Projections::load("a block's gate and up", widening, device)?,
            widening_biases,
            down: Matrix::load("a block's down", down, device)?,
            down_bias: vector(layer.down_bias)?,
            after_feed_forward_norm: vector(layer.after_feed_forward_norm)?,
        })
    }

    fn query_key_value(&self, normed: &Tensor) -> Result<[Tensor; 3], DeviceError> {
        let products = self.query_key_value.multiply(normed)?;
        let biased = products.into_iter().zip(&self.biases).map(|(product, bias)| add_bias(product, bias));
        let biased = biased.collect::<candle_core::Result<Vec<_>>>()?;
        biased.try_into().map_err(|_| candle_core::Error::Msg("three projections".to_owned()).into())
    }

    fn feed_forward(&self, normed: &Tensor, kind: FeedForward) -> candle_core::Result<Tensor> {
        let wide = self.widening.multiply(normed)?.into_iter().zip(&self.widening_biases);
        let wide = wide.map(|(wide, bias)| add_bias(wide, bias)).collect::<candle_core::Result<Vec<_>>>()?;
        let inner = match (kind, wide.as_slice()) {
            (FeedForward::Gated(activation), [gate, up]) => (activate(gate, activation)? * up)?,
            (FeedForward::Plain(activation), [up]) => activate(up, activation)?,
            _ => candle_core::bail!("a gate where none is, or none where one is"),
        };
        add_bias(self.down.multiply(&inner)?, &self.down_bias)
    }
}
