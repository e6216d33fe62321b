//! The axum routes.
//!
//! What caches may do with each is in docs/deploying.md.
//!
//! | route | what | origins | token |
//! |---|---|---|---|
//! | `/` | the page (a folder) | | |
//! | `/pair/draft`, `/pair/tokenizer.json` | the draft model for the browser | checked | |
//! | `/pair/heads.safetensors` | its trained heads, if it has any | checked | |
//! | `/pair/chat.json` | how the target is spoken to: its chat template, if it has one | checked | |
//! | `/session` | the WebSocket | checked | wanted |
//! | `/v1/models`, `/v1/completions`, `/v1/chat/completions` | the target alone, as OpenAI's API ([`crate::openai`]) | checked | wanted |
//! | `/v1/info` | what this server is and allows, as JSON | checked | wanted |
//! | `/metrics` | what is counted, for Prometheus | checked | wanted |
//! | `/healthz` | that the process lives, and how full the engine is | | |
//! | `/readyz` | whether a new session would be served: 200 or 503 | | |
//!
//! "Checked": a browser's request from another site than the server's own is refused unless [`Access`] lists it.
//! "Wanted": if there are tokens at all.

use std::{path::PathBuf, sync::Arc};

use axum::{
    Router,
    extract::{DefaultBodyLimit, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode},
    middleware,
    response::{IntoResponse, Response},
    routing::get,
};
use tower_http::{
    CompressionLevel, compression::CompressionLayer, set_header::SetResponseHeaderLayer,
    timeout::RequestBodyTimeoutLayer,
};

use crate::{
    http::{Shared, admission},
    openai,
};

mod listen;
mod page;
mod probes;
mod socket;
pub mod tls;

pub use self::listen::{Connections, serve};
pub use crate::http::{
    Access, AppState, Caps, EvidencePolicy, Origin, OriginError, Origins, PairFile, Proxies, Tokens, TokensError,
};

/// The routes; `page` is the folder of the built page.
pub fn app(state: AppState, page: PathBuf) -> Router {
    let shared = Arc::new(Shared::new(state));
    let Shared { state: AppState { access, caps, .. }, .. } = &*shared;
    // An isolated page may share memory among its workers, which drafting with threads needs. It may load what says
    // that it may be loaded: the page's own files from here, the model from anywhere that lists the page's origin.
    let header = |name: &'static str, value| {
        SetResponseHeaderLayer::if_not_present(HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    let others = if access.origins.are_same_only() { "same-origin" } else { "cross-origin" };
    let admit = || middleware::from_fn_with_state(Arc::clone(&shared), admission::admit);

    let model = Router::new()
        .route("/pair/draft", get(draft))
        .route("/pair/tokenizer.json", get(tokenizer_json))
        .route("/pair/heads.safetensors", get(heads_safetensors))
        .route("/pair/chat.json", get(chat_json))
        .layer(header("cross-origin-resource-policy", others));
    let api = openai::routes()
        .route("/v1/info", get(probes::info))
        .route("/metrics", get(probes::metrics))
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), admission::demand_token))
        .layer(RequestBodyTimeoutLayer::new(caps.body_read))
        .layer(DefaultBodyLimit::max(caps.body_bytes))
        // These alone are compressed while they are sent, at the level that takes the least time of a worker.
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest))
        .layer(header("cache-control", "no-store"));
    let probes = Router::new()
        .route("/healthz", get(probes::health))
        .route("/readyz", get(probes::ready))
        .layer(header("cache-control", "no-store"));
    Router::new()
        .merge(model)
        .merge(api)
        .layer(admit())
        // Outside of `admit`: a browser asks before it sends what it may not, and shows no token yet.
        .layer(access.origins.cors())
        .merge(probes)
        .fallback_service(page::routes::<()>(page))
        // Revalidate: the page and the model behind an address change with the server.
        .layer(header("cache-control", "no-cache"))
        .layer(header("x-content-type-options", "nosniff"))
        .layer(header("cross-origin-opener-policy", "same-origin"))
        .layer(header("cross-origin-embedder-policy", "require-corp"))
        .layer(header("cross-origin-resource-policy", "same-origin"))
        // After the layers: none of them is for an upgraded connection.
        .route("/session", get(socket::upgrade).layer(admit()))
        .with_state(shared)
}

async fn draft(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    shared.state.draft.answer(&headers)
}

async fn tokenizer_json(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    shared.state.tokenizer_json.answer(&headers)
}

async fn chat_json(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    shared.chat_json.answer(&headers)
}

async fn heads_safetensors(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    match &shared.state.heads_safetensors {
        Some(heads) => heads.answer(&headers),
        None => (StatusCode::NOT_FOUND, "The draft model has no trained heads.\n").into_response(),
    }
}
