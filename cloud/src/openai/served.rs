//! The target, as the API needs to know it.

use std::{fmt, sync::Arc};

use outrider_models::Tokenizer;

use super::ChatTemplate;

/// The target, as the API needs to know it.
#[derive(Clone)]
pub struct Served {
    /// What it is called.
    pub name: String,
    /// What the draft is called that browsers load.
    pub draft_name: String,
    /// The token that begins a text, if the target has one.
    pub bos_token_id: Option<u32>,
    /// Its tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    /// How a conversation becomes a prompt.
    pub template: ChatTemplate,
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").field("name", &self.name).field("draft_name", &self.draft_name).finish_non_exhaustive()
    }
}
