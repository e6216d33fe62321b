//! Routes of the axum server.
//!
//! Rules for caches of each route are in docs/deploying.md.
//!
//! | route | what | origins | token |
//! |---|---|---|---|
//! | `/` | the page (a folder) | | |
//! | `/pair/draft`, `/pair/tokenizer.json` | the draft model for the browser | checked | |
//! | `/pair/heads.safetensors` | its trained heads, if it has any | checked | |
//! | `/pair/chat.json` | the target's chat template, if it has one | checked | |
//! | `/session` | the WebSocket | checked | wanted |
//! | `/v1/models`, `/v1/completions`, `/v1/chat/completions`, `/v1/responses` | the target alone, as OpenAI's API ([`crate::openai`]) | checked | wanted |
//! | `/v1/info` | version, models, schemes, rules and limits of this server, as JSON | checked | wanted |
//! | `/v1/usage` | requests and tokens of the request's key, as JSON | checked | wanted |
//! | `/metrics` | metrics for Prometheus | checked | wanted |
//! | `/healthz` | liveness, and the load of the engine | | |
//! | `/readyz` | readiness for a new session: 200 or 503 | | |
//!
//! With [`with_admin`], `/metrics`, `/healthz` and `/readyz` are on a port of their own, with `/log-level`.
//!
//! `?model=NAME` selects the model of `/pair/…`, `/session` and `/v1/info`; without it, that is the first one.
//!
//! "Checked": a browser's request from another site than the server's own is refused unless [`Access`] lists it.
//! "Wanted": a bearer token is required if the server has any.

use std::{path::PathBuf, sync::Arc};

use axum::{
    Router,
    extract::DefaultBodyLimit,
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
    http::{AddressedModel, Shared, access_log, admission, host},
    openai,
};

mod listen;
mod log_level;
mod page;
mod probes;
mod socket;
pub mod tls;
mod usage;

pub use self::listen::{Connections, serve};
pub use crate::http::{
    Access, AppState, Caps, EvidencePolicy, Origin, OriginError, Origins, PairFile, Proxies, Tokens, TokensError,
};

/// Builds the router; `page` is the folder of the built page.
pub fn app(state: AppState, page: PathBuf) -> Router {
    public(share(state), metrics(), probes(), page)
}

/// Builds the router without metrics and probes, and a router of the admin port, which has these and the log's level.
/// The admin port requires no token: only the operator's own network should reach it.
pub fn with_admin(state: AppState, page: PathBuf) -> (Router, Router) {
    let shared = share(state);
    let admin = metrics().merge(probes()).route("/log-level", get(log_level::get).put(log_level::put));
    (public(Arc::clone(&shared), Router::new(), Router::new(), page), admin.with_state(shared))
}

fn share(state: AppState) -> Arc<Shared> {
    if let Some(keys) = &state.access.keys {
        state.models.first().engine.metrics().export_usage(keys.clone());
    }
    Arc::new(Shared::new(state))
}

fn metrics() -> Router<Arc<Shared>> {
    Router::new().route("/metrics", get(probes::metrics))
}

fn probes() -> Router<Arc<Shared>> {
    Router::new().route("/healthz", get(probes::health)).route("/readyz", get(probes::ready))
}

/// Router of the public port. `metrics` requires a token, and `probes` do not.
fn public(shared: Arc<Shared>, metrics: Router<Arc<Shared>>, probes: Router<Arc<Shared>>, page: PathBuf) -> Router {
    let Shared { state: AppState { access, caps, .. }, .. } = &*shared;
    // A cross-origin isolated page may share memory among its workers, which drafting with threads needs. It may only
    // load resources with a matching Cross-Origin-Resource-Policy: its own files are same-origin, and the model is
    // cross-origin if the server lists other origins.
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
        .route("/v1/usage", get(usage::usage))
        .merge(metrics)
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), admission::demand_token))
        .layer(RequestBodyTimeoutLayer::new(caps.body_read))
        .layer(DefaultBodyLimit::max(caps.body_bytes))
        // Only these routes are compressed on the fly, at the level that takes the least processor time.
        .layer(CompressionLayer::new().quality(CompressionLevel::Fastest))
        .layer(header("cache-control", "no-store"));
    Router::new()
        .merge(model)
        .merge(api)
        .layer(admit())
        // Outside of `admit`: a browser's preflight request carries no token.
        .layer(access.origins.cors())
        // Pages that the server refuses learn from the probes that it is there, and so that it has refused them.
        .merge(
            probes
                .layer(header("cross-origin-resource-policy", "cross-origin"))
                .layer(header("cache-control", "no-store")),
        )
        .fallback_service(page::routes::<()>(page, access.identify(None).is_ok()))
        // Caches must revalidate: the page and the model at an address change with the server.
        .layer(header("cache-control", "no-cache"))
        .layer(header("x-content-type-options", "nosniff"))
        .layer(header("cross-origin-opener-policy", "same-origin"))
        .layer(header("cross-origin-embedder-policy", "require-corp"))
        .layer(header("cross-origin-resource-policy", "same-origin"))
        // After the layers: they do not apply to an upgraded connection.
        .route("/session", get(socket::upgrade).layer(admit()))
        .layer(middleware::from_fn(host::check))
        .layer(middleware::from_fn_with_state(Arc::clone(&shared), access_log::observe))
        .with_state(shared)
}

async fn draft(AddressedModel(model): AddressedModel, headers: HeaderMap) -> Response {
    match &model.draft {
        Some(draft) => draft.answer(&headers),
        // Not 404, which a proxy may answer by mistake: pages look guesses up then.
        None => (StatusCode::GONE, "This model has no draft model.\n").into_response(),
    }
}

async fn tokenizer_json(AddressedModel(model): AddressedModel, headers: HeaderMap) -> Response {
    model.tokenizer_json.answer(&headers)
}

async fn chat_json(AddressedModel(model): AddressedModel, headers: HeaderMap) -> Response {
    model.chat_json.answer(&headers)
}

async fn heads_safetensors(AddressedModel(model): AddressedModel, headers: HeaderMap) -> Response {
    match &model.heads_safetensors {
        Some(heads) => heads.answer(&headers),
        None => (StatusCode::NOT_FOUND, "The draft model has no trained heads.\n").into_response(),
    }
}
