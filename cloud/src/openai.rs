//! The target alone, as OpenAI's API: `/v1/models`, `/v1/completions`, `/v1/chat/completions`.
//!
//! Each text of a request is written by a session in this process, side by side with the others: the tokens come from
//! the same state machine, engine and limits as a browser's. They go out as one object or as server-sent events, by the
//! [API's reference](https://platform.openai.com/docs/api-reference). Parameters that would change the text and are not
//! implemented are refused by name.
//!
//! | module | what it does |
//! |---|---|
//! | `admitted_request` | a session for a request, its body, and the prompt in it |
//! | `request` | reads a request and refuses what it cannot do |
//! | `conversation` | reads messages and tools |
//! | `fields` | parameters by their names |
//! | `token_stream` | the texts of a request side by side, token by token: text and calls of tools |
//! | `answer` | the objects and chunks that are answered |

use std::{collections::VecDeque, convert::Infallible, sync::Arc};

use axum::{
    Json, Router,
    extract::State,
    http::{Method, StatusCode, Uri},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
    routing::{any, get, post},
};
use futures_util::{Stream, stream};
use outrider_codec::frame::Request;
use serde_json::{Value, json};

use self::{
    admitted_request::{AdmittedRequest, Prompt, check_model, now, too_long},
    answer::{Answer, Endpoint},
    request::Common,
    token_stream::{Delta, GenerationParams, TokenStream},
};
use crate::{
    blocking,
    http::{ApiError, Served, Shared},
};

mod admitted_request;
mod answer;
mod conversation;
mod fields;
mod request;
mod token_stream;

/// Tokens that a completion has if the request does not say, as with OpenAI.
const COMPLETION_TOKENS: u32 = 16;

/// The routes below `/v1`.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/models/{model}", get(model))
        .route("/v1/completions", post(completions))
        .route("/v1/chat/completions", post(chat_completions))
        .route("/v1/{*path}", any(unknown))
        .method_not_allowed_fallback(wrong_method)
}

async fn unknown(method: Method, uri: Uri) -> ApiError {
    let text = format!("There is no {method} {} on this server; README.md lists the endpoints.", uri.path());
    ApiError::new(StatusCode::NOT_FOUND, "invalid_request_error", text).code("unknown_url")
}

async fn wrong_method(method: Method, uri: Uri) -> ApiError {
    let text = format!("{} does not take {method}.", uri.path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "invalid_request_error", text).code("method_not_allowed")
}

async fn models(State(shared): State<Arc<Shared>>) -> Json<Value> {
    Json(json!({ "object": "list", "data": [model_object(&shared.state.served)] }))
}

async fn model(
    State(shared): State<Arc<Shared>>,
    axum::extract::Path(name): axum::extract::Path<String>,
) -> Result<Json<Value>, ApiError> {
    check_model(&shared.state.served, Some(&name))?;
    Ok(Json(model_object(&shared.state.served)))
}

fn model_object(served: &Served) -> Value {
    json!({ "id": served.name, "object": "model", "created": 0, "owned_by": "outrider" })
}

async fn completions(State(shared): State<Arc<Shared>>, request: AdmittedRequest) -> Result<Response, ApiError> {
    let prompt = request.completion(&shared).await?;
    answer(&shared, request, Endpoint::Completion, prompt).await
}

async fn chat_completions(State(shared): State<Arc<Shared>>, request: AdmittedRequest) -> Result<Response, ApiError> {
    let prompt = request.chat(&shared).await?;
    answer(&shared, request, Endpoint::Chat, prompt).await
}

/// Generates, and answers in one piece or in many.
async fn answer(
    shared: &Shared,
    admitted: AdmittedRequest,
    endpoint: Endpoint,
    prompt: Prompt,
) -> Result<Response, ApiError> {
    let Prompt { tokens, common, calls } = prompt;
    let state = &shared.state;
    let context = state.target.limits.context_length as usize;
    let Some(room) = context.checked_sub(tokens.len()).filter(|&room| room > 0) else {
        let text = format!(
            "The prompt has {} tokens; the model's context holds {context}, at least one of them the answer's.",
            tokens.len()
        );
        return Err(too_long(text).param(endpoint.prompt()));
    };
    let room = u32::try_from(room).unwrap_or(u32::MAX);
    let default = if endpoint == Endpoint::Completion { COMPLETION_TOKENS } else { room };
    let random = || getrandom::u64().map_err(|error| ApiError::internal(format!("There is no randomness: {error}.")));
    let seed = common.seed.map_or_else(random, Ok)?;
    let prompt_tokens = tokens.len();
    let request = Request {
        generation: 1,
        sampling: common.sampling,
        seed,
        max_new_tokens: common.max_tokens.unwrap_or(default),
        tokens,
    };
    let created = now();
    let id = random()?;
    let Common { choices, log_probabilities, stop, stream, include_usage, .. } = common;
    let model = state.served.name.clone();
    let has_log_probabilities = log_probabilities.is_some();
    let answer = Answer { endpoint, id, created, model, prompt_tokens, include_usage, has_log_probabilities };
    let params = GenerationParams { request, choices, log_probabilities, stop, calls };
    let client = admitted.caller.address;
    let mut deltas = TokenStream::begin(shared, admitted, params).await?;
    Ok(if stream {
        Sse::new(events(answer, deltas, choices)).keep_alive(KeepAlive::default()).into_response()
    } else {
        let mut texts: Vec<Delta> = (0..choices).map(|choice| Delta { choice, ..Delta::default() }).collect();
        while let Some(Delta { choice, pieces, logprobs, finish }) = deltas.next().await? {
            let text = &mut texts[choice as usize];
            text.pieces.extend(pieces);
            text.logprobs.extend(logprobs);
            text.finish = finish;
        }
        let tokens = deltas.tokens();
        let whole = || Json(answer.whole(texts, tokens)).into_response();
        // Log-probabilities may be a hundred times as long as the text.
        if has_log_probabilities { blocking::run(client, whole).await } else { whole() }
    })
}

/// The server-sent events of an answer.
fn events(answer: Answer, deltas: TokenStream, choices: u32) -> impl Stream<Item = Result<Event, Infallible>> + Send {
    let event = |value: &Value| Event::default().data(value.to_string());
    let waiting: VecDeque<Event> = answer.opening(choices).iter().map(event).collect();
    // Calls of each text so far.
    let calls = vec![0; choices as usize];
    let state = (answer, Some(deltas), waiting, calls);
    stream::unfold(state, move |(answer, mut deltas, mut waiting, mut calls)| async move {
        loop {
            if let Some(event) = waiting.pop_front() {
                return Some((Ok(event), (answer, deltas, waiting, calls)));
            }
            let texts = deltas.as_mut()?;
            let last = match texts.next().await {
                Ok(Some(delta)) => {
                    let calls = &mut calls[delta.choice as usize];
                    waiting.extend(answer.chunks(delta, calls).iter().map(event));
                    continue;
                }
                Ok(None) => answer.include_usage.then(|| answer.usage_chunk(texts.tokens())),
                Err(error) => Some(error.body()),
            };
            waiting.extend(last.iter().map(event));
            waiting.push_back(Event::default().data("[DONE]"));
            deltas = None;
        }
    })
}
