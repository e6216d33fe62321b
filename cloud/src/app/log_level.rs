//! Level of the log on the admin port: `/log-level`.

use axum::{Json, http::StatusCode};
use serde_json::{Value, json};

use crate::{
    http::{ApiError, sentence},
    log_filter::{self, FilterError},
};

/// The filter of the log, as RUST_LOG has it.
pub(super) async fn get() -> Result<Json<Value>, ApiError> {
    log_filter::get().map(|filter| Json(json!({ "filter": filter }))).ok_or_else(|| refused(&FilterError::NoLog))
}

/// Sets the filter until the process ends, and returns it.
pub(super) async fn put(filter: String) -> Result<Json<Value>, ApiError> {
    log_filter::set(&filter).map_err(|error| refused(&error))?;
    tracing::info!(filter, "the log's filter was set");
    get().await
}

fn refused(error: &FilterError) -> ApiError {
    match error {
        FilterError::Syntax(_) => ApiError::invalid(sentence(error) + ".").code("invalid_filter"),
        FilterError::NoLog => ApiError::new(StatusCode::NOT_FOUND, "invalid_request_error", sentence(error) + "."),
    }
}
