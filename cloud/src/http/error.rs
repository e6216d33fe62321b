//! Errors in OpenAI's format: `{"error": {"message", "type", "param", "code"}}`.

use std::{error::Error, iter, time::Duration};

use axum::{
    Json,
    extract::rejection::BytesRejection,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use outrider_codec::frame::{ErrorCode, ErrorFrame};
use serde_json::{Value, json};
use tower_http::timeout::TimeoutError;

use super::{models::UnknownModel, request_id};
use crate::{keys::seconds, session::Full, sessions::NoSession};

/// Error of the API, with its HTTP status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    status: StatusCode,
    kind: &'static str,
    message: String,
    param: Option<String>,
    code: Option<&'static str>,
    retry_after: u64,
}

/// Seconds after which a client that was refused for lack of capacity may try again.
const RETRY_AFTER: u64 = 5;

impl ApiError {
    /// The sentence for the client.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// An error with this HTTP status; `kind` is the API's `type`.
    pub fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, message: message.into(), param: None, code: None, retry_after: RETRY_AFTER }
    }

    /// An error of the request (status 400).
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    /// An error of the server (status 500).
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", message)
    }

    /// A body that arrives too slowly.
    pub(crate) fn body_timeout() -> Self {
        let text = "The body did not arrive in time.";
        Self::new(StatusCode::REQUEST_TIMEOUT, "invalid_request_error", text).code("body_timeout")
    }

    /// A body in a form that is not decoded.
    pub(crate) fn content_coding(coding: &str) -> Self {
        let text = format!("The body is encoded with {coding}; send it as it is.");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "invalid_request_error", text).code("unsupported_content_coding")
    }

    /// Names the offending parameter `to` if it is `from` now.
    #[must_use]
    pub(crate) fn rename(self, from: &str, to: &str) -> Self {
        if self.param.as_deref() == Some(from) { self.param(to) } else { self }
    }

    /// Adds the name of the offending parameter.
    #[must_use]
    pub fn param(mut self, name: &str) -> Self {
        self.param = Some(name.to_owned());
        self
    }

    /// Adds a stable code for programs.
    #[must_use]
    pub fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Sets the time after which the client may try again.
    pub(super) fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = seconds(wait);
        self
    }

    /// The JSON object of the response.
    pub(crate) fn body(&self) -> Value {
        let Self { kind, message, param, code, .. } = self;
        let mut error = json!({ "message": message, "type": kind, "param": param, "code": code });
        if let Some(id) = request_id::current() {
            error["request_id"] = json!(&*id);
        }
        json!({ "error": error })
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.body())).into_response();
        if matches!(self.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            response.headers_mut().insert(header::RETRY_AFTER, self.retry_after.into());
        }
        response
    }
}

impl From<BytesRejection> for ApiError {
    fn from(rejection: BytesRejection) -> Self {
        match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                let text = "The body is longer than this server takes; its operator can raise --max-body.";
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "invalid_request_error", text).code("body_too_long")
            }
            _ if causes(&rejection).any(<dyn Error>::is::<TimeoutError>) => Self::body_timeout(),
            _ => {
                let cause = causes(&rejection).last().map(ToString::to_string).unwrap_or_default();
                Self::invalid(format!("The body cannot be read: {cause}.")).code("malformed_body")
            }
        }
    }
}

/// An error and the causes of it, the first one last.
fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    iter::successors(Some(error), |&error: &&'e (dyn Error + 'static)| error.source())
}

impl From<Full> for ApiError {
    fn from(full: Full) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", full.to_string()).code("server_full")
    }
}

impl From<UnknownModel> for ApiError {
    fn from(unknown: UnknownModel) -> Self {
        let error = Self::new(StatusCode::NOT_FOUND, "invalid_request_error", unknown.to_string());
        error.param("model").code("model_not_found")
    }
}

impl IntoResponse for UnknownModel {
    fn into_response(self) -> Response {
        ApiError::from(self).into_response()
    }
}

impl From<NoSession> for ApiError {
    fn from(refused: NoSession) -> Self {
        match refused {
            NoSession::Address(_) => Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", refused.to_string())
                .code("too_many_sessions"),
            NoSession::Randomness(_) => Self::internal(refused.to_string()),
        }
    }
}

impl From<ErrorFrame> for ApiError {
    fn from(error: ErrorFrame) -> Self {
        match error.code {
            ErrorCode::InvalidParameters | ErrorCode::PromptTooLong => Self::invalid(error.text),
            ErrorCode::ShuttingDown => {
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", error.text).code("shutting_down")
            }
            _ => Self::internal(error.text),
        }
    }
}

/// Formats an error as a sentence.
pub(crate) fn sentence(error: &impl ToString) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    first + letters.as_str()
}
