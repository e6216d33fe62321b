//! An engine that speaks vLLM's dialect of `/v1/completions`, for a p that is known.

// Said in full, since a test of processes names this file by its path, too.
#[path = "mock/proposer.rs"]
pub mod proposer;
#[path = "mock/served.rs"]
pub mod served;
#[path = "mock/stream.rs"]
pub mod stream;

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use outrider_codec::frame::SamplingParameters;
use outrider_models::{Model, Tokenizer};
use outrider_speculation::sample::{self, Distribution, End, Randomness};
use outrider_testing::logits::on_cpu;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

use self::served::{Counts, Served, Streaming};
pub use self::served::{Mood, Weights};

/// A real model as weights.
pub fn of_model(model: Model) -> Weights {
    Box::new(move |text| on_cpu(&model, text, text.len()))
}

/// A running engine; it ends with the test.
pub struct MockEngine {
    /// Base address of the engine.
    pub address: String,
    shared: Arc<Served>,
}

impl MockEngine {
    pub async fn start(weights: Weights, tokenizer: Tokenizer, context_length: u32) -> Self {
        Self::start_with(weights, tokenizer, context_length, None, vec!["known"]).await
    }

    pub async fn start_with(
        weights: Weights,
        tokenizer: Tokenizer,
        context_length: u32,
        key: Option<&'static str>,
        models: Vec<&'static str>,
    ) -> Self {
        let shared = Arc::new(Served {
            weights,
            tokenizer,
            context_length,
            key,
            models,
            mood: Mutex::new(Mood::Well),
            streaming: Mutex::default(),
            counts: Counts::default(),
            requests: AtomicUsize::new(0),
            randomness: Mutex::new(Randomness::new(99, End::Cloud)),
        });
        let app = Router::new()
            .route("/v1/models", get(list))
            .route("/v1/completions", post(complete))
            .with_state(Arc::clone(&shared));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, app).into_future());
        Self { address, shared }
    }

    /// Sets how the engine answers from now on.
    pub fn feel(&self, mood: Mood) {
        *self.shared.mood.lock().unwrap() = mood;
    }

    /// Sets how the engine streams from now on.
    pub fn stream(&self, streaming: Streaming) {
        *self.shared.streaming.lock().unwrap() = streaming;
    }

    /// Counts of what its streams did so far.
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }

    /// Completions asked for so far.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::Relaxed)
    }
}

async fn list(State(shared): State<Arc<Served>>) -> Response {
    // As vLLM does it, an adapter's card names its parent, which has the context length.
    let model = |id: &&str| match id.split_once('/') {
        Some((parent, _)) => json!({ "id": id, "object": "model", "root": "/adapter", "parent": parent }),
        None => json!({ "id": id, "object": "model", "root": id, "max_model_len": shared.context_length }),
    };
    Json(json!({ "object": "list", "data": shared.models.iter().map(model).collect::<Vec<_>>() })).into_response()
}

fn refusal(status: u16) -> Response {
    (StatusCode::from_u16(status).unwrap(), "{\"error\": \"not today\"}").into_response()
}

async fn complete(State(shared): State<Arc<Served>>, headers: HeaderMap, body: Bytes) -> Response {
    shared.requests.fetch_add(1, Ordering::Relaxed);
    let key = shared.key.map(|key| format!("Bearer {key}"));
    if key.is_some_and(|key| headers.get(header::AUTHORIZATION).is_none_or(|value| value != key.as_str())) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    let mood = *shared.mood.lock().unwrap();
    match mood {
        Mood::Well | Mood::KeepsQuiet => {}
        Mood::Refuses(status) => return refusal(status),
        Mood::Babbles => return "<html>Welcome to nginx!</html>".into_response(),
        Mood::Dawdles(time) => tokio::time::sleep(time).await,
        Mood::Dies => {
            let pieces = [Ok(Bytes::from_static(b"{\"choi")), Err(io::Error::other("killed"))];
            return Body::from_stream(futures_util::stream::iter(pieces)).into_response();
        }
    }
    let mut body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["model"], shared.models[0]);
    if body["stream"] == true {
        return stream::answer(&shared, &body);
    }
    if mood == Mood::KeepsQuiet {
        body.as_object_mut().unwrap().retain(|field, _| field != "prompt_logprobs" && field != "return_token_ids");
    }
    Json(answered(&shared, &body)).into_response()
}

/// Answer to a request for completions.
fn answered(served: &Served, body: &Value) -> Value {
    assert_eq!(body["return_tokens_as_token_ids"], true);
    let sampling = Served::sampling(body);
    let (mut choices, mut read) = (Vec::new(), 0);
    for prompt in served.prompts(&body["prompt"]) {
        read += prompt.len();
        let rows = (served.weights)(&prompt);
        let ids = (body["return_token_ids"] == true).then_some(&prompt);
        let of_prompt = body["prompt_logprobs"].as_u64().map(|count| {
            let place = |index: usize| listed(&rows[index - 1], count as usize, prompt[index]);
            (0..prompt.len()).map(|i| if i == 0 { Value::Null } else { place(i) }).collect::<Value>()
        });
        for _ in 0..body["n"].as_u64().unwrap() {
            let index = choices.len();
            let max_tokens = body["max_tokens"].as_u64().unwrap() as usize;
            assert!(prompt.len() + max_tokens <= served.context_length as usize, "asks beyond the context");
            let logprobs = written(served, &prompt, max_tokens, &sampling, body["logprobs"].as_u64().unwrap() as usize);
            choices.push(json!({
                "index": index, "text": "…", "logprobs": logprobs, "finish_reason": "length",
                "prompt_logprobs": of_prompt, "prompt_token_ids": ids,
            }));
        }
    }
    json!({ "id": "cmpl-1", "object": "text_completion", "choices": choices, "usage": { "prompt_tokens": read } })
}

/// The next `count` tokens of a text, in the form of the engine's answer.
fn written(served: &Served, prompt: &[u32], count: usize, sampling: &SamplingParameters, likely: usize) -> Value {
    let mut text = prompt.to_vec();
    let (mut tokens, mut logprobs, mut top) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..count {
        let row = (served.weights)(&text).pop().unwrap();
        let id = Distribution::new(&row, sampling).unwrap().draw(&mut served.randomness.lock().unwrap());
        tokens.push(format!("token_id:{id}"));
        logprobs.push(logprob(&row, id));
        let places = listed(&row, likely, id);
        let places = places.as_object().unwrap().iter();
        top.push(places.map(|(id, entry)| (format!("token_id:{id}"), entry["logprob"].clone())).collect::<Map<_, _>>());
        text.push(id);
    }
    json!({ "tokens": tokens, "token_logprobs": logprobs, "top_logprobs": top, "text_offset": [] })
}

fn logprob(row: &[f32], id: u32) -> f64 {
    let plain = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };
    Distribution::new(row, &plain).unwrap().probability(id).ln().max(-9999.0)
}

/// The `count` most likely tokens and this one.
fn listed(row: &[f32], count: usize, id: u32) -> Value {
    let plain = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };
    let p = sample::transform(row, &plain).unwrap();
    let mut ids: Vec<u32> = (0..row.len() as u32).collect();
    ids.sort_by(|&a, &b| p[b as usize].total_cmp(&p[a as usize]).then(a.cmp(&b)));
    ids.truncate(count);
    ids.push(id);
    // A tokenizer of another model may have more tokens.
    let logprob = |id: u32| p.get(id as usize).map_or(-9999.0, |p| p.ln().max(-9999.0));
    let entry = |id: u32| (id.to_string(), json!({ "logprob": logprob(id), "rank": 1 }));
    Value::Object(ids.into_iter().map(entry).collect())
}
