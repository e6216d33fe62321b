//! Products of rows with matrices that share their input, split over threads.

use super::{
    format::LANES,
    matrix::Matrix,
    pool,
    rounded::{ActivationBits, Activations, RoundedRows, Wanted, split},
};

/// Bytes of weights per unit of parallel work: large enough to make claiming cheap, small enough that the last units do
/// not delay other threads.
const UNIT_BYTES: usize = 32 << 10;

/// Bytes of weights times rows below which other threads cost more than they save.
const WORTH_SPLITTING: usize = 128 << 10;

/// Matrix and output of one product, `[rows, outputs]`.
pub(crate) struct Factor<'a> {
    pub(crate) matrix: &'a Matrix,
    pub(crate) out: &'a mut [f32],
}

/// Computes `out = x · weightsᵀ` for each of `factors`; `x`: `[rows, inputs]`. `activations` is memory for rounded
/// rows, and says to how many bits they are rounded.
pub(crate) fn multiply<const N: usize>(x: &[f32], activations: &mut Activations, factors: [Factor<'_>; N]) {
    match activations.bits() {
        ActivationBits::Sixteen if factors.iter().any(|factor| factor.matrix.wanted().is_some()) => {
            multiply_in_two_parts(x, activations, factors);
        }
        _ => multiply_rounded(x, activations, factors),
    }
}

/// Computes the products with each row as two: its rounding to 8 bits, and what that leaves, rounded to 8 bits again.
///
/// The kernels for 2·rows rows do all the work. The error of an activation falls from 1/254 of its block's largest
/// magnitude to 1/254² of it.
fn multiply_in_two_parts<const N: usize>(x: &[f32], activations: &mut Activations, mut factors: [Factor<'_>; N]) {
    let (mut parts, mut outs) = activations.take_parts();
    let inputs = factors.first().map_or(1, |factor| factor.matrix.inputs());
    let rows = x.len() / inputs;
    split(x, inputs, &mut parts);
    outs.resize_with(outs.len().max(N), Vec::new);
    let mut unused = outs.iter_mut();
    multiply_rounded(
        &parts,
        activations,
        factors.each_ref().map(|factor| {
            #[allow(clippy::expect_used, reason = "there are at least N")]
            let out = unused.next().expect("resized above");
            out.resize(2 * rows * factor.matrix.outputs(), 0.0);
            Factor { matrix: factor.matrix, out }
        }),
    );
    for (factor, out) in factors.iter_mut().zip(&outs) {
        let outputs = factor.matrix.outputs();
        let pairs = out.chunks_exact(2 * outputs).map(|pair| pair.split_at(outputs));
        for (sums, (main, rest)) in factor.out.chunks_exact_mut(outputs).zip(pairs) {
            for ((sum, main), rest) in sums.iter_mut().zip(main).zip(rest) {
                *sum = main + rest;
            }
        }
    }
    activations.put_parts(parts, outs);
}

/// Computes the products with rows that are rounded as often as they are given.
fn multiply_rounded<const N: usize>(x: &[f32], activations: &mut Activations, factors: [Factor<'_>; N]) {
    activations.clear();
    for factor in &factors {
        if let Some((wanted, group)) = factor.matrix.wanted() {
            activations.round(x, factor.matrix.inputs(), group, wanted);
        }
    }
    let activations = &*activations;
    let mut first_unit = 0;
    let works = factors.map(|factor| {
        let work = Work::new(factor, activations, x, first_unit);
        first_unit = work.end_unit;
        work
    });
    let bytes: usize = works.iter().map(|work| work.strips * work.strip_bytes).sum();
    let rows = works.first().map_or(0, |work| work.rows);
    let run = |unit: usize| {
        let work = works.iter().find(|work| unit < work.end_unit);
        work.into_iter().for_each(|work| work.unit(unit));
    };
    match bytes * rows < WORTH_SPLITTING {
        true => (0..first_unit).for_each(run),
        false => pool::parallel(first_unit, run),
    }
}

/// Product that is being computed.
struct Work<'a> {
    matrix: &'a Matrix,
    x: &'a [f32],
    /// Rows of `x` in the form that the matrix requires; absent if they are not rounded.
    rounded: Option<(&'a RoundedRows, Wanted)>,
    rows: usize,
    /// Output, `[rows, outputs]`; each strip writes its own columns.
    out: *mut f32,
    strips: usize,
    strip_bytes: usize,
    strips_per_unit: usize,
    first_unit: usize,
    end_unit: usize,
}

// SAFETY: everything except `out` is shared and read-only; through `out`, strips write to disjoint elements of a slice
// that is borrowed exclusively for the lifetime of this value.
#[allow(unsafe_code, reason = "see above")]
unsafe impl Sync for Work<'_> {}

impl<'a> Work<'a> {
    fn new(factor: Factor<'a>, activations: &'a Activations, x: &'a [f32], first_unit: usize) -> Self {
        let Factor { matrix, out } = factor;
        let rounded = matrix.wanted().map(|(wanted, _)| (activations.rounded(wanted), wanted));
        let (outputs, inputs, strip_bytes) = (matrix.outputs(), matrix.inputs(), matrix.strip_bytes());
        let rows = x.len() / inputs;
        assert!(x.len() == rows * inputs && out.len() == rows * outputs, "shapes agree");
        let strips = outputs.div_ceil(LANES);
        let strips_per_unit = (UNIT_BYTES / strip_bytes.max(1)).max(1);
        let end_unit = first_unit + strips.div_ceil(strips_per_unit);
        let out = out.as_mut_ptr();
        Self { matrix, x, rounded, rows, out, strips, strip_bytes, strips_per_unit, first_unit, end_unit }
    }

    /// Computes the strips of one unit. Must be called once per unit.
    fn unit(&self, unit: usize) {
        let first = (unit - self.first_unit) * self.strips_per_unit;
        let strips = first..self.strips.min(first + self.strips_per_unit);
        // SAFETY: `out` has the shape that `new` has checked; each strip belongs to one unit, and each unit runs once.
        #[allow(unsafe_code, reason = "see above")]
        unsafe {
            self.matrix.strips(strips, self.x, self.rounded, self.out);
        }
    }
}
