//! Construction of a forward pass as dispatches, from a model's description and weights.

use std::ops::Range;

use outrider_models::{FeedForward, LayerWeights, ModelConfig, ModelWeights, Position, RopeLayout, RotaryScope};
use wgpu::Buffer;

use crate::{
    error::GpuError,
    gpu::Gpu,
    kernels::{Finish, Kernel, Kernels, Product, Tile},
    matrix::Matrix,
    memory::{Memory, Rows},
    program::{Dispatch, Grid},
};

/// Largest head dimension that attention supports.
const LARGEST_HEAD: usize = 256;

/// Rejects shapes that the kernels do not support.
pub(crate) fn check(config: &ModelConfig) -> Result<(), GpuError> {
    if let Some(experts) = &config.block.experts {
        return Err(GpuError::Experts { count: experts.count });
    }
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

/// Dispatches of a forward pass.
#[derive(Debug)]
pub(crate) struct Program {
    dispatches: Vec<Dispatch>,
    /// Number of dispatches after which all keys and values are complete.
    without_logits: usize,
    /// Dispatches that choose from the last row of logits, and those that list the largest logits of each row.
    choice: Vec<Dispatch>,
    listing: Vec<Dispatch>,
}

impl Program {
    /// Builds the forward pass of a model over these rows and this memory.
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
        build.choose();
        let choice = std::mem::take(&mut build.dispatches);
        build.list();
        Ok(Self { dispatches, without_logits, choice, listing: build.dispatches })
    }

    /// Dispatches of a pass with the given output.
    pub(crate) fn dispatches(&mut self, left: Left) -> impl Iterator<Item = &mut Dispatch> {
        let Self { dispatches, without_logits, choice, listing } = self;
        let (pass, behind): (_, &mut [Dispatch]) = match left {
            Left::Cache => (&mut dispatches[..*without_logits], &mut []),
            Left::Logits => (&mut dispatches[..], &mut []),
            Left::Lists => (&mut dispatches[..], listing),
            Left::Guess => (&mut dispatches[..], choice),
        };
        pass.iter_mut().chain(behind)
    }
}

/// Output of a forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// Nothing except the KV cache.
    Cache,
    /// KV cache and logits.
    Logits,
    /// KV cache, logits, and lists of the largest logits.
    Lists,
    /// KV cache, logits, and a guess from the last row, which the next pass reads.
    Guess,
}

/// State while a program is built.
struct Build<'b> {
    gpu: &'b Gpu,
    kernels: &'b mut Kernels,
    config: &'b ModelConfig,
    rows: &'b Rows,
    memory: &'b Memory,
    /// Placeholder for absent vectors in bindings.
    nothing: Buffer,
    dispatches: Vec<Dispatch>,
}

/// Input of a product: rows, or their RMSNorm with these scales.
#[derive(Debug, Clone, Copy)]
struct Input<'v> {
    rows: &'v Buffer,
    norm: Option<&'v [f32]>,
}

/// Output of a product: columns from `first` on, of rows with `stride` numbers.
#[derive(Debug, Clone, Copy)]
struct Output<'v> {
    buffer: &'v Buffer,
    stride: usize,
    first: usize,
}

/// Operations after a product.
#[derive(Debug, Clone, Copy)]
struct After<'v> {
    bias: Option<&'v [f32]>,
    factor: f32,
    /// Soft cap; 0 for none.
    cap: f32,
    /// Factor for adding the result to the output; 0 replaces the output.
    residual_scale: f32,
    finish: Finish,
}

impl<'v> After<'v> {
    fn bias(bias: &'v Option<Vec<f32>>) -> Self {
        Self { bias: bias.as_deref(), factor: 1.0, cap: 0.0, residual_scale: 0.0, finish: Finish::Sum }
    }
}

/// Concatenated biases, with zeros for missing ones; `None` if all are missing.
fn joined<'v>(biases: impl IntoIterator<Item = (&'v Option<Vec<f32>>, usize)>) -> Option<Vec<f32>> {
    let biases: Vec<_> = biases.into_iter().collect();
    let is_any = biases.iter().any(|(bias, _)| bias.is_some());
    is_any.then(|| biases.into_iter().flat_map(|(bias, width)| bias.clone().unwrap_or(vec![0.0; width])).collect())
}

impl<'b> Build<'b> {
    /// Builds the whole pass. Returns the number of dispatches after which all keys and values are complete.
    fn pass(&mut self, weights: &ModelWeights<Matrix>) -> Result<usize, GpuError> {
        let (config, rows) = (self.config, self.rows);
        let block = &config.block;
        self.embed(&weights.embedding, None)?;
        if let (Some(table), Position::Learned { offset }) = (&weights.positions, &block.position) {
            self.embed(table, Some(*offset))?;
        }
        let mut without_logits = 0;
        for (index, layer) in weights.layers.iter().enumerate() {
            self.projections(layer)?;
            let attend = self.place(index, layer)?;
            without_logits = self.dispatches.len();
            self.attention(attend, layer)?;
            self.feed_forward(layer)?;
        }
        self.norm(&rows.hidden, &rows.final_hidden, &weights.norm, &weights.norm_bias)?;
        let head = weights.head.as_ref().unwrap_or(&weights.embedding).clone();
        let after = After { factor: block.logit_scale, cap: block.logit_softcap.unwrap_or(0.0), ..After::bias(&None) };
        let (buffer, stride) = match &rows.trimmed {
            Some(trimmed) => (&trimmed.logits, trimmed.stride),
            None => (&rows.logits, config.vocab_size),
        };
        let logits = Output { buffer, stride, first: 0 };
        // The table may have more rows than the tokenizer has tokens.
        let head = Matrix { outputs: stride, ..head };
        self.multiply(&head, Input { rows: &rows.final_hidden, norm: None }, logits, &after)?;
        Ok(without_logits)
    }

    /// Adds dispatches that choose the best guesses from the last row of logits.
    fn choose(&mut self) {
        let rows = self.rows;
        let groups = rows.listing.groups;
        if let Some(trimmed) = &rows.trimmed {
            let vocab_size = self.config.vocab_size;
            let shape = self.gpu.constants(&[vocab_size as u32, trimmed.rows as u32, trimmed.stride as u32]);
            let buffers = [&trimmed.logits, &rows.logits, &shape, &trimmed.row_of];
            self.add_dispatch(Kernel::Spread, &buffers, Grid::Threads(vocab_size));
        }
        let buffers = [&rows.logits, &rows.best, &rows.choice, &rows.step];
        self.add_dispatch(Kernel::Choose, &buffers, Grid::Workgroups(groups));
        let constants = self.gpu.constants(&[groups as u32]);
        let buffers = [&rows.logits, &rows.best, &rows.sums, &rows.choice, &rows.step, &constants];
        self.add_dispatch(Kernel::Weigh, &buffers, Grid::Workgroups(groups));
        let buffers = [&rows.best, &rows.sums, &rows.ids, &rows.step, &rows.chosen, &rows.choice, &constants];
        self.add_dispatch(Kernel::Settle, &buffers, Grid::Workgroups(1));
    }

    /// Adds dispatches that list the largest logits of each row.
    fn list(&mut self) {
        let Rows { logits, choice, listing, lists, largest, bounds, .. } = self.rows;
        let shape = self.gpu.constants(&listing.shape());
        let (each, one) = (Grid::EachRow(listing.groups), Grid::EachRow(1));
        self.add_dispatch(Kernel::Survey, &[logits, largest, choice, &shape], each);
        self.add_dispatch(Kernel::Bound, &[largest, bounds, lists, choice, &shape], one);
        self.add_dispatch(Kernel::List, &[logits, bounds, lists, choice, &shape], each);
    }

    /// Adds the projections of a layer: queries, keys and values.
    fn projections(&mut self, layer: &LayerWeights<Matrix>) -> Result<(), GpuError> {
        let (config, rows) = (self.config, self.rows);
        let ModelConfig { heads, kv_heads, head_dim, .. } = *config;
        let (queries, keys) = (heads * head_dim, kv_heads * head_dim);
        let input = self.normed(&layer.attention_norm, &layer.attention_norm_bias)?;
        let biases = [&layer.query_bias, &layer.key_bias, &layer.value_bias];
        let [query, key, value] = [&layer.query, &layer.key, &layer.value];
        let of_all: Vec<(Matrix, Range<usize>)> =
            match (Matrix::joined(&[query, key, value]), Matrix::joined(&[query, key])) {
                (Some(all), _) => vec![(all, 0..3)],
                (None, Some(two)) => vec![(two, 0..2), (value.clone(), 2..3)],
                (None, None) => {
                    [query, key, value].into_iter().zip(0..).map(|(one, i)| (one.clone(), i..i + 1)).collect()
                }
            };
        let places = [0, queries, queries + keys, queries + 2 * keys];
        for (matrix, parts) in of_all {
            let widths = parts.clone().map(|part| places[part + 1] - places[part]);
            let bias = joined(parts.clone().map(|part| biases[part]).zip(widths));
            let y = Output { buffer: &rows.heads, stride: places[3], first: places[parts.start] };
            self.multiply(&matrix, input, y, &After::bias(&bias))?;
        }
        Ok(())
    }

    /// Adds the write of keys and values to the KV cache. Returns attention, which has the same buffers.
    fn place(&mut self, index: usize, layer: &LayerWeights<Matrix>) -> Result<Dispatch, GpuError> {
        let (config, rows, memory) = (self.config, self.rows, self.memory);
        let mut angles = &self.nothing;
        let (mut pairs, mut is_interleaved) = (0, false);
        if let Position::Rotary { global, local, .. } = &config.block.position {
            let rotary = match config.block.rotary_scope(index) {
                Some(RotaryScope::Global) => Some((global, &memory.global)),
                Some(RotaryScope::Local) => local.as_ref().map(|local| (local, &memory.local)),
                None => None,
            };
            if let Some((rotary, Some(buffer))) = rotary {
                angles = buffer;
                pairs = rotary.rotated(config.head_dim) / 2;
                is_interleaved = rotary.layout == RopeLayout::Interleaved;
            }
        }
        let norms = [&layer.query_norm, &layer.key_norm].map(|norm| norm.as_deref().unwrap_or_default());
        let constants = self.gpu.constants(&[
            config.heads as u32,
            config.kv_heads as u32,
            config.head_dim as u32,
            pairs as u32,
            is_interleaved.into(),
            norms[0].len() as u32,
            norms[1].len() as u32,
            config.norm_epsilon.to_bits(),
            config.block.window(index).unwrap_or(0) as u32,
            config.score_scale().to_bits(),
            config.block.score_softcap.unwrap_or(0.0).to_bits(),
        ]);
        let scales = norms.concat();
        let scales = self.vector((!scales.is_empty()).then_some(&scales))?;
        let [keys, values] = &memory.layers[index];
        let buffers = [&rows.heads, angles, keys, values, &rows.context, &constants, &rows.step, &scales];
        let bound = self.kernels.bind(self.gpu, Kernel::Place, &buffers);
        self.dispatches.push(Dispatch::new(Kernel::Place, bound.clone(), Grid::EachRow(config.kv_heads)));
        Ok(Dispatch::new(Kernel::Attend { alone: false }, bound, Grid::EachRow(config.heads)))
    }

    /// Adds `hidden += attention`.
    fn attention(&mut self, attend: Dispatch, layer: &LayerWeights<Matrix>) -> Result<(), GpuError> {
        self.dispatches.push(attend);
        let (matrix, context) = (&layer.attention_output, &self.rows.context);
        self.add_product(matrix, context, &layer.attention_output_bias, &layer.after_attention_norm)
    }

    /// Adds `hidden += feed_forward(norm(hidden))`.
    fn feed_forward(&mut self, layer: &LayerWeights<Matrix>) -> Result<(), GpuError> {
        let (rows, width) = (self.rows, self.config.intermediate_size);
        let input = self.normed(&layer.feed_forward_norm, &layer.feed_forward_norm_bias)?;
        let (FeedForward::Gated(activation) | FeedForward::Plain(activation)) = self.config.block.feed_forward;
        let inner = Output { buffer: &rows.inner, stride: width, first: 0 };
        let up = After::bias(&layer.up_bias);
        let (Some(widening), Some(down)) = (&layer.up, &layer.down) else {
            return Err(GpuError::Experts { count: layer.experts.len() });
        };
        match &layer.gate {
            None => self.multiply(widening, input, inner, &After { finish: Finish::Activate(activation), ..up })?,
            Some(gate) => match Matrix::joined(&[gate, widening]) {
                Some(both) => {
                    let bias = joined([(&layer.gate_bias, width), (&layer.up_bias, width)]);
                    let after = After { finish: Finish::Gate(activation), ..After::bias(&bias) };
                    self.multiply(&both, input, inner, &after)?;
                }
                None => {
                    self.multiply(widening, input, inner, &up)?;
                    let after = After { finish: Finish::Scale(activation), ..After::bias(&layer.gate_bias) };
                    self.multiply(gate, input, inner, &after)?;
                }
            },
        }
        self.add_product(down, &rows.inner, &layer.down_bias, &layer.after_feed_forward_norm)
    }

    /// Adds `hidden += scale · norm(matrix · x + bias)`, in one dispatch if there is no norm.
    fn add_product(
        &mut self,
        matrix: &Matrix,
        x: &Buffer,
        bias: &Option<Vec<f32>>,
        norm: &Option<Vec<f32>>,
    ) -> Result<(), GpuError> {
        let (rows, width, scale) = (self.rows, self.config.hidden_size, self.config.block.residual_scale);
        let input = Input { rows: x, norm: None };
        let Some(norm) = norm else {
            let hidden = Output { buffer: &rows.hidden, stride: width, first: 0 };
            return self.multiply(matrix, input, hidden, &After { residual_scale: scale, ..After::bias(bias) });
        };
        let projected = Output { buffer: &rows.projected, stride: width, first: 0 };
        self.multiply(matrix, input, projected, &After::bias(bias))?;
        let constants = self.gpu.constants(&[width as u32, scale.to_bits(), self.config.norm_epsilon.to_bits()]);
        let scales = self.vector(Some(norm))?;
        let buffers = [&rows.hidden, &rows.projected, &constants, &scales];
        self.add_dispatch(Kernel::Add, &buffers, Grid::EachRow(1));
        Ok(())
    }

    /// Adds embeddings of tokens, or of positions if `offset` is given: the table row of the first position.
    fn embed(&mut self, table: &Matrix, offset: Option<usize>) -> Result<(), GpuError> {
        let rows = self.rows;
        let (units, row_bytes) = table.row()?;
        let constants = self.gpu.constants(&[
            units,
            row_bytes,
            (self.config.hidden_size / 4) as u32,
            offset.is_some().into(),
            (table.first_row + offset.unwrap_or(0)) as u32,
            self.config.block.embedding_scale.to_bits(),
        ]);
        let row_of = rows.trimmed.as_ref().filter(|_| offset.is_none() && self.config.tied_embeddings);
        let kernel = Kernel::Embed { element: table.element, mapped: row_of.is_some() };
        let row_of = row_of.map_or(&self.nothing, |trimmed| &trimmed.row_of).clone();
        let buffers = [&table.buffer, &rows.ids, &rows.hidden, &constants, &rows.step, &row_of];
        self.add_dispatch(kernel, &buffers, Grid::Threads(units as usize));
        Ok(())
    }

    /// Adds a product of rows with a matrix.
    fn multiply(&mut self, matrix: &Matrix, x: Input<'_>, y: Output<'_>, after: &After<'_>) -> Result<(), GpuError> {
        let (units, row_bytes) = matrix.row()?;
        let constants = self.gpu.constants(&[
            units,
            matrix.outputs as u32,
            row_bytes,
            matrix.first_row as u32,
            (matrix.inputs / 4) as u32,
            y.stride as u32,
            y.first as u32,
            after.bias.is_some().into(),
            after.factor.to_bits(),
            after.cap.to_bits(),
            after.residual_scale.to_bits(),
            self.config.norm_epsilon.to_bits(),
        ]);
        let (bias, scales) = (self.vector(after.bias)?, self.vector(x.norm)?);
        let product =
            Product { element: matrix.element, normed: x.norm.is_some(), finish: after.finish, tile: Tile::Row };
        let buffers = [&matrix.buffer, x.rows, y.buffer, &constants, &bias, &scales];
        self.add_dispatch(Kernel::Multiply(product), &buffers, Grid::Outputs(matrix.outputs));
        Ok(())
    }

    /// Input of a part: the norm of `hidden`, or `hidden` itself. Products compute RMSNorm themselves.
    fn normed<'l>(&mut self, scales: &'l Option<Vec<f32>>, biases: &Option<Vec<f32>>) -> Result<Input<'l>, GpuError>
    where
        'b: 'l,
    {
        let rows = self.rows;
        match scales {
            Some(scales) if biases.is_some() => {
                self.norm(&rows.hidden, &rows.normed, scales, biases)?;
                Ok(Input { rows: &rows.normed, norm: None })
            }
            scales => Ok(Input { rows: &rows.hidden, norm: scales.as_deref() }),
        }
    }

    fn norm(&mut self, x: &Buffer, out: &Buffer, scales: &[f32], biases: &Option<Vec<f32>>) -> Result<(), GpuError> {
        let constants = self.gpu.constants(&[scales.len() as u32, self.config.norm_epsilon.to_bits()]);
        let (scales, layer) = (self.vector(Some(scales))?, biases.is_some());
        let biases = self.vector(biases.as_deref())?;
        let buffers = [x, out, &constants, &scales, &biases];
        self.add_dispatch(Kernel::Norm { layer }, &buffers, Grid::EachRow(1));
        Ok(())
    }

    fn vector(&self, values: Option<&[f32]>) -> Result<Buffer, GpuError> {
        let Some(values) = values else { return Ok(self.nothing.clone()) };
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.gpu.holding("a vector of weights", &bytes)
    }

    fn add_dispatch(&mut self, kernel: Kernel, buffers: &[&Buffer], grid: Grid) {
        let bound = self.kernels.bind(self.gpu, kernel, buffers);
        self.dispatches.push(Dispatch::new(kernel, bound, grid));
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use outrider_models::Model;
    use outrider_testing::families::{goldens, mixtures};

    use super::*;

    #[test]
    fn mixtures_of_experts_are_refused_by_name() {
        let check = |golden: &outrider_testing::golden::Golden| {
            let (config, weights) = golden.checkpoint();
            check(Model::from_safetensors(&config, &weights).unwrap().config())
        };
        for golden in mixtures() {
            let error = check(&golden).unwrap_err();
            assert!(matches!(error, GpuError::Experts { .. }), "{error}");
            assert!(
                error.to_string().contains("mixture of") && error.to_string().contains("on the processor"),
                "{error}"
            );
        }
        check(&goldens()[0]).unwrap();
    }
}
