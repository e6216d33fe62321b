//! The frame of every matrix product: outputs are computed in units of a few columns for all rows.

use super::pool::for_each_chunk;

/// Outputs that one unit of work computes for every row of the batch; a multiple of four.
pub(crate) const COLUMNS: usize = 16;

/// Fills `out`, `[rows, outputs]`, from `unit(first, products)`, which computes the outputs from `first` on
/// as `products`, `[COLUMNS or what is left, rows]`.
pub(crate) fn by_columns(
    rows: usize,
    outputs: usize,
    multiplications: usize,
    out: &mut [f32],
    unit: impl Fn(usize, &mut [f32]) + Sync,
) {
    let unit = |index: usize, products: &mut [f32]| unit(index * COLUMNS, products);
    if rows == 1 {
        for_each_chunk(out, COLUMNS, multiplications, unit);
        return;
    }
    let mut transposed = vec![0.0; out.len()];
    for_each_chunk(&mut transposed, COLUMNS * rows, multiplications, unit);
    for (row, out) in out.chunks_exact_mut(outputs).enumerate() {
        for (out, products) in out.iter_mut().zip(transposed.chunks_exact(rows)) {
            *out = products[row];
        }
    }
}
