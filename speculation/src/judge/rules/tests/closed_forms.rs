//! Every rule against its closed form, written a second time: dense vectors, no tricks.

use ::half::f16;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use super::*;

/// A position as the papers see it, all of V numbers.
struct Naive {
    /// q̂.
    q: Vec<f64>,
    /// S(p).
    p: Vec<f64>,
    /// The draft model's own, as far as it is known.
    unscaled_q: Vec<f64>,
    /// max q and H(q) as known.
    peak_q: f64,
    entropy_q: f64,
    /// The target's own.
    unscaled_p: Vec<f64>,
    greedy: bool,
}

fn softmax(logits: &[f32]) -> Vec<f64> {
    let max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    let weights: Vec<f64> = logits.iter().map(|&logit| (f64::from(logit) - max).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

fn peak(p: &[f64]) -> f64 {
    p.iter().copied().fold(0.0, f64::max)
}

fn entropy(p: &[f64]) -> f64 {
    -p.iter().filter(|&&p| p > 0.0).map(|p| p * p.ln()).sum::<f64>()
}

fn tv(p: &[f64], q: &[f64]) -> f64 {
    p.iter().zip(q).map(|(p, q)| (p - q).abs()).sum::<f64>() / 2.0
}

/// The deficit and the surplus of π against q: Σ max(0, q − π), Σ max(0, π − q).
fn moved(pi: &[f64], q: &[f64]) -> (f64, f64) {
    let part = |sign: f64| pi.iter().zip(q).map(|(pi, q)| (sign * (pi - q)).max(0.0)).sum();
    (part(-1.0), part(1.0))
}

impl Naive {
    fn of(case: &Case) -> Self {
        let half = |value: f64| f16::from_f64(value).to_f64();
        let (q, own) = (case.dense_q(), softmax(&case.row));
        let (unscaled_q, peak_q, entropy_q) = if case.neutral() {
            (q.clone(), peak(&q), entropy(&q))
        } else {
            (own.iter().map(|&q| half(q)).collect(), half(peak(&own)), half(entropy(&own)))
        };
        let unscaled_p = softmax(&case.logits);
        Self {
            q,
            p: case.p.clone(),
            unscaled_q,
            peak_q,
            entropy_q,
            unscaled_p,
            greedy: case.sampling.temperature == 0.0,
        }
    }

    fn map(&self, pi: impl Fn(f64, f64) -> f64) -> Vec<f64> {
        self.q.iter().zip(&self.p).map(|(&q, &p)| pi(q, p)).collect()
    }

    fn lossy(&self, a: f64, b: f64) -> Vec<f64> {
        self.map(|q, p| f64::max(f64::min(q, p / a), p / b))
    }

    /// max{min{q, p/a}, p/b} with the b that makes a distribution of it: its sum falls as b rises.
    fn lossy_distribution(&self, a: f64) -> Vec<f64> {
        let (mut low, mut high) = (1e-3f64, 1e15);
        for _ in 0..100 {
            let middle = (low * high).sqrt();
            if self.lossy(a, middle).iter().sum::<f64>() > 1.0 { low = middle } else { high = middle }
        }
        self.lossy(a, high)
    }

    fn discrepancy(&self) -> f64 {
        let loss = |v: usize| -self.unscaled_p[v].ln();
        let support: Vec<usize> = (0..self.q.len()).filter(|&v| self.q[v] > 0.0).collect();
        if self.greedy {
            return loss(support[0]);
        }
        let mass: f64 = support.iter().map(|&v| self.unscaled_q[v]).sum();
        let known = support.iter().filter(|&&v| self.unscaled_q[v] > 0.0);
        if mass > 0.0 { known.map(|&v| self.unscaled_q[v] * loss(v)).sum::<f64>() / mass } else { f64::INFINITY }
    }

    /// π, and how far the nearest comparison was from going the other way. Every rule has a closed form in the crate of
    /// tests, which whole sessions are compared with; these are second ones, for single positions to the last digits.
    fn pi(&self, name: &str, parameter: f64) -> Option<(Vec<f64>, f64)> {
        let alpha = parameter;
        let deferred = |gain: f64| {
            let delta = f64::from(u8::from(gain > 0.0));
            (self.map(|q, p| (1.0 - delta) * q + delta * p), gain.abs())
        };
        let by_token = |gains: Vec<f64>| {
            let r = |v: usize| f64::from(u8::from(gains[v] > 0.0));
            let support = (0..gains.len()).filter(|&v| self.q[v] > 0.0);
            let margin = support.map(|v| gains[v].abs()).fold(f64::INFINITY, f64::min);
            let eta: f64 = (0..gains.len()).map(|v| r(v) * self.q[v]).sum();
            ((0..gains.len()).map(|v| self.q[v] * (1.0 - r(v)) + self.p[v] * eta).collect(), margin)
        };
        let certain = |pi| (pi, f64::INFINITY);
        let best = peak(&self.unscaled_p);
        let sharper = self.entropy_q - entropy(&self.unscaled_p);
        Some(match name {
            "exact" => certain(self.p.clone()),
            "lossy" => certain(self.lossy(1.0 - alpha, 1.0)),
            "lossy-tuned" => certain(self.lossy_distribution(1.0 - alpha)),
            "chow" => deferred(1.0 - alpha - self.peak_q),
            "chow-log" => deferred(self.entropy_q - alpha),
            "diff" | "oracle-diff" => deferred(best - alpha - self.peak_q),
            "diff-log" => deferred(sharper - alpha),
            "opt" => deferred(best - alpha * tv(&self.p, &self.q) - self.peak_q),
            "opt-log" => deferred(sharper - alpha * tv(&self.p, &self.q)),
            "token-v1" => by_token(self.unscaled_q.iter().map(|q| best - alpha - q).collect()),
            "token-v2" => by_token(self.unscaled_p.iter().map(|p| best - alpha - p).collect()),
            "token-v3" => by_token(self.unscaled_p.iter().map(|p| best * (1.0 - alpha) - p).collect()),
            "bild" | "bild-star" => deferred(self.discrepancy() - alpha),
            "mentored" => certain(self.mentored(parameter)),
            _ => return None,
        })
    }

    /// Bisects for the smallest a, or else for the largest b, that the divergence allows.
    fn mentored(&self, allowed: f64) -> Vec<f64> {
        let divergence = |pi: &[f64]| -> f64 {
            let terms = self.p.iter().zip(pi).filter(|&(&p, _)| p > 0.0);
            terms.map(|(p, pi)| p * (p / pi).ln()).sum()
        };
        if divergence(&self.q) <= allowed {
            return self.q.clone();
        }
        let vain: f64 = self.q.iter().zip(&self.p).filter(|&(_, &p)| p == 0.0).map(|(q, _)| q).sum();
        let shared = |b: f64| self.map(|q, p| if p > 0.0 { q.max(p / b) } else { 0.0 });
        let (mut low, mut high) = (1e-3f64, 1e15);
        for _ in 0..100 {
            let middle = (low * high).sqrt();
            if divergence(&shared(middle)) < allowed { low = middle } else { high = middle }
        }
        let spare = 1.0 - shared(low).iter().sum::<f64>();
        if vain > 0.0 && spare >= 0.0 {
            return self.map(|q, p| if p > 0.0 { q.max(p / low) } else { q * spare / vain });
        }
        let (mut low, mut high) = (1e-60f64, 1.0);
        for _ in 0..90 {
            let middle = (low * high).sqrt();
            if divergence(&self.lossy_distribution(middle)) > allowed { low = middle } else { high = middle }
        }
        self.lossy_distribution(high)
    }

    /// The distribution of the committed token: π, unless that is no distribution.
    fn distribution(&self, name: &str, pi: Vec<f64>) -> Vec<f64> {
        let (taken, added) = moved(&pi, &self.q);
        if name != "lossy" || added == 0.0 {
            return pi;
        }
        // min{q, π} stays, and what was taken is spread as the surplus is: with β = 1 that is max(0, p − q).
        self.q.iter().zip(&pi).zip(&self.p).map(|((q, pi), p)| q.min(*pi) + taken / added * (p - q).max(0.0)).collect()
    }
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// For every rule, parameter, scheme and S(·): acceptance and replacement, enumerated, give the distribution that
    /// the closed form says.
    #[test]
    fn the_committed_token_has_the_closed_forms_law(case in cases()) {
        let naive = Naive::of(&case);
        for rule in rules() {
            let decision = case.judge(&rule);
            let Some((pi, margin)) = naive.pi(rule.name(), rule.parameter()) else { continue };
            if margin < 1e-9 {
                // A tie; which way it goes is for another test.
                continue;
            }
            let distribution = decision.committed(&case.q, &case.p);
            let replacement = decision.replacement(&case.q, &case.p);
            let sum: f64 = replacement.iter().sum();
            let mut enumerated = vec![0.0; distribution.len()];
            let mut fallen = 0.0;
            for (x, &q) in naive.q.iter().enumerate() {
                let acceptance = decision.acceptance(&case.q, x as u32);
                prop_assert!((0.0..=1.0).contains(&acceptance));
                enumerated[x] += q * acceptance;
                fallen += q * (1.0 - acceptance);
                for (y, weight) in replacement.iter().enumerate() {
                    enumerated[y] += q * (1.0 - acceptance) * weight / sum;
                }
            }
            prop_assert!(replacement.iter().all(|weight| (0.0..=1.0 + 1e-12).contains(weight)));
            let name = rule.name();
            prop_assert!(distance(&distribution, &enumerated) < 1e-12, "{rule:?}");
            prop_assert!((distribution.iter().sum::<f64>() - 1.0).abs() < 1e-12, "{rule:?}");
            prop_assert!((decision.rejection_rate(&case.q) - fallen).abs() < 1e-12, "{rule:?}");
            if !["bild", "oracle-diff"].contains(&name) {
                prop_assert!((fallen - moved(&pi, &naive.q).0).abs() < 1e-7, "{rule:?}: {fallen}");
            }
            let expected = naive.distribution(name, pi);
            let tolerance = if ["mentored", "lossy-tuned"].contains(&name) { 1e-7 } else { 1e-11 };
            prop_assert!(distance(&distribution, &expected) < tolerance, "{rule:?} {}:\n{distribution:?}\n{expected:?}", name);
        }
    }

    /// What is said of the exact rule.
    #[test]
    fn the_exact_rule_has_the_targets_law(case in cases()) {
        prop_assert!(distance(&case.judge(&Rule::EXACT).committed(&case.q, &case.p), &case.p) < 1e-12);
    }

    /// lossy-tuned is tuned: its π is a distribution, and where it falls short of q̂ is what it adds elsewhere.
    #[test]
    fn the_tuned_rule_adds_up_to_one(case in cases(), alpha in 0.0f64..0.999) {
        if let Decision::Speculate(pi) = case.judge(&Rule::new("lossy-tuned", alpha).unwrap()) {
            prop_assert!((pi.dense(&case.q, &case.p).iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
    }
}
