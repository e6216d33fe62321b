//! One drafted token in the lattice payload of QS, K-SQS and C-SQS (Bhattacharjee et al., §2–3, eqs 1, 2, 5), in
//! exactly the papers' bits.
//!
//! ```text
//! size      K − 1, where K varies (C-SQS)                                    ⌈log2 V⌉ bits
//! support   rank of the K support ids among the K-subsets of {0, …, V−1}     ⌈log2 C(V, K)⌉ bits
//! counts    rank of the K counts among the compositions of ℓ                 ⌈log2 C(ℓ+K−1, K−1)⌉ bits
//! index     which of the K support ids was drafted                           ⌈log2 K⌉ bits
//! ```
//!
//! QS is K = V: its support costs nothing. The papers count the first three; the index they forget, but without it
//! the cloud knows the distribution and not the draft.
//!
//! Support ids whose count is zero carry no mass and are not part of the [`DraftDist`]. So that equal
//! distributions of one K have equal bytes they are, by definition, the smallest ids outside the distribution.

use std::borrow::Cow;

use crate::{
    bits::{BitReader, BitWriter, index_bits},
    distribution::{DraftDist, DraftToken},
    enumerative::{CompositionCode, SubsetCode, subset_work},
    error::{DecodeError, ParameterError},
};

/// The largest lattice resolution ℓ.
pub const MAX_LATTICE_RESOLUTION: u32 = 1 << 16;
/// The largest vocabulary.
pub const MAX_VOCAB_SIZE: u32 = 1 << 24;
/// The largest cost of a token's two ranks, in the unit of [`subset_work`]. It bounds the time that a peer can cost the
/// other side: a few milliseconds a token. K = 1024 fits at V = 256 000 and ℓ = 100, QS at V = 151 936 up to ℓ = 1365.
pub const MAX_WORK: u64 = 1 << 19;

/// Number of ids that the code keeps room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SupportSize {
    /// The same K for every token; V is QS.
    Fixed(u32),
    /// A K for each token, which is sent with it (C-SQS).
    Varying,
}

/// The lattice payload of one vocabulary, resolution and support size.
#[derive(Debug, Clone)]
pub struct LatticePayload {
    vocab_size: u32,
    lattice_resolution: u32,
    /// The codes of K, where every token has the same.
    fixed: Option<Codes>,
}

/// The two codes for one support size K.
#[derive(Debug, Clone)]
struct Codes {
    support_size: u32,
    support: SubsetCode,
    counts: CompositionCode,
}

impl LatticePayload {
    /// A payload for counts that add up to `lattice_resolution` = ℓ over a vocabulary of `vocab_size` = V.
    ///
    /// # Errors
    /// If a parameter is out of its range, or ranking a token would cost more than [`MAX_WORK`].
    pub fn new(vocab_size: u32, support_size: SupportSize, lattice_resolution: u32) -> Result<Self, ParameterError> {
        check_vocabulary(vocab_size)?;
        if !(1..=MAX_LATTICE_RESOLUTION).contains(&lattice_resolution) {
            return Err(ParameterError::LatticeResolution {
                resolution: lattice_resolution,
                limit: MAX_LATTICE_RESOLUTION,
            });
        }
        let k = match support_size {
            SupportSize::Fixed(k) => k,
            // Every distribution has to find a K that can be coded, and V is the last resort.
            SupportSize::Varying => vocab_size,
        };
        check_support(k, vocab_size)?;
        // Before the binomials are computed: their cost is what is being limited.
        let work = work(vocab_size, k, lattice_resolution);
        if work > MAX_WORK {
            return Err(ParameterError::TooMuchWork { work, limit: MAX_WORK });
        }
        let fixed = match support_size {
            SupportSize::Fixed(k) => Some(Codes::new(vocab_size, k, lattice_resolution)),
            SupportSize::Varying => None,
        };
        Ok(Self { vocab_size, lattice_resolution, fixed })
    }

    /// The lattice resolution, ℓ.
    pub fn lattice_resolution(&self) -> u32 {
        self.lattice_resolution
    }

    /// The support size K, if every token has the same.
    pub fn support_size(&self) -> Option<u32> {
        self.fixed.as_ref().map(|codes| codes.support_size)
    }

    /// The support size to code a support of `k` ids with: `k` itself, or V if ranking `k` of V costs too much.
    /// Nothing is dropped then, and K = V costs no support bits.
    pub fn codable_support_size(&self, k: u32) -> u32 {
        if work(self.vocab_size, k, self.lattice_resolution) <= MAX_WORK { k } else { self.vocab_size }
    }

    /// Bits of a token: ⌈log2 C(V,K)⌉ + ⌈log2 C(ℓ+K−1,K−1)⌉ + ⌈log2 K⌉, and ⌈log2 V⌉ more where K varies.
    /// `support_size` is K there and ignored where K is fixed.
    pub fn token_bits(&self, support_size: u32) -> u32 {
        self.codes(support_size).bits() + self.size_bits()
    }

    /// Appends one token, [`token_bits`](Self::token_bits) bits.
    ///
    /// # Errors
    /// If the distribution does not fit the payload's parameters.
    pub fn encode(&self, token: &DraftToken, out: &mut BitWriter) -> Result<(), ParameterError> {
        let (id, dist, k) = (token.id, &token.dist, token.support_size);
        if self.support_size().is_some_and(|fixed| k != fixed) || dist.ids().len() > k as usize {
            return Err(ParameterError::DoesNotFit { what: "its support is not of size K" });
        }
        check_support(k, self.vocab_size)?;
        if dist.ids().last().is_some_and(|&last| last >= self.vocab_size) {
            return Err(ParameterError::DoesNotFit { what: "an id is outside the vocabulary" });
        }
        if dist.total() != self.lattice_resolution {
            return Err(ParameterError::DoesNotFit { what: "its counts do not add up to the lattice resolution" });
        }
        let work = work(self.vocab_size, k, self.lattice_resolution);
        if work > MAX_WORK {
            return Err(ParameterError::TooMuchWork { work, limit: MAX_WORK });
        }
        let (support, counts) = pad(dist.ids(), dist.counts(), k as usize);
        let index = match support.binary_search(&id) {
            Ok(index) if counts[index] > 0 => index,
            _ => return Err(ParameterError::DoesNotFit { what: "the drafted token has no mass" }),
        };
        let codes = self.codes(k);
        if self.fixed.is_none() {
            out.put(u64::from(k - 1), self.size_bits());
        }
        codes.support.encode(&support, out);
        codes.counts.encode(&counts, out);
        out.put(index as u64, index_bits(k));
        Ok(())
    }

    /// Reads a token that [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// If the bits end early or are not what [`encode`](Self::encode) writes.
    pub fn decode(&self, input: &mut BitReader<'_>) -> Result<DraftToken, DecodeError> {
        let k = match &self.fixed {
            Some(codes) => codes.support_size,
            None => {
                let value = input.take(self.size_bits(), "support size")?;
                let k = value as u32 + 1;
                if k > self.vocab_size || work(self.vocab_size, k, self.lattice_resolution) > MAX_WORK {
                    return Err(DecodeError::Value { field: "support size", value: value + 1 });
                }
                k
            }
        };
        let codes = self.codes(k);
        let support = codes.support.decode(input, "support")?;
        let counts = codes.counts.decode(input, "counts")?;
        let index = input.take(index_bits(k), "index")?;
        if index >= u64::from(k) || counts[index as usize] == 0 {
            return Err(DecodeError::Value { field: "index", value: index });
        }
        let id = support[index as usize];
        let dist = unpad(&support, &counts)?;
        Ok(DraftToken { id, dist, support_size: k })
    }

    fn codes(&self, support_size: u32) -> Cow<'_, Codes> {
        match &self.fixed {
            Some(codes) => Cow::Borrowed(codes),
            None => Cow::Owned(Codes::new(self.vocab_size, support_size, self.lattice_resolution)),
        }
    }

    /// ⌈log2 V⌉ where K varies.
    fn size_bits(&self) -> u32 {
        if self.fixed.is_some() { 0 } else { index_bits(self.vocab_size) }
    }
}

impl Codes {
    fn new(vocab_size: u32, support_size: u32, lattice_resolution: u32) -> Self {
        Self {
            support_size,
            support: SubsetCode::new(vocab_size, support_size),
            counts: CompositionCode::new(lattice_resolution, support_size),
        }
    }

    fn bits(&self) -> u32 {
        self.support.bits() + self.counts.bits() + index_bits(self.support_size)
    }
}

/// Cost of ranking K of V ids and a composition of ℓ into K parts, in operations on 64-bit digits.
fn work(vocab_size: u32, support_size: u32, lattice_resolution: u32) -> u64 {
    subset_work(vocab_size, support_size) + subset_work(lattice_resolution + support_size - 1, support_size - 1)
}

/// Refuses a vocabulary that is empty or too large.
pub(crate) fn check_vocabulary(vocab_size: u32) -> Result<(), ParameterError> {
    if (1..=MAX_VOCAB_SIZE).contains(&vocab_size) {
        Ok(())
    } else {
        Err(ParameterError::VocabSize { vocab_size, limit: MAX_VOCAB_SIZE })
    }
}

/// Refuses a support that is empty or larger than the vocabulary.
pub(crate) fn check_support(support_size: u32, vocab_size: u32) -> Result<(), ParameterError> {
    if (1..=vocab_size).contains(&support_size) {
        Ok(())
    } else {
        Err(ParameterError::SupportSize { support_size, vocab_size })
    }
}

/// Fills a support up to `size` ids with the smallest ids that are not in it, at count zero.
pub(crate) fn pad(ids: &[u32], counts: &[u32], size: usize) -> (Vec<u32>, Vec<u32>) {
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

/// The distribution of a padded support; refuses one that [`pad`] would not have made.
pub(crate) fn unpad(support: &[u32], counts: &[u32]) -> Result<DraftDist, DecodeError> {
    let (ids, masses): (Vec<u32>, Vec<u32>) =
        support.iter().zip(counts).filter(|&(_, &count)| count > 0).map(|(&id, &count)| (id, count)).unzip();
    if pad(&ids, &masses, support.len()).0 != support {
        let stray = support.iter().zip(counts).find(|&(_, &count)| count == 0).map_or(0, |(&id, _)| id);
        return Err(DecodeError::Value { field: "support id without mass", value: stray.into() });
    }
    DraftDist::new(ids, masses).map_err(|_| DecodeError::Value { field: "counts", value: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    fn token(support_size: u32, id: u32, ids: &[u32], counts: &[u32]) -> DraftToken {
        DraftToken { id, dist: DraftDist::new(ids.to_vec(), counts.to_vec()).unwrap(), support_size }
    }

    fn k_sqs(vocab_size: u32, support_size: u32, resolution: u32) -> LatticePayload {
        LatticePayload::new(vocab_size, SupportSize::Fixed(support_size), resolution).unwrap()
    }

    fn c_sqs(vocab_size: u32, resolution: u32) -> LatticePayload {
        LatticePayload::new(vocab_size, SupportSize::Varying, resolution).unwrap()
    }

    fn round_trip(scheme: &LatticePayload, token: &DraftToken) -> Vec<u8> {
        let mut out = BitWriter::new();
        scheme.encode(token, &mut out).unwrap();
        assert_eq!(out.len(), scheme.token_bits(token.support_size) as usize);
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
            let codes = Codes::new(v, k, l);
            let bits = (codes.support.bits(), codes.counts.bits(), index_bits(k));
            assert_eq!(bits, (support, counts, index), "V={v} K={k} l={l}");
            assert_eq!(k_sqs(v, k, l).token_bits(k), support + counts + index);
            assert_eq!(c_sqs(v, l).token_bits(k), support + counts + index + index_bits(v));
        }
        // QS: no support, a composition into V parts, an id.
        assert_eq!(k_sqs(4096, 4096, 100).token_bits(4096), 677 + 12);
    }

    #[test]
    fn supports_that_take_too_long_are_widened() {
        let scheme = c_sqs(151_936, 100);
        assert_eq!(scheme.codable_support_size(900), 900);
        assert_eq!(scheme.codable_support_size(1500), 151_936);
        assert_eq!(scheme.codable_support_size(151_930), 151_930);
        let mut out = BitWriter::new();
        out.put(5000 - 1, 18);
        let bytes = out.into_bytes();
        let error = Err(DecodeError::Value { field: "support size", value: 5000 });
        assert_eq!(scheme.decode(&mut BitReader::new(&bytes)), error);
    }

    #[test]
    fn supports_smaller_than_k_are_filled_up() {
        assert_eq!(pad(&[1, 3, 9], &[5, 6, 7], 6), (vec![0, 1, 2, 3, 4, 9], vec![0, 5, 0, 6, 0, 7]));
        assert_eq!(pad(&[0], &[5], 3), (vec![0, 1, 2], vec![5, 0, 0]));
        assert_eq!(pad(&[7], &[5], 1), (vec![7], vec![5]));
        let scheme = k_sqs(12, 4, 10);
        round_trip(&scheme, &token(4, 11, &[11], &[10]));
        round_trip(&scheme, &token(4, 0, &[0, 11], &[1, 9]));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let scheme = k_sqs(12, 2, 10);
        for (bad, what) in [
            (token(2, 0, &[0, 1, 2], &[1, 1, 8]), "its support is not of size K"),
            (token(3, 0, &[0, 1], &[1, 9]), "its support is not of size K"),
            (token(2, 0, &[0, 12], &[1, 9]), "an id is outside the vocabulary"),
            (token(2, 0, &[0, 1], &[1, 8]), "its counts do not add up to the lattice resolution"),
            (token(2, 5, &[0, 1], &[1, 9]), "the drafted token has no mass"),
        ] {
            assert_eq!(scheme.encode(&bad, &mut BitWriter::new()), Err(ParameterError::DoesNotFit { what }));
        }
        let error = |v, k, l| LatticePayload::new(v, SupportSize::Fixed(k), l).map(|_| ());
        assert!(matches!(error(12, 13, 10), Err(ParameterError::SupportSize { .. })));
        assert!(matches!(error(12, 0, 10), Err(ParameterError::SupportSize { .. })));
        assert!(matches!(error(12, 2, 0), Err(ParameterError::LatticeResolution { .. })));
        assert!(matches!(error(0, 2, 1), Err(ParameterError::VocabSize { .. })));
        assert!(matches!(error(1 << 20, 1 << 19, 1), Err(ParameterError::TooMuchWork { .. })));
        // The widest that there are at some sizes, and one step beyond them.
        for (v, k, l) in [(4096, 4096, 4096), (151_936, 151_936, 1365), (4096, 2048, 2048), (256_000, 1024, 100)] {
            assert_eq!(error(v, k, l), Ok(()), "V = {v}, K = {k}, l = {l}");
        }
        for (v, k, l) in [(4096, 4096, 4098), (151_936, 151_936, 1366), (4096, 4096, 1 << 16), (256_000, 2048, 100)] {
            assert!(matches!(error(v, k, l), Err(ParameterError::TooMuchWork { .. })), "V = {v}, K = {k}, l = {l}");
        }
        let varying = LatticePayload::new(1 << 20, SupportSize::Varying, 1 << 16);
        assert!(matches!(varying, Err(ParameterError::TooMuchWork { .. })));
    }

    #[test]
    fn every_payload_of_a_small_scheme_is_canonical_or_refused() {
        // Σ over supports of m tokens: C(5,m) supports, C(3, m−1) positive compositions of 4, m drafted ids.
        let (one, two, three, four) = (5, 10 * 3 * 2, 10 * 3 * 3, 5 * 4);
        assert_eq!(valid_payloads(&k_sqs(5, 3, 4), 10), one + two + three);
        // With K varying each fits into every K that is large enough.
        assert_eq!(valid_payloads(&c_sqs(5, 4), 15), 5 * one + 4 * two + 3 * three + 2 * four);
    }

    /// Number of bit strings of up to `longest` bits that are payloads of one token.
    fn valid_payloads(scheme: &LatticePayload, longest: u32) -> usize {
        let mut valid = std::collections::BTreeSet::new();
        for value in 0u64..1 << longest {
            let mut out = BitWriter::new();
            out.put(value, longest);
            let bytes = out.into_bytes();
            let mut input = BitReader::new(&bytes);
            if let Ok(token) = scheme.decode(&mut input) {
                let used = input.position() as u32;
                assert_eq!(used, scheme.token_bits(token.support_size));
                let mut again = BitWriter::new();
                scheme.encode(&token, &mut again).unwrap();
                let mut expected = BitWriter::new();
                expected.put(value >> (longest - used), used);
                assert_eq!(again.into_bytes(), expected.into_bytes());
                valid.insert((used, value >> (longest - used)));
            }
        }
        valid.len()
    }
}
