//! Models of a server, found by name.

use std::sync::Arc;

use super::served::Served;
use crate::{metrics::Metrics, target::engine::Load};

/// Bytes of an unknown name that its error shows.
const SHOWN_NAME: usize = 64;

/// Models of a server, each under a name of its own. They share the slots for sessions; each has a thread and KV caches
/// of its own.
#[derive(Debug, Clone)]
pub struct Models {
    /// Model of requests that name none.
    first: Arc<Served>,
    others: Vec<Arc<Served>>,
}

/// Error of a name that no model of the server has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("There is no model {name:?} here; this server has {}.", quoted(.known))]
pub(crate) struct UnknownModel {
    /// Name that was asked for, shortened.
    name: String,
    /// Names of the server's models.
    known: Vec<String>,
}

impl From<Served> for Models {
    fn from(only: Served) -> Self {
        Self::new(only, Vec::new())
    }
}

impl Models {
    /// Models with different names; the first one is that of requests that name none. Its slots become those of all.
    pub fn new(first: Served, others: Vec<Served>) -> Self {
        let sharing = |mut other: Served| {
            other.engine.share_slots_of(&first.engine);
            Arc::new(other)
        };
        let others = others.into_iter().map(sharing).collect();
        Self { first: Arc::new(first), others }
    }

    /// Model of requests that name none.
    pub fn first(&self) -> &Arc<Served> {
        &self.first
    }

    /// All models, the first one first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Served>> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Model with this name, or the first one without a name.
    pub(crate) fn find(&self, name: Option<&str>) -> Result<&Arc<Served>, UnknownModel> {
        let Some(name) = name else { return Ok(&self.first) };
        self.all().find(|model| model.name == name).ok_or_else(|| UnknownModel {
            name: name[..name.floor_char_boundary(SHOWN_NAME)].to_owned(),
            known: self.all().map(|model| model.name.clone()).collect(),
        })
    }

    /// Longest context of a model, in tokens.
    pub(crate) fn longest_context(&self) -> usize {
        self.all().map(|model| model.target.limits.context_length as usize).max().unwrap_or_default()
    }

    /// Load of the server: the slots that all models share, and the sums of their work.
    pub(crate) fn load(&self) -> Load {
        let others = self.others.iter().map(|model| model.engine.load());
        others.fold(self.first.engine.load(), Load::and)
    }

    /// Encodes the metrics as text, those of several models with the name of each as a label.
    pub(crate) fn metrics_text(&self) -> String {
        let metrics: Vec<_> = self.all().map(|model| (&*model.name, model.engine.metrics())).collect();
        Metrics::text_of(&metrics)
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}
