//! One drafted token in the K-SQS payload (Bhattacharjee et al., §2, eqs 1, 2, 5).
//!
//! ```text
//! support   rank of the K support ids among the K-subsets of {0, …, V−1}     ⌈log2 C(V, K)⌉ bits
//! counts    rank of the K counts among the compositions of ℓ                 ⌈log2 C(ℓ+K−1, K−1)⌉ bits
//! index     which of the K support ids was drafted                           ⌈log2 K⌉ bits
//! ```
//!
//! The paper counts the first two; the third it forgets, but without it the cloud knows the distribution and
//! not the draft.
//!
//! Support ids whose count is zero carry no mass and are not part of the [`DraftDist`]. So that equal
//! distributions have equal bytes they are, by definition, the smallest ids outside the distribution.

use crate::{
    bits::{BitReader, BitWriter},
    distribution::DraftDist,
    enumerative::{CompositionCode, SubsetCode},
    error::{DecodeError, ParameterError},
};

/// The largest lattice resolution ℓ.
pub const MAX_LATTICE_RESOLUTION: u32 = 1 << 16;
/// The largest vocabulary.
pub const MAX_VOCAB_SIZE: u32 = 1 << 24;
/// The most steps a token's two ranks may take; bounds what a peer can make the other side compute.
pub const MAX_WORK: u32 = 4096;

/// The parameters of K-SQS and the codes they define.
#[derive(Debug, Clone)]
pub struct KSqs {
    support_size: u32,
    lattice_resolution: u32,
    vocab_size: u32,
    support: SubsetCode,
    counts: CompositionCode,
    index_bits: u32,
}

/// A drafted token and the distribution it was drawn from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftToken {
    /// The drafted id; its count in `dist` is at least 1.
    pub id: u32,
    /// q̂.
    pub dist: DraftDist,
}

impl KSqs {
    /// The scheme with `support_size` = K ids of a vocabulary of `vocab_size` = V and counts that add up to
    /// `lattice_resolution` = ℓ.
    pub fn new(vocab_size: u32, support_size: u32, lattice_resolution: u32) -> Result<Self, ParameterError> {
        if !(1..=MAX_VOCAB_SIZE).contains(&vocab_size) {
            return Err(ParameterError::VocabSize { vocab_size, limit: MAX_VOCAB_SIZE });
        }
        if !(1..=vocab_size).contains(&support_size) {
            return Err(ParameterError::SupportSize { support_size, vocab_size });
        }
        if !(1..=MAX_LATTICE_RESOLUTION).contains(&lattice_resolution) {
            return Err(ParameterError::LatticeResolution {
                resolution: lattice_resolution,
                limit: MAX_LATTICE_RESOLUTION,
            });
        }
        // Before the binomials are computed: their cost is what is being limited.
        let work = support_size.min(vocab_size - support_size) + (support_size - 1).min(lattice_resolution);
        if work > MAX_WORK {
            return Err(ParameterError::TooMuchWork { work, limit: MAX_WORK });
        }
        Ok(Self {
            support_size,
            lattice_resolution,
            vocab_size,
            support: SubsetCode::new(vocab_size, support_size),
            counts: CompositionCode::new(lattice_resolution, support_size),
            index_bits: (support_size - 1).checked_ilog2().map_or(0, |bits| bits + 1),
        })
    }

    /// K.
    pub fn support_size(&self) -> u32 {
        self.support_size
    }

    /// ℓ.
    pub fn lattice_resolution(&self) -> u32 {
        self.lattice_resolution
    }

    /// V.
    pub fn vocab_size(&self) -> u32 {
        self.vocab_size
    }

    /// Bits of every token: ⌈log2 C(V,K)⌉ + ⌈log2 C(ℓ+K−1,K−1)⌉ + ⌈log2 K⌉.
    pub fn token_bits(&self) -> u32 {
        self.support.bits() + self.counts.bits() + self.index_bits
    }

    /// Appends one token, [`token_bits`](Self::token_bits) bits.
    pub fn encode(&self, token: &DraftToken, out: &mut BitWriter) -> Result<(), ParameterError> {
        let (id, dist) = (token.id, &token.dist);
        if dist.ids().len() > self.support_size as usize {
            return Err(ParameterError::DoesNotFit { what: "its support is larger than K" });
        }
        if dist.ids().last().is_some_and(|&last| last >= self.vocab_size) {
            return Err(ParameterError::DoesNotFit { what: "an id is outside the vocabulary" });
        }
        if dist.total() != self.lattice_resolution {
            return Err(ParameterError::DoesNotFit { what: "its counts do not add up to the lattice resolution" });
        }
        let (support, counts) = pad(dist.ids(), dist.counts(), self.support_size as usize);
        let index = match support.binary_search(&id) {
            Ok(index) if counts[index] > 0 => index,
            _ => return Err(ParameterError::DoesNotFit { what: "the drafted token has no mass" }),
        };
        self.support.encode(&support, out);
        self.counts.encode(&counts, out);
        out.put(index as u64, self.index_bits);
        Ok(())
    }

    /// Reads what [`encode`](Self::encode) wrote.
    pub fn decode(&self, input: &mut BitReader<'_>) -> Result<DraftToken, DecodeError> {
        let support = self.support.decode(input, "support")?;
        let counts = self.counts.decode(input, "counts")?;
        let index = input.take(self.index_bits, "index")?;
        if index >= u64::from(self.support_size) || counts[index as usize] == 0 {
            return Err(DecodeError::Value { field: "index", value: index });
        }
        let id = support[index as usize];
        let (ids, masses): (Vec<u32>, Vec<u32>) =
            support.iter().zip(&counts).filter(|&(_, &count)| count > 0).map(|(&id, &count)| (id, count)).unzip();
        if pad(&ids, &masses, support.len()).0 != support {
            let stray = support.iter().zip(&counts).find(|&(_, &count)| count == 0).map_or(0, |(&id, _)| id);
            return Err(DecodeError::Value { field: "support id without mass", value: stray.into() });
        }
        let dist = DraftDist::new(ids, masses)
            .map_err(|_| DecodeError::Value { field: "counts", value: self.lattice_resolution.into() })?;
        Ok(DraftToken { id, dist })
    }
}

impl KSqs {
    /// The payload of a round: its tokens one after the other, filled with zero bits to whole bytes.
    pub fn encode_round(&self, tokens: &[DraftToken]) -> Result<Vec<u8>, ParameterError> {
        let mut out = BitWriter::new();
        for token in tokens {
            self.encode(token, &mut out)?;
        }
        Ok(out.into_bytes())
    }

    /// Reads what [`encode_round`](Self::encode_round) wrote for `count` tokens.
    pub fn decode_round(&self, payload: &[u8], count: u8) -> Result<Vec<DraftToken>, DecodeError> {
        let mut input = BitReader::new(payload);
        let tokens = (0..count).map(|_| self.decode(&mut input)).collect::<Result<_, _>>()?;
        input.finish()?;
        Ok(tokens)
    }
}

/// Fills a support up to `size` ids with the smallest ids that are not in it, at count zero.
fn pad(ids: &[u32], counts: &[u32], size: usize) -> (Vec<u32>, Vec<u32>) {
    let mut missing = size - ids.len();
    let (mut support, mut padded) = (Vec::with_capacity(size), Vec::with_capacity(size));
    let mut candidate = 0;
    for (&id, &count) in ids.iter().zip(counts) {
        while missing > 0 && candidate < id {
            support.push(candidate);
            padded.push(0);
            candidate += 1;
            missing -= 1;
        }
        support.push(id);
        padded.push(count);
        candidate = id + 1;
    }
    support.extend(candidate..candidate + missing as u32);
    padded.resize(size, 0);
    (support, padded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    fn token(id: u32, ids: &[u32], counts: &[u32]) -> DraftToken {
        DraftToken { id, dist: DraftDist::new(ids.to_vec(), counts.to_vec()).unwrap() }
    }

    fn round_trip(scheme: &KSqs, token: &DraftToken) -> Vec<u8> {
        let mut out = BitWriter::new();
        scheme.encode(token, &mut out).unwrap();
        assert_eq!(out.len(), scheme.token_bits() as usize);
        let bytes = out.into_bytes();
        let mut input = BitReader::new(&bytes);
        assert_eq!(&scheme.decode(&mut input).unwrap(), token);
        input.finish().unwrap();
        bytes
    }

    #[test]
    fn bits_are_the_papers_and_the_index() {
        // Worked out with another program's exact integers: (comb(V, K) - 1).bit_length() in Python.
        for (v, k, l, support, counts, index) in
            [(4096, 8, 100, 81, 35, 3), (50257, 32, 100, 383, 100, 5), (4096, 1, 100, 12, 0, 0), (4, 4, 1, 0, 2, 2)]
        {
            let scheme = KSqs::new(v, k, l).unwrap();
            assert_eq!(
                (scheme.support.bits(), scheme.counts.bits(), scheme.index_bits),
                (support, counts, index),
                "V={v} K={k} l={l}"
            );
        }
    }

    #[test]
    fn supports_smaller_than_k_are_filled_up() {
        assert_eq!(pad(&[1, 3, 9], &[5, 6, 7], 6), (vec![0, 1, 2, 3, 4, 9], vec![0, 5, 0, 6, 0, 7]));
        assert_eq!(pad(&[0], &[5], 3), (vec![0, 1, 2], vec![5, 0, 0]));
        assert_eq!(pad(&[7], &[5], 1), (vec![7], vec![5]));
        let scheme = KSqs::new(12, 4, 10).unwrap();
        round_trip(&scheme, &token(11, &[11], &[10]));
        round_trip(&scheme, &token(0, &[0, 11], &[1, 9]));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let scheme = KSqs::new(12, 2, 10).unwrap();
        for (bad, what) in [
            (token(0, &[0, 1, 2], &[1, 1, 8]), "its support is larger than K"),
            (token(0, &[0, 12], &[1, 9]), "an id is outside the vocabulary"),
            (token(0, &[0, 1], &[1, 8]), "its counts do not add up to the lattice resolution"),
            (token(5, &[0, 1], &[1, 9]), "the drafted token has no mass"),
        ] {
            assert_eq!(scheme.encode(&bad, &mut BitWriter::new()), Err(ParameterError::DoesNotFit { what }));
        }
        assert!(matches!(KSqs::new(12, 13, 10), Err(ParameterError::SupportSize { .. })));
        assert!(matches!(KSqs::new(12, 0, 10), Err(ParameterError::SupportSize { .. })));
        assert!(matches!(KSqs::new(12, 2, 0), Err(ParameterError::LatticeResolution { .. })));
        assert!(matches!(KSqs::new(0, 2, 1), Err(ParameterError::VocabSize { .. })));
        assert!(matches!(KSqs::new(1 << 20, 1 << 19, 1), Err(ParameterError::TooMuchWork { .. })));
    }

    #[test]
    fn every_payload_of_a_small_scheme_is_canonical_or_refused() {
        let scheme = KSqs::new(5, 3, 4).unwrap();
        let bits = scheme.token_bits();
        let mut valid = 0;
        for value in 0u64..1 << bits {
            let mut out = BitWriter::new();
            out.put(value, bits);
            let bytes = out.into_bytes();
            if let Ok(token) = scheme.decode(&mut BitReader::new(&bytes)) {
                assert_eq!(round_trip(&scheme, &token), bytes);
                valid += 1;
            }
        }
        // Σ over supports of m tokens: C(5,m) supports, C(3, m−1) positive compositions of 4, m drafted ids.
        assert_eq!(valid, 5 + 10 * 3 * 2 + 10 * 3 * 3);
    }

    proptest! {
        #[test]
        fn encode_then_decode_is_the_identity(
            v in 1u32..5000, k in 1u32..48, l in 1u32..400, picks in prop::collection::vec((any::<u32>(), 0u32..50), 1..48), drafted in any::<prop::sample::Index>(),
        ) {
            let k = k.min(v);
            let mut masses = std::collections::BTreeMap::new();
            let mut left = l;
            for (id, count) in picks {
                let id = id % v;
                if masses.len() + 1 < k as usize && count > 0 && count < left && !masses.contains_key(&id) {
                    masses.insert(id, count);
                    left -= count;
                }
            }
            let last = (0..v).find(|id| !masses.contains_key(id));
            match last {
                Some(id) if masses.len() < k as usize => { masses.insert(id, left); }
                _ => return Ok(()),
            }
            let (ids, counts): (Vec<u32>, Vec<u32>) = masses.into_iter().unzip();
            let id = ids[drafted.index(ids.len())];
            round_trip(&KSqs::new(v, k, l).unwrap(), &token(id, &ids, &counts));
        }
    }
}
