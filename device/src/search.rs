//! Batched sampling by inverse distribution functions, one draw per row.
//!
//! A row has N weights and a share u in [0, 1). The result is the first index at which the running sum of weights
//! exceeds the target u·Σ. A running sum over N numbers is a long serial chain, and as a product with a triangular
//! matrix it is N² work. The row is therefore divided into pieces of [`PIECE`] weights: their sums in f64, running sums
//! of those, the piece that contains the target, and running sums within it. An index with weight zero is never found,
//! however sums are rounded. Targets stay below the last running sum, and only a positive weight can make a running sum
//! exceed the target first.

use candle_core::{D, DType, Result, Tensor};

/// Number of weights in a piece.
pub(crate) const PIECE: usize = 256;

/// Largest factor used below 1.
const BELOW_ONE: f64 = 1.0 - f64::EPSILON;

/// Result of a search in one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Found {
    /// Index that was found.
    pub(crate) index: usize,
    /// Sum of the row's weights. If it is zero or NaN, the index is meaningless.
    pub(crate) total: f64,
}

/// Weights with the sums of their pieces.
pub(crate) struct Pieces {
    /// Weights, `[rows, pieces, PIECE]` in f32, padded with zeros.
    weights: Tensor,
    /// Sums of the pieces, `[rows, pieces]` in f64.
    sums: Tensor,
}

impl Pieces {
    /// Divides weights of shape `[rows, N]` in f32 into pieces.
    pub(crate) fn new(weights: &Tensor) -> Result<Self> {
        let (rows, count) = weights.dims2()?;
        let padding = count.next_multiple_of(PIECE) - count;
        let padded = if padding == 0 { weights.clone() } else { weights.pad_with_zeros(1, 0, padding)? };
        let weights = padded.reshape((rows, (count + padding) / PIECE, PIECE))?;
        let sums = weights.sum(2)?.to_dtype(DType::F64)?;
        Ok(Self { weights, sums })
    }

    /// Sum Σ of each row, `[rows, 1]` in f64.
    pub(crate) fn totals(&self) -> Result<Tensor> {
        self.sums.sum_keepdim(1)
    }

    /// Finds the index for each share; `shares` is `[rows, 1]` in f64.
    pub(crate) fn at(&self, shares: &Tensor) -> Result<Vec<Found>> {
        let (rows, pieces) = self.sums.dims2()?;
        let device = self.sums.device();
        let running = self.sums.cumsum(1)?.contiguous()?;
        let totals = running.narrow(1, pieces - 1, 1)?.contiguous()?;
        let tickets = below(&(shares * &totals)?, &totals)?;
        let piece = first_above(&running, &tickets)?.minimum((pieces - 1) as f64)?;
        let pieces_found = piece.to_dtype(DType::U32)?;
        let before = (running.gather(&pieces_found, 1)? - self.sums.gather(&pieces_found, 1)?)?;
        // The piece of row r has index r·pieces + piece among all pieces.
        let starts: Vec<u32> = (0..rows).map(|row| (row * pieces) as u32).collect();
        let chosen = (pieces_found.squeeze(1)? + Tensor::new(starts, device)?)?;
        let weights = self.weights.reshape((rows * pieces, PIECE))?.index_select(&chosen, 0)?.to_dtype(DType::F64)?;
        let running = weights.cumsum(1)?.contiguous()?;
        let last = running.narrow(1, PIECE - 1, 1)?.contiguous()?;
        let rest = below(&(tickets - before)?.maximum(0.0)?, &last)?;
        let within = first_above(&running, &rest)?.minimum((PIECE - 1) as f64)?;
        let found = Tensor::cat(&[(piece * PIECE as f64)?.add(&within)?, totals], 1)?;
        let found = found.to_vec2::<f64>()?;
        // Indices are integers below 2⁵³, exact in f64.
        Ok(found.iter().map(|row| Found { index: row[0] as usize, total: row[1] }).collect())
    }
}

/// Limits targets to just below the sums.
fn below(tickets: &Tensor, sums: &Tensor) -> Result<Tensor> {
    tickets.minimum(&(sums * BELOW_ONE)?)
}

/// Number of each row's ascending sums that are not above its target, `[rows, 1]`.
fn first_above(running: &Tensor, tickets: &Tensor) -> Result<Tensor> {
    running.broadcast_le(tickets)?.to_dtype(DType::F64)?.sum_keepdim(D::Minus1)
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    fn find(weights: &[f32], shares: &[f64]) -> Vec<usize> {
        let row = Tensor::new(weights, &Device::Cpu).unwrap().unsqueeze(0).unwrap();
        let rows = row.broadcast_as((shares.len(), weights.len())).unwrap().contiguous().unwrap();
        let shares = Tensor::from_slice(shares, (shares.len(), 1), &Device::Cpu).unwrap();
        Pieces::new(&rows).unwrap().at(&shares).unwrap().iter().map(|found| found.index).collect()
    }

    #[test]
    fn shares_fall_to_the_weights_they_belong_to() {
        assert_eq!(find(&[0.0, 1.0, 0.0, 3.0, 0.0], &[0.0, 0.2, 0.25, 0.9, BELOW_ONE]), [1, 1, 3, 3, 3]);
    }

    #[test]
    fn pieces_without_weight_are_passed_over() {
        for (count, heavy) in [(3 * PIECE, 2 * PIECE), (3 * PIECE + 5, 0), (5 * PIECE, 3 * PIECE - 1), (1, 0)] {
            let mut weights = vec![0.0; count];
            weights[heavy] = 1e-20;
            assert_eq!(find(&weights, &[0.0, 0.3, BELOW_ONE]), [heavy; 3]);
        }
    }

    #[test]
    fn every_share_finds_what_a_plain_running_sum_finds() {
        let weights: Vec<f32> = (0..1000).map(|i| ((i * 37 % 101) as f32 / 16.0).floor()).collect();
        let total: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
        let shares: Vec<f64> = (0..997).map(|i| f64::from(i) / 997.0).collect();
        let plain = |share: &f64| {
            let mut ticket = share * total;
            weights.iter().position(|&weight| {
                ticket -= f64::from(weight);
                ticket < 0.0
            })
        };
        let expected: Vec<usize> = shares.iter().map(|share| plain(share).unwrap()).collect();
        assert_eq!(find(&weights, &shares), expected);
    }

    #[test]
    fn nothing_to_find_shows_in_the_total() {
        for weights in [[0.0, 0.0], [f32::NAN, 1.0]] {
            let rows = Tensor::new(&[weights], &Device::Cpu).unwrap();
            let shares = Tensor::new(&[[0.5]], &Device::Cpu).unwrap();
            let found = Pieces::new(&rows).unwrap().at(&shares).unwrap();
            assert!(found[0].total.is_nan() || found[0].total == 0.0, "{found:?}");
        }
    }
}
