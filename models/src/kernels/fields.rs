//! Packing of numbers of two, three and five bits into whole vectors.
//!
//! A vector of 64 bytes has four bytes for each of 16 outputs. Each byte position has room for a number of up to eight
//! bits for four inputs, a quad. Two numbers of three bits fit into a byte, or one of five. The remaining bits hold the
//! other quads of 32 inputs, and no bit is unused:
//!
//! ```text
//!               bits 0 1   2 3   4 5   6 7               bits 0 … 4      5 6 7
//! two bits   0       q0    q1    q2    q3    five bits  0      q0        q3 low
//!            1       q4    q5    q6    q7               1      q1        q3 high (5, 6), q7 bit 4 (7)
//!                                                       2      q2        q6 low
//!               bits 0 1 2   3 4 5    6  7              3      q4        q6 high (5, 6), q7 bit 3 (7)
//! three bits 0       q0      q1     q6 low              4      q5        q7 low
//!            1       q2      q3     q7 low
//!            2       q4      q5     q6, q7 bit 2
//! ```
//!
//! Most quads are unpacked by a shift and a mask; a separate plane of fifth bits would take two more instructions each.
//! Quads 0 to 3 are inputs 0 to 15.

/// Number of outputs in a strip, one per lane.
pub(crate) const LANES: usize = 16;

/// Numbers of 32 inputs, one per byte.
pub(super) type Numbers = [u8; 32];

/// Part of a quad's numbers: bits `from` on, masked by `mask`, stored at bit `shift` of the bytes of `vector`.
struct Piece {
    vector: usize,
    shift: u32,
    from: u32,
    mask: u32,
}

const fn piece(vector: usize, shift: u32, from: u32, bits: u32) -> Piece {
    Piece { vector, shift, from, mask: ((1 << bits) - 1) * 0x0101_0101 }
}

/// Positions of the eight quads of 32 inputs.
pub(super) struct Fields([&'static [Piece]; 8]);

/// Layout of numbers of two bits, in two vectors.
pub(super) const TWO_BITS: Fields = Fields([
    &[piece(0, 0, 0, 2)],
    &[piece(0, 2, 0, 2)],
    &[piece(0, 4, 0, 2)],
    &[piece(0, 6, 0, 2)],
    &[piece(1, 0, 0, 2)],
    &[piece(1, 2, 0, 2)],
    &[piece(1, 4, 0, 2)],
    &[piece(1, 6, 0, 2)],
]);

/// Layout of numbers of three bits, in three vectors.
pub(super) const THREE_BITS: Fields = Fields([
    &[piece(0, 0, 0, 3)],
    &[piece(0, 3, 0, 3)],
    &[piece(1, 0, 0, 3)],
    &[piece(1, 3, 0, 3)],
    &[piece(2, 0, 0, 3)],
    &[piece(2, 3, 0, 3)],
    &[piece(0, 6, 0, 2), piece(2, 6, 2, 1)],
    &[piece(1, 6, 0, 2), piece(2, 7, 2, 1)],
]);

/// Layout of numbers of five bits, in five vectors.
pub(super) const FIVE_BITS: Fields = Fields([
    &[piece(0, 0, 0, 5)],
    &[piece(1, 0, 0, 5)],
    &[piece(2, 0, 0, 5)],
    &[piece(0, 5, 0, 3), piece(1, 5, 3, 2)],
    &[piece(3, 0, 0, 5)],
    &[piece(4, 0, 0, 5)],
    &[piece(2, 5, 0, 3), piece(3, 5, 3, 2)],
    &[piece(4, 5, 0, 3), piece(3, 7, 3, 1), piece(1, 7, 4, 1)],
]);

impl Fields {
    /// Writes a lane's numbers into vectors that are zero there.
    pub(super) fn put(&self, vectors: &mut [u8], lane: usize, numbers: &Numbers) {
        for (pieces, quad) in self.0.iter().zip(numbers.as_chunks::<4>().0) {
            let quad = u32::from_le_bytes(*quad);
            for piece in *pieces {
                let at = 4 * (piece.vector * LANES + lane);
                let bits = (quad >> piece.from & piece.mask) << piece.shift;
                for (byte, bits) in vectors[at..at + 4].iter_mut().zip(bits.to_le_bytes()) {
                    *byte |= bits;
                }
            }
        }
    }

    /// Reads the numbers of a lane.
    pub(super) fn get(&self, vectors: &[u8], lane: usize) -> Numbers {
        let mut numbers = [0; 32];
        for (pieces, quad) in self.0.iter().zip(numbers.as_chunks_mut::<4>().0) {
            let bits = pieces.iter().fold(0, |bits, piece| {
                let at = 4 * (piece.vector * LANES + lane);
                let word = u32::from_le_bytes([vectors[at], vectors[at + 1], vectors[at + 2], vectors[at + 3]]);
                bits | (word >> piece.shift & piece.mask) << piece.from
            });
            *quad = bits.to_le_bytes();
        }
        numbers
    }
}

/// Numbers of five bits in a `Q5_0` or `Q5_1` block of a file: 32 high bits, then half bytes, low ones first.
pub(super) fn q5_numbers(packed: &[u8]) -> Numbers {
    let (high, halves) = packed.split_at(4);
    std::array::from_fn(|i| halves[i % 16] >> (4 * (i / 16)) & 15 | (high[i / 8] >> (i % 8) & 1) << 4)
}

/// Numbers of five bits of the `part`-th 32 inputs of a `Q5_K` block.
pub(super) fn q5k_numbers(block: &[u8], part: usize) -> Numbers {
    let (high, halves) = (&block[16..48], &block[48 + part / 2 * 32..][..32]);
    std::array::from_fn(|i| halves[i] >> (4 * (part % 2)) & 15 | (high[i] >> part & 1) << 4)
}

/// Numbers of two bits of the `part`-th 32 of 256 inputs in a `Q2_K` or `Q3_K` block of a file.
pub(super) fn two_bit_numbers(packed: &[u8], part: usize) -> Numbers {
    std::array::from_fn(|i| packed[part / 4 * 32 + i] >> (2 * (part % 4)) & 3)
}

/// Numbers of three bits of the `part`-th 32 inputs of a `Q3_K` block.
pub(super) fn q3k_numbers(block: &[u8], part: usize) -> Numbers {
    let low = two_bit_numbers(&block[32..96], part);
    std::array::from_fn(|i| low[i] | (block[i] >> part & 1) << 2)
}

/// Scale of the `part`-th 16 inputs of a `Q3_K` block: six bits, less 32.
pub(super) fn q3k_scale(block: &[u8], part: usize) -> i8 {
    let packed = &block[96..108];
    let low = packed[part % 8] >> (4 * (part / 8)) & 15;
    let high = packed[8 + part % 4] >> (2 * (part / 4)) & 3;
    (low | high << 4) as i8 - 32
}

/// Scale of the `part`-th 32 inputs of an `IQ4_XS` block: six bits, less 32.
pub(super) fn iq4xs_scale(block: &[u8], part: usize) -> i8 {
    let low = block[4 + part / 2] >> (4 * (part % 2)) & 15;
    let high = block[2 + part / 4] >> (2 * (part % 4)) & 3;
    (low | high << 4) as i8 - 32
}
