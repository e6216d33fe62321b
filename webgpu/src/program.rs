//! A forward pass as a list of dispatches, which is made once and done for any number of rows.

use wgpu::{BindGroup, ComputePass, ComputePipeline, Limits};

use crate::kernels::{OUTPUTS, ROWS, THREADS};

/// One of them.
#[derive(Debug)]
pub(crate) struct Dispatch {
    pub(crate) kernel: Pipelines,
    pub(crate) bound: BindGroup,
    pub(crate) grid: Grid,
}

/// A kernel, or two of which one is for a single row.
#[derive(Debug)]
pub(crate) enum Pipelines {
    Any(ComputePipeline),
    ByRows { one: ComputePipeline, several: ComputePipeline },
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
    /// Does it for so many rows.
    pub(crate) fn encode(&self, pass: &mut ComputePass<'_>, rows: usize) {
        pass.set_pipeline(match &self.kernel {
            Pipelines::Any(kernel) => kernel,
            Pipelines::ByRows { one, .. } if rows == 1 => one,
            Pipelines::ByRows { several, .. } => several,
        });
        pass.set_bind_group(0, &self.bound, &[]);
        let [x, y, z] = self.grid.size(rows);
        pass.dispatch_workgroups(x, y, z);
    }
}
