//! The edge's state machine: its driver's calls, and a server that may be honest, mistaken or hostile.

use core::time::Duration;
use std::sync::Arc;

use arbitrary::{Result, Unstructured};
use outrider_codec::frame::{Frame, Welcome};
use outrider_speculation::{
    Forward,
    draft::gate::Gate,
    session::edge::{DraftInfo, EdgeError, EdgeOutput, EdgeSession, EndReason, Event, Mode},
    study::{
        explanation::Explanation,
        statistics::{Guarantee, Statistics},
    },
};

use crate::{
    choose,
    toy::{self, Cache, Toy},
};

mod generation;
mod peer;

use generation::Generation;

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
    let draft = DraftInfo {
        vocab_size,
        tokenizer_hash: [7; 32],
        context_length: choose::number(input, 40)?,
        heads: toy::heads(input)?.map(Arc::new),
    };
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
                    let (logits, hidden) = (self.model.logits(&[]), self.model.hidden(&[]));
                    if self.wanted.is_none() {
                        self.note(|driver| driver.session.handle_logits(&logits, &hidden, driver.now));
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
        let mut settings = choose::settings(input, self.model.vocab_size)?;
        if let Mode::Speculative(speculation) = &mut settings.mode {
            // What this driver knows of rounds it knows of one at a time.
            speculation.max_in_flight = 1;
        }
        self.drain();
        let idle = self.session.is_idle();
        if self.session.start(prompt.clone(), &settings, self.now).is_err() || self.failed {
            assert!(self.failed || self.session.is_idle() == idle);
            return Ok(());
        }
        assert!(idle && !self.session.is_idle());
        let server = self.server.as_ref().expect("an idle session has a server");
        self.begun += 1;
        let explains = matches!(&settings.mode, Mode::Speculative(speculation) if speculation.explain);
        let guarantee = match &settings.mode {
            Mode::CloudOnly | Mode::Ahead(_) | Mode::Auto(_) => None,
            Mode::Speculative(speculation) => Some(Guarantee {
                rule: speculation.rule,
                lossy: !(speculation.rule.is_exact() && speculation.gate == Gate::Never),
            }),
        };
        self.generation = Some(Generation::new(prompt, settings, server));
        self.expected =
            Statistics { guarantee, explanation: explains.then(Explanation::default), ..Statistics::default() };
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
                self.note(|driver| driver.session.handle_logits(&row.logits, &row.hidden, driver.now));
            }
            self.drain();
        }
        // What passes may be a long text.
        let passes = self.generation.as_ref().is_some_and(Generation::passes);
        assert!(self.failed || passes, "a round has no end");
    }

    /// Rows that a draft model should not give, in place of those asked for.
    fn odd_logits(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let Some(forward) = self.wanted.take() else { return Ok(()) };
        self.sound_rows = false;
        self.cache.forward(&forward, &self.model);
        for _ in 0..forward.rows {
            let row = toy::odd_row(input, self.model.vocab_size)?;
            let hidden = toy::odd_hidden(input)?;
            self.note(|driver| driver.session.handle_logits(&row, &hidden, driver.now));
        }
        Ok(())
    }

    fn deliver(&mut self, bytes: &[u8]) {
        if matches!(Frame::decode(bytes), Ok(Frame::Evidence(_))) {
            // A verdict that nobody has polled for yet has settled its round: nothing explains it any more.
            self.drain();
        }
        if !self.closed {
            self.expected.downlink_bits += bytes.len() * 8;
        }
        // Known to the driver before it polls for the event.
        self.closed |= matches!(Frame::decode(bytes), Ok(Frame::Bye))
            || matches!(Frame::decode(bytes), Ok(Frame::Error(error)) if error.generation == 0);
        let now = self.now;
        self.note(|driver| driver.session.handle_frame(bytes, now));
        // What comes after the end is ignored, be the end polled or not.
        if let Ok(Frame::Evidence(evidence)) = Frame::decode(bytes)
            && !self.session.is_idle()
            && let Some(current) = self.generation.as_mut().filter(|_| evidence.generation == self.begun)
        {
            // What comes twice counts once.
            let is_next = evidence.round == current.round && usize::from(evidence.index) == current.evidence;
            current.evidence += usize::from(is_next);
        }
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
            Frame::Draft(draft) => {
                let server = self.server.as_ref().expect("the handshake is done");
                let current = self.generation.as_mut().expect("a generation is under way");
                assert_eq!((draft.generation, draft.round), (self.begun, current.round));
                current.sends(draft, server, &self.model, self.sound_rows, &self.cache);
            }
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

    fn happened(&mut self, event: Event) {
        match event {
            Event::Connected(welcome) => assert_eq!(welcome.vocab_size, self.model.vocab_size),
            Event::Committed(committed) => {
                let current = self.generation.as_mut().expect("a generation is under way");
                current.commits(&committed, &mut self.expected, &self.model, self.sound_rows);
            }
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
            // Without a driver that opens another connection it goes no further.
            Event::Interrupted(_) | Event::Resumed { .. } => self.failed = true,
            Event::Closed(_) => {
                assert!(self.closed);
                self.generation = None;
                self.wanted = None;
            }
        }
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
                estimates: found.estimates,
                // Its sums are the theory's; how many drafts they are over is known.
                explanation: self.expected.explanation.as_ref().and(found.explanation.clone()),
                ..self.expected.clone()
            };
            assert_eq!(found, &times);
            if let (Some(found), Some(expected)) = (&found.explanation, &self.expected.explanation) {
                assert_eq!(found.judged, expected.judged);
                let most = found.judged as f64 + 1e-6;
                assert!((-1e-6..=most).contains(&found.rejections) && (0.0..=most).contains(&found.divergence));
            }
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
            report.tokens_per_round,
            report.cost_ratio.unwrap_or(0.0),
            report.predicted_speedup.unwrap_or(0.0),
            report.divergence.unwrap_or(0.0),
        ] {
            assert!(number.is_finite() && number >= 0.0, "{report:?}");
        }
    }
}
