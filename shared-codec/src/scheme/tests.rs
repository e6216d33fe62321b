//! Every scheme × code as a whole: rounds of drafts, and bytes that may be none.

use std::collections::BTreeSet;

use super::*;
use crate::half;
use proptest::prelude::*;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

const WASM: bool = cfg!(target_arch = "wasm32");
/// The vocabulary of Qwen's models.
const LARGE: u32 = 151_936;
const LARGEST_RESOLUTION: u32 = 1 << 16;
/// Probabilities add up to less.
const SUM_LIMIT: u32 = 1 << 25;
/// Prefixes and changes that are tried of a payload; all prefixes of one that is no longer.
const TRIED: usize = if WASM { 40 } else { 300 };

/// Every scheme × code; those without K or ℓ leave it out.
fn every(support_size: u32, lattice_resolution: u32) -> Vec<SchemeParameters> {
    let downlink = Downlink::Sampled(3);
    let options = SchemeOptions { support_size, lattice_resolution, downlink, code: Code::Enumerative };
    let codes = |name: &SchemeName| if name.info().reads("code") { Code::ALL } else { &[Code::Enumerative] };
    let all = SchemeName::ALL.iter().flat_map(|name| codes(name).iter().map(|code| (*name, *code)));
    all.map(|(name, code)| name.with(SchemeOptions { code, ..options })).collect()
}

/// Limits of the drafts that a scheme can send: counts that add up to ℓ, or f16 numbers; of at most `most_ids` ids.
#[derive(Debug, Clone, Copy)]
struct Limits {
    vocab_size: u32,
    resolution: Option<u32>,
    most_ids: u32,
}

impl Limits {
    fn new(parameters: SchemeParameters, vocab_size: u32) -> Self {
        let resolution = parameters.lattice_resolution();
        let kept =
            if parameters.info().keeps == Keeps::MostLikely { parameters.options().support_size } else { vocab_size };
        let most_ids = resolution.map_or(kept, |resolution| kept.min(resolution));
        Self { vocab_size, resolution, most_ids }
    }

    /// A distribution over the last `size` ids, as uniform as its counts can be.
    fn uniform(&self, size: u32) -> DraftDist {
        let ids = (self.vocab_size - size..self.vocab_size).collect();
        let counts = match self.resolution {
            Some(resolution) => (0..size).map(|i| resolution / size + u32::from(i < resolution % size)).collect(),
            // Rounded down to eleven bits, as f16 does.
            None => {
                let share = half::ONE / size;
                let shift = (u32::BITS - share.leading_zeros()).saturating_sub(11);
                vec![share >> shift << shift; size as usize]
            }
        };
        DraftDist::new(ids, counts).unwrap()
    }
}

/// A source of numbers for test data.
struct Source(u64);

impl Source {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u64::from((self.0 >> 32) as u32) * u64::from(bound)) >> 32) as u32
    }

    fn dist(&mut self, limits: Limits) -> DraftDist {
        let size = 1 + self.below(limits.most_ids.min(100));
        match self.below(8) {
            0 => return limits.uniform(1),
            1 => return limits.uniform(size),
            _ => {}
        }
        let range = if self.below(2) == 0 { limits.vocab_size } else { limits.vocab_size.min(2 * size) };
        let mut ids = BTreeSet::new();
        while ids.len() < size as usize {
            ids.insert(self.below(range));
        }
        let mut counts = vec![1; size as usize];
        match limits.resolution {
            Some(resolution) => {
                let mut rest = resolution - size;
                while rest > 0 {
                    let part = 1 + self.below(rest.div_ceil(3));
                    counts[self.below(size) as usize] += part;
                    rest -= part;
                }
            }
            None => {
                let mut rest = SUM_LIMIT - 1 - size;
                for count in &mut counts {
                    // At least 1, so that one more than the rest is never used.
                    let drawn = half::to_count(1 + self.below(0x3c00) as u16).unwrap();
                    if drawn <= rest {
                        rest -= drawn;
                        *count = drawn;
                    }
                }
            }
        }
        DraftDist::new(ids.into_iter().collect(), counts).unwrap()
    }

    fn draft(&mut self, scheme: &Scheme, limits: Limits, dist: DraftDist) -> DraftToken {
        let size = dist.ids().len() as u32;
        // Where K varies it may have room for ids without mass.
        let wanted = (size + self.below(3)).min(limits.vocab_size);
        let id = dist.ids()[self.below(size) as usize];
        DraftToken { id, support_size: scheme.support_size(wanted, &dist), dist }
    }
}

/// Drafts in the form in which the cloud sees them.
fn seen(sends: Sends, tokens: &[DraftToken]) -> Drafts {
    match sends {
        Sends::Distributions => Drafts::Distributions(tokens.to_vec()),
        Sends::Probabilities => Drafts::Probabilities(tokens.iter().map(DraftProbability::from).collect()),
        Sends::Ids => Drafts::Ids(tokens.iter().map(|token| token.id).collect()),
    }
}

/// Encodes a round, each token within its bound, and decodes it.
fn round_trip(scheme: &Scheme, sends: Sends, tokens: &[DraftToken]) -> (Vec<u8>, Drafts) {
    let mut round = scheme.round();
    for token in tokens {
        let bound = round.bound(scheme, &token.dist, token.support_size).unwrap();
        match sends {
            Sends::Distributions => round.push(scheme, token).unwrap(),
            Sends::Probabilities => round.push_probability(scheme, &token.into()).unwrap(),
            Sends::Ids => round.push_id(scheme, token.id).unwrap(),
        }
        assert!(round.bits() <= bound, "{} bits, the bound was {bound}: {token:?}", round.bits());
    }
    let bits = round.bits();
    let (payload, used) = round.finish();
    match &scheme.0 {
        Payload::Adaptive(_) => assert!(payload.len() <= (bits + 1).div_ceil(8)),
        _ => assert_eq!((used, payload.len()), (bits, bits.div_ceil(8))),
    }
    if let Some(fixed) = scheme.fixed_token_bits() {
        assert_eq!(used, fixed as usize * tokens.len());
    }
    let drafts = seen(sends, tokens);
    assert_eq!(scheme.encode_round(&drafts).as_ref(), Ok(&payload));
    assert_eq!(scheme.decode_round(&payload, tokens.len() as u8).as_ref(), Ok(&drafts));
    (payload, drafts)
}

/// Proper prefixes and longer payloads are refused.
fn assert_strict(scheme: &Scheme, payload: &[u8], count: u8, source: &mut Source) {
    let ends: Vec<usize> = if payload.len() <= TRIED {
        (0..payload.len()).collect()
    } else {
        let some = (0..TRIED / 20).map(|_| source.below(payload.len() as u32) as usize);
        some.chain([0, 1, payload.len() - 2, payload.len() - 1]).collect()
    };
    for end in ends {
        let found = scheme.decode_round(&payload[..end], count);
        assert!(found.is_err(), "{end} of {} bytes: {found:?}", payload.len());
    }
    for extra in [0, 0x80, 0xff] {
        assert!(scheme.decode_round(&[payload, &[extra]].concat(), count).is_err(), "a byte {extra} more");
    }
}

/// The oracle of any bytes: an error, or drafts whose encoding is these bytes. Whether they are drafts.
fn assert_canonical(scheme: &Scheme, payload: &[u8], count: u8) -> bool {
    let Ok(drafts) = scheme.decode_round(payload, count) else { return false };
    assert_eq!(drafts.len(), usize::from(count));
    let again = scheme.encode_round(&drafts).unwrap();
    if let Payload::Adaptive(_) = scheme.0 {
        // Its encoder takes the shorter of two words, as far as their intervals tell before they are finished.
        assert!(again.len() <= payload.len() + 1, "{} bytes became {}", payload.len(), again.len());
        assert_eq!(scheme.decode_round(&again, count), Ok(drafts));
    } else {
        assert_eq!(again, payload, "{drafts:?}");
    }
    true
}

fn vocabularies() -> impl Strategy<Value = u32> {
    prop_oneof![4 => 1u32..40, 4 => 200u32..5000, 1 => Just(LARGE)]
}

fn resolutions() -> impl Strategy<Value = u32> {
    prop_oneof![1 => Just(1u32), 4 => 2u32..20, 4 => 20u32..2000, 1 => Just(LARGEST_RESOLUTION)]
}

/// A scheme whose parameters are allowed. Where a token would be too much work ℓ is smaller.
fn scheme_of(which: usize, v: u32, k: u32, l: u32) -> (SchemeParameters, Scheme) {
    let k = k.min(v);
    let parameters = every(k, l)[which];
    match Scheme::new(parameters, v) {
        Ok(scheme) => (parameters, scheme),
        Err(ParameterError::TooMuchWork { .. }) => {
            let parameters = every(k, 100)[which];
            (parameters, Scheme::new(parameters, v).unwrap())
        }
        Err(other) => panic!("{parameters:?}: {other}"),
    }
}

#[test]
fn extremes() {
    let mut source = Source(1);
    let mut schemes = 0;
    for (v, k, l) in [
        (1, 1, 1),
        (1, 1, LARGEST_RESOLUTION),
        (2, 2, 1),
        (4096, 1, 100),
        (300, 300, 300),
        (4096, 32, 1),
        (4096, 32, LARGEST_RESOLUTION),
        (40, 40, LARGEST_RESOLUTION),
        (2048, 2048, 2048),
        (LARGE, 64, 100),
        (LARGE, LARGE, 100),
        (LARGE, LARGE, 1365),
        (LARGE, LARGE, 2048),
    ] {
        for parameters in every(k, l) {
            // A dense token over this vocabulary is 300 KB, and does not depend on K or ℓ.
            if v == LARGE && k == LARGE && l != 100 && Limits::new(parameters, v).resolution.is_none() {
                continue;
            }
            let Ok(scheme) = Scheme::new(parameters, v) else { continue };
            schemes += 1;
            let limits = Limits::new(parameters, v);
            let one_hot = limits.uniform(1);
            let uniform = limits.uniform(limits.most_ids);
            for dist in [one_hot, uniform] {
                let first = source.draft(&scheme, limits, dist.clone());
                let last = DraftToken { id: dist.ids()[dist.ids().len() - 1], ..first.clone() };
                let tokens = [first, last];
                for tokens in [&[][..], &tokens[..1], &tokens] {
                    let (payload, _) = round_trip(&scheme, parameters.sends(), tokens);
                    assert_strict(&scheme, &payload, tokens.len() as u8, &mut source);
                }
            }
        }
    }
    // QS and C-SQS have no room for 4096 ids at the largest ℓ, in neither code. Over the large vocabulary six are left
    // of ten (above), with ℓ = 2048 the adaptive three of them.
    assert_eq!(schemes, 10 * 11 - 4 + 6 + 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if WASM { 32 } else { 1000 }))]

    #[test]
    fn rounds_come_back_and_nothing_else_does(
        which in 0..every(1, 1).len(),
        v in vocabularies(),
        k in prop_oneof![1u32..4, 1u32..100, Just(4999)],
        l in resolutions(),
        seed in any::<u64>(),
    ) {
        // 300 KB a token: the extremes are enough of that.
        prop_assume!(!(which == 0 && v == LARGE));
        // K = V, or not much.
        let k = if k == 4999 && v > 300 { 64 } else { k };
        let (parameters, scheme) = scheme_of(which, v, k, l);
        let limits = Limits::new(parameters, v);
        let (mut edge, mut source) = (scheme, Source(seed));
        let prompt: Vec<u32> = (0..source.below(6)).map(|_| source.below(v)).collect();
        edge.prime(&prompt);
        let mut cloud = edge.clone();
        for _ in 0..4 {
            let tokens: Vec<DraftToken> = (0..source.below(4))
                .map(|_| {
                    let dist = source.dist(limits);
                    source.draft(&edge, limits, dist)
                })
                .collect();
            let count = tokens.len() as u8;
            let (payload, drafts) = round_trip(&edge, parameters.sends(), &tokens);
            prop_assert_eq!(&cloud.decode_round(&payload, count).unwrap(), &drafts);
            assert_strict(&cloud, &payload, count, &mut source);
            for _ in 0..TRIED / 20 {
                let mut changed = payload.clone();
                if changed.is_empty() {
                    break;
                }
                let at = source.below(changed.len() as u32) as usize;
                changed[at] ^= 1 << source.below(8);
                assert_canonical(&cloud, &changed, count);
            }
            let accepted = source.below(u32::from(count) + 1) as usize;
            let next = (source.below(4) > 0).then(|| source.below(v));
            edge.commit(&drafts, accepted, next);
            cloud.commit(&drafts, accepted, next);
        }
    }

    #[test]
    fn any_bytes_are_drafts_or_an_error(
        which in 0..every(1, 1).len(),
        v in vocabularies(),
        k in 1u32..40,
        l in resolutions(),
        payload in prop::collection::vec(prop_oneof![any::<u8>(), 0u8..4], 0..60),
        count in 0u8..5,
        prompt in prop::collection::vec(0u32..300, 0..5),
    ) {
        let (_, mut scheme) = scheme_of(which, v, k, l);
        scheme.prime(&prompt);
        for end in 0..=payload.len() {
            assert_canonical(&scheme, &payload[..end], count);
        }
    }
}
