//! Rows of activations, rounded to 8 bits in blocks of 32, in the order in which kernels read them.
//!
//! With d = max |x| / 127 over a block, x ≈ d·q for an integer −127 ≤ q ≤ 127, with an error of at most d/2. Rounding
//! is to nearest, ties to even, so every machine gets the same q.

use std::mem;

use super::format::Format;

/// Number of activations in a block.
const BLOCK: usize = 32;

/// Magnitude 2⁻⁶⁰, below which blocks are rounded to zero. The scales of all other blocks stay normal numbers in every
/// product with a weight's scale, so kernels do not depend on the treatment of subnormals.
const SMALLEST: f32 = f32::from_bits((127 - 60) << 23);

/// Form of four activations in an instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "no build has instruction sets that want them all")]
pub(super) enum QuadForm {
    /// Four signed bytes in one word.
    Bytes,
    /// Form for processors that only multiply 16-bit numbers: (x₁, x₃) and (256·x₀ − x₁, 256·x₂ − x₃), 16 bits each.
    ///
    /// Two weights in one 16-bit word, v = 256·h + u with 0 ≤ u < 256, need not be separated for products with x₁ and
    /// x₀: v·x₁ + u·(256·x₀ − x₁) = 256·(h·x₁ + u·x₀). One mask gives u, and the sum is 256 times the dot product.
    Words,
    /// Form for processors whose byte products need seven bits on one side: max(x, 0) and max(−x, 0), four bytes each.
    Signs,
}

impl QuadForm {
    /// Number of 32-bit words for four activations.
    pub(super) const fn words(self) -> usize {
        match self {
            Self::Bytes => 1,
            Self::Words | Self::Signs => 2,
        }
    }

    /// Factor by which integer sums are too large.
    pub(super) const fn unit(self) -> i32 {
        match self {
            Self::Bytes | Self::Signs => 1,
            Self::Words => 256,
        }
    }
}

/// Sums of activations that a format's minima are multiplied with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Minima {
    /// The format has no minima.
    Absent,
    /// Scale × sum of each block.
    Blocks,
    /// Integer sums of both halves of each block, stored in place of the starts.
    Halves,
}

/// Requirements of a format's kernel on activations, for an instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(super) form: QuadForm,
    /// Offset added to weights to make them unsigned, for even and for odd inputs.
    pub(super) bias: [i32; 2],
    /// Number of inputs per integer sum: 32 or 16.
    pub(super) sum_len: usize,
    /// Sums that minima are multiplied with.
    pub(super) minima: Minima,
}

impl Wanted {
    /// Requirements of `format`; `None` if it multiplies unrounded activations. `signed`, `small`: the forms for signed
    /// bytes and for half bytes; `sign_flips`: the mask xored to signed bytes.
    pub(super) fn of(format: Format, signed: QuadForm, small: QuadForm, sign_flips: u32) -> Option<Self> {
        let flipped = |shift: u32| if sign_flips >> shift & 0x80 == 0 { 0 } else { 128 };
        let of = |form, bias, sum_len, minima| Self { form, bias, sum_len, minima };
        Some(match format {
            Format::Q8_0 | Format::Iq4Nl | Format::Iq4Xs => of(signed, [flipped(0), flipped(8)], 32, Minima::Absent),
            Format::Q6K => of(signed, [32, 32], 16, Minima::Absent),
            Format::Q4_0 => of(small, [8, 8], 32, Minima::Absent),
            Format::Q5_0 => of(small, [16, 16], 32, Minima::Absent),
            Format::Mxfp4 => of(small, [12, 12], 32, Minima::Absent),
            Format::Q3K => of(small, [4, 4], 16, Minima::Absent),
            Format::Q4_1 | Format::Q5_1 | Format::Q4K | Format::Q5K => of(small, [0, 0], 32, Minima::Blocks),
            Format::Q2K => of(small, [0, 0], 32, Minima::Halves),
            Format::F16 | Format::Bf16 | Format::F32 => return None,
        })
    }
}

/// Rows rounded to 8 bits. They are grouped as in kernels, `group` rows at a time. Within a group of g rows everything
/// is interleaved, `[…, g]`.
#[derive(Debug, Default)]
pub(crate) struct RoundedRows {
    /// Rounded activations. shape: [groups][inputs / 4][words][g]
    quads: Vec<u32>,
    /// Scales, times 1 / unit. shape: [groups][inputs / 32][g]
    scales: Vec<f32>,
    /// Start values of integer sums: minus the sum that the bias adds, or the sums of both halves of a block, 16 bits
    /// each. shape: [groups][inputs / sum_len][g]
    starts: Vec<i32>,
    /// Scale × sum of each block. shape: [groups][inputs / 32][g], or empty
    sums: Vec<f32>,
}

/// Number of bits to which activations are rounded before products with quantized weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ActivationBits {
    /// 8 bits, as in llama.cpp.
    #[default]
    Eight,
    /// 16 bits, in two parts of 8: nearly the answers of unrounded activations.
    Sixteen,
}

/// Input rows of a product, rounded in each form that its matrices require.
#[derive(Debug, Default)]
pub(crate) struct Activations {
    bits: ActivationBits,
    /// Memory of products in two parts: rows `[2·rows, inputs]`, and outputs `[2·rows, outputs]` of each matrix.
    parts: (Vec<f32>, Vec<Vec<f32>>),
    /// The first `valid` sets hold the current rows; the others are memory for reuse.
    sets: Vec<(Wanted, RoundedRows)>,
    valid: usize,
}

impl Activations {
    /// Number of bits to which rows are rounded.
    pub(super) fn bits(&self) -> ActivationBits {
        self.bits
    }

    /// Sets the number of bits to which rows are rounded from now on.
    pub(crate) fn set_bits(&mut self, bits: ActivationBits) {
        self.bits = bits;
    }

    pub(super) fn take_parts(&mut self) -> (Vec<f32>, Vec<Vec<f32>>) {
        mem::take(&mut self.parts)
    }

    pub(super) fn put_parts(&mut self, rows: Vec<f32>, outs: Vec<Vec<f32>>) {
        self.parts = (rows, outs);
    }

    /// Discards the rows and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.valid = 0;
    }

    /// Rounds `x`, `[rows, inputs]`, to the form `wanted`, unless that has been done.
    pub(super) fn round(&mut self, x: &[f32], inputs: usize, group: usize, wanted: Wanted) {
        if self.sets[..self.valid].iter().any(|(form, _)| *form == wanted) {
            return;
        }
        // Memory of the same form fits best.
        let old = self.sets[self.valid..].iter().position(|(form, _)| *form == wanted);
        match old {
            Some(old) => self.sets.swap(self.valid, self.valid + old),
            None => self.sets.insert(self.valid, (wanted, RoundedRows::default())),
        }
        self.sets[self.valid].1.round(x, inputs, group, wanted);
        self.valid += 1;
    }

    /// Rows in the form `wanted`, to which they must have been rounded.
    pub(super) fn rounded(&self, wanted: Wanted) -> &RoundedRows {
        let set = self.sets[..self.valid].iter().find(|(form, _)| *form == wanted);
        #[allow(clippy::expect_used, reason = "a precondition within this module's only caller")]
        &set.expect("rounded before it is asked for").1
    }
}

/// Pointers to the rows of one group.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowGroup {
    pub(super) quads: *const u32,
    pub(super) scales: *const f32,
    pub(super) starts: *const i32,
    pub(super) sums: *const f32,
}

impl RoundedRows {
    /// Rounds `x`, `[rows, inputs]`; `inputs` must be a multiple of 32.
    pub(super) fn round(&mut self, x: &[f32], inputs: usize, group: usize, wanted: Wanted) {
        let (rows, blocks, words) = (x.len() / inputs, inputs / BLOCK, wanted.form.words());
        let starts_per_block = BLOCK / wanted.sum_len;
        self.quads.resize(rows * inputs / 4 * words, 0);
        self.scales.resize(rows * blocks, 0.0);
        self.starts.resize(rows * blocks * starts_per_block, 0);
        let has_sums = wanted.minima == Minima::Blocks;
        self.sums.resize(if has_sums { rows * blocks } else { 0 }, 0.0);
        let unit = wanted.form.unit();
        for (row, x) in x.chunks_exact(inputs).enumerate() {
            let first = row / group * group;
            let (slot, g) = (row - first, group.min(rows - first));
            let quads = &mut self.quads[first * inputs / 4 * words..];
            let scales = &mut self.scales[first * blocks..];
            let starts = &mut self.starts[first * blocks * starts_per_block..];
            for (block, x) in x.as_chunks::<BLOCK>().0.iter().enumerate() {
                let (scale, q) = round_block(x);
                scales[block * g + slot] = scale / unit as f32;
                let parts = q.chunks_exact(wanted.sum_len).enumerate();
                for (part, q) in parts {
                    let [even, odd] = sums(q);
                    let start = -unit * (wanted.bias[0] * even + wanted.bias[1] * odd);
                    starts[(block * starts_per_block + part) * g + slot] = start;
                }
                if wanted.minima == Minima::Halves {
                    let [low, high] = [&q[..16], &q[16..]].map(|q| sums(q).iter().sum());
                    starts[block * g + slot] = pack_words(low, high) as i32;
                }
                if has_sums {
                    let [even, odd] = sums(&q);
                    self.sums[first * blocks + block * g + slot] = scale * (even + odd) as f32;
                }
                for (quad, q) in q.as_chunks::<4>().0.iter().enumerate() {
                    let at = (block * 8 + quad) * words * g + slot;
                    match wanted.form {
                        QuadForm::Bytes => quads[at] = pack_bytes(*q),
                        QuadForm::Words => {
                            let [a, b, c, d] = q.map(i32::from);
                            quads[at] = pack_words(b, d);
                            quads[at + g] = pack_words(256 * a - b, 256 * c - d);
                        }
                        QuadForm::Signs => {
                            quads[at] = pack_bytes(q.map(|q| q.max(0)));
                            quads[at + g] = pack_bytes(q.map(|q| (-q).max(0)));
                        }
                    }
                }
            }
        }
    }

    /// Pointers to the group that starts with row `first`, for rows of `inputs`.
    pub(super) fn group(&self, first: usize, inputs: usize, wanted: Wanted) -> RowGroup {
        let blocks = inputs / BLOCK;
        RowGroup {
            quads: self.quads[first * inputs / 4 * wanted.form.words()..].as_ptr(),
            scales: self.scales[first * blocks..].as_ptr(),
            starts: self.starts[first * inputs / wanted.sum_len..].as_ptr(),
            sums: if wanted.minima == Minima::Blocks { self.sums[first * blocks..].as_ptr() } else { std::ptr::null() },
        }
    }
}

/// Writes each row of `x`, `[rows, inputs]`, as two to `parts`: its rounding to 8 bits, then what remains of it.
pub(super) fn split(x: &[f32], inputs: usize, parts: &mut Vec<f32>) {
    parts.resize(2 * x.len(), 0.0);
    for (x, parts) in x.chunks_exact(inputs).zip(parts.chunks_exact_mut(2 * inputs)) {
        let (main, rest) = parts.split_at_mut(inputs);
        let blocks = x.as_chunks::<BLOCK>().0.iter();
        let parts = main.as_chunks_mut::<BLOCK>().0.iter_mut().zip(rest.as_chunks_mut::<BLOCK>().0);
        for (x, (main, rest)) in blocks.zip(parts) {
            let (scale, q) = round_block(x);
            for index in 0..BLOCK {
                main[index] = scale * f32::from(q[index]);
                rest[index] = x[index] - main[index];
            }
        }
    }
}

/// Scale d and integers q of a block.
pub(super) fn round_block(x: &[f32; BLOCK]) -> (f32, [i8; BLOCK]) {
    // Magnitudes are ordered like their bits, and the largest integer is found without branches.
    let largest = x.iter().fold(0, |largest, x| largest.max(x.abs().to_bits()));
    let largest = f32::from_bits(largest);
    if largest < SMALLEST {
        return (0.0, [0; BLOCK]);
    }
    let scale = largest / 127.0;
    let inverse = 127.0 / largest;
    (scale, x.map(|x| nearest(x * inverse)))
}

/// Nearest integer, ties to even, for −127.5 < x < 127.5; an arbitrary integer for NaN.
fn nearest(x: f32) -> i8 {
    // Adding 1.5·2²³ leaves the integer in the low bits of the sum.
    (x + 12_582_912.0).to_bits() as i8
}

/// Sums over even and over odd indices.
fn sums(q: &[i8]) -> [i32; 2] {
    let (pairs, _) = q.as_chunks::<2>();
    pairs.iter().fold([0, 0], |[even, odd], &[a, b]| [even + i32::from(a), odd + i32::from(b)])
}

fn pack_bytes(q: [i8; 4]) -> u32 {
    u32::from_le_bytes(q.map(|q| q as u8))
}

/// Packs two numbers that fit into 16 bits: |256·a − b| ≤ 257 · 127, and sums of 16 activations are smaller.
fn pack_words(low: i32, high: i32) -> u32 {
    u32::from(low as i16 as u16) | u32::from(high as i16 as u16) << 16
}
