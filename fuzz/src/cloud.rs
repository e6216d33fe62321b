//! The cloud's state machine: its driver's calls, and an edge that may be honest, mistaken or hostile.
//!
//! The oracle is a second reading of FORMAT.md: `Reference` says of every frame what has to follow from it, and
//! `verdict` what may follow from a pass.

use arbitrary::{Result, Unstructured};
use outrider_codec::{
    distribution::{DraftDist, DraftToken},
    frame::{Draft, ErrorCode, Frame, Hello, Limits, MAX_DRAFT_TOKENS, Prompt, Request, Tokens},
    half,
    probabilities::DraftProbability,
    rule::StatisticKind,
    scheme::{Drafts, SchemeParameters},
};
use outrider_speculation::{
    judge::{Judgement, NextToken},
    session::cloud::{Admission, CloudOutput, CloudSession, Pass, TargetInfo},
};

use crate::{
    choose,
    toy::{self, Cache, Toy},
};

mod reference;
mod verdict;

use reference::{Drafting, Generation, Reaction, Reference};

const TOKENIZER_HASH: [u8; 32] = [7; 32];
/// A bound on outputs that no call leaves to be polled.
const MOST_OUTPUTS: usize = 4;

/// Calls the session in any order that its contract allows, and compares what follows with the `Reference`. The
/// cache it keeps has to be there; at temperature 0 what it commits has to be the target's own text.
pub fn check(bytes: &[u8]) {
    // Unstructured never runs out: where bytes end it goes on with zeros.
    let _ = play(&mut Unstructured::new(bytes));
}

fn play(input: &mut Unstructured<'_>) -> Result<()> {
    let vocab_size = choose::one_of(input, &[8, 1, 2, 3, 40, 300])?;
    let target = TargetInfo {
        vocab_size,
        tokenizer_hash: TOKENIZER_HASH,
        limits: Limits {
            context_length: choose::number(input, 48)?,
            max_draft_tokens: input.int_in_range(0..=MAX_DRAFT_TOKENS)?,
            max_in_flight: input.int_in_range(1..=2)?,
            max_guesses: 0,
            max_branches: 0,
            own_draws: false,
            fewest_passes: false,
        },
        eos_ids: choose::ids(input, 2, vocab_size)?,
    };
    let mut driver = Driver {
        session: CloudSession::new(target.clone(), Admission::default()),
        model: Toy { vocab_size, seed: input.arbitrary()?, difference: 0 },
        cache: Cache::default(),
        pass: None,
        reference: Reference { target, greeted: false, closed: false, last_generation: 0, generation: None },
    };
    if !choose::rarely(input, 16)? {
        driver.deliver(&Frame::Hello(Hello { vocab_size, tokenizer_hash: TOKENIZER_HASH }).encode());
    }
    while !input.is_empty() {
        driver.operate(input)?;
        let generating = driver.reference.generation.is_some();
        assert_eq!(driver.session.is_generating(), generating);
    }
    Ok(())
}

struct Driver {
    session: CloudSession,
    model: Toy,
    cache: Cache,
    /// The pass under way, and the generation that asked for it.
    pass: Option<(Pass, u32)>,
    reference: Reference,
}

impl Driver {
    fn operate(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        match input.int_in_range(0..=15u8)? {
            0 | 1 => {
                let frame = self.start(input)?;
                self.deliver(&frame.encode());
            }
            2..=5 => {
                let frame = self.draft(input)?;
                let bytes =
                    if choose::rarely(input, 8)? { choose::mutated(input, frame.encode())? } else { frame.encode() };
                self.deliver(&bytes);
            }
            6..=9 => self.compute(None)?,
            10 => self.compute(Some(input))?,
            11 => self.fail(),
            12 => {
                let frame = self.other_frame(input)?;
                self.deliver(&frame.encode());
            }
            13 => {
                let length = input.int_in_range(0..=40)?;
                let bytes = input.bytes(length.min(input.len()))?;
                self.deliver(bytes);
            }
            14 if self.pass.is_none() => {
                // Neither of these calls was asked for.
                self.session.handle_judgement(Judgement::default());
                self.session.handle_failure("nothing was under way");
                assert_eq!(self.outputs(), []);
            }
            14 => self.lie(input)?,
            15 if choose::rarely(input, 4)? => {
                let code = ErrorCode::from_number(input.arbitrary()?);
                self.session.close(code, "enough");
                let reaction = if self.reference.closed {
                    Reaction::Nothing
                } else {
                    self.reference.end(Reaction::Error(0, code))
                };
                self.expect(reaction);
            }
            _ => {}
        }
        Ok(())
    }

    fn start(&self, input: &mut Unstructured<'_>) -> Result<Frame> {
        let vocab_size = self.model.vocab_size;
        let number = self.reference.last_generation.saturating_add(1);
        let request = Request {
            generation: if choose::rarely(input, 16)? { choose::number(input, number)?.max(1) } else { number },
            sampling: choose::sampling(input, true)?,
            seed: input.arbitrary::<u8>()?.into(),
            max_new_tokens: choose::number(input, 24)?.max(1),
            tokens: {
                let mut tokens = choose::ids(input, 6, vocab_size)?;
                tokens.push(input.int_in_range(0..=vocab_size - 1)?);
                tokens
            },
        };
        Ok(if choose::rarely(input, 6)? {
            Frame::Generate(request)
        } else {
            let scheme = choose::scheme(input, vocab_size)?;
            let (rule, evidence, max_in_flight) =
                (choose::rule(input)?, input.arbitrary()?, input.int_in_range(1..=2)?);
            Frame::Prompt(Prompt { rule, evidence, max_in_flight, ..Prompt::exact(scheme, request) })
        })
    }

    /// A Draft that fits the round, or nearly.
    fn draft(&self, input: &mut Unstructured<'_>) -> Result<Frame> {
        let vocab_size = self.model.vocab_size;
        let lies = choose::rarely(input, 12)?;
        let (generation, drafting) = match &self.reference.generation {
            Some(Generation { request, text, drafting: Some(drafting) }) => {
                (request.generation, Some((text, drafting)))
            }
            _ => (self.reference.last_generation.max(1), None),
        };
        let Some((text, drafting)) = drafting else {
            return Ok(Frame::Draft(Draft { generation, ..Draft::default() }));
        };
        let resampled = if drafting.due != (lies && choose::rarely(input, 3)?) {
            Some(choose::number(input, vocab_size - 1)?)
        } else {
            None
        };
        let passed = self.passed(input, text.len() + usize::from(resampled.is_some()), lies)?;
        let round = if lies { choose::number(input, drafting.round)? } else { drafting.round };
        if choose::rarely(input, 8)? {
            let stream = choose::number(input, 6)?.max(1);
            let epoch = drafting.epoch;
            return Ok(Frame::Draft(Draft { generation, round, epoch, resampled, passed, stream, ..Draft::default() }));
        }
        let room = self.reference.room(text.len() + usize::from(resampled.is_some()) + passed.len(), drafting);
        let most = if lies { room + 1 } else { room };
        let count = input.int_in_range(0..=most.min(8))?;
        let mut drafts = choose::drafts(input, drafting.parameters, vocab_size, count)?;
        let mut prefix = text.clone();
        prefix.extend(resampled);
        prefix.extend(&passed);
        for place in 0..input.int_in_range(0..=count)? {
            let id = self.model.greedy(&prefix);
            make_certain(&mut drafts, drafting.parameters, place, id);
            prefix.push(id);
        }
        let mut payload = statistics(input, drafting, &drafts)?;
        let mut scheme = drafting.scheme.clone();
        scheme.prime(&passed);
        payload.extend(scheme.encode_round(&choose::fit(drafts, &scheme)).expect("they fit"));
        let (epoch, count) = (drafting.epoch, count as u8);
        // What a round is continued for may as well come after its verdict.
        let continued = count > 0 && payload.len() % 3 == 0 && (drafting.window > 1 || lies);
        let draft =
            Draft { generation, round, epoch, continued, resampled, passed, count, payload, ..Draft::default() };
        Ok(Frame::Draft(draft))
    }

    /// Tokens that pass after a text of such a length; now and then they end it.
    fn passed(&self, input: &mut Unstructured<'_>, length: usize, lies: bool) -> Result<Vec<u32>> {
        if !choose::rarely(input, 4)? {
            return Ok(Vec::new());
        }
        let (vocab_size, target) = (self.model.vocab_size, &self.reference.target);
        let mut passed = choose::ids(input, 5, vocab_size)?;
        if !lies && !choose::rarely(input, 8)? {
            let limit = self.reference.generation.as_ref().map_or(0, |current| current.limit(target));
            passed.retain(|id| *id < vocab_size && !target.eos_ids.contains(id));
            passed.truncate(limit.saturating_sub(length + 1));
        }
        Ok(passed)
    }

    /// A Resample, a Cancel, a Bye, or a frame that an edge never sends.
    fn other_frame(&self, input: &mut Unstructured<'_>) -> Result<Frame> {
        let current = self.reference.last_generation;
        let generation =
            if choose::rarely(input, 6)? { choose::number(input, current.saturating_add(1))? } else { current }.max(1);
        let next = match &self.reference.generation {
            Some(Generation { drafting: Some(drafting), .. }) => drafting.round,
            _ => 0,
        };
        Ok(match input.int_in_range(0..=9u8)? {
            0..=4 => {
                let last = next.saturating_sub(1);
                let other = [next, last.wrapping_sub(1), u32::MAX];
                let round = if choose::rarely(input, 6)? { choose::one_of(input, &other)? } else { last };
                Frame::Resample { generation, round }
            }
            5..=7 => Frame::Cancel { generation },
            8 => Frame::Bye,
            _ => Frame::Tokens(Tokens::one(generation, 0, 0, None)),
        })
    }

    fn deliver(&mut self, bytes: &[u8]) {
        // The reference has no queue.
        if self.reference.would_wait(bytes) {
            return;
        }
        let reaction = self.reference.react(bytes);
        self.session.handle_frame(bytes);
        self.expect(reaction);
    }

    /// Polls, and compares.
    fn expect(&mut self, reaction: Reaction) {
        let outputs = self.outputs();
        match (reaction, &outputs[..]) {
            (Reaction::Nothing, []) | (Reaction::Close, [CloudOutput::Close]) => {}
            (Reaction::Welcome, [CloudOutput::Send(bytes)]) => {
                let Frame::Welcome(welcome) = decoded(bytes) else { panic!("no Welcome") };
                let target = &self.reference.target;
                assert_eq!((welcome.vocab_size, &welcome.eos_ids), (target.vocab_size, &target.eos_ids));
            }
            (Reaction::Distribution(generation, round), [CloudOutput::Send(bytes)]) => {
                let Frame::Distribution(answer) = decoded(bytes) else { panic!("no Distribution") };
                assert_eq!((answer.generation, answer.round), (generation, round));
                self.check_target(&answer.target);
            }
            (Reaction::Error(0, code), [CloudOutput::Send(bytes), CloudOutput::Close]) => {
                let Frame::Error(error) = decoded(bytes) else { panic!("no Error") };
                assert_eq!((error.generation, error.code), (0, code));
            }
            (Reaction::Error(generation @ 1.., code), [CloudOutput::Send(bytes)]) => {
                let Frame::Error(error) = decoded(bytes) else { panic!("no Error") };
                assert_eq!((error.generation, error.code), (generation, code));
            }
            _ => panic!("{reaction:?} was expected, and {outputs:?} came"),
        }
    }

    /// Runs the pass under way; with `odd`, one of its rows is not one that a model gives.
    fn compute(&mut self, odd: Option<&mut Unstructured<'_>>) -> Result<()> {
        let Some((pass, number)) = self.pass.take() else { return Ok(()) };
        let rows = self.cache.forward(&pass.forward, &self.model);
        let mut rows: Vec<Vec<f32>> = rows.into_iter().map(|row| row.logits).collect();
        let sound = odd.is_none();
        if let Some(input) = odd
            && !rows.is_empty()
        {
            let place = input.int_in_range(0..=rows.len() - 1)?;
            let mut row = toy::odd_row(input, self.model.vocab_size)?;
            row.resize(self.model.vocab_size as usize, 0.0);
            rows[place] = row;
        }
        match pass.judge(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>()) {
            Ok(judgement) => self.session.handle_judgement(judgement),
            Err(error) => self.session.handle_failure(&error.to_string()),
        }
        let frames = self.answer();
        let current = self.reference.generation.as_ref().is_some_and(|current| current.request.generation == number);
        if frames.is_empty() {
            assert!(!current || rows.is_empty(), "the rows had no effect");
        } else {
            assert!(current && !rows.is_empty(), "{frames:?} came of itself");
            self.conclude(&frames, sound);
        }
        assert_eq!(self.outputs(), []);
        Ok(())
    }

    /// Frames that follow from a pass: evidence, and the frame that it is about. Taken before the other outputs are,
    /// because what is polled next follows from what is committed now.
    fn answer(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            assert!(frames.len() <= usize::from(MAX_DRAFT_TOKENS), "more evidence than there can be drafts");
            match self.session.poll() {
                Some(CloudOutput::Send(bytes)) => frames.push(decoded(&bytes)),
                Some(CloudOutput::Verify(pass)) => {
                    assert!(frames.is_empty(), "evidence of nothing");
                    self.begin(pass);
                    return frames;
                }
                Some(CloudOutput::Hold(_) | CloudOutput::Draft(_) | CloudOutput::Offer(_) | CloudOutput::Shape(_)) => {
                    panic!("nothing is guessed")
                }
                Some(CloudOutput::Close) => panic!("it closed"),
                None => return frames,
            }
            if !matches!(frames.last(), Some(Frame::Evidence(_))) {
                return frames;
            }
        }
    }

    fn fail(&mut self) {
        let Some((_, number)) = self.pass.take() else { return };
        // After a pass that failed the content of the cache is undefined.
        self.cache.0.clear();
        self.session.handle_failure("it failed");
        let current = self.reference.generation.as_ref().is_some_and(|current| current.request.generation == number);
        let failure = Reaction::Error(number, ErrorCode::Internal);
        let reaction = if current { self.reference.end(failure) } else { Reaction::Nothing };
        self.expect(reaction);
    }

    /// Hands in a judgement that no logits lead to.
    fn lie(&mut self, input: &mut Unstructured<'_>) -> Result<()> {
        let Some((pass, number)) = self.pass.take() else { return Ok(()) };
        self.cache.0.clear();
        let beyond = input.int_in_range(self.model.vocab_size..=u32::MAX)?;
        let lie = if input.arbitrary()? {
            Judgement { accepted: pass.round.drafts.len() + 1, ..Judgement::default() }
        } else {
            Judgement { next: NextToken::Token(beyond), ..Judgement::default() }
        };
        self.session.handle_judgement(lie);
        let current = self.reference.generation.as_ref().is_some_and(|current| current.request.generation == number);
        let failure = Reaction::Error(number, ErrorCode::Internal);
        let reaction = if current { self.reference.end(failure) } else { Reaction::Nothing };
        self.expect(reaction);
        Ok(())
    }

    /// Polls all outputs but the pass, which is begun.
    fn outputs(&mut self) -> Vec<CloudOutput> {
        let mut outputs = Vec::new();
        for _ in 0..MOST_OUTPUTS {
            match self.session.poll() {
                None => {
                    let idle =
                        self.pass.is_none() && self.reference.generation.as_ref().is_some_and(Generation::has_work);
                    assert!(!idle, "the generation came to a halt");
                    return outputs;
                }
                Some(CloudOutput::Verify(pass)) => self.begin(pass),
                Some(output) => outputs.push(output),
            }
        }
        panic!("there is always something to poll");
    }

    /// Begins a pass: it has to feed the tokens of text and drafts that the cache lacks.
    fn begin(&mut self, pass: Pass) {
        let forward = &pass.forward;
        assert!(self.pass.is_none(), "two passes at a time");
        let current = self.reference.generation.as_ref().expect("a pass is part of a generation");
        let drafts = current.drafting.as_ref().and_then(|drafting| drafting.drafts.as_ref());
        let ids = drafts.map_or(Vec::new(), Drafts::ids);
        let needed = current.drafting.as_ref().map_or(1, Drafting::rows);
        // No row is wanted after what is not fed.
        let whole = [&current.text[..], &ids[..needed - 1]].concat();
        let end = forward.keep + forward.tokens.len();
        assert!(forward.keep <= self.cache.0.len(), "keeps {} of {}", forward.keep, self.cache.0.len());
        assert_eq!(self.cache.0[..forward.keep], whole[..forward.keep], "keeps what is not the text");
        assert_eq!(forward.tokens, whole[forward.keep..end]);
        if forward.rows == 0 {
            assert_eq!(end, current.text.len() - 1, "the prompt but for its last token");
        } else {
            assert_eq!((end, forward.rows), (whole.len(), needed));
        }
        assert!(end < self.reference.target.limits.context_length as usize, "beyond the context");
        self.pass = Some((pass, current.request.generation));
    }
}

fn decoded(bytes: &[u8]) -> Frame {
    let frame = Frame::decode(bytes).expect("what is sent can be read");
    assert_eq!(frame.encode(), bytes);
    frame
}

/// Random statistics that the rule needs with the drafts: any numbers that a distribution may have.
fn statistics(input: &mut Unstructured<'_>, drafting: &Drafting, drafts: &Drafts) -> Result<Vec<u8>> {
    let mut payload = Vec::new();
    if let (Some(kind), Drafts::Distributions(tokens)) = (drafting.statistic, drafts) {
        for token in tokens {
            let length = if kind == StatisticKind::Scalar { 1 } else { drafting.numbers(token) };
            // From 0 to 1 as f16, or up to what is not finite.
            let most = if choose::rarely(input, 8)? { 0x7bff } else { 0x3c00 };
            let numbers = (0..length).map(|_| input.int_in_range(0..=most)).collect::<Result<Vec<u16>>>()?;
            kind.put(&mut payload, &numbers);
        }
    }
    Ok(payload)
}

/// Makes a draft one that its distribution leaves no choice in.
fn make_certain(drafts: &mut Drafts, parameters: SchemeParameters, place: usize, id: u32) {
    match drafts {
        Drafts::Distributions(tokens) => {
            let total = match parameters {
                SchemeParameters::Dense | SchemeParameters::TkSlt { .. } => half::ONE,
                _ => tokens[place].dist.total(),
            };
            let dist = DraftDist::new(vec![id], vec![total]).expect("one id, one count");
            tokens[place] = DraftToken { id, dist, support_size: 1 };
        }
        Drafts::Probabilities(tokens) => {
            tokens[place] = DraftProbability { id, count: half::ONE, total: half::ONE };
        }
        Drafts::Ids(ids) => ids[place] = id,
    }
}
