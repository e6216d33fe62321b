//! Prompts and references of a user's own, from a file of JSON lines, in place of the built-in ones.
//!
//! A line is an object with a `prompt` (text that the models continue) or `messages` (a conversation, for the model's
//! chat template), and with a `reference`, the right answer, where an item needs one. Other fields are ignored.

use outrider_models::{Message, Tokenizer};
use serde::Deserialize;

use super::sessions::Failure;

/// The text that a line asks the models to continue.
#[derive(Debug, Clone, PartialEq)]
pub enum Ask {
    /// Text that is continued as it is.
    Prompt(String),
    /// A conversation, of which the model's chat template makes the text.
    Messages(Vec<Message>),
}

/// A line of a file: a question, and its answer if there is one.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// The text to continue.
    pub ask: Ask,
    /// The right continuation.
    pub reference: Option<String>,
}

/// Prompts as token ids, each with its reference.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Data {
    /// Token ids of each prompt.
    pub prompts: Vec<Vec<u32>>,
    /// Reference of each prompt, if it has one.
    pub references: Vec<Option<String>>,
}

impl Data {
    /// Token ids of each prompt followed by its reference.
    ///
    /// # Errors
    /// If the tokenizer refuses a reference.
    pub fn texts(&self, tokenizer: &Tokenizer) -> Result<Vec<Vec<u32>>, Failure> {
        let text = |(prompt, reference): (&Vec<u32>, &Option<String>)| {
            let reference = tokenizer.encode_prompt(None, reference.as_deref().unwrap_or_default())?;
            Ok([&prompt[..], &reference].concat())
        };
        self.prompts.iter().zip(&self.references).map(text).collect()
    }
}

/// Error of a file of prompts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The file has fewer lines than errors can be estimated from.
    #[error("a file of prompts needs at least 2 lines of JSON; it has {0}")]
    TooFew(usize),
    /// A line is no JSON object, or a field has the wrong type.
    #[error("line {line} is not a JSON object with a prompt or messages: {source}")]
    Json {
        /// Number of the line, from 1.
        line: usize,
        /// Error of the JSON reader.
        source: serde_json::Error,
    },
    /// A line has neither a prompt nor messages, or both.
    #[error("line {line} needs either \"prompt\" or \"messages\"")]
    Ask {
        /// Number of the line, from 1.
        line: usize,
    },
}

#[derive(Deserialize)]
struct Fields {
    prompt: Option<String>,
    messages: Option<Vec<Message>>,
    reference: Option<String>,
}

/// Reads the lines of a file; empty ones are skipped.
///
/// # Errors
/// If a line is not what it should be, or there are fewer than two.
pub fn read(text: &str) -> Result<Vec<Line>, DataError> {
    let numbered = (1..).zip(text.lines()).filter(|(_, text)| !text.trim().is_empty());
    let lines = numbered.map(|(line, text)| {
        let fields: Fields = serde_json::from_str(text).map_err(|source| DataError::Json { line, source })?;
        let ask = match (fields.prompt, fields.messages) {
            (Some(prompt), None) => Ask::Prompt(prompt),
            (None, Some(messages)) => Ask::Messages(messages),
            _ => return Err(DataError::Ask { line }),
        };
        Ok(Line { ask, reference: fields.reference })
    });
    let lines = lines.collect::<Result<Vec<_>, _>>()?;
    if lines.len() < 2 { Err(DataError::TooFew(lines.len())) } else { Ok(lines) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_prompts_or_messages_and_may_have_references() {
        let text = "{\"prompt\": \"Once\", \"reference\": \" upon a time\", \"id\": 7}\n\n\
                    {\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}\n";
        let lines = read(text).unwrap();
        let (prompt, hello) = (Ask::Prompt("Once".to_owned()), Message::new("user", "Hello"));
        assert_eq!(lines[0], Line { ask: prompt, reference: Some(" upon a time".to_owned()) });
        assert_eq!(lines[1], Line { ask: Ask::Messages(vec![hello]), reference: None });
    }

    #[test]
    fn errors_name_the_line_and_what_it_lacks() {
        let error = |text: &str| read(text).unwrap_err().to_string();
        let good = "{\"prompt\": \"a\"}\n";
        assert_eq!(error(good), "a file of prompts needs at least 2 lines of JSON; it has 1");
        assert_eq!(error(&format!("{good}{{\"reference\": \"b\"}}")), "line 2 needs either \"prompt\" or \"messages\"");
        let both = "{\"prompt\": \"a\", \"messages\": []}";
        assert_eq!(error(&format!("{good}\n{both}")), "line 3 needs either \"prompt\" or \"messages\"");
        assert!(
            error(&format!("{good}plain text")).starts_with("line 2 is not a JSON object with a prompt or messages")
        );
        let nameless = "{\"messages\": [{\"content\": \"Hello\"}]}";
        assert!(error(&format!("{good}{nameless}")).starts_with("line 2 is not a JSON object"));
    }
}
