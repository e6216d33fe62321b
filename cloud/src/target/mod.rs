//! The target of the sessions: a model in this process, or an engine elsewhere.
//!
//! A session holds a [`Seat`] and asks it for the rows of logits of its passes. A model computes them. An engine elsewhere does not
//! hand them out, and a device keeps them, so the [gateway] and the device decide what becomes of the round and give
//! [rows](crate::target::rows) that leave no other outcome.

pub mod device;
pub mod engine;
pub mod gateway;
pub mod rows;

use outrider_codec::frame::ErrorCode;
use outrider_speculation::{Forward, session::cloud::CloudSession};

use crate::{
    metrics::Metrics,
    target::{
        engine::{Engine, EngineError, Load},
        gateway::{Gateway, GatewayError},
        rows::Rows,
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

/// A session's place at the target. Given up when dropped.
#[derive(Debug)]
pub enum Seat {
    /// A model in this process.
    Model(engine::Seat),
    /// An engine elsewhere.
    Gateway(Box<gateway::Seat>),
}

/// Why a pass gave no rows.
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
    /// Takes a seat, if one is free.
    pub fn seat(&self) -> Option<Seat> {
        match self {
            Self::Model(engine) => engine.seat().map(Seat::Model),
            Self::Gateway(gateway) => gateway.seat().map(|seat| Seat::Gateway(Box::new(seat))),
        }
    }

    /// What is counted of it and its sessions.
    pub fn metrics(&self) -> &Metrics {
        match self {
            Self::Model(engine) => engine.metrics(),
            Self::Gateway(gateway) => gateway.metrics(),
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

impl Seat {
    /// Tells sessions apart in the log: counts from 1.
    pub fn id(&self) -> u64 {
        match self {
            Self::Model(seat) => seat.id(),
            Self::Gateway(seat) => seat.id(),
        }
    }

    /// Where the session is counted.
    pub fn metrics(&self) -> &Metrics {
        match self {
            Self::Model(seat) => seat.metrics(),
            Self::Gateway(seat) => seat.metrics(),
        }
    }

    /// Runs the pass that a session has just asked for. One at a time.
    ///
    /// # Errors
    /// If there are no rows; [`TargetError::tell`] ends the generation.
    pub fn run<'seat>(
        &'seat self,
        forward: Forward,
        session: &CloudSession,
    ) -> impl Future<Output = Result<Rows, TargetError>> + Send + use<'seat> {
        // The CPU needs no more than the pass: q̂ is copied for those who decide.
        let decides = match self {
            Self::Model(seat) => seat.decides(),
            Self::Gateway(_) => true,
        };
        let round = if decides { session.round() } else { None };
        async move {
            match self {
                Self::Model(seat) => Ok(seat.forward(forward, round).await?),
                Self::Gateway(seat) => Ok(Rows::Decided(seat.forward(forward, round).await?)),
            }
        }
    }

    /// Whether passes would be run now: a model runs one, an engine elsewhere is asked for its models. For a seat that no session has.
    ///
    /// # Errors
    /// What a session would meet.
    pub async fn probe(&self) -> Result<(), TargetError> {
        match self {
            Self::Model(seat) => {
                seat.forward(Forward { keep: 0, tokens: vec![0], rows: 1 }, None).await?;
            }
            Self::Gateway(seat) => seat.probe().await?,
        }
        Ok(())
    }
}

impl TargetError {
    /// Ends the generation that the pass was for, with what its edge may know of it. What is behind the server stays in the log.
    pub fn tell(&self, session: &mut CloudSession) {
        match self {
            Self::Model(error) => session.handle_failure(&format!("The server failed: {error}.")),
            Self::Gateway(error) => match error.told() {
                (ErrorCode::InvalidParameters, text) => session.handle_refusal(&text),
                (_, text) => session.handle_failure(&text),
            },
        }
    }
}
