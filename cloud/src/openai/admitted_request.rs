//! Admission of a request: first a session for its address, then its body, then the prompt in it.

use std::{sync::Arc, time::SystemTime};

use axum::{
    body::Bytes,
    extract::{FromRequest, Request},
    http::header::CONTENT_ENCODING,
};
use outrider_models::{CallReader, ChatError, EncodeError, ReasoningReader};
use serde_json::Value;
use tokio::time;

use super::{
    echo::Echo,
    fields::{Fields, check_size},
    request::{Chat, Common, Completion, PromptInput},
    response_request,
    shaping_fields::grammar,
};
use crate::{
    blocking,
    http::{ApiError, Caller, Served, Shared, sentence},
    keys::Key,
    sessions::Entry,
    shaping::grammar::{Form, Grammar},
};

/// Ratio of the time limit for a whole body to that for a pause in it.
const PAUSES: u32 = 6;

/// A request whose address may have another session. The body of other requests is not read.
pub(super) struct AdmittedRequest {
    pub(super) caller: Caller,
    pub(super) entry: Entry,
    /// Key that the request showed.
    pub(super) key: Option<Arc<Key>>,
    body: Bytes,
}

impl FromRequest<Arc<Shared>> for AdmittedRequest {
    type Rejection = ApiError;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self, ApiError> {
        let caller = request.extensions().get::<Caller>().copied();
        let caller = caller.ok_or_else(|| ApiError::internal("The client's address is unknown."))?;
        let key = request.extensions().get::<Arc<Key>>().cloned();
        if let Some(coding) = request.headers().get(CONTENT_ENCODING).filter(|coding| *coding != "identity") {
            return Err(ApiError::content_coding(&String::from_utf8_lossy(coding.as_bytes())));
        }
        let entry = shared.state.sessions.open(caller.address).await?;
        let body = time::timeout(PAUSES * shared.state.caps.body_read, Bytes::from_request(request, &())).await;
        Ok(Self { caller, entry, key, body: body.map_err(|_| ApiError::body_timeout())?? })
    }
}

/// Prompt of a request, with its generation parameters.
pub(super) struct Prompt {
    /// Model that the request asks for.
    pub(super) served: Arc<Served>,
    /// Token ids of each prompt, at least one.
    pub(super) prompts: Vec<Vec<u32>>,
    /// Beginning of the texts of each prompt; empty without `echo`.
    pub(super) echoes: Vec<Echo>,
    pub(super) common: Common,
    /// Reader of tool calls in the generated text, if there are tools.
    pub(super) calls: Option<CallReader>,
    /// Reader of the reasoning before the answer, if it is to be separated.
    pub(super) reasoning: Option<ReasoningReader>,
    /// Grammar of the generated text, if it is to have a form.
    pub(super) grammar: Option<Grammar>,
}

impl AdmittedRequest {
    /// Reads a request for `/v1/completions`.
    pub(super) async fn completion(&self, shared: &Shared) -> Result<Prompt, ApiError> {
        self.read(shared, |fields, served, context| {
            let Completion { prompts, common } = Completion::read(fields, &served.sampling)?;
            let prompts = prompts.into_iter().map(|prompt| match prompt {
                PromptInput::Tokens(tokens) => Ok((known(served, tokens)?, Echo::default())),
                PromptInput::Text(text) => {
                    let (tokens, added) = encode(served, context, &text)?;
                    Ok((tokens, Echo { text: Some(text), added }))
                }
            });
            let (prompts, mut echoes): (Vec<_>, Vec<_>) =
                prompts.collect::<Result<Vec<_>, ApiError>>()?.into_iter().unzip();
            if !common.echo {
                echoes.clear();
            }
            let grammar = grammar(served, common.form.as_ref(), false)?;
            Ok(Prompt { served: Arc::clone(served), prompts, echoes, common, calls: None, reasoning: None, grammar })
        })
        .await
    }

    /// Reads a request for `/v1/chat/completions`.
    pub(super) async fn chat(&self, shared: &Shared) -> Result<Prompt, ApiError> {
        self.read(shared, chat_prompt).await
    }

    /// Reads a request for `/v1/responses`. Returns its prompt and the fields that its response repeats.
    pub(super) async fn response(&self, shared: &Shared) -> Result<(Prompt, Value), ApiError> {
        self.read(shared, |fields, served, context| {
            let repeated = response_request::repeated(&fields);
            let prompt = chat_prompt(response_request::as_chat(fields)?, served, context);
            Ok((prompt.map_err(|error| error.rename("messages", "input"))?, repeated))
        })
        .await
    }

    /// Parses the body in turn with other clients, since long requests take much time and memory.
    async fn read<T>(
        &self,
        shared: &Shared,
        read: impl FnOnce(Fields, &Arc<Served>, usize) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let models = &shared.state.models;
        let read = || {
            check_size(&self.body, models.longest_context())?;
            let mut fields = Fields::parse(&self.body)?;
            let served = models.find(fields.text("model")?.as_deref())?;
            read(fields, served, served.target.limits.context_length as usize)
        };
        blocking::run(self.caller.address, read).await
    }
}

/// Prompt of a conversation.
fn chat_prompt(fields: Fields, served: &Arc<Served>, context: usize) -> Result<Prompt, ApiError> {
    let Chat { conversation, forced, separates_reasoning, common } = Chat::read(fields, &served.sampling)?;
    let calls = (!conversation.tools.is_empty()).then(|| served.template.call_reader(&conversation.tools));
    let call = calls.as_ref().filter(|_| !forced.is_empty()).map(|calls| Form::call(forced, calls));
    // A message has at least one token, and a token has a bounded number of bytes.
    let messages = &conversation.messages;
    if messages.len() > context {
        let text = format!("{} messages do not fit into a context of {context} tokens.", messages.len());
        return Err(too_long(text).param("messages"));
    }
    let bytes = messages.iter().filter_map(|message| Some(message.content()?.len())).sum();
    fit(served, context, bytes).map_err(|error| error.param("messages"))?;
    let tokens = served.template.encode(&served.tokenizer, served.bos_token_id, &conversation, now() as i64).map_err(
        |error| {
            let param = if matches!(error, ChatError::Tools) { "tools" } else { "messages" };
            ApiError::invalid(sentence(&error)).param(param)
        },
    )?;
    let reasoning = separates_reasoning.then(|| served.template.reasoning_reader(&served.tokenizer, &tokens)).flatten();
    let after_reasoning = reasoning.as_ref().is_some_and(ReasoningReader::is_open);
    let grammar = grammar(served, call.as_ref().or(common.form.as_ref()), after_reasoning)?;
    let (prompts, echoes) = (vec![tokens], Vec::new());
    Ok(Prompt { served: Arc::clone(served), prompts, echoes, common, calls, reasoning, grammar })
}

/// Refuses a text of more bytes than `context` tokens can have.
fn fit(served: &Served, context: usize, bytes: usize) -> Result<(), ApiError> {
    let most = context.saturating_mul(served.tokenizer.longest_token());
    if bytes <= most {
        return Ok(());
    }
    Err(too_long(format!("A text of {bytes} bytes does not fit into a context of {context} tokens.")))
}

/// Error of a request that does not fit into the context.
pub(super) fn too_long(text: String) -> ApiError {
    ApiError::invalid(text).code("context_length_exceeded")
}

/// Refuses a prompt with ids that the model does not have.
fn known(served: &Served, tokens: Vec<u32>) -> Result<Vec<u32>, ApiError> {
    let vocab_size = served.target.vocab_size;
    match tokens.iter().find(|id| **id >= vocab_size) {
        None => Ok(tokens),
        Some(id) => {
            let text = format!("The prompt has the token {id}, outside the vocabulary of {vocab_size}.");
            Err(ApiError::invalid(text).param("prompt"))
        }
    }
}

/// Encodes a prompt, with the tokens that begin a text, and counts those of them that it does not spell out.
fn encode(served: &Served, context: usize, text: &str) -> Result<(Vec<u32>, usize), ApiError> {
    fit(served, context, text.len()).map_err(|error| error.param("prompt"))?;
    let ids = || -> Result<_, EncodeError> {
        let beginning = served.tokenizer.encode_prompt(served.bos_token_id, "")?;
        let ids = served.tokenizer.encode(text)?;
        // A conversation written by hand may spell the first token out.
        let added = if ids.starts_with(&beginning) { 0 } else { beginning.len() };
        Ok(([&beginning[..added], &ids].concat(), added))
    };
    let encoded = ids().map_err(|error| ApiError::invalid(format!("The prompt cannot be encoded: {error}.")))?;
    if encoded.0.is_empty() { Err(ApiError::invalid("The prompt is empty.").param("prompt")) } else { Ok(encoded) }
}

/// Current time, in seconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
