//! A matrix of weights in strips, times rows of activations.

use super::{
    format::{ALIGNMENT, Format, LANES, StripLayout},
    isa::Isa,
    pool,
    products::{Product, Rows},
    rounded::{RoundedRows, Wanted},
};

/// Bytes of weights that one unit of parallel work reads: enough that taking it costs little, few enough that
/// the last ones do not keep others waiting.
const UNIT_BYTES: usize = 64 << 10;

/// Bytes of weights times rows below which other threads cost more than they give.
const WORTH_SPLITTING: usize = 128 << 10;

/// Memory that begins on a boundary of [`ALIGNMENT`].
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; ALIGNMENT]);

/// A matrix `[outputs, inputs]` in strips of sixteen outputs; `super::format` says how.
pub(crate) struct Matrix {
    lines: Vec<Line>,
    format: Format,
    layout: StripLayout,
    isa: Isa,
    outputs: usize,
    inputs: usize,
}

impl Matrix {
    /// A matrix of zeros that rows are to be pushed to. `inputs` is a multiple of the format's block length.
    pub(crate) fn new(format: Format, inputs: usize, isa: Isa) -> Self {
        assert!(inputs.is_multiple_of(format.block().0));
        Self { lines: Vec::new(), format, layout: format.strip(inputs), isa, outputs: 0, inputs }
    }

    /// Makes room for `outputs` more outputs, without room to spare.
    pub(crate) fn reserve(&mut self, outputs: usize) {
        let strips = (self.outputs + outputs).div_ceil(LANES);
        let lines = strips * self.layout.bytes / ALIGNMENT;
        self.lines.reserve_exact(lines.saturating_sub(self.lines.len()));
    }

    /// Appends a strip: up to sixteen rows as they stand in a file. Only the last strip has fewer.
    pub(crate) fn push_strip(&mut self, rows: &[u8]) {
        let count = rows.len() / self.format.row_bytes(self.inputs);
        assert!(count <= LANES && self.outputs.is_multiple_of(LANES), "strips are whole but for the last");
        let start = self.lines.len();
        self.lines.resize(start + self.layout.bytes / ALIGNMENT, Line([0; ALIGNMENT]));
        let strip = bytes_mut(&mut self.lines[start..]);
        self.format.pack(rows, self.inputs, self.isa.sign_flips(), strip);
        self.outputs += count;
    }

    /// Outputs so far.
    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.lines.capacity() * ALIGNMENT
    }

    /// One row of weights as f32.
    pub(crate) fn widen_row(&self, index: usize, out: &mut [f32]) {
        let strip = &bytes(&self.lines)[index / LANES * self.layout.bytes..][..self.layout.bytes];
        self.format.widen(strip, index % LANES, self.isa.sign_flips(), out);
    }

    /// `out = x · weightsᵀ`; `x`: `[rows, inputs]`, `out`: `[rows, outputs]`.
    ///
    /// An element has the same bits whatever other rows there are, on every machine and with every number of threads.
    pub(crate) fn multiply(&self, x: &[f32], rounded: &mut RoundedRows, out: &mut [f32]) {
        let rows = x.len() / self.inputs;
        assert!(x.len() == rows * self.inputs && out.len() == rows * self.outputs);
        let wanted = self.isa.wanted(self.format);
        if let Some(wanted) = wanted {
            rounded.round(x, self.inputs, self.isa.rows(), wanted);
        }
        let strips = self.outputs.div_ceil(LANES);
        let work = Work { matrix: self, x, rounded, wanted, rows, out: out.as_mut_ptr() };
        let strips_per_unit = (UNIT_BYTES / self.layout.bytes.max(1)).max(1);
        if strips * self.layout.bytes * rows < WORTH_SPLITTING {
            (0..strips).for_each(|strip| work.strip(strip));
            return;
        }
        pool::parallel(strips.div_ceil(strips_per_unit), |unit| {
            let first = unit * strips_per_unit;
            (first..strips.min(first + strips_per_unit)).for_each(|strip| work.strip(strip));
        });
    }
}

/// A product under way.
struct Work<'a> {
    matrix: &'a Matrix,
    x: &'a [f32],
    rounded: &'a RoundedRows,
    wanted: Option<Wanted>,
    rows: usize,
    /// `[rows, outputs]`; each strip writes columns of its own.
    out: *mut f32,
}

// SAFETY: everything but `out` is shared and read only; through `out`, strips write to disjoint elements of a slice that
// is borrowed exclusively for as long as this exists.
#[allow(unsafe_code, reason = "see above")]
unsafe impl Sync for Work<'_> {}

impl Work<'_> {
    /// Computes the outputs of one strip for all rows. Called once per strip.
    fn strip(&self, index: usize) {
        let Matrix { lines, format, layout, isa, outputs, inputs } = self.matrix;
        let strip = &bytes(lines)[index * layout.bytes..][..layout.bytes];
        let mut first = 0;
        while first < self.rows {
            let count = isa.rows().min(self.rows - first);
            let rows = match self.wanted {
                Some(wanted) => Rows::Rounded(self.rounded.group(first, *inputs, wanted)),
                None => Rows::Plain(self.x[first * inputs..].as_ptr()),
            };
            let wanted_outputs = LANES.min(outputs - index * LANES);
            // SAFETY: the strip was packed for this format and number of inputs; there are `count` rows behind the
            // pointers in `rows`; row r's outputs from 16·index on are in `out`, and nobody else writes them; a matrix
            // is made only for an instruction set that is available.
            #[allow(unsafe_code, reason = "see above")]
            unsafe {
                let product = Product {
                    format: *format,
                    inputs: *inputs,
                    scales: strip.as_ptr(),
                    values: strip[layout.values_at..].as_ptr(),
                    rows,
                    out: self.out.add(first * outputs + index * LANES),
                    stride: *outputs,
                    outputs: wanted_outputs,
                };
                isa.run(&product, count);
            }
            first += count;
        }
    }
}

fn bytes(lines: &[Line]) -> &[u8] {
    // SAFETY: a line is an array of bytes without padding.
    #[allow(unsafe_code, reason = "views lines as the bytes they are")]
    unsafe {
        std::slice::from_raw_parts(lines.as_ptr().cast(), size_of_val(lines))
    }
}

fn bytes_mut(lines: &mut [Line]) -> &mut [u8] {
    // SAFETY: a line is an array of bytes without padding, for which every value is valid.
    #[allow(unsafe_code, reason = "views lines as the bytes they are")]
    unsafe {
        std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), size_of_val(lines))
    }
}
