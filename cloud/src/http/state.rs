//! State shared by all routes.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use outrider_speculation::session::cloud::TargetInfo;
use tokio::sync::{Mutex, watch};

use super::{
    access::{Access, Caller},
    pair_file::PairFile,
    served::Served,
};
use crate::{
    address_limits::{AddressLimits, AddressPermit},
    session::{Full, Host, Limits},
    sessions::Sessions,
    target::{Target, TargetSlot},
};

/// Settings and handles of a server.
#[derive(Debug, Clone)]
pub struct AppState {
    /// The target.
    pub engine: Target,
    /// What sessions need to know of it.
    pub target: TargetInfo,
    /// The sessions, and as many as each address may have.
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
    pub draft: PairFile,
    /// Its tokenizer.
    pub tokenizer_json: PairFile,
    /// Its trained heads, if it has any.
    pub heads_safetensors: Option<PairFile>,
    /// Becomes true when the server stops: for sessions at once.
    pub stopping: watch::Receiver<bool>,
    /// Becomes true when answers of the API have had their time to end, too.
    pub closing: watch::Receiver<bool>,
}

/// What one client may take of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Sessions, those without a connection too, and API requests at a time from one address; 0 is no limit.
    pub sessions_per_address: usize,
    /// Connections at a time from one address that have not become sessions; 0 is no limit.
    pub connections_per_address: usize,
    /// Frames a second from a session, and at once; those that come faster wait. 0 is no limit.
    pub frames_per_second: u32,
    /// Bytes in the body of a request; that much memory each.
    pub body_bytes: usize,
    /// How long the head of a request may take.
    pub header_read: Duration,
    /// How long a pause in the body of a request may be; all of it may take six times as long.
    pub body_read: Duration,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            sessions_per_address: 16,
            connections_per_address: 128,
            frames_per_second: 1000,
            body_bytes: 1 << 20,
            header_read: Duration::from_secs(10),
            body_read: Duration::from_secs(10),
        }
    }
}

/// State shared by all routes.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) state: AppState,
    /// How the target is spoken to.
    pub(crate) chat_json: PairFile,
    /// Connections for sessions that have not said Hello.
    pub(crate) newcomers: AddressLimits,
    /// Choices of API requests beside the first one of each request.
    pub(crate) choices: AddressLimits,
    /// When the engine was last asked whether it runs, and what came of it.
    pub(crate) probed: Mutex<Option<(Instant, &'static str)>>,
}

impl Shared {
    pub(crate) fn new(state: AppState) -> Self {
        let newcomers = AddressLimits::new(state.caps.connections_per_address);
        let choices = AddressLimits::new(state.caps.sessions_per_address);
        // Texts and nothing else: they have a form in JSON.
        let chat = serde_json::to_vec(state.served.template.source()).unwrap_or_default();
        Self { state, chat_json: PairFile::json(chat), newcomers, choices, probed: Mutex::default() }
    }

    /// A slot in the engine for a client.
    pub(crate) async fn slot(&self, client: IpAddr) -> Result<TargetSlot, Full> {
        self.host(self.state.limits).slot(client).await
    }

    /// A slot for one more choice of a request that has one, while at least half of the slots are free.
    pub(crate) fn slot_for_choice(&self, client: IpAddr) -> Option<(AddressPermit, TargetSlot)> {
        let engine = &self.state.engine;
        let load = engine.load();
        let permit = self.choices.take(client).filter(|_| load.sessions * 2 <= load.session_limit)?;
        Some((permit, engine.slot()?.of(client)))
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
