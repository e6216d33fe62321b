//! Rules of a program's own, under names and numbers that only this process knows.
//!
//! An own rule gives r(v), the share in which the target takes the place of the draft at token v. Its distribution is
//! that of token-specific speculative cascades (Narasimhan et al., eq. 11), which adds up to 1 whatever r is:
//!
//! ```text
//! π(v) = q̂(v)·(1 − r(v)) + p(v)·η,   η = Σ r·q̂,   0 ≤ r(v) ≤ 1
//! ```
//!
//! r = 0 keeps the draft model's text, r = 1 is the exact rule's π, and an r that is the same for all tokens is the
//! mixture (1 − r)·q̂ + r·p of speculative cascades (eq. 7).

use std::sync::OnceLock;

use super::{
    decision::Decision,
    info::{Position, Range, RuleInfo},
    statistic::Need,
    token,
};

/// Number on the wire of the first own rule.
const FIRST: u8 = 0x30;
/// Largest number of own rules.
pub const MOST_OWN_RULES: usize = 16;

/// Function from a position and the rule's parameter to r of each token of q̂'s support, by ascending id.
pub type Deferral = Box<dyn Fn(&Position<'_>, f64) -> Vec<f64> + Send + Sync>;

/// A rule of a program's own.
#[expect(missing_debug_implementations, reason = "a function has nothing to print")]
pub struct OwnRule {
    /// The description of the rule, which begins as [`RuleInfo::own`].
    pub info: RuleInfo,
    /// The function that gives r; values are bounded to \[0, 1\], and NaN counts as 1.
    pub defer: Deferral,
}

impl RuleInfo {
    /// Description of a rule of a program's own without a parameter.
    pub fn own(name: &'static str) -> Self {
        Self {
            name,
            symbol: None,
            default: 0.0,
            range: Range::Any,
            explanation: "A rule of one's own.",
            paper: "one's own",
            lossy: true,
            need: Need::Nothing,
            has_bonus: false,
            has_ratio: true,
            judge: |_, _| Decision::Replace,
        }
    }
}

static OWN: OnceLock<Vec<OwnRule>> = OnceLock::new();

/// Error of rules of a program's own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnRuleError {
    /// Another rule has the name.
    #[error("there is an acceptance rule {name:?} already: choose another name")]
    Taken {
        /// The name that is taken.
        name: String,
    },
    /// There are too many rules.
    #[error("{found} acceptance rules are too many; the limit is {MOST_OWN_RULES}")]
    TooMany {
        /// The number of rules.
        found: usize,
    },
    /// Rules were registered before.
    #[error("acceptance rules can be registered once only")]
    Registered,
}

/// Registers rules for this process, once. `is_built_in` knows the names that are taken.
pub(super) fn register(rules: Vec<OwnRule>, is_built_in: impl Fn(&str) -> bool) -> Result<(), OwnRuleError> {
    if rules.len() > MOST_OWN_RULES {
        return Err(OwnRuleError::TooMany { found: rules.len() });
    }
    for (index, OwnRule { info, .. }) in rules.iter().enumerate() {
        if is_built_in(info.name) || rules[..index].iter().any(|other| other.info.name == info.name) {
            return Err(OwnRuleError::Taken { name: info.name.to_owned() });
        }
    }
    OWN.set(rules).map_err(|_| OwnRuleError::Registered)
}

/// Own rules, in the order of their numbers.
pub(super) fn all() -> impl Iterator<Item = (u8, &'static RuleInfo)> {
    (FIRST..).zip(OWN.get().into_iter().flatten().map(|own| &own.info))
}

/// The own rule of this number.
fn find(number: u8) -> Option<&'static OwnRule> {
    OWN.get()?.get(usize::from(number.checked_sub(FIRST)?))
}

/// Row of the own rule of this number.
pub(super) fn info(number: u8) -> Option<&'static RuleInfo> {
    find(number).map(|own| &own.info)
}

/// Decision of the own rule of this number; `None` if there is none.
pub(super) fn judge(number: u8, position: &Position<'_>, parameter: f64) -> Option<Decision> {
    let deferred = (find(number)?.defer)(position, parameter);
    let bounded = deferred.into_iter().map(|r| if r.is_nan() { 1.0 } else { r.clamp(0.0, 1.0) });
    Some(token::interleave(position, bounded))
}
