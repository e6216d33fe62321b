//! The target, as the API needs to know it.

use std::{fmt, str::FromStr, sync::Arc};

use outrider_models::{ChatTemplate, Tokenizer};

/// The target, as the API needs to know it.
#[derive(Clone)]
pub struct Served {
    /// What it is called.
    pub name: String,
    /// What the draft is called that browsers load.
    pub draft_name: String,
    /// Other servers, with other models, that the page offers to go to.
    pub elsewhere: Vec<Elsewhere>,
    /// The token that begins a text, if the target has one.
    pub bos_token_id: Option<u32>,
    /// Its tokenizer.
    pub tokenizer: Arc<Tokenizer>,
    /// How a conversation becomes a prompt.
    pub template: Arc<ChatTemplate>,
}

/// Another server.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Elsewhere {
    /// What there is, as a link says it.
    pub name: String,
    /// The address of its page.
    pub url: String,
}

impl FromStr for Elsewhere {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('=').filter(|(name, url)| {
            let is_page = url.starts_with("http://") || url.starts_with("https://");
            !name.trim().is_empty() && is_page && url.parse::<axum::http::Uri>().is_ok()
        });
        let (name, url) = parts.ok_or("it must be a name, =, and the http address of a page")?;
        Ok(Self { name: name.trim().to_owned(), url: url.to_owned() })
    }
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Served").field("name", &self.name).field("draft_name", &self.draft_name).finish_non_exhaustive()
    }
}
