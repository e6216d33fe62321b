//! A model that the server serves, and links to other servers.

use std::{fmt, str::FromStr, sync::Arc};

use outrider_models::{ChatTemplate, Tokenizer};
use outrider_speculation::session::cloud::TargetInfo;

use super::pair_file::PairFile;
use crate::{api_drafting::ApiDrafting, sampling::SamplingDefaults, shaping::grammar::Grammars, target::Target};

/// A model that the server serves: the target, and the files with which browsers draft for it.
#[derive(Clone)]
pub struct Served {
    /// Name of the model in the API, and of the target on the page.
    pub name: String,
    /// Name of the draft model that browsers load; `None` if there is none.
    pub draft_name: Option<String>,
    /// The target, through an engine or a gateway.
    pub engine: Target,
    /// Description of the target for sessions.
    pub target: TargetInfo,
    /// Token that begins a text, if the target has one.
    pub bos_token_id: Option<u32>,
    /// Tokenizer of the target and the draft.
    pub tokenizer: Arc<Tokenizer>,
    /// Chat template, which turns a conversation into a prompt.
    pub template: Arc<ChatTemplate>,
    /// Grammars of answers.
    pub grammars: Grammars,
    /// Sampling parameters for requests that give none.
    pub sampling: SamplingDefaults,
    /// Draft model for texts of the API, if they may be drafted.
    pub api_drafting: Option<Arc<ApiDrafting>>,
    /// Draft model for browsers, if there is one.
    pub draft: Option<PairFile>,
    /// Tokenizer.json for browsers.
    pub tokenizer_json: PairFile,
    /// Trained heads of the draft model, if it has any.
    pub heads_safetensors: Option<PairFile>,
    /// Chat template of the target, for browsers.
    pub chat_json: PairFile,
}

/// Another server, to which the page links.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Elsewhere {
    /// Text of the link to it.
    pub name: String,
    /// URL of the other server's page.
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
