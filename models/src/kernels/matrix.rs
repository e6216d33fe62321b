//! Weight matrix in strips.

use std::{collections::TryReserveError, ops::Range};

use super::{
    format::{ALIGNMENT, Format, LANES},
    isa::Isa,
    memory::{Arena, Lines},
    products::{Product, Rows},
    rounded::{RoundedRows, Wanted},
};

/// Matrix `[outputs, inputs]` in strips of 16 outputs, laid out by [`format`](super::format).
pub(crate) struct Matrix {
    lines: Lines,
    format: Format,
    strip_bytes: usize,
    isa: Isa,
    outputs: usize,
    inputs: usize,
}

impl Matrix {
    /// Creates an empty matrix. `inputs` must be a multiple of the format's block length.
    pub(crate) fn new(format: Format, inputs: usize, isa: Isa) -> Self {
        assert!(inputs.is_multiple_of(format.block().0));
        Self { lines: Lines::default(), format, strip_bytes: format.strip_bytes(inputs), isa, outputs: 0, inputs }
    }

    /// Reserves exactly `outputs` more outputs.
    ///
    /// # Errors
    /// Fails if there is not enough memory.
    pub(crate) fn try_reserve(&mut self, outputs: usize, arena: &mut Arena) -> Result<(), TryReserveError> {
        let strips = (self.outputs + outputs).div_ceil(LANES) - self.outputs / LANES;
        self.lines.try_reserve(strips * (self.strip_bytes / ALIGNMENT), arena)
    }

    /// Appends a strip: up to 16 rows as stored in a file. Only the last strip may have fewer.
    pub(crate) fn push_strip(&mut self, rows: &[u8]) {
        let count = rows.len() / self.format.row_bytes(self.inputs);
        assert!(count <= LANES && self.outputs.is_multiple_of(LANES), "strips are whole but for the last");
        let strip = self.lines.push_zeros(self.strip_bytes);
        self.format.pack(rows, self.inputs, self.isa.sign_flips(), strip);
        self.outputs += count;
    }

    /// Number of outputs pushed so far.
    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Number of inputs per output.
    pub(crate) fn inputs(&self) -> usize {
        self.inputs
    }

    /// Unpacks one row of weights to f32.
    pub(crate) fn widen_row(&self, index: usize, out: &mut [f32]) {
        let strip = &self.lines.bytes()[index / LANES * self.strip_bytes..][..self.strip_bytes];
        self.format.widen(strip, index % LANES, self.isa.sign_flips(), out);
    }

    /// Number of bytes read to compute one strip.
    pub(super) fn strip_bytes(&self) -> usize {
        self.strip_bytes
    }

    /// Form of activations for [`strips`](Self::strips), and number of rows per group; `None` if they are not rounded.
    pub(super) fn wanted(&self) -> Option<(Wanted, usize)> {
        Some((self.isa.wanted(self.format)?, self.isa.rows()))
    }

    /// Computes the outputs of some strips, `[rows, inputs]` · `[16 · strips, inputs]`ᵀ. `rounded` holds the rows of
    /// `x` in the form of [`wanted`](Self::wanted), if that is not `None`.
    ///
    /// # Safety
    /// `out` must point to `[rows, outputs]` elements. No other thread may access those of these strips.
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
            // SAFETY: the strips were packed for this format and number of inputs; the pointers in `rows` are valid for
            // `count` rows; row r's outputs from `first_output` on are in `out`, and no other thread accesses them; a
            // matrix is only created for an available instruction set.
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
