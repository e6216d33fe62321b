//! Request ids, and one line of the log and one count in the metrics for each request.
//!
//! The id of a request is the client's `x-request-id`, or a random one. It is in the response's header, in errors, and
//! in a span around everything that the log says about the request and its sessions.

use std::{sync::Arc, time::Instant};

use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderValue},
    middleware::Next,
    response::Response,
};
use tracing::{Instrument, field};

use super::{admission::client_address, request_id, state::Shared};
use crate::log_limits::client_event;

/// Longest id that is taken from a client, in characters.
const LONGEST_ID: usize = 64;
/// Characters of a path that the log shows.
const SHOWN_PATH: usize = 256;

/// Gives the request its id, and logs its response.
pub(crate) async fn observe(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let address = client_address(&shared, &request);
    let id = of_client(request.headers()).unwrap_or_else(random);
    let method = request.method().clone();
    // Without the query, which may hold a secret.
    let path: String = request.uri().path().chars().take(SHOWN_PATH).collect();
    let span = tracing::info_span!("request", id = &*id, key = field::Empty);
    #[cfg(feature = "otel")]
    crate::otel::adopt(&span, request.headers());
    let route = request.extensions().get::<MatchedPath>().map_or("page", MatchedPath::as_str).to_owned();
    let begin = Instant::now();
    let answer = async {
        let mut response = request_id::SCOPE.scope(Arc::clone(&id), next.run(request)).await;
        let (status, ms) = (response.status().as_u16(), begin.elapsed().as_millis() as u64);
        shared.state.models.first().engine.metrics().answered(&route, status);
        client_event!(INFO, address, "request", %address, %method, path, status, ms);
        if let Ok(id) = HeaderValue::from_str(&id) {
            response.headers_mut().insert(request_id::HEADER.clone(), id);
        }
        response
    };
    answer.instrument(span).await
}

/// Id that the client gave, if it is short and has nothing but letters, digits, `-`, `_` and `.`.
fn of_client(headers: &HeaderMap) -> Option<Arc<str>> {
    let id = headers.get(&request_id::HEADER)?.to_str().ok()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    ((1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(is_plain)).then(|| id.into())
}

fn random() -> Arc<str> {
    // Without randomness, which only the request's ticket would need, ids are not unique.
    format!("{:016x}", getrandom::u64().unwrap_or_default()).into()
}
