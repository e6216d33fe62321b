//! Big Little Decoder (Kim et al. 2023): the target's word where the two models are far apart.
//!
//! ```text
//! δ = 1 where D(q, p) > α,   π = (1 − δ)·q̂ + δ·p
//! D(q, p) = −Σ q(v)·ln p(v), v in the vocabulary   at T > 0
//!         = −ln p(argmax q)                        at T = 0
//! ```
//!
//! (Narasimhan et al., App. F.1; F.5 prints the second without its sign.)
//!
//! bild is the rollback of the original: where δ = 1 the draft is rejected for certain and p takes its place. (Its
//! fallback, drafting until the draft model is unsure, is the edge's business.) bild-star speculates on the same π
//! (App. B).
//!
//! q and p are unscaled. The tail of q has little mass, but −ln p is large there: cut to 32 tokens, D is too small to
//! reject half of what the rule rejects. So at T > 0 the rule needs [all of q](Need::Whole), which only the dense
//! scheme sends, and at T = 0 the likeliest token, which every q̂ has. What f16 leaves of q is divided by its sum. D is
//! infinite where p = 0 and q is not.

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
    explanation: "Draft where the target's log-loss on the draft model's distribution is at most α nats. Needs the scheme dense, or temperature 0.",
    paper: "Kim et al. 2023, Speculative Decoding with Big Little Decoder; as varied by Narasimhan et al., App. F.5",
    lossy: true,
    need: Need::Whole,
    has_bonus: false,
    has_ratio: true,
    judge: |position, alpha| defer(position, discrepancy(position) > alpha),
};

/// Table row of the rule `bild`.
pub(super) const BILD: RuleInfo = RuleInfo {
    name: "bild",
    explanation: "As bild-star, but drafts beyond α nats are always rejected, and a token of the target follows the \
                  last. Needs the scheme dense, or temperature 0.",
    paper: "Kim et al. 2023, Speculative Decoding with Big Little Decoder",
    has_bonus: true,
    has_ratio: false,
    judge: |position, alpha| if discrepancy(position) > alpha { Decision::Replace } else { Decision::Keep },
    ..BILD_STAR
};

/// D(q, p) in nats; at least 0, may be infinite.
fn discrepancy(position: &Position<'_>) -> f64 {
    let (logits, p) = (position.p.logits(), position.p.unscaled());
    let loss = |id: u32| -p.log_probability(logits[id as usize]);
    let q = position.known();
    if position.sampling.temperature == 0.0 {
        // The smaller id of equally likely ones, as everywhere.
        let best = q.iter().rev().max_by(|a, b| a.1.total_cmp(&b.1));
        return best.map_or(f64::INFINITY, |&(id, _)| loss(id));
    }
    let mass: f64 = q.iter().map(|(_, q)| q).sum();
    if mass == 0.0 {
        return f64::INFINITY;
    }
    // 0·∞ counts as 0.
    q.iter().filter(|(_, q)| *q > 0.0).map(|&(id, q)| q / mass * loss(id)).sum()
}
