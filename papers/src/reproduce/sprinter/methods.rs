//! The methods of Table 2, and what their sessions gave.

use std::sync::Arc;

use outrider_codec::frame::SamplingParameters;
use outrider_models::shapes;
use outrider_speculation::{
    draft::Heads,
    judge::Verification,
    sample,
    session::{
        edge::{Mode, Origin},
        options::{DraftingOptions, GateName, SchemeName, StopName},
    },
};
use serde::Serialize;

use super::{
    super::{
        laboratory::{Laboratory, PassTimes},
        metric::{log_probabilities, rouge::Rouge},
        sessions::{DEFAULT_SAMPLING, Failure, Session},
    },
    texts::{CONTINUATION, Kind, Use, Window},
};
use crate::report::estimate::Estimate;
use crate::theory::flops::{FIGURE_10, TokenCosts};

/// γ of speculative decoding and of mentored decoding; the paper does not say its own.
pub const DRAFT_LENGTH: u32 = 4;
/// Sessions of a prompt, each with a seed of its own, which all methods share.
const SEEDS: usize = 8;

/// A way to continue a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The target writes alone.
    Target,
    /// The draft model writes alone.
    Draft,
    /// Speculative decoding, with [`DRAFT_LENGTH`].
    Speculative,
    /// SpecDec++ (Huang et al. 2024), h = 0.5.
    SpecDec,
    /// AdaEDL (Agrawal et al. 2024), λ = 0.2 at first.
    AdaEdl,
    /// Mentored decoding (Tran-Thien 2024), D = 0.1 nats.
    Mentored,
    /// SPRINTER with a threshold τ = 0.5.
    Sprinter,
}

impl Method {
    /// All, those of the paper's tables last and in its order.
    pub const ALL: [Self; 7] =
        [Self::Target, Self::Draft, Self::Speculative, Self::SpecDec, Self::AdaEdl, Self::Mentored, Self::Sprinter];

    /// Name of the method in the paper.
    pub fn name(self) -> &'static str {
        match self {
            Self::Target => "target alone",
            Self::Draft => "draft alone",
            Self::Speculative => "SD",
            Self::SpecDec => "SpecDec++",
            Self::AdaEdl => "AdaEDL",
            Self::Mentored => "MentoredDec",
            Self::Sprinter => "SPRINTER",
        }
    }

    /// Whole distributions travel in f16, so that nothing but the method stands between the text and the target's.
    fn mode(self) -> Result<Mode, Failure> {
        let plain = DraftingOptions {
            scheme: SchemeName::Dense.into(),
            bit_budget: 0,
            draft_length: Some(DRAFT_LENGTH),
            verification: Verification::Token,
            ..DraftingOptions::default()
        };
        let options = match self {
            Self::Target => return Ok(Mode::CloudOnly),
            Self::Draft => DraftingOptions { gate: GateName::SequenceCascade, gate_threshold: Some(1.0), ..plain },
            Self::Speculative => plain,
            Self::SpecDec => DraftingOptions { stop_rule: StopName::SpecDec, ..plain },
            Self::AdaEdl => DraftingOptions { stop_rule: StopName::AdaEdl, ..plain },
            Self::Mentored => DraftingOptions { rule: "mentored".to_owned(), ..plain },
            Self::Sprinter => DraftingOptions { gate: GateName::Sprinter, draft_length: None, ..plain },
        };
        Ok(Mode::Speculative(options.speculation()?))
    }
}

/// Text and costs of one session.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    /// Tokens of the continuation: [`CONTINUATION`], or fewer where the text ended.
    pub tokens: usize,
    /// The draft model's tokens among them, passed or accepted.
    pub accepted: usize,
    /// Tokens that passed unverified.
    pub passed: usize,
    /// Forward passes of the draft model.
    pub drafts: usize,
    /// Forward passes of the target.
    pub calls: usize,
    /// Passed and drafted tokens that those read, besides one token each.
    pub read: usize,
    /// ln p of the continuation under the target at T = 1, in nats.
    pub log_likelihood: f64,
    /// Expected ln p of tokens that the target itself draws at the same positions, in nats.
    pub expected: f64,
    /// ROUGE beside the text's own continuation.
    pub rouge: Rouge,
}

/// Sessions of a method on a kind of text.
#[derive(Debug, Clone)]
pub struct Run {
    /// Kind of the continued text.
    pub kind: Kind,
    /// Method of the sessions.
    pub method: Method,
    /// Samples by prompt; those of a prompt by seed.
    pub samples: Vec<Vec<Sample>>,
}

/// A pair of the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shapes {
    /// GPT-Neo-125M and GPT-Neo-1.3B.
    GptNeo,
    /// GPT2-small and GPT2-XL.
    Gpt2,
}

/// Times of forward passes of both models of a pair.
#[derive(Debug, Clone, Copy)]
pub struct PairTimes {
    /// Times of the draft model.
    pub draft: PassTimes,
    /// Times of the target.
    pub target: PassTimes,
}

impl Shapes {
    /// Both pairs of the paper.
    pub const ALL: [Self; 2] = [Self::GptNeo, Self::Gpt2];

    /// Name of the models' family.
    pub fn name(self) -> &'static str {
        match self {
            Self::GptNeo => "GPT-Neo",
            Self::Gpt2 => "GPT2",
        }
    }

    /// Times of passes of models of these shapes: random weights in Q8_0, since time depends on the shape alone.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn times(self, laboratory: &mut Laboratory) -> Result<PairTimes, Failure> {
        let known = laboratory.kept::<Vec<(Self, PairTimes)>>()?;
        if let Some((_, times)) = known.iter().find(|(shapes, _)| *shapes == self) {
            return Ok(*times);
        }
        let draft = known.first().map(|(_, times)| times.draft);
        laboratory.say(&format!("timing passes of {}", self.name()));
        let target = match self {
            Self::GptNeo => &shapes::GPT_NEO_1_3B,
            Self::Gpt2 => &shapes::GPT2_XL,
        };
        // Both pairs' draft models have one shape, and so one time.
        let draft = match draft {
            Some(draft) => draft,
            None => laboratory.time(&shapes::GPT2_SMALL)?,
        };
        let times = PairTimes { draft, target: laboratory.time(target)? };
        laboratory.kept::<Vec<(Self, PairTimes)>>()?.push((self, times));
        Ok(times)
    }

    /// Operations of a token, in 10⁹.
    pub fn costs(self) -> TokenCosts {
        let at = if self == Self::GptNeo { 0 } else { 2 };
        TokenCosts::counted(&FIGURE_10[at].shape, &FIGURE_10[at + 1].shape)
    }
}

impl Sample {
    /// Seconds, without a link: the paper's models are on one machine. A forward pass reads one token and takes longer
    /// by every further one.
    pub fn seconds(&self, times: &PairTimes) -> f64 {
        let PairTimes { draft, target } = times;
        self.drafts as f64 * draft.pass + self.calls as f64 * target.pass + self.read as f64 * target.row
    }

    /// Operations as equations 5 and 6 count them: SPRINTER's target verifies one token a call, the others' all drafts.
    pub fn verified_operations(&self, method: Method, costs: &TokenCosts) -> f64 {
        let target = match method {
            Method::Sprinter | Method::Target => self.calls,
            _ => self.read,
        };
        self.drafted_operations(method, costs) + target as f64 * costs.target
    }

    /// Operations if the target reads every token of the text, as its KV cache needs: those that passed too, and one
    /// more each call.
    pub fn read_operations(&self, method: Method, costs: &TokenCosts) -> f64 {
        self.drafted_operations(method, costs) + (self.calls + self.read) as f64 * costs.target
    }

    fn drafted_operations(&self, method: Method, costs: &TokenCosts) -> f64 {
        let gate = if method == Method::Sprinter { costs.gate } else { 0.0 };
        self.drafts as f64 * (costs.draft + gate)
    }

    fn of(laboratory: &Laboratory, session: &Session, reference: &str) -> Result<Self, Failure> {
        let statistics = &session.statistics;
        let is_gated = statistics.passed > 0 || session.origins.iter().all(|origin| *origin == Origin::Passed);
        let drafted: usize = session.rounds.iter().map(|round| round.drafted.len()).sum();
        // A gated round of no drafts is one whose token was looked at and left to the target.
        let declined = session.rounds.iter().filter(|round| is_gated && round.drafted.is_empty()).count();
        // Tokens that pass at the end of a text are not read.
        let unread = session.origins.iter().rev().take_while(|origin| **origin == Origin::Passed).count();
        let (log_likelihood, expected) = likelihood(laboratory, session)?;
        Ok(Self {
            tokens: session.tokens.len(),
            accepted: statistics.passed + statistics.accepted,
            passed: statistics.passed,
            drafts: statistics.passed + drafted + declined,
            calls: statistics.server_passes,
            read: drafted + statistics.passed - unread,
            log_likelihood,
            expected,
            rouge: Rouge::of(&laboratory.pair.tokenizer.decode(&session.tokens), reference),
        })
    }
}

impl Run {
    /// Σ a / Σ b over prompts, of what each sample gives.
    pub fn ratio(&self, of: impl Fn(&Sample) -> (f64, f64)) -> Estimate {
        let sum = |samples: &Vec<Sample>| {
            samples.iter().map(&of).fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1))
        };
        Estimate::of(&self.samples.iter().map(sum).collect::<Vec<_>>())
    }

    /// The mean over prompts of what each sample gives.
    pub fn mean(&self, of: impl Fn(&Sample) -> f64) -> Estimate {
        self.ratio(|sample| (of(sample), 1.0))
    }

    /// Mean of a quantity per token.
    pub fn per_token(&self, of: impl Fn(&Sample) -> f64) -> Estimate {
        self.ratio(|sample| (of(sample), sample.tokens as f64))
    }

    /// Ratio of a quantity per token of `other` to that of this run, prompt by prompt.
    pub fn saving(&self, other: &Self, of: impl Fn(&Sample) -> f64) -> Estimate {
        let mean = |samples: &[Sample]| {
            let tokens: usize = samples.iter().map(|sample| sample.tokens).sum();
            samples.iter().map(&of).sum::<f64>() / tokens.max(1) as f64
        };
        let pairs = other.samples.iter().zip(&self.samples);
        Estimate::of(&pairs.map(|(other, own)| (mean(other), mean(own))).collect::<Vec<_>>())
    }

    /// The mean over prompts and seeds of what a comparison with the same prompt and seed of `other` gives.
    pub fn compared(&self, other: &Self, of: impl Fn(&Sample, &Sample) -> f64) -> Estimate {
        let mean = |(own, other): (&Vec<Sample>, &Vec<Sample>)| {
            let sum: f64 = own.iter().zip(other).map(|(own, other)| of(own, other)).sum();
            (sum, own.len() as f64)
        };
        Estimate::of(&self.samples.iter().zip(&other.samples).map(mean).collect::<Vec<_>>())
    }
}

/// Quality of a run beside another, with errors.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Quality {
    /// Log-likelihood under the target at T = 1 less that of the other text, in nats a token.
    pub difference: Estimate,
    /// The difference, less that expected of the target's own tokens at the same positions.
    pub excess: Estimate,
    /// Share of texts that are likelier than the other, ties counting half, in per cent.
    pub wins: Estimate,
}

impl Quality {
    /// Compares a run with another.
    pub fn of(run: &Run, other: &Run) -> Self {
        let mean = |sample: &Sample| sample.log_likelihood / sample.tokens.max(1) as f64;
        let beyond = |sample: &Sample| (sample.log_likelihood - sample.expected) / sample.tokens.max(1) as f64;
        let won = |own: &Sample, other: &Sample| match mean(own).total_cmp(&mean(other)) {
            std::cmp::Ordering::Greater => 100.0,
            std::cmp::Ordering::Equal => 50.0,
            std::cmp::Ordering::Less => 0.0,
        };
        Self {
            difference: run.compared(other, |own, other| mean(own) - mean(other)),
            excess: run.compared(other, |own, other| beyond(own) - beyond(other)),
            wins: run.compared(other, won),
        }
    }
}

/// Sampling of all sessions, as a sentence.
pub fn sampled() -> String {
    let SamplingParameters { temperature, top_p, .. } = DEFAULT_SAMPLING;
    format!("Both models sample at T = {temperature} and top-p {top_p}; the paper does not say its own.")
}

/// Sessions of a method on a kind of text, with the pair's own heads; measured once.
///
/// # Errors
/// If the pair has no such heads, or a session fails.
pub fn run(laboratory: &mut Laboratory, kind: Kind, method: Method) -> Result<Run, Failure> {
    let known = laboratory.kept::<Vec<Run>>()?;
    if let Some(run) = known.iter().find(|run| run.kind == kind && run.method == method) {
        return Ok(run.clone());
    }
    laboratory.say(&format!("{} on {}", method.name(), kind.name()));
    let needed = match method {
        Method::Sprinter => laboratory.pair.heads.as_ref().is_some_and(|heads| heads.gate.is_some()),
        Method::SpecDec => laboratory.pair.heads.as_ref().is_some_and(|heads| heads.stop.is_some()),
        _ => true,
    };
    if !needed {
        return Err(format!("{} needs heads that the pair does not have: train-gate trains them", method.name()).into());
    }
    let run = Run { kind, method, samples: samples(laboratory, kind, method)? };
    laboratory.kept::<Vec<Run>>()?.push(run.clone());
    Ok(run)
}

/// SPRINTER's sessions with another gate.
///
/// # Errors
/// If a session fails.
pub fn run_with(laboratory: &mut Laboratory, kind: Kind, heads: Arc<Heads>) -> Result<Run, Failure> {
    let own = laboratory.pair.heads.replace(heads);
    let samples = samples(laboratory, kind, Method::Sprinter);
    laboratory.pair.heads = own;
    Ok(Run { kind, method: Method::Sprinter, samples: samples? })
}

fn samples(laboratory: &Laboratory, kind: Kind, method: Method) -> Result<Vec<Vec<Sample>>, Failure> {
    let windows = windows(laboratory, kind, Use::HeldOut)?;
    let prompts: Vec<Vec<u32>> =
        windows.iter().flat_map(|window| std::iter::repeat_n(window.tokens[..window.prefix].to_vec(), SEEDS)).collect();
    let sessions = laboratory.generate(&prompts, &method.mode()?, DEFAULT_SAMPLING, CONTINUATION as u32)?;
    let of_prompt = |(sessions, window): (&[Session], &Window)| {
        let reference = laboratory.pair.tokenizer.decode(window.continuation());
        sessions.iter().map(|session| Sample::of(laboratory, session, &reference)).collect()
    };
    sessions.chunks(SEEDS).zip(&windows).map(of_prompt).collect()
}

/// Texts of a kind: as many as there are prompts where they are held out, else all.
///
/// # Errors
/// If the tokenizer refuses them, or there are none.
pub fn windows(laboratory: &Laboratory, kind: Kind, used: Use) -> Result<Vec<Window>, Failure> {
    let count = (used == Use::HeldOut).then_some(laboratory.prompts);
    let bos = laboratory.pair.draft.config().first_token();
    let windows = kind.windows(used, count, &laboratory.pair.tokenizer, bos)?;
    if windows.is_empty() { Err("the tokenizer makes the texts too short".into()) } else { Ok(windows) }
}

/// ln p of a continuation at T = 1, and what the target's own tokens would be expected to have, in nats.
fn likelihood(laboratory: &Laboratory, session: &Session) -> Result<(f64, f64), Failure> {
    let (mut found, mut expected) = (0.0, 0.0);
    for (row, &token) in log_probabilities(&laboratory.target, session)?.iter().zip(&session.tokens) {
        found += row[token as usize];
        let logits: Vec<f32> = row.iter().map(|&log_probability| log_probability as f32).collect();
        let own = sample::transform(&logits, &DEFAULT_SAMPLING)?;
        expected += own.iter().zip(row).filter(|(p, _)| **p > 0.0).map(|(p, log)| p * log).sum::<f64>();
    }
    Ok((found, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Sample = Sample {
        tokens: 10,
        accepted: 8,
        passed: 6,
        drafts: 9,
        calls: 2,
        read: 7,
        log_likelihood: -30.0,
        expected: -28.0,
        rouge: Rouge { one: 0.0, two: 0.0, longest: 0.0 },
    };

    /// By hand: nine drafts of 1 ms, two passes of 20 ms, seven further tokens of 0.5 ms.
    #[test]
    fn seconds_and_operations_are_sums_of_what_was_done() {
        let times =
            PairTimes { draft: PassTimes { pass: 0.001, row: 0.0 }, target: PassTimes { pass: 0.02, row: 0.0005 } };
        assert!((SAMPLE.seconds(&times) - (0.009 + 0.04 + 0.0035)).abs() < 1e-12);
        let costs = TokenCosts { draft: 1.0, gate: 0.1, target: 10.0 };
        // Equation 6: two of the target's; equation 5: seven; all that is read: nine.
        assert!((SAMPLE.verified_operations(Method::Sprinter, &costs) - 29.9).abs() < 1e-9);
        assert!((SAMPLE.verified_operations(Method::Speculative, &costs) - 79.0).abs() < 1e-9);
        assert!((SAMPLE.read_operations(Method::Sprinter, &costs) - 99.9).abs() < 1e-9);
    }

    /// Two prompts of one seed: −3 against −3.2 nats a token, and −3 against −2.5.
    #[test]
    fn quality_is_compared_prompt_by_prompt() {
        let run = |totals: [f64; 2]| Run {
            kind: Kind::Tales,
            method: Method::Sprinter,
            samples: totals.map(|log_likelihood| vec![Sample { log_likelihood, ..SAMPLE }]).into(),
        };
        let quality = Quality::of(&run([-30.0, -30.0]), &run([-32.0, -25.0]));
        assert!((quality.difference.value - (0.2 - 0.5) / 2.0).abs() < 1e-12);
        assert_eq!(quality.wins.value, 50.0);
        assert!((quality.difference.error - 0.35).abs() < 1e-12, "half the distance of two numbers");
        assert_eq!(Quality::of(&run([-30.0; 2]), &run([-30.0; 2])).wins.value, 50.0);
    }
}
