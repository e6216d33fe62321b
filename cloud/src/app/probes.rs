//! Liveness, readiness and description of the server: `/healthz`, `/readyz`, `/metrics` and `/v1/info`.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
};
use futures_util::future;
use outrider_codec::{
    choice::Choice,
    frame::{Limits, MAX_FRAME_BYTES, PROTOCOL_VERSION},
    scheme::SchemeName,
};
use outrider_speculation::judge::Rule;
use serde::Serialize;
use tokio::time;

use crate::{
    http::{AddressedModel, AppState, Elsewhere, Served, Shared},
    metrics,
    sampling::SamplingDefaults,
    target::{engine::Load, gateway::WorkerCounts},
    version,
};

/// Time limit for the engine to run one token when `/readyz` probes it.
const PROBE: Duration = Duration::from_secs(5);
/// Time for which the result of a probe is reused.
const PROBE_AGAIN: Duration = Duration::from_secs(1);

/// Status of a server that serves new sessions.
const READY: &str = "ready";

/// Body of the responses of `/healthz` and `/readyz`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Health {
    status: &'static str,
    #[serde(flatten)]
    load: Load,
    /// Workers of a streaming engine that take guesses. The server is ready without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    guess_workers: Option<WorkerCounts>,
}

impl Health {
    fn new(status: &'static str, state: &AppState) -> Self {
        Self { status, load: state.models.load(), guess_workers: state.models.first().engine.workers() }
    }
}

/// Responds as long as the process lives.
pub(super) async fn health(State(shared): State<Arc<Shared>>) -> Json<Health> {
    let status = shared.state.leaving().unwrap_or("ok");
    Json(Health::new(status, &shared.state))
}

/// Checks that a new session would be served: the server is neither draining nor stopping, a slot is free, and the
/// engine of every model runs a token. The result of the last such run is reused for [`PROBE_AGAIN`].
pub(super) async fn ready(State(shared): State<Arc<Shared>>) -> (StatusCode, Json<Health>) {
    let state = &shared.state;
    let load = state.models.load();
    let status = if let Some(leaving) = state.leaving() {
        leaving
    } else if load.sessions >= load.session_limit {
        "full"
    } else {
        let mut probed = shared.probed.lock().await;
        match *probed {
            Some((at, status)) if at.elapsed() < PROBE_AGAIN => status,
            _ => {
                let status = probe(state).await;
                *probed = Some((Instant::now(), status));
                status
            }
        }
    };
    let code = if status == READY { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(Health::new(status, state)))
}

/// Probes all models at a time; the first one that is not ready counts.
async fn probe(state: &AppState) -> &'static str {
    let probes = state.models.all().map(|model| probe_model(model));
    future::join_all(probes).await.into_iter().find(|status| *status != READY).unwrap_or(READY)
}

async fn probe_model(model: &Served) -> &'static str {
    let Some(slot) = model.engine.slot() else { return "full" };
    match time::timeout(PROBE, slot.probe()).await {
        Ok(Ok(_)) => READY,
        Ok(Err(_)) => "failing",
        Err(_) => "busy",
    }
}

/// Metrics in the format that Prometheus reads.
pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, metrics::MEDIA_TYPE)], shared.state.models.metrics_text())
}

/// Body of the response of `/v1/info`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Info {
    version: &'static str,
    /// First digits of the commit of the build, if they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    commit: Option<&'static str>,
    /// Protocol version, as in FORMAT.md.
    protocol: u16,
    models: Models,
    elsewhere: Vec<Elsewhere>,
    vocab_size: u32,
    /// SHA-256 fingerprint of the tokenizer, in hexadecimal.
    tokenizer: String,
    schemes: Vec<&'static str>,
    rules: Vec<&'static str>,
    limits: InfoLimits,
    /// Sampling parameters for requests that give none, as far as the target's files recommend any.
    sampling: SamplingDefaults,
    own_draft: &'static str,
    evidence: &'static str,
    instruction_set: &'static str,
    threads: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    guess_workers: Option<WorkerCounts>,
}

#[derive(Debug, Serialize)]
struct Models {
    target: String,
    draft: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct InfoLimits {
    #[serde(flatten)]
    session: Limits,
    max_frame_bytes: usize,
    sessions: usize,
    sessions_per_address: usize,
    frames_per_second: u32,
    body_bytes: usize,
    hello_seconds: f64,
    idle_seconds: f64,
}

pub(super) async fn info(State(shared): State<Arc<Shared>>, AddressedModel(model): AddressedModel) -> Json<Info> {
    let state = &shared.state;
    let Served { engine, target, .. } = &*model;
    Json(Info {
        version: env!("CARGO_PKG_VERSION"),
        commit: version::commit(),
        protocol: PROTOCOL_VERSION,
        models: Models { target: model.name.clone(), draft: model.draft_name.clone() },
        elsewhere: state.elsewhere.clone(),
        vocab_size: target.vocab_size,
        tokenizer: target.tokenizer_hash.iter().map(|byte| format!("{byte:02x}")).collect(),
        schemes: SchemeName::ALL.iter().map(|scheme| scheme.name()).collect(),
        rules: Rule::all().iter().map(|rule| rule.name).collect(),
        limits: InfoLimits {
            session: target.limits,
            max_frame_bytes: MAX_FRAME_BYTES,
            sessions: engine.load().session_limit,
            sessions_per_address: state.caps.sessions_per_address,
            frames_per_second: state.caps.frames_per_second,
            body_bytes: state.caps.body_bytes,
            hello_seconds: state.limits.hello.as_secs_f64(),
            idle_seconds: state.limits.idle.as_secs_f64(),
        },
        sampling: model.sampling,
        own_draft: engine.own_draft_policy().name(),
        evidence: state.access.evidence.name(),
        instruction_set: outrider_models::instruction_set(),
        threads: outrider_models::threads::count(),
        guess_workers: engine.workers(),
    })
}
