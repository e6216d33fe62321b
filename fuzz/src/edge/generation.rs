//! What is known of a generation: what was committed, what has to be sent next, what it costs.

use outrider_codec::{
    distribution::DraftToken,
    frame::{Draft, Frame, Welcome},
    rule::{RuleParameters, StatisticKind},
    scheme::{Drafts, Scheme, SchemeParameters},
};
use outrider_speculation::{
    control::stop::StopRule,
    draft::gate::Gate,
    session::edge::{Committed, Mode, Origin, Settings, Speculation},
    study::statistics::{RoundRecord, Statistics},
};

use crate::{
    payload, rules,
    toy::{self, Cache, Toy},
};

/// More than confidence is off by where statistics are rounded to f16.
const ROUNDING: f64 = 1e-3;

/// What the driver knows of the generation under way.
pub(super) struct Generation {
    pub(super) settings: Settings,
    /// Prompt and committed tokens.
    pub(super) text: Vec<u32>,
    pub(super) prompt_length: usize,
    /// Where `text` has to end.
    limit: usize,
    /// As the cloud has it.
    pub(super) scheme: Option<Scheme>,
    pub(super) round: u32,
    /// The round that was sent and has no verdict.
    pub(super) sent: Option<(Draft, Drafts)>,
    /// Tokens that the target is to write alone.
    pub(super) stream: u32,
    /// Tokens that passed and that the cloud has not been told.
    passed: Vec<u32>,
    /// The token that the edge resampled and has not told.
    untold: Option<u32>,
    /// The draft model has run in this round.
    pub(super) has_fed: bool,
    /// The samples of the round's verdict were asked to be followed up.
    pub(super) asked: bool,
    /// Evidence that came in this round.
    pub(super) evidence: usize,
}

impl Generation {
    pub(super) fn new(prompt: Vec<u32>, settings: Settings, server: &Welcome) -> Self {
        let most = prompt.len().saturating_add(settings.max_new_tokens as usize);
        let scheme = match &settings.mode {
            Mode::CloudOnly | Mode::Ahead(_) | Mode::Auto(_) => None,
            Mode::Speculative(speculation) => {
                let mut scheme = Scheme::new(speculation.scheme, server.vocab_size).expect("the edge made it too");
                scheme.prime(&prompt);
                Some(scheme)
            }
        };
        Self {
            prompt_length: prompt.len(),
            text: prompt,
            limit: most.min(server.context_length as usize),
            scheme,
            round: 0,
            sent: None,
            stream: 0,
            passed: Vec::new(),
            untold: None,
            has_fed: false,
            asked: false,
            evidence: 0,
            settings,
        }
    }

    /// How the edge drafts.
    pub(super) fn speculation(&self) -> Option<&Speculation> {
        if let Mode::Speculative(speculation) = &self.settings.mode { Some(speculation) } else { None }
    }

    pub(super) fn resamples(&self) -> bool {
        self.speculation().is_some_and(|speculation| matches!(speculation.scheme, SchemeParameters::Dssd { .. }))
    }

    /// Whether tokens may be committed without asking.
    pub(super) fn passes(&self) -> bool {
        self.speculation().is_some_and(|speculation| speculation.gate != Gate::Never)
    }

    /// Whether a token follows a round in which all drafts are accepted.
    pub(super) fn has_bonus(&self) -> bool {
        self.speculation().is_none_or(|speculation| rules::has_bonus(rule(speculation)))
    }

    /// A round, or what is to be written alone.
    pub(super) fn sends(&mut self, draft: Draft, server: &Welcome, model: &Toy, sound: bool, cache: &Cache) {
        let speculation = self.speculation().expect("somebody drafts").clone();
        assert!(self.sent.is_none() && self.stream == 0, "a verdict or a token is due");
        assert_eq!(draft.resampled, self.untold.take());
        assert_eq!(draft.passed, std::mem::take(&mut self.passed));
        let left = self.limit.checked_sub(self.text.len()).filter(|&left| left > 0).expect("the text is at its end");
        let has_read = std::mem::take(&mut self.has_fed);
        self.evidence = 0;
        if draft.stream > 0 {
            let given_up = matches!(speculation.gate, Gate::SequenceCascade { .. });
            assert!(draft.stream as usize <= left, "more than is to be written");
            assert!(!given_up || draft.stream as usize == left, "the target is to write all of it");
            let is_adaptive = speculation.adaptive_mode && !speculation.gate.is_cascade();
            assert!(given_up || is_adaptive, "nobody said that the target should write alone");
            self.stream = draft.stream;
            return;
        }
        let count = usize::from(draft.count);
        // Where no token of p's follows a round, a draft more is in the bonus token's place.
        let bonus = u32::from(!self.has_bonus() && speculation.max_in_flight == 1);
        let most = match speculation.stop {
            StopRule::Fixed => speculation.draft_length.saturating_add(bonus).min(server.max_draft_tokens.into()),
            StopRule::Bild { .. } => (10 + bonus).min(server.max_draft_tokens.into()),
            _ => server.max_draft_tokens.into(),
        };
        assert!(
            draft.count <= server.max_draft_tokens && u32::from(draft.count) <= most,
            "{count} drafts, {most} allowed"
        );
        assert!(count + usize::from(self.has_bonus()) <= left, "no room for the cloud's token");
        assert!(count == 0 || !speculation.gate.is_cascade(), "a cascade drafts nothing");
        let drafts = self.read(&draft, &speculation);
        let ids = drafts.ids();
        assert!(ids.iter().all(|&id| id < model.vocab_size));
        assert!(!ids.iter().rev().skip(1).any(|id| server.eos_ids.contains(id)), "drafts go on after the end");
        let mut text = [&self.text[..], &ids].concat();
        // Without a pass in this round the cache may still hold what was rejected, or another generation.
        if has_read {
            cache.assert_holds(&text);
        }
        if sound {
            let has_looked = has_read && cache.0.len() == self.text.len();
            self.check_doubt(&speculation, &ids, model, has_looked);
        }
        if self.settings.sampling.temperature == 0.0 && sound {
            while text.len() > self.text.len() {
                assert_eq!(text.pop(), Some(model.greedy(&text)), "not the draft model's token");
            }
        }
        self.sent = Some((draft, drafts));
    }

    /// The drafts of a payload, as the cloud reads it.
    fn read(&self, draft: &Draft, speculation: &Speculation) -> Drafts {
        let scheme = self.scheme.as_ref().expect("there is a scheme");
        let statistic = rules::statistic(rule(speculation), &self.settings.sampling, speculation.scheme);
        let (lengths, payload) = match statistic {
            None => (None, &draft.payload[..]),
            Some(kind) => {
                let (lengths, payload) = rules::take(kind, &draft.payload, draft.count).expect("the cloud can read it");
                (Some(lengths), payload)
            }
        };
        let drafts = scheme.decode_round(payload, draft.count).expect("the cloud can read it");
        if let (Some(lengths), Drafts::Distributions(tokens)) = (lengths, &drafts) {
            let scalar = statistic == Some(StatisticKind::Scalar);
            let fits =
                |(token, &length): (&DraftToken, &usize)| length == if scalar { 1 } else { token.dist.ids().len() };
            assert!(tokens.iter().zip(&lengths).all(fits), "{lengths:?} statistics of {tokens:?}");
        }
        drafts
    }

    /// What was not let pass was in doubt. `has_looked`: the draft model's last row is that of the next token.
    fn check_doubt(&self, speculation: &Speculation, ids: &[u32], model: &Toy, has_looked: bool) {
        match speculation.gate {
            Gate::Sprinter { threshold } if !ids.is_empty() => {
                let threshold = threshold.unwrap_or(toy::TAU);
                let score = toy::gate_score(model.hidden(&self.text));
                assert!(score < threshold + ROUNDING, "{score} is enough to pass");
            }
            Gate::TokenCascade { alpha } if has_looked => {
                let peak = model.peak(&self.text);
                assert!(peak < 1.0 - alpha + ROUNDING, "{peak} is enough to pass");
            }
            _ => {}
        }
    }

    /// Tokens are committed: what it should cost is added to `expected`.
    pub(super) fn commits(&mut self, committed: &Committed, expected: &mut Statistics, model: &Toy, sound: bool) {
        let ids: Vec<u32> = committed.tokens.iter().map(|token| token.0).collect();
        assert!(!ids.is_empty() && ids.iter().all(|&id| id < model.vocab_size), "{ids:?}");
        assert!(self.text.len() + ids.len() <= self.limit, "more than was asked for");
        expected.tokens += ids.len();
        let Some(record) = &committed.round else {
            for &(id, origin) in &committed.tokens {
                match origin {
                    Origin::Passed => self.passes_one(id, expected, model, sound),
                    Origin::Cloud => self.takes_one(id, expected),
                    other => panic!("{other:?} without a round"),
                }
            }
            return;
        };
        let judged = record.accepted + usize::from(record.accepted < record.drafted.len() && record.token.is_some());
        if let Some(explanation) = &mut expected.explanation {
            explanation.judged += judged.min(self.evidence);
        }
        let rejected = judged > record.accepted;
        expected.server_passes += 1;
        expected.rounds += 1;
        expected.drafted += record.drafted.len();
        expected.accepted += record.accepted;
        expected.judged += judged;
        expected.resampled += usize::from(rejected);
        expected.payload_bits += record.payload_bits;
        expected.draft_frame_bits += record.uplink_bits;
        if rejected && self.resamples() {
            expected.rejection_downlink_bits += record.downlink_bits;
        }
        self.check_round(committed, record);
        self.text.extend(ids);
    }

    /// A token passed.
    fn passes_one(&mut self, id: u32, expected: &mut Statistics, model: &Toy, sound: bool) {
        let gate = self.speculation().expect("somebody drafts").gate;
        assert!(self.sent.is_none() && self.stream == 0, "it passed while the cloud was asked");
        if sound {
            match gate {
                Gate::Never => panic!("nothing is to pass"),
                Gate::Sprinter { threshold } => {
                    let threshold = threshold.unwrap_or(toy::TAU);
                    let score = toy::gate_score(model.hidden(&self.text));
                    assert!(score > threshold - ROUNDING, "{score} is not enough to pass");
                }
                Gate::TokenCascade { alpha } => {
                    let peak = model.peak(&self.text);
                    assert!(peak > 1.0 - alpha - ROUNDING, "{peak} is not enough to pass");
                }
                Gate::SequenceCascade { .. } => {}
            }
            if self.settings.sampling.temperature == 0.0 {
                assert_eq!(id, model.greedy(&self.text), "not the draft model's token");
            }
        }
        expected.passed += 1;
        self.passed.push(id);
        self.learn(id);
    }

    /// The target wrote a token alone.
    fn takes_one(&mut self, id: u32, expected: &mut Statistics) {
        expected.server_passes += 1;
        if self.scheme.is_some() {
            expected.streamed += 1;
            self.stream = self.stream.checked_sub(1).expect("nobody asked for it");
            self.round += u32::from(self.stream == 0);
        }
        self.learn(id);
    }

    /// A token was committed that was not in a round.
    fn learn(&mut self, id: u32) {
        self.text.push(id);
        if let Some(scheme) = &mut self.scheme {
            scheme.prime(&[id]);
        }
    }

    /// The record of a round, against what was sent. Teaches the scheme.
    fn check_round(&mut self, committed: &Committed, record: &RoundRecord) {
        let (draft, drafts) = self.sent.take().expect("a verdict has a draft");
        let drafted = drafts.ids();
        assert_eq!((record.round, &record.drafted), (self.round, &drafted));
        assert!(record.accepted <= drafted.len());
        let rejected = record.accepted < drafted.len() && record.token.is_some();
        let is_bonus = record.accepted == drafted.len() && record.token.is_some() && !drafted.is_empty();
        assert!(!is_bonus || self.has_bonus(), "the rule has no bonus token");
        let last = if rejected { Origin::Resampled } else { Origin::Bonus };
        let accepted = drafted[..record.accepted].iter().map(|&id| (id, Origin::Accepted));
        let expected: Vec<(u32, Origin)> = accepted.chain(record.token.map(|id| (id, last))).collect();
        assert_eq!(committed.tokens, expected);
        let frame_bits = Frame::Draft(draft.clone()).encode().len() * 8;
        assert_eq!(record.uplink_bits, frame_bits);
        assert!(record.payload_bits <= draft.payload.len() * 8);
        if let Some(speculation) = self.speculation()
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

/// The rule that drafts are judged by, as it travels.
pub(super) fn rule(speculation: &Speculation) -> RuleParameters {
    RuleParameters { number: speculation.rule.number(), parameter: speculation.rule.parameter() as f32 }
}
