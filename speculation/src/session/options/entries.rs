//! The options that are names: the table of each kind in one form, for command line, page, package and docs.

use outrider_codec::{
    choice::Choice,
    scheme::{Code, Description, DownlinkName, Sends},
};

use super::{
    choice::SchemeChoice,
    numbers::{Bounds, Group},
};
use crate::{
    control::{ahead::Goal, policy_info::PolicyInfo, stop::StopName},
    draft::gate::GateName,
    judge::{
        Verification,
        rules::{Range, Rule},
    },
};

/// An option that is a name.
#[derive(Debug)]
pub struct NameInfo {
    /// The name in options, JSON and addresses.
    pub name: &'static str,
    /// The name that people read.
    pub label: &'static str,
    /// A phrase that says what it decides.
    pub explanation: &'static str,
    /// Start of a sentence on the chosen entry; empty if entries have sentences of their own.
    pub lead: &'static str,
    /// The option that is the entry's parameter, with a label; `None` if entries have none.
    pub parameter: Option<(&'static str, &'static str)>,
    /// The part of the page that it stands in.
    pub group: Group,
    /// Function that gives the entries.
    pub entries: fn() -> Vec<Entry>,
    /// The entry if none is given.
    pub default: &'static str,
}

/// An entry of such a table. What a table does not say is empty, `false` or `None`.
#[derive(Debug, Clone, Default)]
pub struct Entry {
    /// The name that users write.
    pub name: &'static str,
    /// The name that people read.
    pub label: &'static str,
    /// One sentence, which follows the lead where there is one.
    pub explanation: &'static str,
    /// The paper or project that first described it.
    pub source: &'static str,
    /// The options that it reads, of those that not all entries read.
    pub options: &'static [&'static str],
    /// The number that comes with it.
    pub parameter: Option<Parameter>,
    /// True if the text may be distributed otherwise than the target's.
    pub lossy: bool,
    /// The head that it needs: `gate` or `stop`.
    pub head: Option<&'static str>,
    /// True if a token follows a round whose drafts are all accepted.
    pub has_bonus: bool,
    /// True if any rule can judge what is sent; otherwise only the exact one can.
    pub sends_distributions: bool,
}

/// The number that comes with an entry.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// The letter in the papers.
    pub symbol: &'static str,
    /// The value if none is given.
    pub default: f64,
    /// The values that are allowed.
    pub bounds: Bounds,
}

/// All options whose value is a name.
pub const NAMES: &[&NameInfo] = &[
    &NameInfo {
        name: "scheme",
        label: "Scheme",
        explanation: "Data sent for each drafted token",
        lead: "Per token:",
        parameter: None,
        group: Group::Drafting,
        entries: || SchemeChoice::ALL.iter().map(|choice| scheme(*choice)).collect(),
        default: "auto",
    },
    &NameInfo {
        name: "code",
        label: "Code",
        explanation: "Code of distributions on a lattice",
        lead: "Written as:",
        parameter: None,
        group: Group::Drafting,
        entries: || Code::ALL.iter().map(|name| described(name.info())).collect(),
        default: "enumerative",
    },
    &NameInfo {
        name: "downlink",
        label: "After a rejection",
        explanation: "Data that the server sends after a rejection",
        lead: "Coming down:",
        parameter: None,
        group: Group::Drafting,
        entries: || DownlinkName::ALL.iter().map(|name| described(name.info())).collect(),
        default: "sampled",
    },
    &NameInfo {
        name: "rule",
        label: "Acceptance rule",
        explanation: "Acceptance rule by which the server judges drafts",
        lead: "",
        parameter: Some(("ruleParameter", "Parameter")),
        group: Group::Verification,
        entries: || Rule::known().map(rule).collect(),
        default: "exact",
    },
    &NameInfo {
        name: "gate",
        label: "Gate",
        explanation: "Gate that commits tokens without asking the server",
        lead: "",
        parameter: Some(("gateThreshold", "Threshold")),
        group: Group::Verification,
        entries: || GateName::ALL.iter().map(|name| policy(name.info())).collect(),
        default: "none",
    },
    &NameInfo {
        name: "stopRule",
        label: "Stop rule",
        explanation: "Stop rule that ends a round",
        lead: "",
        parameter: Some(("stopThreshold", "Threshold")),
        group: Group::Rounds,
        entries: || StopName::ALL.iter().map(|name| policy(name.info())).collect(),
        default: "fixed",
    },
    &NameInfo {
        name: "goal",
        label: "Ahead for",
        explanation: "Goal of drafting ahead",
        lead: "Aims at:",
        parameter: None,
        group: Group::Drafting,
        entries: || Goal::ALL.iter().map(|name| described(name.info())).collect(),
        default: "speed",
    },
    &NameInfo {
        name: "verification",
        label: "Verification",
        explanation: "Choice of the accepted drafts of a round",
        lead: "Accepted are:",
        parameter: None,
        group: Group::Verification,
        entries: || Verification::ALL.iter().map(|name| described(name.info())).collect(),
        default: "block",
    },
];

fn scheme(choice: SchemeChoice) -> Entry {
    let info = match choice {
        SchemeChoice::Auto => {
            return Entry {
                name: "auto",
                label: "Automatic",
                explanation: "ahead where the text must be the target's own and the server takes guesses, else k-sqs.",
                source: "Outrider",
                // Options of K-SQS, and the goal of drafting ahead.
                options: &["code", "supportSize", "latticeResolution", "bitBudget", "goal", "verification"],
                sends_distributions: true,
                ..Default::default()
            };
        }
        SchemeChoice::Ahead => {
            return Entry {
                name: "ahead",
                label: "Ahead",
                explanation: "the token alone, as a guess; the server goes on writing, and neither end waits.",
                source: "Outrider",
                options: &["groupSize", "patience", "lead", "candidates", "goal"],
                ..Default::default()
            };
        }
        SchemeChoice::Rounds(name) => name.info(),
    };
    Entry {
        name: info.name,
        label: info.label,
        explanation: info.travels,
        source: info.source,
        options: info.options,
        sends_distributions: info.sends == Sends::Distributions,
        ..Default::default()
    }
}

fn described(info: &Description) -> Entry {
    let &Description { name, label, travels: explanation, source, options } = info;
    Entry { name, label, explanation, source, options, ..Default::default() }
}

fn rule(info: &'static crate::judge::rules::RuleInfo) -> Entry {
    let bounds = info.range.into();
    Entry {
        name: info.name,
        label: info.name,
        explanation: info.explanation,
        source: info.paper,
        parameter: info.symbol.map(|symbol| Parameter { symbol, default: info.default, bounds }),
        lossy: info.lossy,
        has_bonus: info.has_bonus,
        ..Default::default()
    }
}

fn policy<T>(info: &PolicyInfo<T>) -> Entry {
    let bounds = Range::UpTo(1.0).into();
    Entry {
        name: info.name,
        label: info.name,
        explanation: info.explanation,
        source: info.source,
        options: info.options,
        parameter: info.threshold.map(|(symbol, default)| Parameter { symbol, default, bounds }),
        lossy: info.lossy,
        head: info.head,
        ..Default::default()
    }
}

impl From<Range> for Bounds {
    fn from(range: Range) -> Self {
        let (min, max, below_max) = match range {
            Range::UpTo(most) => (0.0, most, false),
            Range::Below(bound) => (0.0, bound, true),
            Range::NotNegative => (0.0, f64::INFINITY, false),
            Range::Within(most) => (-most, most, false),
            Range::Any => (-f64::INFINITY, f64::INFINITY, false),
        };
        Self { min, max, integer: false, below_max }
    }
}
