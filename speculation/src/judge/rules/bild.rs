//! Big Little Decoder (Kim et al. 2023): the target's word where the two models are far apart.
//!
//! ```text
//! δ = 1 where D(q, p) > α,   π = (1 − δ)·q̂ + δ·p
//! D(q, p) = −Σ q·ln p            at T > 0
//!         = −ln p(argmax q)      at T = 0   (Narasimhan et al., App. F.5, whose D lacks the sign)
//! ```
//!
//! bild is the rollback of the original: where δ = 1 the draft is rejected for certain and p takes its place. (Its
//! fallback, drafting until the draft model is unsure, is the edge's business.) bild-star speculates on the same π
//! (App. B).
//!
//! q and p are unscaled. q is known on q̂'s support only; it is renormalised there, as q̂ is, so that D is a mean of
//! −ln p whatever the scheme. D is infinite where p = 0 and q is not, and where nothing of q is known.

use super::{
    cascade::defer,
    decision::Decision,
    info::{Position, Range, RuleInfo},
    statistic::Need,
};

/// Table row of the rule `bild-star`.
pub(super) const BILD_STAR: RuleInfo = RuleInfo {
    name: "bild-star",
    symbol: Some("α"),
    default: 3.0,
    range: Range::NotNegative,
    explanation: "Draft where the target's log-loss on the draft model's distribution is at most α nats.",
    paper: "Kim et al. 2023, Speculative Decoding with Big Little Decoder; as varied by Narasimhan et al., App. F.5",
    lossy: true,
    need: Need::Support,
    has_bonus: false,
    judge: |position, alpha| defer(position, discrepancy(position) > alpha),
};

/// Table row of the rule `bild`.
pub(super) const BILD: RuleInfo = RuleInfo {
    name: "bild",
    explanation: "As bild-star, but drafts beyond α nats are always rejected, and a token of the target follows the \
                  last.",
    paper: "Kim et al. 2023, Speculative Decoding with Big Little Decoder",
    has_bonus: true,
    judge: |position, alpha| if discrepancy(position) > alpha { Decision::Replace } else { Decision::Keep },
    ..BILD_STAR
};

/// D(q, p) in nats; at least 0, may be infinite.
fn discrepancy(position: &Position<'_>) -> f64 {
    let (logits, p) = (position.p.logits(), position.p.unscaled());
    let loss = |&id: &u32| -p.log_probability(logits[id as usize]);
    if position.sampling.temperature == 0.0 {
        // q̂ is the draft model's most likely token alone. How sure of it the draft model is plays no part.
        return position.q.ids().first().map_or(f64::INFINITY, loss);
    }
    let q = position.support();
    let mass: f64 = q.iter().sum();
    if mass == 0.0 {
        return f64::INFINITY;
    }
    // 0·∞ counts as 0.
    position.q.ids().iter().zip(q.iter()).filter(|&(_, &q)| q > 0.0).map(|(id, q)| q / mass * loss(id)).sum()
}
