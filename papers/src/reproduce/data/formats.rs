//! Lines of data sets as they are published: JSON objects by their fields, and texts.
//!
//! | data set | fields or file | prompt | reference |
//! |---|---|---|---|
//! | a user's own | `prompt` or `messages`, `reference` | as it is | `reference` |
//! | MT-Bench, Spec-Bench | `turns`, sometimes `reference` | messages, one after the other | `reference` |
//! | CNN/DailyMail | `article`, `highlights`; NAME.story | Summarize: … | the highlights |
//! | XSum | `document`, `summary`; ID.summary | Summarize: … | the summary |
//! | WMT | `translation` with a text for each language | Translate English to German: … | the other language's text |
//! | GSM8K | `question`, `answer` | the question | the answer |
//! | LM1B and other texts | `text`; a line of a file | the first 30 % of the words | the rest |

use outrider_models::Message;
use serde::Deserialize;
use serde_json::Value;

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
    /// Later messages of the user, each sent after the answer to the one before.
    pub later_turns: Vec<String>,
    /// The right continuation.
    pub reference: Option<String>,
    /// Category of the question, as in Spec-Bench and MT-Bench.
    pub category: Option<String>,
}

/// Error of a line of a data file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// The line is no JSON object, or a field has the wrong type.
    #[error("is not a JSON object with a prompt or messages: {0}")]
    Json(#[from] serde_json::Error),
    /// The line has both a prompt and messages.
    #[error("needs either \"prompt\" or \"messages\"")]
    Both,
    /// The line has no known field.
    #[error(
        "has no known field: it needs \"prompt\" or \"messages\", or those of a published data set (\"turns\", \
         \"article\", \"document\", \"translation\", \"question\" or \"text\")"
    )]
    Unknown,
    /// The file has no parts of the format.
    #[error("is not a file of {0}")]
    Format(&'static str),
}

#[derive(Deserialize)]
struct Fields {
    prompt: Option<String>,
    messages: Option<Vec<Message>>,
    reference: Option<Reference>,
    category: Option<String>,
}

/// MT-Bench has a reference for each turn.
#[derive(Deserialize)]
#[serde(untagged)]
enum Reference {
    One(String),
    Turns(Vec<String>),
}

/// Share of a text's words that are its prompt, as in SPRINTER's experiments.
const PROMPT_SHARE: f64 = 0.3;

/// Names of languages of WMT by their codes.
const LANGUAGES: [(&str, &str); 15] = [
    ("cs", "Czech"),
    ("de", "German"),
    ("en", "English"),
    ("es", "Spanish"),
    ("et", "Estonian"),
    ("fi", "Finnish"),
    ("fr", "French"),
    ("hi", "Hindi"),
    ("ja", "Japanese"),
    ("lt", "Lithuanian"),
    ("lv", "Latvian"),
    ("ro", "Romanian"),
    ("ru", "Russian"),
    ("tr", "Turkish"),
    ("zh", "Chinese"),
];

/// Reads a JSON object by its fields; `None` for a text that is too short to be continued.
///
/// # Errors
/// If it has no known fields, or one of the wrong type.
pub fn of_json(value: Value) -> Result<Option<Line>, LineError> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    if !value.is_object() || ["prompt", "messages"].iter().any(|name| value.get(name).is_some()) {
        let Fields { prompt, messages, reference, category } = serde_json::from_value(value)?;
        let ask = match (prompt, messages) {
            (Some(prompt), None) => Ask::Prompt(prompt),
            (None, Some(messages)) => Ask::Messages(messages),
            _ => return Err(LineError::Both),
        };
        let reference = reference.map(Reference::joined);
        return Ok(Some(Line { ask, later_turns: Vec::new(), reference, category }));
    }
    if value.get("turns").is_some() {
        #[derive(Deserialize)]
        struct Question {
            turns: Vec<String>,
            reference: Option<Reference>,
            category: Option<String>,
        }
        let Question { turns, reference, category } = serde_json::from_value(value)?;
        let mut turns = turns.into_iter();
        let first = turns.next().ok_or(LineError::Unknown)?;
        let line = asked(first, reference.map(Reference::joined));
        return Ok(Some(Line { later_turns: turns.collect(), category, ..line }));
    }
    if let (Some(text), summary) = (text("article").or(text("document")), text("highlights").or(text("summary"))) {
        return Ok(Some(summarized(text, summary)));
    }
    if let Some(pair) = value.get("translation").and_then(Value::as_object) {
        return translated(pair).map(Some).ok_or(LineError::Unknown);
    }
    if let Some(question) = text("question") {
        return Ok(Some(asked(question.to_owned(), text("answer").map(str::to_owned))));
    }
    Ok(of_text(text("text").ok_or(LineError::Unknown)?))
}

/// A text: its first words are to be continued, and the rest is the reference. `None` for fewer than two words.
pub fn of_text(text: &str) -> Option<Line> {
    let text = text.trim();
    let starts: Vec<usize> =
        text.split_whitespace().map(|word| word.as_ptr() as usize - text.as_ptr() as usize).collect();
    let prompt = ((starts.len() as f64 * PROMPT_SHARE).round() as usize).max(1);
    let (prompt, rest) = text.split_at(*starts.get(prompt)?);
    let ask = Ask::Prompt(prompt.trim_end().to_owned());
    let space = &prompt[prompt.trim_end().len()..];
    Some(Line { ask, later_turns: Vec::new(), reference: Some(format!("{space}{rest}")), category: None })
}

/// An article of CNN/DailyMail as its authors publish it: paragraphs, then highlights, each after a line `@highlight`.
///
/// # Errors
/// If it has no highlight.
pub fn of_story(text: &str) -> Result<Line, LineError> {
    let mut parts = text.split("@highlight").map(str::trim);
    let article = parts.next().unwrap_or_default();
    let highlights: Vec<&str> = parts.collect();
    if highlights.is_empty() {
        return Err(LineError::Format("CNN/DailyMail: there is no line \"@highlight\""));
    }
    Ok(summarized(article, Some(&highlights.join("\n"))))
}

/// An article of XSum as its authors publish it: parts, each after its name in `[SN]` marks.
///
/// # Errors
/// If a part is missing.
pub fn of_summary(text: &str) -> Result<Line, LineError> {
    let parts: Vec<&str> = text.split("[SN]").map(str::trim).collect();
    let part = |name| parts.iter().position(|part| *part == name).and_then(|index| parts.get(index + 1)).copied();
    match (part("RESTBODY"), part("FIRST-SENTENCE")) {
        (Some(document), Some(summary)) => Ok(summarized(document, Some(summary))),
        _ => Err(LineError::Format("XSum: it has no [SN]FIRST-SENTENCE[SN] and [SN]RESTBODY[SN]")),
    }
}

fn summarized(text: &str, summary: Option<&str>) -> Line {
    asked(format!("Summarize: {text}"), summary.map(str::to_owned))
}

/// From English, or else from the first language.
fn translated(pair: &serde_json::Map<String, Value>) -> Option<Line> {
    let mut pair: Vec<(&str, &str)> =
        pair.iter().filter_map(|(code, text)| Some((&code[..], text.as_str()?))).collect();
    pair.sort_by_key(|(code, _)| *code != "en");
    let [(from, text), (to, reference)] = pair[..] else { return None };
    Some(asked(format!("Translate {} to {}: {text}", language(from), language(to)), Some(reference.to_owned())))
}

/// Name of a language, or else its code.
fn language(code: &str) -> &str {
    LANGUAGES.iter().find(|(known, _)| *known == code).map_or(code, |(_, name)| name)
}

fn asked(message: String, reference: Option<String>) -> Line {
    let ask = Ask::Messages(vec![Message::new("user", &message)]);
    Line { ask, later_turns: Vec::new(), reference, category: None }
}

impl Reference {
    fn joined(self) -> String {
        match self {
            Self::One(text) => text,
            Self::Turns(texts) => texts.join("\n"),
        }
    }
}
