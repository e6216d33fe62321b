//! A matrix of weights in strips.

use std::{collections::TryReserveError, ops::Range};

use super::{
    format::{ALIGNMENT, Format, LANES},
    isa::Isa,
    memory::{Arena, Lines},
    products::{Product, Rows},
    rounded::{RoundedRows, Wanted},
};

/// A matrix `[outputs, inputs]` in strips of sixteen outputs; `super::format` says how.
pub(crate) struct Matrix {
    lines: Lines,
    format: Format,
    strip_bytes: usize,
    isa: Isa,
    outputs: usize,
    inputs: usize,
}

impl Matrix {
    /// A matrix of zeros that rows are to be pushed to. `inputs` is a multiple of the format's block length.
    pub(crate) fn new(format: Format, inputs: usize, isa: Isa) -> Self {
        assert!(inputs.is_multiple_of(format.block().0));
        Self { lines: Lines::default(), format, strip_bytes: format.strip_bytes(inputs), isa, outputs: 0, inputs }
    }

    /// Makes room for `outputs` more outputs, without room to spare.
    ///
    /// # Errors
    /// If the allocator does not have the memory.
    pub(crate) fn try_reserve(&mut self, outputs: usize, arena: &mut Arena) -> Result<(), TryReserveError> {
        let strips = (self.outputs + outputs).div_ceil(LANES) - self.outputs / LANES;
        self.lines.try_reserve(strips * (self.strip_bytes / ALIGNMENT), arena)
    }

    /// Appends a strip: up to sixteen rows as they are in a file. Only the last strip has fewer.
    pub(crate) fn push_strip(&mut self, rows: &[u8]) {
        let count = rows.len() / self.format.row_bytes(self.inputs);
        assert!(count <= LANES && self.outputs.is_multiple_of(LANES), "strips are whole but for the last");
        let strip = self.lines.push_zeros(self.strip_bytes);
        self.format.pack(rows, self.inputs, self.isa.sign_flips(), strip);
        self.outputs += count;
    }

    /// Outputs so far.
    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Inputs of each.
    pub(crate) fn inputs(&self) -> usize {
        self.inputs
    }

    /// One row of weights as f32.
    pub(crate) fn widen_row(&self, index: usize, out: &mut [f32]) {
        let strip = &self.lines.bytes()[index / LANES * self.strip_bytes..][..self.strip_bytes];
        self.format.widen(strip, index % LANES, self.isa.sign_flips(), out);
    }

    /// Bytes that computing one strip reads.
    pub(super) fn strip_bytes(&self) -> usize {
        self.strip_bytes
    }

    /// How activations are to be rounded for [`strips`](Self::strips), and how many rows a group has; none if not at
    /// all.
    pub(super) fn wanted(&self) -> Option<(Wanted, usize)> {
        Some((self.isa.wanted(self.format)?, self.isa.rows()))
    }

    /// Computes the outputs of some strips, `[rows, inputs]` · `[16 · strips, inputs]`ᵀ. `rounded` has the rows of `x`
    /// if [`wanted`](Self::wanted) says so.
    ///
    /// # Safety
    /// `out` points to `[rows, outputs]` elements, of which nobody else uses those of these strips.
    #[allow(unsafe_code, reason = "see above")]
    pub(super) unsafe fn strips(
        &self,
        strips: Range<usize>,
        x: &[f32],
        rounded: Option<(&RoundedRows, Wanted)>,
        out: *mut f32,
    ) {
        let Self { lines, format, strip_bytes, isa, outputs, inputs } = self;
        let first_output = strips.start * LANES;
        let wanted_outputs = outputs.min(&(strips.end * LANES)).saturating_sub(first_output);
        if wanted_outputs == 0 {
            return;
        }
        let strips = &lines.bytes()[strips.start * strip_bytes..strips.end * strip_bytes];
        let all_rows = x.len() / inputs;
        let mut first = 0;
        while first < all_rows {
            let count = isa.rows().min(all_rows - first);
            let rows = match rounded {
                Some((rounded, wanted)) => Rows::Rounded(rounded.group(first, *inputs, wanted)),
                None => Rows::Plain { first: x[first * inputs..].as_ptr(), stride: *inputs },
            };
            // SAFETY: the strips were packed for this format and number of inputs; there are `count` rows behind the
            // pointers in `rows`; row r's outputs from `first_output` on are in `out`, and nobody else uses them; a
            // matrix is made only for an instruction set that is available.
            unsafe {
                let product = Product {
                    format: *format,
                    inputs: *inputs,
                    strip: strips.as_ptr(),
                    rows,
                    out: out.add(first * outputs + first_output),
                    stride: *outputs,
                    outputs: wanted_outputs,
                };
                isa.run(&product, count);
            }
            first += count;
        }
    }
}
