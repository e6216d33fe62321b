//! Settings that are ignored by request.

use std::sync::{PoisonError, RwLock};

static IGNORED: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// Ignores settings of these names in all files that this process loads from now on, although they are not known and
/// may change the computation. Names are keys of a `config.json`, or whole keys of a GGUF file.
pub fn ignore_settings(keys: &[String]) {
    IGNORED.write().unwrap_or_else(PoisonError::into_inner).extend_from_slice(keys);
}

/// Returns whether a setting is ignored by request.
pub(super) fn is_ignored(key: &str) -> bool {
    IGNORED.read().unwrap_or_else(PoisonError::into_inner).iter().any(|ignored| ignored == key)
}
