//! A streamed answer of `/v1/completions`, from bytes to tokens.
//!
//! The engine sends server-sent events, one to a line, each with the tokens that it has written since the last:
//!
//! ```text
//! data: {"choices": [{"index": 0, "text": " a", "token_ids": [17], "finish_reason": null}]}
//!
//! data: [DONE]
//! ```
//!
//! Whoever is on the other side, a line has an end: what is longer than its text allows is no answer.

use serde::Deserialize;

use super::{completion::lacks, error::GatewayError};

/// The longest line, but for what a prompt's tokens take in it.
const MAX_LINE_BYTES: usize = 64 * 1024;
/// What an id of the prompt may take in the first line, which has them all.
const BYTES_PER_PROMPT_TOKEN: usize = 16;
/// What a line with tokens begins with.
const DATA: &[u8] = b"data:";
/// The last line.
const DONE: &[u8] = b"[DONE]";
/// Reasons to finish by which a text has not ended.
const GIVEN_UP: [&str; 2] = ["abort", "error"];
/// Other lines that an event may have, which say nothing here.
const OTHER_LINES: [&[u8]; 4] = [b":", b"event:", b"id:", b"retry:"];

/// A line that says something.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// What was written since the last one.
    Tokens(Chunk),
    /// The engine has failed meanwhile.
    Failed {
        /// HTTP's number, if the engine told one.
        status: u16,
        /// What it says.
        message: String,
    },
    /// Nothing more comes.
    Done,
}

/// Tokens that came together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) ids: Vec<u32>,
    /// What the engine has read as the prompt, if this is the first.
    pub(super) prompt: Option<Vec<u32>>,
    /// Whether nothing comes behind these, and why.
    pub(super) end: Option<End>,
}

/// Why nothing more comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The text has its end, or its length.
    OfText,
    /// The engine gives it up, as one does that is being stopped. The text goes on elsewhere, or later.
    GivenUp,
}

#[derive(Debug, Deserialize)]
struct RawEvent {
    choices: Option<Vec<RawChoice>>,
    error: Option<RawError>,
}

#[derive(Debug, Deserialize)]
struct RawChoice {
    token_ids: Option<Vec<u32>>,
    prompt_token_ids: Option<Vec<u32>>,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct RawError {
    #[serde(default)]
    message: String,
    code: Option<u16>,
}

/// Bytes that have come and make no line yet, at most one line's.
#[derive(Debug)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// How many of them are known to have no end of a line.
    seen: usize,
    longest: usize,
}

impl Lines {
    /// For the answer to a prompt of so many tokens.
    pub(super) fn new(prompt: usize) -> Self {
        let longest = MAX_LINE_BYTES + BYTES_PER_PROMPT_TOKEN * prompt;
        Self { bytes: Vec::new(), seen: 0, longest }
    }

    /// Whether what has come of a line may be the beginning of one that says something.
    pub(super) fn may_go_on(&self) -> bool {
        let agrees = |begin: &[u8]| begin.iter().zip(&self.bytes).all(|(a, b)| a == b);
        agrees(DATA) || OTHER_LINES.into_iter().any(agrees)
    }

    /// Bytes have come. Gives what they say.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, GatewayError> {
        self.bytes.extend_from_slice(bytes);
        let mut events = Vec::new();
        let mut begin = 0;
        while let Some(length) = self.bytes[self.seen..].iter().position(|&byte| byte == b'\n') {
            let end = self.seen + length;
            events.extend(event(&self.bytes[begin..end])?);
            (begin, self.seen) = (end + 1, end + 1);
        }
        self.bytes.drain(..begin);
        self.seen = self.bytes.len();
        if self.seen > self.longest {
            return Err(lacks(format!("a line of it is longer than {} bytes", self.longest)));
        }
        Ok(events)
    }
}

/// What a line says, if anything.
fn event(line: &[u8]) -> Result<Option<Event>, GatewayError> {
    let line = line.trim_ascii();
    let Some(data) = line.strip_prefix(DATA).map(<[u8]>::trim_ascii) else {
        let says_nothing = line.is_empty() || OTHER_LINES.iter().any(|begin| line.starts_with(begin));
        return if says_nothing { Ok(None) } else { Err(lacks("a line of it is no server-sent event".to_owned())) };
    };
    if data == DONE {
        return Ok(Some(Event::Done));
    }
    let raw: RawEvent = serde_json::from_slice(data).map_err(|error| lacks(format!("an event of it: {error}")))?;
    if let Some(RawError { mut message, code }) = raw.error {
        // Shown on one line.
        message.retain(|c| !c.is_control());
        return Ok(Some(Event::Failed { status: code.unwrap_or(500), message }));
    }
    let mut choices = raw.choices.ok_or_else(|| lacks("an event of it has no choices".to_owned()))?;
    match (choices.pop(), choices.is_empty()) {
        // What it has cost.
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

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &[u8] = b": a comment\n\
        data: {\"choices\": [{\"index\": 0, \"text\": \" a\", \"token_ids\": [17], \"prompt_token_ids\": [1, 2]}]}\n\n\
        event: message\r\ndata:{\"choices\": [{\"token_ids\": [5, 6], \"finish_reason\": \"length\"}]}\r\n\r\n\
        data: {\"choices\": [], \"usage\": {\"total_tokens\": 5}}\n\n\
        data: {\"error\": {\"message\": \"out\\nof luck\", \"code\": 503}}\n\n\
        data: [DONE]\n\n";

    #[test]
    fn an_answer_is_read_wherever_it_is_cut() {
        let expected = [
            Event::Tokens(Chunk { ids: vec![17], prompt: Some(vec![1, 2]), end: None }),
            Event::Tokens(Chunk { ids: vec![5, 6], prompt: None, end: Some(End::OfText) }),
            Event::Failed { status: 503, message: "outof luck".to_owned() },
            Event::Done,
        ];
        for size in 1..ANSWER.len() {
            let mut lines = Lines::new(2);
            let events: Vec<Event> = ANSWER.chunks(size).flat_map(|bytes| lines.push(bytes).unwrap()).collect();
            assert_eq!(events, expected, "{size}");
        }
        assert_eq!(Lines::new(0).push(b"data: {\"choices\": [{\"token_ids\": [1]}]}").unwrap(), [], "no end yet");
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for bad in [
            "<html>\n",
            "data: {}\n",
            "data: {\"choices\": [{\"text\": \" a\"}]}\n",
            "data: {\"choices\": [{\"token_ids\": [-1]}]}\n",
            "data: {\"choices\": [{\"token_ids\": [4294967296]}]}\n",
            "data: {\"choices\": [{\"token_ids\": [1]}, {\"token_ids\": [1]}]}\n",
            "data: nothing\n",
        ] {
            assert!(matches!(Lines::new(2).push(bad.as_bytes()), Err(GatewayError::Answer { .. })), "{bad}");
        }
    }

    #[test]
    fn the_beginning_of_an_event_is_told_from_a_page() {
        for (begun, may_go_on) in [("", true), ("da", true), ("data: {\"cho", true), (": x", true), ("<html>", false)] {
            let mut lines = Lines::new(0);
            lines.push(begun.as_bytes()).unwrap();
            assert_eq!(lines.may_go_on(), may_go_on, "{begun}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_given_up() {
        let mut lines = Lines::new(0);
        let pushed = (0..).map(|_| lines.push(&[b'x'; 1000])).take_while(Result::is_ok).count();
        assert_eq!(pushed, MAX_LINE_BYTES / 1000);
    }
}
