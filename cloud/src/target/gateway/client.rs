//! Requests to the engine over HTTP.
//!
//! A request changes nothing at the engine, so it is repeated if the connection fails or the engine is busy. A request
//! that was answered, or that took too long, is not repeated.
//!
//! A text may also be read as the engine [streams](Client::stream) it.

use std::{
    env,
    error::Error,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use reqwest::{RequestBuilder, Response, StatusCode, header::CONTENT_TYPE};
use serde::Deserialize;
use tokio::time;

use super::{
    completion::{self, Choice, Continuation, Encoding, Prompt, Question},
    error::GatewayError,
    events::{Broken, Events},
};

/// Pauses before a request is repeated.
pub(super) const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(500)];
/// Longest response, in bytes. A prompt of 100 000 tokens with one listed token each fits.
const MAX_ANSWER_BYTES: usize = 32 * 1024 * 1024;
/// Number of bytes of an engine's error message that are kept.
const MAX_MESSAGE_BYTES: usize = 300;
/// Time for a streamed response to end after its last token, so that its connection can be reused.
const LAST_BYTES: Duration = Duration::from_secs(1);

/// One model of an engine.
#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    /// URL of the API, with `/v1` or the path that replaces it.
    base: String,
    /// URL in errors, with a note where a proxy may stand in front of it.
    shown: String,
    key: Option<String>,
    limit: Duration,
    pub(super) model: String,
    answered: AtomicU64,
}

/// A model that the engine serves.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Served {
    pub(super) id: String,
    /// Longest text in tokens. vLLM reports none for an adapter, whose parent has it.
    pub(super) max_model_len: Option<u32>,
    /// Model that an adapter (LoRA) changes: its id, or its root.
    pub(super) parent: Option<String>,
    pub(super) root: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Models {
    data: Vec<Served>,
}

impl Client {
    /// Client of the engine at an address, which is the engine's root or that of its API.
    pub(super) fn new(address: &str, key: Option<String>, limit: Duration) -> Result<Self, GatewayError> {
        let wrong = || GatewayError::Address { address: address.to_owned() };
        let url = reqwest::Url::parse(address).map_err(|_| wrong())?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() || url.query().is_some() {
            return Err(wrong());
        }
        let root = address.trim_end_matches('/');
        let base = if url.path() == "/" { format!("{root}/v1") } else { root.to_owned() };
        let is_set = |name: &str| env::var(name).is_ok_and(|value| !value.is_empty());
        let shown = match proxy_variable(url.scheme(), is_set) {
            Some(name) => format!("{base} (through the proxy of {name}, unless NO_PROXY names the host)"),
            None => base.clone(),
        };
        let http = reqwest::Client::builder().connect_timeout(limit).tcp_nodelay(true).build().map_err(|_| wrong())?;
        Ok(Self { http, base, shown, key, limit, model: String::new(), answered: AtomicU64::new(0) })
    }

    /// Number of requests answered so far.
    pub(super) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Requests the list of models that the engine serves.
    pub(super) async fn models(&self) -> Result<Vec<Served>, GatewayError> {
        let bytes = self.send(|| self.http.get(format!("{}/models", self.base))).await?;
        let models: Models =
            serde_json::from_slice(&bytes).map_err(|error| completion::lacks(format!("of /models: {error}")))?;
        Ok(models.data)
    }

    /// Requests completions. Returns each sample of each prompt in turn.
    pub(super) async fn ask(&self, question: &Question<'_>) -> Result<Vec<Choice>, GatewayError> {
        let prompts = if let Prompt::Several(prompts) = question.prompt { prompts.len() } else { 1 };
        completion::read(&self.answer(question).await?, prompts * question.samples)
    }

    /// Requests one token after a text. Returns what the engine reports about the text's encoding.
    pub(super) async fn encoding(&self, text: &str) -> Result<Encoding, GatewayError> {
        let question = Question { prompt: Prompt::Text(text), returns_ids: true, ..Question::after(&[]) };
        completion::encoding(&self.answer(&question).await?)
    }

    async fn answer(&self, question: &Question<'_>) -> Result<Vec<u8>, GatewayError> {
        let body = question.body(&self.model);
        self.send(|| self.http.post(format!("{}/completions", self.base)).json(&body)).await
    }

    /// Requests a streamed text after a prompt of `prompt` tokens. The caller bounds the wait.
    pub(super) async fn stream(&self, continuation: &Continuation<'_>, prompt: usize) -> Result<Events, GatewayError> {
        let request = self.http.post(format!("{}/completions", self.base)).json(&continuation.body(&self.model));
        let mut response = self.with_key(request).send().await.map_err(|error| self.failure(&error))?;
        if !response.status().is_success() {
            let bytes = self.body(&mut response).await?;
            return Err(self.refusal(&response, &bytes));
        }
        self.answered.fetch_add(1, Ordering::Relaxed);
        let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        if !media_type.is_some_and(|media_type| media_type.starts_with("text/event-stream")) {
            return Err(completion::lacks("it is no stream of events".to_owned()));
        }
        Ok(Events::new(response, prompt))
    }

    async fn send(&self, request: impl Fn() -> RequestBuilder) -> Result<Vec<u8>, GatewayError> {
        let bytes = repeated(is_passing, || self.send_once(request())).await?;
        self.answered.fetch_add(1, Ordering::Relaxed);
        Ok(bytes)
    }

    async fn send_once(&self, request: RequestBuilder) -> Result<Vec<u8>, GatewayError> {
        let request = self.with_key(request).timeout(self.limit);
        let mut response = request.send().await.map_err(|error| self.failure(&error))?;
        let bytes = self.body(&mut response).await?;
        if response.status().is_success() { Ok(bytes) } else { Err(self.refusal(&response, &bytes)) }
    }

    fn with_key(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    async fn body(&self, response: &mut Response) -> Result<Vec<u8>, GatewayError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failure(&error))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_ANSWER_BYTES {
                return Err(completion::lacks(format!("it is longer than {MAX_ANSWER_BYTES} bytes")));
            }
        }
        Ok(bytes)
    }

    /// Time limit for a response.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// Error of a response that took too long.
    pub(super) fn slow(&self) -> GatewayError {
        GatewayError::Slow { address: self.shown.clone(), limit: self.limit }
    }

    /// Error of a response that ended before its text.
    pub(super) fn cut(&self) -> GatewayError {
        GatewayError::Unreachable { address: self.shown.clone(), error: "the stream was cut".to_owned() }
    }

    /// Error of an engine that failed in the middle of a response.
    pub(super) fn failed(&self, status: u16, mut message: String) -> GatewayError {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE_BYTES));
        GatewayError::Status { address: self.shown.clone(), status, message }
    }

    /// Error of a stream that cannot be read.
    pub(super) fn broken(&self, broken: Broken<reqwest::Error>) -> GatewayError {
        match broken {
            Broken::Connection(error) => self.failure(&error),
            Broken::Answer(error) => error,
        }
    }

    fn failure(&self, error: &reqwest::Error) -> GatewayError {
        let address = self.shown.clone();
        if error.is_timeout() {
            return self.slow();
        }
        // The innermost cause is the shortest description.
        let mut cause: &dyn Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        GatewayError::Unreachable { address, error: cause.to_string() }
    }

    fn refusal(&self, response: &Response, body: &[u8]) -> GatewayError {
        let (address, status) = (self.shown.clone(), response.status());
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            return GatewayError::Forbidden { address };
        }
        let mut message = String::from_utf8_lossy(&body[..body.len().min(MAX_MESSAGE_BYTES)]).into_owned();
        // The message is shown on one line.
        message.retain(|c| !c.is_control());
        GatewayError::Status { address, status: status.as_u16(), message }
    }
}

/// Reads the rest of a streamed response and discards it, so that its connection can be reused.
pub(super) fn finish(mut answer: Events) {
    tokio::spawn(time::timeout(LAST_BYTES, async move { while let Some(Ok(_)) = answer.next().await {} }));
}

/// Makes a request, and repeats it after each of [`PAUSES`] while its error is passing.
pub(super) async fn repeated<T, F: Future<Output = Result<T, GatewayError>>>(
    is_passing: impl Fn(&GatewayError) -> bool,
    request: impl Fn() -> F,
) -> Result<T, GatewayError> {
    for pause in PAUSES {
        match request().await {
            Err(error) if is_passing(&error) => {
                tracing::warn!(%error, "asking again");
                time::sleep(pause).await;
            }
            result => return result,
        }
    }
    request().await
}

/// Variable that sets a proxy for URLs of this scheme, if there is one.
fn proxy_variable(scheme: &str, is_set: impl Fn(&str) -> bool) -> Option<String> {
    let own = format!("{scheme}_proxy");
    [own.to_uppercase(), own, "ALL_PROXY".to_owned(), "all_proxy".to_owned()].into_iter().find(|name| is_set(name))
}

/// Returns true if repeating the request may help.
pub(super) fn is_passing(error: &GatewayError) -> bool {
    match error {
        GatewayError::Unreachable { .. } => true,
        GatewayError::Status { status, .. } => matches!(status, 429 | 502 | 503 | 504),
        _ => false,
    }
}

/// Returns true if another stream may continue the text. vLLM gives status 500 to a stream that it cannot end, whatever
/// the cause.
pub(super) fn is_passing_for_streams(error: &GatewayError) -> bool {
    is_passing(error) || matches!(error, GatewayError::Status { status: 500.., .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_of_the_scheme_is_named() {
        let named = |scheme, set: &[&str]| proxy_variable(scheme, |name| set.contains(&name));
        assert_eq!(named("http", &["HTTPS_PROXY", "http_proxy"]).as_deref(), Some("http_proxy"));
        assert_eq!(named("https", &["ALL_PROXY", "HTTPS_PROXY"]).as_deref(), Some("HTTPS_PROXY"));
        assert_eq!(named("https", &["all_proxy"]).as_deref(), Some("all_proxy"));
        assert_eq!(named("http", &["HTTPS_PROXY", "NO_PROXY"]), None);
    }
}
