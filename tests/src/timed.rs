//! Both session state machines in virtual time, for texts that the target writes while the edge drafts ahead: neither
//! waits for the other, and what is sent takes as long as the link wants.

use core::time::Duration;
use std::{collections::VecDeque, sync::Arc};

use outrider_codec::frame::{Frame, Guesses, MAX_DRAFT_TOKENS};
use outrider_speculation::{
    Forward,
    control::goodput::{Prices, RowCosts},
    judge::{NextToken, Round},
    session::{
        cloud::{Admission, CloudOutput, CloudSession, OwnDrafts, Pass, TargetInfo},
        edge::{Committed, EdgeOutput, EdgeSession, Event, Settings},
    },
};

use crate::toy::{CachedToy, ToyModel};

/// The most tokens of a text.
const CONTEXT: u32 = 512;

/// How long things take.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// A pass of the draft model.
    pub draft: Duration,
    /// A pass of the target that judges nothing, and what each judged guess adds.
    pub pass: Duration,
    /// See `pass`.
    pub row: Duration,
    /// From one end to the other, either way.
    pub delay: Duration,
    /// A pass of the server's own draft model; `None` if it has none.
    pub own_draft: Option<Duration>,
}

/// Rows of logits with their hidden states.
type Rows = Vec<(Vec<f32>, Vec<f32>)>;

/// What is done to the guesses on their way, where an error is planted or a peer lies.
pub type Tamper = fn(&mut Guesses);

/// A generation in virtual time.
#[derive(Debug, Default)]
pub struct Timed {
    /// Ids as they were committed.
    pub tokens: Vec<u32>,
    /// As they came.
    pub committed: Vec<Committed>,
    /// When the last one came.
    pub elapsed: Duration,
    /// Passes of the target, the first one of the prompt included.
    pub passes: usize,
    /// How often a pass was held.
    pub holds: usize,
    /// Drafts of the server's own.
    pub own_drafts: usize,
    /// Second candidates that were right in time.
    pub branched: usize,
}

/// Runs a generation of two toy models to its end.
pub fn run(
    draft: ToyModel,
    target: ToyModel,
    prompt: &[u32],
    settings: &Settings,
    times: Times,
    tamper: Tamper,
) -> Timed {
    session(&[(draft, settings.clone())], target, prompt, times, tamper).remove(0)
}

/// Runs a session of generations, each with a draft model of its own: some texts are harder to guess than others. The
/// server's own drafts are the first model's.
pub fn session(
    texts: &[(ToyModel, Settings)],
    target: ToyModel,
    prompt: &[u32],
    times: Times,
    tamper: Tamper,
) -> Vec<Timed> {
    let draft = texts[0].0.clone();
    let info = TargetInfo { max_draft_tokens: MAX_DRAFT_TOKENS, ..target.target_info(CONTEXT, &[]) };
    let mut cloud = CloudSession::new(info, Admission::default());
    let share = |time: Duration| time.as_secs_f64() / times.pass.as_secs_f64();
    cloud.set_prices(Prices { rows: RowCosts::each(share(times.row)), own_draft: times.own_draft.map(share) });
    let mut edge = EdgeSession::new(draft.draft_info(CONTEXT, None));
    let mut own = CachedToy::new(draft.clone());
    let mut own_drafted: Option<(Duration, Vec<u32>)> = None;
    let (mut draft, mut target) = (CachedToy::new(draft), CachedToy::new(target));
    let (mut done, mut timed, mut began): (Vec<Timed>, _, _) = (Vec::new(), Timed::default(), Duration::ZERO);
    // What is under way, by when it comes.
    let (mut up, mut down) = (VecDeque::new(), VecDeque::new());
    let mut drafted: Option<(Duration, Rows)> = None;
    let mut judged: Option<(Duration, Pass)> = None;
    let mut hold: Option<Duration> = None;
    let mut now = Duration::ZERO;
    let mut has_started = false;
    loop {
        // The cloud does what it can now.
        while let Some(output) = cloud.poll() {
            match output {
                CloudOutput::Send(bytes) => down.push_back((now + times.delay, bytes)),
                CloudOutput::Hold(patience) => {
                    timed.holds += 1;
                    hold = Some(now + patience);
                }
                CloudOutput::Verify(pass) => {
                    hold = None;
                    let guesses = pass.round.guesses() as u32;
                    judged = Some((now + times.pass + times.row * guesses, pass));
                }
                CloudOutput::Draft(wanted) => {
                    let drafts = drafts(&mut own, &wanted);
                    timed.own_drafts += drafts.len();
                    let time = times.own_draft.expect("it is not free") * drafts.len() as u32;
                    own_drafted = Some((now + time, drafts));
                }
                CloudOutput::Offer(_) => panic!("the draws are shared here"),
                CloudOutput::Close => panic!("the cloud closed"),
            }
        }
        // So does the edge, unless it is drafting.
        while drafted.is_none()
            && let Some(output) = edge.poll(now).expect("the cloud keeps the protocol")
        {
            match output {
                EdgeOutput::Send(bytes) => up.push_back((now + times.delay, tampered(bytes, tamper))),
                EdgeOutput::Forward(forward) => drafted = Some((now + times.draft, draft.forward(&forward))),
                EdgeOutput::Event(Event::Committed(committed)) => {
                    timed.tokens.extend(committed.tokens.iter().map(|token| token.0));
                    timed.committed.push(committed);
                    timed.elapsed = now - began;
                }
                EdgeOutput::Event(Event::Finished(_)) => {
                    timed.branched = edge.statistics().branched;
                    done.push(std::mem::take(&mut timed));
                    let Some((next, settings)) = texts.get(done.len()) else { return done };
                    draft = CachedToy::new(next.clone());
                    began = now;
                    edge.start(prompt.to_vec(), settings, now).expect("the settings can be used");
                }
                EdgeOutput::Event(Event::Connected(_)) => {
                    edge.start(prompt.to_vec(), &texts[0].1, now).expect("the settings can be used");
                    has_started = true;
                }
                EdgeOutput::Event(other) => panic!("{other:?}"),
            }
        }
        // Then time passes until something comes.
        let first = |queue: &VecDeque<(Duration, Vec<u8>)>| queue.front().map(|front| front.0);
        let [judged_at, drafted_at] = [judged.as_ref().map(|at| at.0), drafted.as_ref().map(|at| at.0)];
        let own_at = own_drafted.as_ref().map(|at| at.0);
        let arrivals = [first(&up), first(&down), judged_at, drafted_at, own_at, hold];
        now = arrivals.into_iter().flatten().min().unwrap_or_else(|| panic!("both wait (started: {has_started})"));
        let is_due = |at: Option<Duration>| at.is_some_and(|at| at <= now);
        if is_due(arrivals[0])
            && let Some((_, bytes)) = up.pop_front()
        {
            cloud.handle_frame(&bytes);
        } else if is_due(arrivals[1])
            && let Some((_, bytes)) = down.pop_front()
        {
            assert!(!matches!(Frame::decode(&bytes), Ok(Frame::Error(_))), "{:?}", Frame::decode(&bytes));
            edge.handle_frame(&bytes, now).expect("the cloud keeps the protocol");
        } else if is_due(arrivals[2])
            && let Some((_, pass)) = judged.take()
        {
            timed.passes += 1;
            cloud.pass_took(times.pass + times.row * pass.round.guesses() as u32);
            cloud.handle_judgement(target.judge(&pass));
        } else if is_due(arrivals[3])
            && let Some((_, rows)) = drafted.take()
        {
            for (row, hidden) in rows {
                edge.handle_logits(&row, &hidden, now).expect("the draft model gives logits");
            }
        } else if is_due(arrivals[4])
            && let Some((_, drafts)) = own_drafted.take()
        {
            cloud.handle_drafts(drafts);
        } else {
            hold = None;
            cloud.end_hold();
        }
    }
}

/// What the server's own draft model guesses.
fn drafts(model: &mut CachedToy, wanted: &OwnDrafts) -> Vec<u32> {
    let mut text = wanted.text.clone();
    for _ in 0..wanted.count {
        let forward = Forward::new(0, text.clone(), 1);
        let round = Arc::new(Round::ahead(wanted.sampling, wanted.seed, text.len(), Vec::new()));
        match model.judge(&Pass { forward, round, left: 1 }).next {
            NextToken::Token(token) => text.push(token),
            other => panic!("{other:?}"),
        }
    }
    text.split_off(wanted.text.len())
}

fn tampered(bytes: Vec<u8>, tamper: Tamper) -> Vec<u8> {
    match Frame::decode(&bytes) {
        Ok(Frame::Guesses(mut guesses)) => {
            tamper(&mut guesses);
            Frame::Guesses(guesses).encode()
        }
        _ => bytes,
    }
}
