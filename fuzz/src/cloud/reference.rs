//! A second implementation of FORMAT.md: the reaction that has to follow every frame.

use outrider_codec::{
    distribution::DraftToken,
    error::DecodeError,
    frame::{Draft, ErrorCode, Finish, Frame, Prompt, Request},
    rule::{RuleParameters, StatisticKind},
    scheme::{Downlink, Drafts, Scheme, SchemeParameters},
};
use outrider_speculation::session::cloud::TargetInfo;

use crate::rules;

/// Expected state of the session.
pub(super) struct Reference {
    pub(super) target: TargetInfo,
    pub(super) greeted: bool,
    pub(super) closed: bool,
    pub(super) last_generation: u32,
    pub(super) generation: Option<Generation>,
}

pub(super) struct Generation {
    pub(super) request: Request,
    /// Prompt and committed tokens.
    pub(super) text: Vec<u32>,
    /// The state of drafting; `None` if the cloud writes alone.
    pub(super) drafting: Option<Drafting>,
}

pub(super) struct Drafting {
    pub(super) parameters: SchemeParameters,
    /// The scheme, in the edge's state.
    pub(super) scheme: Scheme,
    pub(super) rule: RuleParameters,
    /// The statistic at the beginning of the payload.
    pub(super) statistic: Option<StatisticKind>,
    /// V if the statistic is q of the whole vocabulary.
    pub(super) of_vocabulary: Option<usize>,
    /// True if the edge wants evidence of judgements.
    pub(super) evidence: bool,
    /// Rounds that may be in flight.
    pub(super) window: u8,
    pub(super) round: u32,
    /// Continued rounds of which a draft was rejected.
    pub(super) epoch: u32,
    /// True if the round under way is continued.
    pub(super) continued: bool,
    pub(super) drafts: Option<Drafts>,
    /// Tokens that the target is to write alone.
    pub(super) stream: u32,
    /// The edge has to resample the next token.
    pub(super) due: bool,
}

/// The reaction that a frame requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reaction {
    Nothing,
    Welcome,
    /// The distribution of this round of this generation.
    Distribution(u32, u32),
    /// An error that ends this generation, or, if it is 0, the connection.
    Error(u32, ErrorCode),
    /// The connection is closed without a word.
    Close,
}

impl Reference {
    /// Returns the reaction that these bytes require, and moves on to the state after them.
    pub(super) fn react(&mut self, bytes: &[u8]) -> Reaction {
        if self.closed {
            return Reaction::Nothing;
        }
        let reaction = match Frame::decode(bytes) {
            Err(DecodeError::Version { .. }) => fatal(ErrorCode::Version),
            Err(DecodeError::TooLong { .. }) => fatal(ErrorCode::FrameTooLong),
            Err(_) => fatal(ErrorCode::Malformed),
            Ok(Frame::Bye) => Reaction::Close,
            Ok(Frame::Hello(hello)) if !self.greeted => {
                let target = &self.target;
                let fits = (hello.vocab_size, hello.tokenizer_hash) == (target.vocab_size, target.tokenizer_hash);
                self.greeted = fits;
                if fits { Reaction::Welcome } else { fatal(ErrorCode::Tokenizer) }
            }
            Ok(Frame::Resume(_)) if !self.greeted => fatal(ErrorCode::UnknownSession),
            Ok(_) if !self.greeted => fatal(ErrorCode::OutOfOrder),
            Ok(Frame::Prompt(prompt)) => self.start(prompt.request.clone(), Some(&prompt)),
            Ok(Frame::Generate(request)) => self.start(request, None),
            Ok(Frame::Draft(draft)) => self.draft(&draft),
            // This target takes none.
            Ok(Frame::Guesses(guesses)) => match &self.generation {
                None => self.late(guesses.generation),
                Some(current) if guesses.generation < current.request.generation => Reaction::Nothing,
                Some(_) => fatal(ErrorCode::OutOfOrder),
            },
            Ok(Frame::Resample { generation, round }) => self.resample(generation, round),
            Ok(Frame::Cancel { generation }) => {
                self.generation = self.generation.take().filter(|current| current.request.generation > generation);
                self.last_generation = self.last_generation.max(generation);
                Reaction::Nothing
            }
            Ok(_) => fatal(ErrorCode::OutOfOrder),
        };
        self.end(reaction)
    }

    /// The state after an error or the end.
    pub(super) fn end(&mut self, reaction: Reaction) -> Reaction {
        if matches!(reaction, Reaction::Error(..) | Reaction::Close) {
            self.generation = None;
        }
        self.closed |= matches!(reaction, Reaction::Error(0, _) | Reaction::Close);
        reaction
    }

    fn start(&mut self, request: Request, prompt: Option<&Prompt>) -> Reaction {
        let number = request.generation;
        if number <= self.last_generation {
            return Reaction::Nothing;
        }
        if self.generation.is_some() {
            return fatal(ErrorCode::OutOfOrder);
        }
        self.last_generation = number;
        let refuse = |code| Reaction::Error(number, code);
        let drafting = match prompt {
            None => None,
            Some(prompt) if prompt.max_in_flight > self.target.limits.max_in_flight => {
                return refuse(ErrorCode::InvalidParameters);
            }
            Some(&Prompt { scheme: parameters, rule, evidence, max_in_flight, .. }) => {
                let sends_dist = !matches!(parameters, SchemeParameters::Dssd { .. } | SchemeParameters::Coupled);
                let Ok(mut scheme) = Scheme::new(parameters, self.target.vocab_size) else {
                    return refuse(ErrorCode::InvalidParameters);
                };
                let is_whole = rules::is_of_vocabulary(rule, &request.sampling);
                let lacks = rule.number != 0 && !sends_dist || is_whole && parameters != SchemeParameters::Dense;
                if !rules::is_allowed(rule) || lacks {
                    return refuse(ErrorCode::InvalidParameters);
                }
                scheme.prime(&request.tokens);
                let statistic = rules::statistic(rule, &request.sampling, parameters);
                Some(Drafting {
                    parameters,
                    scheme,
                    rule,
                    statistic,
                    of_vocabulary: is_whole.then_some(self.target.vocab_size as usize),
                    evidence,
                    window: max_in_flight,
                    round: 0,
                    epoch: 0,
                    continued: false,
                    drafts: None,
                    stream: 0,
                    due: false,
                })
            }
        };
        if request.tokens.iter().any(|&id| id >= self.target.vocab_size) {
            return refuse(ErrorCode::InvalidParameters);
        }
        if request.tokens.len() + 1 > self.target.limits.context_length as usize {
            return refuse(ErrorCode::PromptTooLong);
        }
        self.generation = Some(Generation { text: request.tokens.clone(), request, drafting });
        Reaction::Nothing
    }

    fn draft(&mut self, draft: &Draft) -> Reaction {
        let Some(current) = &mut self.generation else { return self.late(draft.generation) };
        let limit = current.limit(&self.target);
        let Generation { request, text, drafting } = current;
        if draft.generation < request.generation {
            return Reaction::Nothing;
        }
        let Some(drafting) = drafting else { return fatal(ErrorCode::OutOfOrder) };
        let expected =
            (draft.generation, draft.epoch, draft.round) == (request.generation, drafting.epoch, drafting.round);
        let is_known = draft.round < drafting.round || draft.round == drafting.round && drafting.is_busy();
        let is_discarded = draft.epoch < drafting.epoch || draft.epoch == drafting.epoch && is_known;
        if draft.generation == request.generation && is_discarded {
            return Reaction::Nothing;
        }
        let is_continued_alone = draft.continued && drafting.window == 1;
        if !expected || drafting.is_busy() || is_continued_alone || draft.resampled.is_some() != drafting.due {
            return fatal(ErrorCode::OutOfOrder);
        }
        drafting.due = false;
        drafting.continued = draft.continued;
        // The resampled token comes first; none of these ends the text.
        for &id in draft.resampled.iter().chain(&draft.passed) {
            text.push(id);
            if id >= self.target.vocab_size || self.target.eos_ids.contains(&id) || text.len() >= limit {
                return fatal(ErrorCode::InvalidDraft);
            }
        }
        // What passed is text as the prompt is; the resampled token's scheme has no code that learns.
        drafting.scheme.prime(&draft.passed);
        if draft.stream > 0 {
            drafting.stream = draft.stream;
            return Reaction::Nothing;
        }
        let places = usize::from(draft.count) + usize::from(rules::has_bonus(drafting.rule) && !draft.continued);
        if draft.count > self.target.limits.max_draft_tokens || text.len() + places > limit {
            return fatal(ErrorCode::InvalidDraft);
        }
        match drafting.read(&draft.payload, draft.count) {
            Some(drafts) => drafting.drafts = Some(drafts),
            None => return fatal(ErrorCode::Malformed),
        }
        Reaction::Nothing
    }

    /// Returns true if these bytes are the Draft after a continued one that is under way.
    pub(super) fn would_wait(&self, bytes: &[u8]) -> bool {
        let Ok(Frame::Draft(draft)) = Frame::decode(bytes) else { return false };
        let Some(Generation { request, drafting: Some(drafting), .. }) = &self.generation else { return false };
        let expected = (request.generation, drafting.epoch, drafting.round.saturating_add(1));
        let is_next = (draft.generation, draft.epoch, draft.round) == expected;
        is_next && drafting.window > 1 && drafting.continued && drafting.is_busy()
    }

    fn resample(&self, number: u32, round: u32) -> Reaction {
        let Some(current) = &self.generation else { return self.late(number) };
        match &current.drafting {
            Some(drafting)
                if drafting.due
                    && drafting.samples().is_some()
                    && number == current.request.generation
                    && drafting.round.checked_sub(1) == Some(round) =>
            {
                Reaction::Distribution(number, round)
            }
            _ if number < current.request.generation => Reaction::Nothing,
            // It came again; the edge has drafted on since.
            Some(drafting)
                if drafting.samples().is_some()
                    && number == current.request.generation
                    && (round < drafting.round.saturating_sub(1) || round < drafting.round && drafting.is_busy()) =>
            {
                Reaction::Nothing
            }
            _ => fatal(ErrorCode::OutOfOrder),
        }
    }

    /// A frame about a generation that is not there.
    fn late(&self, number: u32) -> Reaction {
        if number <= self.last_generation { Reaction::Nothing } else { fatal(ErrorCode::OutOfOrder) }
    }

    /// Drafts that a round may have when the text is of this length.
    pub(super) fn room(&self, length: usize, drafting: &Drafting) -> usize {
        let limit = self.generation.as_ref().map_or(0, |current| current.limit(&self.target));
        let places = length + usize::from(rules::has_bonus(drafting.rule));
        limit.saturating_sub(places).min(self.target.limits.max_draft_tokens.into())
    }
}

impl Generation {
    /// Length at which the text ends at the latest.
    pub(super) fn limit(&self, target: &TargetInfo) -> usize {
        let most = self.request.tokens.len().saturating_add(self.request.max_new_tokens as usize);
        most.min(target.limits.context_length as usize)
    }

    /// Why the generation is over.
    pub(super) fn finish(&self, target: &TargetInfo) -> Option<Finish> {
        let length = self.text.len();
        if self.text.last().is_some_and(|id| target.eos_ids.contains(id)) {
            Some(Finish::Eos)
        } else if length - self.request.tokens.len() >= self.request.max_new_tokens as usize {
            Some(Finish::Length)
        } else {
            (length >= target.limits.context_length as usize).then_some(Finish::Context)
        }
    }

    /// Returns true if the target has a pass to run.
    pub(super) fn has_work(&self) -> bool {
        self.drafting.as_ref().is_none_or(Drafting::is_busy)
    }
}

impl Drafting {
    /// Returns true if a round is under way.
    fn is_busy(&self) -> bool {
        self.drafts.is_some() || self.stream > 0
    }

    /// The drafts of a payload.
    fn read(&self, payload: &[u8], count: u8) -> Option<Drafts> {
        let Some(kind) = self.statistic else { return self.scheme.decode_round(payload, count).ok() };
        let (lengths, payload) = rules::take(kind, payload, count)?;
        let drafts = self.scheme.decode_round(payload, count).ok()?;
        let Drafts::Distributions(tokens) = &drafts else { panic!("only distributions have statistics") };
        let fits = tokens.iter().zip(lengths).all(|(token, length)| self.numbers(token) == length);
        (kind == StatisticKind::Scalar || fits).then_some(drafts)
    }

    /// Number of values of a statistic that has more than one.
    pub(super) fn numbers(&self, token: &DraftToken) -> usize {
        self.of_vocabulary.unwrap_or(token.dist.ids().len())
    }

    /// Rows of logits that the round needs: one after the last token of the text and one after each draft, but the last
    /// if nothing follows it.
    pub(super) fn rows(&self) -> usize {
        let count = self.drafts.as_ref().map_or(0, Drafts::len);
        if count > 0 && !self.has_bonus() { count } else { count + 1 }
    }

    /// Returns true if a token follows the round where it is accepted whole.
    pub(super) fn has_bonus(&self) -> bool {
        rules::has_bonus(self.rule) && !self.continued
    }

    pub(super) fn resamples(&self) -> bool {
        matches!(self.parameters, SchemeParameters::Dssd { .. })
    }

    /// Number of samples that follow a rejection.
    pub(super) fn samples(&self) -> Option<usize> {
        match self.parameters {
            SchemeParameters::Dssd { downlink: Downlink::Sampled(count) } => Some(count.into()),
            _ => None,
        }
    }
}

fn fatal(code: ErrorCode) -> Reaction {
    Reaction::Error(0, code)
}
