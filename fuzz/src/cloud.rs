//! The cloud's state machine: its driver's calls, and an edge that may be honest, mistaken or hostile.
//!
//! The oracle is a second reading of FORMAT.md: `Reference` says of every frame what has to follow from it.

use arbitrary::{Result, Unstructured};
use outrider_codec::{
    distribution::{DraftDist, DraftToken},
    error::DecodeError,
    frame::{
        Draft, ErrorCode, Finish, Frame, Hello, MAX_DRAFT_TOKENS, Next, Prompt, Request, TargetDist, Token, Verdict,
    },
    half,
    probabilities::DraftProbability,
    scheme::{Downlink, Drafts, Scheme, SchemeParameters},
};
use outrider_speculation::{
    Forward,
    cloud::{CloudOutput, CloudSession, TargetInfo},
};

use crate::{
    choose,
    toy::{self, Cache, Toy},
};

const TOKENIZER_HASH: [u8; 32] = [7; 32];
/// More outputs than one call can leave to be polled.
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
        context_length: choose::number(input, 48)?,
        max_draft_tokens: input.int_in_range(0..=MAX_DRAFT_TOKENS)?,
        eos_ids: choose::ids(input, 2, vocab_size)?,
    };
    let mut driver = Driver {
        session: CloudSession::new(target.clone()),
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
    pass: Option<(Forward, u32)>,
    reference: Reference,
}

/// What the session should be like.
struct Reference {
    target: TargetInfo,
    greeted: bool,
    closed: bool,
    last_generation: u32,
    generation: Option<Generation>,
}

struct Generation {
    request: Request,
    /// Prompt and committed tokens.
    text: Vec<u32>,
    /// `None`: cloud-only.
    drafting: Option<Drafting>,
}

struct Drafting {
    parameters: SchemeParameters,
    /// As the edge has it.
    scheme: Scheme,
    round: u32,
    drafts: Option<Drafts>,
    /// The edge has to resample the next token.
    due: bool,
}

/// What has to follow from a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reaction {
    Nothing,
    Welcome,
    /// The distribution of this round of this generation.
    Distribution(u32, u32),
    /// An error that ends this generation, or, if it is 0, the connection.
    Error(u32, ErrorCode),
    /// The connection is closed without a word.
    Close,
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
                let bytes = if choose::rarely(input, 8)? { mutated(input, frame.encode())? } else { frame.encode() };
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
                // Nobody asked for it.
                self.session.handle_logits(&[]);
                self.session.handle_failure("nothing was under way");
                assert_eq!(self.outputs(), []);
            }
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
            Frame::Prompt(Prompt::exact(choose::scheme(input, vocab_size)?, request))
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
        let room = self.reference.room(text.len() + usize::from(resampled.is_some()));
        let most = if lies { room + 1 } else { room };
        let count = input.int_in_range(0..=most.min(8))?;
        let mut drafts = choose::drafts(input, drafting.parameters, vocab_size, count)?;
        let mut prefix = text.clone();
        prefix.extend(resampled);
        for place in 0..input.int_in_range(0..=count)? {
            let id = self.model.greedy(&prefix);
            make_certain(&mut drafts, drafting.parameters, place, id);
            prefix.push(id);
        }
        let payload = drafting.scheme.encode_round(&choose::fit(drafts, &drafting.scheme)).expect("they fit");
        let round = if lies { choose::number(input, drafting.round)? } else { drafting.round };
        Ok(Frame::Draft(Draft { generation, round, resampled, count: count as u8, payload, ..Draft::default() }))
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
            _ => Frame::Token(Token { generation, token: 0, finish: None }),
        })
    }

    fn deliver(&mut self, bytes: &[u8]) {
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

    /// Runs the pass under way; with `odd`, one of its rows is not what a model should give.
    fn compute(&mut self, odd: Option<&mut Unstructured<'_>>) -> Result<()> {
        let Some((forward, number)) = self.pass.take() else { return Ok(()) };
        let mut rows = self.cache.forward(&forward, &self.model);
        let sound = odd.is_none();
        if let Some(input) = odd
            && !rows.is_empty()
        {
            let place = input.int_in_range(0..=rows.len() - 1)?;
            let mut row = toy::odd_row(input, self.model.vocab_size)?;
            row.resize(self.model.vocab_size as usize, 0.0);
            rows[place] = row;
        }
        self.session.handle_logits(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
        // Taken before the outputs are, because what is polled next follows from what is committed now.
        let frame = match self.session.poll() {
            Some(CloudOutput::Send(bytes)) => Some(decoded(&bytes)),
            Some(CloudOutput::Forward(forward)) => {
                self.begin(forward);
                None
            }
            Some(CloudOutput::Close) => panic!("it closed"),
            None => None,
        };
        let current = self.reference.generation.as_ref().is_some_and(|current| current.request.generation == number);
        match frame {
            None => assert!(!current || rows.is_empty(), "the rows had no effect"),
            Some(frame) => {
                assert!(current && !rows.is_empty(), "{frame:?} came of itself");
                match frame {
                    Frame::Verdict(verdict) => self.judge(&verdict, sound),
                    Frame::Token(token) => self.judge_token(&token, sound),
                    Frame::Error(error) if !sound => {
                        assert_eq!((error.generation, error.code), (number, ErrorCode::Internal));
                        self.reference.generation = None;
                    }
                    other => panic!("a pass does not give {}", other.name()),
                }
            }
        }
        assert_eq!(self.outputs(), []);
        Ok(())
    }

    fn fail(&mut self) {
        let Some((_, number)) = self.pass.take() else { return };
        // What the cache holds after a pass that failed, nobody knows.
        self.cache.0.clear();
        self.session.handle_failure("it failed");
        let current = self.reference.generation.as_ref().is_some_and(|current| current.request.generation == number);
        let failure = Reaction::Error(number, ErrorCode::Internal);
        let reaction = if current { self.reference.end(failure) } else { Reaction::Nothing };
        self.expect(reaction);
    }

    /// All outputs but the pass, which is begun.
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
                Some(CloudOutput::Forward(forward)) => self.begin(forward),
                Some(output) => outputs.push(output),
            }
        }
        panic!("there is always something to poll");
    }

    /// A pass is asked for: it has to feed what the cache lacks of the text and the drafts.
    fn begin(&mut self, forward: Forward) {
        assert!(self.pass.is_none(), "two passes at a time");
        let current = self.reference.generation.as_ref().expect("a pass is part of a generation");
        let drafts = current.drafting.as_ref().and_then(|drafting| drafting.drafts.as_ref());
        let ids = drafts.map_or(Vec::new(), Drafts::ids);
        let whole = [&current.text[..], &ids].concat();
        let end = forward.keep + forward.tokens.len();
        assert!(forward.keep <= self.cache.0.len(), "keeps {} of {}", forward.keep, self.cache.0.len());
        assert_eq!(self.cache.0[..forward.keep], whole[..forward.keep], "keeps what is not the text");
        assert_eq!(forward.tokens, whole[forward.keep..end]);
        if forward.rows == 0 {
            assert_eq!(end, current.text.len() - 1, "the prompt but for its last token");
        } else {
            assert_eq!((end, forward.rows), (whole.len(), ids.len() + 1));
        }
        assert!(end < self.reference.target.context_length as usize, "beyond the context");
        self.pass = Some((forward, current.request.generation));
    }

    fn judge(&mut self, verdict: &Verdict, sound: bool) {
        let target = self.reference.target.clone();
        let mut current = self.reference.generation.take().expect("a generation is under way");
        let greedy = sound && current.request.sampling.temperature == 0.0;
        let drafting = current.drafting.as_mut().expect("the edge drafts");
        let drafts = drafting.drafts.take().expect("there are drafts");
        let ids = drafts.ids();
        assert_eq!((verdict.generation, verdict.round), (current.request.generation, drafting.round));
        let accepted = usize::from(verdict.accepted);
        let before = current.text.len();
        current.text.extend(&ids[..accepted]);
        let rejects = accepted < ids.len();
        let mut token = None;
        match &verdict.next {
            Next::Nothing => assert!(current.text[before..].last().is_some_and(|id| target.eos_ids.contains(id))),
            Next::Token(id) => {
                assert!(!(rejects && drafting.resamples()), "the edge resamples");
                token = Some(*id);
            }
            Next::Samples(samples) => {
                assert_eq!(drafting.samples(), Some(samples.len()));
                assert!(rejects && samples.iter().all(|&(id, p)| id < target.vocab_size && p > 0.0), "{samples:?}");
                if greedy {
                    let only = (self.model.greedy(&current.text), 1.0);
                    assert!(samples.iter().all(|&sample| sample == only), "{samples:?}");
                }
                drafting.due = true;
            }
            Next::Distribution(dist) => {
                assert!(rejects && drafting.resamples() && drafting.samples().is_none());
                self.check_target(dist);
                if greedy {
                    assert_eq!(dist.0, [(self.model.greedy(&current.text), 1.0)]);
                }
                drafting.due = true;
            }
        }
        if greedy && rejects && verdict.next != Next::Nothing {
            assert_ne!(ids[accepted], self.model.greedy(&current.text), "the target's own token was rejected");
        }
        let last = accepted - usize::from(token.is_none() && !drafting.due && accepted > 0);
        assert!(!ids[..last].iter().any(|id| target.eos_ids.contains(id)), "the text goes on after its end");
        current.text.extend(token);
        drafting.scheme.commit(&drafts, accepted, token);
        drafting.round += 1;
        let due = drafting.due;
        self.check_text(&current.text, before, greedy);
        let finish = if due { None } else { current.finish(&target) };
        assert_eq!(verdict.finish, finish);
        self.reference.generation = Some(current).filter(|_| finish.is_none());
    }

    fn judge_token(&mut self, token: &Token, sound: bool) {
        let mut current = self.reference.generation.take().expect("a generation is under way");
        assert!(current.drafting.is_none() && token.generation == current.request.generation);
        let before = current.text.len();
        current.text.push(token.token);
        self.check_text(&current.text, before, sound && current.request.sampling.temperature == 0.0);
        let finish = current.finish(&self.reference.target);
        assert_eq!(token.finish, finish);
        self.reference.generation = Some(current).filter(|_| finish.is_none());
    }

    /// The tokens of `text` from `start` on, just committed.
    fn check_text(&self, text: &[u32], start: usize, greedy: bool) {
        for end in start..text.len() {
            assert!(text[end] < self.model.vocab_size, "{} is outside the vocabulary", text[end]);
            if greedy {
                assert_eq!(text[end], self.model.greedy(&text[..end]), "the target's token after {:?}", &text[..end]);
            }
        }
    }

    fn check_target(&self, target: &TargetDist) {
        assert!(!target.0.is_empty() && target.0.iter().all(|&(id, p)| id < self.model.vocab_size && p > 0.0));
    }
}

impl Reference {
    /// What follows from these bytes, and the state after them.
    fn react(&mut self, bytes: &[u8]) -> Reaction {
        if self.closed {
            return Reaction::Nothing;
        }
        let reaction = match Frame::decode(bytes) {
            Err(DecodeError::Version { .. }) => fatal(ErrorCode::Version),
            Err(DecodeError::TooLong { .. }) => fatal(ErrorCode::FrameTooLong),
            Err(_) => fatal(ErrorCode::Malformed),
            Ok(Frame::Bye) => Reaction::Close,
            Ok(Frame::Hello(hello)) if !self.greeted => {
                let target = &self.target;
                let fits = (hello.vocab_size, hello.tokenizer_hash) == (target.vocab_size, target.tokenizer_hash);
                self.greeted = fits;
                if fits { Reaction::Welcome } else { fatal(ErrorCode::Tokenizer) }
            }
            Ok(_) if !self.greeted => fatal(ErrorCode::OutOfOrder),
            Ok(Frame::Prompt(prompt)) => self.start(prompt.request, Some(prompt.scheme)),
            Ok(Frame::Generate(request)) => self.start(request, None),
            Ok(Frame::Draft(draft)) => self.draft(&draft),
            Ok(Frame::Resample { generation, round }) => self.resample(generation, round),
            Ok(Frame::Cancel { generation }) if generation > self.last_generation => fatal(ErrorCode::OutOfOrder),
            Ok(Frame::Cancel { generation }) => {
                self.generation = self.generation.take().filter(|current| current.request.generation != generation);
                Reaction::Nothing
            }
            Ok(_) => fatal(ErrorCode::OutOfOrder),
        };
        self.end(reaction)
    }

    /// The state after an error or the end.
    fn end(&mut self, reaction: Reaction) -> Reaction {
        if matches!(reaction, Reaction::Error(..) | Reaction::Close) {
            self.generation = None;
        }
        self.closed |= matches!(reaction, Reaction::Error(0, _) | Reaction::Close);
        reaction
    }

    fn start(&mut self, request: Request, scheme: Option<SchemeParameters>) -> Reaction {
        let number = request.generation;
        if self.generation.is_some() || number <= self.last_generation {
            return fatal(ErrorCode::OutOfOrder);
        }
        self.last_generation = number;
        let refuse = |code| Reaction::Error(number, code);
        let drafting = match scheme {
            None => None,
            Some(parameters) => {
                let Ok(mut scheme) = Scheme::new(parameters, self.target.vocab_size) else {
                    return refuse(ErrorCode::InvalidParameters);
                };
                scheme.prime(&request.tokens);
                Some(Drafting { parameters, scheme, round: 0, drafts: None, due: false })
            }
        };
        if request.tokens.iter().any(|&id| id >= self.target.vocab_size) {
            return refuse(ErrorCode::InvalidParameters);
        }
        if request.tokens.len() + 1 > self.target.context_length as usize {
            return refuse(ErrorCode::PromptTooLong);
        }
        self.generation = Some(Generation { text: request.tokens.clone(), request, drafting });
        Reaction::Nothing
    }

    fn draft(&mut self, draft: &Draft) -> Reaction {
        let Some(current) = &mut self.generation else { return self.late(draft.generation) };
        let Some(drafting) = &mut current.drafting else { return fatal(ErrorCode::OutOfOrder) };
        let expected = (draft.generation, draft.round) == (current.request.generation, drafting.round);
        if !expected || drafting.drafts.is_some() || draft.resampled.is_some() != drafting.due {
            return fatal(ErrorCode::OutOfOrder);
        }
        drafting.due = false;
        let length = current.text.len() + usize::from(draft.resampled.is_some());
        let limit = current.limit(&self.target);
        if let Some(id) = draft.resampled {
            if id >= self.target.vocab_size || self.target.eos_ids.contains(&id) || length >= limit {
                return fatal(ErrorCode::InvalidDraft);
            }
            current.text.push(id);
        }
        let drafting = current.drafting.as_mut().expect("it was there before");
        if draft.count > self.target.max_draft_tokens || length + usize::from(draft.count) + 1 > limit {
            return fatal(ErrorCode::InvalidDraft);
        }
        match drafting.scheme.decode_round(&draft.payload, draft.count) {
            Ok(drafts) => drafting.drafts = Some(drafts),
            Err(_) => return fatal(ErrorCode::Malformed),
        }
        Reaction::Nothing
    }

    fn resample(&self, number: u32, round: u32) -> Reaction {
        let Some(current) = &self.generation else { return self.late(number) };
        match &current.drafting {
            Some(drafting)
                if drafting.due
                    && drafting.samples().is_some()
                    && number == current.request.generation
                    && drafting.round.checked_sub(1) == Some(round) =>
            {
                Reaction::Distribution(number, round)
            }
            _ => fatal(ErrorCode::OutOfOrder),
        }
    }

    /// A frame about a generation that is not there.
    fn late(&self, number: u32) -> Reaction {
        if number <= self.last_generation { Reaction::Nothing } else { fatal(ErrorCode::OutOfOrder) }
    }

    /// Drafts that a round may have when the text is of this length.
    fn room(&self, length: usize) -> usize {
        let limit = self.generation.as_ref().map_or(0, |current| current.limit(&self.target));
        limit.saturating_sub(length + 1).min(self.target.max_draft_tokens.into())
    }
}

impl Generation {
    /// Where the text ends at the latest.
    fn limit(&self, target: &TargetInfo) -> usize {
        let most = self.request.tokens.len().saturating_add(self.request.max_new_tokens as usize);
        most.min(target.context_length as usize)
    }

    /// Why the generation is over.
    fn finish(&self, target: &TargetInfo) -> Option<Finish> {
        let length = self.text.len();
        if self.text.last().is_some_and(|id| target.eos_ids.contains(id)) {
            Some(Finish::Eos)
        } else if length - self.request.tokens.len() >= self.request.max_new_tokens as usize {
            Some(Finish::Length)
        } else {
            (length >= target.context_length as usize).then_some(Finish::Context)
        }
    }

    /// Whether the target has something to do.
    fn has_work(&self) -> bool {
        self.drafting.as_ref().is_none_or(|drafting| drafting.drafts.is_some())
    }
}

impl Drafting {
    fn resamples(&self) -> bool {
        matches!(self.parameters, SchemeParameters::Dssd { .. })
    }

    /// How many samples follow a rejection.
    fn samples(&self) -> Option<usize> {
        match self.parameters {
            SchemeParameters::Dssd { downlink: Downlink::Sampled(count) } => Some(count.into()),
            _ => None,
        }
    }
}

fn fatal(code: ErrorCode) -> Reaction {
    Reaction::Error(0, code)
}

fn decoded(bytes: &[u8]) -> Frame {
    let frame = Frame::decode(bytes).expect("what is sent can be read");
    assert_eq!(frame.encode(), bytes);
    frame
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

/// A byte changed, left out or added.
fn mutated(input: &mut Unstructured<'_>, mut bytes: Vec<u8>) -> Result<Vec<u8>> {
    let place = input.int_in_range(0..=bytes.len() - 1)?;
    match input.int_in_range(0..=3u8)? {
        0 => {
            bytes.remove(place);
        }
        1 => bytes.insert(place, input.arbitrary()?),
        _ => bytes[place] ^= 1 << input.int_in_range(0..=7)?,
    }
    Ok(bytes)
}
