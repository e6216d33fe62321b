//! Rights and limits of the key that a request shows, and the headers that report them.

use std::time::Duration;

use axum::{
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    response::Response,
};

use super::error::ApiError;
use crate::keys::{Exceeded, Key, Rate, Right};

/// Paths that write texts.
pub(super) const TEXTS: [&str; 3] = ["/v1/completions", "/v1/chat/completions", "/v1/responses"];

/// Refuses a request that the key has no right to, or for which its limits leave no room. Requests for texts count
/// towards the limits.
pub(super) fn check(key: &Key, generates: bool, path: &str) -> Result<(), ApiError> {
    let rights = match path {
        "/metrics" => &[Right::Metrics][..],
        "/v1/info" | "/v1/usage" => &[Right::Api, Right::Session, Right::Metrics],
        _ => &[Right::Api],
    };
    if !rights.iter().any(|&right| key.has(right)) {
        let text = format!("This key has no right {:?}; the server's operator can add it.", rights[0].name());
        return Err(ApiError::new(StatusCode::FORBIDDEN, "permission_error", text).code("missing_right"));
    }
    if generates { Ok(key.admit_request()?) } else { Ok(()) }
}

/// Adds OpenAI's headers about the limits of the key.
pub(super) fn report(key: &Key, response: &mut Response) {
    let rates = key.rates();
    let headers = response.headers_mut();
    for (rate, names) in [(rates.requests, &REQUESTS), (rates.tokens, &TOKENS)] {
        if let Some(rate) = rate {
            insert(headers, names, rate);
        }
    }
}

/// Headers of a limit, what remains of it, and the time until it is whole.
type Names = [HeaderName; 3];
static REQUESTS: Names = [
    HeaderName::from_static("x-ratelimit-limit-requests"),
    HeaderName::from_static("x-ratelimit-remaining-requests"),
    HeaderName::from_static("x-ratelimit-reset-requests"),
];
static TOKENS: Names = [
    HeaderName::from_static("x-ratelimit-limit-tokens"),
    HeaderName::from_static("x-ratelimit-remaining-tokens"),
    HeaderName::from_static("x-ratelimit-reset-tokens"),
];

/// Names of the headers that [`report`] adds.
pub(super) fn headers() -> impl Iterator<Item = HeaderName> {
    REQUESTS.iter().chain(&TOKENS).cloned()
}

fn insert(headers: &mut HeaderMap, [limit, remaining, reset]: &Names, rate: Rate) {
    headers.insert(limit.clone(), rate.limit.into());
    headers.insert(remaining.clone(), rate.remaining.into());
    if let Ok(time) = HeaderValue::try_from(duration(rate.reset)) {
        headers.insert(reset.clone(), time);
    }
}

/// A time as OpenAI's headers have it, such as `120ms`, `7.66s` and `2m59.56s`.
fn duration(time: Duration) -> String {
    let (minutes, seconds) = (time.as_secs() / 60, time.as_secs_f64() % 60.0);
    match (minutes, time.as_millis()) {
        (0, 0..1000) => format!("{}ms", time.as_millis()),
        (0, _) => format!("{seconds:.2}s"),
        _ => format!("{minutes}m{seconds:.2}s"),
    }
}

impl From<Exceeded> for ApiError {
    fn from(exceeded: Exceeded) -> Self {
        let code = match exceeded {
            Exceeded::Sessions(_) => "too_many_sessions",
            Exceeded::Requests { .. } | Exceeded::Tokens { .. } => "rate_limit_exceeded",
        };
        Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", exceeded.to_string())
            .code(code)
            .retry_after(exceeded.wait())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_openai_writes_them() {
        let of = |milliseconds| duration(Duration::from_millis(milliseconds));
        assert_eq!([of(0), of(120), of(7660), of(179_560)], ["0ms", "120ms", "7.66s", "2m59.56s"]);
    }
}
