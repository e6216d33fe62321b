//! Shaders, compiled when they are first needed.

use std::{
    borrow::Cow,
    collections::hash_map::{Entry, HashMap},
};

use outrider_models::{Activation, ElementType};
use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindGroupLayout, BindGroupLayoutDescriptor, BindGroupLayoutEntry,
    BindingType, Buffer, BufferBindingType, ComputePipeline, ComputePipelineDescriptor, PipelineCompilationOptions,
    PipelineLayoutDescriptor, ShaderModuleDescriptor, ShaderSource, ShaderStages,
};

use crate::{element::Element, error::GpuError, gpu::Gpu};

/// Threads of a workgroup, of every kernel.
pub(crate) const THREADS: usize = 64;
/// Tokens that a thread chooses from, or looks at: a block of noise has as many.
pub(crate) const TOKENS: usize = 8;
/// Outputs of a product that a workgroup computes.
pub(crate) const OUTPUTS: usize = 2;
/// Rows that a product has in one workgroup, where there is more than one.
pub(crate) const ROWS: usize = 4;

/// What a kernel computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kernel {
    /// Rows times a matrix of this type: one row, or [`ROWS`].
    Multiply {
        element: ElementType,
        several: bool,
    },
    /// Rows of a table of this type.
    Embed(ElementType),
    /// A norm into another buffer: LayerNorm, or RMSNorm.
    Norm {
        layer: bool,
    },
    /// RMSNorm in place.
    NormInPlace,
    Rotate,
    Store,
    Attend,
    Activate {
        activation: Activation,
        gated: bool,
    },
    Add,
    /// The two best guesses of each workgroup's tokens; what top-k and top-p ask of them; those of all.
    Choose,
    Weigh,
    Settle,
    /// The largest logits of pieces of a row; what the largest of the row are at least; these, and the mass of the
    /// rest.
    Survey,
    Bound,
    List,
}

/// What a kernel does with a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Reads,
    Writes,
    /// Numbers that all threads read alike.
    Constants,
    /// There is no buffer in this place.
    Absent,
}

use Access::{Absent, Constants, Reads, Writes};

impl Kernel {
    /// What it does with the buffers that it is bound to, in their order.
    fn accesses(self) -> &'static [Access] {
        match self {
            Self::Multiply { .. } | Self::Embed(_) => &[Reads, Reads, Writes, Constants, Reads],
            Self::Norm { .. } => &[Reads, Writes, Constants, Reads, Reads],
            Self::NormInPlace => &[Writes, Constants, Reads],
            Self::Rotate => &[Writes, Reads, Constants, Reads],
            Self::Store => &[Reads, Reads, Writes, Writes, Constants, Reads],
            Self::Attend => &[Reads, Reads, Reads, Writes, Constants, Reads],
            Self::Activate { gated: true, .. } | Self::Add => &[Writes, Reads, Constants],
            Self::Activate { gated: false, .. } => &[Writes, Absent, Constants],
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
            Self::Multiply { .. } => "multiply",
            Self::Embed(_) => "embed",
            Self::Norm { .. } | Self::NormInPlace => "norm",
            Self::Rotate => "rotate",
            Self::Store => "store",
            Self::Attend => "attend",
            Self::Activate { .. } => "activate",
            Self::Add => "add",
            Self::Choose => "choose",
            Self::Weigh => "weigh",
            Self::Settle => "settle",
            Self::Survey => "survey",
            Self::Bound => "bound",
            Self::List => "list",
        }
    }

    fn shader(self) -> Result<String, GpuError> {
        const WEIGHTS: &str = include_str!("shaders/weights.wgsl");
        const STEP: &str = include_str!("shaders/step.wgsl");
        const NORM: &str = include_str!("shaders/norm.wgsl");
        const CHOICE: &str = include_str!("shaders/choice.wgsl");
        const BEST: &str = include_str!("shaders/best.wgsl");
        const SUMS: &str = include_str!("shaders/sums.wgsl");
        const LISTED: &str = include_str!("shaders/listed.wgsl");
        Ok(match self {
            Self::Multiply { element, several } => {
                let rows = if several { ROWS } else { 1 };
                let element = Element::of(element)?.shader;
                let multiply = include_str!("shaders/multiply.wgsl");
                format!("{WEIGHTS}{element}const ROWS = {rows}u;\n{multiply}")
            }
            Self::Embed(element) => {
                let element = Element::of(element)?.shader;
                format!("{WEIGHTS}{element}{STEP}{}", include_str!("shaders/embed.wgsl"))
            }
            Self::Norm { layer } => {
                let bias = if layer { "biases[i]" } else { "0.0" };
                let norm = NORM.replace("IN[", "x[").replace("OUT[", "out[").replace("BIAS", bias);
                format!("{}const LAYER = {layer};\n{norm}", include_str!("shaders/norm_apart.wgsl"))
            }
            Self::NormInPlace => {
                let norm = NORM.replace("IN[", "x[").replace("OUT[", "x[").replace("BIAS", "0.0");
                format!("{}const LAYER = false;\n{norm}", include_str!("shaders/norm_in_place.wgsl"))
            }
            Self::Rotate => format!("{STEP}{}", include_str!("shaders/rotate.wgsl")),
            Self::Store => format!("{STEP}{}", include_str!("shaders/store.wgsl")),
            Self::Attend => format!("{STEP}{}", include_str!("shaders/attend.wgsl")),
            Self::Activate { activation, gated } => {
                let function = match activation {
                    Activation::Silu => "silu",
                    Activation::GeluTanh => "gelu_tanh",
                    Activation::Relu => "relu",
                };
                let factor = if gated { "* up[i]" } else { "" };
                include_str!("shaders/activate.wgsl").replace("ACTIVATION", function).replace("FACTOR", factor)
            }
            Self::Add => include_str!("shaders/add.wgsl").to_owned(),
            Self::Choose => format!("{STEP}{CHOICE}{BEST}{}", include_str!("shaders/choose.wgsl")),
            Self::Weigh => format!("{STEP}{CHOICE}{BEST}{SUMS}{}", include_str!("shaders/weigh.wgsl")),
            Self::Settle => format!("{STEP}{CHOICE}{BEST}{SUMS}{}", include_str!("shaders/settle.wgsl")),
            Self::Survey => format!("{CHOICE}{LISTED}{}", include_str!("shaders/survey.wgsl")),
            Self::Bound => format!("{CHOICE}{LISTED}{}", include_str!("shaders/bound.wgsl")),
            Self::List => format!("{CHOICE}{LISTED}{}", include_str!("shaders/list.wgsl")),
        })
    }
}

/// A kernel that is compiled.
#[derive(Debug, Clone)]
struct Compiled {
    pipeline: ComputePipeline,
    layout: BindGroupLayout,
}

/// Kernels of one GPU.
#[derive(Debug, Default)]
pub(crate) struct Kernels {
    compiled: HashMap<Kernel, Compiled>,
}

impl Kernels {
    /// The kernel, and its buffers bound to it. Kernels with the same accesses may share what is bound.
    pub(crate) fn bind(
        &mut self,
        gpu: &Gpu,
        kernel: Kernel,
        buffers: &[&Buffer],
    ) -> Result<(ComputePipeline, BindGroup), GpuError> {
        let Compiled { pipeline, layout } = self.compiled(gpu, kernel)?.clone();
        let places = kernel.accesses().iter().enumerate().filter(|(_, access)| **access != Absent);
        let entries = places.zip(buffers).map(|((binding, _), buffer)| BindGroupEntry {
            binding: binding as u32,
            resource: buffer.as_entire_binding(),
        });
        let entries: Vec<_> = entries.collect();
        let descriptor = BindGroupDescriptor { label: Some(kernel.name()), layout: &layout, entries: &entries };
        Ok((pipeline, gpu.device().create_bind_group(&descriptor)))
    }

    /// The kernel alone, for what another has bound.
    pub(crate) fn pipeline(&mut self, gpu: &Gpu, kernel: Kernel) -> Result<ComputePipeline, GpuError> {
        Ok(self.compiled(gpu, kernel)?.pipeline.clone())
    }

    fn compiled(&mut self, gpu: &Gpu, kernel: Kernel) -> Result<&Compiled, GpuError> {
        Ok(match self.compiled.entry(kernel) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(compile(gpu, kernel)?),
        })
    }
}

fn compile(gpu: &Gpu, kernel: Kernel) -> Result<Compiled, GpuError> {
    let (device, label) = (gpu.device(), Some(kernel.name()));
    let entry = |(binding, access): (usize, &Access)| {
        let ty = match access {
            Absent => return None,
            Reads => BufferBindingType::Storage { read_only: true },
            Writes => BufferBindingType::Storage { read_only: false },
            Constants => BufferBindingType::Uniform,
        };
        let ty = BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None };
        Some(BindGroupLayoutEntry { binding: binding as u32, visibility: ShaderStages::COMPUTE, ty, count: None })
    };
    let entries: Vec<_> = kernel.accesses().iter().enumerate().filter_map(entry).collect();
    let layout = device.create_bind_group_layout(&BindGroupLayoutDescriptor { label, entries: &entries });
    let pipeline_layout = device.create_pipeline_layout(&PipelineLayoutDescriptor {
        label,
        bind_group_layouts: &[Some(&layout)],
        immediate_size: 0,
    });
    let source = ShaderSource::Wgsl(Cow::Owned(kernel.shader()?));
    let module = device.create_shader_module(ShaderModuleDescriptor { label, source });
    let pipeline = device.create_compute_pipeline(&ComputePipelineDescriptor {
        label,
        layout: Some(&pipeline_layout),
        module: &module,
        entry_point: Some(kernel.name()),
        compilation_options: PipelineCompilationOptions::default(),
        cache: None,
    });
    Ok(Compiled { pipeline, layout })
}
