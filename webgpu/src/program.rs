//! A forward pass as a list of dispatches, which is made once and done for any number of rows.

use wgpu::{BindGroup, ComputePass, ComputePipeline, Limits};

use crate::{
    error::GpuError,
    gpu::Gpu,
    kernels::{Kernel, Kernels, OUTPUTS, Product, ROWS, THREADS},
};

/// One of them.
#[derive(Debug)]
pub(crate) struct Dispatch {
    kernel: Kernel,
    /// The kernel for one row and that for several, once they were needed.
    compiled: [Option<ComputePipeline>; 2],
    bound: BindGroup,
    grid: Grid,
}

/// How many workgroups it has.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Grid {
    /// So many, whatever rows there are.
    Workgroups(usize),
    /// For each row so many.
    EachRow(usize),
    /// For each row as many as so many threads need.
    Threads(usize),
    /// A product with so many outputs.
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
                let groups = count.div_ceil(OUTPUTS);
                [groups.min(most), groups.div_ceil(most), if rows == 1 { 1 } else { rows.div_ceil(ROWS) }]
            }
        };
        size.map(|count| count as u32)
    }
}

impl Dispatch {
    pub(crate) fn new(kernel: Kernel, bound: BindGroup, grid: Grid) -> Self {
        Self { kernel, compiled: [None, None], bound, grid }
    }

    /// Does it for so many rows.
    pub(crate) fn encode(
        &mut self,
        gpu: &Gpu,
        kernels: &mut Kernels,
        pass: &mut ComputePass<'_>,
        rows: usize,
    ) -> Result<(), GpuError> {
        let several = rows > 1;
        let kernel = match self.kernel {
            Kernel::Multiply(product) => Kernel::Multiply(Product { several, ..product }),
            kernel => kernel,
        };
        let compiled = match &mut self.compiled[usize::from(several)] {
            Some(compiled) => compiled,
            missing => missing.insert(kernels.compiled(gpu, kernel)?),
        };
        pass.set_pipeline(compiled);
        pass.set_bind_group(0, &self.bound, &[]);
        let [x, y, z] = self.grid.size(rows);
        pass.dispatch_workgroups(x, y, z);
        Ok(())
    }
}
