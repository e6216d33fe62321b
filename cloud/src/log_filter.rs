//! Filter of the log, which can be replaced while the process runs.

use std::sync::OnceLock;

use tracing_subscriber::{
    EnvFilter, Registry,
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
    let no_filter = || FilterError::Syntax(text.to_owned());
    // An empty text would leave errors only.
    let filter = Some(text.trim()).filter(|text| !text.is_empty()).ok_or_else(no_filter)?;
    let filter = EnvFilter::builder().parse(filter).map_err(|_| no_filter())?;
    FILTER.get().ok_or(FilterError::NoLog)?.reload(filter).map_err(|_| FilterError::NoLog)
}
