//! Trains the heads that score a draft's hidden state: SPRINTER's gate and SpecDec++'s stop head.
//!
//! | module | what it does |
//! |---|---|
//! | [`examples`] | texts of four kinds, and at each position a token of the draft that both models judge |
//! | [`logistic`] | fits σ(w·h + b) to labels |
//! | [`roc`] | measures how well scores separate labels |
//!
//! Prompts, not positions, are divided into those for training, for stopping early and for the figures: four texts
//! with one beginning are no independent evidence.
//!
//! # Which q and p
//!
//! Labels are drawn at the sampling that sessions will use, q = S(draft), p = S(target), because the ratio that the
//! target's verification looks at is that of these. A gate for temperature 1 errs at 0.7: both distributions are more
//! peaked there, and top-p cuts tokens of which q has some and p nothing. What an uplink scheme does to q, cutting and
//! rounding it, is left out: one gate serves all schemes.
//!
//! # Where this departs from the papers
//!
//! - SPRINTER's gate (Zhong et al., §3.2) may take "various latent features" of the draft model; the paper's reads the
//!   embedding of the last token alone. Ours sees, unless it is asked not to, of the drawn token x ln q(x), H(q) and
//!   max q as well; so does the stop head.
//! - SPRINTER trains on Wiki-Summary and LM1B. The pair's corpus is not at hand, so originals are
//!   a tale and texts of the target at temperature 1.
//! - SpecDec++ (Huang et al. 2024) feeds the token before its head looks, which has several layers with residual
//!   connections, weighs rejections more than acceptances, and mixes tokens of draft and target in its training texts.
//!   Here the head is linear, sees of the token what the gate sees, weighs all alike, and learns the
//!   probability of acceptance
//!   min(1, p(x)/q(x)) as a soft label, so that products of scores are probabilities. Texts are SPRINTER's.

use std::collections::BTreeMap;

use outrider_models::{HeadsFile, HeadsMetadata, LinearHead, Model, Tokenizer};
use outrider_speculation::sample::{End, Randomness};

mod error;
pub mod examples;
pub mod logistic;
pub(crate) mod parts;
mod report;
pub mod roc;
mod settings;
mod text;

pub use error::TrainingError;
use examples::{Example, Job, Kind, Pair, Text};
use logistic::{Schedule, fit, shuffle};
use parts::{Parts, samples, scores};
pub use report::{KindReport, Measured, Report, StopReport};
pub use settings::Settings;

/// Trained heads, and their figures on held-out texts.
#[derive(Debug, Clone)]
pub struct Trained {
    /// Heads, to be written to a file.
    pub heads: HeadsFile,
    /// Figures of the heads.
    pub report: Report,
    /// Number of texts, held-out ones included.
    pub texts: usize,
}

/// Progress of the training.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Name of the current stage.
    pub stage: &'static str,
    /// Number of steps of the stage.
    pub total: usize,
    /// Number of finished steps.
    pub done: usize,
}

/// A tale written for the benchmarks: the only original text that comes with the program.
const TALE: &str = include_str!("../../pair/tale.txt");

/// The least number of prompts: fewer cannot be divided into three.
const LEAST_PROMPTS: usize = 6;
/// Tokens of a generated beginning.
const BEGINNING: usize = 16;

/// A text, or the beginning of one, that others go on from.
struct Prompt {
    tokens: Vec<u32>,
    /// Tokens of the beginning.
    beginning: usize,
    /// True if `tokens` is a whole text.
    whole: bool,
}

/// Trains on texts that begin like `prompts`; without any, like a tale and like texts of the target.
///
/// The heads depend on the arguments only, down to the last bit on one machine and build.
pub fn train(
    draft: &Model,
    target: &Model,
    tokenizer: &Tokenizer,
    prompts: Option<&[String]>,
    settings: &Settings,
    progress: &mut dyn FnMut(Progress),
) -> Result<Trained, TrainingError> {
    let mut randomness = Randomness::new(settings.seed, End::Cloud);
    let given: Vec<&str> = match prompts {
        Some(prompts) => prompts.iter().map(String::as_str).collect(),
        None => TALE.split("\n\n").collect(),
    };
    let pair = Pair { draft, target, sampling: settings.sampling };
    let made_up = prompts.is_none();
    let parts = collect(&pair, tokenizer, &given, made_up, settings, &mut randomness, progress)?;
    let texts = [&parts.training, &parts.validation, &parts.test].map(Vec::len).into_iter().sum();
    let settings = &Settings { texts, ..settings.clone() };
    let gate_label = |example: &Example| f64::from(u8::from(example.drawn.acceptable(settings.lambda)));
    let stop_label = |example: &Example| example.drawn.acceptance();
    let mut train_head = |done, sees, label: &dyn Fn(&Example) -> f64| {
        let stage = "fitting heads";
        progress(Progress { stage, done, total: 2 });
        let (training, validation) = (samples(&parts.training, sees, label), samples(&parts.validation, sees, label));
        let mut fit = fit(&training, &validation, &Schedule::default(), &mut randomness);
        fit.head.token = fit.head.weights.split_off(draft.config().hidden_size);
        progress(Progress { stage, done: done + 1, total: 2 });
        fit
    };
    let gate = train_head(0, settings.sees_token, &gate_label);
    let stop = train_head(1, settings.sees_token, &stop_label);
    let report = Report::new(settings, &parts, &gate, &stop).ok_or_else(|| {
        let acceptable = parts.test.iter().flat_map(|text| &text.examples).any(|example| gate_label(example) > 0.0);
        TrainingError::OneClass { lambda: settings.lambda, what: if acceptable { "all" } else { "no" } }
    })?;
    let heads = HeadsFile {
        metadata: metadata(draft, tokenizer, settings, &report),
        gate: Some(gate.head),
        stop: Some(stop.head),
    };
    Ok(Trained { heads, report, texts })
}

/// Evaluates a gate on texts whose beginnings the target makes up: AU-ROC, and the rates at τ. The texts of a
/// seed that the gate was not trained with are new to it.
pub fn evaluate(
    draft: &Model,
    target: &Model,
    tokenizer: &Tokenizer,
    gate: &LinearHead,
    settings: &Settings,
) -> Result<(f64, roc::Rates), TrainingError> {
    let mut randomness = Randomness::new(settings.seed, End::Cloud);
    let pair = Pair { draft, target, sampling: settings.sampling };
    let parts = collect(&pair, tokenizer, &[], true, settings, &mut randomness, &mut |_| {})?;
    let all: Vec<Text> = [parts.training, parts.validation, parts.test].concat();
    let labelled = samples(&all, !gate.token.is_empty(), &|example| {
        f64::from(u8::from(example.drawn.acceptable(settings.lambda)))
    });
    let scores = scores(gate, &labelled.features);
    let area = roc::area(&scores, &labelled.labels)
        .ok_or(TrainingError::OneClass { lambda: settings.lambda, what: "all or no" })?;
    Ok((area, roc::rates(&scores, &labelled.labels, settings.threshold)))
}

/// Goes along texts that begin like `given`, and, with `made_up`, like as many more of the target's as are missing.
fn collect(
    pair: &Pair<'_>,
    tokenizer: &Tokenizer,
    given: &[&str],
    made_up: bool,
    settings: &Settings,
    randomness: &mut Randomness,
    progress: &mut dyn FnMut(Progress),
) -> Result<Parts, TrainingError> {
    check(pair, settings)?;
    let wanted = settings.texts.div_ceil(Kind::ALL.len());
    let mut prompts = encoded(given, pair.target, tokenizer, settings)?;
    if made_up {
        let missing = wanted.saturating_sub(prompts.len());
        prompts.extend(generated(pair, missing, settings, randomness, progress)?);
    }
    shuffle(&mut prompts, randomness);
    prompts.truncate(wanted);
    if prompts.len() < LEAST_PROMPTS {
        return Err(TrainingError::TooFew { found: prompts.len(), needed: LEAST_PROMPTS });
    }
    let jobs: Vec<Job<'_>> = prompts
        .iter()
        .flat_map(|prompt| Kind::ALL.map(|kind| (prompt, kind)))
        .map(|(prompt, kind)| Job {
            kind,
            beginning: &prompt.tokens[..prompt.beginning],
            original: prompt.whole.then_some(&prompt.tokens),
            // All four kinds have as many positions as the original has.
            length: if prompt.whole { prompt.tokens.len() } else { settings.length },
            seed: seed(randomness),
        })
        .collect();
    let total = jobs.len();
    let mut training =
        pair.go_along(&jobs, |done| progress(Progress { stage: "drafting and judging", done, total }))?;
    // 70 % to train, 15 % to stop, 15 % for the figures. Prompts are in random order.
    let held_out = (prompts.len() * 3).div_ceil(20).max(1) * Kind::ALL.len();
    let test = training.split_off(total - held_out);
    let validation = training.split_off(total - 2 * held_out);
    Ok(Parts { training, validation, test })
}

fn check(pair: &Pair<'_>, settings: &Settings) -> Result<(), TrainingError> {
    let (draft, target) = (pair.draft.config(), pair.target.config());
    if draft.vocab_size != target.vocab_size {
        return Err(TrainingError::Vocabulary { draft: draft.vocab_size, target: target.vocab_size });
    }
    let (least, most) = (BEGINNING + 1, draft.context_length.min(target.context_length));
    match settings.length {
        length if length < least || length > most => Err(TrainingError::Length { length, least, most }),
        _ => Ok(()),
    }
}

/// Whole texts, cut to the length of the settings, that begin with their first 30 % (SPRINTER, §4).
fn encoded(
    texts: &[&str],
    target: &Model,
    tokenizer: &Tokenizer,
    settings: &Settings,
) -> Result<Vec<Prompt>, TrainingError> {
    let bos = target.config().first_token();
    let mut prompts = Vec::new();
    for text in texts {
        let mut tokens = tokenizer.encode_prompt(bos, text.trim())?;
        tokens.truncate(settings.length);
        let beginning = (tokens.len() * 3).div_ceil(10).max(1);
        if tokens.len() > beginning {
            prompts.push(Prompt { tokens, beginning, whole: true });
        }
    }
    Ok(prompts)
}

/// Beginnings that the target makes up at temperature 1.
fn generated(
    pair: &Pair<'_>,
    count: usize,
    settings: &Settings,
    randomness: &mut Randomness,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<Prompt>, TrainingError> {
    let config = pair.target.config();
    let first = [config.bos_token_id.ok_or(TrainingError::NoBeginning)?];
    let length = BEGINNING.min(settings.length);
    let job = |_| Job { kind: Kind::Original, beginning: &first, original: None, length, seed: seed(randomness) };
    let jobs: Vec<Job<'_>> = (0..count).map(job).collect();
    let texts = pair.go_along(&jobs, |done| progress(Progress { stage: "writing beginnings", done, total: count }))?;
    let prompt = |text: Text| {
        let mut tokens = text.tokens;
        // A text that is over cannot go on.
        if tokens.len() > 1 && tokens.last().is_some_and(|token| config.eos_token_ids.contains(token)) {
            tokens.pop();
        }
        Prompt { beginning: tokens.len(), tokens, whole: false }
    };
    Ok(texts.into_iter().map(prompt).collect())
}

fn seed(randomness: &mut Randomness) -> u64 {
    u64::from(randomness.below(u32::MAX)) << 32 | u64::from(randomness.below(u32::MAX))
}

fn metadata(draft: &Model, tokenizer: &Tokenizer, settings: &Settings, report: &Report) -> HeadsMetadata {
    let rounded = |x: f64| (x * 1e4).round() / 1e4;
    let notes = [
        ("seed", settings.seed.to_string()),
        ("texts", settings.texts.to_string()),
        ("length", settings.length.to_string()),
        ("positions", report.positions.to_string()),
        ("stop_auc", rounded(report.stop.au_roc).to_string()),
    ];
    HeadsMetadata {
        hidden_size: draft.config().hidden_size,
        vocab_size: draft.config().vocab_size,
        tokenizer: tokenizer.fingerprint(),
        temperature: settings.sampling.temperature,
        top_k: settings.sampling.top_k,
        top_p: settings.sampling.top_p,
        lambda: settings.lambda,
        tau: settings.threshold,
        auc: rounded(report.au_roc),
        eta_tp: rounded(report.at_threshold.true_positive),
        eta_fp: rounded(report.at_threshold.false_positive),
        notes: BTreeMap::from(notes.map(|(key, value)| (key.to_owned(), value))),
    }
}

#[cfg(test)]
mod tests;
