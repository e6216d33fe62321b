//! Version of the program, and the commit that it is built from.

/// Version as `--version` shows it, with the commit if that is known.
pub(crate) const SHOWN: &str = env!("OUTRIDER_VERSION");

/// First digits of the commit that the program is built from; `None` in a build without git and `OUTRIDER_COMMIT`.
pub(crate) fn commit() -> Option<&'static str> {
    Some(env!("OUTRIDER_COMMIT")).filter(|commit| !commit.is_empty())
}
