//! Shaders and their pipelines, compiled on first use.

use std::{borrow::Cow, collections::HashMap};

use outrider_models::{Activation, ElementType};
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindGroupLayout, BindGroupLayoutDescriptor, BindGroupLayoutEntry,
    BindingType, Buffer, BufferBindingType, ComputePipeline, ComputePipelineDescriptor, PipelineCompilationOptions,
    PipelineLayoutDescriptor, ShaderModuleDescriptor, ShaderSource, ShaderStages,
};

use crate::{element::Element, error::GpuError, gpu::Gpu};

/// Number of threads per workgroup: of most kernels, and of attention and the kernel before it.
pub(crate) const THREADS: usize = 64;
const ATTENTION_THREADS: usize = 128;
/// Number of tokens per thread in the kernels that choose or list tokens, the same as in a block of noise.
pub(crate) const TOKENS: usize = 8;
/// Number of outputs per half of a workgroup in products.
const EACH: usize = 4;

/// Maximum number of rows for products of four rows at a time; more rows use tiles of 32.
pub(crate) const MOST_IN_FOURS: usize = 8;

/// Computation of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kernel {
    Multiply(Product),
    /// Embeddings from a table of this type, which if `mapped` has no rows for some tokens.
    Embed {
        element: ElementType,
        mapped: bool,
    },
    /// Norm into another buffer: LayerNorm or RMSNorm.
    Norm {
        layer: bool,
    },
    /// Norms of keys, their rotary embedding, and the write to the KV cache.
    Place,
    /// Attention, including norm and rotary embedding of queries. If `alone`, also those of the single row's keys.
    Attend {
        alone: bool,
    },
    /// RMSNorm of rows, added to the residual stream.
    Add,
    /// Logits of a head with rows for some tokens, at the places of these tokens.
    Spread,
    /// Choice of guesses: the two best tokens per workgroup, their top-k and top-p statistics, and the overall result.
    Choose,
    Weigh,
    Settle,
    /// Listing of the largest logits: maxima of pieces of a row, a lower bound on the listed ones, and the list with
    /// the mass of the rest.
    Survey,
    Bound,
    List,
}

/// Product of rows, or of their RMSNorm, with a matrix of this type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Product {
    pub(crate) element: ElementType,
    pub(crate) normed: bool,
    pub(crate) finish: Finish,
    pub(crate) tile: Tile,
}

/// Rows of a product per workgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Tile {
    Row,
    FourRows,
    /// 32 rows, whose weights are shared through workgroup memory.
    ManyRows,
}

impl Tile {
    pub(crate) const ALL: [Self; 3] = [Self::Row, Self::FourRows, Self::ManyRows];

    /// Tile for a product with `rows` rows.
    pub(crate) fn of(rows: usize) -> Self {
        match rows {
            ..2 => Self::Row,
            2..=MOST_IN_FOURS => Self::FourRows,
            _ => Self::ManyRows,
        }
    }

    /// Number of rows and outputs per workgroup. Buffers have space for rows computed past the last one.
    pub(crate) fn size(self) -> (usize, usize) {
        match self {
            Self::Row => (1, 2 * EACH),
            Self::FourRows => (4, 2 * EACH),
            Self::ManyRows => (32, 32),
        }
    }
}

/// Final operation on the results of a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Finish {
    /// Replaces the output, or adds to it.
    Sum,
    /// Replaces the output by the activation of the results.
    Activate(Activation),
    /// Multiplies the output by the activation of the results.
    Scale(Activation),
    /// Multiplies the second half of the results by the activation of the first half.
    Gate(Activation),
}

impl Finish {
    /// WGSL code of the operation, which writes to `y`.
    fn shader(self) -> String {
        let (activation, factor) = match self {
            Self::Sum => {
                let write = "if (shape.residual_scale == 0.0) { y[at] = result; } \
                             else { y[at] += shape.residual_scale * result; }";
                return format!("fn finish(at: u32, result: f32, other: f32) {{ {write} }}\n");
            }
            Self::Activate(activation) => (activation, ""),
            Self::Scale(activation) => (activation, " * y[at]"),
            Self::Gate(activation) => (activation, " * other"),
        };
        let function = match activation {
            Activation::Silu => "silu",
            Activation::GeluTanh => "gelu_tanh",
            Activation::Relu => "relu",
        };
        format!("fn finish(at: u32, result: f32, other: f32) {{ y[at] = {function}(result){factor}; }}\n")
    }
}

/// Kind of access to a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Access {
    Reads,
    Writes,
    /// Uniform values, the same for all threads.
    Constants,
}

use Access::{Constants, Reads, Writes};

impl Kernel {
    /// Kinds of access to the bound buffers, in binding order.
    fn accesses(self) -> &'static [Access] {
        match self {
            Self::Multiply(_) => &[Reads, Reads, Writes, Constants, Reads, Reads],
            Self::Embed { .. } => &[Reads, Reads, Writes, Constants, Reads, Reads],
            Self::Norm { .. } => &[Reads, Writes, Constants, Reads, Reads],
            Self::Place | Self::Attend { .. } => &[Reads, Reads, Writes, Writes, Writes, Constants, Reads, Reads],
            Self::Add => &[Writes, Reads, Constants, Reads],
            Self::Spread => &[Reads, Writes, Constants, Reads],
            Self::Choose => &[Reads, Writes, Reads, Reads],
            Self::Weigh => &[Reads, Reads, Writes, Reads, Reads, Constants],
            Self::Settle => &[Reads, Reads, Writes, Writes, Writes, Reads, Constants],
            Self::Survey => &[Reads, Writes, Reads, Constants],
            Self::Bound => &[Reads, Writes, Writes, Reads, Constants],
            Self::List => &[Reads, Reads, Writes, Reads, Constants],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Multiply(_) => "multiply",
            Self::Embed { .. } => "embed",
            Self::Norm { .. } => "norm",
            Self::Place => "place",
            Self::Attend { .. } => "attend",
            Self::Add => "add",
            Self::Spread => "spread",
            Self::Choose => "choose",
            Self::Weigh => "weigh",
            Self::Settle => "settle",
            Self::Survey => "survey",
            Self::Bound => "bound",
            Self::List => "list",
        }
    }

    /// WGSL code of the kernel, for a GPU with or without subgroups.
    fn shader(self, has_subgroups: bool) -> Result<String, GpuError> {
        const WEIGHTS: &str = include_str!("shaders/weights.wgsl");
        const STEP: &str = include_str!("shaders/step.wgsl");
        const TOTAL: &str = include_str!("shaders/total.wgsl");
        const CHOICE: &str = concat!(include_str!("shaders/lowest.wgsl"), include_str!("shaders/choice.wgsl"));
        const LOWEST: &str = include_str!("shaders/lowest.wgsl");
        const BEST: &str = include_str!("shaders/best.wgsl");
        const SUMS: &str = include_str!("shaders/sums.wgsl");
        const LISTED: &str = include_str!("shaders/listed.wgsl");
        let subgroups = match has_subgroups {
            true => include_str!("shaders/subgroups.wgsl"),
            false => include_str!("shaders/no_subgroups.wgsl"),
        };
        let threads = format!("const THREADS = {THREADS}u;\n");
        let shader = match self {
            Self::Multiply(Product { element, normed, finish, tile }) => {
                let element = Element::of(element)?.shader;
                let is_gated = matches!(finish, Finish::Gate(_));
                let constants = format!("const EACH = {EACH}u;\nconst NORMED = {normed};\nconst GATED = {is_gated};\n");
                let activations = include_str!("shaders/activations.wgsl");
                let finish = finish.shader();
                let product = include_str!("shaders/product.wgsl");
                let multiply = include_str!("shaders/multiply.wgsl");
                let [rows, multiply] = match tile {
                    Tile::Row => [include_str!("shaders/one_row.wgsl"), multiply],
                    Tile::FourRows => [include_str!("shaders/four_rows.wgsl"), multiply],
                    Tile::ManyRows => ["", include_str!("shaders/tile.wgsl")],
                };
                format!("{subgroups}{WEIGHTS}{element}{constants}{product}{activations}{finish}{rows}{multiply}")
            }
            Self::Embed { element, mapped } => {
                let element = Element::of(element)?.shader;
                format!("const MAPPED = {mapped};\n{WEIGHTS}{element}{STEP}{}", include_str!("shaders/embed.wgsl"))
            }
            Self::Norm { layer } => {
                format!("const LAYER = {layer};\n{threads}{subgroups}{TOTAL}{}", include_str!("shaders/norm.wgsl"))
            }
            Self::Place | Self::Attend { .. } => {
                let attention = include_str!("shaders/attention.wgsl");
                let kernel = match self {
                    Self::Attend { alone } => {
                        format!("const ALONE = {alone};\n{}", include_str!("shaders/attend.wgsl"))
                    }
                    _ => include_str!("shaders/place.wgsl").to_owned(),
                };
                format!("const THREADS = {ATTENTION_THREADS}u;\n{STEP}{subgroups}{TOTAL}{attention}{kernel}")
            }
            Self::Add => format!("{threads}{subgroups}{TOTAL}{}", include_str!("shaders/add.wgsl")),
            Self::Spread => format!("{LOWEST}{}", include_str!("shaders/spread.wgsl")),
            Self::Choose => format!("{STEP}{CHOICE}{BEST}{}", include_str!("shaders/choose.wgsl")),
            Self::Weigh => format!("{STEP}{CHOICE}{BEST}{SUMS}{}", include_str!("shaders/weigh.wgsl")),
            Self::Settle => format!("{STEP}{CHOICE}{BEST}{SUMS}{}", include_str!("shaders/settle.wgsl")),
            Self::Survey => format!("{CHOICE}{LISTED}{}", include_str!("shaders/survey.wgsl")),
            Self::Bound => format!("{CHOICE}{LISTED}{}", include_str!("shaders/bound.wgsl")),
            Self::List => format!("{CHOICE}{LISTED}{}", include_str!("shaders/list.wgsl")),
        };
        // Browsers require this directive; naga does not accept it (gfx-rs/wgpu#5555).
        let enable = if has_subgroups && cfg!(target_arch = "wasm32") { "enable subgroups;\n" } else { "" };
        // A built-in parameter of each thread; without subgroups it is a constant.
        let size = if has_subgroups { "@builtin(subgroup_size) subgroup_size: u32," } else { "" };
        Ok(format!("{enable}{}", shader.replace("// SUBGROUP SIZE", size)))
    }
}

/// Compiled kernels of one GPU.
#[derive(Debug, Default)]
pub(crate) struct Kernels {
    /// Bind group layouts by kinds of access.
    layouts: HashMap<&'static [Access], BindGroupLayout>,
    compiled: HashMap<Kernel, ComputePipeline>,
}

impl Kernels {
    /// Binds buffers for a kernel. Kernels with the same kinds of access may share a bind group.
    pub(crate) fn bind(&mut self, gpu: &Gpu, kernel: Kernel, buffers: &[&Buffer]) -> BindGroup {
        let entries = buffers.iter().zip(0..).map(|(buffer, binding)| {
            let resource = buffer.as_entire_binding();
            BindGroupEntry { binding, resource }
        });
        let entries: Vec<_> = entries.collect();
        let (label, layout) = (Some(kernel.name()), self.layout(gpu, kernel));
        gpu.device().create_bind_group(&BindGroupDescriptor { label, layout, entries: &entries })
    }

    /// Pipeline of a kernel, compiled on first use.
    pub(crate) fn compiled(&mut self, gpu: &Gpu, kernel: Kernel) -> Result<ComputePipeline, GpuError> {
        if let Some(known) = self.compiled.get(&kernel) {
            return Ok(known.clone());
        }
        let compiled = compile(gpu, kernel, self.layout(gpu, kernel))?;
        self.compiled.insert(kernel, compiled.clone());
        Ok(compiled)
    }

    fn layout(&mut self, gpu: &Gpu, kernel: Kernel) -> &BindGroupLayout {
        let accesses = kernel.accesses();
        self.layouts.entry(accesses).or_insert_with(|| {
            let entries = accesses.iter().zip(0..).map(|(access, binding)| {
                let ty = match access {
                    Reads => BufferBindingType::Storage { read_only: true },
                    Writes => BufferBindingType::Storage { read_only: false },
                    Constants => BufferBindingType::Uniform,
                };
                let ty = BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None };
                BindGroupLayoutEntry { binding, visibility: ShaderStages::COMPUTE, ty, count: None }
            });
            let entries: Vec<_> = entries.collect();
            gpu.device().create_bind_group_layout(&BindGroupLayoutDescriptor { label: None, entries: &entries })
        })
    }
}

fn compile(gpu: &Gpu, kernel: Kernel, layout: &BindGroupLayout) -> Result<ComputePipeline, GpuError> {
    let (device, label) = (gpu.device(), Some(kernel.name()));
    let pipeline_layout = device.create_pipeline_layout(&PipelineLayoutDescriptor {
        label,
        bind_group_layouts: &[Some(layout)],
        immediate_size: 0,
    });
    let source = ShaderSource::Wgsl(Cow::Owned(kernel.shader(gpu.has_subgroups())?));
    let module = device.create_shader_module(ShaderModuleDescriptor { label, source });
    Ok(device.create_compute_pipeline(&ComputePipelineDescriptor {
        label,
        layout: Some(&pipeline_layout),
        module: &module,
        entry_point: Some(kernel.name()),
        compilation_options: PipelineCompilationOptions::default(),
        cache: None,
    }))
}
