//! Typed access to the settings of a `config.json`.
//!
//! Settings that were never read are rejected by name unless they are known to have no effect, say nothing, or are
//! [ignored by request](super::ignored). Otherwise a setting introduced later would be ignored, and the logits would be
//! silently wrong.

use std::{cell::RefCell, collections::BTreeSet};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{ignored::is_ignored, inert::is_inert};
use crate::error::{LoadError, invalid};

/// Settings of a `config.json`, with the record of those read.
pub(super) struct Keys {
    values: Map<String, Value>,
    /// Synonyms of the family: our name, which is Llama's, and the family's own.
    synonyms: &'static [(&'static str, &'static str)],
    read: RefCell<BTreeSet<String>>,
}

impl Keys {
    pub(super) fn new(json: &[u8]) -> Result<Self, LoadError> {
        Ok(Self::of(serde_json::from_slice(json)?))
    }

    pub(super) fn of(values: Map<String, Value>) -> Self {
        Self { values, synonyms: &[], read: RefCell::default() }
    }

    pub(super) fn with_synonyms(self, synonyms: &'static [(&'static str, &'static str)]) -> Self {
        Self { synonyms, ..self }
    }

    /// Value of a setting, if present and not null.
    pub(super) fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, LoadError> {
        let own = self.own(key);
        self.read.borrow_mut().insert(own.to_owned());
        let Some(value) = self.values.get(own) else { return Ok(None) };
        serde_json::from_value(value.clone()).map_err(|_| invalid(own, value, "a value of another type"))
    }

    /// Returns whether a setting is present and null.
    pub(super) fn is_null(&self, key: &str) -> bool {
        self.values.get(self.own(key)).is_some_and(Value::is_null)
    }

    /// Name of a setting in this family.
    fn own<'k>(&self, key: &'k str) -> &'k str {
        self.synonyms.iter().find(|(ours, _)| *ours == key).map_or(key, |(_, own)| own)
    }

    /// Value of a required setting.
    pub(super) fn required<T: DeserializeOwned>(&self, key: &str) -> Result<T, LoadError> {
        self.get(key)?.ok_or_else(|| LoadError::MissingSetting { key: self.own(key).to_owned() })
    }

    /// Value of a boolean setting; false if absent.
    pub(super) fn flag(&self, key: &str) -> Result<bool, LoadError> {
        Ok(self.get(key)?.unwrap_or(false))
    }

    /// Rejects a setting unless it is absent or one of `computed`.
    pub(super) fn only(&self, key: &'static str, computed: &[Value]) -> Result<(), LoadError> {
        match self.get::<Value>(key)? {
            Some(found) if !computed.contains(&found) => Err(unsupported(key, &found)),
            _ => Ok(()),
        }
    }

    /// Rejects settings that were never read.
    pub(super) fn refuse_rest(&self) -> Result<(), LoadError> {
        let read = self.read.borrow();
        let mut rest = self.values.iter().filter(|(key, _)| !read.contains(*key));
        match rest.find(|(key, value)| !is_inert(key, value) && !is_ignored(key)) {
            None => Ok(()),
            Some((key, value)) => Err(LoadError::UnknownSetting { key: key.clone(), found: value.to_string() }),
        }
    }
}

pub(super) fn unsupported(what: &'static str, found: &Value) -> LoadError {
    let found = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
    LoadError::Unsupported { what, found }
}
