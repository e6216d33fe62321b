//! Both session state machines, joined by a virtual link on a virtual clock. No sockets, no sleeps.
//!
//! Neither end waits for the other: what is sent takes as long as the link wants, and passes of either model take their
//! time while frames arrive.

use core::time::Duration;
use std::{collections::VecDeque, sync::Arc};

use outrider_codec::frame::{Frame, Guesses, MAX_DRAFT_TOKENS};
use outrider_speculation::{
    Forward,
    control::link::Link,
    control::{
        goodput::{Prices, RowCosts},
        rounds::Estimates,
    },
    draft::Heads,
    judge::{Judgement, NextToken, Round},
    session::{
        cloud::{Admission, CloudOutput, CloudSession, OwnDraft, OwnDrafts, Pass, TargetInfo},
        edge::{Committed, EdgeOutput, EdgeSession, EndReason, Event, Settings},
    },
};

use crate::toy::{CachedToy, ToyModel};

/// The most tokens of a text of [`InProcess::timed`].
const CONTEXT: u32 = 512;

/// An edge with a toy draft and a cloud with a toy target.
#[derive(Debug)]
pub struct InProcess {
    /// Session of the edge.
    pub edge: EdgeSession,
    /// Session of the cloud.
    pub cloud: CloudSession,
    draft: CachedToy,
    target: CachedToy,
    /// Draft model of the server's own.
    own: CachedToy,
    /// Link from the edge to the cloud.
    pub uplink: Link,
    /// Link from the cloud to the edge.
    pub downlink: Link,
    /// Time of a pass of the draft model.
    pub draft_time: Duration,
    /// Time of a pass of the target that gives a token or a verdict. Prompts are read in no time.
    pub pass_time: Duration,
    /// Time that each judged guess adds to a pass.
    row_time: Duration,
    /// Time of a pass of the server's own draft model; `None` if it has none.
    own_draft_time: Option<Duration>,
    /// True if the edge reads frames while its draft model runs, and not only between passes.
    reads_while_drafting: bool,
    /// Change to guesses on their way.
    pub tamper: Option<Tamper>,
    /// Changes of the uplink after a number of verdicts of a generation: bits per second and delay.
    pub uplink_changes: Vec<(usize, f64, Duration)>,
    /// Time on the virtual clock.
    pub now: Duration,
    /// Frames under way, with the times of their arrival.
    up: VecDeque<(Duration, Vec<u8>)>,
    down: VecDeque<(Duration, Vec<u8>)>,
    /// Passes under way, with the times of their ends.
    drafted: Option<(Duration, Rows)>,
    judged: Option<(Duration, Pass)>,
    own_drafted: Option<(Duration, Vec<OwnDraft>)>,
    /// End of the hold of a pass.
    hold: Option<Duration>,
    /// Every frame that passed, as it was sent; `true`: by the edge. Kept while `keep_frames` is set.
    pub frames: Vec<(bool, Frame)>,
    /// True if frames are kept.
    pub keep_frames: bool,
}

/// Rows of logits with their hidden states.
type Rows = Vec<(Vec<f32>, Vec<f32>)>;

/// Change to guesses on their way, where an error is planted or a peer lies.
pub type Tamper = fn(&mut Guesses);

/// Times of passes and of the link.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Time of a pass of the draft model.
    pub draft: Duration,
    /// Time of a pass of the target that judges nothing.
    pub pass: Duration,
    /// Time that each judged guess adds to a pass.
    pub row: Duration,
    /// Time from one end to the other, either way.
    pub delay: Duration,
    /// Time of a pass of the server's own draft model; `None` if it has none.
    pub own_draft: Option<Duration>,
}

/// Outcome of a generation.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// Ids of the committed tokens.
    pub tokens: Vec<u32>,
    /// Committed tokens, in the order of their arrival.
    pub committed: Vec<Committed>,
    /// Estimates of the controller after each verdict.
    pub estimates: Vec<Estimates>,
    /// Reason for which it ended.
    pub end: Option<EndReason>,
    /// Time until the last token came.
    pub elapsed: Duration,
    /// Passes of the target.
    pub passes: usize,
    /// Number of holds of a pass.
    pub holds: usize,
    /// Drafts of the server's own.
    pub own_drafts: usize,
    /// Second candidates that were right in time.
    pub branched: usize,
}

impl InProcess {
    /// Joins a draft and a target and shakes hands.
    pub fn connect(draft: ToyModel, target: ToyModel, context_length: u32, eos_ids: &[u32]) -> Self {
        Self::connect_with(draft, target, context_length, eos_ids, None)
    }

    /// Connects two models, with trained heads on the draft's [hidden states](ToyModel::hidden).
    pub fn connect_with(
        draft: ToyModel,
        target: ToyModel,
        context_length: u32,
        eos_ids: &[u32],
        heads: Option<Heads>,
    ) -> Self {
        let mut pair = Self::new(draft, &target, target.target_info(context_length, eos_ids), heads);
        pair.shake_hands();
        pair
    }

    /// Joins a draft and a target that take their time, also for the handshake. The edge reads frames while it drafts,
    /// and the cloud knows its prices.
    pub fn timed(draft: ToyModel, target: ToyModel, times: Times) -> Self {
        let mut info = target.target_info(CONTEXT, &[]);
        info.limits.max_draft_tokens = MAX_DRAFT_TOKENS;
        let mut pair = Self::new(draft, &target, info, None);
        let share = |time: Duration| time.as_secs_f64() / times.pass.as_secs_f64();
        pair.cloud.set_prices(Prices {
            rows: RowCosts::each(share(times.row)),
            own_draft: times.own_draft.map(share),
            looks_up: false,
        });
        (pair.draft_time, pair.pass_time, pair.row_time) = (times.draft, times.pass, times.row);
        (pair.own_draft_time, pair.reads_while_drafting) = (times.own_draft, true);
        pair.uplink.configure(None, times.delay);
        pair.downlink.configure(None, times.delay);
        pair.shake_hands();
        pair
    }

    fn new(draft: ToyModel, target: &ToyModel, info: TargetInfo, heads: Option<Heads>) -> Self {
        let edge = EdgeSession::new(draft.draft_info(info.limits.context_length, heads));
        Self {
            edge,
            cloud: CloudSession::new(info, Admission::default()),
            own: CachedToy::new(draft.clone()),
            draft: CachedToy::new(draft),
            target: CachedToy::new(target.clone()),
            uplink: Link::unlimited(),
            downlink: Link::unlimited(),
            draft_time: Duration::ZERO,
            pass_time: Duration::ZERO,
            row_time: Duration::ZERO,
            own_draft_time: None,
            reads_while_drafting: false,
            tamper: None,
            uplink_changes: Vec::new(),
            now: Duration::ZERO,
            up: VecDeque::new(),
            down: VecDeque::new(),
            drafted: None,
            judged: None,
            own_drafted: None,
            hold: None,
            frames: Vec::new(),
            keep_frames: false,
        }
    }

    fn shake_hands(&mut self) {
        self.run();
        assert!(self.edge.is_idle(), "the handshake failed");
    }

    /// Replaces the edge's draft model.
    pub fn draft_with(&mut self, draft: ToyModel) {
        self.draft = CachedToy::new(draft);
    }

    /// Generates until the end.
    pub fn generate(&mut self, prompt: &[u32], settings: &Settings) -> Run {
        self.edge.start(prompt.to_vec(), settings, self.now).expect("the settings are valid");
        let run = self.run();
        assert!(run.end.is_some(), "the generation came to a halt without an end");
        run
    }

    /// Passes of the target so far.
    pub fn target_passes(&self) -> usize {
        self.target.passes
    }

    /// Runs both ends until neither has anything to do. Events that are due come before the edge's next step.
    fn run(&mut self) -> Run {
        let (mut run, began, passes) = (Run::default(), self.now, self.target.passes);
        loop {
            self.poll_cloud(&mut run);
            if self.handle_event() || self.poll_edge(&mut run, began) {
                continue;
            }
            let Some(next) = self.next_event() else { break };
            self.now = next;
        }
        run.passes = self.target.passes - passes;
        run
    }

    /// True if the edge would read a frame now.
    fn is_reading(&self) -> bool {
        self.drafted.is_none() || self.reads_while_drafting
    }

    fn next_event(&self) -> Option<Duration> {
        let down = self.down.front().filter(|_| self.is_reading());
        let times = [
            self.up.front().map(|up| up.0),
            down.map(|down| down.0),
            self.judged.as_ref().map(|judged| judged.0),
            self.drafted.as_ref().map(|drafted| drafted.0),
            self.own_drafted.as_ref().map(|drafted| drafted.0),
            self.hold,
        ];
        times.into_iter().flatten().min()
    }

    /// Handles one event that is due, if any is.
    fn handle_event(&mut self) -> bool {
        let now = self.now;
        if let Some((_, bytes)) = self.up.pop_front_if(|up| up.0 <= now) {
            self.cloud.handle_frame(&bytes);
        } else if self.is_reading()
            && let Some((_, bytes)) = self.down.pop_front_if(|down| down.0 <= now)
        {
            self.edge.handle_frame(&bytes, now).expect("the cloud keeps the protocol");
        } else if let Some((_, pass)) = self.judged.take_if(|judged| judged.0 <= now) {
            self.cloud.pass_took(self.time_of(&pass));
            self.cloud.handle_judgement(self.target.judge(&pass));
        } else if let Some((_, rows)) = self.drafted.take_if(|drafted| drafted.0 <= now) {
            for (row, hidden) in rows {
                self.edge.handle_logits(&row, &hidden, now).expect("the draft model gives logits");
            }
        } else if let Some((_, drafts)) = self.own_drafted.take_if(|drafted| drafted.0 <= now) {
            self.cloud.handle_drafts(drafts);
        } else if self.hold.take_if(|end| *end <= now).is_some() {
            self.cloud.end_hold();
        } else {
            return false;
        }
        true
    }

    /// Takes the edge's next step, unless its draft model runs or there is nothing to do.
    fn poll_edge(&mut self, run: &mut Run, began: Duration) -> bool {
        if self.drafted.is_some() {
            return false;
        }
        let Some(output) = self.edge.poll(self.now).expect("the cloud keeps the protocol") else { return false };
        match output {
            EdgeOutput::Send(bytes) => {
                let bytes = if let Some(tamper) = self.tamper { tampered(&bytes, tamper) } else { bytes };
                self.record(true, &bytes);
                self.up.push_back((self.uplink.arrival(self.now, bytes.len()), bytes));
            }
            EdgeOutput::Forward(forward) => {
                self.drafted = Some((self.now + self.draft_time, self.draft.forward(&forward)));
            }
            EdgeOutput::Event(Event::Committed(committed)) => {
                run.tokens.extend(committed.tokens.iter().map(|token| token.0));
                run.elapsed = self.now - began;
                if committed.round.is_some() {
                    run.estimates.push(self.edge.statistics().estimates);
                    self.change_uplink(run.estimates.len());
                }
                run.committed.push(committed);
            }
            EdgeOutput::Event(Event::Finished(end)) => {
                (run.end, run.branched) = (Some(end), self.edge.statistics().branched);
            }
            EdgeOutput::Event(Event::Connected(_)) => {}
            EdgeOutput::Event(other) => panic!("{other:?}"),
        }
        true
    }

    /// Takes all steps that the cloud can take now.
    fn poll_cloud(&mut self, run: &mut Run) {
        while let Some(output) = self.cloud.poll() {
            match output {
                CloudOutput::Send(bytes) => {
                    self.record(false, &bytes);
                    self.down.push_back((self.downlink.arrival(self.now, bytes.len()), bytes));
                }
                CloudOutput::Verify(pass) => {
                    self.hold = None;
                    self.judged = Some((self.now + self.time_of(&pass), pass));
                }
                CloudOutput::Hold(patience) => {
                    run.holds += 1;
                    self.hold = Some(self.now + patience);
                }
                CloudOutput::Draft(wanted) => {
                    let drafts = drafts(&mut self.own, &wanted);
                    run.own_drafts += drafts.len();
                    let time = self.own_draft_time.expect("the cloud has a draft model") * drafts.len() as u32;
                    self.own_drafted = Some((self.now + time, drafts));
                }
                CloudOutput::Offer(_) => panic!("the draws are shared here"),
                CloudOutput::Shape(_) => panic!("no logits are changed here"),
                CloudOutput::Close => panic!("the cloud closed"),
            }
        }
    }

    fn time_of(&self, pass: &Pass) -> Duration {
        let alone = if pass.forward.rows > 0 { self.pass_time } else { Duration::ZERO };
        alone + self.row_time * (pass.round.drafts.len() + pass.round.branch_rows()) as u32
    }

    fn change_uplink(&mut self, verdicts: usize) {
        for &(_, rate, delay) in self.uplink_changes.iter().filter(|change| change.0 == verdicts) {
            self.uplink.configure(Some(rate), delay);
        }
    }

    fn record(&mut self, by_edge: bool, bytes: &[u8]) {
        if self.keep_frames {
            self.frames.push((by_edge, Frame::decode(bytes).unwrap()));
        }
    }
}

/// Drafts of the server's own draft model.
fn drafts(model: &mut CachedToy, wanted: &OwnDrafts) -> Vec<OwnDraft> {
    let mut text = wanted.text.clone();
    let mut drafts: Vec<OwnDraft> = Vec::new();
    while drafts.is_empty() || wanted.depth.goes_on(drafts.iter().map(|draft| draft.clarity)) {
        let forward = Forward::new(0, text.clone(), 1);
        let round = Arc::new(Round::guess(wanted.sampling, wanted.seed, text.len()));
        let Judgement { next: NextToken::Token(id), clarity, .. } =
            model.judge(&Pass { forward, round, left: 1, shaping: None })
        else {
            panic!("a guess is a token");
        };
        text.push(id);
        drafts.push(OwnDraft { clarity, ..OwnDraft::from(id) });
    }
    drafts
}

fn tampered(bytes: &[u8], tamper: Tamper) -> Vec<u8> {
    match Frame::decode(bytes) {
        Ok(Frame::Guesses(mut guesses)) => {
            tamper(&mut guesses);
            Frame::Guesses(guesses).encode()
        }
        _ => bytes.to_vec(),
    }
}
