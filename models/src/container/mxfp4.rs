//! Tensors of all experts of a block, as checkpoints of gpt-oss store them.
//!
//! A projection of the experts is one tensor, or in MXFP4 (OCP Microscaling) two of bytes. Gate and up projection share
//! their tensors, in which their outputs alternate, and `outputs` counts both:
//!
//! ```text
//! NAME         [experts, inputs, outputs]            floats
//! NAME_blocks  [experts, outputs, inputs / 32, 16]   half bytes: of inputs 2i and 2i + 1, the lower one first
//! NAME_scales  [experts, outputs, inputs / 32]       exponents
//! NAME_bias    [experts, outputs]                    floats
//! ```
//!
//! A block in GGUF is its exponent and 16 bytes, of which byte i holds inputs i and i + 16.

/// Bytes of the half bytes of a block.
const BLOCK_BYTES: usize = 16;

/// Appends the blocks of some rows as GGUF files store them. `blocks` and `scales` are those of all rows.
pub(super) fn pack(
    blocks: &[u8],
    scales: &[u8],
    inputs: usize,
    rows: impl Iterator<Item = usize>,
    packed: &mut Vec<u8>,
) {
    let groups = inputs / (2 * BLOCK_BYTES);
    let (blocks, _) = blocks.as_chunks::<BLOCK_BYTES>();
    for row in rows {
        let own = row * groups..(row + 1) * groups;
        for (block, &scale) in blocks[own.clone()].iter().zip(&scales[own]) {
            let input = |i: usize| block[i / 2] >> (i % 2 * 4) & 15;
            packed.push(scale);
            packed.extend((0..BLOCK_BYTES).map(|i| input(i) | input(i + BLOCK_BYTES) << 4));
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    /// In row r, input i is i + r modulo 16.
    #[test]
    fn inputs_of_alternating_rows_are_at_their_places() {
        let blocks: Vec<u8> = (0..4)
            .flat_map(|row: u8| (0..32).map(move |i: u8| (2 * i + row) % 16 + (2 * i + 1 + row) % 16 * 16))
            .collect();
        let mut packed = Vec::new();
        pack(&blocks, &[1, 2, 3, 4, 5, 6, 7, 8], 64, [1, 3].into_iter(), &mut packed);
        let found: Vec<&[u8]> = packed.chunks_exact(17).collect();
        assert_eq!(found.len(), 4);
        for (block, (row, scale)) in found.into_iter().zip([(1, 3), (1, 4), (3, 7), (3, 8)]) {
            // Inputs i and i + 16 of this pattern are equal.
            let expected: Vec<u8> = (0..16).map(|i: u8| (i + row) % 16 * 17).collect();
            assert_eq!((block[0], &block[1..]), (scale, &expected[..]));
        }
    }

    #[test]
    fn halves_of_a_block_are_brought_side_by_side() {
        // Input 1 is 5, input 17 is 9, and all others are 0.
        let mut blocks = [0; 16];
        (blocks[0], blocks[8]) = (0x50, 0x90);
        let mut packed = Vec::new();
        pack(&blocks, &[120], 32, [0].into_iter(), &mut packed);
        assert_eq!(packed, [120, 0, 0x95, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
