//! One generation on the cloud: the committed tokens, the drafts under verification, and what follows from a judgement.

use core::time::Duration;
use std::sync::Arc;

use outrider_codec::{
    frame::{
        Distribution, Draft, ErrorCode, Evidence, Finish, Frame, Guesses, Prompt, Request, SamplingParameters,
        TargetDist, Tokens, Verdict,
    },
    scheme::{Scheme, SchemeParameters},
};

use super::{
    chains::Limits,
    events::{CloudEvent, Progress},
    failure::Failure,
    flight::Flight,
    guesses::{Admitted, Chosen, GuessQueue, Known},
    shaping::{PassShaping, Shaping, ShapingOptions},
    target::{OwnDraft, OwnDrafts, Pass, TargetInfo},
};
use crate::{
    Forward,
    control::goodput::Prices,
    judge::{
        Judgement, NextToken, Round, Verification as Method,
        rules::Rule,
        unscaled::{self, Transport},
    },
};

mod shaped;
mod verification;

/// A generation under way.
#[derive(Debug)]
pub(super) struct Generation {
    number: u32,
    sampling: SamplingParameters,
    seed: u64,
    committed: Vec<u32>,
    /// Length that `committed` may grow to.
    length_limit: usize,
    /// Number of tokens of `committed` that the cache holds.
    cached: usize,
    writer: Writer,
    shaping: Option<Arc<dyn Shaping>>,
    /// Options of a change of logits that is still to be made.
    options: Option<ShapingOptions>,
}

/// The end that writes the text.
#[derive(Debug)]
pub(super) enum Writer {
    /// The edge drafts, and the target verifies.
    Both(Box<Verification>),
    /// The target, whose text does not depend on the guesses at it. `None`: it has draws of its own, and there are no
    /// guesses.
    Target(Option<Box<GuessQueue>>),
}

/// Further state of a generation that the edge drafts for.
#[derive(Debug)]
pub(super) struct Verification {
    parameters: SchemeParameters,
    scheme: Scheme,
    rule: Rule,
    /// The way that the accepted drafts of a round are chosen.
    method: Method,
    /// Encoding of the statistics that the rule needs.
    statistics: Transport,
    /// True if the edge wants the distributions by which drafts were judged.
    evidence: bool,
    /// The round at work, and those that wait.
    flight: Flight,
    /// The round at work, if it has drafts to be judged.
    round: Option<Arc<Round>>,
    /// Tokens that the target is to write alone before the next round.
    stream: u32,
    /// DSSD: the edge resamples the token that comes next, from this, and says with its next drafts what it is.
    edge_resamples: Option<TargetDist>,
}

impl Writer {
    /// Verification of drafts under a scheme and a rule.
    pub(super) fn both(prompt: &Prompt, target: &TargetInfo) -> Result<Self, Failure> {
        let Prompt { request, scheme: parameters, rule, evidence, blocks, max_in_flight } = prompt;
        let refuse = |text| Failure::generation(request.generation, ErrorCode::InvalidParameters, text);
        if *max_in_flight > target.limits.max_in_flight {
            let most = target.limits.max_in_flight;
            return Err(refuse(format!("{max_in_flight} rounds in flight are more than the {most} allowed here.")));
        }
        let mut scheme = Scheme::new(*parameters, target.vocab_size)
            .map_err(|error| refuse(format!("The scheme cannot be used: {error}.")))?;
        scheme.prime(&request.tokens);
        let rule = Rule::from_wire(rule.number, rule.parameter)
            .map_err(|error| refuse(format!("The acceptance rule cannot be used: {error}.")))?;
        unscaled::check(&rule, *parameters, &request.sampling)
            .map_err(|error| refuse(format!("The acceptance rule cannot be used: {error}.")))?;
        Ok(Self::Both(Box::new(Verification {
            parameters: *parameters,
            scheme,
            statistics: Transport::new(&rule, &request.sampling, *parameters, target.vocab_size),
            rule,
            method: if *blocks { Method::Block } else { Method::Token },
            evidence: *evidence,
            flight: Flight::new(*max_in_flight),
            round: None,
            stream: 0,
            edge_resamples: None,
        })))
    }

    /// A target that writes, as fast as it can.
    /// Guesses at other texts were right as often as `known` says.
    pub(super) fn target(request: &Request, target: &TargetInfo, known: Known) -> Result<Self, Failure> {
        let queue = (target.limits.max_guesses > 0).then(|| GuessQueue::new(target.vocab_size, known)).transpose();
        queue.map(|queue| Self::Target(queue.map(Box::new))).map_err(|error| {
            let text = format!("Nothing can be guessed: {error}.");
            Failure::generation(request.generation, ErrorCode::InvalidParameters, text)
        })
    }

    /// The scheme of the drafts, if the edge drafts.
    pub(super) fn scheme(&self) -> Option<SchemeParameters> {
        match self {
            Self::Both(verification) => Some(verification.parameters),
            Self::Target(_) => None,
        }
    }
}

impl Generation {
    pub(super) fn new(request: Request, writer: Writer) -> Self {
        Self {
            number: request.generation,
            sampling: request.sampling,
            seed: request.seed,
            length_limit: request.tokens.len().saturating_add(request.max_new_tokens as usize),
            committed: request.tokens,
            cached: 0,
            writer,
            shaping: None,
            options: None,
        }
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Tokens of the text, prompt included.
    pub(super) fn length(&self) -> usize {
        self.committed.len()
    }

    /// The round that a pass is for, or the next.
    pub(super) fn round_number(&self) -> u32 {
        match &self.writer {
            Writer::Both(verification) => verification.flight.round(),
            Writer::Target(_) => 0,
        }
    }

    /// A round of drafts has come. Gives the first round of which the edge may not have all frames yet, or `None` if
    /// this one comes again or too late: that changes nothing.
    pub(super) fn draft(&mut self, draft: Draft) -> Result<Option<u32>, Failure> {
        if draft.generation < self.number {
            return Ok(None);
        }
        let Writer::Both(verification) = &mut self.writer else {
            return Err(Failure::out_of_order("Draft came in a cloud-only generation"));
        };
        if draft.generation != self.number {
            return Err(Failure::out_of_order(&format!(
                "Draft {}/{} came while generation {} is under way",
                draft.generation, draft.round, self.number
            )));
        }
        verification.flight.admit(draft)
    }

    /// Goes on to the next round, if one waits and none is at work.
    pub(super) fn begin_round(&mut self, target: &TargetInfo) -> Result<(), Failure> {
        let Writer::Both(verification) = &mut self.writer else { return Ok(()) };
        let Some(draft) = verification.flight.begin() else { return Ok(()) };
        let context = target.limits.context_length as usize;
        let limit = self.length_limit.min(context);
        match (draft.resampled, verification.edge_resamples.take()) {
            (None, None) => {}
            (Some(_), None) => return Err(Failure::out_of_order("a resampled token came where none was due")),
            (None, Some(_)) => return Err(Failure::out_of_order("the resampled token is missing")),
            (Some(id), Some(_)) => {
                if target.is_last(id) || self.committed.len() + 1 >= limit {
                    return Err(Failure::invalid_draft("the resampled token ends the text, or overflows it"));
                }
                self.committed.push(id);
            }
        }
        // What ends the text the edge sees, and cancels.
        let ends = draft.passed.iter().any(|&id| target.is_last(id));
        if ends || self.committed.len() + draft.passed.len() >= limit {
            return Err(Failure::invalid_draft("the passed tokens end the text, or overflow it"));
        }
        self.committed.extend(&draft.passed);
        verification.scheme.prime(&draft.passed);
        if draft.stream > 0 {
            verification.stream = draft.stream;
            return Ok(());
        }
        let room = limit - self.committed.len() - usize::from(verification.rule.info().has_bonus && !draft.continued);
        let count = usize::from(draft.count);
        if draft.count > target.limits.max_draft_tokens || count > room {
            let allowed = room.min(target.limits.max_draft_tokens.into());
            return Err(Failure::invalid_draft(&format!("{count} drafts are more than the {allowed} allowed here")));
        }
        let (statistics, payload) = verification.statistics.decode(&draft.payload, draft.count)?;
        let drafts = verification.scheme.decode_round(payload, draft.count)?;
        let statistics = verification.statistics.complete(statistics, &drafts)?;
        let round = verification.round(Round::alone(self.sampling, self.seed, self.committed.len()));
        verification.round = Some(Arc::new(Round { drafts, statistics, continued: draft.continued, ..round }));
        Ok(())
    }

    /// The edge asks for the distribution of the last verdict; nothing, if it asks again and has gone on meanwhile.
    pub(super) fn resample(&self, number: u32, round: u32) -> Result<Option<Frame>, Failure> {
        let is_late = match &self.writer {
            Writer::Both(verification) if verification.sends_samples() => {
                round < verification.flight.round().saturating_sub(u32::from(!verification.flight.is_busy()))
            }
            _ => false,
        };
        if number < self.number || number == self.number && is_late {
            return Ok(None);
        }
        let expected = match &self.writer {
            Writer::Both(verification) if verification.sends_samples() => {
                verification.edge_resamples.as_ref().map(|target| (verification.flight.round(), target))
            }
            _ => None,
        };
        match expected {
            Some((next, target)) if number == self.number && next.checked_sub(1) == Some(round) => {
                Ok(Some(Frame::Distribution(Distribution { generation: number, round, target: target.clone() })))
            }
            _ => Err(Failure::out_of_order("Resample came where there is nothing to resample")),
        }
    }

    /// Takes guesses from the edge.
    pub(super) fn guess(&mut self, guesses: &Guesses, target: &TargetInfo) -> Result<Option<Admitted>, Failure> {
        if guesses.generation < self.number {
            return Ok(None);
        }
        match &mut self.writer {
            Writer::Target(Some(queue)) if guesses.generation == self.number => {
                let limits =
                    Limits { guesses: target.limits.max_guesses.into(), branches: target.limits.max_branches.into() };
                queue.admit(guesses, &self.committed, limits)
            }
            _ => Err(Failure::out_of_order("Guesses came where nothing is to be guessed")),
        }
    }

    /// The share of guesses that was right, if the generation takes guesses.
    pub(super) fn known(&self) -> Option<Known> {
        match &self.writer {
            Writer::Target(Some(queue)) => Some(queue.known()),
            _ => None,
        }
    }

    /// True if drafts of the server's own pay.
    pub(super) fn may_draft(&self, prices: Prices) -> bool {
        matches!(&self.writer, Writer::Target(Some(queue)) if queue.begin_drafting(prices, 1) > 0)
    }

    /// Drafts that the server is to make before the next pass, if they pay; asked once a pass.
    pub(super) fn begin_drafting(&self, target: &TargetInfo, prices: Prices) -> Option<OwnDrafts> {
        let Writer::Target(Some(queue)) = &self.writer else { return None };
        // The first pass reads the prompt, which takes long and gives one token.
        let most = if self.cached > 0 { self.room(target) } else { 0 };
        let count = queue.begin_drafting(prices, most);
        let (sampling, seed) = (self.sampling, self.seed);
        let depth = || Box::new(queue.depth(prices, most));
        (count > 0).then(|| OwnDrafts { text: self.committed.clone(), count, depth: depth(), sampling, seed })
    }

    /// The server has guessed these.
    pub(super) fn drafted(&mut self, drafts: Vec<OwnDraft>) {
        if let Writer::Target(Some(queue)) = &mut self.writer {
            queue.drafted(drafts);
        }
    }

    /// The most tokens that the text may still grow by.
    fn left(&self, target: &TargetInfo) -> usize {
        self.length_limit.min(target.limits.context_length as usize) - self.committed.len()
    }

    /// The most guesses that a pass may judge. After the last one the target writes a token of its own.
    fn room(&self, target: &TargetInfo) -> usize {
        (self.left(target) - 1).min(target.limits.max_draft_tokens.into())
    }

    /// Time that the next pass is to be held for a guess, if it is; asked once a pass.
    pub(super) fn begin_hold(&mut self, target: &TargetInfo) -> Option<Duration> {
        match &mut self.writer {
            // The first pass reads the prompt: nothing that could come would save it. A target with draws of its own
            // writes on and cannot be held.
            Writer::Target(Some(queue)) if self.cached > 0 && !target.limits.own_draws => queue.begin_hold(),
            _ => None,
        }
    }

    /// The next pass has been held long enough.
    pub(super) fn end_hold(&mut self) {
        if let Writer::Target(Some(queue)) = &mut self.writer {
            queue.end_hold();
        }
    }

    /// The pass that moves this generation on, if there is anything to do.
    pub(super) fn next_pass(&mut self, target: &TargetInfo, prices: Prices) -> Option<Pass> {
        let alone = || Round::alone(self.sampling, self.seed, self.committed.len());
        let mut tokens = self.committed[self.cached..].to_vec();
        let (room, left) = (self.room(target), self.left(target));
        let (round, rows) = match &mut self.writer {
            Writer::Target(None) => (Arc::new(alone()), 1),
            Writer::Target(Some(queue)) if queue.is_held() => return None,
            Writer::Target(Some(queue)) => {
                let Chosen { line, mut branches } = queue.choose(prices, room);
                if self.shaping.is_some() {
                    branches.clear();
                }
                tokens.extend(&line);
                let rows = line.len() + 1;
                let round = Round::ahead(self.sampling, self.seed, self.committed.len(), line);
                (Arc::new(Round { branches, ..round }), rows)
            }
            Writer::Both(verification) => match &verification.round {
                Some(round) => {
                    let rows = round.rows();
                    tokens.extend(round.drafts.ids().into_iter().take(rows - 1));
                    (Arc::clone(round), rows)
                }
                None => {
                    // Read the prompt while the edge drafts. Its last token waits for the drafts: their row comes with
                    // it.
                    let reads = verification.stream == 0;
                    if reads {
                        tokens.pop();
                    }
                    if tokens.is_empty() {
                        return None;
                    }
                    (Arc::new(verification.round(alone())), usize::from(!reads))
                }
            },
        };
        let shaped = |by: &Arc<dyn Shaping>| Box::new(PassShaping { by: Arc::clone(by), text: self.committed.clone() });
        let shaping = self.shaping.as_ref().filter(|_| rows > 0).map(shaped);
        Some(Pass { forward: Forward::new(self.cached, tokens, rows), round, left, shaping })
    }

    /// The cache has read the committed tokens up to a length; nothing else follows.
    pub(super) fn read(&mut self, length: usize) {
        self.cached = length;
    }

    /// Goes on from the judgement of a round, which has been [checked](Round::check). The pass took the time `long`.
    pub(super) fn advance(
        &mut self,
        round: &Round,
        judgement: Judgement,
        long: Duration,
        target: &TargetInfo,
    ) -> Progress {
        match &mut self.writer {
            Writer::Both(verification) if verification.stream == 0 => self.conclude(round, judgement, target),
            _ => self.write(round, &judgement, long, target),
        }
    }

    /// Writes the target's tokens: the guesses that were its choice, and the token after them.
    fn write(&mut self, round: &Round, judgement: &Judgement, long: Duration, target: &TargetInfo) -> Progress {
        let mut ids = round.line(judgement.branch);
        ids.truncate(judgement.accepted);
        match (ids.iter().position(|id| target.eos_ids.contains(id)), &judgement.next) {
            // Guesses after the end of the text are dropped.
            (Some(last), _) => ids.truncate(last + 1),
            (None, NextToken::Token(token)) => ids.push(*token),
            // There is one, without a scheme and with that of ids.
            (None, _) => return Progress::default(),
        }
        let accepted = judgement.accepted.min(ids.len());
        // A target with draws of its own judges guesses as far as its text has come.
        let judged = if target.limits.own_draws { round.guesses_at(ids.len()) } else { round.guesses() };
        let (heard, own, branched) = match &mut self.writer {
            Writer::Both(verification) => {
                verification.write(&ids);
                (0, false, 0)
            }
            Writer::Target(None) => (0, false, 0),
            Writer::Target(Some(queue)) => {
                let branched = queue.written(self.committed.len(), &ids, judged);
                (queue.taken(), queue.judged_own(), branched)
            }
        };
        self.cached = self.committed.len() + round.on_drafts(judgement.branch, accepted);
        let (generation, position) = (self.number, self.committed.len() as u32);
        let finish = self.commit(&ids, None, target);
        let event = CloudEvent::Wrote { tokens: ids.len(), judged, accepted, branched: branched.min(accepted), own };
        let pass = (long.as_micros() / 100).min(u32::MAX.into()) as u32;
        let accepted = accepted as u8;
        let tokens = Tokens { generation, position, ids, accepted, own: own && accepted > 0, heard, pass, finish };
        Progress { frames: vec![Frame::Tokens(tokens)], event: Some(event), finish }
    }

    /// The end of a round of drafts.
    fn conclude(&mut self, round: &Round, judgement: Judgement, target: &TargetInfo) -> Progress {
        let Writer::Both(verification) = &mut self.writer else { return Progress::default() };
        let Judgement { mut accepted, mut next, mut judged, .. } = judgement;
        verification.round = None;
        let ids = round.drafts.ids();
        // An end-of-text token among the accepted drafts is the last token; what was drafted after it never was.
        if let Some(last) = ids[..accepted].iter().position(|id| target.eos_ids.contains(id)) {
            accepted = last + 1;
            next = NextToken::Nothing;
            judged.truncate(accepted);
        }
        let token = if let NextToken::Token(token) = next { Some(token) } else { None };
        verification.scheme.commit(&round.drafts, accepted, token);
        let (generation, number) = (self.number, verification.flight.round());
        verification.flight.end(accepted == ids.len());
        let follows = usize::from(next != NextToken::Nothing);
        let event = CloudEvent::Judged {
            proposed: ids.len(),
            accepted,
            committed: accepted + follows,
            resampled: accepted < ids.len() && follows == 1,
        };
        let (next, edge_resamples) = verification.downlink(next);
        let awaits_edge = edge_resamples.is_some();
        verification.edge_resamples = edge_resamples;
        // The cache holds the committed tokens and the drafts that were fed; what follows the accepted ones is cut by
        // the next pass.
        self.cached = self.committed.len() + accepted.min(round.rows() - 1);
        let finish = self.commit(&ids[..accepted], token, target).filter(|_| !awaits_edge);
        let evidence = judged.into_iter().zip(0u8..).map(|(judged, index)| {
            Frame::Evidence(Evidence {
                generation,
                round: number,
                index,
                rejection: probability(judged.rejection),
                divergence: probability(judged.divergence),
                target: judged.target,
            })
        });
        let verdict = Frame::Verdict(Verdict { generation, round: number, accepted: accepted as u8, next, finish });
        Progress { frames: evidence.chain([verdict]).collect(), event: Some(event), finish }
    }

    /// Commits tokens, and says why the generation is over if it is.
    fn commit(&mut self, accepted: &[u32], token: Option<u32>, target: &TargetInfo) -> Option<Finish> {
        self.committed.extend(accepted);
        self.committed.extend(token);
        if self.committed.last().is_some_and(|id| target.eos_ids.contains(id)) {
            Some(Finish::Eos)
        } else if self.committed.len() >= self.length_limit {
            Some(Finish::Length)
        } else if self.committed.len() >= target.limits.context_length as usize {
            Some(Finish::Context)
        } else {
            None
        }
    }
}

/// Cuts a computed probability to [0, 1], which rounding may leave a little.
fn probability(value: f64) -> f32 {
    value.clamp(0.0, 1.0) as f32
}
