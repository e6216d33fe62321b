//! Acceptance rules: what happens at one drafted position.
//!
//! All rules are one mechanism (Narasimhan et al., "Faster Cascades via Speculative Decoding", Algorithm 4). From the
//! draft distribution q̂ and the target's p = S(target) a rule makes a third distribution π. The draft x is accepted
//! with probability min(1, π(x)/q̂(x)); after a rejection the token is drawn from norm(max(0, π − q̂)). If π adds up to
//! 1 then the committed token is distributed as π:
//!
//! ```text
//! P(y) = q̂(y)·min(1, π(y)/q̂(y)) + P(reject)·max(0, π(y) − q̂(y))/P(reject)
//!      = min(q̂, π)(y) + max(0, π − q̂)(y) = π(y)
//! ```
//!
//! π = p is the exact rule. The others keep more of the draft model's text and promise their own π, no more. Two rules
//! (bild, oracle-diff) take no draw: the draft is accepted for certain or rejected for certain, and p takes its place.
//! Their distribution is π too, but they reject more often.
//!
//! | module | rules | π |
//! |---|---|---|
//! | `exact` | exact | p |
//! | `lossy` | lossy, lossy-tuned | max{min{q̂, p/(1 − α)}, p/β} |
//! | `cascade` | chow, diff, opt, each with its -log, oracle-diff | q̂ or p, by how sure both models are |
//! | `token` | token-v1 to token-v3 | q̂(v)(1 − r(v)) + p(v)·Σ r·q̂ |
//! | `bild` | bild-star, bild | q̂ or p, by how far apart they are |
//! | `mentored` | mentored | the one that accepts most while KL(p‖π) ≤ D |
//!
//! A rule is one function and one line in the table. It gives π by its weights on the support of q̂ alone, since
//! elsewhere every rule's π is a multiple of p: so none needs more of the vocabulary than one pass over the target's
//! logits or over p.
//!
//! Rules that ask how sure a model is ask the *unscaled* model, softmax of its logits at T = 1, and apply the answer to
//! S(·) of both (App. C.1). The target's logits are at hand; of the draft model a [`Statistic`] travels with q̂.

mod bild;
mod cascade;
mod decision;
mod exact;
mod info;
mod lossy;
mod mentored;
mod own;
mod ratios;
mod statistic;
mod token;

#[cfg(test)]
mod tests;

pub(crate) use decision::Decision;
pub use info::{Position, Range, RuleInfo};
pub use own::{Deferral, MOST_OWN_RULES, OwnRule, OwnRuleError};
pub use statistic::{Need, Statistic};

/// The rules, in the order of their numbers on the wire. New ones go to the end.
static TABLE: [RuleInfo; 16] = [
    exact::EXACT,
    lossy::LOSSY,
    lossy::LOSSY_TUNED,
    cascade::CHOW,
    cascade::CHOW_LOG,
    cascade::DIFF,
    cascade::DIFF_LOG,
    cascade::OPT,
    cascade::OPT_LOG,
    token::TOKEN_V1,
    token::TOKEN_V2,
    token::TOKEN_V3,
    bild::BILD_STAR,
    bild::BILD,
    mentored::MENTORED,
    cascade::ORACLE_DIFF,
];

/// Error of a rule's name, number or parameter.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// No rule has this name.
    #[error("unknown acceptance rule {name:?}; the rules are {}", names())]
    Name {
        /// The name that was given.
        name: String,
    },
    /// No rule has this number on the wire.
    #[error("there is no acceptance rule number {number}; the largest is {}", TABLE.len() - 1)]
    Number {
        /// The number that was received.
        number: u8,
    },
    /// The parameter is not in the rule's range, at the precision of f32 in which it travels.
    #[error("{symbol} of the acceptance rule {rule} must be in {range}, not {value}")]
    Parameter {
        /// The name of the acceptance rule.
        rule: &'static str,
        /// The parameter's symbol.
        symbol: &'static str,
        /// The range of the parameter.
        range: Range,
        /// The value that was given.
        value: f64,
    },
}

fn names() -> String {
    Rule::known().map(|info| info.name).collect::<Vec<_>>().join(", ")
}

/// Row of the rule with this number.
fn row(number: u8) -> Option<&'static RuleInfo> {
    TABLE.get(usize::from(number)).or_else(|| own::info(number))
}

/// All rules that this process knows, with their numbers.
fn numbered() -> impl Iterator<Item = (u8, &'static RuleInfo)> {
    (0..).zip(&TABLE).chain(own::all())
}

/// A rule with its parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// The row of the rule in the table.
    number: u8,
    /// The parameter, in the row's range.
    parameter: f32,
}

impl Rule {
    /// The target's own distribution. Others may be exact at some parameter, but do not promise it.
    pub const EXACT: Self = Self { number: 0, parameter: 0.0 };

    /// The rule that users call `name`. The parameter is rounded to f32, in which it travels.
    ///
    /// # Errors
    /// If there is no such rule, or the parameter is out of its range once it is rounded.
    pub fn new(name: &str, parameter: f64) -> Result<Self, RuleError> {
        match numbered().find(|(_, info)| info.name == name) {
            Some((number, _)) => Self::from_row(number, parameter as f32, parameter),
            None => Err(RuleError::Name { name: name.to_owned() }),
        }
    }

    /// The rule as it travels.
    ///
    /// # Errors
    /// If there is no such rule, or the parameter is out of its range.
    pub fn from_wire(number: u8, parameter: f32) -> Result<Self, RuleError> {
        if row(number).is_none() {
            return Err(RuleError::Number { number });
        }
        Self::from_row(number, parameter, f64::from(parameter))
    }

    fn from_row(number: u8, parameter: f32, value: f64) -> Result<Self, RuleError> {
        // There is no −0 on the wire.
        let rule = Self { number, parameter: parameter + 0.0 };
        let &RuleInfo { name, symbol, range, .. } = rule.info();
        if !range.contains(rule.parameter()) {
            return Err(RuleError::Parameter { rule: name, symbol: symbol.unwrap_or("the parameter"), range, value });
        }
        Ok(rule)
    }

    /// The rule's number on the wire.
    pub(crate) fn number(&self) -> u8 {
        self.number
    }

    /// The rule's parameter; an f32, in which it travels.
    pub fn parameter(&self) -> f64 {
        f64::from(self.parameter)
    }

    /// The row of the rule in the table.
    pub fn info(&self) -> &'static RuleInfo {
        row(self.number).unwrap_or(&TABLE[0])
    }

    /// The table: index is number on the wire.
    pub fn all() -> &'static [RuleInfo] {
        &TABLE
    }

    /// Registers rules of this process's own, once and before any session. Their numbers on the wire are from 30 (hex)
    /// on, so both ends of a session need the same ones.
    ///
    /// # Errors
    /// If there are too many, rules were registered before, or a name is taken.
    pub fn register(rules: Vec<OwnRule>) -> Result<(), OwnRuleError> {
        own::register(rules, |name| TABLE.iter().any(|info| info.name == name))
    }

    /// The table, and the rules that this process has [registered](Self::register).
    pub fn known() -> impl Iterator<Item = &'static RuleInfo> {
        numbered().map(|(_, info)| info)
    }

    /// Consequences of the rule at a position, for each token of the vocabulary: the probability that it is drafted and
    /// accepted, and the probability that it takes the place of a rejected draft. All of them add up to 1.
    pub fn consequences(&self, position: &Position<'_>) -> [Vec<f64>; 2] {
        self.judge(position).consequences(position.q, &position.p.dense())
    }

    /// Decides on a drafted position: to keep, to draw or to replace.
    ///
    /// # Panics
    /// If the position's statistic is there, but is not what the rule needs.
    pub(crate) fn judge(&self, position: &Position<'_>) -> Decision {
        own::judge(self.number, position, self.parameter())
            .unwrap_or_else(|| (self.info().judge)(position, self.parameter()))
    }
}
