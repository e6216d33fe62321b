//! Questions to a chat model, in the form of its template.

use outrider_cloud::{chat, pair::PairPaths};
use outrider_models::{ChatTemplate, Conversation, Message, Model, Tokenizer};

use crate::passes::Failure;

/// Questions of a chat.
pub const QUESTIONS: [&str; 10] = [
    "What is photosynthesis?",
    "How do I make a cup of tea?",
    "Explain what a compiler does.",
    "Give me three tips for learning a language.",
    "Why is the sky blue?",
    "What is the difference between a list and a tuple in Python?",
    "Write a short poem about the sea.",
    "How does a bicycle stay upright?",
    "What should I pack for a hike in the mountains?",
    "Who was Marie Curie?",
];

/// Subjects and forms of questions: an estimate of chances needs more contexts than [`QUESTIONS`] has.
const SUBJECTS: [&str; 16] = [
    "volcanoes",
    "the violin",
    "democracy",
    "bread",
    "penguins",
    "the Moon",
    "electric cars",
    "chess",
    "vaccines",
    "Ancient Egypt",
    "coffee",
    "the stock market",
    "gardening",
    "dreams",
    "bridges",
    "the human heart",
];
const FORMS: [(&str, &str); 5] = [
    ("What are the main facts about ", "?"),
    ("Explain ", " to a child in a few sentences."),
    ("Write a short paragraph about ", "."),
    ("Give me two reasons to learn about ", "."),
    ("How would a teacher begin a lesson about ", "?"),
];

/// Eighty questions, none of which begins like its neighbour.
pub fn many_questions() -> Vec<String> {
    SUBJECTS.iter().flat_map(|subject| FORMS.map(|(begin, end)| format!("{begin}{subject}{end}"))).collect()
}

/// The chat template of a target, and the token that its texts begin with.
pub struct Template {
    template: ChatTemplate,
    first: Option<u32>,
}

impl Template {
    /// Reads the template that belongs to the target at these paths.
    pub fn of(paths: &PairPaths, target: &Model, tokenizer: &Tokenizer) -> Result<Self, Failure> {
        let config = target.config();
        let template = chat::find(None, paths.target.as_deref(), config, tokenizer)?;
        Ok(Self { template, first: config.first_token() })
    }

    /// Token ids of a conversation that begins with `said`, up to where its answer begins.
    pub fn ask(&self, tokenizer: &Tokenizer, said: &str) -> Result<Vec<u32>, Failure> {
        let conversation = Conversation { messages: vec![Message::new("user", said)], ..Conversation::default() };
        Ok(self.template.encode(tokenizer, self.first, &conversation, 0)?)
    }
}
