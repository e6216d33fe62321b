//! Settings of a generation, and checks that a server and a draft model can meet them.

use std::sync::Arc;

use outrider_codec::{
    frame::{SamplingParameters, Welcome},
    scheme::SchemeParameters,
};

use super::error::StartError;
use crate::{
    control::stop::StopRule,
    control::{ahead::Goal, plan::Schedule},
    draft::conformal::ThresholdParameters,
    draft::{gate::Gate, heads::Heads},
    judge::{
        Verification,
        rules::{Need, Rule},
        unscaled::{self, Transport},
    },
    study::{comparison::ComparisonParameters, statistics::Guarantee},
};

/// The draft model, as a session needs to know it.
#[derive(Debug, Clone, PartialEq)]
pub struct DraftInfo {
    /// V, the size of the vocabulary.
    pub vocab_size: u32,
    /// SHA-256 of the vocabulary; FORMAT.md says of what exactly.
    pub tokenizer_hash: [u8; 32],
    /// The most tokens the draft model can read; 0 without a draft model, where guesses are looked up only.
    pub context_length: u32,
    /// Trained heads on its hidden states, if it has any.
    pub heads: Option<Arc<Heads>>,
    /// Weights of the [chance](crate::control::calibration::Calibration) that its guess is the target's token, if they
    /// were measured.
    pub guess_chance: Option<[f64; 3]>,
}

/// Both ends, as they have described themselves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends<'a> {
    pub(super) draft: &'a DraftInfo,
    pub(super) server: &'a Welcome,
}

/// Settings of a generation.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The mode of drafting.
    pub mode: Mode,
    /// Parameters of S(·) for both ends, except for a temperature that the draft model has of its own.
    pub sampling: SamplingParameters,
    /// Seed of the random choices of both ends.
    pub seed: u64,
    /// The most tokens to commit, at least 1.
    pub max_new_tokens: u32,
}

/// The end that drafts, and how.
#[derive(Debug, Clone, PartialEq)]
pub enum Mode {
    /// The edge, in rounds that the cloud judges.
    Speculative(Speculation),
    /// The edge: [ahead](Mode::Ahead) where the server takes guesses and what is asked of the rounds is what that
    /// gives, else in these rounds.
    Auto(Speculation),
    /// The edge, ahead of a text that the target writes.
    Ahead(Ahead),
    /// Neither end: the target generates alone.
    CloudOnly,
}

/// Settings of drafting ahead of a text that the target writes. The text is the same as without.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Ahead {
    /// A fixed schedule of guesses and of the wait for them; `None`: by what is measured.
    pub fixed: Option<Schedule>,
    /// The goal of a schedule that is chosen by what is measured.
    pub goal: Goal,
    /// The temperature of the draft model; `None` for the target's.
    pub draft_temperature: Option<f32>,
    /// Reports the distribution that each guess was drawn from.
    pub evidence: bool,
    /// True if second candidates are guessed, too, where the server takes them; `None`: by what is measured.
    pub branches: Option<bool>,
    /// Leaves out guesses that are looked up in the text and in passages beside it, to compare.
    pub drafts_only: bool,
}

/// Settings of rounds: how the edge drafts, and how the cloud judges.
#[derive(Debug, Clone, PartialEq)]
pub struct Speculation {
    /// The scheme, which says what is sent of a draft.
    pub scheme: SchemeParameters,
    /// The temperature of what tokens are drafted from; `None` for the target's (Zheng and Yang, §VI-B, draft at 1
    /// whatever the target's). What travels is q̂, which is made at this temperature: the cloud need not know it.
    pub draft_temperature: Option<f32>,
    /// C-SQS's threshold; other schemes have none.
    pub threshold: ThresholdParameters,
    /// The acceptance rule.
    pub rule: Rule,
    /// The way that the cloud chooses the accepted drafts of a round.
    pub verification: Verification,
    /// The gate, which decides on tokens that are not verified at all.
    pub gate: Gate,
    /// Draft length γ: drafts per round, at least 1. Fewer where context, length or the server's limit leave less room;
    /// one more in the bonus token's place, under rules that do not draw that from p and with one round in flight.
    pub draft_length: u32,
    /// The most rounds that await their verdict at a time, at least 1; no more than the server allows. With more than
    /// one the edge drafts on as if they were all accepted, and no bonus token follows them: of a seed the text is
    /// another than with 1, and the same for all others.
    pub max_in_flight: u8,
    /// The rule that ends a round early.
    pub stop: StopRule,
    /// True if the target writes alone where that is faster (AS²).
    pub adaptive_mode: bool,
    /// Bit budget B: the most payload bits of a round; `None` for no budget but the frame's. A token that could exceed
    /// it is not drafted (Bhattacharjee et al., §4).
    pub bit_budget: Option<u32>,
    /// The goal of drafting [ahead](Mode::Ahead), where [`Mode::Auto`] is that.
    pub goal: Goal,
    /// Works out what the drafts would have cost under other schemes, too.
    pub compare: Option<ComparisonParameters>,
    /// Asks the cloud for the distributions that it judged by. That is the target's distribution for each draft, far
    /// more than all else.
    pub explain: bool,
}

impl Speculation {
    /// A scheme with γ = `draft_length` and the exact rule, verified token by token as in the papers, one round at a
    /// time; no budget, no comparison, nothing adaptive.
    pub fn new(scheme: SchemeParameters, draft_length: u32) -> Self {
        Self {
            scheme,
            draft_temperature: None,
            threshold: ThresholdParameters::default(),
            rule: Rule::EXACT,
            verification: Verification::Token,
            gate: Gate::Never,
            draft_length,
            max_in_flight: 1,
            stop: StopRule::Fixed,
            adaptive_mode: false,
            bit_budget: None,
            goal: Goal::Speed,
            compare: None,
            explain: false,
        }
    }

    /// The guarantee under which the texts are made.
    pub(crate) fn guarantee(&self) -> Guarantee {
        Guarantee { rule: self.rule, lossy: self.rule.info().lossy || self.gate != Gate::Never }
    }

    /// True if the settings ask for nothing but the target's own text, as fast as it can be had, and nothing of rounds.
    fn wants_the_targets_text(&self) -> bool {
        let asks_for_rounds = self.stop != StopRule::Fixed || self.adaptive_mode || self.max_in_flight > 1;
        !self.guarantee().lossy && self.compare.is_none() && !self.explain && !asks_for_rounds
    }
}

impl Settings {
    /// Parameters of S(·) for the draft model: the target's, at the temperature that is asked for.
    pub(crate) fn draft_sampling(&self) -> SamplingParameters {
        let temperature = match &self.mode {
            Mode::Speculative(speculation) | Mode::Auto(speculation) => speculation.draft_temperature,
            Mode::Ahead(ahead) => ahead.draft_temperature,
            Mode::CloudOnly => None,
        };
        SamplingParameters { temperature: temperature.unwrap_or(self.sampling.temperature), ..self.sampling }
    }
}

impl Mode {
    /// The same, and each token comes with what is known of its distributions: in rounds the cloud is asked for
    /// the target's.
    #[must_use]
    pub fn with_evidence(self) -> Self {
        let explained = |speculation| Speculation { explain: true, ..speculation };
        match self {
            Self::Speculative(speculation) => Self::Speculative(explained(speculation)),
            Self::Auto(speculation) => Self::Auto(explained(speculation)),
            Self::Ahead(ahead) => Self::Ahead(Ahead { evidence: true, ..ahead }),
            Self::CloudOnly => Self::CloudOnly,
        }
    }

    /// The mode that [`Mode::Auto`] becomes at a server; others are unchanged.
    pub(super) fn at(&self, server: &Welcome) -> Self {
        match self {
            Self::Auto(speculation) if server.limits.max_guesses > 0 && speculation.wants_the_targets_text() => {
                let &Speculation { goal, draft_temperature, .. } = speculation;
                Self::Ahead(Ahead { goal, draft_temperature, ..Ahead::default() })
            }
            Self::Auto(speculation) => Self::Speculative(speculation.clone()),
            other => other.clone(),
        }
    }
}

/// Checks that both ends can generate from a prompt as they are asked to.
pub(super) fn check(prompt: &[u32], settings: &Settings, ends: Ends<'_>) -> Result<(), StartError> {
    let Ends { draft, server } = ends;
    let setting = |name, range| Err(StartError::Setting { name, range });
    if prompt.is_empty() {
        return Err(StartError::EmptyPrompt);
    }
    let limit = (server.limits.context_length as usize).saturating_sub(1);
    if prompt.len() > limit {
        return Err(StartError::PromptTooLong { tokens: prompt.len(), limit });
    }
    if let Some(&token) = prompt.iter().find(|&&id| id >= server.vocab_size) {
        return Err(StartError::PromptToken { token, vocab_size: server.vocab_size });
    }
    let SamplingParameters { temperature, top_p, .. } = settings.sampling;
    if !(temperature.is_finite() && temperature.is_sign_positive()) {
        return setting("temperature", "0 or more");
    }
    let draft_temperature = settings.draft_sampling().temperature;
    if !(draft_temperature.is_finite() && draft_temperature.is_sign_positive()) {
        return setting("the draft model's temperature", "0 or more");
    }
    if !(top_p > 0.0 && top_p <= 1.0) {
        return setting("top-p", "above 0 and at most 1");
    }
    if settings.max_new_tokens == 0 {
        return setting("the number of new tokens", "at least 1");
    }
    let speculation = match &settings.mode {
        // It has been resolved.
        Mode::Auto(_) | Mode::CloudOnly => return Ok(()),
        Mode::Ahead(_) if server.limits.max_guesses == 0 => return Err(StartError::NoGuesses),
        Mode::Ahead(Ahead { fixed: Some(Schedule { group, patience, lead }), .. }) => {
            let is_right = *group > 0 && *lead > 0 && patience.is_finite() && *patience >= 0.0;
            let range = "at least 1, with a patience of at least 0 and a lead of at least 1";
            return if is_right { Ok(()) } else { setting("the group", range) };
        }
        Mode::Ahead(_) => return Ok(()),
        Mode::Speculative(_) if draft.context_length == 0 => return Err(StartError::NoModel),
        Mode::Speculative(speculation) => speculation,
    };
    if speculation.draft_length == 0 {
        return setting("the draft length", "at least 1");
    }
    if speculation.max_in_flight == 0 {
        return setting("the number of rounds in flight", "at least 1");
    }
    // What passes is committed before the rounds in flight are judged, whose text it would go on from.
    if speculation.max_in_flight > 1 && speculation.gate != Gate::Never {
        return setting("the number of rounds in flight", "1 where a gate lets tokens pass");
    }
    let ThresholdParameters { target, step, initial } = speculation.threshold;
    if !(0.0..1.0).contains(&target) {
        return setting("the target of the dropped mass", "at least 0 and below 1");
    }
    if !(step >= 0.0 && step.is_finite()) {
        return setting("the step size", "at least 0");
    }
    if !(0.0..=1.0).contains(&initial) {
        return setting("the initial threshold", "from 0 to 1");
    }
    unscaled::check(&speculation.rule, speculation.scheme, &settings.sampling)?;
    // Nothing is sent of q, for which q̂ is taken.
    let is_told = Transport::new(&speculation.rule, &settings.sampling, speculation.scheme, server.vocab_size).sends();
    if speculation.rule.info().need != Need::Nothing && !is_told && settings.draft_sampling() != settings.sampling {
        return setting("the draft model's temperature", "the target's where a rule takes dense drafts for its own q");
    }
    match speculation.gate {
        Gate::TokenCascade { alpha } | Gate::SequenceCascade { alpha, .. } if !(0.0..=1.0).contains(&alpha) => {
            return setting("the cascade's α", "from 0 to 1");
        }
        Gate::Sprinter { threshold: Some(threshold) } if !(0.0..=1.0).contains(&threshold) => {
            return setting("SPRINTER's threshold", "from 0 to 1");
        }
        Gate::Sprinter { .. } if draft.heads.as_ref().is_none_or(|heads| heads.gate.is_none()) => {
            return Err(StartError::NoHead { what: "SPRINTER", head: "gate" });
        }
        _ => {}
    }
    match speculation.stop {
        StopRule::SpecDec { .. } if draft.heads.as_ref().is_none_or(|heads| heads.stop.is_none()) => {
            Err(StartError::NoHead { what: "SpecDec++", head: "stop head" })
        }
        StopRule::SpecDec { threshold } if !(0.0..=1.0).contains(&threshold) => {
            setting("SpecDec++'s threshold", "from 0 to 1")
        }
        StopRule::AdaEdl { scale, threshold }
            if !(scale >= 0.0 && scale.is_finite() && (0.0..=1.0).contains(&threshold)) =>
        {
            setting("AdaEDL's scale and threshold", "at least 0, and from 0 to 1")
        }
        StopRule::Bild { fallback } if !(0.0..=1.0).contains(&fallback) => setting("BiLD's fallback α", "from 0 to 1"),
        _ => Ok(()),
    }
}
