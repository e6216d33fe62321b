//! What `cargo xtask bench rules` runs: each rule over the useful range of its parameter, and what it is compared with.

use outrider_codec::frame::SamplingParameters;
use outrider_speculation::{
    judge::rules::{Rule, RuleError},
    session::{
        edge::{Mode, Speculation},
        options::{DraftingOptions, GateName, SchemeName, StopName},
    },
};

use outrider_papers::reproduce::sessions::DEFAULT_SAMPLING;

/// Names and values of S(·).
pub const SAMPLINGS: [(&str, SamplingParameters); 2] = [
    ("T = 1", SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 }),
    ("T = 0.7, top-p 0.95", DEFAULT_SAMPLING),
];

pub const EXACT: &str = "exact";
pub const DRAFT_ALONE: &str = "draft alone";
pub const TARGET_ALONE: &str = "target alone";
pub const TOKEN_CASCADE: &str = "token-cascade";
pub const SEQUENCE_CASCADE: &str = "sequence-cascade";

/// Values of α or D, from nearly the exact rule's text to nearly the draft model's. From pilot runs on this pair.
const RULES: [(&str, [f64; 6]); 15] = [
    ("lossy", [0.1, 0.2, 0.35, 0.5, 0.7, 0.9]),
    ("lossy-tuned", [0.1, 0.2, 0.35, 0.5, 0.7, 0.9]),
    ("chow", [0.7, 0.8, 0.85, 0.9, 0.95, 0.98]),
    ("chow-log", [2.0, 3.0, 3.5, 4.0, 4.5, 5.0]),
    ("diff", [0.0, 0.02, 0.05, 0.1, 0.2, 0.3]),
    ("diff-log", [0.0, 0.1, 0.2, 0.4, 0.7, 1.2]),
    ("opt", [0.0, 0.1, 0.2, 0.35, 0.6, 1.0]),
    ("opt-log", [0.0, 0.3, 0.6, 1.0, 1.7, 3.0]),
    ("token-v1", [0.0, 0.1, 0.2, 0.3, 0.5, 0.7]),
    ("token-v2", [0.0, 0.1, 0.2, 0.3, 0.5, 0.7]),
    ("token-v3", [0.0, 0.8, 0.9, 0.97, 0.99, 0.998]),
    ("bild-star", ROLLBACKS),
    ("bild", ROLLBACKS),
    ("mentored", [0.01, 0.03, 0.06, 0.1, 0.2, 0.4]),
    ("oracle-diff", [0.0, 0.02, 0.05, 0.1, 0.2, 0.3]),
];
/// BiLD with both of its phases (Kim et al. 2023): a round ends before a token of which the draft model is not sure,
/// max q < 1 − α_f, or with ten drafts, and the target writes the next. At 0.8 there is hardly a draft here.
pub const BILD_WITH_FALLBACK: [(&str, f64); 3] =
    [("bild, fallback 0.85", 0.85), ("bild, fallback 0.9", 0.9), ("bild, fallback 0.95", 0.95)];
const ROLLBACKS: [f64; 6] = [3.0, 3.5, 4.0, 4.5, 5.0, 6.0];
const TOKEN_CASCADES: [f64; 5] = [0.6, 0.75, 0.85, 0.9, 0.95];
const SEQUENCE_CASCADES: [f64; 5] = [0.85, 0.9, 0.95, 0.97, 0.98];

/// One row of the table: a rule at a parameter, at one sampling.
#[derive(Debug, Clone)]
pub struct Point {
    /// The rule, gate or baseline.
    pub name: &'static str,
    /// α or D, if it has one.
    pub parameter: Option<f64>,
    /// Index into [`SAMPLINGS`].
    pub sampling: usize,
    /// Who drafts, and how.
    pub mode: Mode,
}

/// Every point. Whole distributions travel in f16, so that nothing but the rule stands between the text and the
/// target's.
pub fn points() -> Result<Vec<Point>, RuleError> {
    let options = DraftingOptions { scheme: SchemeName::Dense.into(), bit_budget: 0, ..DraftingOptions::default() };
    let speculation = Speculation { explain: true, ..options.speculation()? };
    let gate = |gate, threshold| {
        let options = DraftingOptions { gate, gate_threshold: Some(threshold), ..options.clone() };
        options.speculation().map(Mode::Speculative)
    };
    let mut modes = vec![
        (EXACT, None, Mode::Speculative(speculation.clone())),
        (TARGET_ALONE, None, Mode::CloudOnly),
        (DRAFT_ALONE, None, gate(GateName::TokenCascade, 1.0)?),
    ];
    for (name, values) in RULES {
        for value in values {
            let rule = Rule::new(name, value)?;
            modes.push((name, Some(value), Mode::Speculative(speculation.clone().with_rule(rule))));
        }
    }
    for (name, fallback) in BILD_WITH_FALLBACK {
        let stop_rule = StopName::Bild;
        let options = DraftingOptions { stop_rule, stop_threshold: Some(fallback), ..options.clone() };
        let speculation = Speculation { explain: true, ..options.speculation()? };
        for value in ROLLBACKS {
            let rule = Rule::new("bild", value)?;
            modes.push((name, Some(value), Mode::Speculative(speculation.clone().with_rule(rule))));
        }
    }
    for value in TOKEN_CASCADES {
        modes.push((TOKEN_CASCADE, Some(value), gate(GateName::TokenCascade, value)?));
    }
    for value in SEQUENCE_CASCADES {
        modes.push((SEQUENCE_CASCADE, Some(value), gate(GateName::SequenceCascade, value)?));
    }
    let points = (0..SAMPLINGS.len()).flat_map(|sampling| {
        modes.iter().map(move |(name, parameter, mode)| Point {
            name,
            parameter: *parameter,
            sampling,
            mode: mode.clone(),
        })
    });
    Ok(points.collect())
}
