//! Guesses at a text that the target writes: drafted ahead of it, sent as they come, and compared with what is written.
//!
//! Neither end waits for a verdict. The edge drafts what the shared noise makes of its own distribution, as under
//! coupled drafting, or the likeliest token if the target's draws are its own. Where that pays it drafts the next best
//! [candidate](super::candidates) beside the best. Where the target wrote otherwise it drops what it guessed after
//! that, and goes on from there. Where the text repeats itself or a passage of the page's, what followed there is
//! guessed instead, if that is right more often.

use core::time::Duration;

use outrider_codec::{
    error::ParameterError,
    frame::{Frame, Guesses, SamplingParameters, Tokens},
    scheme::{Drafts, Scheme, SchemeParameters},
};

use super::{
    super::tree::Key,
    candidates::{Candidates, Compared, Policy, Run, Source},
    error::EdgeError,
    event::{Committed, Origin},
    frames_unheard::{FramesUnheard, Sent},
    learned::Lessons,
    ledger::Books,
    reaction::{LogitsRow, Reaction, Received, Step, Told, check_chosen},
    recall::Recall,
    settings::{Ahead, Ends, Settings},
    text::Text,
};
use crate::{
    Choice, Chosen, Forward,
    control::{
        ahead::{AheadController, Goal},
        calibration::Calibration,
        observation::Observation,
        plan::Mode,
    },
    draft::DraftError,
    sample::{Distribution, SharedNoise, TopTwo},
    study::{evidence::TokenEvidence, statistics::AheadRecord},
};

/// Number of guesses that are made together to measure their time.
const TRIED: usize = 4;
/// Least rate of looked-up guesses that are sent while the draft model rests.
const LEAST_AT_REST: f64 = 0.5;

/// Guesses of an edge in one generation.
#[derive(Debug)]
pub(super) struct Guessing {
    generation: u32,
    /// Parameters of S(·) for the draft model.
    sampling: SamplingParameters,
    /// Noise that both ends choose by; `None`: the target's draws are its own.
    noise: Option<SharedNoise>,
    /// The code of token ids.
    scheme: Scheme,
    /// The most guesses that the server lets lie ahead of the text.
    most: usize,
    /// The most tokens that the draft model reads; `None` without one.
    context: Option<usize>,
    /// The most branches of them that the server takes.
    branches: usize,
    /// True to guess second candidates; `None`: by what is measured.
    wants_branches: Option<bool>,
    controller: AheadController,
    candidates: Candidates,
    /// True if the distribution that each guess was drawn from is reported.
    tells_evidence: bool,
    /// The patience that was sent to the server last.
    told_patience: u32,
    /// Text and guesses that the draft model's cache holds.
    cached: Vec<u32>,
    /// The forward pass under way.
    draft: Option<DraftUnderWay>,
    /// The last draft, if it continued the line and no wait has followed it.
    busy: Option<Busy>,
    frames: FramesUnheard,
    /// Time at which tokens came that proved guesses wrong, until others are sent.
    corrected: Option<Duration>,
    calibration: Calibration,
    /// Number of guesses that were right, directly before the text's end.
    run: usize,
    /// Guesses that need no draft model; `None` under a fixed plan.
    recall: Option<Recall>,
    /// Guesses that were looked up since the last frame.
    found: usize,
    /// True once a token has come.
    has_begun: bool,
}

/// A draft that the next one follows with nothing in between but what has to be done.
#[derive(Debug)]
struct Busy {
    since: Duration,
    /// Number of guesses that it gave, and of frames sent since it began.
    drafts: u32,
    frames: u32,
}

/// A forward pass of the draft model.
#[derive(Debug)]
struct DraftUnderWay {
    began: Duration,
    /// The guess that it comes after; `None`: the text.
    at: Option<Key>,
    /// True if the text has gone another way meanwhile.
    is_stale: bool,
    /// True if it reads several guesses that were looked up: its time is no draft's.
    catches_up: bool,
}

impl Guessing {
    /// The state before the first guess.
    pub(super) fn new(
        generation: u32,
        ahead: Ahead,
        settings: &Settings,
        ends: Ends<'_>,
        lessons: &mut Lessons,
    ) -> Result<Self, ParameterError> {
        let scheme = Scheme::new(SchemeParameters::Coupled, ends.draft.vocab_size)?;
        let mut controller = lessons.controller(ahead.fixed, ends.server);
        let goal = if ends.server.limits.fewest_passes { Goal::Passes } else { ahead.goal };
        controller.next_generation(ahead.fixed, goal, !ends.server.limits.own_draws);
        Ok(Self {
            generation,
            sampling: settings.draft_sampling(),
            noise: (!ends.server.limits.own_draws).then(|| SharedNoise::new(settings.seed)),
            scheme,
            most: ends.server.limits.max_guesses.min(ends.server.limits.max_draft_tokens).into(),
            context: Some(ends.draft.context_length as usize).filter(|&tokens| tokens > 0),
            branches: ends.server.limits.max_branches.into(),
            wants_branches: ahead.branches,
            controller,
            candidates: Candidates::default(),
            tells_evidence: ahead.evidence,
            told_patience: 0,
            cached: Vec::new(),
            draft: None,
            busy: None,
            frames: FramesUnheard::none(),
            corrected: None,
            calibration: std::mem::take(&mut lessons.calibration),
            run: 0,
            found: 0,
            recall: (ahead.fixed.is_none() && !ahead.drafts_only).then(|| Recall::new(lessons)),
            has_begun: false,
        })
    }

    /// Passes on what has been measured to the next generation.
    pub(super) fn teach(self, lessons: &mut Lessons) {
        (lessons.ahead, lessons.calibration) = (Some(self.controller), self.calibration);
        self.recall.into_iter().for_each(|recall| recall.teach(lessons));
    }

    /// True if there are guesses after the text.
    pub(super) fn has_guesses(&self) -> bool {
        self.candidates.len() > 0
    }

    /// The line of guesses after the text, and for each the chance that it and all before it are right.
    pub(super) fn line(&self) -> (Vec<u32>, Vec<f64>) {
        let mut chance = 1.0;
        let line = (self.run..).zip(self.candidates.line()).map(|(run, (id, source))| {
            chance *= match source {
                Source::Drafted(clarity) => self.calibration.chance(clarity.map(|clarity| clarity.after(run))),
                Source::Found { matched } => self.recall.as_ref().map_or(0.0, |recall| recall.rate(matched)),
            };
            (id, chance)
        });
        line.unzip()
    }

    /// A forward pass that continues the line without a connection, up to `most` guesses; `None` if the line is that
    /// long or no guess can follow.
    pub(super) fn offline_step(&mut self, text: &Text, most: usize, now: Duration) -> Option<Forward> {
        if self.draft.is_some() || self.context.is_none() {
            return None;
        }
        let policy = Policy { lead: most, most: usize::MAX, branches: 0, ..self.policy(text) };
        let at = self.candidates.next(policy, |id| text.is_end(id))?;
        self.busy = None;
        Some(self.draft_after(at, text, now))
    }

    /// Takes the guesses of the same text in a session that the server has forgotten.
    pub(super) fn take_over(&mut self, candidates: Candidates) {
        self.candidates = candidates;
        self.candidates.resumed();
    }

    /// Gives up the guesses, for another session.
    pub(super) fn take_candidates(&mut self) -> Candidates {
        std::mem::take(&mut self.candidates)
    }

    /// The connection is another: what was under way may be lost.
    pub(super) fn resumed(&mut self) {
        self.candidates.resumed();
        (self.frames, self.corrected) = (FramesUnheard::default(), None);
    }

    /// True if there is something to draft.
    pub(super) fn is_ahead(&self, text: &Text) -> bool {
        self.draft.is_none() && self.next_draft(text).is_some()
    }

    /// True if the next draft comes after a second candidate.
    pub(super) fn has_time(&self, text: &Text) -> bool {
        self.next_draft(text).is_some_and(|at| !self.candidates.is_on_line(at))
    }

    /// The next step, if there is one.
    pub(super) fn next_step(&mut self, text: &Text, now: Duration) -> Option<Step> {
        self.look_up(text);
        let policy = self.policy(text);
        if !self.rests() {
            self.candidates.branch(policy);
        }
        let next = self.next_draft(text);
        let (plan, to_come) = (self.controller.plan(), next.is_some());
        let patience = plan.patience_on_the_wire();
        if let Some(run) = self.candidates.send(text.len(), plan.group, next, policy) {
            return Some(Step::Tell(self.tell(run, patience, now)));
        }
        // It is to wait for the first guesses, too, and must not wait for what will not come.
        let begins = to_come && self.candidates.is_new() && patience > 0;
        if begins || !to_come && self.told_patience > 0 && !self.candidates.is_any_sent() {
            let run = self.candidates.nothing(text.len());
            return Some(Step::Tell(self.tell(run, if begins { patience } else { 0 }, now)));
        }
        let busy = self.busy.take();
        let at = next.filter(|_| self.draft.is_none())?;
        if self.candidates.is_on_line(at) {
            if let Some(Busy { since, drafts, frames: 1 }) = busy {
                let took = now.saturating_sub(since);
                self.controller.observe(Observation::Framed { took, drafts: drafts as usize });
            }
            self.busy = Some(Busy { since: now, drafts: 1, frames: 0 });
        }
        Some(Step::Forward(self.draft_after(at, text, now)))
    }

    /// Continues the line by what followed the text's end earlier, if that is right more often than drafts.
    fn look_up(&mut self, text: &Text) {
        let Policy { most, depth, rates, .. } = self.policy(text);
        let least = if self.rests() { LEAST_AT_REST } else { rates[0] };
        let Some(recall) = self.recall.as_mut().filter(|_| self.draft.is_none()) else { return };
        let (expected, matched) = recall.guesses(text, least, most.min(depth));
        self.found += self.candidates.continue_line(&expected, Source::Found { matched }, most);
    }

    /// Begins a pass of the draft model after a guess, or after the text.
    fn draft_after(&mut self, at: Option<Key>, text: &Text, now: Duration) -> Forward {
        let fed = [text.ids(), &self.candidates.path(at)].concat();
        let same = self.cached.iter().zip(&fed).take_while(|(cached, id)| cached == id).count();
        // The row of the last one is wanted.
        let keep = same.min(fed.len() - 1);
        let forward = Forward::new(keep, fed[keep..].to_vec(), 1);
        let catches_up = self.recall.is_some() && fed.len() - keep > TRIED && !self.cached.is_empty();
        self.cached = fed;
        self.draft = Some(DraftUnderWay { began: now, at, is_stale: false, catches_up });
        forward
    }

    /// The guess, or the text, after which another draft is of use; `None` if none is, or the server has no room.
    fn next_draft(&self, text: &Text) -> Option<Option<Key>> {
        if self.rests() {
            return None;
        }
        self.candidates.next(self.policy(text), |id| text.is_end(id))
    }

    /// True if nothing is drafted for now. Before the first token guesses are all that a user can see.
    fn rests(&self) -> bool {
        self.context.is_none() || self.has_begun && self.controller.plan().mode == Mode::Alone
    }

    fn policy(&self, text: &Text) -> Policy {
        // The last token is the target's own in any case.
        let room = text.length_limit().saturating_sub(text.len() + 1);
        let plan = self.controller.plan();
        Policy {
            lead: plan.lead,
            rates: plan.rates,
            branches: if self.is_branching() { self.branches } else { 0 },
            most: self.most,
            depth: room.min(self.context.map_or(room, |context| context.saturating_sub(text.len()))),
        }
    }

    /// True if second candidates are guessed.
    fn is_branching(&self) -> bool {
        self.branches > 0 && self.wants_branches.unwrap_or_else(|| self.controller.plan().branches)
    }

    /// Makes a frame of guesses.
    fn tell(&mut self, run: Run, patience: u32, now: Duration) -> Told {
        let Run { chain, parent, position, ids } = run;
        self.told_patience = patience;
        self.frames.send(Sent { at: now, end: position + ids.len() });
        if let Some(busy) = &mut self.busy {
            busy.frames += 1;
        }
        if !ids.is_empty()
            && let Some(since) = self.corrected.take()
        {
            self.controller.observe(Observation::Corrected { after: now.saturating_sub(since), drafts: ids.len() });
        }
        let count = ids.len() as u8;
        // Every id is below V.
        let payload = self.scheme.encode_round(&Drafts::Ids(ids)).unwrap_or_default();
        let (generation, position) = (self.generation, position as u32);
        let (payload_bits, found) = (8 * payload.len(), std::mem::take(&mut self.found));
        let frame = Frame::Guesses(Guesses { generation, chain, parent, position, patience, count, payload });
        Told { bytes: frame.encode(), payload_bits, found }
    }

    /// Takes the time of drafts, unless they caught up with guesses that were looked up.
    fn took(&mut self, took: Duration, count: usize, catches_up: bool) {
        if !catches_up {
            self.controller.observe(Observation::Drafted { took, count });
        }
    }

    /// A row of logits has come.
    pub(super) fn handle_logits(
        &mut self,
        row: LogitsRow<'_>,
        books: &mut Books<'_>,
        now: Duration,
    ) -> Result<Reaction, EdgeError> {
        let Some(DraftUnderWay { began, at, is_stale, catches_up }) = self.draft.take() else {
            return Ok(Reaction::Wait);
        };
        row.check(books.text.vocab_size())?;
        let took = now.saturating_sub(began);
        self.took(took, 1, catches_up);
        books.ledger.guessed(took);
        if !is_stale {
            let q = Distribution::new(row.logits, &self.sampling).map_err(DraftError::from)?;
            let position = books.text.len() + self.candidates.path(at).len();
            let best = self.best_two(position, &q);
            let bits = self.scheme.fixed_token_bits();
            let evidence = self.tells_evidence.then(|| TokenEvidence::of_guess(&q.dense(), bits));
            let source = Source::Drafted(Some(best.clarity(&q)));
            let second = best.second.filter(|_| self.is_branching());
            self.candidates.drafted(at, (best.first, source), second, evidence);
        }
        Ok(Reaction::Wait)
    }

    /// The choice by which the engine may choose the guesses of the pass under way, if that need not be done
    /// [here](Self::handle_logits). No more of them than are sent together, because frames that arrive meanwhile are
    /// not read.
    pub(super) fn choice(&self, text: &Text) -> Option<Choice> {
        let DraftUnderWay { at, is_stale, .. } = *self.draft.as_ref()?;
        if self.tells_evidence {
            return None;
        }
        let seed = self.noise.as_ref().map(SharedNoise::seed).filter(|_| self.sampling.temperature > 0.0);
        let most = if is_stale || !self.candidates.is_on_line(at) { 1 } else { self.missing_of_a_group(text) };
        Some(Choice { seed, sampling: self.sampling, most })
    }

    /// Number of guesses that may continue the line until a group is whole; at least 1.
    fn missing_of_a_group(&self, text: &Text) -> usize {
        let (policy, length) = (self.policy(text), self.candidates.line_length());
        let plan = self.controller.plan();
        let group = plan.group.max(if plan.tries_group { TRIED } else { 1 });
        let left = group.saturating_sub(self.candidates.unsent());
        let room = policy.lead.min(policy.depth).saturating_sub(length);
        left.min(room).min(policy.most.saturating_sub(self.candidates.len())).max(1)
    }

    /// Takes guesses that the draft model's engine has chosen.
    pub(super) fn handle_chosen(
        &mut self,
        chosen: &[Chosen],
        books: &mut Books<'_>,
        now: Duration,
    ) -> Result<Reaction, EdgeError> {
        let Some(DraftUnderWay { began, mut at, is_stale, catches_up }) = self.draft.take() else {
            return Ok(Reaction::Wait);
        };
        check_chosen(chosen, books.text.vocab_size())?;
        let (took, drafts) = (now.saturating_sub(began), chosen.len() as u32);
        self.took(took, chosen.len(), catches_up);
        if let Some(busy) = &mut self.busy {
            busy.drafts = drafts;
        }
        // It has read all but the last.
        self.cached.extend(chosen[1..].iter().zip(chosen).map(|(_, before)| before.first));
        let mut goes_on = !is_stale;
        for Chosen { first, second } in chosen {
            books.ledger.guessed(took / drafts);
            if goes_on {
                let source = Source::Drafted(None);
                at = self.candidates.drafted(at, (*first, source), second.filter(|_| self.is_branching()), None);
                goes_on = at.is_some() && !books.text.is_end(*first) && self.candidates.len() < self.most;
            }
        }
        Ok(Reaction::Wait)
    }

    /// The best guess at a position and the next best: by the shared noise, or else what the target most likely draws.
    /// It accepts that with the probability it gives it.
    fn best_two(&self, position: usize, q: &Distribution<'_>) -> TopTwo {
        self.noise.as_ref().map_or_else(|| TopTwo::likeliest(q), |noise| noise.choose_two(position, q))
    }

    /// Takes tokens, which are committed. Returns where each came from.
    pub(super) fn handle_tokens(
        &mut self,
        tokens: &Tokens,
        received: Received,
        books: &mut Books<'_>,
    ) -> Result<Committed, EdgeError> {
        self.has_begun = true;
        let (mut committed, mut evidence) = (Vec::with_capacity(tokens.ids.len()), Vec::new());
        let (before, mut is_right) = (books.text.len(), true);
        for (index, &id) in tokens.ids.iter().enumerate() {
            let judged = index < tokens.accepted.into() && !tokens.own;
            if self.tells_evidence {
                evidence.push(self.candidates.take_evidence());
            }
            let first = self.candidates.line().next();
            let Compared { guesses, candidates, right, key, was_sent } = self.candidates.advance(id);
            // Over another connection come answers to what was sent over the last.
            if judged && !was_sent {
                return Err(EdgeError::ImpossibleVerdict { what: "it accepts a guess that was not made" });
            }
            is_right &= right == Some(0);
            if let Some((guess, Source::Drafted(clarity))) = first {
                self.calibration.observe(clarity.map(|clarity| clarity.after(self.run)), guess == id);
            }
            self.run = if first.is_some_and(|(guess, _)| guess == id) { self.run + 1 } else { 0 };
            // What was looked up says nothing of the draft model.
            if !matches!(first, Some((_, Source::Found { .. }))) {
                self.controller.observe(Observation::Compared { candidates, right });
            }
            if let Some(recall) = &mut self.recall {
                recall.observe(books.text, id);
            }
            let right = right.filter(|which| *which < guesses);
            if guesses > 0 {
                books.ledger.compared(right, judged);
            }
            if let Some(draft) = &mut self.draft {
                match draft.at {
                    Some(key) if self.candidates.has(key) => {}
                    Some(_) if draft.at == key => draft.at = None,
                    _ => draft.is_stale = true,
                }
            }
            let is_last = index + 1 == tokens.ids.len();
            books.text.write_streamed(id, tokens.finish.filter(|_| is_last))?;
            committed.push((
                id,
                match right {
                    _ if judged => Origin::Accepted,
                    Some(_) => Origin::Late,
                    None => Origin::Cloud,
                },
            ));
        }
        let pass = Duration::from_micros(100) * tokens.pass;
        let is_first = books.ledger.awaited(received.at).filter(|_| !pass.is_zero());
        let first = is_first.map(|after| Observation::FirstToken { after, pass });
        let answer = self.frames.hear(tokens.heard, received.at, pass).map(Observation::Answered);
        for observation in first.into_iter().chain(answer) {
            self.controller.observe(observation);
        }
        if !pass.is_zero() {
            if tokens.own {
                self.controller.observe(Observation::PassedAlone(pass));
            } else {
                // The first reads the prompt; where second candidates are judged as well the line says too little.
                let is_told = is_first.is_none() && !self.is_branching();
                let at_hand = is_told.then(|| self.frames.reach().saturating_sub(before));
                self.controller.observe(Observation::Passed { took: pass, accepted: tokens.accepted.into(), at_hand });
            }
        }
        if !is_right {
            self.frames.forget_guesses();
            self.corrected = (!self.rests()).then_some(received.at);
        }
        let is_chosen = self.controller.observe(Observation::Written { tokens: tokens.ids.len(), now: received.at });
        if is_chosen || tokens.finish.is_some() {
            books.ledger.paced(AheadRecord { branches: self.is_branching(), ..AheadRecord::from(&self.controller) });
        }
        books.ledger.wrote(tokens.ids.len(), received.at);
        Ok(Committed { tokens: committed, evidence, round: None })
    }
}
