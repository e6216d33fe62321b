//! Speculative cascades (Narasimhan et al., Table 1, Algorithm 5): one bit δ decides whether the position is the draft
//! model's or the target's.
//!
//! ```text
//! π = (1 − δ)·q̂ + δ·p
//!
//! chow    max q < 1 − α                    chow-log    H(q) > α                          (eqs 2, 26)
//! diff    max q < max p − α                diff-log    H(p) < H(q) − α                   (eqs 5, 27)
//! opt     max q < max p − α·TV(p, q̂)       opt-log     H(p) < H(q) − α·TV(p, q̂)          (eqs 10, 28)
//! ```
//!
//! Below 0 α draws the last four and oracle-diff to the target. At −1 diff defers everywhere: the right end of Figure
//! 2. Chow's rules have that end at 0.
//!
//! How sure the models are is measured unscaled, but what a rejection costs, TV, after S(·) (App. C.1). A draft is
//! rejected with probability δ·TV(p, q̂) (Lemma 3).
//!
//! oracle-diff is diff without the draw (Algorithm 3): where δ = 1 the draft is rejected for certain. The distribution
//! is the same, but a rejected draft may be replaced by the same token. It bounds what a rule could gain that asks the
//! large model only where that pays.

use super::{
    decision::Decision,
    info::{Position, Range, RuleInfo},
    statistic::Need,
};

const PAPER: &str = "Narasimhan et al., Faster Cascades via Speculative Decoding";

/// Table row of the rule `chow`.
pub(super) const CHOW: RuleInfo = RuleInfo {
    name: "chow",
    symbol: Some("α"),
    default: 0.3,
    range: Range::UpTo(1.0),
    explanation: "Draft where the draft model is sure: its most likely token has at least 1 − α.",
    paper: PAPER,
    lossy: true,
    need: Need::Peak,
    has_bonus: false,
    has_ratio: true,
    judge: |position, alpha| defer(position, position.scalar(Need::Peak) < 1.0 - alpha),
};

/// Table row of the rule `chow-log`.
pub(super) const CHOW_LOG: RuleInfo = RuleInfo {
    name: "chow-log",
    default: 1.0,
    range: Range::NotNegative,
    explanation: "Draft where the draft model is sure: its entropy is at most α nats.",
    need: Need::Entropy,
    judge: |position, alpha| defer(position, position.scalar(Need::Entropy) > alpha),
    ..CHOW
};

/// Table row of the rule `diff`.
pub(super) const DIFF: RuleInfo = RuleInfo {
    name: "diff",
    default: 0.1,
    range: Range::Within(1.0),
    explanation: "Draft unless the target is surer: its most likely token has over α more than the draft model's.",
    judge: |position, alpha| defer(position, diff(position, alpha)),
    ..CHOW
};

/// Table row of the rule `diff-log`.
pub(super) const DIFF_LOG: RuleInfo = RuleInfo {
    name: "diff-log",
    default: 0.3,
    range: Range::Any,
    explanation: "Draft unless the target is surer: its entropy is over α nats below the draft model's.",
    judge: |position, alpha| defer(position, diff_log(position, alpha)),
    ..CHOW_LOG
};

/// Table row of the rule `opt`.
pub(super) const OPT: RuleInfo = RuleInfo {
    name: "opt",
    default: 0.3,
    range: Range::Any,
    explanation: "As diff, with α times the chance of a rejection: the best trade of quality for rejections.",
    judge: |position, alpha| defer(position, diff(position, alpha * rejection(position))),
    ..CHOW
};

/// Table row of the rule `opt-log`.
pub(super) const OPT_LOG: RuleInfo = RuleInfo {
    name: "opt-log",
    default: 0.5,
    range: Range::Any,
    explanation: "As diff-log, with α times the chance of a rejection: the best trade of log-loss for rejections.",
    judge: |position, alpha| defer(position, diff_log(position, alpha * rejection(position))),
    ..CHOW_LOG
};

/// Table row of the rule `oracle-diff`.
pub(super) const ORACLE_DIFF: RuleInfo = RuleInfo {
    name: "oracle-diff",
    explanation: "As diff, but drafts where the target is surer are always rejected: the oracle of sequential \
                  cascades.",
    has_ratio: false,
    judge: |position, alpha| if diff(position, alpha) { Decision::Replace } else { Decision::Keep },
    ..DIFF
};

/// π = p where `deferred`, else q̂. The δ of [`bild`](super::bild) is applied here as well.
pub(super) fn defer(position: &Position<'_>, deferred: bool) -> Decision {
    if deferred { Decision::Speculate(position.target()) } else { Decision::Keep }
}

/// max q < max p − cost.
fn diff(position: &Position<'_>, cost: f64) -> bool {
    position.scalar(Need::Peak) < position.p.unscaled().peak() - cost
}

/// The condition H(p) < H(q) − cost, in nats.
fn diff_log(position: &Position<'_>, cost: f64) -> bool {
    position.p.unscaled().entropy() < position.scalar(Need::Entropy) - cost
}

/// TV(p, q̂) after S(·), the probability that a deferred draft is rejected. Both add up to 1, so that q̂'s support
/// determines it.
fn rejection(position: &Position<'_>) -> f64 {
    position.pairs().map(|(q, p)| (q - p).max(0.0)).sum()
}
