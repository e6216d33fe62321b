//! Version of the program, and the commit that it is built from.

use std::sync::LazyLock;

/// Commit that the program is built from; `None` if `OUTRIDER_COMMIT` was not set in the build's environment.
const COMMIT: Option<&str> = option_env!("OUTRIDER_COMMIT");

/// Version as `--version` shows it, with the commit if that is known.
pub(crate) static SHOWN: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    commit().map_or_else(|| version.to_owned(), |commit| format!("{version} ({commit})"))
});

/// First digits of the commit that the program is built from, if that is known.
pub(crate) fn commit() -> Option<&'static str> {
    COMMIT.filter(|commit| !commit.is_empty()).map(|commit| commit.get(..12).unwrap_or(commit))
}
