//! The parts of every rule: a row of the table, and a function of the position.

use std::borrow::Cow;

use outrider_codec::{distribution::DraftDist, frame::SamplingParameters};

use super::{
    decision::{Decision, Interleaving, probabilities},
    statistic::{Need, Statistic},
};
use crate::sample::Distribution;

/// The values that a rule's parameter may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Range {
    /// Numbers in \[0, most\].
    UpTo(f64),
    /// Numbers in \[0, bound).
    Below(f64),
    /// Non-negative numbers, \[0, ∞).
    NotNegative,
    /// Numbers in \[−most, most\].
    Within(f64),
    /// Any finite number, (−∞, ∞).
    Any,
}

impl Range {
    /// True if `value` is in the range.
    pub(crate) fn contains(&self, value: f64) -> bool {
        match *self {
            Self::UpTo(most) => (0.0..=most).contains(&value),
            Self::Below(bound) => (0.0..bound).contains(&value),
            Self::NotNegative => (0.0..f64::INFINITY).contains(&value),
            Self::Within(most) => value.abs() <= most,
            Self::Any => value.is_finite(),
        }
    }
}

impl core::fmt::Display for Range {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::UpTo(most) => write!(f, "[0, {most}]"),
            Self::Below(bound) => write!(f, "[0, {bound})"),
            Self::NotNegative => write!(f, "[0, ∞)"),
            Self::Within(most) => write!(f, "[-{most}, {most}]"),
            Self::Any => write!(f, "(-∞, ∞)"),
        }
    }
}

/// A row of the table: the description of a rule for users, and its function.
#[derive(Debug)]
pub struct RuleInfo {
    /// The name that users write.
    pub name: &'static str,
    /// The parameter's symbol in the paper; `None` if the rule has no parameter, which is then 0.
    pub symbol: Option<&'static str>,
    /// A parameter to start with. Taken by us, not by the papers: they sweep it.
    pub default: f64,
    /// The range of the parameter.
    pub range: Range,
    /// One sentence that explains it to users.
    pub explanation: &'static str,
    /// The paper that the rule is from.
    pub paper: &'static str,
    /// True if the text's distribution may differ from the target's.
    pub lossy: bool,
    /// The part of the draft model's unscaled distribution that it needs, the same at all temperatures.
    pub need: Need,
    /// True if a token drawn from p follows a round whose drafts are all accepted, as with exact and bild. The bonus
    /// token of the other rules is distributed as π, which needs q̂ there: it is the round's last draft, and nothing
    /// follows.
    pub has_bonus: bool,
    /// True if drafts are accepted by the ratio π/q̂, and not for certain or never, as with bild and oracle-diff.
    pub has_ratio: bool,
    /// The rule itself, of the position and its parameter.
    pub(super) judge: fn(&Position<'_>, f64) -> Decision,
}

/// Everything that is known at a drafted position.
#[derive(Debug, Clone, Copy)]
pub struct Position<'a> {
    /// q̂, whose ids are all below V.
    pub q: &'a DraftDist,
    /// The statistic of the unscaled q that the rule needs. [`Statistic::Nothing`] where S(·) changes nothing (T = 1,
    /// top-k 0, top-p 1): it is then worked out from q̂.
    pub statistic: &'a Statistic,
    /// p = S(target), the target's distribution.
    pub p: &'a Distribution<'a>,
    /// The parameters of S(·).
    pub sampling: &'a SamplingParameters,
}

impl Position<'_> {
    /// (q̂(x), p(x)) of each token of q̂'s support, by ascending id.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (f64, f64)> {
        probabilities(self.q).zip(self.q.ids().iter().map(|&id| self.p.probability(id)))
    }

    /// The number max q or H(q), whichever `need` names.
    pub(super) fn scalar(&self, need: Need) -> f64 {
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
    pub(super) fn support(&self) -> Cow<'_, [f64]> {
        match self.statistic {
            Statistic::Nothing => probabilities(self.q).collect(),
            Statistic::Support(q) if q.len() == self.q.ids().len() => Cow::Borrowed(q),
            other => panic!("the rule needs q of {} tokens, not {other:?}", self.q.ids().len()),
        }
    }

    /// Unscaled q of each token of which it is known, by ascending id.
    pub(super) fn known(&self) -> Vec<(u32, f64)> {
        match self.statistic {
            Statistic::Whole(q) => (0..).zip(q.iter().copied()).collect(),
            _ => self.q.ids().iter().copied().zip(self.support().iter().copied()).collect(),
        }
    }

    /// π = p, the target's distribution.
    pub(super) fn target(&self) -> Interleaving {
        Interleaving::new(self.pairs().map(|(_, p)| p).collect(), 1.0)
    }
}
