//! Rotary position embedding: each pair of elements of a head is a point in a plane, rotated by an angle proportional
//! to the token's position (Su et al. 2021, <https://arxiv.org/abs/2104.09864>).

use crate::family::{
    block::RotaryScope,
    rotary::{RopeLayout, Rotary},
};

/// Rotary embedding with its frequencies.
pub(crate) struct Rope {
    /// Radians per position, one per pair of rotated elements.
    frequencies: Vec<f32>,
    layout: RopeLayout,
    magnitude: f32,
    head_dim: usize,
}

/// Cosines and sines for a list of positions, `[positions, rotated / 2]` each.
#[derive(Debug, Default)]
pub(crate) struct Angles {
    cos: Vec<f32>,
    sin: Vec<f32>,
}

/// Value for each of a model's rotary embeddings.
#[derive(Debug, Default)]
pub(super) struct PerRotary<T> {
    pub(super) global: T,
    pub(super) local: T,
}

impl<T> PerRotary<T> {
    pub(super) fn of(&self, scope: RotaryScope) -> &T {
        match scope {
            RotaryScope::Global => &self.global,
            RotaryScope::Local => &self.local,
        }
    }
}

impl Rope {
    pub(crate) fn new(rotary: &Rotary, head_dim: usize) -> Self {
        let &Rotary { layout, magnitude, .. } = rotary;
        Self { frequencies: rotary.frequencies(head_dim), layout, magnitude, head_dim }
    }

    /// Computes cosines and sines of `positions`. Angles are computed in f32, as in the reference implementation; sines
    /// and cosines come from one library, so they are equal on every machine.
    pub(crate) fn angles(&self, positions: impl Iterator<Item = usize>, angles: &mut Angles) {
        angles.cos.clear();
        angles.sin.clear();
        for position in positions {
            for frequency in &self.frequencies {
                let (sin, cos) = libm::sincosf(position as f32 * frequency);
                angles.cos.push(cos * self.magnitude);
                angles.sin.push(sin * self.magnitude);
            }
        }
    }

    /// Rotates every head of every row of `x`, `[rows, heads, head_dim]`; row i by the i-th of `angles`.
    pub(crate) fn rotate(&self, x: &mut [f32], heads: usize, angles: &Angles) {
        let half = self.frequencies.len();
        let angles = angles.cos.chunks_exact(half).zip(angles.sin.chunks_exact(half));
        for (row, (cos, sin)) in x.chunks_exact_mut(heads * self.head_dim).zip(angles) {
            for head in row.chunks_exact_mut(self.head_dim) {
                let head = &mut head[..2 * half];
                match self.layout {
                    RopeLayout::Interleaved => {
                        let (pairs, _) = head.as_chunks_mut::<2>();
                        for ((pair, cos), sin) in pairs.iter_mut().zip(cos).zip(sin) {
                            let [x, y] = *pair;
                            *pair = [x * cos - y * sin, y * cos + x * sin];
                        }
                    }
                    RopeLayout::HalfSplit => {
                        let (first, second) = head.split_at_mut(half);
                        let pairs = first.iter_mut().zip(second);
                        for ((pair, cos), sin) in pairs.zip(cos).zip(sin) {
                            let (x, y) = (*pair.0, *pair.1);
                            *pair.0 = x * cos - y * sin;
                            *pair.1 = y * cos + x * sin;
                        }
                    }
                }
            }
        }
    }
}
