//! State shared by all routes.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use tokio::sync::{Mutex, watch};

use super::{
    access::{Access, Caller},
    models::Models,
    served::{Elsewhere, Served},
};
use crate::{
    address_limits::{AddressLimits, AddressPermit},
    session::{Full, Host, Limits},
    sessions::Sessions,
    target::TargetSlot,
};

/// Settings and handles of a server.
#[derive(Debug, Clone)]
pub struct AppState {
    /// Models, by their names.
    pub models: Models,
    /// Other servers, with other models, to which the page links.
    pub elsewhere: Vec<Elsewhere>,
    /// Open sessions, with their limit per address.
    pub sessions: Sessions,
    /// Time limits and permissions of each session.
    pub limits: Limits,
    /// Limits on each client.
    pub caps: Caps,
    /// Origins, tokens and proxies that are allowed.
    pub access: Access,
    /// Becomes true when the server is about to stop: it serves as usual, but is not ready for more.
    pub draining: watch::Receiver<bool>,
    /// Becomes true when the server stops; sessions end at once.
    pub stopping: watch::Receiver<bool>,
    /// Becomes true when the grace period for responses of the API is over.
    pub closing: watch::Receiver<bool>,
}

impl AppState {
    /// State of a server that is about to end, as the probes name it.
    pub(crate) fn leaving(&self) -> Option<&'static str> {
        match (*self.stopping.borrow(), *self.draining.borrow()) {
            (true, _) => Some("stopping"),
            (false, true) => Some("draining"),
            (false, false) => None,
        }
    }
}

/// Limits on what one client may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Sessions (also detached ones) and API requests at a time from one address; 0 is no limit.
    pub sessions_per_address: usize,
    /// Connections at a time from one address that have not become sessions; 0 is no limit.
    pub connections_per_address: usize,
    /// Frames per second from a session, and frames in a burst; faster ones wait. 0 is no limit.
    pub frames_per_second: u32,
    /// Limit on the body of a request, in bytes; each request may take this much memory.
    pub body_bytes: usize,
    /// Time limit for the head of a request.
    pub header_read: Duration,
    /// Longest pause in the body of a request; the whole body may take six times as long.
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
    /// Counts of connections for sessions that have not said Hello.
    pub(crate) newcomers: AddressLimits,
    /// Counts of the additional choices of API requests, after the first choice of each.
    pub(crate) choices: AddressLimits,
    /// Time and result of the last probe of the engines.
    pub(crate) probed: Mutex<Option<(Instant, &'static str)>>,
}

impl Shared {
    pub(crate) fn new(state: AppState) -> Self {
        let newcomers = AddressLimits::new(state.caps.connections_per_address);
        let choices = AddressLimits::new(state.caps.sessions_per_address);
        Self { state, newcomers, choices, probed: Mutex::default() }
    }

    /// Takes a slot of a model for a client.
    pub(crate) async fn slot(&self, model: &Served, client: IpAddr) -> Result<TargetSlot, Full> {
        self.host(model, self.state.limits).slot(client).await
    }

    /// Takes a slot for one more choice of a request, as long as at most half of the slots are taken.
    pub(crate) fn slot_for_choice(&self, model: &Served, client: IpAddr) -> Option<(AddressPermit, TargetSlot)> {
        let load = model.engine.load();
        let permit = self.choices.take(client).filter(|_| load.sessions * 2 <= load.session_limit)?;
        Some((permit, model.engine.slot()?.of(client)))
    }

    /// Parts of the server that the sessions of a model share, with these limits for a session.
    pub(crate) fn host(&self, model: &Served, limits: Limits) -> Host {
        let (name, engine, target) = (model.name.clone(), model.engine.clone(), model.target.clone());
        let (sessions, stopping) = (self.state.sessions.clone(), self.state.stopping.clone());
        Host { model: name, engine, sessions, target, limits, shaper: None, key: None, stopping }
    }

    /// Time limits and permissions of a session of this client.
    pub(crate) fn limits(&self, caller: &Caller) -> Limits {
        let evidence = self.state.access.evidence.allows(caller.relation);
        Limits { evidence: self.state.limits.evidence && evidence, ..self.state.limits }
    }
}
