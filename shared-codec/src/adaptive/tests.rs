//! Tests of the adaptive code. Rounds and bytes of any kind are tested with the schemes.

use super::{
    ids::{MAX_WEIGHT, ONE, REMEMBERED, power, prior},
    *,
};
use crate::lattice::{LatticePayload, SupportSize};
use proptest::prelude::*;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

fn token(id: u32, ids: &[u32], counts: &[u32]) -> DraftToken {
    let dist = DraftDist::new(ids.to_vec(), counts.to_vec()).unwrap();
    DraftToken { id, support_size: ids.len() as u32, dist }
}

fn encode(code: &AdaptiveCode, tokens: &[DraftToken]) -> Vec<u8> {
    let mut round = code.round();
    for token in tokens {
        round.push(code, token).unwrap();
    }
    let bits = round.bits();
    let payload = round.finish();
    assert!(payload.len() <= (bits + 1).div_ceil(8));
    payload
}

/// A source of numbers for test data.
struct Source(u64);

impl Source {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u64::from((self.0 >> 32) as u32) * u64::from(bound)) >> 32) as u32
    }

    /// A token of m ids whose counts are anything between alike and geometric.
    fn token(&mut self, vocab_size: u32, m: u32, resolution: u32) -> DraftToken {
        let near = self.below(2) == 0;
        let mut ids = std::collections::BTreeSet::new();
        while ids.len() < m as usize {
            let range = if near { vocab_size.min(4 * m) } else { vocab_size };
            ids.insert(self.below(range));
        }
        let ids: Vec<u32> = ids.into_iter().collect();
        let mut counts = vec![1; ids.len()];
        let mut rest = resolution - m;
        while rest > 0 {
            let part = if self.below(3) == 0 { rest } else { 1 + self.below(rest.div_ceil(3)) };
            counts[self.below(m) as usize] += part;
            rest -= part;
        }
        let id = ids[self.below(m) as usize];
        token(id, &ids, &counts)
    }
}

#[test]
fn exact_bytes() {
    // Also in FORMAT.md.
    let mut code = AdaptiveCode::new(8, 4, 10).unwrap();
    code.prime(&[0, 5]);
    let tokens = [token(5, &[2, 5, 7], &[1, 8, 1]), token(2, &[2], &[10])];
    let payload = encode(&code, &tokens);
    assert_eq!(payload, [0xbb, 0xe0, 0xaa]);
    assert_eq!(code.decode_round(&payload, 2).unwrap(), tokens);
    code.commit(&tokens[..1], Some(3));
    let payload = encode(&code, &tokens[..1]);
    assert_eq!(payload, [0xbf, 0x15]);
    assert_eq!(encode(&code, &[]), [0u8; 0]);
}

#[test]
fn every_token_of_a_small_code_has_its_own_word() {
    let (v, k, resolution) = (4, 3, 4);
    let code = AdaptiveCode::new(v, k, resolution).unwrap();
    let mut words = std::collections::BTreeSet::new();
    let mut tokens = 0;
    for mask in 1u32..1 << v {
        let ids: Vec<u32> = (0..v).filter(|id| mask >> id & 1 == 1).collect();
        let mut counts = vec![0; ids.len()];
        for number in 0..(resolution + 1).pow(ids.len() as u32) {
            for (i, count) in counts.iter_mut().enumerate() {
                *count = number / (resolution + 1).pow(i as u32) % (resolution + 1);
            }
            if ids.len() > k as usize || counts.contains(&0) || counts.iter().sum::<u32>() != resolution {
                continue;
            }
            for &id in &ids {
                let token = token(id, &ids, &counts);
                let word = encode(&code, std::slice::from_ref(&token));
                assert_eq!(code.decode_round(&word, 1).unwrap(), [token]);
                assert!(words.insert(word));
                tokens += 1;
            }
        }
    }
    assert_eq!(tokens, 4 + 6 * 3 * 2 + 4 * 3 * 3);
    // Every one- and two-byte string is a word of these or refused.
    for bytes in (0..=u16::MAX).map(u16::to_be_bytes) {
        for bytes in [&bytes[..1], &bytes[..]] {
            if let Ok(tokens) = code.decode_round(bytes, 1) {
                let model = bytes[0] < 0xfc;
                assert!(!model || encode(&code, &tokens) == bytes, "{bytes:?}");
            }
        }
    }
}

#[test]
fn a_round_is_never_much_longer_than_the_papers() {
    let mut source = Source(5);
    for (v, k, resolution, n) in [
        (4096, 32, 100, 4),
        (4096, 32, 100, 1),
        (50_257, 128, 1 << 16, 3),
        (4096, 8, 1 << 16, 64),
        (4096, 2, 1 << 16, 64),
        (2, 2, 65_535, 64),
        (4, 4, 4, 64),
        (1, 1, 1, 64),
        (3, 3, 1, 64),
        (300, 300, 100, 8),
        (4096, 4096, 100, 2),
        (20, 20, 1000, 64),
        (256, 128, 128, 3),
    ] {
        let papers = LatticePayload::new(v, SupportSize::Fixed(k), resolution).unwrap();
        let allowed = (f64::from(n) * f64::from(papers.token_bits(k)) * 1.01 + 64.0) as usize;
        let largest = k.min(resolution);
        // The model is taught the smallest ids and single tokens, then is given anything else.
        for taught in [0, 200] {
            let mut code = AdaptiveCode::new(v, k, resolution).unwrap();
            for _ in 0..taught {
                let lesson = token(0, &[0], &[resolution]);
                code.commit(&[lesson], Some(0));
            }
            let equal = |ids: Vec<u32>, source: &mut Source| {
                let m = ids.len() as u32;
                let counts: Vec<u32> = (0..m).map(|i| resolution / m + u32::from(i < resolution % m)).collect();
                token(ids[source.below(m) as usize], &ids, &counts)
            };
            let mut rounds: Vec<Vec<DraftToken>> = vec![
                // The rarest ids, equal counts; the rarest id alone; the draft is the least likely.
                (0..n).map(|_| equal((v - largest..v).collect(), &mut source)).collect(),
                (0..n).map(|_| token(v - 1, &[v - 1], &[resolution])).collect(),
                (0..n).map(|_| equal((0..largest).collect(), &mut source)).collect(),
            ];
            if largest >= 2 {
                rounds.push((0..n).map(|_| token(v - 1, &[v - 2, v - 1], &[resolution - 1, 1])).collect());
                let middle = (largest / 2).max(2);
                rounds.push((0..n).map(|_| source.token(v, middle, resolution)).collect());
            }
            rounds.push((0..n).map(|_| source.token(v, largest, resolution)).collect());
            rounds.push(
                (0..n)
                    .map(|_| {
                        let m = 1 + source.below(largest);
                        source.token(v, m, resolution)
                    })
                    .collect(),
            );
            for (i, tokens) in rounds.iter().enumerate() {
                let payload = encode(&code, tokens);
                assert!(
                    payload.len() * 8 <= allowed,
                    "V {v}, K {k}, l {resolution}, {n} tokens, taught {taught}, round {i}: {} of {allowed} bits",
                    payload.len() * 8
                );
                assert_eq!(&code.decode_round(&payload, n as u8).unwrap(), tokens);
            }
        }
    }
}

#[test]
fn the_enumerative_word_is_taken_where_it_is_shorter() {
    let mut code = AdaptiveCode::new(4096, 32, 100).unwrap();
    for _ in 0..200 {
        code.commit(&[token(0, &[0], &[100])], Some(0));
    }
    let mut source = Source(1);
    let tokens: Vec<DraftToken> = (0..4)
        .map(|_| {
            let ids: Vec<u32> = (0..32).map(|i| 3072 + 32 * i + source.below(32)).collect();
            let mut bars = std::collections::BTreeSet::from([100]);
            while bars.len() < 32 {
                bars.insert(1 + source.below(99));
            }
            let mut start = 0;
            let counts: Vec<u32> = bars.into_iter().map(|end| end - std::mem::replace(&mut start, end)).collect();
            let least = (0..32).min_by_key(|&i| counts[i]).unwrap();
            token(ids[least], &ids, &counts)
        })
        .collect();
    let mut round = code.round();
    for token in &tokens {
        round.push(&code, token).unwrap();
    }
    assert!(round.ranks.as_ref().unwrap().bits() < round.model.bits());
    assert_eq!(code.decode_round(&round.finish(), 4).unwrap(), tokens);
}

#[test]
fn a_rejected_draft_leaves_no_trace() {
    let mut source = Source(9);
    let mut code = AdaptiveCode::new(1000, 16, 100).unwrap();
    code.prime(&[3, 1, 4]);
    let tokens: Vec<DraftToken> = (0..4).map(|_| source.token(1000, 12, 100)).collect();
    let other: Vec<DraftToken> = (0..2).map(|_| source.token(1000, 16, 100)).collect();
    let mut same = code.clone();
    let payload = encode(&code, &tokens);
    code.decode_round(&payload, 4).unwrap();
    code.commit(&tokens[..2], Some(8));
    encode(&same, &[&tokens[..2], &other].concat());
    same.commit(&tokens[..2], Some(8));
    assert_eq!(format!("{code:?}"), format!("{same:?}"));
    let mut taught = code.clone();
    taught.commit(&other, None);
    assert_ne!(format!("{code:?}"), format!("{taught:?}"));
}

#[test]
fn ends_that_learned_different_things_do_not_agree() {
    let mut source = Source(4);
    let mut refused = 0;
    for seed in 0..100 {
        let mut code = AdaptiveCode::new(4096, 32, 100).unwrap();
        let mut other = code.clone();
        code.prime(&[seed]);
        other.prime(&[seed, 5]);
        // Likely ids, so that the model's word is taken; the enumerative one depends on nothing that was learned.
        let tokens: Vec<DraftToken> = (0..4).map(|_| source.token(80, 20, 100)).collect();
        let payload = encode(&code, &tokens);
        assert!(payload[0] < 0xfc);
        match other.decode_round(&payload, 4) {
            Ok(found) => assert_ne!(found, tokens),
            Err(_) => refused += 1,
        }
    }
    // What is left after the last symbol seldom is the shortest word of anything.
    assert!(refused >= 95, "{refused}");
}

#[test]
fn memory_and_weights_forget() {
    let mut source = Source(2);
    let mut code = AdaptiveCode::new(64, 64, 1000).unwrap();
    for _ in 0..3 * REMEMBERED {
        let token = source.token(64, 50, 1000);
        code.commit(&[token], None);
    }
    assert_eq!(code.memory.slots.len(), REMEMBERED);
    for (&id, &places) in &code.memory.places {
        for (at, slot) in code.memory.slots.iter().enumerate() {
            assert_eq!(slot.ids.contains(&id), places >> at & 1 == 1);
        }
    }
    code.weights.total = MAX_WEIGHT;
    code.weights.occurred(7);
    assert!(code.weights.total < MAX_WEIGHT / 2);
    assert_eq!(code.weights.total, code.weights.below(64));
    assert!((0..64).all(|id| code.weights.of(id) >= u64::from(prior(64, id))));
}

#[test]
fn powers_are_monotone() {
    for exponent in [1, 2, 3, 17, 100, 2048] {
        let mut previous = 0;
        for step in 0..=4096u64 {
            let power = power(step << 19, exponent);
            assert!(power >= previous);
            previous = power;
        }
        assert_eq!(previous, ONE);
    }
    assert_eq!(power(ONE / 2, 3), ONE / 8);
}

#[test]
fn parameters_are_checked() {
    assert!(AdaptiveCode::new(151_936, 151_936, 100).is_ok());
    assert!(AdaptiveCode::new(0, 1, 1).is_err());
    assert!(AdaptiveCode::new(10, 11, 1).is_err());
    assert!(AdaptiveCode::new(10, 0, 1).is_err());
    assert!(AdaptiveCode::new(10, 1, 0).is_err());
    assert!(AdaptiveCode::new(10, 1, MAX_LATTICE_RESOLUTION + 1).is_err());
    let work = AdaptiveCode::new(4096, 4096, 3000).unwrap_err();
    assert_eq!(work, ParameterError::TooMuchWork { work: 6000, limit: MAX_STEPS.into() });
    let code = AdaptiveCode::new(10, 2, 5).unwrap();
    for bad in
        [token(1, &[1], &[4]), token(10, &[10], &[5]), token(1, &[1, 2, 3], &[1, 1, 3]), token(4, &[1, 2], &[2, 3])]
    {
        let mut round = code.round();
        assert!(matches!(round.push(&code, &bad), Err(ParameterError::DoesNotFit { .. })));
        assert_eq!(round.finish(), [0u8; 0]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Known before the draw: what the costliest of the ids would take.
    #[test]
    fn the_bound_is_that_of_the_costliest_draft(
        v in prop_oneof![1u32..40, 200u32..5000],
        k in 1u32..80,
        resolution in prop_oneof![1u32..20, 20u32..2000],
        seed in any::<u64>(),
    ) {
        let k = k.min(v);
        let mut source = Source(seed);
        let mut code = AdaptiveCode::new(v, k, resolution).unwrap();
        for _ in 0..8 {
            let mut round = code.round();
            let mut tokens = Vec::new();
            for _ in 0..source.below(5) {
                let m = 1 + source.below(k.min(resolution));
                let drawn = source.token(v, m, resolution);
                let bits = |&id: &u32| {
                    let mut after = round.clone();
                    after.push(&code, &DraftToken { id, ..drawn.clone() }).unwrap();
                    after.bits()
                };
                prop_assert_eq!(drawn.dist.ids().iter().map(bits).max(), round.bound(&code, &drawn.dist).ok());
                round.push(&code, &drawn).unwrap();
                tokens.push(drawn);
            }
            code.commit(&tokens, Some(source.below(v)));
        }
    }
}
