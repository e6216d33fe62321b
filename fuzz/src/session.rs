//! Both state machines, joined by queues that deliver when the input says so.

use core::time::Duration;
use std::{collections::VecDeque, sync::Arc};

use arbitrary::{Result, Unstructured};
use outrider_codec::{frame::Finish, rule::RuleParameters};
use outrider_speculation::{
    draft::gate::Gate,
    session::{
        cloud::{Admission, CloudOutput, CloudSession, Pass, TargetInfo},
        edge::{DraftInfo, EdgeOutput, EdgeSession, EndReason, Event, Mode, Origin, Settings, Speculation},
    },
};

use crate::{
    choose, rules,
    toy::{self, Cache, Toy},
};

const TOKENIZER_HASH: [u8; 32] = [7; 32];
/// More than any run of these sizes takes; a run that takes more never ends.
const MOST_STEPS: usize = 20_000;

/// Runs a few generations, some cancelled, in one connection, in any order of events that the contracts of both ends
/// allow. Each has to end, for a reason that is true; at temperature 0 its tokens have to be those of the model that
/// they are said to come from, and the text the target's own under rules that promise it.
pub fn check(bytes: &[u8]) {
    // Unstructured never runs out: where bytes end it goes on with zeros.
    let _ = play(&mut Unstructured::new(bytes));
}

fn play(input: &mut Unstructured<'_>) -> Result<()> {
    let vocab_size = choose::one_of(input, &[8, 1, 2, 3, 40, 300])?;
    let target = Toy { vocab_size, seed: input.arbitrary()?, difference: 0 };
    let draft = Toy { difference: choose::one_of(input, &[3, 0, 8, 200])?, ..target };
    let context_length = input.int_in_range(1..=48)?;
    let info = TargetInfo {
        vocab_size,
        tokenizer_hash: TOKENIZER_HASH,
        context_length,
        max_draft_tokens: input.int_in_range(0..=10)?,
        max_in_flight: 3,
        max_guesses: 0,
        max_branches: 0,
        own_draws: false,
        fewest_passes: false,
        eos_ids: choose::ids(input, 2, vocab_size)?,
    };
    let draft_info = DraftInfo {
        vocab_size,
        tokenizer_hash: TOKENIZER_HASH,
        context_length: input.int_in_range(0..=48)?,
        heads: toy::heads(input)?.map(Arc::new),
    };
    let mut pair = Pair {
        edge: EdgeSession::new(draft_info),
        cloud: CloudSession::new(info.clone(), Admission::default()),
        models: [draft, target],
        caches: Default::default(),
        queues: Default::default(),
        pass: None,
        now: Duration::ZERO,
        steps: 0,
        tokens: Vec::new(),
        end: None,
        chooses: false,
        cuts: false,
    };
    pair.settle();
    assert!(pair.edge.is_idle(), "the handshake failed");
    for _ in 0..3 {
        let prompt = choose::ids(input, 6, vocab_size)?;
        let settings = choose::settings(input, vocab_size)?;
        if pair.edge.start(prompt.clone(), &settings, pair.now).is_err() {
            assert!(pair.edge.is_idle());
            continue;
        }
        (pair.tokens, pair.end) = (Vec::new(), None);
        (pair.chooses, pair.cuts) = (input.arbitrary()?, input.arbitrary()?);
        let disturbances = input.int_in_range(0..=24u8)?;
        for _ in 0..disturbances {
            match input.int_in_range(0..=15u8)? {
                15 => pair.edge.cancel(),
                14 => pair.now += Duration::from_millis(input.arbitrary::<u16>()?.into()),
                other => {
                    pair.step(other.into());
                }
            }
        }
        pair.settle();
        assert!(pair.edge.is_idle() && !pair.cloud.is_generating(), "the generation came to a halt without an end");
        pair.judge(&prompt, &settings, &info);
        if input.is_empty() {
            break;
        }
    }
    Ok(())
}

struct Pair {
    edge: EdgeSession,
    cloud: CloudSession,
    /// Draft, target.
    models: [Toy; 2],
    caches: [Cache; 2],
    /// Up, down.
    queues: [VecDeque<Vec<u8>>; 2],
    /// The target's pass under way.
    pass: Option<Pass>,
    now: Duration,
    steps: usize,
    tokens: Vec<(u32, Origin)>,
    end: Option<EndReason>,
    /// Whether the draft model's engine chooses drafts by itself, where it may, and gives no more logits than are
    /// enough.
    chooses: bool,
    cuts: bool,
}

impl Pair {
    /// Steps until nothing moves.
    fn settle(&mut self) {
        while (0..5).any(|which| self.step(which)) {}
    }

    /// One step of one of the five that can move; whether it did.
    fn step(&mut self, which: usize) -> bool {
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
                let judgement = pass.judge(&rows.iter().map(|row| &row.logits[..]).collect::<Vec<_>>());
                self.cloud.handle_judgement(judgement.expect("the target's logits are sound"));
                true
            }
            _ => {
                let Some(bytes) = self.queues[1].pop_front() else { return false };
                self.edge.handle_frame(&bytes, self.now).expect("the cloud keeps the protocol");
                true
            }
        }
    }

    fn poll_edge(&mut self) -> bool {
        match self.edge.poll(self.now).expect("the draft's logits are sound") {
            None => return false,
            Some(EdgeOutput::Send(bytes)) => self.queues[0].push_back(bytes),
            Some(EdgeOutput::Forward(forward)) => {
                if let Some(choice) = forward.chosen.filter(|_| self.chooses) {
                    let chosen = self.caches[0].choose(forward, &self.models[0], choice);
                    self.edge.handle_chosen(&chosen, self.now).expect("they are tokens");
                    return true;
                }
                let enough = forward.top_k.filter(|_| self.cuts);
                for mut row in self.caches[0].forward(&forward, &self.models[0]) {
                    if let Some(top_k) = enough {
                        toy::cut(&mut row.logits, top_k);
                    }
                    let handled = self.edge.handle_logits(&row.logits, &row.hidden, self.now);
                    handled.expect("the draft's logits are sound");
                }
            }
            Some(EdgeOutput::Event(Event::Committed(committed))) => {
                assert_eq!(self.end, None, "tokens came after the end");
                self.tokens.extend(committed.tokens);
            }
            Some(EdgeOutput::Event(Event::Finished(end))) => assert_eq!(self.end.replace(end), None),
            Some(EdgeOutput::Event(Event::Connected(_))) => {}
            Some(EdgeOutput::Event(other)) => panic!("what the edge let pass is refused: {other:?}"),
        }
        true
    }

    fn poll_cloud(&mut self) -> bool {
        match self.cloud.poll() {
            None => return false,
            Some(CloudOutput::Send(bytes)) => self.queues[1].push_back(bytes),
            Some(CloudOutput::Verify(pass)) => assert_eq!(self.pass.replace(pass), None, "two passes at a time"),
            Some(CloudOutput::Hold(_) | CloudOutput::Draft(_) | CloudOutput::Offer(_)) => panic!("nothing is guessed"),
            Some(CloudOutput::Close) => panic!("the cloud closed"),
        }
        true
    }

    fn judge(&self, prompt: &[u32], settings: &Settings, info: &TargetInfo) {
        let ended_by_eos = self.tokens.last().is_some_and(|token| info.eos_ids.contains(&token.0));
        let length = self.tokens.len();
        match self.end.expect("an idle edge has told of the end") {
            EndReason::Finish(Finish::Eos) => assert!(ended_by_eos),
            EndReason::Finish(Finish::Length) => assert_eq!(length, settings.max_new_tokens as usize),
            EndReason::Finish(Finish::Context) => assert_eq!(prompt.len() + length, info.context_length as usize),
            EndReason::Cancelled => {}
        }
        assert!(length <= settings.max_new_tokens as usize && prompt.len() + length <= info.context_length as usize);
        let within = &self.tokens[..length.saturating_sub(1)];
        assert!(!within.iter().any(|token| info.eos_ids.contains(&token.0)), "the text goes on after its end");
        self.judge_statistics(settings);
        if settings.sampling.temperature == 0.0 {
            self.judge_greedy(prompt, settings);
        }
    }

    /// Each committed token is counted once, by where it came from.
    fn judge_statistics(&self, settings: &Settings) {
        let statistics = self.edge.statistics();
        let from = |origin: Origin| self.tokens.iter().filter(|token| token.1 == origin).count();
        let alone = from(Origin::Cloud);
        let drafts = matches!(settings.mode, Mode::Speculative(_));
        assert_eq!(statistics.tokens, self.tokens.len());
        assert_eq!(statistics.streamed, if drafts { alone } else { 0 });
        assert_eq!(statistics.passed, from(Origin::Passed));
        assert_eq!(statistics.accepted, from(Origin::Accepted));
        assert_eq!(statistics.resampled, from(Origin::Resampled));
        assert_eq!(statistics.server_passes, statistics.rounds + alone);
        let Some(explanation) = &statistics.explanation else { return };
        let Mode::Speculative(speculation) = &settings.mode else { panic!("nothing was drafted") };
        assert_eq!(explanation.judged, statistics.judged, "some drafts came without evidence");
        let judged = explanation.judged as f64;
        for sum in [explanation.rejections, explanation.variance, explanation.divergence] {
            assert!((-1e-6..=judged + 1e-6).contains(&sum), "{explanation:?}");
        }
        if speculation.rule.is_exact() {
            assert!(explanation.divergence <= 1e-5 * judged, "{explanation:?}");
        }
        if settings.sampling.temperature == 0.0 && rules::is_the_targets_when_greedy(rule(settings)) {
            // Nothing is left to chance.
            let rejected = (statistics.judged - statistics.accepted) as f64;
            assert!((explanation.rejections - rejected).abs() < 1e-4, "{explanation:?}, {rejected} rejected");
        }
    }

    /// At temperature 0 a model has one token to give.
    fn judge_greedy(&self, prompt: &[u32], settings: &Settings) {
        let exact = match &settings.mode {
            Mode::CloudOnly | Mode::Ahead(_) | Mode::Auto(_) => true,
            Mode::Speculative(speculation) => {
                speculation.gate == Gate::Never && rules::is_the_targets_when_greedy(rule(settings))
            }
        };
        let mut text = prompt.to_vec();
        for &(token, origin) in &self.tokens {
            let [draft, target] = [0, 1].map(|model| self.models[model].greedy(&text));
            let author = if matches!(origin, Origin::Accepted | Origin::Passed) { draft } else { target };
            assert_eq!(token, author, "{origin:?} after {text:?}");
            assert!(!exact || token == target, "the target's token after {text:?} is {target}, not {token}");
            text.push(token);
        }
    }
}

/// The rule that drafts are judged by.
fn rule(settings: &Settings) -> RuleParameters {
    match &settings.mode {
        Mode::CloudOnly | Mode::Ahead(_) | Mode::Auto(_) => RuleParameters::EXACT,
        Mode::Speculative(Speculation { rule, .. }) => {
            RuleParameters { number: rule.number(), parameter: rule.parameter() as f32 }
        }
    }
}
