//! Both session state machines over connections that break: cut at any byte, frames that come twice or late, servers
//! that restart. No sockets, no sleeps; what happens next is drawn from a seed.

use core::time::Duration;
use std::collections::VecDeque;

use outrider_codec::frame::{ErrorCode, ErrorFrame, Frame, Next, Ticket};
use outrider_speculation::{
    Forward,
    sample::{End, Randomness},
    session::{
        cloud::{Admission, CloudOutput, CloudSession, Pass, TargetInfo},
        edge::{EdgeOutput, EdgeSession, EndReason, Event, Preview, Settings},
    },
};

use crate::toy::{CachedToy, ToyModel};

/// Frequency of cuts, restarts and repeats of the connections.
#[derive(Debug, Clone, Copy)]
pub struct Odds {
    /// Bytes that a connection bears on average; `None` for any number.
    pub bytes: Option<u32>,
    /// One in this many cuts comes with a restart of the server, which forgets all sessions.
    pub restarts: u32,
    /// One in this many frames arrives twice.
    pub repeats: u32,
    /// The cut strikes when a verdict brings this token, once a generation, and the server restarts: the loss depends
    /// on the verdict's content.
    pub verdict_with: Option<u32>,
    /// A planted error: after a restart the server makes new random draws.
    pub new_draws: bool,
}

impl Odds {
    /// Connections that are never cut.
    pub const SMOOTH: Self = Self { bytes: None, restarts: 1, repeats: u32::MAX, verdict_with: None, new_draws: false };
}

/// Counts of what happened to the connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of connections that were cut.
    pub cuts: usize,
    /// Number of these cuts that came with a restart of the server.
    pub restarts: usize,
    /// Number of frames that arrived twice.
    pub repeated: usize,
    /// Number of frames that arrived late, from an earlier connection.
    pub late: usize,
    /// Number of sessions that were resumed.
    pub resumed: usize,
    /// Number of sessions that started over.
    pub anew: usize,
}

impl core::ops::AddAssign for Counts {
    fn add_assign(&mut self, more: Self) {
        self.cuts += more.cuts;
        self.restarts += more.restarts;
        self.repeated += more.repeated;
        self.late += more.late;
        self.resumed += more.resumed;
        self.anew += more.anew;
    }
}

/// A session that the server holds.
#[derive(Debug)]
struct Hosted {
    session: CloudSession,
    ticket: Ticket,
    /// Number of its connection.
    wire: Option<u32>,
    target: CachedToy,
    pass: Option<Pass>,
    /// True if the next pass waits for guesses.
    is_held: bool,
}

/// A connection, as both ends see it.
#[derive(Debug, Default)]
struct Wire {
    number: u32,
    up: VecDeque<Vec<u8>>,
    down: VecDeque<Vec<u8>>,
    /// Bytes that it still bears.
    left: Option<u32>,
    /// True if it bears nothing any more; the edge does not know yet.
    is_cut: bool,
}

/// An edge with a toy draft, and a server with a toy target.
#[derive(Debug)]
pub struct Cuts {
    /// The session of the edge.
    pub edge: EdgeSession,
    /// Events on the connections so far.
    pub counts: Counts,
    odds: Odds,
    chance: Randomness,
    draft: CachedToy,
    target: ToyModel,
    info: TargetInfo,
    hosted: Vec<Hosted>,
    wire: Wire,
    /// Frames of earlier connections, which may still arrive.
    limbo: VecDeque<(u32, Vec<u8>)>,
    last_ticket: u8,
    has_struck: bool,
    now: Duration,
    committed: Vec<u32>,
    end: Option<EndReason>,
    /// The most tokens that the edge guesses while the connection is gone.
    pub offline_tokens: usize,
    /// Guesses shown after the text.
    preview: Preview,
    /// The token that was shown first at each position of the text, confirmed or not.
    pub first_shown: Vec<u32>,
    /// Number of guesses that were shown, that were made offline, and that were withdrawn.
    pub shown: [usize; 3],
    /// Forward passes of the draft model.
    pub forwards: usize,
}

/// A bound on steps that no text of these sizes reaches.
const MOST_STEPS: usize = 2_000_000;

impl Wire {
    /// Takes these bytes from the connection's budget, and returns true if all of them arrive.
    fn bears(&mut self, bytes: &[u8]) -> bool {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(bytes.len() as u32);
            return *left > 0 && !self.is_cut;
        }
        !self.is_cut
    }
}

impl Cuts {
    /// Joins a draft and a target.
    pub fn new(draft: ToyModel, target: ToyModel, context_length: u32, eos_ids: &[u32], odds: Odds, seed: u64) -> Self {
        let edge = EdgeSession::new(draft.draft_info(context_length, None));
        Self::of(edge, draft, target, context_length, eos_ids, (odds, seed))
    }

    /// Joins an edge without a draft model and a target.
    pub fn looking_up(target: ToyModel, context_length: u32, eos_ids: &[u32], odds: Odds, seed: u64) -> Self {
        let edge = EdgeSession::new(target.draft_info(0, None));
        Self::of(edge, target.clone(), target, context_length, eos_ids, (odds, seed))
    }

    fn of(
        edge: EdgeSession,
        draft: ToyModel,
        target: ToyModel,
        context_length: u32,
        eos_ids: &[u32],
        (odds, seed): (Odds, u64),
    ) -> Self {
        let info = target.target_info(context_length, eos_ids);
        let mut pair = Self {
            edge,
            counts: Counts::default(),
            odds: Odds { bytes: None, ..odds },
            chance: Randomness::new(seed, End::Edge),
            draft: CachedToy::new(draft),
            target,
            info,
            hosted: Vec::new(),
            wire: Wire::default(),
            limbo: VecDeque::new(),
            last_ticket: 0,
            has_struck: true,
            now: Duration::ZERO,
            committed: Vec::new(),
            forwards: 0,
            end: None,
            offline_tokens: 0,
            preview: Preview::new(0.5),
            first_shown: Vec::new(),
            shown: [0; 3],
        };
        pair.run(|pair| pair.edge.is_idle());
        pair.odds = odds;
        pair.wire.left = pair.lifetime();
        pair
    }

    /// Generates to the end, whatever happens on the way.
    pub fn generate(&mut self, prompt: &[u32], settings: &Settings) -> Vec<u32> {
        self.edge.start(prompt.to_vec(), settings, self.now).expect("the settings are valid");
        self.has_struck = false;
        (self.committed, self.end) = (Vec::new(), None);
        (self.preview, self.first_shown) = (Preview::new(0.5), Vec::new());
        self.run(|pair| pair.end.is_some());
        self.first_shown.truncate(self.committed.len());
        std::mem::take(&mut self.committed)
    }

    /// Moves the ends and connections in random order, until it is done.
    fn run(&mut self, is_done: impl Fn(&Self) -> bool) {
        for _ in 0..MOST_STEPS {
            if is_done(self) {
                return;
            }
            self.now += Duration::from_micros(10);
            match self.chance.below(7) {
                0 | 1 => self.move_edge(),
                2 => self.deliver_up(),
                3 => self.move_server(),
                4 => self.finish_pass(),
                5 => self.deliver_down(),
                _ => self.disturb(),
            }
        }
        panic!("this never ends: {:?}", self.counts);
    }

    fn move_edge(&mut self) {
        match self.edge.poll(self.now).expect("the cloud keeps the protocol") {
            None => {}
            Some(EdgeOutput::Send(bytes)) => self.wire.up.push_back(bytes),
            Some(EdgeOutput::Forward(forward)) => {
                self.run_draft(&forward);
            }
            Some(EdgeOutput::Event(event)) => match event {
                Event::Connected(_) | Event::Interrupted(_) => {}
                Event::Committed(committed) => {
                    assert_eq!(self.end, None, "tokens came after the end");
                    for (id, _) in committed.tokens {
                        self.committed.push(id);
                        self.shown[2] += self.preview.commit(id);
                    }
                    self.show();
                }
                Event::Finished(end) => assert_eq!(self.end.replace(end), None, "it ended twice"),
                Event::Resumed { anew: false } => self.counts.resumed += 1,
                Event::Resumed { anew: true } => self.counts.anew += 1,
                other => panic!("{other:?}"),
            },
        }
    }

    fn run_draft(&mut self, forward: &Forward) {
        self.forwards += 1;
        for (row, hidden) in self.draft.forward(forward) {
            self.edge.handle_logits(&row, &hidden, self.now).unwrap();
        }
        self.show();
    }

    /// Shows what the edge guesses now.
    fn show(&mut self) {
        let line = self.edge.guesses();
        self.preview.update(&line);
        let visible = self.committed.iter().chain(self.preview.ids()).skip(self.first_shown.len());
        let news: Vec<u32> = visible.copied().collect();
        let guessed = (self.first_shown.len() + news.len()).saturating_sub(self.committed.len()).min(news.len());
        self.shown[0] += guessed;
        self.shown[1] += if line.offline { guessed } else { 0 };
        self.first_shown.extend(news);
    }

    fn deliver_up(&mut self) {
        let Some(bytes) = self.wire.up.pop_front() else { return };
        if self.wire.bears(&bytes) {
            let number = self.wire.number;
            self.receive(number, &bytes);
            if self.is_repeated(&bytes) {
                self.receive(number, &bytes);
            }
        } else {
            self.wire.up.push_front(bytes);
            self.cut();
        }
    }

    fn deliver_down(&mut self) {
        let Some(bytes) = self.wire.down.pop_front() else { return };
        let strikes = matches!(
            (Frame::decode(&bytes), self.odds.verdict_with),
            (Ok(Frame::Verdict(verdict)), Some(token)) if verdict.next == Next::Token(token)
        );
        if strikes && !std::mem::replace(&mut self.has_struck, true) {
            self.cut();
            self.restart();
        } else if self.wire.bears(&bytes) {
            self.edge.handle_frame(&bytes, self.now).expect("the cloud keeps the protocol");
            if self.is_repeated(&bytes) {
                self.edge.handle_frame(&bytes, self.now).expect("what comes twice is harmless");
            }
        } else {
            self.cut();
        }
    }

    /// Frames of the handshake do not come twice: nothing but the network could repeat them, and it does not.
    fn is_repeated(&mut self, bytes: &[u8]) -> bool {
        let opens = matches!(Frame::decode(bytes), Ok(Frame::Hello(_) | Frame::Resume(_) | Frame::Welcome(_)));
        let repeats = !opens && self.odds.repeats != u32::MAX && self.chance.below(self.odds.repeats) == 0;
        self.counts.repeated += usize::from(repeats);
        repeats
    }

    fn cut(&mut self) {
        if std::mem::replace(&mut self.wire.is_cut, true) {
            return;
        }
        self.counts.cuts += 1;
        self.wire.down.clear();
        let number = self.wire.number;
        // Of what the edge had sent the first may come yet, in order.
        let late = self.chance.below(self.wire.up.len() as u32 + 1) as usize;
        self.limbo.extend(self.wire.up.drain(..).take(late).map(|bytes| (number, bytes)));
        if self.odds.verdict_with.is_none() && self.chance.below(self.odds.restarts) == 0 {
            self.restart();
        }
    }

    fn restart(&mut self) {
        self.counts.restarts += 1;
        self.hosted.clear();
        self.limbo.clear();
    }

    /// The ends notice that their connection is gone, each in its own time; or something comes late.
    fn disturb(&mut self) {
        if !self.wire.is_cut {
            return;
        }
        match self.chance.below(3) {
            0 => {
                let number = self.wire.number;
                self.hosted
                    .iter_mut()
                    .filter(|hosted| hosted.wire == Some(number))
                    .for_each(|hosted| hosted.wire = None);
            }
            1 => {
                let left = self.lifetime();
                let number = self.wire.number + 1;
                assert!(self.edge.disconnected(), "it can go on");
                while let Some(forward) = self.edge.offline_step(self.offline_tokens, self.now) {
                    self.run_draft(&forward);
                }
                self.wire = Wire { number, left, ..Wire::default() };
                self.edge.reconnected();
            }
            _ => {}
        }
        self.limbo_comes();
    }

    fn limbo_comes(&mut self) {
        if self.chance.below(2) == 0
            && let Some((number, bytes)) = self.limbo.pop_front()
        {
            self.counts.late += 1;
            self.receive(number, &bytes);
        }
    }

    fn lifetime(&mut self) -> Option<u32> {
        let bytes = self.odds.bytes?;
        Some(1 + self.chance.below(2 * bytes))
    }

    /// The server reads a frame of a connection.
    fn receive(&mut self, number: u32, bytes: &[u8]) {
        let bytes = &self.with_planted_error(bytes)[..];
        if let Some(hosted) = self.hosted.iter_mut().find(|hosted| hosted.wire == Some(number)) {
            return hosted.session.handle_frame(bytes);
        }
        match Frame::decode(bytes) {
            Ok(Frame::Resume(resume)) => {
                let found = self.hosted.iter_mut().find(|hosted| hosted.ticket == resume.ticket);
                let found = found.and_then(|hosted| hosted.session.resume(&resume).then_some(hosted));
                match found {
                    Some(hosted) => hosted.wire = Some(number),
                    None if number == self.wire.number => {
                        let (generation, code, text) = (0, ErrorCode::UnknownSession, String::new());
                        self.wire.down.push_back(Frame::Error(ErrorFrame { generation, code, text }).encode());
                        // The server closes the connection after the error.
                        self.wire.left = Some(u32::MAX);
                        self.refuse();
                    }
                    None => {}
                }
            }
            Ok(Frame::Hello(_)) => {
                self.last_ticket = self.last_ticket.wrapping_add(1);
                let ticket = Ticket { id: [self.last_ticket; 16], secret: [!self.last_ticket; 16] };
                let mut session = CloudSession::new(
                    self.info.clone(),
                    Admission { ticket, detached_seconds: 120, ..Admission::default() },
                );
                session.handle_frame(bytes);
                let target = CachedToy::new(self.target.clone());
                self.hosted.push(Hosted { session, ticket, wire: Some(number), target, pass: None, is_held: false });
            }
            // Of a connection that the server has closed.
            _ => {}
        }
    }

    /// The refusal arrives, and then the connection's end.
    fn refuse(&mut self) {
        while let Some(bytes) = self.wire.down.pop_front() {
            self.edge.handle_frame(&bytes, self.now).expect("the cloud keeps the protocol");
        }
        self.wire.is_cut = true;
        self.wire.up.clear();
    }

    fn with_planted_error(&self, bytes: &[u8]) -> Vec<u8> {
        match Frame::decode(bytes) {
            Ok(Frame::Prompt(mut prompt)) if self.odds.new_draws && self.counts.restarts > 0 => {
                prompt.request.seed ^= (self.counts.restarts as u64) << 32;
                Frame::Prompt(prompt).encode()
            }
            _ => bytes.to_vec(),
        }
    }

    fn move_server(&mut self) {
        for hosted in &mut self.hosted {
            let Some(number) = hosted.wire else { continue };
            if std::mem::take(&mut hosted.is_held) {
                hosted.session.end_hold();
            }
            match hosted.session.poll() {
                None => {}
                Some(CloudOutput::Verify(pass)) => hosted.pass = Some(pass),
                // On a connection that is cut it goes nowhere.
                Some(CloudOutput::Send(bytes)) => {
                    let frame = Frame::decode(&bytes);
                    assert!(!matches!(frame, Ok(Frame::Error(_))), "the edge keeps the protocol: {frame:?}");
                    if number == self.wire.number && !self.wire.is_cut {
                        self.wire.down.push_back(bytes);
                    }
                }
                // Time passes between any two steps.
                Some(CloudOutput::Hold(_)) => hosted.is_held = true,
                Some(CloudOutput::Draft(_) | CloudOutput::Offer(_)) => panic!("the cloud has no draft model here"),
                Some(CloudOutput::Shape(_)) => panic!("no logits are changed here"),
                Some(CloudOutput::Close) => panic!("the cloud closed"),
            }
        }
    }

    fn finish_pass(&mut self) {
        for hosted in &mut self.hosted {
            if let Some(pass) = hosted.pass.take() {
                hosted.session.handle_judgement(hosted.target.judge(&pass));
            }
        }
    }
}
