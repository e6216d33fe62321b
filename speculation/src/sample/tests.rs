//! The transform by examples, and against its definition.

use outrider_codec::frame::SamplingParameters;

use super::*;
use crate::sample::End;
use proptest::prelude::*;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// S(·) that changes nothing.
pub(crate) const PLAIN: SamplingParameters = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };

/// Logits whose softmax is in proportion to these weights, but for the rounding to f32.
pub(crate) fn logits(weights: &[f64]) -> Vec<f32> {
    weights.iter().map(|weight| weight.ln() as f32).collect()
}

fn s(temperature: f32, top_k: u32, top_p: f32) -> Vec<f64> {
    // softmax: 1/10, 2/10, 4/10, 2/10, 1/10
    let logits = [1f32, 2.0, 4.0, 2.0, 1.0].map(f32::ln);
    transform(&logits, &SamplingParameters { temperature, top_k, top_p }).unwrap()
}

fn close(a: &[f64], b: &[f64]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-6)
}

#[test]
fn temperature() {
    assert!(close(&s(1.0, 0, 1.0), &[0.1, 0.2, 0.4, 0.2, 0.1]));
    assert!(close(&s(0.5, 0, 1.0), &[1.0, 4.0, 16.0, 4.0, 1.0].map(|x| x / 26.0)));
    assert_eq!(s(0.0, 0, 1.0), [0.0, 0.0, 1.0, 0.0, 0.0]);
    assert!(!close(&s(0.9, 0, 1.0), &s(1.0, 0, 1.0)), "the comparison can fail");
}

#[test]
fn top_k_and_top_p_break_ties_by_id() {
    assert!(close(&s(1.0, 2, 1.0), &[0.0, 1.0 / 3.0, 2.0 / 3.0, 0.0, 0.0]));
    assert!(close(&s(1.0, 99, 1.0), &s(1.0, 0, 1.0)));
    assert!(close(&s(1.0, 0, 0.39), &[0.0, 0.0, 1.0, 0.0, 0.0]));
    assert!(close(&s(1.0, 0, 0.5), &[0.0, 1.0 / 3.0, 2.0 / 3.0, 0.0, 0.0]));
    assert!(close(&s(1.0, 0, 0.75), &[0.0, 0.25, 0.5, 0.25, 0.0]));
    // top-p works on what top-k left, renormalised: 0.6 of {2/3, 1/3} is the first alone.
    assert!(close(&s(1.0, 2, 0.6), &[0.0, 0.0, 1.0, 0.0, 0.0]));
    assert_eq!(
        transform(&[1.0, 1.0], &SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 }),
        Ok(vec![1.0, 0.0])
    );
}

#[test]
fn bad_logits_are_errors() {
    let greedy = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
    assert_eq!(transform(&[], &greedy), Err(LogitsError::Empty));
    assert_eq!(transform(&[0.0, f32::NAN], &greedy), Err(LogitsError::NotFinite { token: 1 }));
    assert_eq!(transform(&[0.0, f32::INFINITY], &greedy), Err(LogitsError::NotFinite { token: 1 }));
    assert_eq!(transform(&[f32::NEG_INFINITY; 2], &greedy), Err(LogitsError::NotFinite { token: 0 }));
    assert_eq!(transform(&[f32::NEG_INFINITY, 0.0], &greedy), Ok(vec![0.0, 1.0]));
}

/// S(·) as it is defined: all tokens in order, the first k, and of these the first that have the mass.
fn definition(row: &[f32], parameters: &SamplingParameters) -> Vec<f64> {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|&a, &b| row[b].partial_cmp(&row[a]).unwrap().then(a.cmp(&b)));
    let weight = |id: usize| match parameters.temperature {
        0.0 => 1.0,
        temperature => ((f64::from(row[id]) - f64::from(max)) / f64::from(temperature)).exp(),
    };
    let k = match (parameters.temperature, parameters.top_k as usize) {
        (0.0, _) => 1,
        (_, 0) => row.len(),
        (_, k) => k.min(row.len()),
    };
    order.truncate(k);
    if parameters.top_p < 1.0 {
        let wanted = f64::from(parameters.top_p) * order.iter().map(|&id| weight(id)).sum::<f64>();
        let mut reached = 0.0;
        let last = order.iter().position(|&id| {
            reached += weight(id);
            reached >= wanted
        });
        order.truncate(last.map_or(k, |last| last + 1));
    }
    let mut probabilities = vec![0.0; row.len()];
    let sum: f64 = order.iter().map(|&id| weight(id)).sum();
    for id in order {
        probabilities[id] = weight(id) / sum;
    }
    probabilities
}

/// Rows with ties, gaps, equal values, and of any peakedness; some longer than many pieces.
fn rows() -> impl Strategy<Value = Vec<f32>> {
    let logit = prop_oneof![
        1 => Just(f32::NEG_INFINITY),
        2 => (-8i8..8).prop_map(f32::from),
        1 => prop_oneof![Just(0.0f32), Just(-0.0)],
        5 => -9f32..9.0,
    ];
    let length = prop_oneof![3 => 1usize..40, 2 => 40usize..400, 1 => 4000usize..4200];
    let row = length.prop_flat_map(move |length| prop::collection::vec(logit.clone(), length));
    (row, prop_oneof![Just(0.0f32), Just(1.0), Just(3.0), Just(40.0)]).prop_filter_map("no logit", |(row, spread)| {
        let row: Vec<f32> =
            row.into_iter().map(|logit| if logit.is_finite() { spread * logit } else { logit }).collect();
        row.iter().any(|logit| logit.is_finite()).then_some(row)
    })
}

fn parameters() -> impl Strategy<Value = SamplingParameters> {
    let temperature = prop_oneof![1 => Just(0.0f32), 2 => Just(1.0), 1 => Just(1e-30), 3 => 0.05f32..3.0];
    let top_k = prop_oneof![3 => Just(0u32), 1 => Just(1), 2 => 1u32..100, 1 => 1u32..5000];
    let top_p = prop_oneof![3 => Just(1.0f32), 1 => Just(0.0), 1 => Just(0.9999999), 4 => 0.0f32..1.0];
    (temperature, top_k, top_p).prop_map(|(temperature, top_k, top_p)| SamplingParameters { temperature, top_k, top_p })
}

/// Compares two lists of probabilities: the same tokens, and within the bound that the module states. Numbers below
/// 10⁻³⁰⁰ are as good as 0.
fn same(found: &[f64], expected: &[f64]) -> bool {
    found.len() == expected.len()
        && found
            .iter()
            .zip(expected)
            .all(|(x, y)| (x - y).abs() <= 1e-12 * y + 1e-300 && ((*x > 0.0) == (*y > 0.0) || *y < 1e-300))
}

#[test]
fn the_comparison_can_fail() {
    assert!(same(&[0.5, 0.5], &[0.5, 0.5]));
    assert!(!same(&[0.5, 0.5], &[0.5, 0.5 + 1e-11]));
    assert!(!same(&[1.0, 0.0], &[1.0, 1e-200]));
}

proptest! {
    /// Every token of every list, by its definition.
    #[test]
    fn a_distribution_is_its_definition(row in rows(), parameters in parameters()) {
        let q = Distribution::new(&row, &parameters).unwrap();
        let (dense, expected) = (q.dense(), definition(&row, &parameters));
        prop_assert!(same(&dense, &expected), "{:?} and {:?}", dense, expected);
        prop_assert!((dense.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        for (id, &probability) in (0..).zip(&dense) {
            prop_assert_eq!(q.probability(id), probability);
        }
        prop_assert_eq!(q.probability(row.len() as u32), 0.0);
    }

    #[test]
    fn the_most_likely_are_the_first_of_a_sort(row in rows(), parameters in parameters(), k in 0u32..200) {
        let q = Distribution::new(&row, &parameters).unwrap();
        let mut order: Vec<u32> = (0..row.len() as u32).filter(|&id| q.probability(id) > 0.0).collect();
        order.sort_by(|&a, &b| row[b as usize].partial_cmp(&row[a as usize]).unwrap().then(a.cmp(&b)));
        for k in [k, 1, order.len() as u32, u32::MAX] {
            let mut expected = order[..order.len().min(k as usize)].to_vec();
            expected.sort_unstable();
            prop_assert_eq!(q.most_likely(k), expected);
        }
    }

    #[test]
    fn a_threshold_keeps_what_a_filter_keeps(
        row in rows(), parameters in parameters(), least in -1e-3f64..0.3, place in any::<prop::sample::Index>(),
    ) {
        let q = Distribution::new(&row, &parameters).unwrap();
        let dense = q.dense();
        // Small thresholds too, and those that are some token's probability.
        for least in [least, least.powi(9), 0.0, dense[place.index(dense.len())]] {
            let expected: Vec<(u32, f64)> =
                (0..).zip(dense.iter().copied()).filter(|&(_, p)| p >= least && p > 0.0).collect();
            prop_assert_eq!(q.at_least(least).collect::<Vec<_>>(), expected);
        }
    }

    /// The rest is added up, and drawn from, as if from a list.
    #[test]
    fn a_rest_is_a_list_without_some(
        row in rows(), parameters in parameters(), seed in any::<u64>(),
        without in prop::collection::btree_set(0u32..4200, 0..40),
    ) {
        let q = Distribution::new(&row, &parameters).unwrap();
        let ids: Vec<u32> = without.into_iter().collect();
        let mut left = q.dense();
        for &id in &ids {
            if let Some(left) = left.get_mut(id as usize) {
                *left = 0.0;
            }
        }
        let sum: f64 = left.iter().sum();
        let rest = q.without(&ids);
        prop_assert!((rest.mass() - sum).abs() < 1e-12);
        prop_assert_eq!(rest.mass() == 0.0, sum == 0.0);
        if sum > 0.0 {
            let mut randomness = Randomness::new(seed, End::Edge);
            for _ in 0..20 {
                // The same ticket falls to the same token, but for the rounding of its place.
                let ticket = randomness.unit();
                let drawn = rest.at(ticket) as usize;
                let before: f64 = left[..drawn].iter().sum();
                prop_assert!(left[drawn] > 0.0);
                prop_assert!(before <= ticket * sum + 1e-12 && before + left[drawn] >= ticket * sum - 1e-12);
            }
        }
    }
}

#[test]
fn bad_logits_are_named_wherever_they_are() {
    for length in [1usize, 63, 64, 65, 1000] {
        for bad in [f32::NAN, f32::INFINITY] {
            for place in [0, length / 2, length - 1] {
                let mut row = vec![f32::NEG_INFINITY; length];
                row[place] = bad;
                assert_eq!(Distribution::new(&row, &PLAIN).unwrap_err(), LogitsError::NotFinite { token: place });
            }
        }
        assert_eq!(
            Distribution::new(&vec![f32::NEG_INFINITY; length], &PLAIN).unwrap_err(),
            LogitsError::NotFinite { token: 0 }
        );
    }
}
