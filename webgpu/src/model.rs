//! A forward pass as dispatches, from a model's description and weights.

use outrider_models::{
    Activation, ElementType, FeedForward, LayerWeights, ModelConfig, ModelWeights, Norm, Position, RopeLayout,
    RotaryScope, StoredMatrix,
};
use wgpu::Buffer;

use crate::{
    element::Element,
    error::GpuError,
    gpu::Gpu,
    kernels::{Kernel, Kernels},
    memory::{Memory, Rows},
    program::{Dispatch, Grid, Pipelines},
};

/// Elements of a head that attention is made for.
const LARGEST_HEAD: usize = 256;

/// A matrix on the GPU, as it is in its file.
#[derive(Debug)]
pub(crate) struct Matrix {
    buffer: Buffer,
    element: ElementType,
    outputs: usize,
    inputs: usize,
}

impl Matrix {
    /// Brings a matrix there.
    pub(crate) fn load(gpu: &Gpu, matrix: &StoredMatrix) -> Result<Self, GpuError> {
        let StoredMatrix { element, outputs, inputs, ref bytes } = *matrix;
        let unit = Element::of(element)?.unit;
        if !inputs.is_multiple_of(unit) {
            return Err(GpuError::Shape {
                what: "a row of weights",
                found: inputs,
                expected: "whole units of its type",
            });
        }
        Ok(Self { buffer: gpu.holding("a matrix of weights", bytes)?, element, outputs, inputs })
    }

    /// Units of a row, and its bytes.
    fn row(&self) -> Result<(u32, u32), GpuError> {
        let units = self.inputs / Element::of(self.element)?.unit;
        Ok((units as u32, self.element.row_bytes(self.inputs) as u32))
    }
}

/// Refuses shapes that kernels are not made for.
pub(crate) fn check(config: &ModelConfig) -> Result<(), GpuError> {
    let widths = [
        ("the width of the residual stream", config.hidden_size),
        ("the width of the feed-forward part", config.intermediate_size),
        ("the width of a head", config.head_dim),
    ];
    for (what, found) in widths {
        if !found.is_multiple_of(4) {
            return Err(GpuError::Shape { what, found, expected: "a multiple of 4" });
        }
    }
    if config.head_dim > LARGEST_HEAD {
        return Err(GpuError::Shape { what: "the width of a head", found: config.head_dim, expected: "at most 256" });
    }
    Ok(())
}

/// A forward pass.
#[derive(Debug)]
pub(crate) struct Program {
    dispatches: Vec<Dispatch>,
    /// As many of them leave all keys and values.
    without_logits: usize,
    /// What chooses from the last row of logits, and what lists the largest of each.
    choice: Vec<Dispatch>,
    listing: Vec<Dispatch>,
}

impl Program {
    /// The forward pass of a model over these rows and this memory.
    pub(crate) fn new(
        gpu: &Gpu,
        kernels: &mut Kernels,
        config: &ModelConfig,
        weights: &ModelWeights<Matrix>,
        rows: &Rows,
        memory: &Memory,
    ) -> Result<Self, GpuError> {
        let nothing = gpu.numbers("nothing", 4)?;
        let mut build = Build { gpu, kernels, config, rows, memory, nothing, dispatches: Vec::new() };
        let without_logits = build.pass(weights)?;
        let dispatches = std::mem::take(&mut build.dispatches);
        build.choose()?;
        let choice = std::mem::take(&mut build.dispatches);
        build.list()?;
        Ok(Self { dispatches, without_logits, choice, listing: build.dispatches })
    }

    /// The dispatches of a pass that is to leave this.
    pub(crate) fn dispatches(&self, left: Left) -> impl Iterator<Item = &Dispatch> {
        let (pass, behind): (_, &[Dispatch]) = match left {
            Left::Cache => (&self.dispatches[..self.without_logits], &[]),
            Left::Logits => (&self.dispatches[..], &[]),
            Left::Lists => (&self.dispatches[..], &self.listing),
            Left::Guess => (&self.dispatches[..], &self.choice),
        };
        pass.iter().chain(behind)
    }
}

/// What a forward pass leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// The KV cache.
    Cache,
    /// Logits, too.
    Logits,
    /// Lists of the largest of them, too.
    Lists,
    /// A guess by the last of them, which the next pass reads.
    Guess,
}

/// A program that is being made.
struct Build<'b> {
    gpu: &'b Gpu,
    kernels: &'b mut Kernels,
    config: &'b ModelConfig,
    rows: &'b Rows,
    memory: &'b Memory,
    /// Bound where there is no vector.
    nothing: Buffer,
    dispatches: Vec<Dispatch>,
}

/// What a product does besides.
#[derive(Debug, Clone, Copy)]
struct After<'v> {
    bias: Option<&'v [f32]>,
    factor: f32,
    /// 0: none.
    cap: f32,
    /// What it is multiplied with to be added to what is there; 0: it replaces that.
    residual_scale: f32,
}

impl<'v> After<'v> {
    fn bias(bias: &'v Option<Vec<f32>>) -> Self {
        Self { bias: bias.as_deref(), factor: 1.0, cap: 0.0, residual_scale: 0.0 }
    }
}

impl<'b> Build<'b> {
    /// Everything; how many dispatches leave all keys and values.
    fn pass(&mut self, weights: &ModelWeights<Matrix>) -> Result<usize, GpuError> {
        let (config, rows) = (self.config, self.rows);
        let block = &config.block;
        self.embed(&weights.embedding, None)?;
        if let (Some(table), Position::Learned { offset }) = (&weights.positions, &block.position) {
            self.embed(table, Some(*offset))?;
        }
        let mut without_logits = 0;
        for (index, layer) in weights.layers.iter().enumerate() {
            self.keys_and_values(index, layer)?;
            without_logits = self.dispatches.len();
            self.attention(index, layer)?;
            self.feed_forward(layer)?;
        }
        self.norm(&rows.hidden, &rows.final_hidden, &weights.norm, &weights.norm_bias)?;
        let head = weights.head.as_ref().unwrap_or(&weights.embedding);
        let after = After {
            bias: None,
            factor: block.logit_scale,
            cap: block.logit_softcap.unwrap_or(0.0),
            residual_scale: 0.0,
        };
        self.multiply(head, config.vocab_size, &rows.final_hidden, &rows.logits, after)?;
        Ok(without_logits)
    }

    /// The best guesses by the last row of logits.
    fn choose(&mut self) -> Result<(), GpuError> {
        let rows = self.rows;
        let groups = rows.listing.groups;
        let buffers = [&rows.logits, &rows.best, &rows.choice, &rows.step];
        self.add_dispatch(Kernel::Choose, &buffers, Grid::Workgroups(groups))?;
        let constants = self.gpu.constants(&[groups as u32]);
        let buffers = [&rows.logits, &rows.best, &rows.sums, &rows.choice, &rows.step, &constants];
        self.add_dispatch(Kernel::Weigh, &buffers, Grid::Workgroups(groups))?;
        let buffers = [&rows.best, &rows.sums, &rows.ids, &rows.step, &rows.chosen, &rows.choice, &constants];
        self.add_dispatch(Kernel::Settle, &buffers, Grid::Workgroups(1))
    }

    /// The largest of each row of logits.
    fn list(&mut self) -> Result<(), GpuError> {
        let Rows { logits, choice, listing, lists, largest, bounds, .. } = self.rows;
        let shape = self.gpu.constants(&listing.shape());
        let (each, one) = (Grid::EachRow(listing.groups), Grid::EachRow(1));
        self.add_dispatch(Kernel::Survey, &[logits, largest, choice, &shape], each)?;
        self.add_dispatch(Kernel::Bound, &[largest, bounds, lists, choice, &shape], one)?;
        self.add_dispatch(Kernel::List, &[logits, bounds, lists, choice, &shape], each)
    }

    fn keys_and_values(&mut self, index: usize, layer: &LayerWeights<Matrix>) -> Result<(), GpuError> {
        let ModelConfig { kv_heads, head_dim, .. } = *self.config;
        let (rows, [keys, values]) = (self.rows, &self.memory.layers[index]);
        let width = kv_heads * head_dim;
        let input = self.normed(&layer.attention_norm, &layer.attention_norm_bias)?;
        self.multiply(&layer.key, width, input, &rows.key, After::bias(&layer.key_bias))?;
        self.multiply(&layer.value, width, input, &rows.value, After::bias(&layer.value_bias))?;
        self.norm_in_place(&rows.key, width, &layer.key_norm)?;
        self.rotate(index, &rows.key, kv_heads)?;
        let constants = self.gpu.constants(&[(width / 4) as u32]);
        let buffers = [&rows.key, &rows.value, keys, values, &constants, &rows.step];
        self.add_dispatch(Kernel::Store, &buffers, Grid::Threads(width / 4))
    }

    /// `hidden += attention(query)`.
    fn attention(&mut self, index: usize, layer: &LayerWeights<Matrix>) -> Result<(), GpuError> {
        let ModelConfig { heads, kv_heads, head_dim, ref block, .. } = *self.config;
        let (rows, [keys, values]) = (self.rows, &self.memory.layers[index]);
        let width = heads * head_dim;
        let input = if layer.attention_norm.is_some() { &rows.normed } else { &rows.hidden };
        self.multiply(&layer.query, width, input, &rows.query, After::bias(&layer.query_bias))?;
        self.norm_in_place(&rows.query, width, &layer.query_norm)?;
        self.rotate(index, &rows.query, heads)?;
        let constants = self.gpu.constants(&[
            heads as u32,
            (heads / kv_heads) as u32,
            (head_dim / 4) as u32,
            (kv_heads * head_dim / 4) as u32,
            block.window(index).unwrap_or(0) as u32,
            self.config.score_scale().to_bits(),
            block.score_softcap.unwrap_or(0.0).to_bits(),
        ]);
        let buffers = [&rows.query, keys, values, &rows.context, &constants, &rows.step];
        self.add_dispatch(Kernel::Attend, &buffers, Grid::EachRow(heads))?;
        let matrix = &layer.attention_output;
        self.add_product(matrix, &rows.context, &layer.attention_output_bias, &layer.after_attention_norm)
    }

    /// `hidden += feed_forward(norm(hidden))`.
    fn feed_forward(&mut self, layer: &LayerWeights<Matrix>) -> Result<(), GpuError> {
        let (rows, width) = (self.rows, self.config.intermediate_size);
        let input = self.normed(&layer.feed_forward_norm, &layer.feed_forward_norm_bias)?;
        let (FeedForward::Gated(activation) | FeedForward::Plain(activation)) = self.config.block.feed_forward;
        self.multiply(&layer.up, width, input, &rows.up, After::bias(&layer.up_bias))?;
        let inner = match &layer.gate {
            Some(gate) => {
                self.multiply(gate, width, input, &rows.gate, After::bias(&layer.gate_bias))?;
                self.activate(activation, &rows.gate, Some(&rows.up))?;
                &rows.gate
            }
            None => {
                self.activate(activation, &rows.up, None)?;
                &rows.up
            }
        };
        self.add_product(&layer.down, inner, &layer.down_bias, &layer.after_feed_forward_norm)
    }

    /// `hidden += scale · norm(matrix · x + bias)`, in one dispatch where there is no norm.
    fn add_product(
        &mut self,
        matrix: &Matrix,
        x: &Buffer,
        bias: &Option<Vec<f32>>,
        norm: &Option<Vec<f32>>,
    ) -> Result<(), GpuError> {
        let (rows, width, scale) = (self.rows, self.config.hidden_size, self.config.block.residual_scale);
        if norm.is_none() && scale != 0.0 {
            let after = After { residual_scale: scale, ..After::bias(bias) };
            return self.multiply(matrix, width, x, &rows.hidden, after);
        }
        self.multiply(matrix, width, x, &rows.projected, After::bias(bias))?;
        self.norm_in_place(&rows.projected, width, norm)?;
        let constants = self.gpu.constants(&[width as u32, scale.to_bits()]);
        self.add_dispatch(Kernel::Add, &[&rows.hidden, &rows.projected, &constants], Grid::Threads(width))
    }

    /// Rows of a table of tokens, or of positions from so many rows on.
    fn embed(&mut self, table: &Matrix, offset: Option<usize>) -> Result<(), GpuError> {
        let rows = self.rows;
        let (units, row_bytes) = table.row()?;
        let constants = self.gpu.constants(&[
            units,
            row_bytes,
            (self.config.hidden_size / 4) as u32,
            offset.is_some().into(),
            offset.unwrap_or(0) as u32,
            self.config.block.embedding_scale.to_bits(),
        ]);
        let buffers = [&table.buffer, &rows.ids, &rows.hidden, &constants, &rows.step];
        self.add_dispatch(Kernel::Embed(table.element), &buffers, Grid::Threads(units as usize))
    }

    /// The first `outputs` of a product.
    fn multiply(
        &mut self,
        matrix: &Matrix,
        outputs: usize,
        x: &Buffer,
        y: &Buffer,
        after: After<'_>,
    ) -> Result<(), GpuError> {
        let (units, row_bytes) = matrix.row()?;
        let outputs = outputs.min(matrix.outputs);
        let constants = self.gpu.constants(&[
            units,
            outputs as u32,
            row_bytes,
            (matrix.inputs / 4) as u32,
            after.bias.is_some().into(),
            after.factor.to_bits(),
            after.cap.to_bits(),
            after.residual_scale.to_bits(),
        ]);
        let bias = self.vector(after.bias)?;
        let [one, several] = [false, true].map(|several| Kernel::Multiply { element: matrix.element, several });
        let buffers = [&matrix.buffer, x, y, &constants, &bias];
        let (one, bound) = self.kernels.bind(self.gpu, one, &buffers)?;
        let several = self.kernels.pipeline(self.gpu, several)?;
        let kernel = Pipelines::ByRows { one, several };
        self.dispatches.push(Dispatch { kernel, bound, grid: Grid::Outputs(outputs) });
        Ok(())
    }

    /// What goes into a part: the norm of `hidden`, or `hidden` itself.
    fn normed(&mut self, scales: &Option<Vec<f32>>, biases: &Option<Vec<f32>>) -> Result<&'b Buffer, GpuError> {
        let rows = self.rows;
        let Some(scales) = scales else { return Ok(&rows.hidden) };
        self.norm(&rows.hidden, &rows.normed, scales, biases)?;
        Ok(&rows.normed)
    }

    fn norm(&mut self, x: &Buffer, out: &Buffer, scales: &[f32], biases: &Option<Vec<f32>>) -> Result<(), GpuError> {
        let layer = self.config.block.norm == Norm::Layer && biases.is_some();
        let constants = self.gpu.constants(&[scales.len() as u32, self.config.norm_epsilon.to_bits()]);
        let (scales, biases) = (self.vector(Some(scales))?, self.vector(biases.as_deref())?);
        let buffers = [x, out, &constants, &scales, &biases];
        self.add_dispatch(Kernel::Norm { layer }, &buffers, Grid::EachRow(1))
    }

    /// RMSNorm of the vectors of a row, `width` elements together, if there are scales.
    fn norm_in_place(&mut self, x: &Buffer, width: usize, scales: &Option<Vec<f32>>) -> Result<(), GpuError> {
        let Some(scales) = scales else { return Ok(()) };
        let constants = self.gpu.constants(&[scales.len() as u32, self.config.norm_epsilon.to_bits()]);
        let buffer = self.vector(Some(scales))?;
        self.add_dispatch(Kernel::NormInPlace, &[x, &constants, &buffer], Grid::EachRow(width / scales.len()))
    }

    /// Rotates heads, if the layer does.
    fn rotate(&mut self, layer: usize, x: &Buffer, heads: usize) -> Result<(), GpuError> {
        let (config, memory) = (self.config, self.memory);
        let Position::Rotary { global, local, .. } = &config.block.position else { return Ok(()) };
        let (rotary, angles) = match config.block.rotary_scope(layer) {
            Some(RotaryScope::Global) => (Some(global), &memory.global),
            Some(RotaryScope::Local) => (local.as_ref(), &memory.local),
            None => return Ok(()),
        };
        let (Some(rotary), Some(angles)) = (rotary, angles) else { return Ok(()) };
        let pairs = rotary.rotated(config.head_dim) / 2;
        let interleaved = rotary.layout == RopeLayout::Interleaved;
        let constants = [heads as u32, config.head_dim as u32, pairs as u32, interleaved.into()];
        let constants = self.gpu.constants(&constants);
        let buffers = [x, angles, &constants, &self.rows.step];
        self.add_dispatch(Kernel::Rotate, &buffers, Grid::Threads(heads * pairs))
    }

    fn activate(&mut self, activation: Activation, x: &Buffer, up: Option<&Buffer>) -> Result<(), GpuError> {
        let width = self.config.intermediate_size;
        let constants = self.gpu.constants(&[width as u32]);
        let buffers: Vec<&Buffer> = [x].into_iter().chain(up).chain([&constants]).collect();
        let kernel = Kernel::Activate { activation, gated: up.is_some() };
        self.add_dispatch(kernel, &buffers, Grid::Threads(width))
    }

    fn vector(&self, values: Option<&[f32]>) -> Result<Buffer, GpuError> {
        let Some(values) = values else { return Ok(self.nothing.clone()) };
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.gpu.holding("a vector of weights", &bytes)
    }

    fn add_dispatch(&mut self, kernel: Kernel, buffers: &[&Buffer], grid: Grid) -> Result<(), GpuError> {
        let (pipeline, bound) = self.kernels.bind(self.gpu, kernel, buffers)?;
        self.dispatches.push(Dispatch { kernel: Pipelines::Any(pipeline), bound, grid });
        Ok(())
    }
}
