//! Drafts for texts of the API: a draft model in this process, in sessions as browsers have them.
//!
//! Clients of OpenAI's API, such as evaluation harnesses, measure schemes and rules in this way without being edges
//! themselves.

use std::{fmt, str::FromStr, sync::Arc};

use outrider_codec::frame::{ErrorCode, ErrorFrame, Request, Tokens};
use outrider_models::Model;
use outrider_speculation::session::{
    cloud::TargetInfo,
    edge::{DraftInfo, EdgeSession, EndReason, Mode, Settings},
    edge_driver::Notice,
    options::{DraftingOptions, NAMES, numbers::NUMBERS},
};
use serde_json::Value;
use tokio::{
    runtime::Handle,
    sync::{mpsc, watch},
    task,
};

use crate::{
    edge::{NativeEdge, NativeEdgeError, Transport},
    session::Limits,
    target::TargetSlot,
};

/// Draft model for texts of the API.
pub struct ApiDrafting {
    /// Draft model of the sessions.
    pub model: Model,
    /// Description of the draft model for sessions.
    pub info: DraftInfo,
    /// Drafting for requests that do not ask for any.
    pub default: ApiMode,
}

impl fmt::Debug for ApiDrafting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiDrafting").field("default", &self.default).finish_non_exhaustive()
    }
}

/// Mode of drafting from a JSON object of options; `None` for texts that the target writes alone.
#[derive(Debug, Clone, PartialEq)]
pub struct ApiMode(pub(crate) Option<Mode>);

impl FromStr for ApiMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::try_from(serde_json::from_str::<Value>(text).map_err(|error| format!("it is not JSON: {error}"))?)
    }
}

impl TryFrom<Value> for ApiMode {
    type Error = String;

    /// Reads options by the names that the page has for them.
    fn try_from(options: Value) -> Result<Self, String> {
        let fields = match &options {
            Value::Null => return Ok(Self(None)),
            Value::Object(fields) => fields,
            _ => return Err("it must be an object of drafting options, or null".to_owned()),
        };
        let parameters = NAMES.iter().filter_map(|kind| kind.parameter).map(|(name, _)| name);
        let numbers = NUMBERS.iter().map(|number| number.name);
        let known: Vec<&str> =
            NAMES.iter().map(|kind| kind.name).chain(parameters).chain(numbers).chain(["adaptiveMode"]).collect();
        for (name, value) in fields {
            if !known.contains(&&name[..]) {
                return Err(format!("there is no drafting option {name}"));
            }
            if let (Some(number), Some(value)) = (NUMBERS.iter().find(|number| number.name == name), value.as_f64()) {
                number.bounds.check(value).map_err(|reason| format!("{name} {reason}"))?;
            }
        }
        let options: DraftingOptions = serde_json::from_value(options).map_err(|error| error.to_string())?;
        let speculation = options.speculation().map_err(|error| error.to_string())?;
        Ok(Self(Some(options.mode(speculation))))
    }
}

/// A session whose drafts are made in this process, for one text after another.
pub(crate) struct DraftedSession {
    /// Texts to write, each with its number.
    requests: mpsc::UnboundedSender<(u32, Request)>,
    /// Tokens, each with the number of its text.
    tokens: mpsc::UnboundedReceiver<(u32, Result<Tokens, ErrorFrame>)>,
    /// Number of the text under way.
    text: u32,
}

impl DraftedSession {
    /// Opens a session of a draft model on a slot of the target. It drafts on a thread of its own.
    pub(crate) fn new(
        drafting: &Arc<ApiDrafting>,
        mode: Mode,
        slot: TargetSlot,
        target: TargetInfo,
        limits: Limits,
        stopping: watch::Receiver<bool>,
        held: impl Send + 'static,
    ) -> Result<Self, ErrorFrame> {
        let transport = Transport::to_slot(slot, target.clone(), limits, stopping, held)
            .map_err(|error| failure(ErrorCode::Internal, error.to_string()))?;
        let (requests, mut wanted) = mpsc::unbounded_channel();
        let (written, tokens) = mpsc::unbounded_channel();
        let drafting = Arc::clone(drafting);
        task::spawn_blocking(move || {
            let mut text = 0;
            let texts = async {
                let mut edge = NativeEdge::greet(&drafting.model, drafting.info.clone(), transport).await?;
                let mut next = wanted.recv().await;
                while let Some((number, request)) = next.take() {
                    text = number;
                    let write = |tokens| drop(written.send((number, Ok(tokens))));
                    // A text ends early where another is wanted, or none.
                    let stop = async { next = wanted.recv().await };
                    self::write(&mut edge, request, &mode, &target, stop, write).await?;
                    if next.is_none() {
                        next = wanted.recv().await;
                    }
                }
                edge.close().await;
                Ok(())
            };
            if let Err(error) = Handle::current().block_on(texts) {
                let frame = match error {
                    NativeEdgeError::Refused(frame) => frame,
                    error @ NativeEdgeError::Start(_) => failure(ErrorCode::InvalidParameters, error.to_string()),
                    error => failure(ErrorCode::Internal, error.to_string()),
                };
                drop(written.send((text, Err(frame))));
            }
        });
        Ok(Self { requests, tokens, text: 0 })
    }

    /// Begins a text, replacing the one under way.
    pub(crate) fn generate(&mut self, request: Request) {
        self.text += 1;
        // The thread ends after an error, which `next` returns.
        drop(self.requests.send((self.text, request)));
    }

    /// Waits for the next tokens of the text.
    ///
    /// # Errors
    /// The error frame that ends the text.
    pub(crate) async fn next(&mut self) -> Result<Tokens, ErrorFrame> {
        while let Some((text, tokens)) = self.tokens.recv().await {
            if text == self.text || tokens.is_err() {
                return tokens;
            }
        }
        Err(failure(ErrorCode::Internal, "The generation was lost.".to_owned()))
    }
}

fn failure(code: ErrorCode, text: String) -> ErrorFrame {
    ErrorFrame { generation: 0, code, text }
}

/// Writes one text, unless `stop` comes first, and sends its tokens as the target alone would.
async fn write(
    edge: &mut NativeEdge<'_>,
    request: Request,
    mode: &Mode,
    target: &TargetInfo,
    stop: impl Future<Output = ()>,
    send: impl Fn(Tokens),
) -> Result<(), NativeEdgeError> {
    let Request { generation, sampling, seed, max_new_tokens, tokens: prompt } = request;
    let settings = Settings { mode: mode.clone(), sampling, seed, max_new_tokens };
    let room = target.limits.context_length.saturating_sub(prompt.len() as u32);
    let (most, mut count) = (max_new_tokens.min(room) as usize, 0);
    // The last tokens are sent with the reason of the end.
    let mut last: Vec<u32> = Vec::new();
    let send = |ids, finish| {
        send(Tokens { generation, position: 0, ids, accepted: 0, own: false, heard: 0, pass: 0, finish });
    };
    let tell = |_: &EdgeSession, notice: Notice| {
        let Notice::Committed(committed) = notice else { return };
        let ids: Vec<u32> = committed.tokens.iter().map(|&(id, _)| id).collect();
        count += ids.len();
        let is_last = count >= most || ids.iter().any(|id| target.eos_ids.contains(id));
        if is_last { last.extend(ids) } else { send(ids, None) }
    };
    match edge.generate_until(prompt, &settings, stop, tell).await? {
        EndReason::Finish(finish) if !last.is_empty() => send(last, Some(finish)),
        EndReason::Finish(_) => return Err(NativeEdgeError::Lost),
        EndReason::Cancelled => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        text.parse::<ApiMode>().unwrap_err()
    }

    #[test]
    fn options_are_those_of_the_page() {
        assert_eq!("null".parse(), Ok(ApiMode(None)));
        let ApiMode(Some(Mode::Speculative(speculation))) =
            r#"{"scheme": "k-sqs", "supportSize": 16, "rule": "lossy", "ruleParameter": 0.5}"#.parse().unwrap()
        else {
            panic!("no rounds");
        };
        assert_eq!(speculation.rule.info().name, "lossy");
        assert_eq!(speculation.rule.parameter(), 0.5);
        assert!(matches!("{}".parse(), Ok(ApiMode(Some(_)))));
        assert_eq!(error(r#"{"shceme": "k-sqs"}"#), "there is no drafting option shceme");
        assert!(error(r#"{"scheme": "none"}"#).contains("none"));
        assert!(error(r#"{"supportSize": 0}"#).starts_with("supportSize must be"));
        assert!(error(r#"{"rule": "lossy", "ruleParameter": 2}"#).contains("[0, 1)"));
        assert_eq!(error("7"), "it must be an object of drafting options, or null");
    }
}
