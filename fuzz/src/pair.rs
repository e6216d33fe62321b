//! Both state machines, joined by queues that deliver when the input says so, and the laws that an edge keeps whatever
//! its server sends.

use core::time::Duration;
use std::{collections::VecDeque, sync::Arc};

use arbitrary::{Result, Unstructured};
use outrider_codec::{
    frame::{Draft, Frame, Limits},
    rule::RuleParameters,
};
use outrider_speculation::{
    control::stop::StopRule,
    draft::Gate,
    judge::Rule,
    session::{
        cloud::{Admission, CloudOutput, CloudSession, Pass, TargetInfo},
        edge::{Committed, DraftInfo, EdgeOutput, EdgeSession, EndReason, Event, Mode, Origin, Settings, Speculation},
    },
};

use crate::{
    choose, payload,
    toy::{self, Cache, Toy},
};

const TOKENIZER_HASH: [u8; 32] = [7; 32];
/// A bound on steps that no run of these sizes reaches unless it never ends.
const MOST_STEPS: usize = 20_000;
/// Largest error of a confidence whose statistics are rounded to f16.
const ROUNDING: f64 = 1e-3;

/// Two ends with their models, and the link between them.
pub struct Pair {
    /// State machine of the edge.
    pub edge: EdgeSession,
    /// State machine of the cloud.
    pub cloud: CloudSession,
    /// The target's limits.
    pub info: TargetInfo,
    /// Models of the draft and the target.
    pub models: [Toy; 2],
    caches: [Cache; 2],
    /// Frames on their way up, down.
    pub queues: [VecDeque<Vec<u8>>; 2],
    /// The target's pass under way.
    pass: Option<Pass>,
    /// A row of logits and a hidden state that a draft model should not give, for the edge's next pass.
    pub odd: Option<(Vec<f32>, Vec<f32>)>,
    /// The time at the edge.
    pub now: Duration,
    steps: usize,
    /// The generation under way, or the last one.
    pub run: Option<Run>,
    /// True if the edge received frames that its server did not send.
    pub lied: bool,
    /// True if the edge has given an error: it is not polled any more.
    pub failed: bool,
}

/// A generation, as the edge's outputs report it.
pub struct Run {
    /// Token ids of the prompt.
    pub prompt: Vec<u32>,
    /// The edge's settings.
    pub settings: Settings,
    /// Committed tokens with their origins.
    pub tokens: Vec<(u32, Origin)>,
    /// The reason of the end, once the edge gives one.
    pub end: Option<EndReason>,
    /// The text that the cloud's last pass went on from.
    pub cloud_text: Vec<u32>,
    /// The last Draft that was sent.
    pub draft: Option<Draft>,
    drafts: Vec<Draft>,
    /// Bits sent up and down the link.
    bits: [usize; 2],
    resamples: usize,
    /// True if all rows of logits were the model's.
    sound: bool,
    /// True if the draft model's engine chooses drafts where it may.
    chooses: bool,
    /// True if the draft model gives no more logits than are enough.
    cuts: bool,
}

/// Settings of the drafts, where the edge drafts.
pub fn drafting(settings: &Settings) -> Option<&Speculation> {
    if let Mode::Speculative(speculation) = &settings.mode { Some(speculation) } else { None }
}

impl Run {
    /// Prompt and committed tokens.
    pub fn text(&self) -> Vec<u32> {
        self.prompt.iter().copied().chain(self.tokens.iter().map(|token| token.0)).collect()
    }

    /// The rule that drafts are judged by, as it travels.
    pub fn rule(&self) -> RuleParameters {
        drafting(&self.settings).map_or(RuleParameters::EXACT, |drafting| RuleParameters {
            number: Rule::all().iter().take_while(|info| info.name != drafting.rule.info().name).count() as u8,
            parameter: drafting.rule.parameter() as f32,
        })
    }

    fn sends(&mut self, draft: Draft, model: &Toy) {
        let speculation = drafting(&self.settings).expect("somebody drafts");
        let is_cascade = matches!(speculation.gate, Gate::TokenCascade { .. } | Gate::SequenceCascade { .. });
        assert!(draft.count == 0 || !is_cascade, "a cascade drafts nothing");
        // Where no token follows a round, a draft more is in its place.
        let most = speculation.draft_length.saturating_add(1);
        assert!(speculation.stop != StopRule::Fixed || u32::from(draft.count) <= most, "{draft:?}, {most} allowed");
        if let (Gate::Sprinter { threshold }, true) = (speculation.gate, self.sound && draft.count > 0) {
            let score = toy::gate_score(model.hidden(&self.text()));
            assert!(score < threshold.unwrap_or(toy::TAU) + ROUNDING, "{score} is enough to pass");
        }
        self.draft = Some(draft.clone());
        self.drafts.push(draft);
    }

    fn commits(&mut self, committed: &Committed, context: u32, model: &Toy) {
        assert_eq!(self.end, None, "tokens came after the end");
        if let Some(record) = &committed.round {
            let judged = |id: &u32| (*id, Origin::Accepted);
            let rejects = record.accepted < record.drafted.len();
            let last = if rejects { Origin::Resampled } else { Origin::Bonus };
            let accepted = record.drafted[..record.accepted].iter().map(judged);
            assert_eq!(committed.tokens, accepted.chain(record.token.map(|id| (id, last))).collect::<Vec<_>>());
            let draft = self.drafts.iter().rev().find(|draft| draft.round == record.round).expect("it was sent");
            assert_eq!(usize::from(draft.count), record.drafted.len());
            assert_eq!(record.uplink_bits, Frame::Draft(draft.clone()).encode().len() * 8);
            let speculation = drafting(&self.settings).expect("a round has drafts");
            if let Some(budget) = speculation.bit_budget.filter(|_| draft.count > 0) {
                // An arithmetic code word is known to within a bit before it ends, and has whole bytes.
                let slack = if payload::is_adaptive(speculation.scheme) { 8 } else { 0 };
                let bits = record.payload_bits;
                assert!(bits <= budget as usize + slack, "{bits} bits, {budget} allowed");
            }
        }
        for &(id, origin) in &committed.tokens {
            let text = self.text();
            assert!(id < model.vocab_size, "{id} is outside the vocabulary");
            assert!(text.len() < context as usize && self.tokens.len() < self.settings.max_new_tokens as usize);
            if self.sound && matches!(origin, Origin::Accepted | Origin::Passed) {
                let is_greedy = self.settings.sampling.temperature == 0.0;
                assert!(!is_greedy || id == model.greedy(&text), "{origin:?}, and not the draft model's token");
                self.check_gate(origin, &text, model);
            }
            self.tokens.push((id, origin));
        }
    }

    /// A token that passed was in no doubt.
    fn check_gate(&self, origin: Origin, text: &[u32], model: &Toy) {
        if origin != Origin::Passed {
            return;
        }
        let (confidence, least) = match drafting(&self.settings).expect("somebody drafts").gate {
            Gate::Never => panic!("nothing is to pass"),
            Gate::Sprinter { threshold } => (toy::gate_score(model.hidden(text)), threshold.unwrap_or(toy::TAU)),
            Gate::TokenCascade { alpha } => (model.peak(text), 1.0 - alpha),
            Gate::SequenceCascade { .. } => return,
        };
        assert!(confidence > least - ROUNDING, "{confidence} is not enough to pass");
    }
}

impl Pair {
    /// Makes both ends before the handshake, with models and limits that the input chooses.
    pub fn new(input: &mut Unstructured<'_>) -> Result<Self> {
        let vocab_size = choose::one_of(input, &[8, 1, 2, 3, 40, 300])?;
        let target = Toy { vocab_size, seed: input.arbitrary()?, difference: 0 };
        let draft = Toy { difference: choose::one_of(input, &[3, 0, 8, 200])?, ..target };
        let limits = Limits::rounds(input.int_in_range(1..=48)?, input.int_in_range(0..=10)?);
        let info = TargetInfo {
            vocab_size,
            tokenizer_hash: TOKENIZER_HASH,
            limits: Limits { max_in_flight: 3, ..limits },
            eos_ids: choose::ids(input, 2, vocab_size)?,
        };
        let draft_info = DraftInfo {
            vocab_size,
            tokenizer_hash: TOKENIZER_HASH,
            context_length: input.int_in_range(0..=48)?,
            heads: toy::heads(input)?.map(Arc::new),
            guess_chance: None,
        };
        Ok(Self {
            edge: EdgeSession::new(draft_info),
            cloud: CloudSession::new(info.clone(), Admission::default()),
            info,
            models: [draft, target],
            caches: Default::default(),
            queues: Default::default(),
            pass: None,
            odd: None,
            now: Duration::ZERO,
            steps: 0,
            run: None,
            lied: false,
            failed: false,
        })
    }

    /// Begins a generation with settings that may be out of range; whether the edge takes them.
    pub fn start(&mut self, input: &mut Unstructured<'_>) -> Result<bool> {
        let prompt = choose::ids(input, 6, self.info.vocab_size)?;
        let settings = choose::settings(input, self.info.vocab_size)?;
        let is_idle = self.edge.is_idle();
        if self.edge.start(prompt.clone(), &settings, self.now).is_err() {
            assert_eq!(self.edge.is_idle(), is_idle);
            return Ok(false);
        }
        assert!(is_idle && !self.edge.is_idle());
        self.run = Some(Run {
            prompt,
            settings,
            tokens: Vec::new(),
            end: None,
            cloud_text: Vec::new(),
            draft: None,
            drafts: Vec::new(),
            bits: [0; 2],
            resamples: 0,
            sound: true,
            chooses: input.arbitrary()?,
            cuts: input.arbitrary()?,
        });
        Ok(true)
    }

    /// Steps until nothing moves.
    pub fn settle(&mut self) {
        while (0..5).any(|which| self.step(which)) {}
    }

    /// Takes one step of one of the five that can move; returns true if it moved.
    pub fn step(&mut self, which: usize) -> bool {
        self.steps += 1;
        assert!(self.steps < MOST_STEPS, "this never ends");
        match which % 5 {
            0 => self.poll_edge(),
            1 => {
                let Some(bytes) = self.queues[0].pop_front() else { return false };
                self.cloud.handle_frame(&bytes);
                true
            }
            2 => self.poll_cloud(),
            3 => {
                let Some(pass) = self.pass.take() else { return false };
                let rows = self.caches[1].forward(&pass.forward, &self.models[1]);
                if let Some(run) = self.run.as_mut().filter(|_| pass.forward.rows > 0) {
                    let length = self.caches[1].0.len() - pass.forward.rows + 1;
                    run.cloud_text = self.caches[1].0[..length].to_vec();
                }
                let judgement = pass.judge(&rows.iter().map(|row| &row.logits[..]).collect::<Vec<_>>());
                self.cloud.handle_judgement(judgement.expect("the target's logits are sound"));
                true
            }
            _ => {
                let Some(bytes) = self.queues[1].pop_front() else { return false };
                self.deliver(&bytes);
                true
            }
        }
    }

    /// Hands a frame, or other bytes, to the edge.
    pub fn deliver(&mut self, bytes: &[u8]) {
        if let Some(run) = &mut self.run {
            run.bits[1] += bytes.len() * 8;
        }
        self.note(|pair| pair.edge.handle_frame(bytes, pair.now));
    }

    /// Calls the edge, and notes whether that failed.
    pub fn note<E: core::fmt::Debug + core::fmt::Display>(
        &mut self,
        call: impl FnOnce(&mut Self) -> core::result::Result<(), E>,
    ) {
        if let Err(error) = call(self) {
            assert!(self.lied && !error.to_string().is_empty(), "both ends keep the protocol: {error:?}");
            self.failed = true;
        }
    }

    fn poll_edge(&mut self) -> bool {
        if self.failed {
            return false;
        }
        let polled = self.edge.poll(self.now);
        let Ok(polled) = polled else {
            self.note(|_| polled.map(drop));
            return false;
        };
        match polled {
            None => {
                self.check_statistics();
                return false;
            }
            Some(EdgeOutput::Send(bytes)) => self.send(bytes),
            Some(EdgeOutput::Forward(forward)) => {
                let run = self.run.as_mut().expect("a pass is part of a generation");
                if let Some((logits, hidden)) = self.odd.take() {
                    (run.sound, self.lied) = (false, true);
                    for _ in self.caches[0].forward(&forward, &self.models[0]) {
                        self.note(|pair| pair.edge.handle_logits(&logits, &hidden, pair.now));
                    }
                    return true;
                }
                if let Some(choice) = forward.chosen.filter(|_| run.chooses) {
                    let chosen = self.caches[0].choose(forward, &self.models[0], choice);
                    self.note(|pair| pair.edge.handle_chosen(&chosen, pair.now));
                    return true;
                }
                let enough = forward.top_k.filter(|_| run.cuts);
                for mut row in self.caches[0].forward(&forward, &self.models[0]) {
                    if let Some(top_k) = enough {
                        toy::cut(&mut row.logits, top_k);
                    }
                    self.note(|pair| pair.edge.handle_logits(&row.logits, &row.hidden, pair.now));
                }
            }
            Some(EdgeOutput::Event(event)) => self.happens(event),
        }
        true
    }

    fn send(&mut self, bytes: Vec<u8>) {
        let frame = Frame::decode(&bytes).expect("what is sent can be read");
        assert_eq!(frame.encode(), bytes);
        if let Some(run) = &mut self.run {
            run.bits[0] += bytes.len() * 8;
            match frame {
                Frame::Draft(draft) => run.sends(draft, &self.models[0]),
                Frame::Resample { .. } => run.resamples += 1,
                _ => {}
            }
        }
        self.queues[0].push_back(bytes);
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Connected(welcome) => assert_eq!(welcome.vocab_size, self.info.vocab_size),
            Event::Committed(committed) => {
                let context = self.edge.server().expect("there is a session").limits.context_length;
                let run = self.run.as_mut().expect("a generation is under way");
                run.commits(&committed, context, &self.models[0]);
            }
            Event::Finished(end) => {
                let run = self.run.as_mut().expect("only what is under way can end");
                assert_eq!(run.end.replace(end), None);
                assert!(end == EndReason::Cancelled || !run.tokens.is_empty());
            }
            // Its driver ends with the connection.
            Event::Closed(_) | Event::Interrupted(_) if self.lied => self.failed = true,
            other => assert!(self.lied, "what the edge let pass is refused: {other:?}"),
        }
    }

    fn poll_cloud(&mut self) -> bool {
        match self.cloud.poll() {
            None => return false,
            Some(CloudOutput::Send(bytes)) => self.queues[1].push_back(bytes),
            Some(CloudOutput::Verify(pass)) => assert_eq!(self.pass.replace(pass), None, "two passes at a time"),
            Some(CloudOutput::Hold(_) | CloudOutput::Draft(_) | CloudOutput::Offer(_) | CloudOutput::Shape(_)) => {
                panic!("nothing is guessed")
            }
            Some(CloudOutput::Close) => assert!(self.lied, "the cloud closed"),
        }
        true
    }

    /// A text at its limit has ended. Each committed token is counted once, by where it came from, and each bit once.
    fn check_statistics(&self) {
        let Some(run) = &self.run else { return };
        let statistics = self.edge.statistics();
        let context = self.edge.server().map_or(0, |server| server.limits.context_length as usize);
        let is_full = run.tokens.len() >= run.settings.max_new_tokens as usize || run.text().len() >= context;
        assert!(!is_full || run.end.is_some(), "the text goes on past its end");
        let from = |origin: Origin| run.tokens.iter().filter(|token| token.1 == origin).count();
        let alone = from(Origin::Cloud);
        assert_eq!(statistics.tokens, run.tokens.len());
        assert_eq!(statistics.streamed, if drafting(&run.settings).is_some() { alone } else { 0 });
        assert_eq!(statistics.passed, from(Origin::Passed));
        assert_eq!(statistics.accepted, from(Origin::Accepted));
        assert_eq!(statistics.resampled, from(Origin::Resampled));
        assert_eq!(statistics.server_passes, statistics.rounds + alone);
        assert_eq!(statistics.follow_ups, run.resamples);
        let [up, down] = run.bits;
        assert_eq!(statistics.uplink_bits, up);
        // What comes after the end is ignored.
        assert!(statistics.downlink_bits == down || self.lied && statistics.downlink_bits < down);
        assert!(statistics.first_token <= statistics.elapsed && statistics.elapsed <= self.now);
        if let (Some(mean), Some(bound)) = (statistics.mean_dropped_mass, statistics.dropped_mass_bound) {
            assert!((0.0..=1.0 + 1e-9).contains(&mean) && mean <= bound + 1e-9, "{mean} exceeds {bound}");
        }
        if let Some(explanation) = &statistics.explanation {
            assert!(explanation.judged <= statistics.judged);
            let most = explanation.judged as f64 + 1e-6;
            for sum in [explanation.rejections, explanation.variance, explanation.divergence] {
                assert!((-1e-6..=most).contains(&sum), "{explanation:?}");
            }
        }
        let report = statistics.report();
        for number in [
            report.tokens_per_second,
            report.acceptance_rate,
            report.uplink_bits_per_token,
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
