//! Mentored decoding (Tran-Thien 2023): accept as much as the target's distribution allows within a divergence.
//!
//! ```text
//! maximise Σ min(q̂, π)   over distributions π with KL(p‖π) = Σ p·ln(p/π) ≤ D
//! ```
//!
//! A concave problem. With multipliers λ of the divergence and μ of Σπ = 1, the Lagrangian's derivative in π(x) is 1 +
//! λp/π − μ below q̂(x), and λp/π − μ above it. So π(x) is λp/(μ − 1) where that is below q̂, λp/μ where that is above
//! q̂, and else q̂. With a = (μ − 1)/λ ≤ b = μ/λ that is the family of [`lossy`](super::lossy):
//!
//! ```text
//! π = max{min{q̂, p/a}, p/b}
//! ```
//!
//! Its acceptance is Σ min(q̂, p/a), less with larger a; b follows from a, as π adds up to 1: Σ max(0, q̂ − p/a) =
//! Σ max(0, p/b − q̂). At a = 1 that gives b = 1 and π = p. Where a falls, mass moves from where p/π = b to where
//! p/π = a, and KL(p‖π) rises by (b − a) times that mass. So a is the smallest that D allows.
//!
//! Two cases lie beyond. If D ≥ KL(p‖q̂), π = q̂. And tokens with p = 0, that q̂ may have after top-k, top-p or at T =
//! 0, cost no divergence by themselves: they get nothing as long as a > 0, but once a is below every other p/q̂, and D
//! still not reached, μ = 1 and a = 0. Then
//!
//! ```text
//! π = max{q̂, p/b} where p > 0, and c·q̂ where p = 0,
//! ```
//!
//! with b such that KL(p‖π) = D and c in \[0, 1\] such that π adds up to 1. (Any π ≤ q̂ with that mass on those tokens
//! is as good.)
//!
//! The bisection for a takes sums over q̂'s support only: see [`ratios`](super::ratios).

use super::{
    decision::{Decision, Interleaving},
    info::{Position, Range, RuleInfo},
    lossy::bounded,
    ratios::Ratios,
    statistic::Need,
};

/// Table row of the rule `mentored`.
pub(super) const MENTORED: RuleInfo = RuleInfo {
    name: "mentored",
    symbol: Some("D"),
    default: 0.1,
    range: Range::NotNegative,
    explanation: "As many drafts are accepted as possible while the text’s distribution is within D nats of the target’s.",
    paper: "Tran-Thien 2023, An Optimal Lossy Variant of Speculative Decoding",
    lossy: true,
    need: Need::Nothing,
    has_bonus: false,
    has_ratio: true,
    judge: mentored,
};

fn mentored(position: &Position<'_>, divergence: f64) -> Decision {
    if divergence == 0.0 {
        return Decision::Speculate(position.target());
    }
    let ratios = Ratios::of(position);
    if divergence >= ratios.divergence_from_draft() {
        return Decision::Keep;
    }
    let vain = ratios.vain();
    if vain > 0.0 {
        let b = ratios.bound_of_divergence(divergence);
        // What max{q̂, p/b} leaves of 1; below 0 where a has to be above 0.
        let spare = vain - ratios.shortfall(b);
        if spare >= 0.0 {
            let pi = position.pairs().map(|(q, p)| if p > 0.0 { q.max(p / b) } else { q * (spare / vain) });
            return Decision::Speculate(Interleaving::new(pi.collect(), 1.0 / b));
        }
    }
    let bound = |a| ratios.bound_of_shortfall(ratios.excess(a));
    // KL(p‖π) is above D at `low`, and not above it at `high`.
    let (mut low, mut high) = (ratios.smallest().unwrap_or(1.0).min(1.0), 1.0);
    loop {
        let middle = f64::sqrt(low) * f64::sqrt(high);
        if middle <= low || middle >= high {
            break;
        }
        if ratios.divergence(middle, bound(middle)) > divergence { low = middle } else { high = middle }
    }
    Decision::Speculate(bounded(position, high, bound(high)))
}
