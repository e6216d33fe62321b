//! The target of the sessions: a model in this process, or an engine elsewhere.
//!
//! A session holds a [`TargetSlot`], hands it [passes](Pass) and gets judgements of their rounds. On the CPU the
//! session's own task judges by rows of logits. A device judges where its logits are, and the [gateway] by what the
//! engine behind it tells.
//!
//! | folder or file | what it is |
//! |---|---|
//! | [`engine`] | the thread that owns a model, its schedule and its memory, wherever the model runs |
//! | [`cpu`] | a model on this processor |
//! | `device` | a model on a GPU, in builds with one |
//! | [`gateway`] | an engine elsewhere |
//! | [`device_name`] | where a model is to run, as an operator says it |

pub mod cpu;
#[cfg(feature = "device")]
mod device;
pub mod device_name;
pub mod engine;
pub mod gateway;

use std::{net::IpAddr, sync::Arc};

use outrider_codec::frame::{ErrorCode, SamplingParameters};
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

/// A session's slot at the target. Given up when dropped.
#[derive(Debug)]
pub enum TargetSlot {
    /// A model in this process.
    Model(ModelSlot),
    /// An engine elsewhere.
    Gateway(Box<GatewaySlot>),
}

/// Why a pass gave no judgement.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TargetError {
    /// The model failed.
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

    /// What is counted of it and its sessions.
    pub fn metrics(&self) -> &Metrics {
        match self {
            Self::Model(engine) => engine.metrics(),
            Self::Gateway(gateway) => gateway.metrics(),
        }
    }

    /// When it drafts itself.
    pub(crate) fn own_draft_policy(&self) -> OwnDraftPolicy {
        match self {
            Self::Model(engine) => engine.own_draft_policy(),
            Self::Gateway(_) => OwnDraftPolicy::Off,
        }
    }

    /// How many workers of an engine take guesses, if it streams.
    pub fn workers(&self) -> Option<WorkerCounts> {
        match self {
            Self::Model(_) => None,
            Self::Gateway(gateway) => gateway.workers(),
        }
    }

    /// How full the target is and what it did.
    pub fn load(&self) -> Load {
        match self {
            Self::Model(engine) => engine.load(),
            Self::Gateway(gateway) => gateway.load(),
        }
    }
}

impl TargetSlot {
    /// This slot as one of this client's: clients take turns.
    pub(crate) fn of(self, client: IpAddr) -> Self {
        match self {
            Self::Model(slot) => Self::Model(slot.of(client)),
            Self::Gateway(slot) => Self::Gateway(slot),
        }
    }

    /// Tells sessions apart in the log: counts from 1.
    pub fn id(&self) -> u64 {
        match self {
            Self::Model(slot) => slot.id(),
            Self::Gateway(slot) => slot.id(),
        }
    }

    /// Where the session is counted.
    pub fn metrics(&self) -> &Metrics {
        match self {
            Self::Model(slot) => slot.metrics(),
            Self::Gateway(slot) => slot.metrics(),
        }
    }

    /// Runs a pass and judges its round. One at a time.
    ///
    /// # Errors
    /// If there is no judgement; [`TargetError::tell`] ends the generation.
    pub async fn judge(&self, pass: Pass) -> Result<Judgement, TargetError> {
        match self {
            Self::Model(slot) => Ok(slot.judge(pass).await?),
            Self::Gateway(slot) => Ok(slot.judge(pass).await?),
        }
    }

    /// What guesses cost the other sessions now.
    pub(crate) fn prices(&self) -> Prices {
        match self {
            Self::Model(slot) => slot.engine().prices(),
            // The engine's own workers judge guesses; what is compared here costs no row.
            Self::Gateway(_) => Prices { rows: RowCosts::each(0.0), own_draft: None },
        }
    }

    /// Hands over guesses that an engine elsewhere may use at once.
    pub(crate) fn offer(&self, offer: &Offer) {
        if let Self::Gateway(slot) = self {
            slot.offer(offer);
        }
    }

    /// Stops an engine elsewhere, whose text is not wanted any more.
    pub(crate) fn rest(&self) {
        if let Self::Gateway(slot) = self {
            slot.rest();
        }
    }

    /// Takes a pass that was asked for out of the queue: its judgement is not wanted any more.
    pub(crate) fn withdraw(&self) {
        if let Self::Model(slot) = self {
            slot.withdraw();
        }
    }

    /// Says whether the session has a connection, and whether a pass is under way. Without a connection a model reads
    /// no prompt, and an engine elsewhere pauses after the pass.
    pub(crate) fn attend(&self, has_connection: bool, has_pass: bool) {
        match self {
            Self::Model(slot) => slot.attend(has_connection),
            Self::Gateway(slot) if !has_connection && !has_pass => slot.pause(),
            Self::Gateway(_) => {}
        }
    }

    /// A slot at the server's own draft model, if it has one to give.
    pub(crate) fn drafter(&self) -> Option<Drafter> {
        match self {
            Self::Model(slot) => slot.drafter(),
            Self::Gateway(_) => None,
        }
    }

    /// Whether passes would be run now: a model runs one, an engine elsewhere is asked for its models. For a slot that
    /// no session has.
    ///
    /// # Errors
    /// What a session would meet.
    pub async fn probe(&self) -> Result<(), TargetError> {
        match self {
            Self::Model(slot) => {
                let forward = Forward::new(0, vec![0], 1);
                let sampling = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
                slot.judge(Pass { forward, round: Arc::new(Round::alone(sampling, 0, 1)), left: 1 }).await?;
            }
            Self::Gateway(slot) => slot.probe().await?,
        }
        Ok(())
    }
}

impl TargetError {
    /// Ends the generation that the pass was for, with what its edge may know of it. What is behind the server stays in
    /// the log.
    pub fn tell(&self, session: &mut CloudSession) {
        match self {
            Self::Model(EngineError::Logits(error)) => {
                session.handle_failure(&format!("The target model failed: {error}."));
            }
            Self::Model(error) => session.handle_failure(&format!("The server failed: {error}.")),
            Self::Gateway(error) => match error.told() {
                (ErrorCode::InvalidParameters, text) => session.handle_refusal(&text),
                (_, text) => session.handle_failure(&text),
            },
        }
    }
}
