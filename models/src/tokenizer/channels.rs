//! Channels of gpt-oss's answers (OpenAI's harmony format), as the tags that other models write.
//!
//! An answer is a list of messages, `<|start|>assistant<|channel|>NAME to=RECIPIENT<|message|>TEXT<|end|>`, whose marks
//! are special tokens. The analysis becomes `<think>TEXT</think>`, a call of a function
//! `<tool_call>{"name": …, "arguments": TEXT}</tool_call>`, and everything else its text alone. Readers of reasoning
//! and calls know one form.

use serde_json::Value;
use tokenizers::Tokenizer;

/// A special token that separates the parts of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// `<|start|>`, before the author.
    Start,
    /// `<|channel|>`, before the channel.
    Channel,
    /// `<|constrain|>`, before the type of the text.
    Constrain,
    /// `<|message|>`, before the text.
    Message,
    /// `<|end|>`, `<|call|>` or `<|return|>`, after the text.
    End,
}

/// Ids of the marks in a vocabulary.
#[derive(Debug, Clone)]
pub(super) struct Marks([(u32, Mark); 7]);

impl Marks {
    /// The marks of a tokenizer; `None` if it lacks one of them.
    pub(super) fn of(tokenizer: &Tokenizer) -> Option<Self> {
        let id = |text: &str| {
            let is_special = tokenizer.get_added_vocabulary().is_special_token(text);
            tokenizer.token_to_id(text).filter(|_| is_special)
        };
        Some(Self([
            (id("<|start|>")?, Mark::Start),
            (id("<|channel|>")?, Mark::Channel),
            (id("<|constrain|>")?, Mark::Constrain),
            (id("<|message|>")?, Mark::Message),
            (id("<|end|>")?, Mark::End),
            (id("<|call|>")?, Mark::End),
            (id("<|return|>")?, Mark::End),
        ]))
    }

    /// The mark of a token, if it is one.
    pub(super) fn mark(&self, id: u32) -> Option<Mark> {
        self.0.iter().find(|(of, _)| *of == id).map(|(_, mark)| *mark)
    }
}

/// Position in an answer of channels.
#[derive(Debug, Clone, Default)]
pub(super) struct Channels {
    place: Place,
    /// True if a message without tags has had a text.
    has_answered: bool,
}

#[derive(Debug, Clone, Default)]
enum Place {
    /// In a text without tags, or before the first mark.
    #[default]
    Text,
    /// At the first word of an answer without a mark, with the text so far: a recipient, or text all the same, as a
    /// grammar may force it.
    Begun(String),
    /// Between a mark and the next text, with the words there; a channel's name follows [`CHANNEL`].
    Header(String),
    Reasoning,
    Call,
}

const CHANNEL: &str = "channel=";
const RECIPIENT: &str = "to=functions.";

impl Channels {
    /// Begins an answer after a prompt that ends within a header.
    pub(super) fn begin_answer(&mut self) {
        if matches!(self.place, Place::Header(_)) {
            self.place = Place::Begun(String::new());
        }
    }

    /// Takes a mark and returns the tags that stand for it.
    pub(super) fn take(&mut self, mark: Mark) -> String {
        let header = match std::mem::take(&mut self.place) {
            Place::Header(header) | Place::Begun(header) => header,
            Place::Reasoning if mark != Mark::Message => return self.enter(mark, "\n</think>\n\n"),
            Place::Call if mark != Mark::Message => return self.enter(mark, "}\n</tool_call>\n"),
            Place::Text if mark != Mark::Message => return self.enter(mark, ""),
            place => {
                self.place = place;
                return String::new();
            }
        };
        match mark {
            Mark::Message => self.open(&header),
            Mark::Start | Mark::End => self.enter(mark, ""),
            Mark::Channel => self.go_on(header, CHANNEL),
            Mark::Constrain => self.go_on(header, ""),
        }
    }

    /// Takes text between marks and returns what the reader sees of it.
    pub(super) fn text(&mut self, text: String) -> String {
        match &mut self.place {
            Place::Begun(begun) => {
                begun.push_str(&text);
                let words = begun.trim_start();
                if RECIPIENT.starts_with(words) {
                    return String::new();
                }
                let begun = std::mem::take(begun);
                if begun.trim_start().starts_with(RECIPIENT) {
                    self.place = Place::Header(begun);
                    return String::new();
                }
                self.place = Place::Text;
                self.text(begun)
            }
            Place::Header(header) => {
                header.push_str(&text);
                String::new()
            }
            Place::Text => {
                self.has_answered |= !text.is_empty();
                text
            }
            Place::Reasoning | Place::Call => text,
        }
    }

    fn enter(&mut self, mark: Mark, tag: &str) -> String {
        self.place = match mark {
            Mark::End | Mark::Message => Place::Text,
            Mark::Start | Mark::Constrain => Place::Header(String::new()),
            Mark::Channel => Place::Header(CHANNEL.to_owned()),
        };
        tag.to_owned()
    }

    fn go_on(&mut self, header: String, word: &str) -> String {
        self.place = Place::Header(header + " " + word);
        String::new()
    }

    fn open(&mut self, header: &str) -> String {
        let word = |begin| header.split_whitespace().find_map(|word| word.strip_prefix(begin));
        if let Some(name) = word(RECIPIENT) {
            self.place = Place::Call;
            return format!("<tool_call>\n{{\"name\": {}, \"arguments\": ", Value::from(name));
        }
        if word(CHANNEL) == Some("analysis") {
            self.place = Place::Reasoning;
            return "<think>\n".to_owned();
        }
        self.place = Place::Text;
        if self.has_answered { "\n\n".to_owned() } else { String::new() }
    }
}
