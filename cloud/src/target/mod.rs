//! The target of the sessions: a model in this process, or an engine elsewhere.
//!
//! A session holds a [`TargetSlot`], submits [passes](Pass) and gets judgements of their rounds. On the CPU the
//! session's own task judges rows of logits. A device judges where its logits are. The [gateway] judges by an engine's
//! responses.
//!
//! | folder or file | contents |
//! |---|---|
//! | [`engine`] | the thread that owns a model, its schedule and its memory, wherever the model runs |
//! | [`cpu`] | a model on this processor |
//! | `device` | a model on a GPU, in builds with one |
//! | [`gateway`] | an engine elsewhere |
//! | [`device_name`] | names of devices on the command line |

pub mod cpu;
#[cfg(feature = "device")]
mod device;
pub mod device_name;
pub mod engine;
pub mod gateway;

use std::{net::IpAddr, sync::Arc};

use outrider_codec::frame::{ErrorCode, PASS_ROWS, SamplingParameters};
use outrider_speculation::{
    Forward,
    control::goodput::{Prices, RowCosts},
    judge::{Judgement, Round},
    session::cloud::{CloudSession, Offer, Pass},
};

use crate::{
    metrics::Metrics,
    target::{
        engine::{Drafter, Engine, EngineError, Load, ModelSlot, OwnDraftPolicy},
        gateway::{Gateway, GatewayError, GatewaySlot, WorkerCounts},
    },
};

/// A handle on the target; clones share it.
#[derive(Debug, Clone)]
pub enum Target {
    /// A model in this process.
    Model(Engine),
    /// An engine elsewhere.
    Gateway(Gateway),
}

/// A session's slot at the target. Dropping it frees the slot.
#[derive(Debug)]
pub enum TargetSlot {
    /// A model in this process.
    Model(ModelSlot),
    /// An engine elsewhere.
    Gateway(Box<GatewaySlot>),
}

/// Reason why a pass gave no judgement.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TargetError {
    /// The model in this process failed.
    #[error(transparent)]
    Model(#[from] EngineError),
    /// The engine elsewhere failed, or cannot do what is asked.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
}

impl From<Engine> for Target {
    fn from(engine: Engine) -> Self {
        Self::Model(engine)
    }
}

impl Target {
    /// Takes a slot, if one is free.
    pub fn slot(&self) -> Option<TargetSlot> {
        match self {
            Self::Model(engine) => engine.slot().map(TargetSlot::Model),
            Self::Gateway(gateway) => gateway.slot().map(|slot| TargetSlot::Gateway(Box::new(slot))),
        }
    }

    /// Shares the slots of another target from now on, if both are models in this process.
    pub(crate) fn share_slots_of(&mut self, other: &Target) {
        if let (Self::Model(engine), Self::Model(other)) = (self, other) {
            engine.share_slots_of(other);
        }
    }

    /// Metrics of the target and its sessions.
    pub fn metrics(&self) -> &Metrics {
        match self {
            Self::Model(engine) => engine.metrics(),
            Self::Gateway(gateway) => gateway.metrics(),
        }
    }

    /// Policy for drafts of the server's own.
    pub(crate) fn own_draft_policy(&self) -> OwnDraftPolicy {
        match self {
            Self::Model(engine) => engine.own_draft_policy(),
            Self::Gateway(_) => OwnDraftPolicy::Off,
        }
    }

    /// Number of an engine's workers in each state, if the engine streams.
    pub fn workers(&self) -> Option<WorkerCounts> {
        match self {
            Self::Model(_) => None,
            Self::Gateway(gateway) => gateway.workers(),
        }
    }

    /// Load of the target, and its work so far.
    pub fn load(&self) -> Load {
        match self {
            Self::Model(engine) => engine.load(),
            Self::Gateway(gateway) => gateway.load(),
        }
    }
}

impl TargetSlot {
    /// Microseconds of passes of [`PASS_ROWS`] rows; all 0 where they are not known, as those of an engine elsewhere.
    pub(crate) fn pass_micros(&self) -> [u32; PASS_ROWS.len()] {
        match self {
            Self::Model(slot) => slot.engine().pass_micros(),
            Self::Gateway(_) => Default::default(),
        }
    }

    /// Assigns the slot to a client; clients take turns.
    pub(crate) fn of(self, client: IpAddr) -> Self {
        match self {
            Self::Model(slot) => Self::Model(slot.of(client)),
            Self::Gateway(slot) => Self::Gateway(slot),
        }
    }

    /// Returns true if logits can be changed before they are judged.
    pub(crate) fn gives_rows(&self) -> bool {
        matches!(self, Self::Model(slot) if slot.gives_rows())
    }

    /// Prepares the slot for a text that begins as another slot's does.
    pub(crate) fn copying(self, sibling: u64) -> Self {
        match self {
            Self::Model(slot) => Self::Model(slot.copying(sibling)),
            Self::Gateway(slot) => Self::Gateway(slot),
        }
    }

    /// Number of the session in the log, from 1.
    pub fn id(&self) -> u64 {
        match self {
            Self::Model(slot) => slot.id(),
            Self::Gateway(slot) => slot.id(),
        }
    }

    /// Metrics in which the session is counted.
    pub fn metrics(&self) -> &Metrics {
        match self {
            Self::Model(slot) => slot.metrics(),
            Self::Gateway(slot) => slot.metrics(),
        }
    }

    /// Runs a pass and judges its round. At most one at a time.
    ///
    /// # Errors
    /// If there is no judgement; [`TargetError::tell`] ends the generation.
    pub async fn judge(&self, pass: Pass) -> Result<Judgement, TargetError> {
        match self {
            Self::Model(slot) => Ok(slot.judge(pass).await?),
            Self::Gateway(slot) => Ok(slot.judge(pass).await?),
        }
    }

    /// Current prices of guesses, in tokens that other sessions would write meanwhile.
    pub(crate) fn prices(&self) -> Prices {
        match self {
            Self::Model(slot) => slot.engine().prices(),
            // The engine's own workers judge guesses; the comparison here costs no row.
            Self::Gateway(_) => Prices { rows: RowCosts::each(0.0), ..Prices::default() },
        }
    }

    /// Sends guesses that an engine elsewhere may use at once.
    pub(crate) fn offer(&self, offer: &Offer) {
        if let Self::Gateway(slot) = self {
            slot.offer(offer);
        }
    }

    /// Stops an engine elsewhere, whose text is no longer wanted.
    pub(crate) fn rest(&self) {
        if let Self::Gateway(slot) = self {
            slot.rest();
        }
    }

    /// Removes a pass from the queue, since its judgement is no longer wanted.
    pub(crate) fn withdraw(&self) {
        if let Self::Model(slot) = self {
            slot.withdraw();
        }
    }

    /// Reports whether the session has a connection and whether a pass is under way. Without a connection a model reads
    /// no prompt, and an engine elsewhere pauses after the pass.
    pub(crate) fn attend(&self, has_connection: bool, has_pass: bool) {
        match self {
            Self::Model(slot) => slot.attend(has_connection),
            Self::Gateway(slot) if !has_connection && !has_pass => slot.pause(),
            Self::Gateway(_) => {}
        }
    }

    /// Takes a slot at the server's own draft model, if one is free.
    pub(crate) fn drafter(&self) -> Option<Drafter> {
        match self {
            Self::Model(slot) => slot.drafter(),
            Self::Gateway(_) => None,
        }
    }

    /// Checks that passes can be run now: a model runs one, an engine elsewhere is asked for its models. Only for a
    /// slot without a session.
    ///
    /// # Errors
    /// The error that a session would get.
    pub async fn probe(&self) -> Result<(), TargetError> {
        match self {
            Self::Model(slot) => {
                let forward = Forward::new(0, vec![0], 1);
                let sampling = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
                slot.judge(Pass { forward, round: Arc::new(Round::alone(sampling, 0, 1)), left: 1, shaping: None })
                    .await?;
            }
            Self::Gateway(slot) => slot.probe().await?,
        }
        Ok(())
    }
}

impl TargetError {
    /// Ends the generation of the pass, with a message for its edge. Details of the target stay in the log.
    pub fn tell(&self, session: &mut CloudSession) {
        match self {
            Self::Model(EngineError::Logits(error)) => {
                session.handle_failure(&format!("The target model failed: {error}."));
            }
            Self::Model(error @ EngineError::Shaping(_)) => {
                session.handle_refusal(&format!("Generation ends: {error}."));
            }
            Self::Model(error) => session.handle_failure(&format!("The server failed: {error}.")),
            Self::Gateway(error) => match error.told() {
                (ErrorCode::InvalidParameters, text) => session.handle_refusal(&text),
                (_, text) => session.handle_failure(&text),
            },
        }
    }
}
