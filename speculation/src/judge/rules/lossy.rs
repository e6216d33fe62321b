//! Lossy speculative sampling (Tran-Thien 2023; Narasimhan et al., §2 and Lemma 2): a draft is accepted more often than
//! p/q̂ says, by a factor.
//!
//! ```text
//! π = max{min{q̂, p/(1 − α)}, p/β}:   a(x) = min(1, p(x)/((1 − α)·q̂(x))),   r = norm(max(0, p/β − q̂))
//! ```
//!
//! lossy has β = 1, as most who use it do. π then need not add up to 1: it gives away E = Σ max(0, q̂ − p/(1 − α)), and
//! asks for TV(p, q̂) ≥ E back. Normalising the residual absorbs the difference, and the committed token has the
//! distribution
//!
//! ```text
//! P(y) = min(q̂, p/(1 − α))(y) + E·max(0, p − q̂)(y)/TV(p, q̂),
//! ```
//!
//! so that it is p at α = 0 and nears q̂ on the tokens that both know as α nears 1.
//!
//! lossy-tuned takes the β at which π does add up to 1, and has distribution π (App. F.6):
//!
//! ```text
//! Σ max(0, q̂ − p/(1 − α)) = Σ max(0, p/β − q̂)
//! ```
//!
//! The right side falls as β rises and is TV(p, q̂) at β = 1: so β ≥ 1 and there is exactly one, or nothing is given
//! away and π = q̂. At T = 0 both are the exact rule (Lemma 6).

use super::{
    decision::{Decision, Interleaving},
    info::{Position, Range, RuleInfo},
    ratios::Ratios,
    statistic::Need,
};

/// Table row of the rule `lossy`.
pub(super) const LOSSY: RuleInfo = RuleInfo {
    name: "lossy",
    symbol: Some("α"),
    default: 0.3,
    range: Range::Below(1.0),
    explanation: "Drafts are accepted 1/(1 − α) times as often as under the exact rule, up to always.",
    paper: "Tran-Thien 2023, An Optimal Lossy Variant of Speculative Decoding; with β = 1 as by Zhou et al. 2024",
    lossy: true,
    need: Need::Nothing,
    has_bonus: false,
    has_ratio: true,
    judge: |position, alpha| Decision::Speculate(bounded(position, 1.0 - alpha, 1.0)),
};

/// Table row of the rule `lossy-tuned`.
pub(super) const LOSSY_TUNED: RuleInfo = RuleInfo {
    name: "lossy-tuned",
    explanation: "As lossy, with the tokens that replace drafts tuned so that the text has a distribution of the same form.",
    paper: "Tran-Thien 2023, An Optimal Lossy Variant of Speculative Decoding",
    judge: |position, alpha| {
        let ratios = Ratios::of(position);
        match ratios.excess(1.0 - alpha) {
            0.0 => Decision::Keep,
            excess => Decision::Speculate(bounded(position, 1.0 - alpha, ratios.bound_of_shortfall(excess))),
        }
    },
    ..LOSSY
};

/// max{min{q̂, p/a}, p/b}, 0 < a ≤ b.
pub(super) fn bounded(position: &Position<'_>, a: f64, b: f64) -> Interleaving {
    Interleaving::new(position.pairs().map(|(q, p)| q.min(p / a).max(p / b)).collect(), 1.0 / b)
}
