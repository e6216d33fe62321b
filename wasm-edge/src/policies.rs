//! What one can choose to judge, pass and stop by, as plain objects: the table that the page and the package go by.
//!
//! Names, sentences, parameters and ranges are those of `outrider-speculation`; what is said only here is where gates
//! and stop rules come from and which head they need.

use std::str::FromStr;

use outrider_speculation::{
    judge::{
        rules::{self, Rule, RuleInfo},
        unscaled,
    },
    policy::{control::StopRule, gate::Heads, passing::Passing},
    session::{
        edge::Speculation,
        options::{DraftingOptions, GateName, SchemeName, StopName},
    },
};
use serde::Serialize;

/// Everything there is. The first of each kind is the default.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Policies {
    /// How drafts are judged.
    pub rules: Vec<RulePolicy>,
    /// Which tokens are committed without asking.
    pub gates: Vec<Policy>,
    /// What ends a round.
    pub stop_rules: Vec<Policy>,
    /// The schemes that send too little for any rule but the exact one.
    pub exact_schemes: Vec<&'static str>,
}

/// One of them.
#[derive(Debug, Serialize)]
pub struct Policy {
    pub name: &'static str,
    /// `None` if it has none.
    pub parameter: Option<Parameter>,
    /// One sentence.
    pub explanation: &'static str,
    /// Where it was first described.
    pub source: &'static str,
    /// Whether the text's law may differ from the target's.
    pub lossy: bool,
    /// The head that the draft model must have been given for it: `gate` or `stop`.
    pub head: Option<&'static str>,
}

/// An acceptance rule.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RulePolicy {
    #[serde(flatten)]
    pub policy: Policy,
    /// Whether a token follows a round in which all drafts stand.
    pub has_bonus: bool,
}

/// A number that comes with a name.
#[derive(Debug, Serialize)]
pub struct Parameter {
    /// The papers' letter.
    pub symbol: &'static str,
    pub default: f64,
    pub range: Range,
}

/// The values of a number.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Range {
    min: f64,
    /// Infinity if there is no bound.
    max: f64,
    integer: bool,
    /// The bound that is not allowed itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    excluded: Option<&'static str>,
}

/// Which heads a draft model has.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct HeadsInfo {
    gate: bool,
    stop: bool,
}

impl Range {
    const PROBABILITY: Self = Self { min: 0.0, max: 1.0, integer: false, excluded: None };
}

impl From<rules::Range> for Range {
    fn from(range: rules::Range) -> Self {
        let (max, excluded) = match range {
            rules::Range::UpTo(most) => (most, None),
            rules::Range::Below(bound) => (bound, Some("max")),
            rules::Range::NotNegative => (f64::INFINITY, None),
        };
        Self { min: 0.0, max, integer: false, excluded }
    }
}

impl From<&Heads> for HeadsInfo {
    fn from(heads: &Heads) -> Self {
        Self { gate: heads.gate.is_some(), stop: heads.stop.is_some() }
    }
}

impl Policies {
    pub fn all() -> Self {
        Self {
            rules: Rule::all().iter().map(rule).collect(),
            gates: named(GateName::NAMES, GateName::EXPLANATIONS, gate),
            stop_rules: named(StopName::NAMES, StopName::EXPLANATIONS, stop),
            exact_schemes: SchemeName::NAMES.iter().copied().filter(|name| is_exact_only(name)).collect(),
        }
    }
}

/// A policy for each name that a table has.
fn named<T: FromStr>(
    names: &[&'static str],
    explanations: &[&'static str],
    describe: impl Fn(&'static str, &'static str, T) -> Policy,
) -> Vec<Policy> {
    let pairs = names.iter().zip(explanations);
    pairs.filter_map(|(&name, &explanation)| Some(describe(name, explanation, name.parse().ok()?))).collect()
}

fn rule(info: &RuleInfo) -> RulePolicy {
    let parameter = info.symbol.map(|symbol| Parameter { symbol, default: info.default, range: info.range.into() });
    let policy = Policy {
        name: info.name,
        parameter,
        explanation: info.explanation,
        source: info.paper,
        lossy: info.lossy,
        head: None,
    };
    // The parameter is its row's own.
    let has_bonus = Rule::new(info.name, info.default).is_ok_and(|rule| rule.has_bonus());
    RulePolicy { policy, has_bonus }
}

/// A parameter that is a probability.
fn probability(symbol: &'static str, default: f64) -> Option<Parameter> {
    Some(Parameter { symbol, default, range: Range::PROBABILITY })
}

/// What drafting with these options comes to; the rule is the exact one, which cannot be refused.
fn speculation(options: &DraftingOptions) -> Speculation {
    options.speculation().unwrap_or_else(|_| Speculation::new(options.scheme(), options.draft_length))
}

fn gate(name: &'static str, explanation: &'static str, gate: GateName) -> Policy {
    let parameter = match speculation(&DraftingOptions { gate, ..Default::default() }).passing {
        Passing::Never => None,
        Passing::Sprinter { threshold } => probability("τ", threshold.unwrap_or(0.5)),
        Passing::TokenCascade { alpha } | Passing::SequenceCascade { alpha } => probability("α", alpha),
    };
    let source = match gate {
        GateName::None => "Leviathan et al. 2023",
        GateName::Sprinter => "Zhong et al., Algorithm 2",
        GateName::TokenCascade => "Narasimhan et al., Algorithm 2 with eq. 2",
        GateName::SequenceCascade => "Narasimhan et al., eq. 1",
    };
    let head = (gate == GateName::Sprinter).then_some("gate");
    Policy { name, parameter, explanation, source, lossy: gate != GateName::None, head }
}

fn stop(name: &'static str, explanation: &'static str, stop_rule: StopName) -> Policy {
    let parameter = match speculation(&DraftingOptions { stop_rule, ..Default::default() }).stop {
        StopRule::Fixed | StopRule::Odld => None,
        StopRule::AdaEdl { threshold, .. } => probability("λ", threshold),
        StopRule::SpecDec { threshold } => probability("h", threshold),
        StopRule::Bild { fallback } => probability("α", fallback),
    };
    let source = match stop_rule {
        StopName::Fixed => "Leviathan et al. 2023",
        StopName::Odld => "Zheng and Yang, Algorithm 1",
        StopName::AdaEdl => "Agrawal, Jeon, Lee 2024",
        StopName::SpecDec => "Huang, Guo, Wang 2024",
        StopName::Bild => "Kim et al. 2023",
    };
    let head = (stop_rule == StopName::SpecDec).then_some("stop");
    Policy { name, parameter, explanation, source, lossy: false, head }
}

/// Whether a scheme sends too little for a lossy rule; which one makes no difference.
fn is_exact_only(name: &str) -> bool {
    let lossy = Rule::all().iter().find(|info| info.lossy).and_then(|info| Rule::new(info.name, info.default).ok());
    match (name.parse(), lossy) {
        (Ok(scheme), Some(rule)) => {
            let options = DraftingOptions { scheme, ..Default::default() };
            unscaled::check(&rule, options.scheme()).is_err()
        }
        _ => false,
    }
}
