//! The drafting half of a generation: draft until something says stop, send, take the verdict, roll back, go on.

use core::time::Duration;

use outrider_codec::frame::{Distribution, Draft, Evidence, Frame, Verdict};

use super::{
    drafter::{Drafter, PassedToken, Slot},
    error::EdgeError,
    event::{Committed, Origin},
    flight::{Flight, SentRound},
    learned::Lessons,
    ledger::{self, Books, Ledger},
    planner::Planner,
    reaction::{LogitsRow, Outgoing, Reaction, Received, Step},
    text::Text,
    verdict::{self, Expected, Ruling, Settlement},
};
use crate::{
    Forward,
    control::observation::Observation,
    draft::gate::{Gate, Held},
};

mod chosen;

/// State of a speculative generation besides its text.
#[derive(Debug)]
pub(super) struct Drafting {
    generation: u32,
    planner: Planner,
    flight: Flight,
    /// The round that is being drafted; `None` while nothing can follow the last in flight.
    open: Option<OpenRound>,
    /// Number of tokens of the text, the drafts in flight and those of the open round that are right in the draft
    /// model's cache. The next pass cuts off what it holds beyond.
    cached: usize,
    /// Rows still to come of a forward pass whose round a verdict has discarded.
    discarded_rows: usize,
    untold: Untold,
    /// Tokens that passed since the target's last pass and that a server, which had forgotten the text, has read with
    /// its prompt.
    told_anew: usize,
    /// Text that a sequence cascade has committed here and not yet reported.
    held: Option<Held>,
    /// Time at which the last streamed token came.
    streamed_at: Option<Duration>,
}

/// The round that is being drafted.
#[derive(Debug)]
struct OpenRound {
    number: u32,
    drafter: Drafter,
    phase: Phase,
    /// Time at which its first forward pass was asked for.
    started: Duration,
    /// Time that its drafting took, once it is drafted.
    drafting: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The round is about to begin.
    Fresh,
    /// Drafts are being made, or wait for a slot among the rounds in flight.
    Drafting,
    /// A forward pass is under way that gives this number of rows.
    AwaitsLogits(usize),
    /// The target writes this number of tokens alone before the round.
    AwaitsTokens(u32),
}

/// Tokens that the edge has committed and the cloud does not know yet.
#[derive(Debug, Default)]
struct Untold {
    /// The token that the edge put in place of the last round's rejected draft.
    resampled: Option<u32>,
    /// Tokens committed without asking since the last round.
    passed: Vec<u32>,
}

impl Drafting {
    /// The state before the first round, after the prompt that the drafter has read.
    pub(super) fn new(generation: u32, drafter: Drafter, planner: Planner, window: u8) -> Self {
        Self {
            generation,
            flight: Flight::new(window),
            open: Some(OpenRound::new(0, drafter)),
            cached: 0,
            discarded_rows: 0,
            untold: Untold::default(),
            told_anew: 0,
            held: matches!(planner.gate(), Gate::SequenceCascade { .. }).then(Held::default),
            planner,
            streamed_at: None,
        }
    }

    /// Passes on what has been learned of the link and the models, to the next generation.
    pub(super) fn teach(self, lessons: &mut Lessons) {
        let is_committed = self.holds_nothing();
        lessons.rounds = Some(self.planner.into_learned());
        // Rounds in flight, and drafts after them, are not committed.
        let drafter = self.flight.into_oldest().map(|round| round.drafter).or(self.open.map(|open| open.drafter));
        if let Some(drafter) = drafter.filter(|_| is_committed) {
            drafter.teach(&mut lessons.thresholds);
        }
    }

    /// Tokens that have passed since the target's last pass.
    pub(super) fn passed(&self) -> usize {
        if self.held.is_some() { 0 } else { self.untold.passed.len() + self.told_anew }
    }

    /// Goes on after this number of tokens that have passed since the target's last pass.
    pub(super) fn after_passed(&mut self, tokens: usize) {
        self.told_anew = tokens;
    }

    /// Tokens at the text's end that a sequence cascade may yet take back.
    pub(super) fn held(&self) -> usize {
        if self.held.is_some() { self.untold.passed.len() } else { 0 }
    }

    /// True if all tokens that the edge has passed are the text's: not where a sequence cascade took them back, or
    /// might have.
    fn holds_nothing(&self) -> bool {
        let is_cascade = matches!(self.planner.gate(), Gate::SequenceCascade { .. });
        !is_cascade || self.held.is_some() && self.untold.passed.is_empty()
    }

    /// Notes that everything was sent again: the time between was neither the link's nor the server's.
    pub(super) fn resent(&mut self, now: Duration) {
        self.flight.resent(now);
        self.streamed_at = None;
    }

    /// True if a round awaits its verdict.
    pub(super) fn awaits(&self, round: u32) -> bool {
        self.flight.awaits(round)
    }

    /// True if drafting goes on while rounds await their verdict.
    pub(super) fn is_ahead(&self) -> bool {
        let drafts_on = |open: &OpenRound| matches!(open.phase, Phase::Fresh | Phase::Drafting);
        !self.flight.is_empty() && self.open.as_ref().is_some_and(drafts_on)
    }

    /// The next step, if there is one.
    pub(super) fn next_step(&mut self, text: &mut Text, now: Duration) -> Option<Step> {
        let (base, held) = (text.len() + self.flight.drafted(), self.held());
        let open = self.open.as_mut().filter(|_| self.discarded_rows == 0)?;
        if open.phase == Phase::Fresh {
            (open.phase, open.started) = (Phase::Drafting, now);
            open.drafter.begin(base);
            // The target writes on from nothing that is not committed.
            if self.flight.is_empty()
                && let Some(tokens) = self.planner.next_stream()
            {
                let left = text.left().min(u32::MAX as usize) as u32;
                return self.stream(tokens.clamp(1, left)).map(Step::Send);
            }
        }
        if open.phase != Phase::Drafting {
            return None;
        }
        let length = base + open.drafter.ids().len();
        if self.planner.wants_another(&open.drafter, length, text) {
            return self.forward(text).map(Step::Forward);
        }
        if held > 0 {
            // The text goes on beyond what the draft model can read.
            return self.give_up(text).map(Step::Send);
        }
        open.drafting.get_or_insert(now.saturating_sub(open.started));
        if self.flight.is_full() {
            return None;
        }
        self.send(text, now).map(Step::Send)
    }

    /// The forward pass that gives the next draft's distribution: feeds what the cache lacks.
    fn forward(&mut self, text: &Text) -> Option<Forward> {
        let open = self.open.as_mut()?;
        let drafts = self.flight.ids().chain(open.drafter.ids().iter().copied());
        let tokens: Vec<u32> = text.ids().iter().copied().chain(drafts).skip(self.cached).collect();
        // The row of the last bonus token is there to be had where the token before it has not been read yet.
        let rows = 1 + usize::from(open.drafter.wants_bonus_row() && tokens.len() > 1);
        open.phase = Phase::AwaitsLogits(rows);
        Some(Forward::new(self.cached, tokens, rows))
    }

    /// Seals the open round and sends it.
    fn send(&mut self, text: &Text, now: Duration) -> Option<Outgoing> {
        let OpenRound { number: round, drafter, drafting, .. } = self.open.take()?;
        let length = text.len() + self.flight.drafted() + drafter.ids().len();
        let continued = self.flight.is_pipelined() && self.planner.continues(&drafter, length, text);
        let Untold { resampled, passed } = std::mem::take(&mut self.untold);
        self.told_anew = 0;
        let passed_before = passed.len();
        let (payload, payload_bits) = drafter.payload();
        let frame = Frame::Draft(Draft {
            generation: self.generation,
            round,
            epoch: self.flight.epoch(),
            continued,
            resampled,
            passed,
            stream: 0,
            count: drafter.ids().len() as u8,
            payload,
        });
        let bytes = frame.encode();
        let next = continued.then(|| drafter.next());
        self.flight.push(SentRound {
            number: round,
            drafter,
            continued,
            evidence: Vec::new(),
            at: now,
            drafting: drafting.unwrap_or_default(),
            frame_bits: bytes.len() * 8,
            payload_bits,
            passed: passed_before,
        });
        if let Some(drafter) = next {
            self.begin_round(round + 1, drafter, text);
        }
        Some(Outgoing { round, bytes })
    }

    /// Opens a round after the text and the drafts in flight.
    fn begin_round(&mut self, number: u32, drafter: Drafter, text: &Text) {
        // The last token is read for the row after it, and read again where that row was declined and no token came.
        self.cached = self.cached.min(text.len() + self.flight.drafted() - 1);
        self.open = Some(OpenRound::new(number, drafter));
    }

    /// Asks the target to write `tokens` tokens alone.
    fn stream(&mut self, tokens: u32) -> Option<Outgoing> {
        let open = self.open.as_mut()?;
        let Untold { resampled, passed } = std::mem::take(&mut self.untold);
        self.told_anew = 0;
        let (generation, round, epoch) = (self.generation, open.number, self.flight.epoch());
        let draft = Draft { generation, round, epoch, resampled, passed, stream: tokens, ..Draft::default() };
        open.phase = Phase::AwaitsTokens(tokens);
        self.streamed_at = None;
        Some(Outgoing { round, bytes: Frame::Draft(draft).encode() })
    }

    /// A row of logits has come.
    pub(super) fn handle_logits(
        &mut self,
        row: LogitsRow<'_>,
        books: &mut Books<'_>,
        now: Duration,
    ) -> Result<Reaction, EdgeError> {
        let text = &*books.text;
        if self.discarded_rows > 0 {
            self.discarded_rows -= 1;
            return Ok(Reaction::Wait);
        }
        let base = text.len() + self.flight.drafted();
        let Some(OpenRound { drafter, phase: phase @ Phase::AwaitsLogits(_), .. }) = &mut self.open else {
            return Ok(Reaction::Wait);
        };
        row.check(text.vocab_size())?;
        if *phase != Phase::AwaitsLogits(1) {
            *phase = Phase::AwaitsLogits(1);
            drafter.bonus_row(row.logits)?;
            return Ok(Reaction::Wait);
        }
        *phase = Phase::Drafting;
        let drafted = drafter.ids().len();
        let position = base + drafted;
        self.cached = position;
        let q = drafter.distribution(row.logits)?;
        let may_draft = self.planner.may_draft(drafter, position, text);
        let candidate = drafter.candidate(&q, position, self.planner.sees_token(drafted))?;
        let passed = self.untold.passed.len();
        let unseen = passed + self.told_anew;
        let fate = self.planner.decide(&q, row.hidden, candidate.seen(), unseen, drafted, may_draft)?;
        // At most five bytes an id, and a few more.
        let budget = self.planner.budget_beside(40 * (passed + 2));
        if let Some(token) = drafter.take(&q, candidate, fate, Slot { position, budget })? {
            return Ok(self.pass(token, books, now));
        }
        if let Some(&id) = drafter.ids().get(drafted)
            && self.planner.stops_after(&q, row.hidden, id, drafted)
        {
            drafter.end();
        }
        Ok(Reaction::Wait)
    }

    /// Commits a token without asking.
    fn pass(&mut self, token: PassedToken, books: &mut Books<'_>, now: Duration) -> Reaction {
        let Books { text, ledger } = books;
        text.write([token.id]);
        let finish = text.ending(token.id, text.len());
        self.untold.passed.push(token.id);
        let tokens = match (&mut self.held, self.planner.gate()) {
            (Some(held), Gate::SequenceCascade { alpha, confidence }) => {
                held.add(token.log_probability);
                if finish.is_none() {
                    return Reaction::Wait;
                }
                if held.confidence(confidence) < 1.0 - alpha {
                    return self.give_up(text).map_or(Reaction::Wait, Reaction::Send);
                }
                std::mem::take(&mut self.untold.passed)
            }
            _ => vec![token.id],
        };
        ledger.passed(tokens.len(), now);
        let tokens = tokens.into_iter().map(|id| (id, Origin::Passed)).collect();
        Reaction::Commit {
            committed: Committed { tokens, evidence: Vec::new(), round: None },
            finish,
            tell: finish.is_some(),
        }
    }

    /// Takes back the text of a sequence cascade that does not trust it: the target writes the text instead.
    fn give_up(&mut self, text: &mut Text) -> Option<Outgoing> {
        text.take_back(std::mem::take(&mut self.untold.passed).len());
        self.held = None;
        self.cached = self.cached.min(text.len());
        self.stream(text.left() as u32)
    }

    /// A token has come that the target wrote alone, and is committed.
    pub(super) fn streamed(&mut self, token: u32, ledger: &mut Ledger, now: Duration) {
        let Some(open) = &mut self.open else { return };
        let Phase::AwaitsTokens(left) = open.phase else { return };
        open.drafter.streamed(token);
        open.phase = if left > 1 { Phase::AwaitsTokens(left - 1) } else { Phase::Fresh };
        open.number += u32::from(left == 1);
        let since_last = self.streamed_at.map(|last| now.saturating_sub(last));
        self.streamed_at = Some(now);
        ledger.streamed(self.planner.observe(Observation::Streamed(since_last)));
    }

    /// True while the target writes alone.
    pub(super) fn awaits_tokens(&self) -> bool {
        self.open.as_ref().is_some_and(|open| matches!(open.phase, Phase::AwaitsTokens(_)))
    }

    /// Takes the evidence of a draft of the oldest round in flight.
    pub(super) fn handle_evidence(&mut self, evidence: Evidence, text: &Text) -> Result<Reaction, EdgeError> {
        if self.is_past(evidence.round) {
            return Ok(Reaction::Stale);
        }
        Ok(if self.flight.add_evidence(evidence, text)? { Reaction::Wait } else { Reaction::Stale })
    }

    /// The oldest round's verdict has come.
    pub(super) fn handle_verdict(
        &mut self,
        verdict: Verdict,
        received: Received,
        books: &mut Books<'_>,
    ) -> Result<Reaction, EdgeError> {
        let is_known = self.flight.awaited().is_some() && self.flight.is_oldest(verdict.round);
        if self.is_past(verdict.round) || is_known {
            return Ok(Reaction::Stale);
        }
        let Some(oldest) = self.flight.oldest() else { return Err(EdgeError::Unexpected { frame: "Verdict" }) };
        let round = verdict.round;
        if round != oldest.number {
            return Err(EdgeError::ImpossibleVerdict { what: "it is for another round" });
        }
        let drafted = oldest.drafter.ids().len();
        let expected = Expected {
            drafted,
            has_bonus: drafted == 0 || self.planner.has_bonus() && !oldest.continued,
            resamples: oldest.drafter.resamples(),
            vocab_size: books.text.vocab_size(),
            left: books.text.left(),
        };
        match verdict::check(verdict, &expected)? {
            Ruling::Settled(settlement) => self.settle(settlement, received, books),
            Ruling::Target { accepted, target } => {
                books.text.check_target(&target)?;
                self.resample(accepted, received, books, |drafter| Some(drafter.resample(accepted, &target)))
            }
            Ruling::Samples { accepted, samples } => {
                self.resample(accepted, received, books, |drafter| drafter.survivor(accepted, &samples))
            }
        }
    }

    /// The target's distribution has come, which the edge asked for.
    pub(super) fn handle_distribution(
        &mut self,
        answer: &Distribution,
        received: Received,
        books: &mut Books<'_>,
    ) -> Result<Reaction, EdgeError> {
        match self.flight.awaited() {
            Some(awaited) if self.flight.is_oldest(answer.round) => {
                books.text.check_target(&answer.target)?;
                let received = Received { bits: awaited.bits + received.bits, ..received };
                let accepted = awaited.accepted;
                self.resample(accepted, received, books, |drafter| Some(drafter.resample(accepted, &answer.target)))
            }
            _ if self.is_past(answer.round) => Ok(Reaction::Stale),
            _ => Err(EdgeError::Unexpected { frame: "Distribution" }),
        }
    }

    /// Puts a token of the edge's in place of the oldest round's first rejected draft; asks for the target's
    /// distribution where there is none. The edge, not the cloud, sees where the text ends.
    fn resample(
        &mut self,
        accepted: usize,
        received: Received,
        books: &mut Books<'_>,
        draw: impl FnOnce(&mut Drafter) -> Option<u32>,
    ) -> Result<Reaction, EdgeError> {
        self.discard_later(books.ledger, received.at);
        let Some(round) = self.flight.oldest_mut() else { return Err(EdgeError::Unexpected { frame: "Verdict" }) };
        let number = round.number;
        let Some(token) = draw(&mut round.drafter) else {
            self.flight.follow_up(accepted, received);
            books.ledger.followed_up();
            let bytes = Frame::Resample { generation: self.generation, round: number }.encode();
            return Ok(Reaction::Send(Outgoing { round: number, bytes }));
        };
        books.ledger.resampled(received.bits);
        self.untold.resampled = Some(token);
        let finish = books.text.ending(token, books.text.len() + accepted + 1);
        let settlement = Settlement { accepted, token: Some(token), finish };
        let mut reaction = self.settle(settlement, received, books)?;
        if let Reaction::Commit { tell, .. } = &mut reaction {
            *tell = finish.is_some();
        }
        Ok(reaction)
    }

    /// Ends the oldest round: commits its accepted drafts and the token after them.
    fn settle(
        &mut self,
        settlement: Settlement,
        received: Received,
        books: &mut Books<'_>,
    ) -> Result<Reaction, EdgeError> {
        let Books { text, ledger } = books;
        let Some(oldest) = self.flight.oldest() else { return Err(EdgeError::Unexpected { frame: "Verdict" }) };
        let goes_on = oldest.goes_on(&settlement);
        if !goes_on {
            self.discard_later(ledger, received.at);
        }
        let Some((mut round, alone)) = self.flight.settle(&settlement, received.at) else {
            return Err(EdgeError::Unexpected { frame: "Verdict" });
        };
        let Settlement { accepted, token, finish } = settlement;
        text.write(round.drafter.ids()[..accepted].iter().copied().chain(token));
        let evidence = round.explained(&settlement);
        let (record, times) = ledger.round(&mut round, &settlement, received, alone);
        ledger.estimated(self.planner.observe(Observation::Round(times)));
        if !goes_on {
            self.begin_round(round.number + 1, round.drafter, text);
        }
        let committed = Committed { tokens: ledger::origins(&record), evidence, round: Some(record) };
        Ok(Reaction::Commit { committed, finish, tell: false })
    }

    /// The rounds after the oldest go on from a text that is not the target's: they are discarded.
    fn discard_later(&mut self, ledger: &mut Ledger, now: Duration) {
        for round in self.flight.discard_later() {
            ledger.discarded(&round);
        }
        let Some(open) = self.open.take() else { return };
        if let Phase::AwaitsLogits(rows) = open.phase {
            self.discarded_rows = rows;
        }
        if open.phase != Phase::Fresh {
            ledger.drafted_for_nothing(open.drafting.unwrap_or(now.saturating_sub(open.started)));
        }
    }

    /// True if a round's verdict has been taken.
    fn is_past(&self, round: u32) -> bool {
        let next = self.flight.oldest().map(|oldest| oldest.number).or(self.open.as_ref().map(|open| open.number));
        next.is_some_and(|next| round < next)
    }
}

impl OpenRound {
    /// A round of nothing yet.
    fn new(number: u32, drafter: Drafter) -> Self {
        Self { number, drafter, phase: Phase::Fresh, started: Duration::ZERO, drafting: None }
    }
}
