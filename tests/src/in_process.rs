//! Both session state machines, joined by a virtual link on a virtual clock. No sockets, no sleeps.

use core::time::Duration;
use std::collections::VecDeque;

use outrider_codec::frame::Frame;
use outrider_speculation::{
    control::rounds::Estimates,
    draft::heads::Heads,
    session::{
        cloud::{Admission, CloudOutput, CloudSession},
        edge::{Committed, EdgeOutput, EdgeSession, EndReason, Event, Settings},
    },
    study::link::Link,
};

use crate::toy::{CachedToy, ToyModel};

/// An edge with a toy draft and a cloud with a toy target.
#[derive(Debug)]
pub struct InProcess {
    /// The edge's session.
    pub edge: EdgeSession,
    /// The cloud's.
    pub cloud: CloudSession,
    draft: CachedToy,
    target: CachedToy,
    /// Edge to cloud.
    pub uplink: Link,
    /// Cloud to edge.
    pub downlink: Link,
    /// What a pass of the draft model takes.
    pub draft_time: Duration,
    /// What a pass of the target takes that gives a token or a verdict. Prompts are read in no time.
    pub pass_time: Duration,
    /// What the uplink becomes after so many verdicts of a generation: bits per second and delay.
    pub uplink_changes: Vec<(usize, f64, Duration)>,
    /// The virtual time at the edge.
    pub now: Duration,
    /// And at the cloud, which may be ahead: what it sends is under way.
    cloud_now: Duration,
    arriving: VecDeque<(Duration, Vec<u8>)>,
    /// Every frame that passed, as it was sent; `true`: by the edge. Kept while `keep_frames` is set.
    pub frames: Vec<(bool, Frame)>,
    /// Whether frames are kept.
    pub keep_frames: bool,
}

/// What a generation gave.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// Committed tokens.
    pub tokens: Vec<u32>,
    /// As they came.
    pub committed: Vec<Committed>,
    /// What the controller thought after each verdict.
    pub estimates: Vec<Estimates>,
    /// Why it ended.
    pub end: Option<EndReason>,
}

impl InProcess {
    /// Joins a draft and a target and shakes hands.
    pub fn connect(draft: ToyModel, target: ToyModel, context_length: u32, eos_ids: &[u32]) -> Self {
        Self::connect_with(draft, target, context_length, eos_ids, None)
    }

    /// The same with trained heads on the draft's [hidden states](ToyModel::hidden).
    pub fn connect_with(
        draft: ToyModel,
        target: ToyModel,
        context_length: u32,
        eos_ids: &[u32],
        heads: Option<Heads>,
    ) -> Self {
        let cloud = CloudSession::new(target.target_info(context_length, eos_ids), Admission::default());
        let edge = EdgeSession::new(draft.draft_info(context_length, heads));
        let mut pair = Self {
            edge,
            cloud,
            draft: CachedToy::new(draft),
            target: CachedToy::new(target),
            uplink: Link::unlimited(),
            downlink: Link::unlimited(),
            draft_time: Duration::ZERO,
            uplink_changes: Vec::new(),
            pass_time: Duration::ZERO,
            now: Duration::ZERO,
            cloud_now: Duration::ZERO,
            arriving: VecDeque::new(),
            frames: Vec::new(),
            keep_frames: false,
        };
        pair.run();
        assert!(pair.edge.is_idle(), "the handshake failed");
        pair
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

    /// Runs both ends until neither has anything to do.
    fn run(&mut self) -> Run {
        let mut run = Run::default();
        loop {
            self.take_what_has_arrived();
            while let Some(output) = self.edge.poll(self.now).expect("the cloud keeps the protocol") {
                match output {
                    EdgeOutput::Send(bytes) => {
                        self.record(true, &bytes);
                        self.cloud_now = self.cloud_now.max(self.uplink.arrival(self.now, bytes.len()));
                        self.cloud.handle_frame(&bytes);
                        self.run_cloud();
                    }
                    EdgeOutput::Forward(forward) => {
                        self.now += self.draft_time;
                        for (row, hidden) in self.draft.forward(&forward) {
                            self.edge.handle_logits(&row, &hidden, self.now).unwrap();
                        }
                    }
                    EdgeOutput::Event(Event::Committed(committed)) => {
                        run.tokens.extend(committed.tokens.iter().map(|token| token.0));
                        if committed.round.is_some() {
                            run.estimates.push(self.edge.statistics().estimates);
                            self.change_uplink(run.estimates.len());
                        }
                        run.committed.push(committed);
                    }
                    EdgeOutput::Event(Event::Finished(end)) => run.end = Some(end),
                    EdgeOutput::Event(Event::Connected(_)) => {}
                    EdgeOutput::Event(other) => panic!("{other:?}"),
                }
                self.take_what_has_arrived();
            }
            let Some((arrival, bytes)) = self.arriving.pop_front() else { return run };
            self.now = self.now.max(arrival);
            self.edge.handle_frame(&bytes, self.now).expect("the cloud keeps the protocol");
        }
    }

    /// What has arrived meanwhile comes before what the edge would do next.
    fn take_what_has_arrived(&mut self) {
        while self.arriving.front().is_some_and(|&(arrival, _)| arrival <= self.now) {
            let (_, bytes) = self.arriving.pop_front().expect("there is one");
            self.edge.handle_frame(&bytes, self.now).expect("the cloud keeps the protocol");
        }
    }

    /// Runs the cloud until it waits for the edge. It can do so ahead of the edge: the edge interrupts nothing.
    fn run_cloud(&mut self) {
        while let Some(output) = self.cloud.poll() {
            match output {
                CloudOutput::Send(bytes) => {
                    self.record(false, &bytes);
                    self.arriving.push_back((self.downlink.arrival(self.cloud_now, bytes.len()), bytes));
                }
                CloudOutput::Verify(pass) => {
                    if pass.forward.rows > 0 {
                        self.cloud_now += self.pass_time;
                    }
                    self.cloud.handle_judgement(self.target.judge(&pass));
                }
                CloudOutput::Hold(_) | CloudOutput::Draft(_) | CloudOutput::Offer(_) => {
                    panic!("nothing is guessed here; `timed` has that")
                }
                CloudOutput::Close => panic!("the cloud closed"),
            }
        }
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
