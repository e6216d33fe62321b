//! Both session state machines, joined by a virtual link on a virtual clock. No sockets, no sleeps.

use core::time::Duration;

use outrider_codec::frame::Frame;
use outrider_speculation::{
    cloud::{CloudOutput, CloudSession, TargetInfo},
    edge::{Committed, DraftInfo, EdgeOutput, EdgeSession, EndReason, Event, Settings},
    link::Link,
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
    /// The virtual time.
    pub now: Duration,
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
    /// Why it ended.
    pub end: Option<EndReason>,
}

const TOKENIZER_HASH: [u8; 32] = [9; 32];

impl InProcess {
    /// Joins a draft and a target and shakes hands.
    pub fn connect(draft: ToyModel, target: ToyModel, context_length: u32, eos_ids: &[u32]) -> Self {
        let cloud = CloudSession::new(TargetInfo {
            vocab_size: target.vocab_size(),
            tokenizer_hash: TOKENIZER_HASH,
            context_length,
            max_draft_tokens: 16,
            eos_ids: eos_ids.to_vec(),
        });
        let edge = EdgeSession::new(DraftInfo {
            vocab_size: draft.vocab_size(),
            tokenizer_hash: TOKENIZER_HASH,
            context_length,
            heads: None,
        });
        let mut pair = Self {
            edge,
            cloud,
            draft: CachedToy::new(draft),
            target: CachedToy::new(target),
            uplink: Link::unlimited(),
            downlink: Link::unlimited(),
            now: Duration::ZERO,
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
            let mut moved = false;
            while let Some(output) = self.edge.poll(self.now).expect("the cloud keeps the protocol") {
                moved = true;
                match output {
                    EdgeOutput::Send(bytes) => {
                        self.record(true, &bytes);
                        self.now = self.uplink.arrival(self.now, bytes.len());
                        self.cloud.handle_frame(&bytes);
                    }
                    EdgeOutput::Forward(forward) => {
                        for row in self.draft.forward(&forward) {
                            self.edge.handle_logits(&row, &[], self.now).unwrap();
                        }
                    }
                    EdgeOutput::Event(Event::Committed(committed)) => {
                        run.tokens.extend(committed.tokens.iter().map(|token| token.0));
                        run.committed.push(committed);
                    }
                    EdgeOutput::Event(Event::Finished(end)) => run.end = Some(end),
                    EdgeOutput::Event(Event::Connected(_)) => {}
                    EdgeOutput::Event(other) => panic!("{other:?}"),
                }
            }
            while let Some(output) = self.cloud.poll() {
                moved = true;
                match output {
                    CloudOutput::Send(bytes) => {
                        self.record(false, &bytes);
                        self.now = self.downlink.arrival(self.now, bytes.len());
                        self.edge.handle_frame(&bytes, self.now).expect("the cloud keeps the protocol");
                    }
                    CloudOutput::Forward(forward) => {
                        let rows = self.target.forward(&forward);
                        self.cloud.handle_logits(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
                    }
                    CloudOutput::Close => panic!("the cloud closed"),
                }
            }
            if !moved {
                return run;
            }
        }
    }

    fn record(&mut self, by_edge: bool, bytes: &[u8]) {
        if self.keep_frames {
            self.frames.push((by_edge, Frame::decode(bytes).unwrap()));
        }
    }
}
