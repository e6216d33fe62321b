//! Handle on an engine elsewhere.

use std::sync::{Arc, atomic::Ordering};

use super::{guesses::WorkerCounts, shared::Shared, slot::GatewaySlot};
use crate::{metrics::Metrics, target::engine::Load};

/// A handle on an engine elsewhere; clones share it.
#[derive(Debug, Clone)]
pub struct Gateway(pub(super) Arc<Shared>);

impl Gateway {
    /// Name of the model at the engine.
    pub fn model(&self) -> &str {
        &self.0.client.model
    }

    /// Takes a slot, if one is free.
    pub fn slot(&self) -> Option<GatewaySlot> {
        let more = |taken: usize| (taken < self.0.slots).then_some(taken + 1);
        self.0.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        self.0.metrics.sessions.connected.inc();
        self.0.metrics.sessions.opened.inc();
        Some(GatewaySlot::new(Arc::clone(&self.0), self.0.next_slot.fetch_add(1, Ordering::Relaxed) + 1))
    }

    /// Number of the engine's workers in each state, if the engine streams.
    pub fn workers(&self) -> Option<WorkerCounts> {
        self.0.streaming.as_ref().map(|streaming| streaming.workers.counts())
    }

    /// Metrics of the gateway's sessions, with the number of the engine's passes.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Load of the gateway so far. Its runs are the requests that the engine answered.
    pub fn load(&self) -> Load {
        Load {
            sessions: self.0.taken.load(Ordering::Acquire),
            session_limit: self.0.slots,
            parked: 0,
            kv_bytes: 0,
            kv_limit_bytes: 0,
            passes: self.0.metrics.engine.passes.get(),
            runs: self.0.client.answered(),
        }
    }
}
