//! What the routes share.

use std::time::Duration;

use axum::body::Bytes;
use outrider_speculation::session::cloud::TargetInfo;
use tokio::sync::watch;

use super::{
    access::{Access, Caller},
    places::{Full, NoPlace, Place, Places},
    weights::Weights,
};
use crate::{
    openai::Served,
    session::{Host, Limits},
    sessions::Sessions,
    target::{Target, TargetSlot},
};

/// What the server is made of.
#[derive(Debug, Clone)]
pub struct AppState {
    /// The target.
    pub engine: Target,
    /// What sessions need to know of it.
    pub target: TargetInfo,
    /// Those that can be resumed.
    pub sessions: Sessions,
    /// Bounds on each session.
    pub limits: Limits,
    /// Bounds on each client.
    pub caps: Caps,
    /// Who may use it.
    pub access: Access,
    /// What the API needs besides.
    pub served: Served,
    /// The draft model for browsers.
    pub draft: Weights,
    /// Its tokenizer.
    pub tokenizer_json: Bytes,
    /// Its trained heads, if it has any.
    pub heads_safetensors: Option<Weights>,
    /// Becomes true when the server stops.
    pub stopping: watch::Receiver<bool>,
}

/// What one client may take of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Sessions and API requests at a time from one address; 0 is no limit.
    pub sessions_per_address: usize,
    /// Frames a second from a session, and at once; those that come faster wait. 0 is no limit.
    pub frames_per_second: u32,
    /// Bytes in the body of a request; that much memory each.
    pub body_bytes: usize,
    /// How long the head of a request may take.
    pub header_read: Duration,
    /// How long a pause in the body of a request may be.
    pub body_read: Duration,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            sessions_per_address: 16,
            frames_per_second: 1000,
            body_bytes: 1 << 20,
            header_read: Duration::from_secs(10),
            body_read: Duration::from_secs(10),
        }
    }
}

/// What the routes share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: AppState,
    pub(super) places: Places,
}

impl Shared {
    /// A place among the client's own, for as long as it has a connection.
    pub(crate) fn place(&self, caller: &Caller) -> Result<Place, NoPlace> {
        self.places.take(caller.address)
    }

    /// A slot in the engine.
    pub(crate) async fn slot(&self) -> Result<TargetSlot, Full> {
        self.host(self.state.limits).slot().await.ok_or(Full)
    }

    /// What sessions within these bounds share.
    pub(crate) fn host(&self, limits: Limits) -> Host {
        let AppState { engine, sessions, target, stopping, .. } = self.state.clone();
        Host { engine, sessions, target, limits, stopping }
    }

    /// Bounds on a session of this client.
    pub(crate) fn limits(&self, caller: &Caller) -> Limits {
        let evidence = self.state.access.evidence.allows(caller.relation);
        Limits { evidence: self.state.limits.evidence && evidence, ..self.state.limits }
    }
}
