//! The distribution of a text under every acceptance rule, written a second time from the papers: dense vectors, no
//! tricks.
//!
//! Table 1 of Narasimhan et al. ("Faster Cascades via Speculative Decoding") has π; Tran-Thien 2023 lossy speculative
//! sampling and its mentor; Kim et al. 2023 the big little decoder. [`Texts`](crate::texts::Texts) puts the positions
//! together, round by round.

use outrider_codec::{distribution::DraftDist, frame::SamplingParameters, scheme::SchemeParameters};
use outrider_speculation::{judge::Rule, sample};

use crate::{goodness::distance, samplings::NEUTRAL};

/// Outcome of a draft from q̂ at a position.
#[derive(Debug, Clone)]
pub struct Fate {
    /// Probability that it is this token and is accepted.
    pub accepted: Vec<f64>,
    /// Probability that it is rejected and this token takes its place.
    pub replaced: Vec<f64>,
}

/// A position as the papers see it, all of V numbers.
#[derive(Debug, Clone)]
pub struct Position {
    /// The draft distribution, q̂.
    pub q: Vec<f64>,
    /// The target's distribution, p = S(target).
    pub p: Vec<f64>,
    /// The draft model's own distribution, as far as the cloud knows it, its largest probability and its entropy.
    unscaled_q: Vec<f64>,
    peak_q: f64,
    entropy_q: f64,
    /// The target model's own distribution, its largest probability and its entropy.
    unscaled_p: Vec<f64>,
    peak_p: f64,
    entropy_p: f64,
    /// BiLD's D(q, p), in nats.
    discrepancy: f64,
}

impl Position {
    /// Computes a position from the logits of both models.
    ///
    /// The cloud knows of q, the draft model's own distribution, only the part that is sent, in f16; or all of it, if
    /// S(·) leaves it unchanged and q̂ under the `scheme` is all of it.
    pub fn new(
        draft: &[f32],
        target: &[f32],
        sampling: &SamplingParameters,
        (dist, scheme): (&DraftDist, SchemeParameters),
    ) -> Self {
        let total = f64::from(dist.total());
        let q: Vec<f64> = (0..target.len() as u32).map(|id| f64::from(dist.count(id)) / total).collect();
        let own = softmax(draft);
        let (unscaled_q, peak_q, entropy_q) = if *sampling == NEUTRAL && scheme == SchemeParameters::Dense {
            (q.clone(), peak(&q), entropy(&q))
        } else {
            (own.iter().map(|&q| half(q)).collect(), half(peak(&own)), half(entropy(&own)))
        };
        let p = sample::transform(target, sampling).unwrap();
        let unscaled_p = softmax(target);
        let (peak_p, entropy_p) = (peak(&unscaled_p), entropy(&unscaled_p));
        let discrepancy = discrepancy(&unscaled_q, &unscaled_p, sampling.temperature == 0.0);
        Self { q, p, unscaled_q, peak_q, entropy_q, unscaled_p, peak_p, entropy_p, discrepancy }
    }

    /// The position with all tokens outside q̂'s support as one, the last: whatever a rule does to them it does to
    /// their sum.
    pub fn lumped(&self) -> Self {
        let lump = |values: &[f64]| {
            let mut kept: Vec<f64> = values.iter().zip(&self.q).filter(|(_, q)| **q > 0.0).map(|(v, _)| *v).collect();
            kept.push(values.iter().zip(&self.q).filter(|(_, q)| **q == 0.0).map(|(v, _)| v).sum());
            kept
        };
        let (q, p) = (lump(&self.q), lump(&self.p));
        Self { q, p, unscaled_q: lump(&self.unscaled_q), unscaled_p: lump(&self.unscaled_p), ..*self }
    }

    /// Outcome of a draft under the rule.
    pub fn fate(&self, rule: &Rule) -> Fate {
        self.fate_at(rule.info().name, rule.parameter())
    }

    /// Outcome of a draft under the rule of this name at a parameter, to the last digit.
    pub fn fate_at(&self, name: &str, alpha: f64) -> Fate {
        let best = self.peak_p;
        let sharper = self.entropy_q - self.entropy_p;
        let distance = distance(&self.p, &self.q);
        let by_token = |bad: Vec<bool>| {
            let eta: f64 = self.q.iter().zip(&bad).filter(|(_, bad)| **bad).map(|(q, _)| q).sum();
            let pi = self.q.iter().zip(&self.p).zip(bad).map(|((q, p), bad)| if bad { 0.0 } else { *q } + p * eta);
            self.speculate(pi.collect())
        };
        match name {
            "exact" => self.speculate(self.p.clone()),
            "lossy" => self.speculate(self.bounded(1.0 - alpha, 1.0)),
            "lossy-tuned" => self.speculate(self.tuned(1.0 - alpha)),
            "chow" => self.defer(self.peak_q < 1.0 - alpha),
            "chow-log" => self.defer(self.entropy_q > alpha),
            "diff" => self.defer(self.peak_q < best - alpha),
            "diff-log" => self.defer(sharper > alpha),
            "opt" => self.defer(self.peak_q < best - alpha * distance),
            "opt-log" => self.defer(sharper > alpha * distance),
            "token-v1" => by_token(self.unscaled_q.iter().map(|&q| q < best - alpha).collect()),
            "token-v2" => by_token(self.unscaled_p.iter().map(|&p| p < best - alpha).collect()),
            "token-v3" => by_token(self.unscaled_p.iter().map(|&p| p < best * (1.0 - alpha)).collect()),
            "bild-star" => self.defer(self.discrepancy > alpha),
            "bild" => self.replace(self.discrepancy > alpha),
            "oracle-diff" => self.replace(self.peak_q < best - alpha),
            "mentored" => self.speculate(self.mentored(alpha)),
            other => panic!("no closed form of {other}"),
        }
    }

    /// Coupled drafting under the exact rule: both ends choose the token of least E/q and E/p, with E exponential and
    /// the same at both. They both choose y where E(x)/E(y) ≥ max(p(x)/p(y), q(x)/q(y)) for all x. A choice of p's that
    /// is not q's replaces it.
    pub fn coupled(&self) -> Fate {
        let both = |y: usize| {
            let ratio = |x: usize| f64::max(self.p[x] / self.p[y], self.q[x] / self.q[y]);
            let possible = self.p[y] > 0.0 && self.q[y] > 0.0;
            if possible { 1.0 / (0..self.p.len()).map(ratio).sum::<f64>() } else { 0.0 }
        };
        let accepted: Vec<f64> = (0..self.p.len()).map(both).collect();
        let replaced = self.p.iter().zip(&accepted).map(|(p, accepted)| p - accepted).collect();
        Fate { accepted, replaced }
    }

    /// A draft is accepted with min(1, π/q̂); in place of a rejected one comes norm(max(0, π − q̂)).
    fn speculate(&self, pi: Vec<f64>) -> Fate {
        let accepted: Vec<f64> = self.q.iter().zip(&pi).map(|(q, pi)| q.min(*pi)).collect();
        let rejected = 1.0 - accepted.iter().sum::<f64>();
        let rest: Vec<f64> = self.q.iter().zip(&pi).map(|(q, pi)| (pi - q).max(0.0)).collect();
        let sum: f64 = rest.iter().sum();
        let replaced = rest.iter().map(|rest| if sum > 0.0 { rejected * rest / sum } else { 0.0 }).collect();
        Fate { accepted, replaced }
    }

    /// π = p where deferred, else q̂.
    fn defer(&self, deferred: bool) -> Fate {
        self.speculate(if deferred { self.p.clone() } else { self.q.clone() })
    }

    /// Replaces the draft without a random draw: by p where deferred, else not at all.
    fn replace(&self, deferred: bool) -> Fate {
        let nothing = vec![0.0; self.p.len()];
        let (accepted, replaced) = if deferred { (nothing, self.p.clone()) } else { (self.q.clone(), nothing) };
        Fate { accepted, replaced }
    }

    /// max{min{q̂, p/a}, p/b}.
    fn bounded(&self, a: f64, b: f64) -> Vec<f64> {
        self.q.iter().zip(&self.p).map(|(q, p)| q.min(p / a).max(p / b)).collect()
    }

    /// The distribution max{min{q̂, p/a}, p/b} with the b at which it adds up to 1. Its sum falls as b rises.
    fn tuned(&self, a: f64) -> Vec<f64> {
        self.bounded(a, bisect(|b| self.bounded(a, b).iter().sum::<f64>() > 1.0))
    }

    /// The π that accepts most while KL(p‖π) ≤ D: of the family above with the smallest a that D allows.
    fn mentored(&self, allowed: f64) -> Vec<f64> {
        let divergence = |pi: &[f64]| -> f64 {
            let terms = self.p.iter().zip(pi).filter(|&(&p, _)| p > 0.0);
            terms.map(|(p, pi)| p * (p / pi).ln()).sum()
        };
        if divergence(&self.q) <= allowed {
            return self.q.clone();
        }
        // a = 0: tokens that the target excludes share what the others leave.
        let excluded: f64 = self.q.iter().zip(&self.p).filter(|&(_, &p)| p == 0.0).map(|(q, _)| q).sum();
        let shared = |b: f64, share: f64| -> Vec<f64> {
            self.q.iter().zip(&self.p).map(|(&q, &p)| if p > 0.0 { q.max(p / b) } else { share * q }).collect()
        };
        let b = bisect(|b| divergence(&shared(b, 0.0)) < allowed);
        let spare = 1.0 - shared(b, 0.0).iter().sum::<f64>();
        if excluded > 0.0 && spare >= 0.0 {
            return shared(b, spare / excluded);
        }
        self.tuned(bisect(|a| divergence(&self.tuned(a)) > allowed))
    }
}

/// The border between arguments that hold, below it, and those that do not.
fn bisect(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (1e-30f64, 1e15);
    for _ in 0..120 {
        let middle = (low * high).sqrt();
        if holds(middle) { low = middle } else { high = middle }
    }
    high
}

/// D(q, p) = −Σ_v q(v)·ln p(v) over the whole vocabulary, or at T = 0 −ln p(argmax q) (Narasimhan et al., App. F.1).
/// Both are unscaled; q has come in f16, and is normalised.
fn discrepancy(q: &[f64], p: &[f64], greedy: bool) -> f64 {
    let terms = || q.iter().zip(p).filter(|(q, _)| **q > 0.0);
    if greedy {
        let best = peak(q);
        return terms().find(|(q, _)| **q == best).map_or(f64::INFINITY, |(_, p)| -p.ln());
    }
    let mass: f64 = q.iter().sum();
    terms().map(|(q, p)| -q / mass * p.ln()).sum()
}

fn softmax(logits: &[f32]) -> Vec<f64> {
    let weights: Vec<f64> = logits.iter().map(|&logit| f64::from(logit).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

fn peak(p: &[f64]) -> f64 {
    p.iter().copied().fold(0.0, f64::max)
}

fn entropy(p: &[f64]) -> f64 {
    -p.iter().filter(|&&p| p > 0.0).map(|p| p * p.ln()).sum::<f64>()
}

/// The nearest binary16 number of one from 0 to 65504: eleven significant bits, and none below 2⁻²⁴.
fn half(value: f64) -> f64 {
    let unit = if value < 2f64.powi(-14) { 2f64.powi(-24) } else { 2f64.powi(value.log2().floor() as i32 - 10) };
    (value / unit).round_ties_even() * unit
}
