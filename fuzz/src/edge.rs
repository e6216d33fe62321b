//! The edge's state machine: its driver's calls, and a server that may be honest, mistaken or hostile.

use core::time::Duration;
use std::collections::BTreeSet;

use arbitrary::{Result, Unstructured};
use outrider_codec::{
    frame::{Distribution, Draft, ErrorCode, ErrorFrame, Finish, Frame, Next, TargetDist, Token, Verdict, Welcome},
    scheme::{Drafts, Scheme, SchemeParameters},
};
use outrider_speculation::{
    Forward,
    edge::{Committed, DraftInfo, EdgeError, EdgeOutput, EdgeSession, EndReason, Event, Mode, Origin, Settings},
    statistics::{RoundRecord, Statistics},
};

use crate::{
    choose, payload,
    toy::{self, Cache, Toy},
};

/// More outputs than one operation can leave to be polled.
const MOST_OUTPUTS: usize = 8;

/// Calls the session in any order that its contract allows. What it commits, sends and counts is compared with what
/// the bytes that went in and out say; after an error it may do as it likes, but not panic.
pub fn check(bytes: &[u8]) {
    // Unstructured never runs out: where bytes end it goes on with zeros.
    let _ = play(&mut Unstructured::new(bytes));
}

fn play(input: &mut Unstructured<'_>) -> Result<()> {
    let vocab_size = choose::one_of(input, &[8, 1, 2, 3, 40, 300])?;
    let draft =
        DraftInfo { vocab_size, tokenizer_hash: [7; 32], context_length: choose::number(input, 40)?, heads: None };
    let model = Toy { vocab_size, seed: input.arbitrary()?, difference: 0 };
    let mut driver = Driver {
        session: EdgeSession::new(draft),
        model,
        cache: Cache::default(),
        wanted: None,
        now: Duration::ZERO,
        server: None,
        begun: 0,
        generation: None,
        expected: Statistics::default(),
        sound_rows: true,
        undrained: 0,
        failed: false,
        closed: false,
    };
    driver.drain();
    if !choose::rarely(input, 16)? {
        driver.welcome(input)?;
    }
    while !input.is_empty() {
        driver.operate(input)?;
        driver.undrained += 1;
        if !choose::rarely(input, 8)? {
            driver.drain();
        }
    }
    driver.drain();
    Ok(())
}

struct Driver {
    session: EdgeSession,
    model: Toy,
    cache: Cache,
    /// The pass that was asked for and not run.
    wanted: Option<Forward>,
    now: Duration,
    server: Option<Welcome>,
    /// Generations so far.
    begun: u32,
    generation: Option<Generation>,
    /// What the statistics should be, times aside.
    expected: Statistics,
    /// All rows of logits of this generation were the model's.
    sound_rows: bool,
    /// Operations since the session was polled until it had nothing to say.
    undrained: usize,
    failed: bool,
    closed: bool,
}

/// What the driver knows of the generation under way.
struct Generation {
    settings: Settings,
    /// Prompt and committed tokens.
    text: Vec<u32>,
    prompt_length: usize,
    /// Where `text` has to end.
    limit: usize,
    /// As the cloud has it.
    scheme: Option<Scheme>,
    round: u32,
    /// The round that was sent and has no verdict.
    sent: Option<(Draft, Drafts)>,
    /// The token that the edge resampled and has not told.
    untold: Option<u32>,
    /// The draft model has run in this round.
    has_fed: bool,
    /// The samples of the round's verdict were asked to be followed up.
    asked: bool,
}

impl Driver {
    fn operate(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        match input.int_in_range(0..=15u8)? {
            0 => self.start(input)?,
            1..=4 => self.compute(),
            5..=7 => self.answer(input)?,
            8 => self.odd_logits(input)?,
            9 => self.now += Duration::from_millis(input.arbitrary::<u16>()?.into()),
            10 => {
                self.session.cancel();
                self.wanted = None;
            }
            11 => self.other_frame(input)?,
            12 => {
                let length = input.int_in_range(0..=40)?;
                let bytes = input.bytes(length.min(input.len()))?;
                self.deliver(bytes);
            }
            13 => self.welcome(input)?,
            14 => {
                self.drain();
                for _ in 0..2 {
                    // Nobody asked for it.
                    let logits = self.model.logits(&[]);
                    if self.wanted.is_none() {
                        self.note(|driver| driver.session.handle_logits(&logits, &[], driver.now));
                    }
                }
            }
            _ => {
                if choose::rarely(input, 4)? {
                    self.session.close();
                    self.closed = true;
                    self.wanted = None;
                }
            }
        }
        Ok(())
    }

    fn start(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let prompt = choose::ids(input, 6, self.model.vocab_size)?;
        let settings = choose::settings(input, self.model.vocab_size)?;
        self.drain();
        let idle = self.session.is_idle();
        if self.session.start(prompt.clone(), &settings, self.now).is_err() || self.failed {
            assert!(self.failed || self.session.is_idle() == idle);
            return Ok(());
        }
        assert!(idle && !self.session.is_idle());
        let server = self.server.clone().expect("an idle session has a server");
        let most = prompt.len().saturating_add(settings.max_new_tokens as usize);
        let scheme = match &settings.mode {
            Mode::CloudOnly => None,
            Mode::Speculative(speculation) => {
                let mut scheme = Scheme::new(speculation.scheme, self.model.vocab_size).expect("the edge made it too");
                scheme.prime(&prompt);
                Some(scheme)
            }
        };
        self.begun += 1;
        self.generation = Some(Generation {
            prompt_length: prompt.len(),
            text: prompt,
            limit: most.min(server.context_length as usize),
            scheme,
            round: 0,
            sent: None,
            untold: None,
            has_fed: false,
            asked: false,
            settings,
        });
        self.expected = Statistics::default();
        self.sound_rows = true;
        Ok(())
    }

    /// Runs the draft model as often as it is asked for.
    fn compute(&mut self) {
        self.drain();
        for _ in 0..=64 {
            let Some(forward) = self.wanted.take() else { return };
            let rows = self.cache.forward(&forward, &self.model);
            for row in rows {
                self.note(|driver| driver.session.handle_logits(&row, &[], driver.now));
            }
            self.drain();
        }
        assert!(self.failed, "a round has no end");
    }

    /// Rows that a draft model should not give, in place of those asked for.
    fn odd_logits(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let Some(forward) = self.wanted.take() else { return Ok(()) };
        self.sound_rows = false;
        self.cache.forward(&forward, &self.model);
        for _ in 0..forward.rows {
            let row = toy::odd_row(input, self.model.vocab_size)?;
            self.note(|driver| driver.session.handle_logits(&row, &[], driver.now));
        }
        Ok(())
    }

    fn welcome(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let mistaken = choose::rarely(input, 32)?;
        let welcome = Welcome {
            vocab_size: self.model.vocab_size + u32::from(mistaken),
            context_length: choose::number(input, 48)?,
            max_draft_tokens: input.int_in_range(0..=64)?,
            eos_ids: choose::ids(input, 2, self.model.vocab_size)?,
        };
        self.deliver(&Frame::Welcome(welcome.clone()).encode());
        if !self.failed && !self.closed {
            assert!(self.server.is_none() && !mistaken);
            self.server = Some(welcome);
        }
        Ok(())
    }

    /// The server's answer to what was sent last, honest or not quite.
    fn answer(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let vocab_size = self.model.vocab_size;
        let Some(generation) = &self.generation else { return Ok(()) };
        let number = self.begun;
        let context = self.server.as_ref().map_or(0, |server| server.context_length as usize);
        let eos_ids = self.server.as_ref().map_or(&[][..], |server| &server.eos_ids);
        // What an honest server says of the end when the text has grown by these.
        let finish = |more: &[u32]| {
            let length = generation.text.len() + more.len();
            if more.last().is_some_and(|id| eos_ids.contains(id)) {
                Some(Finish::Eos)
            } else if length >= generation.prompt_length.saturating_add(generation.settings.max_new_tokens as usize) {
                Some(Finish::Length)
            } else {
                (length >= context).then_some(Finish::Context)
            }
        };
        let lies = choose::rarely(input, 12)?;
        let any_finish =
            choose::one_of(input, &[None, Some(Finish::Eos), Some(Finish::Length), Some(Finish::Context)])?;
        let frame = match &generation.sent {
            None if generation.scheme.is_none() => {
                let token = choose::number(input, vocab_size - 1)?;
                let finish = if lies { any_finish } else { finish(&[token]) };
                Frame::Token(Token { generation: number, token, finish })
            }
            None => return Ok(()),
            Some((draft, _)) if generation.asked => {
                let round = if lies { input.arbitrary()? } else { draft.round };
                Frame::Distribution(Distribution { generation: number, round, target: target(input, vocab_size)? })
            }
            Some((draft, drafts)) => {
                let ids = drafts.ids();
                let honest = input.int_in_range(0..=ids.len())?;
                let accepted = if lies { input.int_in_range(0..=64)? } else { honest };
                let mut more = ids[..accepted.min(ids.len())].to_vec();
                let rejects = accepted < ids.len();
                let kind = match input.int_in_range(0..=7u8)? {
                    kind @ 0..4 if lies => kind,
                    _ if more.last().is_some_and(|id| eos_ids.contains(id)) => 0,
                    kind if rejects && generation.resamples() => 2 + kind % 2,
                    _ => 1,
                };
                let next = match kind {
                    0 => Next::Nothing,
                    1 => Next::Token(choose::number(input, vocab_size - 1)?),
                    2 => Next::Samples(samples(input, vocab_size)?),
                    _ => Next::Distribution(target(input, vocab_size)?),
                };
                if let Next::Token(token) = next {
                    more.push(token);
                }
                let finish = if lies { any_finish } else { finish(&more).filter(|_| kind < 2) };
                let round = if lies && choose::rarely(input, 4)? { input.arbitrary()? } else { draft.round };
                Frame::Verdict(Verdict { generation: number, round, accepted: accepted as u8, next, finish })
            }
        };
        self.deliver(&frame.encode());
        Ok(())
    }

    /// A frame that does not answer anything.
    fn other_frame(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let vocab_size = self.model.vocab_size;
        let generation = 1 + choose::number(input, self.begun)?.min(u32::MAX - 1);
        let round = choose::number(input, 3)?;
        let frame = match input.int_in_range(0..=7u8)? {
            0 => Frame::Error(ErrorFrame {
                generation: generation - 1,
                code: ErrorCode::from_number(input.arbitrary()?),
                text: String::new(),
            }),
            1 => Frame::Token(Token { generation, token: choose::number(input, vocab_size - 1)?, finish: None }),
            2 => Frame::Distribution(Distribution { generation, round, target: target(input, vocab_size)? }),
            3 => Frame::Bye,
            4 => Frame::Cancel { generation },
            5 => Frame::Resample { generation, round },
            _ => Frame::Verdict(Verdict {
                generation,
                round,
                accepted: input.int_in_range(0..=64)?,
                next: Next::Token(choose::number(input, vocab_size - 1)?),
                finish: None,
            }),
        };
        self.deliver(&frame.encode());
        Ok(())
    }

    fn deliver(&mut self, bytes: &[u8]) {
        if !self.closed {
            self.expected.downlink_bits += bytes.len() * 8;
        }
        // Known to the driver before it polls for the event.
        self.closed |= matches!(Frame::decode(bytes), Ok(Frame::Bye))
            || matches!(Frame::decode(bytes), Ok(Frame::Error(error)) if error.generation == 0);
        let now = self.now;
        self.note(|driver| driver.session.handle_frame(bytes, now));
    }

    /// Notes whether a call failed.
    fn note(&mut self, call: impl FnOnce(&mut Self) -> core::result::Result<(), EdgeError>) {
        if let Err(error) = call(self) {
            assert!(!error.to_string().is_empty() && !error.code().is_empty());
            self.failed = true;
        }
    }

    /// Does what the session says until it says nothing, passes of the model aside.
    fn drain(&mut self) {
        for _ in 0..MOST_OUTPUTS * (1 + std::mem::take(&mut self.undrained)) {
            match self.session.poll(self.now) {
                Ok(None) => {
                    if !self.failed {
                        self.compare_statistics();
                    }
                    return;
                }
                Ok(Some(EdgeOutput::Forward(forward))) => {
                    assert!(self.failed || self.wanted.is_none(), "two passes at a time");
                    assert!((1..=2).contains(&forward.rows), "{forward:?}");
                    if !self.failed {
                        self.wanted = Some(forward);
                        self.generation.as_mut().expect("a pass is part of a generation").has_fed = true;
                    }
                }
                _ if self.failed => {}
                Ok(Some(EdgeOutput::Send(bytes))) => self.sent(&bytes),
                Ok(Some(EdgeOutput::Event(event))) => self.happened(event),
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    self.failed = true;
                }
            }
        }
        panic!("there is always something to poll");
    }

    fn sent(&mut self, bytes: &[u8]) {
        let frame = Frame::decode(bytes).expect("what is sent can be read");
        assert_eq!(frame.encode(), bytes);
        if !matches!(frame, Frame::Hello(_)) {
            self.expected.uplink_bits += bytes.len() * 8;
        }
        match frame {
            Frame::Draft(draft) => self.sent_draft(draft),
            Frame::Resample { generation, round } => {
                let current = self.generation.as_mut().expect("a generation is under way");
                assert_eq!((generation, round), (self.begun, current.round));
                assert!(current.resamples() && !current.asked);
                current.asked = true;
                self.expected.follow_ups += 1;
            }
            Frame::Prompt(prompt) => assert_eq!(prompt.request.generation, self.begun),
            Frame::Generate(request) => assert_eq!(request.generation, self.begun),
            Frame::Cancel { generation } => assert_eq!(generation, self.begun),
            Frame::Hello(_) | Frame::Bye => {}
            other => panic!("an edge does not send {}", other.name()),
        }
    }

    fn sent_draft(&mut self, draft: Draft) {
        let (vocab_size, server) = (self.model.vocab_size, self.server.as_ref().expect("the handshake is done"));
        let current = self.generation.as_mut().expect("a generation is under way");
        let Mode::Speculative(speculation) = &current.settings.mode else { panic!("nobody drafts") };
        assert_eq!((draft.generation, draft.round), (self.begun, current.round));
        assert!(current.sent.is_none(), "a verdict is due");
        assert_eq!(draft.resampled, current.untold.take());
        assert!(draft.count <= server.max_draft_tokens && u32::from(draft.count) <= speculation.draft_length);
        assert!(current.text.len() + usize::from(draft.count) < current.limit, "no room for the cloud's token");
        let scheme = current.scheme.as_ref().expect("there is a scheme");
        let drafts = scheme.decode_round(&draft.payload, draft.count).expect("the cloud can read it");
        let ids = drafts.ids();
        assert!(ids.iter().all(|&id| id < vocab_size));
        assert!(!ids.iter().rev().skip(1).any(|id| server.eos_ids.contains(id)), "drafts go on after the end");
        let mut text = [&current.text[..], &ids].concat();
        // Without a pass in this round the cache may still hold what was rejected, or another generation.
        if current.has_fed {
            self.cache.assert_holds(&text);
        }
        if current.settings.sampling.temperature == 0.0 && self.sound_rows {
            while text.len() > current.text.len() {
                assert_eq!(text.pop(), Some(self.model.greedy(&text)), "not the draft model's token");
            }
        }
        current.sent = Some((draft, drafts));
    }

    fn happened(&mut self, event: Event) {
        match event {
            Event::Connected(welcome) => assert_eq!(welcome.vocab_size, self.model.vocab_size),
            Event::Committed(committed) => self.committed(&committed),
            Event::Finished(reason) => {
                let generation = self.generation.take().expect("only what is under way can end");
                self.wanted = None;
                if reason != EndReason::Cancelled {
                    assert!(generation.text.len() > generation.prompt_length);
                }
            }
            Event::Refused(_) => {
                assert!(self.generation.take().is_some());
                self.wanted = None;
            }
            Event::Closed(_) => {
                assert!(self.closed);
                self.generation = None;
                self.wanted = None;
            }
        }
    }

    fn committed(&mut self, committed: &Committed) {
        let current = self.generation.as_mut().expect("a generation is under way");
        let ids: Vec<u32> = committed.tokens.iter().map(|token| token.0).collect();
        assert!(!ids.is_empty() && ids.iter().all(|&id| id < self.model.vocab_size), "{ids:?}");
        assert!(current.text.len() + ids.len() <= current.limit, "more than was asked for");
        self.expected.tokens += ids.len();
        self.expected.server_passes += 1;
        match &committed.round {
            None => assert!(current.scheme.is_none() && committed.tokens[0].1 == Origin::Cloud && ids.len() == 1),
            Some(record) => {
                current.check_round(committed, record);
                let expected = &mut self.expected;
                let rejected = record.accepted < record.drafted.len() && record.token.is_some();
                expected.rounds += 1;
                expected.drafted += record.drafted.len();
                expected.accepted += record.accepted;
                expected.judged += record.accepted + usize::from(rejected);
                expected.resampled += usize::from(rejected);
                expected.payload_bits += record.payload_bits;
                expected.draft_frame_bits += record.uplink_bits;
                if rejected && current.resamples() {
                    expected.rejection_downlink_bits += record.downlink_bits;
                }
            }
        }
        current.text.extend(ids);
    }

    fn compare_statistics(&self) {
        let found = self.session.statistics();
        if self.begun > 0 {
            let times = Statistics {
                first_token: found.first_token,
                elapsed: found.elapsed,
                drafting: found.drafting,
                round_trip: found.round_trip,
                mean_dropped_mass: found.mean_dropped_mass,
                dropped_mass_bound: found.dropped_mass_bound,
                ..self.expected.clone()
            };
            assert_eq!(found, &times);
        }
        assert!(found.first_token <= found.elapsed && found.drafting <= self.now && found.elapsed <= self.now);
        if let (Some(mean), Some(bound)) = (found.mean_dropped_mass, found.dropped_mass_bound) {
            assert!((0.0..=1.0 + 1e-9).contains(&mean) && mean <= bound + 1e-9, "{mean} exceeds {bound}");
        }
        let report = found.report();
        for number in [
            report.tokens_per_second,
            report.acceptance_rate,
            report.accepted_per_drafted,
            report.uplink_bits_per_token,
            report.downlink_bits_per_token,
            report.downlink_bytes_per_rejection.unwrap_or(0.0),
            report.server_passes_per_token,
        ] {
            assert!(number.is_finite() && number >= 0.0, "{report:?}");
        }
    }
}

impl Generation {
    fn resamples(&self) -> bool {
        matches!(&self.settings.mode, Mode::Speculative(speculation)
            if matches!(speculation.scheme, SchemeParameters::Dssd { .. }))
    }

    /// The record of a round, against what was sent. Teaches the scheme.
    fn check_round(&mut self, committed: &Committed, record: &RoundRecord) {
        let (draft, drafts) = self.sent.take().expect("a verdict has a draft");
        let drafted = drafts.ids();
        assert_eq!((record.round, &record.drafted), (self.round, &drafted));
        assert!(record.accepted <= drafted.len());
        let rejected = record.accepted < drafted.len() && record.token.is_some();
        let last = if rejected { Origin::Resampled } else { Origin::Bonus };
        let accepted = drafted[..record.accepted].iter().map(|&id| (id, Origin::Accepted));
        let expected: Vec<(u32, Origin)> = accepted.chain(record.token.map(|id| (id, last))).collect();
        assert_eq!(committed.tokens, expected);
        let frame_bits = Frame::Draft(draft.clone()).encode().len() * 8;
        assert_eq!(record.uplink_bits, frame_bits);
        assert!(record.payload_bits <= draft.payload.len() * 8);
        if let Mode::Speculative(speculation) = &self.settings.mode
            && let Some(budget) = speculation.bit_budget
            && !drafted.is_empty()
        {
            // An arithmetic code word is known to within a bit before it ends, and has whole bytes.
            let slack = if payload::is_adaptive(speculation.scheme) { 8 } else { 0 };
            assert!(record.payload_bits <= budget as usize + slack, "{} bits, {budget} allowed", record.payload_bits);
        }
        if let Some(scheme) = &mut self.scheme {
            scheme.commit(&drafts, record.accepted, record.token);
        }
        if rejected && self.resamples() {
            self.untold = record.token;
        }
        (self.asked, self.has_fed) = (false, false);
        self.round += 1;
    }
}

/// A distribution with ids ascending, as frames have them; perhaps beyond the vocabulary.
fn target(input: &mut Unstructured<'_>, vocab_size: u32) -> Result<TargetDist> {
    let count = input.int_in_range(1..=4)?;
    let ids: BTreeSet<u32> =
        (0..count).map(|_| Ok(choose::number(input, vocab_size - 1)?.min(u32::MAX - 1))).collect::<Result<_>>()?;
    Ok(TargetDist(ids.into_iter().map(|id| Ok((id, probability(input)?))).collect::<Result<_>>()?))
}

fn samples(input: &mut Unstructured<'_>, vocab_size: u32) -> Result<Vec<(u32, f32)>> {
    let count = input.int_in_range(1..=4)?;
    (0..count).map(|_| Ok((choose::number(input, vocab_size - 1)?, probability(input)?))).collect()
}

/// In (0, 1].
fn probability(input: &mut Unstructured<'_>) -> Result<f32> {
    Ok(match input.arbitrary::<u8>()? {
        0 => 1.0,
        255 => f32::from_bits(1),
        part => f32::from(part) / 256.0,
    })
}
