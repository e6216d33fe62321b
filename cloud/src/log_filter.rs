//! Filter of the log, which can be replaced while the process runs.

use std::{env, sync::OnceLock};

use tracing_subscriber::{
    EnvFilter, Registry,
    filter::LevelFilter,
    reload::{self, Handle},
};

/// Filter of this process, which has one log.
static FILTER: OnceLock<Handle<EnvFilter, Registry>> = OnceLock::new();

/// Error of a filter that cannot be set.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FilterError {
    #[error("{0:?} is no filter, such as info, debug or info,outrider_cloud=debug")]
    Syntax(String),
    #[error("this process has no log whose filter could be set")]
    NoLog,
}

/// The filter in RUST_LOG; `None` where it is absent or empty.
pub(crate) fn of_environment() -> Option<Result<EnvFilter, FilterError>> {
    let text = env::var(EnvFilter::DEFAULT_ENV).ok().filter(|text| !text.trim().is_empty())?;
    Some(read(&text))
}

/// Reads a filter as RUST_LOG has it. A word that is neither a level nor `target=level` would silence everything else,
/// so it is refused.
fn read(text: &str) -> Result<EnvFilter, FilterError> {
    let no_filter = || FilterError::Syntax(text.to_owned());
    let is_misspelt = |part: &str| {
        // An empty word would be the level `error`.
        !part.contains(['=', '[', ']']) && (part.is_empty() || part.parse::<LevelFilter>().is_err())
    };
    if text.split(',').any(is_misspelt) {
        return Err(no_filter());
    }
    EnvFilter::builder().parse(text.trim()).map_err(|_| no_filter())
}

/// Layer with a filter that [`set`] can replace.
pub(crate) fn layer(filter: EnvFilter) -> reload::Layer<EnvFilter, Registry> {
    let (layer, handle) = reload::Layer::new(filter);
    // A process starts its log once.
    let _ = FILTER.set(handle);
    layer
}

/// The current filter, as RUST_LOG has it; `None` without a log.
pub(crate) fn get() -> Option<String> {
    FILTER.get()?.with_current(ToString::to_string).ok()
}

/// Replaces the filter.
///
/// # Errors
/// [`FilterError`]; the filter stays as it is.
pub(crate) fn set(text: &str) -> Result<(), FilterError> {
    let filter = read(text)?;
    FILTER.get().ok_or(FilterError::NoLog)?.reload(filter).map_err(|_| FilterError::NoLog)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_level_is_refused() {
        for text in ["info", "INFO", "warn,outrider_cloud=debug", "outrider_cloud=trace", "off"] {
            assert!(read(text).is_ok(), "{text}");
        }
        for text in ["", " ", "inof", "notalevel", "info,hyper", "a=b=c", "hyper=lots", "info,"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
