//! Relative position bias of attention scores: a learned number per head and bucket of distances (Raffel et al. 2020,
//! section 2.1, <https://arxiv.org/abs/1910.10683>).
//!
//! With B buckets per direction and E = ⌊B/2⌋, a distance d below E has bucket d. Greater distances share buckets whose
//! widths grow logarithmically, up to distance D, from which on all share the last bucket:
//!
//! ```text
//! bucket(d) = min(B − 1, E + ⌊ln(d / E) / ln(D / E) · (B − E)⌋)      in f32, as the reference implementation
//! ```
//!
//! The decoder has one direction. The encoder has two with half of the buckets each: first keys before the query, then
//! keys after it.

use super::super::linear::Linear;
use crate::family::encoder_decoder::config::EncoderDecoderConfig;

/// Keys visible to a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// Keys up to the query: in the decoder.
    Before,
    /// All keys: in the encoder.
    Both,
}

/// Relative position bias of an encoder or a decoder.
#[derive(Debug)]
pub(super) struct RelativeBias {
    /// shape: [buckets, heads]
    values: Vec<f32>,
    heads: usize,
    /// Smallest distance whose bucket is at least this one, for each bucket of a direction; ascending.
    starts: Vec<usize>,
    direction: Direction,
}

impl RelativeBias {
    /// Creates the bias from `table`, `[buckets, heads]`.
    pub(super) fn new(table: &Linear, config: &EncoderDecoderConfig, direction: Direction) -> Self {
        let mut values = Vec::new();
        let buckets = config.position_buckets;
        // Buckets are at most 2²⁴.
        let ids: Vec<u32> = (0..buckets as u32).collect();
        table.embed(&ids, &mut values);
        let starts = starts(buckets / direction.count(), config.position_distance);
        Self { values, heads: config.heads, starts, direction }
    }

    /// Writes the bias for keys at relative positions −`reach` to `reach` − 1: `[heads, 2 · reach]`. For the direction
    /// [`Before`](Direction::Before), entries of later keys are left as they are.
    pub(super) fn lay_out(&self, reach: usize, out: &mut Vec<f32>) {
        out.resize(self.heads * 2 * reach, 0.0);
        let mut put = |index: usize, bucket: usize| {
            for (head, value) in self.values[bucket * self.heads..][..self.heads].iter().enumerate() {
                out[head * 2 * reach + index] = *value;
            }
        };
        let mut bucket = 0;
        for distance in 0..=reach {
            while self.starts.get(bucket + 1).is_some_and(|&start| start <= distance) {
                bucket += 1;
            }
            put(reach - distance, bucket);
            if self.direction == Direction::Both && (1..reach).contains(&distance) {
                put(reach + distance, self.starts.len() + bucket);
            }
        }
    }
}

impl Direction {
    fn count(self) -> usize {
        match self {
            Self::Before => 1,
            Self::Both => 2,
        }
    }
}

/// Smallest distance with at least each bucket, for `buckets` ≥ 2. Distances in the decoder stay below 2²⁴, so they are
/// exact in f32.
fn starts(buckets: usize, last: usize) -> Vec<usize> {
    let start = |bucket: usize| {
        // Bisection works because buckets grow with the distance.
        let (mut below, mut found) = (0, last);
        while below < found {
            let middle = below + (found - below) / 2;
            match bucket_of(middle, buckets, last) < bucket {
                true => below = middle + 1,
                false => found = middle,
            }
        }
        found
    };
    (0..buckets).map(start).collect()
}

/// Bucket of a distance, out of `buckets` per direction. From distance `last` on it is the last one.
fn bucket_of(distance: usize, buckets: usize, last: usize) -> usize {
    let exact = buckets / 2;
    if distance < exact {
        return distance;
    }
    let whole = libm::log(last as f64 / exact as f64) as f32;
    let part = libm::logf(distance as f32 / exact as f32) / whole;
    (exact + (part * (buckets - exact) as f32) as usize).min(buckets - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[derive(serde::Deserialize)]
    struct Golden {
        buckets: Vec<Table>,
    }

    #[derive(serde::Deserialize)]
    struct Table {
        buckets: usize,
        distance: usize,
        decoder: Vec<usize>,
        encoder: Vec<usize>,
        encoder_behind: Vec<usize>,
    }

    /// Bias of one head in which each bucket's value is its number.
    fn numbered(table: &Table, direction: Direction) -> RelativeBias {
        let values = (0..table.buckets).map(|bucket| bucket as f32).collect();
        let starts = starts(table.buckets / direction.count(), table.distance);
        RelativeBias { values, heads: 1, starts, direction }
    }

    #[test]
    fn buckets_are_those_of_transformers() {
        let golden = include_str!("../../../tests/golden/encoder_decoder.json");
        let golden: Golden = serde_json::from_str(golden).unwrap();
        assert_eq!(golden.buckets.len(), 8);
        for table in &golden.buckets {
            let reach = table.decoder.len();
            let (mut decoder, mut encoder) = (Vec::new(), Vec::new());
            numbered(table, Direction::Before).lay_out(reach, &mut decoder);
            numbered(table, Direction::Both).lay_out(reach, &mut encoder);
            for distance in 0..reach {
                let what = (table.buckets, table.distance, distance);
                assert_eq!(decoder[reach - distance] as usize, table.decoder[distance], "decoder {what:?}");
                assert_eq!(encoder[reach - distance] as usize, table.encoder[distance], "encoder {what:?}");
                assert_eq!(encoder[reach + distance] as usize, table.encoder_behind[distance], "behind {what:?}");
            }
        }
    }
}
