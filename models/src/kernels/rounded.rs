//! Rows of activations, rounded to 8 bits in blocks of 32, in the order in which the kernels read them.
//!
//! With d = max |x| / 127 over a block, x ≈ d·q for an integer −127 ≤ q ≤ 127, off by at most d/2. Rounding is to the
//! nearest, ties to even, so that every machine gets the same q.

use super::format::Format;

/// Activations of a block.
const BLOCK: usize = 32;

/// Blocks whose largest magnitude is below this, 2⁻⁶⁰, are rounded to zero: the scales of all others stay normal
/// numbers through every product with a weight's scale, so that no kernel depends on how subnormals are treated.
const SMALLEST: f32 = f32::from_bits((127 - 60) << 23);

/// The form in which an instruction set wants four activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "no build has instruction sets that want them all")]
pub(super) enum QuadForm {
    /// Four signed bytes.
    Bytes,
    /// For processors that multiply 16-bit numbers only: (x₁, x₃) and (256·x₀ − x₁, 256·x₂ − x₃), 16 bits each.
    ///
    /// Two weights that lie in one 16-bit word, v = 256·h + u with 0 ≤ u < 256, need not be taken apart to be
    /// multiplied by x₁ and x₀: v·x₁ + u·(256·x₀ − x₁) = 256·(h·x₁ + u·x₀). So one mask gives u, and the sum
    /// is 256 times the dot product.
    Words,
    /// For processors whose byte products want seven bits on one side: max(x, 0) and max(−x, 0), four bytes each.
    Signs,
}

impl QuadForm {
    /// 32-bit words for four activations.
    pub(super) const fn words(self) -> usize {
        match self {
            Self::Bytes => 1,
            Self::Words | Self::Signs => 2,
        }
    }

    /// The factor by which integer sums are too large.
    pub(super) const fn unit(self) -> i32 {
        match self {
            Self::Bytes | Self::Signs => 1,
            Self::Words => 256,
        }
    }
}

/// The sums of activations that a format's minima are multiplied by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Minima {
    /// It has no minima.
    Absent,
    /// Scale × sum of each block.
    Blocks,
    /// Those of both halves of a block, as integers. They take the place of the starts.
    Halves,
}

/// What a format's kernel needs to know of the activations, as an instruction set wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(super) form: QuadForm,
    /// What is added to weights so that they are unsigned, for even inputs and for odd ones.
    pub(super) bias: [i32; 2],
    /// Inputs per integer sum: 32 or 16.
    pub(super) sum_len: usize,
    /// What minima are multiplied by.
    pub(super) minima: Minima,
}

impl Wanted {
    /// What `format` wants, if it multiplies rounded activations. `signed`, `small`: the forms for signed bytes and for
    /// half bytes; `sign_flips`: what was xor'ed to signed bytes.
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

/// Rounded rows. Rows are grouped as kernels take them, `group` at a time; within a group of g rows everything is
/// interleaved, `[…, g]`.
#[derive(Debug, Default)]
pub(crate) struct RoundedRows {
    /// shape: [groups][inputs / 4][words][g]
    quads: Vec<u32>,
    /// Times 1 / unit. shape: [groups][inputs / 32][g]
    scales: Vec<f32>,
    /// What integer sums start from: minus the sum that the bias adds; or the sums of both halves of a block, 16 bits
    /// each. shape: [groups][inputs / sum_len][g]
    starts: Vec<i32>,
    /// scale × sum of the block. shape: [groups][inputs / 32][g], or empty
    sums: Vec<f32>,
}

/// The rows that go into a product, rounded in each way that its matrices want.
#[derive(Debug, Default)]
pub(crate) struct Activations {
    /// The first `valid` are of the present rows; the others are memory that was used before.
    sets: Vec<(Wanted, RoundedRows)>,
    valid: usize,
}

impl Activations {
    /// Forgets the rows, not the memory.
    pub(super) fn clear(&mut self) {
        self.valid = 0;
    }

    /// Rounds `x`, `[rows, inputs]`, as `wanted`, unless that has been done.
    pub(super) fn round(&mut self, x: &[f32], inputs: usize, group: usize, wanted: Wanted) {
        if self.sets[..self.valid].iter().any(|(form, _)| *form == wanted) {
            return;
        }
        // Memory that has served the same form before fits best.
        let old = self.sets[self.valid..].iter().position(|(form, _)| *form == wanted);
        match old {
            Some(old) => self.sets.swap(self.valid, self.valid + old),
            None => self.sets.insert(self.valid, (wanted, RoundedRows::default())),
        }
        self.sets[self.valid].1.round(x, inputs, group, wanted);
        self.valid += 1;
    }

    /// The rows as `wanted`, for which they have been rounded.
    pub(super) fn rounded(&self, wanted: Wanted) -> &RoundedRows {
        let set = self.sets[..self.valid].iter().find(|(form, _)| *form == wanted);
        #[allow(clippy::expect_used, reason = "a precondition within this module's only caller")]
        &set.expect("rounded before it is asked for").1
    }
}

/// Where a kernel finds the rows of one group.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowGroup {
    pub(super) quads: *const u32,
    pub(super) scales: *const f32,
    pub(super) starts: *const i32,
    pub(super) sums: *const f32,
}

impl RoundedRows {
    /// Rounds `x`, `[rows, inputs]`; `inputs` is a multiple of 32.
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

    /// The group that begins with row `first`, of rows of `inputs`.
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

/// d and q of a block.
pub(super) fn round_block(x: &[f32; BLOCK]) -> (f32, [i8; BLOCK]) {
    // Magnitudes are in the order of their bits, and the largest integer is found without branches.
    let largest = x.iter().fold(0, |largest, x| largest.max(x.abs().to_bits()));
    let largest = f32::from_bits(largest);
    if largest < SMALLEST {
        return (0.0, [0; BLOCK]);
    }
    let scale = largest / 127.0;
    let inverse = 127.0 / largest;
    (scale, x.map(|x| nearest(x * inverse)))
}

/// The nearest integer, ties to even, of −127.5 < x < 127.5; some integer for NaN.
fn nearest(x: f32) -> i8 {
    // Adding 1.5·2²³ leaves the integer in the low bits of the sum.
    (x + 12_582_912.0).to_bits() as i8
}

/// The sums over even and over odd indices.
fn sums(q: &[i8]) -> [i32; 2] {
    let (pairs, _) = q.as_chunks::<2>();
    pairs.iter().fold([0, 0], |[even, odd], &[a, b]| [even + i32::from(a), odd + i32::from(b)])
}

fn pack_bytes(q: [i8; 4]) -> u32 {
    u32::from_le_bytes(q.map(|q| q as u8))
}

/// Both fit into 16 bits: |256·a − b| ≤ 257 · 127, and sums of 16 activations are smaller.
fn pack_words(low: i32, high: i32) -> u32 {
    u32::from(low as i16 as u16) | u32::from(high as i16 as u16) << 16
}
