//! The target alone, as OpenAI's API: `/v1/models`, `/v1/completions`, `/v1/chat/completions`.
//!
//! A request is a session of its own, in this process, that asks for cloud-only generations, one for each text: the
//! tokens come from the same state machine, engine and limits as a browser's. What is written goes out as one object or
//! as server-sent events, by the [API's reference](https://platform.openai.com/docs/api-reference). Parameters that
//! change the text and that are not implemented are refused by name, so that nobody gets another text than was asked
//! for.
//!
//! | module | what it does |
//! |---|---|
//! | `asked` | a place for a request, its body, and what that means |
//! | `request` | reads a request and refuses what it cannot do |
//! | `conversation` | reads messages and tools |
//! | `fields` | parameters by their names |
//! | `generation` | generations, token by token: text and calls of tools |
//! | `text` | text of tokens, up to a stop sequence |
//! | `answer` | the objects and chunks that are answered |
//! | `served` | the target, as the API needs to know it |
//! | `error` | what is wrong, in the API's shape |

use std::{collections::VecDeque, convert::Infallible, mem, sync::Arc};

use axum::{
    Json, Router,
    extract::State,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
    routing::{get, post},
};
use futures_util::{Stream, stream};
use outrider_codec::frame::Request;
use serde_json::{Value, json};

use self::{
    answer::{Answer, Shape},
    asked::{Asked, Task, check_model, now, too_long},
    generation::{Order, Writing, Written},
    request::Common,
};
use crate::{app::Shared, heavy};

mod answer;
mod asked;
mod conversation;
mod error;
mod fields;
mod generation;
mod request;
mod served;
mod text;

pub use self::{
    error::ApiError,
    served::{Elsewhere, Served},
};

/// Tokens that a completion has if the request does not say, as with OpenAI.
const COMPLETION_TOKENS: u32 = 16;

/// The routes below `/v1`.
pub(crate) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/v1/models", get(models))
        .route("/v1/models/{model}", get(model))
        .route("/v1/completions", post(completions))
        .route("/v1/chat/completions", post(chat_completions))
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

async fn completions(State(shared): State<Arc<Shared>>, asked: Asked) -> Result<Response, ApiError> {
    let task = asked.completion(&shared).await?;
    answer(&shared, asked, Shape::Completion, task).await
}

async fn chat_completions(State(shared): State<Arc<Shared>>, asked: Asked) -> Result<Response, ApiError> {
    let task = asked.chat(&shared).await?;
    answer(&shared, asked, Shape::Chat, task).await
}

/// Generates, and answers in one piece or in many.
async fn answer(shared: &Shared, asked: Asked, shape: Shape, task: Task) -> Result<Response, ApiError> {
    let Task { tokens, common, calls } = task;
    let state = &shared.state;
    let context = state.target.limits.context_length as usize;
    let Some(room) = context.checked_sub(tokens.len()).filter(|&room| room > 0) else {
        let text = format!(
            "The prompt has {} tokens; the model's context holds {context}, at least one of them the answer's.",
            tokens.len()
        );
        return Err(too_long(text).param(shape.prompt()));
    };
    let room = u32::try_from(room).unwrap_or(u32::MAX);
    let default = if shape == Shape::Completion { COMPLETION_TOKENS } else { room };
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
    let answer = Answer { shape, id, created, model, prompt_tokens, include_usage, has_log_probabilities };
    let order = Order { request, choices, log_probabilities, stop, calls };
    let client = asked.caller.address;
    let mut writing = Writing::begin(shared, asked, order).await?;
    Ok(if stream {
        Sse::new(events(answer, writing, choices)).keep_alive(KeepAlive::default()).into_response()
    } else {
        let (mut texts, mut text) = (Vec::new(), Written::default());
        while let Some(Written { choice, pieces, told, finish }) = writing.next().await? {
            text.pieces.extend(pieces);
            text.told.extend(told);
            if finish.is_some() {
                texts.push(Written { choice, finish, ..mem::take(&mut text) });
            }
        }
        let tokens = writing.tokens();
        let whole = || Json(answer.whole(texts, tokens)).into_response();
        // Of each token there may be a hundred times its text.
        if has_log_probabilities { heavy::run(client, whole).await } else { whole() }
    })
}

/// The server-sent events of an answer.
fn events(answer: Answer, writing: Writing, choices: u32) -> impl Stream<Item = Result<Event, Infallible>> + Send {
    let event = |value: &Value| Event::default().data(value.to_string());
    let waiting: VecDeque<Event> = answer.opening(choices).iter().map(event).collect();
    let state = (answer, Some(writing), waiting, 0);
    stream::unfold(state, move |(answer, mut writing, mut waiting, mut calls)| async move {
        loop {
            if let Some(event) = waiting.pop_front() {
                return Some((Ok(event), (answer, writing, waiting, calls)));
            }
            let writer = writing.as_mut()?;
            match writer.next().await {
                Ok(Some(written)) => waiting.extend(answer.chunks(written, &mut calls).iter().map(event)),
                Ok(None) => {
                    if answer.include_usage {
                        waiting.push_back(event(&answer.usage_chunk(writer.tokens())));
                    }
                    waiting.push_back(Event::default().data("[DONE]"));
                    writing = None;
                }
                Err(error) => {
                    waiting.push_back(event(&error.body()));
                    waiting.push_back(Event::default().data("[DONE]"));
                    writing = None;
                }
            }
        }
    })
}
