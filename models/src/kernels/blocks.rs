//! Matrices of quantized blocks, as they stand in a GGUF file, times f32 activations.
//!
//! candle supplies the block types and their dot products for AVX2, NEON and wasm's simd128; the loop around
//! them is ours. Activations are rounded to 8 bits in blocks, as the block types' dot products require.

use std::marker::PhantomData;

use candle_core::quantized::{
    GgmlDType, GgmlType,
    k_quants::{
        BlockQ2K, BlockQ3K, BlockQ4_0, BlockQ4_1, BlockQ4K, BlockQ5_0, BlockQ5_1, BlockQ5K, BlockQ6K, BlockQ8_0,
    },
};

use super::columns::by_columns;

/// A matrix of some block type, `[outputs, inputs]`.
pub(crate) trait BlockMatrix: Send + Sync {
    /// `out = x · weightsᵀ`; `x`: `[rows, inputs]`, `out`: `[rows, outputs]`.
    ///
    /// An element has the same bits whatever other rows there are: it is a dot product whose kernel is
    /// chosen by type and column.
    fn matmul(&self, x: &[f32], inputs: usize, outputs: usize, out: &mut [f32]);

    /// One row of weights as f32.
    fn widen_row(&self, index: usize, out: &mut [f32]);
}

/// The matrix of the first `size` bytes of `buffer`, blocks of `dtype` in rows of `inputs` elements. None if
/// `dtype` is not a block type.
pub(crate) fn block_matrix(
    dtype: GgmlDType,
    buffer: Vec<u64>,
    size: usize,
    inputs: usize,
) -> Option<Box<dyn BlockMatrix>> {
    fn boxed<T: PlainBlock + 'static>(buffer: Vec<u64>, size: usize, inputs: usize) -> Box<dyn BlockMatrix> {
        Box::new(Blocks::<T>::new(buffer, size, inputs))
    }
    let make = match dtype {
        GgmlDType::Q4_0 => boxed::<BlockQ4_0>,
        GgmlDType::Q4_1 => boxed::<BlockQ4_1>,
        GgmlDType::Q5_0 => boxed::<BlockQ5_0>,
        GgmlDType::Q5_1 => boxed::<BlockQ5_1>,
        GgmlDType::Q8_0 => boxed::<BlockQ8_0>,
        GgmlDType::Q2K => boxed::<BlockQ2K>,
        GgmlDType::Q3K => boxed::<BlockQ3K>,
        GgmlDType::Q4K => boxed::<BlockQ4K>,
        GgmlDType::Q5K => boxed::<BlockQ5K>,
        GgmlDType::Q6K => boxed::<BlockQ6K>,
        _ => return None,
    };
    Some(make(buffer, size, inputs))
}

/// A block type that may be read from any bytes.
///
/// # Safety
/// Every bit pattern of the right length must be a value of the type, its alignment must divide 8, and it must
/// have no interior mutability.
#[allow(unsafe_code, reason = "a promise about the memory layout of candle's block types")]
unsafe trait PlainBlock: GgmlType {}

macro_rules! plain_blocks {
    ($($block:ty),*) => { $(
        const _: () = assert!(8 % align_of::<$block>() == 0);
        // SAFETY: candle declares these types `repr(C)` with fields that are f16 and arrays of u8 and i8 only, for
        // which every bit pattern is a value; the alignment has just been checked.
        #[allow(unsafe_code, reason = "see above")]
        unsafe impl PlainBlock for $block {}
    )* };
}
plain_blocks!(BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0, BlockQ2K, BlockQ3K, BlockQ4K, BlockQ5K, BlockQ6K);

struct Blocks<T> {
    /// The file's bytes, aligned to 8; at least `count` blocks.
    buffer: Vec<u64>,
    count: usize,
    blocks_per_row: usize,
    block: PhantomData<fn() -> T>,
}

impl<T: PlainBlock> Blocks<T> {
    fn new(buffer: Vec<u64>, size: usize, inputs: usize) -> Self {
        assert!(size <= size_of_val(buffer.as_slice()));
        let (count, blocks_per_row) = (size / size_of::<T>(), inputs / T::BLCK_SIZE);
        Self { buffer, count, blocks_per_row, block: PhantomData }
    }

    fn blocks(&self) -> &[T] {
        // SAFETY: the buffer is initialised memory that lives as long as `self` and is never written to; `new` has
        // checked that `count` blocks fit into it; a u64 buffer is aligned to 8, of which the alignment of
        // T is a divisor, and all bit patterns are values of T (both promised by `PlainBlock`).
        #[allow(unsafe_code, reason = "views bytes as the blocks they are")]
        unsafe {
            std::slice::from_raw_parts(self.buffer.as_ptr().cast(), self.count)
        }
    }

    fn row(&self, index: usize) -> &[T] {
        &self.blocks()[index * self.blocks_per_row..(index + 1) * self.blocks_per_row]
    }
}

impl<T: PlainBlock> BlockMatrix for Blocks<T> {
    fn matmul(&self, x: &[f32], inputs: usize, outputs: usize, out: &mut [f32]) {
        let rows = x.len() / inputs;
        let width = inputs / T::VecDotType::BLCK_SIZE;
        let mut rounded = vec![T::VecDotType::zeros(); rows * width];
        for (x, rounded) in x.chunks_exact(inputs).zip(rounded.chunks_exact_mut(width)) {
            T::VecDotType::from_float(x, rounded);
        }
        by_columns(rows, outputs, x.len() * outputs, out, |first, products| {
            let quads = products.chunks_mut(4 * rows);
            for (quad, products) in quads.enumerate() {
                let column = first + 4 * quad;
                let row = |offset| self.row(column + offset);
                if products.len() == 4 * rows {
                    let [a, b, c, d] = [row(0), row(1), row(2), row(3)];
                    for (i, x) in rounded.chunks_exact(width).enumerate() {
                        let dots = T::vec_dot_4(inputs, a, b, c, d, x);
                        products[i] = dots.0;
                        products[rows + i] = dots.1;
                        products[2 * rows + i] = dots.2;
                        products[3 * rows + i] = dots.3;
                    }
                } else {
                    for (offset, products) in products.chunks_exact_mut(rows).enumerate() {
                        for (product, x) in products.iter_mut().zip(rounded.chunks_exact(width)) {
                            *product = T::vec_dot(inputs, row(offset), x);
                        }
                    }
                }
            }
        });
    }

    fn widen_row(&self, index: usize, out: &mut [f32]) {
        T::to_float(self.row(index), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    /// Blocks of random bytes with small scales, in a buffer that is longer than needed.
    fn random_blocks(count: usize) -> (Vec<u64>, usize) {
        let mut bytes = Vec::new();
        for block in 0..count {
            bytes.extend(half::f16::from_f32(0.01 + (block % 7) as f32 * 0.003).to_le_bytes());
            bytes.extend((0..32).map(|i| ((block * 31 + i * 57) % 255) as u8));
        }
        let size = bytes.len();
        bytes.resize(size.next_multiple_of(8) + 8, 0);
        (bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect(), size)
    }

    #[test]
    fn products_match_widened_weights_around_unit_sizes() {
        for (rows, inputs, outputs) in [(1, 32, 1), (1, 64, 15), (2, 96, 16), (3, 32, 17), (9, 288, 70)] {
            let (buffer, size) = random_blocks(outputs * inputs / 32);
            let matrix = block_matrix(GgmlDType::Q8_0, buffer, size, inputs).unwrap();
            // Integers up to 127 with 127 in each block are rounded to themselves.
            let value = |i: usize| if i.is_multiple_of(32) { 127.0 } else { (i * 37 % 255) as f32 - 127.0 };
            let x: Vec<f32> = (0..rows * inputs).map(value).collect();
            let mut out = vec![f32::NAN; rows * outputs];
            matrix.matmul(&x, inputs, outputs, &mut out);
            let mut weights = vec![0.0; inputs];
            for column in 0..outputs {
                matrix.widen_row(column, &mut weights);
                for (row, x) in x.chunks_exact(inputs).enumerate() {
                    let terms = x.iter().zip(&weights).map(|(x, w)| f64::from(x * w));
                    let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()));
                    let error = (f64::from(out[row * outputs + column]) - sum).abs();
                    assert!(error < 1e-6 * size, "{rows} × {inputs} × {outputs}: off by {error}");
                }
            }
        }
    }
}
