//! The driver with a scripted server on a virtual clock, in one process.

use core::task::{Context, Waker};
use std::{cell::RefCell, collections::VecDeque, rc::Rc};

use outrider_codec::{
    frame::{ErrorCode, Finish, Frame, Limits, Next, SamplingParameters, Ticket, Tokens, Verdict, Welcome},
    scheme::{Code, SchemeParameters},
};

use super::*;
use crate::session::edge::{DraftInfo, Mode, SavedSession, Speculation};

mod offline;

#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

const V: u32 = 8;
const TICKET: Ticket = Ticket { id: [1; 16], secret: [2; 16] };
const LONGEST: Duration = Duration::from_secs(5);
const RETRY: Retry = Retry { attempts: 4, pause: Duration::from_millis(100), longest: LONGEST, stall: Duration::MAX };

/// The server, the network and the clock. Every token of the target's is 3, which the draft model says as well.
#[derive(Debug, Default)]
struct World {
    now: Duration,
    /// Frames under way to the edge over the current connection.
    down: VecDeque<Vec<u8>>,
    is_cut: bool,
    /// Number of frames to the edge after which this connection, and as many later ones as said, swallow all bytes.
    swallowed_behind: Option<(usize, u32)>,
    /// Time until which a text is not begun.
    silent_until: Duration,
    /// True while the socket holds bytes back.
    is_holding: bool,
    /// Number of frames to the edge after which the connection is cut.
    cut_behind: Option<usize>,
    /// The same for every connection from the next on.
    cuts_each_behind: Option<usize>,
    /// Attempts to connect that fail, from now on.
    failures: u32,
    /// The error with which the server refuses generations, or everything.
    refusal: Option<(ErrorCode, bool)>,
    forgets: bool,
    /// Length at which the text has to end, and its length so far.
    limit: u32,
    length: u32,
    generation: u32,
    writes_alone: bool,
    /// Frames that the edge sent, then actions of the driver.
    sent: Vec<&'static str>,
    pauses: Vec<u128>,
    turns: usize,
    /// Frames that were not handed in when the draft model was run.
    overlooked: usize,
    /// Numbers of pauses, turns and received frames after which the user stops.
    stop_after: [Option<usize>; 3],
    received: usize,
}

impl World {
    fn send(&mut self, frame: &Frame) {
        self.down.push_back(frame.encode());
    }

    fn stops(&self) -> bool {
        let counts = [self.pauses.len(), self.turns, self.received];
        self.stop_after.iter().zip(counts).any(|(after, count)| after.is_some_and(|after| count >= after))
    }

    fn answer(&mut self, bytes: &[u8]) {
        let frame = Frame::decode(bytes).expect("what is sent can be read");
        self.sent.push(frame.name());
        match frame {
            Frame::Hello(_) => self.welcome(),
            Frame::Resume(_) if self.forgets => {
                self.refuse(0, ErrorCode::UnknownSession);
                self.cut_behind = Some(self.down.len());
                self.forgets = false;
            }
            Frame::Resume(resume) => {
                self.welcome();
                self.length = resume.length;
                if self.writes_alone && resume.generation == self.generation {
                    (self.length..self.limit).for_each(|position| self.write(position));
                }
            }
            Frame::Generate(request) => match self.refusal {
                Some((code, session)) => self.refuse(if session { 0 } else { request.generation }, code),
                None => {
                    (self.generation, self.length) = (request.generation, request.tokens.len() as u32);
                    (self.limit, self.writes_alone) = (self.length + request.max_new_tokens, true);
                    (self.length..self.limit).for_each(|position| self.write(position));
                }
            },
            Frame::Prompt(prompt) => {
                (self.generation, self.length) = (prompt.request.generation, prompt.request.tokens.len() as u32);
                (self.limit, self.writes_alone) = (self.length + prompt.request.max_new_tokens, false);
            }
            Frame::Draft(draft) => {
                self.length += u32::from(draft.count) + u32::from(!draft.continued);
                let next = if draft.continued { Next::Nothing } else { Next::Token(3) };
                let finish = (self.length >= self.limit).then_some(Finish::Length);
                let (generation, round, accepted) = (draft.generation, draft.round, draft.count);
                self.send(&Frame::Verdict(Verdict { generation, round, accepted, next, finish }));
            }
            _ => {}
        }
    }

    fn write(&mut self, position: u32) {
        if self.now < self.silent_until {
            return;
        }
        let finish = (position + 1 == self.limit).then_some(Finish::Length);
        self.send(&Frame::Tokens(Tokens::one(self.generation, position, 3, finish)));
    }

    fn welcome(&mut self) {
        self.send(&Frame::Welcome(Welcome {
            vocab_size: V,
            limits: Limits { max_in_flight: 3, max_guesses: 8, max_branches: 4, ..Limits::rounds(64, 4) },
            eos_ids: vec![7],
            ticket: TICKET,
            detached_seconds: 120,
            pass_micros: [0, 0, 0, 0, 2000],
        }));
    }

    fn refuse(&mut self, generation: u32, code: ErrorCode) {
        self.send(&Frame::Error(ErrorFrame { generation, code, text: String::new() }));
    }
}

/// A handle on the world: its socket, its platform and its draft model at once.
#[derive(Debug, Clone, Default)]
struct Shared(Rc<RefCell<World>>);

impl Socket for Shared {
    async fn send(&mut self, bytes: Vec<u8>) -> bool {
        let mut world = self.0.borrow_mut();
        if !world.is_cut && world.swallowed_behind.is_none_or(|(left, _)| left > 0) {
            world.answer(&bytes);
        }
        !world.is_cut
    }

    async fn receive(&mut self) -> Option<Vec<u8>> {
        poll_fn(|_| {
            let mut world = self.0.borrow_mut();
            if world.cut_behind == Some(0) {
                (world.is_cut, world.cut_behind) = (true, None);
            }
            if world.is_cut {
                world.down.clear();
                return Poll::Ready(None);
            }
            if world.swallowed_behind.is_some_and(|(left, _)| left == 0) {
                world.down.clear();
            }
            let Some(bytes) = world.down.pop_front() else { return Poll::Pending };
            world.swallowed_behind = world.swallowed_behind.map(|(left, more)| (left - 1, more));
            world.received += 1;
            world.cut_behind = world.cut_behind.map(|left| left - 1);
            Poll::Ready(Some(bytes))
        })
        .await
    }

    async fn close(&mut self) {
        self.0.borrow_mut().is_cut = true;
    }

    fn holds_bytes(&self) -> bool {
        let mut world = self.0.borrow_mut();
        std::mem::take(&mut world.is_holding)
    }
}

impl Platform for Shared {
    type Socket = Self;
    type Error = &'static str;

    async fn connect(&mut self) -> Result<Self, &'static str> {
        let mut world = self.0.borrow_mut();
        if world.failures > 0 {
            world.failures -= 1;
            return Err("nobody is there");
        }
        world.is_cut = false;
        world.cut_behind = world.cuts_each_behind.or(world.cut_behind);
        world.swallowed_behind = world.swallowed_behind.and_then(|(_, more)| Some((0, more.checked_sub(1)?)));
        Ok(self.clone())
    }

    fn now(&self) -> Duration {
        self.0.borrow().now
    }

    async fn sleep(&mut self, pause: Duration) {
        self.0.borrow_mut().pauses.push(pause.as_millis());
        once_pending().await;
        self.0.borrow_mut().now += pause;
    }

    async fn turn(&mut self) {
        self.0.borrow_mut().turns += 1;
        once_pending().await;
    }

    fn chance(&mut self) -> u8 {
        255
    }
}

impl DraftModel for Shared {
    type Error = &'static str;

    async fn forward(&mut self, forward: &Forward) -> Result<Vec<DraftRow<'_>>, &'static str> {
        let mut world = self.0.borrow_mut();
        world.overlooked += world.down.len();
        drop(world);
        Ok(vec![DraftRow { logits: &[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0], hidden: &[] }; forward.rows])
    }
}

async fn once_pending() {
    let mut polled = false;
    poll_fn(|_| if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

fn run<R>(future: impl Future<Output = R>) -> R {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..10_000 {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result;
        }
    }
    panic!("nothing moves any more");
}

type Driven = Driver<Shared, Shared>;

fn info() -> DraftInfo {
    DraftInfo { vocab_size: V, tokenizer_hash: [1; 32], context_length: 64, heads: None, guess_chance: None }
}

fn open(session: EdgeSession) -> (Driven, Shared) {
    let world = Shared::default();
    world.0.borrow_mut().forgets = session.saved().is_some();
    let driver = run(Driver::open(session, world.clone(), world.clone(), world.clone())).unwrap();
    (driver, world)
}

fn connected() -> (Driven, Shared) {
    let (mut driver, world) = open(EdgeSession::new(info()));
    driver.set_retry(RETRY);
    (driver, world)
}

fn settings(mode: Mode) -> Settings {
    let sampling = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
    Settings { mode, sampling, seed: 1, max_new_tokens: 6 }
}

fn ahead() -> Mode {
    let scheme = SchemeParameters::KSqs { support_size: 2, lattice_resolution: 10, code: Code::Enumerative };
    Mode::Speculative(Speculation { max_in_flight: 3, ..Speculation::new(scheme, 1) })
}

type Outcome = Result<EndReason, DriveError<&'static str, &'static str>>;

/// Runs a generation, and returns its end, its tokens, and the other notices.
fn generate(driver: &mut Driven, world: &Shared, mode: Mode) -> (Outcome, Vec<u32>, Vec<Notice>) {
    let (mut tokens, mut notices) = (Vec::new(), Vec::new());
    let tell = |_: &EdgeSession, notice| match notice {
        Notice::Committed(committed) => tokens.extend(committed.tokens.iter().map(|token| token.0)),
        other => notices.push(other),
    };
    let stop = poll_fn(|_| if world.0.borrow().stops() { Poll::Ready(()) } else { Poll::Pending });
    let end = run(driver.generate(vec![0, 1], &settings(mode), stop, tell));
    (end, tokens, notices)
}

const LENGTH: Outcome = Ok(EndReason::Finish(Finish::Length));
const CANCELLED: Outcome = Ok(EndReason::Cancelled);

fn reconnecting(attempt: u32, pause: u64) -> Notice {
    Notice::Reconnecting { attempt, pause: Duration::from_millis(pause) }
}

#[test]
fn a_text_goes_on_over_another_connection() {
    for mode in [Mode::CloudOnly, ahead()] {
        for behind in 0..5 {
            let (mut driver, world) = connected();
            world.0.borrow_mut().cut_behind = Some(behind);
            let (end, tokens, notices) = generate(&mut driver, &world, mode.clone());
            assert_eq!((end, tokens), (LENGTH, vec![3; 6]), "cut behind {behind}");
            assert_eq!(notices, [Notice::Begun, reconnecting(1, 0), Notice::Resumed { anew: false }]);
            assert_eq!(world.0.borrow().pauses, [0], "the first attempt comes at once");
        }
    }
}

/// A black hole: the connection stays open, and no byte arrives at either end.
#[test]
fn a_silent_connection_counts_as_lost_and_the_text_goes_on_over_another() {
    let retry = Retry { stall: Duration::from_secs(5), ..RETRY };
    for mode in [Mode::CloudOnly, ahead()] {
        for (behind, more) in [(0, 0), (2, 0), (4, 0), (2, 1)] {
            let (mut driver, world) = connected();
            driver.set_retry(retry);
            world.0.borrow_mut().swallowed_behind = Some((behind, more));
            let (end, tokens, notices) = generate(&mut driver, &world, mode.clone());
            assert_eq!((end, tokens), (LENGTH, vec![3; 6]), "swallowed after {behind} frames");
            let attempts: Vec<Notice> = (1..=more + 1).map(|n| reconnecting(n, 100 * u64::from(n - 1))).collect();
            assert_eq!(notices, [&[Notice::Begun][..], &attempts, &[Notice::Resumed { anew: false }]].concat());
            let now = world.0.borrow().now;
            assert!(now < Duration::from_secs(if more == 0 { 6 } else { 11 }));
            // Until its first token the server may be reading the prompt.
            assert!(behind > 0 || now == Duration::from_millis(5008), "{now:?}");
        }
    }
    // Where bytes are held back at this end the silence is not the server's.
    let (mut driver, world) = connected();
    driver.set_retry(retry);
    let mut change = world.0.borrow_mut();
    (change.swallowed_behind, change.is_holding) = (Some((2, 0)), true);
    drop(change);
    assert_eq!(generate(&mut driver, &world, Mode::CloudOnly).0, LENGTH);
    assert_eq!(world.0.borrow().now, Duration::from_secs(10));
}

/// A server that resumes the session and goes on reading a long prompt is slow, not gone.
#[test]
fn a_server_that_answers_without_text_is_given_twice_the_time() {
    let (mut driver, world) = connected();
    driver.set_retry(Retry { stall: Duration::from_secs(5), ..RETRY });
    world.0.borrow_mut().silent_until = Duration::from_secs(33);
    let (end, tokens, notices) = generate(&mut driver, &world, Mode::CloudOnly);
    assert_eq!((end, tokens.len()), (LENGTH, 6));
    let resumed = notices.iter().filter(|notice| matches!(notice, Notice::Resumed { .. })).count();
    // After 5, 10 and 20 s, each with 8 ms to read the prompt, and pauses of 0.1 and 0.2 s.
    assert_eq!((resumed, world.0.borrow().now), (3, Duration::from_millis(35_324)));
}

#[test]
fn pauses_double_until_a_connection_is_had_and_begin_again_after_it() {
    let (mut driver, world) = connected();
    for _ in 0..2 {
        let mut change = world.0.borrow_mut();
        (change.cut_behind, change.failures) = (Some(2), 3);
        change.pauses.clear();
        drop(change);
        let (end, tokens, notices) = generate(&mut driver, &world, Mode::CloudOnly);
        assert_eq!((end, tokens.len()), (LENGTH, 6));
        assert_eq!(notices[1..5], [(1, 0), (2, 100), (3, 200), (4, 400)].map(|(n, pause)| reconnecting(n, pause)));
        assert_eq!(world.0.borrow().pauses, [0, 100, 200, 400]);
    }
    assert_eq!(world.0.borrow().now, Duration::from_millis(1400));
}

/// A proxy that lets no message of some length through: each connection is welcomed, and cut.
#[test]
fn connections_that_bring_no_token_are_given_up() {
    let (mut driver, world) = connected();
    {
        let mut world = world.0.borrow_mut();
        (world.cut_behind, world.cuts_each_behind) = (Some(2), Some(1));
        world.pauses.clear();
    }
    let (settings, mut tokens) = (settings(Mode::CloudOnly), 0);
    let tell = |_: &EdgeSession, notice| {
        if let Notice::Committed(committed) = notice {
            tokens += committed.tokens.len();
        }
    };
    let error = run(driver.generate(vec![0, 1], &settings, pending(), tell)).unwrap_err();
    assert!(matches!(error, DriveError::Lost), "{error:?}");
    assert_eq!((tokens, &world.0.borrow().pauses[..]), (2, &[0, 100, 200, 400][..]));
}

#[test]
fn a_stop_is_heard_in_a_pause() {
    let (mut driver, world) = connected();
    let mut change = world.0.borrow_mut();
    (change.cut_behind, change.failures, change.stop_after[0]) = (Some(2), 9, Some(2));
    drop(change);
    let (end, tokens, notices) = generate(&mut driver, &world, Mode::CloudOnly);
    assert_eq!((end, tokens.len()), (CANCELLED, 2));
    assert_eq!(notices, [Notice::Begun, reconnecting(1, 0), reconnecting(2, 100)]);
    assert_eq!(world.0.borrow().now, Duration::ZERO, "the pause is not waited for");
    // The next connection cancels the generation at the server.
    let mut change = world.0.borrow_mut();
    (change.failures, change.stop_after[0]) = (0, None);
    change.sent.clear();
    drop(change);
    let (end, tokens, _) = generate(&mut driver, &world, Mode::CloudOnly);
    assert_eq!((end, tokens), (LENGTH, vec![3; 6]));
    assert_eq!(world.0.borrow().sent, ["Resume", "Cancel", "Generate"]);
}

#[test]
fn a_stop_is_heard_while_the_server_writes_and_while_the_edge_drafts_ahead() {
    for (mode, stop_after) in [(Mode::CloudOnly, [None, None, Some(4)]), (ahead(), [None, Some(2), None])] {
        let (mut driver, world) = connected();
        world.0.borrow_mut().stop_after = stop_after;
        let (end, tokens, _) = generate(&mut driver, &world, mode);
        assert_eq!(end, CANCELLED);
        assert!(tokens.len() < 6);
        assert_eq!(world.0.borrow().sent.last(), Some(&"Cancel"));
    }
}

#[test]
fn a_verdict_that_has_arrived_is_handed_in_before_the_next_pass() {
    let (mut driver, world) = connected();
    let (end, tokens, _) = generate(&mut driver, &world, ahead());
    assert_eq!((end, tokens), (LENGTH, vec![3; 6]));
    let world = world.0.borrow();
    assert!(world.turns > 0);
    assert_eq!(world.overlooked, 0);
    assert_eq!(driver.session().statistics().wasted, 0);
    assert_eq!(world.sent, ["Hello", "Prompt", "Draft", "Draft", "Draft", "Draft", "Draft"]);
}

#[test]
fn attempts_have_an_end() {
    for (attempts, error) in [(0, DriveError::Lost), (3, DriveError::Connect("nobody is there"))] {
        let (mut driver, world) = connected();
        driver.set_retry(Retry { attempts, ..RETRY });
        let mut change = world.0.borrow_mut();
        (change.cut_behind, change.failures) = (Some(2), 9);
        drop(change);
        let (end, tokens, notices) = generate(&mut driver, &world, Mode::CloudOnly);
        assert!(!error.leaves_the_session());
        assert_eq!((end, tokens.len(), notices.len()), (Err(error), 2, 1 + attempts as usize));
    }
}

#[test]
fn a_refusal_leaves_the_session_and_the_servers_goodbye_does_not() {
    let (mut driver, world) = connected();
    world.0.borrow_mut().refusal = Some((ErrorCode::ServerFull, false));
    let (end, ..) = generate(&mut driver, &world, Mode::CloudOnly);
    assert!(end.unwrap_err().leaves_the_session());
    let (end, ..) = generate(&mut driver, &world, Mode::Speculative(Speculation { draft_length: 0, ..draftless() }));
    assert!(matches!(&end, Err(error @ DriveError::Start(_)) if error.leaves_the_session()), "{end:?}");
    world.0.borrow_mut().refusal = None;
    assert_eq!(generate(&mut driver, &world, Mode::CloudOnly).0, LENGTH);
    // What ends the session ends the driver; a reason that passes is reported if there is no other connection to be
    // had.
    for (code, failures) in [(ErrorCode::TakenOver, 0), (ErrorCode::ShuttingDown, 9)] {
        let (mut driver, world) = connected();
        driver.set_retry(Retry::NEVER);
        let mut change = world.0.borrow_mut();
        (change.refusal, change.cut_behind, change.failures) = (Some((code, true)), Some(1), failures);
        drop(change);
        let (end, ..) = generate(&mut driver, &world, Mode::CloudOnly);
        assert!(matches!(&end, Err(DriveError::Closed(frame)) if frame.code == code), "{end:?}");
    }
}

fn draftless() -> Speculation {
    Speculation::new(SchemeParameters::Dense, 1)
}

#[test]
fn a_saved_session_that_the_server_does_not_know_is_begun_anew() {
    let saved = SavedSession { ticket: TICKET, attempts: 2, generation: 4 };
    let (mut driver, world) = open(EdgeSession::returning(info(), saved));
    assert_eq!(world.0.borrow().sent, ["Resume", "Hello"]);
    assert_eq!(driver.session().saved(), Some(SavedSession { attempts: 0, ..saved }));
    assert_eq!(generate(&mut driver, &world, Mode::CloudOnly).0, LENGTH);
    // A server that is not there is not tried again before the handshake.
    let world = Shared::default();
    world.0.borrow_mut().is_cut = true;
    let lost = run(Driver::open(EdgeSession::new(info()), world.clone(), world.clone(), world.clone()));
    assert_eq!(lost.err(), Some(DriveError::Lost));
}

#[test]
fn a_driver_that_is_closed_says_goodbye() {
    let (mut driver, world) = connected();
    run(driver.close());
    assert_eq!(world.0.borrow().sent, ["Hello", "Bye"]);
    assert!(world.0.borrow().is_cut);
}

#[test]
fn pauses_have_a_longest_and_are_left_to_chance() {
    let retry = Retry::default();
    let pauses = |chance| [0, 1, 2, 3, 6, 7, 40].map(|failed| retry.pause_after(failed, chance).as_millis());
    assert_eq!(pauses(255), [0, 100, 200, 400, 3200, 5000, 5000]);
    assert_eq!(pauses(0), [0, 50, 100, 200, 1600, 2500, 2500]);
}
