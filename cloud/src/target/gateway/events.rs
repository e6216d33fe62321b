//! Decoding of a streamed response of `/v1/completions`, from bytes to tokens.
//!
//! The engine sends server-sent events, each with the tokens written since the previous event:
//!
//! ```text
//! data: {"choices": [{"index": 0, "text": " a", "token_ids": [17], "finish_reason": null}]}
//!
//! data: [DONE]
//! ```
//!
//! The memory of an event is bounded: a longer event than its text allows is an error.

use std::{fmt, future::ready, pin::Pin};

use eventsource_stream::{EventStreamError, Eventsource};
use futures_util::{Stream, StreamExt};
use serde::Deserialize;
use serde_json::Value;

use super::{completion::lacks, error::GatewayError};

/// Longest event in bytes, without the ids of the prompt in it.
const MAX_EVENT_BYTES: usize = 64 * 1024;
/// Bytes for each id of the prompt in the first event, which lists them.
const BYTES_PER_PROMPT_TOKEN: usize = 16;
/// Data of the last event.
const DONE: &str = "[DONE]";
/// Finish reasons of a text that was not completed.
const GIVEN_UP: [&str; 2] = ["abort", "error"];

/// An event that the gateway uses.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// Tokens written since the previous event.
    Tokens(Chunk),
    /// The engine has failed.
    Failed {
        /// HTTP status, or 500 if the engine sent none.
        status: u16,
        /// Error message of the engine, or the error as JSON if it has none.
        message: String,
    },
    /// End of the response.
    Done,
}

/// Tokens that came in one event.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) ids: Vec<u32>,
    /// Prompt as the engine has read it, in the first event.
    pub(super) prompt: Option<Vec<u32>>,
    /// Reason why the text ends after these tokens, if it does.
    pub(super) end: Option<End>,
}

/// Reason why a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The text is complete, or has reached its length.
    OfText,
    /// The engine gave the text up, as it does when it is stopped. Another request can continue it.
    GivenUp,
}

#[derive(Debug, Deserialize)]
struct RawEvent {
    choices: Option<Vec<RawChoice>>,
    error: Option<Value>,
    /// "error" if the event itself is an error.
    object: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct RawChoice {
    token_ids: Option<Vec<u32>>,
    prompt_token_ids: Option<Vec<u32>>,
    finish_reason: Option<String>,
}

/// Error while reading a stream. `E` is the connection's error.
#[derive(Debug)]
pub(super) enum Broken<E> {
    Connection(E),
    Answer(GatewayError),
}

/// Events of a response. Dropping the future of the next event loses nothing.
pub(super) struct Events(Pin<Box<dyn Stream<Item = Result<Event, Broken<reqwest::Error>>> + Send>>);

impl Events {
    /// Reads the events of a response to a prompt of `prompt` tokens.
    pub(super) fn new(response: reqwest::Response, prompt: usize) -> Self {
        let chunks = futures_util::stream::unfold(response, |mut response| async {
            response.chunk().await.transpose().map(|chunk| (chunk, response))
        });
        Self(Box::pin(events(chunks, prompt)))
    }

    /// Waits for the next event; `None` at the end of the response.
    pub(super) async fn next(&mut self) -> Option<Result<Event, Broken<reqwest::Error>>> {
        self.0.next().await
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

/// Reads events from chunks of bytes.
fn events<B: AsRef<[u8]>, E>(
    chunks: impl Stream<Item = Result<B, E>>,
    prompt: usize,
) -> impl Stream<Item = Result<Event, Broken<E>>> {
    let longest = MAX_EVENT_BYTES + BYTES_PER_PROMPT_TOKEN * prompt;
    let bounded = chunks.scan(Length::default(), move |length, chunk| {
        ready(Some(chunk.map_err(Broken::Connection).and_then(|bytes| {
            bytes.as_ref().iter().for_each(|&byte| length.add(byte));
            let broken = |text| Err(Broken::Answer(lacks(text)));
            if length.is_no_event {
                broken("a line of it is not a server-sent event".to_owned())
            } else if length.event > longest {
                broken(format!("an event of it is longer than {longest} bytes"))
            } else {
                Ok(bytes)
            }
        })))
    });
    bounded.eventsource().filter_map(|event| {
        ready(match event {
            Ok(event) => read(event.data.trim()).map_err(Broken::Answer).transpose(),
            Err(EventStreamError::Transport(broken)) => Some(Err(broken)),
            Err(EventStreamError::Utf8(_) | EventStreamError::Parser(_)) => {
                Some(Err(Broken::Answer(lacks("a line of it is not a server-sent event".to_owned()))))
            }
        })
    })
}

/// Length of an event so far, in bytes. An empty line ends the event.
#[derive(Debug, Default)]
struct Length {
    event: usize,
    line: usize,
    /// First bytes of the current line.
    begin: [u8; 6],
    /// True after a line that begins as no field or comment does: the response is a page or a JSON object.
    is_no_event: bool,
}

/// Beginnings of lines that an event may have.
const LINES: [&[u8]; 5] = [b"data:", b":", b"event:", b"id:", b"retry:"];

impl Length {
    fn add(&mut self, byte: u8) {
        self.event += 1;
        match byte {
            b'\n' if self.line == 0 => self.event = 0,
            b'\n' => self.line = 0,
            b'\r' => {}
            _ => {
                if let Some(place) = self.begin.get_mut(self.line) {
                    *place = byte;
                    let begin = &self.begin[..=self.line];
                    let agrees = |line: &&[u8]| line.iter().zip(begin).all(|(expected, byte)| expected == byte);
                    self.is_no_event |= !LINES.iter().any(agrees);
                }
                self.line += 1;
            }
        }
    }
}

/// Reads the data of an event; `None` if the gateway does not use it.
fn read(data: &str) -> Result<Option<Event>, GatewayError> {
    if data == DONE {
        return Ok(Some(Event::Done));
    }
    let no_event = |error| lacks(format!("an event of it: {error}"));
    let raw: RawEvent = serde_json::from_str(data).map_err(no_event)?;
    if let Some(error) = raw.error {
        return Ok(Some(failure(&error)));
    }
    if raw.object.is_some_and(|object| object == "error") {
        return Ok(Some(failure(&serde_json::from_str(data).map_err(no_event)?)));
    }
    let mut choices = raw.choices.ok_or_else(|| lacks("an event of it has no choices".to_owned()))?;
    match (choices.pop(), choices.is_empty()) {
        // An event of usage statistics, without choices.
        (None, _) => Ok(None),
        (Some(choice), true) => {
            let ids = choice.token_ids.ok_or_else(|| lacks("no token_ids (return_token_ids)".to_owned()))?;
            let end = choice
                .finish_reason
                .map(|reason| if GIVEN_UP.contains(&reason.as_str()) { End::GivenUp } else { End::OfText });
            Ok(Some(Event::Tokens(Chunk { ids, prompt: choice.prompt_token_ids, end })))
        }
        (Some(_), false) => Err(lacks(format!("{} texts in place of one", choices.len() + 1))),
    }
}

/// Reads an error of the engine, which is a text, or an object with a message and perhaps a status in `code`.
fn failure(error: &Value) -> Event {
    let text = error.as_str().or_else(|| error["message"].as_str());
    let mut message = text.map_or_else(|| error.to_string(), str::to_owned);
    // The message is shown on one line.
    message.retain(|c| !c.is_control());
    let code = &error["code"];
    let status = code.as_u64().or_else(|| code.as_str()?.parse().ok()).and_then(|code| u16::try_from(code).ok());
    Event::Failed { status: status.filter(|status| (400..600).contains(status)).unwrap_or(500), message }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const ANSWER: &[u8] = b": a comment\n\
        data: {\"choices\": [{\"index\": 0, \"text\": \" a\", \"token_ids\": [17], \"prompt_token_ids\": [1, 2]}]}\n\n\
        event: message\r\ndata:{\"choices\": [{\"token_ids\": [5, 6], \"finish_reason\": \"length\"}]}\r\n\r\n\
        data: {\"choices\": [], \"usage\": {\"total_tokens\": 5}}\n\n\
        data: {\"error\": {\"message\": \"out\\nof luck\", \"code\": 503}}\n\n\
        data: [DONE]\n\n";

    /// Reads the events in chunks of bytes, up to the first error.
    fn all(chunks: &[&[u8]], prompt: usize) -> Result<Vec<Event>, Broken<()>> {
        let chunks = futures_util::stream::iter(chunks.iter().map(Ok::<_, ()>));
        events(chunks, prompt).collect::<Vec<_>>().now_or_never().unwrap().into_iter().collect()
    }

    #[test]
    fn an_answer_is_read_wherever_it_is_cut() {
        let expected = [
            Event::Tokens(Chunk { ids: vec![17], prompt: Some(vec![1, 2]), end: None }),
            Event::Tokens(Chunk { ids: vec![5, 6], prompt: None, end: Some(End::OfText) }),
            Event::Failed { status: 503, message: "outof luck".to_owned() },
            Event::Done,
        ];
        for size in 1..ANSWER.len() {
            assert_eq!(all(&ANSWER.chunks(size).collect::<Vec<_>>(), 2).unwrap(), expected, "{size}");
        }
        assert_eq!(all(&[b"data: {\"choices\": [{\"token_ids\": [1]}]}\n"], 0).unwrap(), [], "no end yet");
    }

    #[test]
    fn a_failure_is_read_in_each_form() {
        for (event, status, message) in [
            (r#"{"error": {"message": "slow down", "code": "rate_limit_exceeded"}}"#, 500, "slow down"),
            (r#"{"error": {"message": "dead", "code": "503"}}"#, 503, "dead"),
            (r#"{"error": {"message": "dead", "code": null}, "choices": []}"#, 500, "dead"),
            (r#"{"error": {"message": "dead", "code": 13}}"#, 500, "dead"),
            (r#"{"error": {"message": "dead", "code": 65536}}"#, 500, "dead"),
            (r#"{"error": "Request failed", "error_type": "generation"}"#, 500, "Request failed"),
            (r#"{"error": {"code": 429, "message": null}}"#, 429, r#"{"code":429,"message":null}"#),
            (r#"{"object": "error", "message": "no room", "code": 400}"#, 400, "no room"),
        ] {
            let read = all(&[format!("data: {event}\n\n").as_bytes()], 0).unwrap();
            assert_eq!(read, [Event::Failed { status, message: message.to_owned() }], "{event}");
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for bad in [
            "data: {}\n\n",
            "data: {\"choices\": [{\"text\": \" a\"}]}\n\n",
            "data: {\"choices\": [{\"token_ids\": [-1]}]}\n\n",
            "data: {\"choices\": [{\"token_ids\": [4294967296]}]}\n\n",
            "data: {\"choices\": [{\"token_ids\": [1]}, {\"token_ids\": [1]}]}\n\n",
            "data: nothing\n\n",
            "<html>\n",
            ": alive\n\n[]",
        ] {
            let read = all(&[bad.as_bytes()], 2);
            assert!(matches!(read, Err(Broken::Answer(GatewayError::Answer { .. }))), "{bad}");
        }
        assert!(matches!(all(&[b"data: \xff\n\n"], 0), Err(Broken::Answer(_))));
    }

    #[test]
    fn an_event_without_an_end_is_given_up() {
        for endless in ["x", "\ndata: x", "x\r\n:\n:"] {
            let chunks = vec![endless.as_bytes(); MAX_EVENT_BYTES + 1];
            let chunks = [&[&b":"[..]][..], &chunks[..]].concat();
            assert!(matches!(all(&chunks, 0), Err(Broken::Answer(_))), "{endless:?}");
        }
        let comments = vec![&b": alive\n\n"[..]; MAX_EVENT_BYTES];
        assert_eq!(all(&comments, 0).unwrap(), []);
    }
}
