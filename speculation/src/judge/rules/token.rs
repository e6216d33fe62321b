//! Token-specific speculative cascades (Narasimhan et al., §5, eqs 11–16, Algorithm 6): a separate δ for each token.
//!
//! ```text
//! π(v) = q̂(v)·(1 − r(v)) + p(v)·η,   η = Σ r·q̂,   r(v) = 1 where v is not good enough:
//!
//! token-v1    q(v) < max p − α          (eq. 13)
//! token-v2    p(v) < max p − α          (eq. 14)
//! token-v3    p(v) < max p·(1 − α)      (eq. 15)
//! ```
//!
//! η makes π add up to 1. r is measured unscaled, and applied to q̂ and p after S(·) (App. C.1): so r matters on q̂'s
//! support alone. At T = 0 token-v3 is the lossy greedy rule of Leviathan et al. 2023, App. A.5: the draft is accepted
//! if and only if p(v) ≥ (1 − α)·max p (Lemma 7).

use super::{
    decision::{Decision, Interleaving},
    info::{Position, Range, RuleInfo},
    statistic::Need,
};

/// Table row of the rule `token-v1`.
pub(super) const TOKEN_V1: RuleInfo = RuleInfo {
    name: "token-v1",
    symbol: Some("α"),
    default: 0.3,
    range: Range::UpTo(1.0),
    explanation: "Keep the tokens that the draft model gives at least what the target gives its best one, less α.",
    paper: "Narasimhan et al., Faster Cascades via Speculative Decoding",
    lossy: true,
    need: Need::Support,
    has_bonus: false,
    has_ratio: true,
    judge: |position, alpha| {
        let least = position.p.unscaled().peak() - alpha;
        interleave(position, position.support().iter().map(|&q| share(q < least)))
    },
};

/// Table row of the rule `token-v2`.
pub(super) const TOKEN_V2: RuleInfo = RuleInfo {
    name: "token-v2",
    explanation: "Keep the tokens that the target gives at least what it gives its best one, less α.",
    need: Need::Nothing,
    judge: |position, alpha| by_target(position, |peak| peak - alpha),
    ..TOKEN_V1
};

/// Table row of the rule `token-v3`.
pub(super) const TOKEN_V3: RuleInfo = RuleInfo {
    name: "token-v3",
    explanation: "Keep the tokens that the target gives at least 1 − α times what it gives its best one.",
    judge: |position, alpha| by_target(position, |peak| peak * (1.0 - alpha)),
    ..TOKEN_V2
};

/// r(v) = 1 where the target gives v less than `least` of what it gives its most likely token.
fn by_target(position: &Position<'_>, least: impl Fn(f64) -> f64) -> Decision {
    let (logits, p) = (position.p.logits(), position.p.unscaled());
    let least = least(p.peak());
    interleave(position, position.q.ids().iter().map(|&id| share(p.probability(logits[id as usize]) < least)))
}

fn share(is_deferred: bool) -> f64 {
    f64::from(u8::from(is_deferred))
}

/// Decision with the π of equation 11; `deferred` is r of each token of q̂'s support.
pub(super) fn interleave(position: &Position<'_>, deferred: impl Iterator<Item = f64>) -> Decision {
    let deferred: Vec<f64> = deferred.collect();
    // η = Σ r·q̂
    let mass: f64 = position.pairs().zip(&deferred).map(|((q, _), r)| r * q).sum();
    if mass == 0.0 {
        return Decision::Keep;
    }
    let pi = position.pairs().zip(deferred).map(|((q, p), r)| q * (1.0 - r) + p * mass);
    Decision::Speculate(Interleaving::new(pi.collect(), mass))
}
