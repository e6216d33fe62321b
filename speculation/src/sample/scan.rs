//! The first pass over a row of logits: its largest, piece by piece, and whether it can be sampled from.
//!
//! The largest logits of the pieces stay. They find the few tokens above a bound without another pass, and the bound
//! itself: at least k tokens reach the k-th largest of them.

use super::error::LogitsError;

/// Number of tokens in a piece.
pub(crate) const PIECE: usize = 64;

const LANES: usize = 16;

/// Result of the first pass over a row of logits.
#[derive(Debug, Clone)]
pub(super) struct Scan {
    /// The largest logit of each [`PIECE`].
    largest: Vec<f32>,
    /// The largest of all; finite.
    pub(super) max: f32,
}

impl Scan {
    pub(super) fn of(logits: &[f32]) -> Result<Self, LogitsError> {
        if logits.is_empty() {
            return Err(LogitsError::Empty);
        }
        let mut usable = true;
        let piece = |piece: &[f32]| {
            let (mut largest, mut unusable) = ([f32::NEG_INFINITY; LANES], [0u32; LANES]);
            let mut see = |lane: usize, logit: f32| {
                largest[lane] = if logit > largest[lane] { logit } else { largest[lane] };
                // NaN is below nothing.
                unusable[lane] |= if logit < f32::INFINITY { 0 } else { 1 };
            };
            let (blocks, rest) = piece.as_chunks::<LANES>();
            for block in blocks {
                for (lane, &logit) in block.iter().enumerate() {
                    see(lane, logit);
                }
            }
            for (lane, &logit) in rest.iter().enumerate() {
                see(lane, logit);
            }
            usable &= unusable == [0; LANES];
            largest.into_iter().fold(f32::NEG_INFINITY, f32::max)
        };
        let largest: Vec<f32> = logits.chunks(PIECE).map(piece).collect();
        let max = largest.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        if usable && max > f32::NEG_INFINITY {
            return Ok(Self { largest, max });
        }
        let bad = |logit: &f32| logit.is_nan() || *logit == f32::INFINITY;
        Err(LogitsError::NotFinite { token: logits.iter().position(bad).unwrap_or(0) })
    }

    /// The pieces with their largest logits.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (usize, f32)> {
        self.largest.iter().copied().enumerate()
    }

    /// The smallest id among those with the largest logit.
    pub(super) fn best(&self, logits: &[f32]) -> u32 {
        self.from(logits, self.max).next().unwrap_or(0)
    }

    /// A bound that at least `k` tokens reach, and not many more; −∞ if k is above the number of pieces.
    pub(super) fn bound_of(&self, k: usize) -> f32 {
        match k.checked_sub(1) {
            Some(place) if k <= self.largest.len() => {
                let mut largest = self.largest.clone();
                *largest.select_nth_unstable_by(place, |a, b| b.total_cmp(a)).1
            }
            _ => f32::NEG_INFINITY,
        }
    }

    /// The tokens whose logits are at least `bound`, ascending; none whose logit is −∞.
    pub(super) fn from<'a>(&'a self, logits: &'a [f32], bound: f32) -> impl Iterator<Item = u32> + 'a {
        let bound = bound.max(f32::MIN);
        let pieces = self.largest.iter().zip(logits.chunks(PIECE)).zip((0u32..).step_by(PIECE));
        pieces.filter(move |&((&largest, _), _)| largest >= bound).flat_map(move |((_, piece), first)| {
            (first..).zip(piece).filter(move |&(_, &logit)| logit >= bound).map(|(id, _)| id)
        })
    }
}
