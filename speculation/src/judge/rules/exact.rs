//! The exact rule (Leviathan et al. 2023; Chen et al. 2023): π = p.

use super::{
    decision::Decision,
    info::{Position, Range, RuleInfo},
    statistic::Need,
};

/// Table row of the rule `exact`.
pub(super) const EXACT: RuleInfo = RuleInfo {
    name: "exact",
    symbol: None,
    default: 0.0,
    range: Range::UpTo(0.0),
    explanation: "The text is distributed as the target model’s own.",
    paper: "Leviathan et al. 2023; Chen et al. 2023",
    lossy: false,
    need: Need::Nothing,
    has_bonus: true,
    has_ratio: true,
    judge: exact,
};

fn exact(position: &Position<'_>, _: f64) -> Decision {
    Decision::Speculate(position.target())
}
