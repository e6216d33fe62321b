//! Usage of keys: `/v1/usage`.

use std::sync::{Arc, atomic::Ordering};

use axum::{Extension, Json, extract::State};
use serde_json::{Value, json};

use crate::{
    http::Shared,
    keys::{Key, Right},
};

/// Usage of the request's own key since the server began, or of all keys if it has the right `metrics`.
pub(super) async fn usage(State(shared): State<Arc<Shared>>, key: Option<Extension<Arc<Key>>>) -> Json<Value> {
    let keys = shared.state.access.keys.as_ref().map(crate::keys::Keys::all).unwrap_or_default();
    let is_visible =
        |of: &&Arc<Key>| key.as_ref().is_some_and(|Extension(key)| key.has(Right::Metrics) || key.name() == of.name());
    let data: Vec<Value> = keys.iter().filter(is_visible).map(|key| object(key)).collect();
    Json(json!({ "object": "list", "data": data }))
}

fn object(key: &Key) -> Value {
    let usage = key.usage();
    let [requests, refused, prompt_tokens, completion_tokens, sessions] =
        [&usage.requests, &usage.refused, &usage.prompt_tokens, &usage.completion_tokens, &usage.sessions]
            .map(|count| count.load(Ordering::Relaxed));
    json!({
        "object": "usage",
        "key": key.name(),
        "requests": requests,
        "refused": refused,
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "sessions": sessions,
        "limits": key.limits(),
    })
}
