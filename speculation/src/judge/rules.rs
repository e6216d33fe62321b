//! Acceptance rules: what happens at one drafted position.
//!
//! All rules are one mechanism (Narasimhan et al., "Faster Cascades via Speculative Decoding", Algorithm 4). From the
//! draft distribution q̂ and the target's p = S(target) a rule makes a third distribution π. The draft x stands with
//! probability min(1, π(x)/q̂(x)); where it falls, the token is drawn from norm(max(0, π − q̂)). If π adds up to 1 then
//! the committed token has law π:
//!
//! ```text
//! P(y) = q̂(y)·min(1, π(y)/q̂(y)) + P(reject)·max(0, π(y) − q̂(y))/P(reject) = min(q̂, π)(y) + max(0, π − q̂)(y) = π(y)
//! ```
//!
//! π = p is the exact rule. The others keep more of the draft model's text and promise their own π, no more. Two rules
//! (bild, oracle-diff) do not flip a coin: the draft stands for certain or falls for certain, and p takes its place. Their
//! law is π too, but they reject more often.
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
//! Rules that ask how sure a model is ask the *unscaled* model, softmax of its logits at T = 1, and apply the answer to S(·)
//! of both (App. C.1). The target's logits are at hand; of the draft model a [`Statistic`] travels with q̂.

mod bild;
mod cascade;
mod decision;
mod exact;
mod lossy;
mod mentored;
mod ratios;
mod statistic;
mod token;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use outrider_codec::{distribution::DraftDist, frame::SamplingParameters};

use crate::sample::Distribution;

pub use decision::{Decision, Interleaving};
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

/// Why there is no such rule.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RuleError {
    /// No rule has this name.
    #[error("there is no acceptance rule {name:?}; there are {}", names())]
    Name {
        /// As it was given.
        name: String,
    },
    /// No rule has this number on the wire.
    #[error("there is no acceptance rule number {number}; the largest is {}", TABLE.len() - 1)]
    Number {
        /// As it was received.
        number: u8,
    },
    /// The parameter is not in the rule's range, at the precision of f32 in which it travels.
    #[error("{symbol} of the acceptance rule {rule} is in {range}, not {value}")]
    Parameter {
        /// The rule's name.
        rule: &'static str,
        /// The parameter's symbol.
        symbol: &'static str,
        /// What is allowed.
        range: Range,
        /// As it was given.
        value: f64,
    },
}

fn names() -> String {
    TABLE.iter().map(|info| info.name).collect::<Vec<_>>().join(", ")
}

/// The values that a rule's parameter may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Range {
    /// \[0, most\].
    UpTo(f64),
    /// \[0, bound).
    Below(f64),
    /// \[0, ∞).
    NotNegative,
}

impl Range {
    /// Whether `value` is one of them.
    pub fn contains(&self, value: f64) -> bool {
        match *self {
            Self::UpTo(most) => (0.0..=most).contains(&value),
            Self::Below(bound) => (0.0..bound).contains(&value),
            Self::NotNegative => (0.0..f64::INFINITY).contains(&value),
        }
    }
}

impl core::fmt::Display for Range {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::UpTo(most) => write!(f, "[0, {most}]"),
            Self::Below(bound) => write!(f, "[0, {bound})"),
            Self::NotNegative => write!(f, "[0, ∞)"),
        }
    }
}

/// A row of the table: what users are told of a rule, and what it does.
#[derive(Debug)]
pub struct RuleInfo {
    /// As users say it.
    pub name: &'static str,
    /// Its parameter's symbol in the paper; `None` if it has no parameter, which is then 0.
    pub symbol: Option<&'static str>,
    /// A parameter to start with. Taken by us, not by the papers: they sweep it.
    pub default: f64,
    /// What the parameter may be.
    pub range: Range,
    /// One sentence.
    pub explanation: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// Whether the text's law may differ from the target's.
    pub lossy: bool,
    /// What it needs of the draft model's unscaled distribution.
    need: Need,
    /// Whether the token after a round in which all drafts stand is drawn from p.
    has_bonus: bool,
    /// The rule itself, of the position and its parameter.
    judge: fn(&Position<'_>, f64) -> Decision,
}

/// A rule with its parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// Its row of the table.
    number: u8,
    /// In the row's range.
    parameter: f32,
}

impl Rule {
    /// The target's own law.
    pub const EXACT: Self = Self { number: 0, parameter: 0.0 };

    /// The rule that users call `name`. The parameter is rounded to f32, in which it travels.
    ///
    /// # Errors
    /// If there is no such rule, or the parameter is out of its range once it is rounded.
    pub fn new(name: &str, parameter: f64) -> Result<Self, RuleError> {
        match TABLE.iter().position(|info| info.name == name) {
            Some(number) => Self::from_row(number as u8, parameter as f32, parameter),
            None => Err(RuleError::Name { name: name.to_owned() }),
        }
    }

    /// The rule as it travels.
    ///
    /// # Errors
    /// If there is no such rule, or the parameter is out of its range.
    pub fn from_wire(number: u8, parameter: f32) -> Result<Self, RuleError> {
        if usize::from(number) >= TABLE.len() {
            return Err(RuleError::Number { number });
        }
        Self::from_row(number, parameter, f64::from(parameter))
    }

    fn from_row(number: u8, parameter: f32, value: f64) -> Result<Self, RuleError> {
        let rule = Self { number, parameter };
        let &RuleInfo { name, symbol, range, .. } = rule.info();
        if !range.contains(rule.parameter()) {
            return Err(RuleError::Parameter { rule: name, symbol: symbol.unwrap_or("the parameter"), range, value });
        }
        Ok(rule)
    }

    /// Its number on the wire.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Its parameter; an f32, in which it travels.
    pub fn parameter(&self) -> f64 {
        f64::from(self.parameter)
    }

    /// As users say it.
    pub fn name(&self) -> &'static str {
        self.info().name
    }

    /// Its row of the table.
    pub fn info(&self) -> &'static RuleInfo {
        &TABLE[usize::from(self.number)]
    }

    /// The table: index is number on the wire.
    pub fn all() -> &'static [RuleInfo] {
        &TABLE
    }

    /// Whether this is the exact rule. Others may be exact at some parameter, but do not promise it.
    pub fn is_exact(&self) -> bool {
        self.number == Self::EXACT.number
    }

    /// What it needs of the draft model's unscaled distribution. The same at all temperatures.
    pub fn need(&self) -> Need {
        self.info().need
    }

    /// Whether a token follows a round in which all drafts stand: drawn from p, as exact and bild have it. The other
    /// rules' next token has law π, which needs a q̂ that was not sent, so nothing follows.
    pub fn has_bonus(&self) -> bool {
        self.info().has_bonus
    }

    /// What happens at a drafted position.
    ///
    /// # Panics
    /// If the position's statistic is there, but is not what the rule [needs](Self::need).
    pub fn judge(&self, position: &Position<'_>) -> Decision {
        (self.info().judge)(position, self.parameter())
    }
}

/// All that is known at a drafted position.
#[derive(Debug, Clone, Copy)]
pub struct Position<'a> {
    /// q̂, whose ids are all below V.
    pub q: &'a DraftDist,
    /// What the rule needs of the unscaled q. [`Statistic::Nothing`] where S(·) changes nothing (T = 1, top-k 0, top-p 1):
    /// it is then worked out from q̂.
    pub statistic: &'a Statistic,
    /// p = S(target).
    pub p: &'a Distribution<'a>,
    /// The parameters of S(·).
    pub sampling: &'a SamplingParameters,
}

impl Position<'_> {
    /// (q̂(x), p(x)) of each token of q̂'s support, by ascending id.
    fn pairs(&self) -> impl Iterator<Item = (f64, f64)> {
        decision::probabilities(self.q).zip(self.q.ids().iter().map(|&id| self.p.probability(id)))
    }

    /// max q or H(q), whichever `need` names.
    fn scalar(&self, need: Need) -> f64 {
        let known = match self.statistic {
            Statistic::Nothing => &need.of_dist(self.q),
            known => known,
        };
        match *known {
            Statistic::Scalar(value) => value,
            ref other => panic!("the rule needs {need:?}, not {other:?}"),
        }
    }

    /// Unscaled q of each token of q̂'s support, by ascending id.
    fn support(&self) -> Cow<'_, [f64]> {
        match self.statistic {
            Statistic::Nothing => decision::probabilities(self.q).collect(),
            Statistic::Support(q) if q.len() == self.q.ids().len() => Cow::Borrowed(q),
            other => panic!("the rule needs q of {} tokens, not {other:?}", self.q.ids().len()),
        }
    }

    /// π = p.
    fn target(&self) -> Interleaving {
        Interleaving::new(self.pairs().map(|(_, p)| p).collect(), 1.0)
    }
}
