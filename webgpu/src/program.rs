//! Forward pass as a list of dispatches, built once and executed for any number of rows.

use wgpu::{BindGroup, ComputePass, ComputePipeline, Limits};

use crate::{
    error::GpuError,
    gpu::Gpu,
    kernels::{Kernel, Kernels, Product, THREADS, Tile},
};

/// Dispatch of one kernel with bound buffers.
#[derive(Debug)]
pub(crate) struct Dispatch {
    kernel: Kernel,
    /// Pipelines by tile size, or for attention by `alone`; compiled on first use.
    compiled: [Option<ComputePipeline>; Tile::ALL.len()],
    bound: BindGroup,
    grid: Grid,
}

/// Number of workgroups of a dispatch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Grid {
    /// Fixed number, for any number of rows.
    Workgroups(usize),
    /// Fixed number per row.
    EachRow(usize),
    /// Enough workgroups per row for this number of threads.
    Threads(usize),
    /// Workgroups of a product with this number of outputs.
    Outputs(usize),
}

impl Grid {
    fn size(self, rows: usize) -> [u32; 3] {
        let most = Limits::default().max_compute_workgroups_per_dimension as usize;
        let size = match self {
            Self::Workgroups(count) => [count, 1, 1],
            Self::EachRow(count) => [count, rows, 1],
            Self::Threads(count) => [count.div_ceil(THREADS), rows, 1],
            Self::Outputs(count) => {
                let (rows_each, outputs_each) = Tile::of(rows).size();
                let groups = count.div_ceil(outputs_each);
                [groups.min(most), groups.div_ceil(most), rows.div_ceil(rows_each)]
            }
        };
        size.map(|count| count as u32)
    }
}

impl Dispatch {
    pub(crate) fn new(kernel: Kernel, bound: BindGroup, grid: Grid) -> Self {
        Self { kernel, compiled: Default::default(), bound, grid }
    }

    /// Encodes the dispatch for `rows` rows. If the pass has a single row (`alone`), attention also writes its keys and
    /// values to the KV cache. Returns false if nothing had to be encoded.
    pub(crate) fn encode(
        &mut self,
        gpu: &Gpu,
        kernels: &mut Kernels,
        pass: &mut ComputePass<'_>,
        rows: usize,
        alone: bool,
    ) -> Result<bool, GpuError> {
        let (kernel, place) = match self.kernel {
            Kernel::Multiply(product) => {
                let tile = Tile::of(rows);
                (Kernel::Multiply(Product { tile, ..product }), tile as usize)
            }
            Kernel::Place if alone => return Ok(false),
            Kernel::Attend { .. } => (Kernel::Attend { alone }, usize::from(alone)),
            kernel => (kernel, 0),
        };
        let compiled = match &mut self.compiled[place] {
            Some(compiled) => compiled,
            missing => missing.insert(kernels.compiled(gpu, kernel)?),
        };
        pass.set_pipeline(compiled);
        pass.set_bind_group(0, &self.bound, &[]);
        let [x, y, z] = self.grid.size(rows);
        pass.dispatch_workgroups(x, y, z);
        Ok(true)
    }
}
