//! A text that the target writes and the edge drafts ahead of: both state machines, joined by queues, with cuts, drafts
//! of the server's own, and frames of a peer that lies.

use core::time::Duration;
use std::collections::VecDeque;

use arbitrary::{Result, Unstructured};
use outrider_codec::{
    frame::{Finish, Frame, Guesses, Limits, Tokens},
    scheme::{Drafts, Scheme, SchemeParameters},
};
use outrider_speculation::{
    control::calibration::Clarity,
    control::goodput::{Prices, RowCosts},
    control::plan::Schedule,
    sample::{SharedNoise, transform},
    session::{
        cloud::{Admission, CloudOutput, CloudSession, OwnDraft, OwnDrafts, Pass, TargetInfo},
        edge::{Ahead, DraftInfo, EdgeOutput, EdgeSession, EndReason, Event, Mode, Settings},
    },
};

use crate::{
    choose,
    toy::{Cache, Toy},
};

const TOKENIZER_HASH: [u8; 32] = [7; 32];
/// A bound on steps that no run of these sizes reaches unless it never ends.
const MOST_STEPS: usize = 20_000;
/// Virtual time that a step takes.
const STEP: Duration = Duration::from_micros(100);

/// Runs a few generations over one session. Whatever was guessed, by either end and at any time, the target writes the
/// text that it writes alone. A lie is refused, or ignored, or believed without any harm. Without lies each generation
/// ends.
pub fn check(bytes: &[u8]) {
    // Unstructured never runs out: where bytes end it goes on with zeros.
    let _ = play(&mut Unstructured::new(bytes));
}

fn play(input: &mut Unstructured<'_>) -> Result<()> {
    let vocab_size = choose::one_of(input, &[8, 2, 3, 40, 300])?;
    let target = Toy { vocab_size, seed: input.arbitrary()?, difference: 0 };
    let draft = Toy { difference: choose::one_of(input, &[3, 0, 8, 200])?, ..target };
    let info = TargetInfo {
        vocab_size,
        tokenizer_hash: TOKENIZER_HASH,
        limits: Limits {
            context_length: input.int_in_range(8..=48)?,
            max_draft_tokens: input.int_in_range(0..=10)?,
            max_in_flight: 1,
            max_guesses: input.int_in_range(1..=20)?,
            max_branches: input.int_in_range(0..=6)?,
            own_draws: false,
            fewest_passes: false,
        },
        eos_ids: choose::ids(input, 2, vocab_size)?,
    };
    let context_length = input.int_in_range(0..=48)?;
    let draft_info =
        DraftInfo { vocab_size, tokenizer_hash: TOKENIZER_HASH, context_length, heads: None, guess_chance: None };
    let mut pair = Pair {
        edge: EdgeSession::new(draft_info),
        cloud: CloudSession::new(info.clone(), Admission::default()),
        models: [draft, target],
        caches: Default::default(),
        queues: Default::default(),
        pass: None,
        own: None,
        is_held: false,
        is_cut: false,
        now: Duration::ZERO,
        steps: 0,
        expected: Vec::new(),
        prompt: 0,
        committed: Vec::new(),
        written: 0,
        end: None,
        lied: false,
        has_failed: false,
        chooses: false,
    };
    pair.settle();
    for _ in 0..3 {
        let prompt: Vec<u32> =
            (0..input.int_in_range(1..=6)?).map(|_| input.int_in_range(0..=vocab_size - 1)).collect::<Result<_>>()?;
        let settings = settings(input)?;
        pair.expected = alone(&target, &prompt, &settings, &info);
        (pair.prompt, pair.written) = (prompt.len(), prompt.len());
        pair.chooses = input.arbitrary()?;
        (pair.committed, pair.end) = (Vec::new(), None);
        pair.edge.start(prompt, &settings, pair.now).expect("this can be asked for");
        for _ in 0..input.int_in_range(0..=60u8)? {
            pair.disturb(input)?;
        }
        pair.settle();
        if pair.lied {
            // What became of the session is its sender's own affair.
            return Ok(());
        }
        assert!(pair.edge.is_idle() && !pair.cloud.is_generating(), "the generation came to a halt without an end");
        let text = &pair.expected[pair.prompt..];
        match pair.end.expect("an idle edge has told of the end") {
            EndReason::Cancelled => assert!(text.starts_with(&pair.committed)),
            EndReason::Finish(_) => assert_eq!(pair.committed, text),
        }
        if input.is_empty() {
            break;
        }
    }
    Ok(())
}

/// Settings of a generation with any plan, or one that follows measurements; now and then without guesses.
fn settings(input: &mut Unstructured<'_>) -> Result<Settings> {
    let fixed = if input.arbitrary()? {
        let patience = choose::one_of(input, &[0.0, 0.001, 0.5])?;
        Some(Schedule { group: input.int_in_range(1..=6)?, patience, lead: input.int_in_range(1..=20)? })
    } else {
        None
    };
    let mode = if choose::rarely(input, 8)? {
        Mode::CloudOnly
    } else {
        Mode::Ahead(Ahead { fixed, branches: input.arbitrary()?, ..Ahead::default() })
    };
    let (sampling, seed) = (choose::sampling(input, true)?, u64::from(input.arbitrary::<u8>()?));
    Ok(Settings { mode, sampling, seed, max_new_tokens: input.int_in_range(1..=32)? })
}

/// Prompt and text as the target writes it alone, token by token.
fn alone(target: &Toy, prompt: &[u32], settings: &Settings, info: &TargetInfo) -> Vec<u32> {
    let (mut text, noise) = (prompt.to_vec(), SharedNoise::new(settings.seed));
    let limit = (prompt.len() + settings.max_new_tokens as usize).min(info.limits.context_length as usize);
    while text.len() < limit {
        let p = transform(&target.logits(&text), &settings.sampling).expect("the target's logits are sound");
        let token = noise.choose(text.len(), &p);
        text.push(token);
        if info.eos_ids.contains(&token) {
            break;
        }
    }
    text
}

struct Pair {
    edge: EdgeSession,
    cloud: CloudSession,
    /// The models: draft, target.
    models: [Toy; 2],
    caches: [Cache; 2],
    /// Frames under way: up, down.
    queues: [VecDeque<Vec<u8>>; 2],
    /// The target's pass under way.
    pass: Option<Pass>,
    /// Guesses that the server makes itself, where it does.
    own: Option<OwnDrafts>,
    is_held: bool,
    /// True if the connection is another, over which the edge has not yet come back.
    is_cut: bool,
    now: Duration,
    steps: usize,
    /// Prompt and text, as the target writes it alone.
    expected: Vec<u32>,
    prompt: usize,
    /// Tokens that the edge has committed.
    committed: Vec<u32>,
    /// Length of the text that the cloud has sent, prompt included.
    written: usize,
    end: Option<EndReason>,
    lied: bool,
    /// True if the edge has detected the lie.
    has_failed: bool,
    /// True if the edge's engine chooses guesses on its own.
    chooses: bool,
}

impl Pair {
    fn disturb(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        match input.int_in_range(0..=19u8)? {
            19 if choose::rarely(input, 4)? => self.edge.cancel(),
            18 => self.now += Duration::from_millis(input.arbitrary::<u16>()?.into()),
            17 => self.cut(),
            16 if choose::rarely(input, 4)? => self.lie(input)?,
            13 if choose::rarely(input, 8)? => self.lie_to_the_edge(input)?,
            15 => drop(self.end_hold()),
            14 => {
                let own_draft = choose::one_of(input, &[None, Some(0.0), Some(0.3), Some(f64::INFINITY)])?;
                let rows = RowCosts::each(choose::one_of(input, &[0.06, 0.0, 0.5])?);
                self.cloud.set_prices(Prices { rows, own_draft, ..Prices::default() });
            }
            other => {
                self.step(other.into());
            }
        }
        Ok(())
    }

    /// Steps until nothing moves; a pass is held until nothing else does.
    fn settle(&mut self) {
        while (0..6).any(|which| self.step(which)) || self.end_hold() {}
    }

    /// Ends the hold of a pass, and returns true if there was one.
    fn end_hold(&mut self) -> bool {
        let is_held = std::mem::take(&mut self.is_held);
        if is_held {
            self.cloud.end_hold();
        }
        is_held
    }

    /// Cuts the connection, with the frames under way, and opens another.
    fn cut(&mut self) {
        if self.cloud.is_worth_keeping() && self.edge.disconnected() {
            (self.queues, self.is_cut) = (Default::default(), true);
            self.edge.reconnected();
        }
    }

    /// Sends tokens that the cloud did not send, as a server that lies does.
    fn lie_to_the_edge(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let tokens = Tokens {
            generation: choose::one_of(input, &[1, 2, 3, 0, u32::MAX])?,
            position: self.written.saturating_sub(input.int_in_range(0..=2)?) as u32,
            ids: choose::ids(input, 6, self.models[0].vocab_size)?,
            accepted: input.int_in_range(0..=7)?,
            own: input.arbitrary()?,
            heard: input.arbitrary()?,
            pass: choose::one_of(input, &[0, 100, u32::MAX])?,
            finish: choose::one_of(input, &[None, Some(Finish::Eos), Some(Finish::Length), Some(Finish::Context)])?,
        };
        self.lied = true;
        self.has_failed |= self.edge.handle_frame(&Frame::Tokens(tokens).encode(), self.now).is_err();
        Ok(())
    }

    /// A frame of guesses that the edge did not make: they may fit, or not.
    fn lie(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let vocab_size = self.models[0].vocab_size;
        let ids = (0..input.int_in_range(0..=12)?).map(|_| input.int_in_range(0..=vocab_size - 1));
        let ids = ids.collect::<Result<Vec<u32>>>()?;
        let count = if choose::rarely(input, 8)? { input.arbitrary()? } else { ids.len() as u8 };
        let scheme = Scheme::new(SchemeParameters::Coupled, vocab_size).expect("ids of this vocabulary");
        let payload = scheme.encode_round(&Drafts::Ids(ids)).expect("they are of the vocabulary");
        let position = if choose::rarely(input, 3)? { choose::number(input, 60)? } else { self.written as u32 };
        let guesses = Guesses {
            generation: choose::one_of(input, &[1, 2, 3, 0, u32::MAX])?,
            chain: choose::number(input, 9)?,
            parent: if input.arbitrary()? { choose::number(input, 8)? } else { 0 },
            position,
            patience: choose::one_of(input, &[0, 10, u32::MAX])?,
            count,
            payload,
        };
        self.lied = true;
        self.cloud.handle_frame(&Frame::Guesses(guesses).encode());
        Ok(())
    }

    /// Takes one step of one of the six that can move; returns true if it moved.
    fn step(&mut self, which: usize) -> bool {
        self.steps += 1;
        self.now += STEP;
        assert!(self.steps < MOST_STEPS, "this never ends");
        match which % 6 {
            0 => self.poll_edge(),
            1 => {
                let Some(bytes) = self.queues[0].pop_front() else { return false };
                match Frame::decode(&bytes) {
                    Ok(Frame::Resume(resume)) => {
                        self.is_cut = false;
                        assert!(self.cloud.resume(&resume) || self.lied, "it was not kept");
                    }
                    _ => self.cloud.handle_frame(&bytes),
                }
                true
            }
            2 => self.poll_cloud(),
            3 => {
                let Some(pass) = self.pass.take() else { return false };
                let rows = self.caches[1].forward(&pass.forward, &self.models[1]);
                let mut rows: Vec<Vec<f32>> = rows.into_iter().map(|row| row.logits).collect();
                let round = &pass.round;
                for (line, branch) in (1..).zip(&round.branches) {
                    let text = [&self.caches[1].0[..round.position], &round.line(line)].concat();
                    let first = round.position + branch.from + 1;
                    rows.extend((first..=text.len()).map(|length| self.models[1].logits(&text[..length])));
                }
                let judgement = pass.judge(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
                self.cloud.handle_judgement(judgement.expect("the target's logits are sound"));
                true
            }
            4 => {
                let Some(OwnDrafts { text, count, .. }) = self.own.take() else { return false };
                // Right, wrong, or nothing that there is.
                let right = self.expected.iter().skip(text.len()).copied();
                let ids = match text.len() % 3 {
                    0 => right.take(count).collect(),
                    1 => right.take(count / 2).chain([self.models[0].vocab_size - 1]).collect(),
                    _ => vec![u32::MAX; count],
                };
                let clarity = |id: u32| {
                    id.is_multiple_of(2).then(|| Clarity { margin: f64::from(id % 7), probability: 0.3, run: 0 })
                };
                let drafts =
                    ids.into_iter().map(|id| OwnDraft { clarity: clarity(id), ..OwnDraft::from(id) }).collect();
                self.cloud.handle_drafts(drafts);
                true
            }
            _ => {
                let Some(bytes) = self.queues[1].pop_front() else { return false };
                let handled = self.edge.handle_frame(&bytes, self.now);
                self.has_failed |= handled.is_err();
                assert!(handled.is_ok() || self.lied, "the cloud keeps the protocol: {handled:?}");
                true
            }
        }
    }

    fn poll_edge(&mut self) -> bool {
        // Its driver ends with the error.
        if self.has_failed {
            return false;
        }
        let polled = self.edge.poll(self.now);
        self.has_failed |= polled.is_err();
        assert!(polled.is_ok() || self.lied, "the draft's logits are sound: {polled:?}");
        match polled.unwrap_or(None) {
            None => return false,
            Some(EdgeOutput::Send(bytes)) => self.queues[0].push_back(bytes),
            Some(EdgeOutput::Forward(forward)) => {
                if let Some(choice) = forward.chosen.filter(|_| self.chooses) {
                    let chosen = self.caches[0].choose(forward, &self.models[0], choice);
                    let handled = self.edge.handle_chosen(&chosen, self.now);
                    self.has_failed |= handled.is_err();
                    assert!(handled.is_ok() || self.lied, "the guesses are tokens: {handled:?}");
                    return true;
                }
                for row in self.caches[0].forward(&forward, &self.models[0]) {
                    let handled = self.edge.handle_logits(&row.logits, &row.hidden, self.now);
                    self.has_failed |= handled.is_err();
                    assert!(handled.is_ok() || self.lied, "the draft's logits are sound: {handled:?}");
                }
            }
            Some(EdgeOutput::Event(Event::Committed(committed))) => {
                assert!(self.end.is_none() || self.lied, "tokens came after the end");
                self.committed.extend(committed.tokens.iter().map(|token| token.0));
            }
            Some(EdgeOutput::Event(Event::Finished(end))) => assert!(self.end.replace(end).is_none() || self.lied),
            Some(EdgeOutput::Event(Event::Connected(_))) => {}
            Some(EdgeOutput::Event(Event::Resumed { anew })) => assert!(!anew),
            Some(EdgeOutput::Event(other)) => assert!(self.lied, "what the edge let pass is refused: {other:?}"),
        }
        true
    }

    fn poll_cloud(&mut self) -> bool {
        // Without a connection the cloud is not polled.
        if self.is_cut {
            return false;
        }
        match self.cloud.poll() {
            None => return false,
            Some(CloudOutput::Send(bytes)) => {
                self.read(&bytes);
                self.queues[1].push_back(bytes);
            }
            Some(CloudOutput::Verify(pass)) => {
                self.is_held = false;
                assert_eq!(self.pass.replace(pass), None, "two passes at a time");
            }
            Some(CloudOutput::Hold(patience)) => {
                assert!(patience > Duration::ZERO && patience <= Duration::from_secs(2), "{patience:?}");
                self.is_held = true;
            }
            Some(CloudOutput::Draft(wanted)) => {
                assert!(wanted.count > 0 && self.pass.is_none() && self.expected.starts_with(&wanted.text));
                assert_eq!(self.own.replace(wanted), None, "two drafts at a time");
            }
            Some(CloudOutput::Offer(_) | CloudOutput::Shape(_)) => panic!("the draws are shared"),
            Some(CloudOutput::Close) => assert!(self.lied, "the cloud closed"),
        }
        true
    }

    /// Reads a frame of the cloud: its tokens have to be those that the target writes alone.
    fn read(&mut self, bytes: &[u8]) {
        let Ok(Frame::Tokens(tokens)) = Frame::decode(bytes) else { return };
        let (from, to) = (tokens.position as usize, tokens.position as usize + tokens.ids.len());
        // An edge that was lied to comes back with a text that it has not from us.
        assert!(from <= self.written || self.lied, "there is a gap in the text");
        assert_eq!(self.expected.get(from..to), Some(&tokens.ids[..]), "from {from}");
        self.written = self.written.max(to);
    }
}
