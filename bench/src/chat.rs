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
