//! Access policy of the server.

use std::{net::IpAddr, str::FromStr, sync::Arc};

use super::{
    client_address::Proxies,
    origin::{Origins, Relation},
    token::{self, Refusal, Tokens},
};
use crate::keys::{Key, Keys};

/// Access policy of the server: origins, tokens, proxies and evidence.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// Origins whose pages may use the server.
    pub origins: Origins,
    /// Bearer tokens, of which a request has to show one; `None` if it need not.
    pub tokens: Option<Tokens>,
    /// Named keys, of which a request may show one instead; `None` if there are none.
    pub keys: Option<Keys>,
    /// Proxies whose `X-Forwarded-For` is trusted.
    pub proxies: Proxies,
    /// Clients that may ask for evidence.
    pub evidence: EvidencePolicy,
}

impl Access {
    /// The client that shows this secret; `None` if the server requires neither a token nor a key.
    pub(crate) fn identify(&self, shown: Option<&str>) -> Result<Option<Arc<Key>>, Refusal> {
        if let Some(keys) = &self.keys {
            let key = keys.find(shown.ok_or(Refusal::Missing)?);
            if key.is_some() || self.tokens.is_none() {
                return key.map(Some).ok_or(Refusal::Unknown);
            }
        }
        let name = token::check(self.tokens.as_ref(), shown)?;
        Ok(name.map(|name| Arc::new(Key::unlimited(name))))
    }
}

/// Clients that may ask a session for evidence: the target's whole distribution at each judged draft, which reveals far
/// more than its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EvidencePolicy {
    /// No client may ask for evidence.
    Never,
    /// Pages of the server's own origin, and programs, which are no pages; no pages of other origins.
    #[default]
    SameOrigin,
    /// Every client that may open a session.
    Always,
}

impl EvidencePolicy {
    /// Name of the policy on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::SameOrigin => "same-origin",
            Self::Always => "always",
        }
    }

    pub(crate) fn allows(self, relation: Relation) -> bool {
        match self {
            Self::Never => false,
            Self::SameOrigin => matches!(relation, Relation::Program | Relation::Same),
            Self::Always => true,
        }
    }
}

impl FromStr for EvidencePolicy {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let all = [Self::Never, Self::SameOrigin, Self::Always];
        all.into_iter().find(|policy| policy.name() == word).ok_or_else(|| {
            let names = all.map(Self::name);
            format!("one of {}", names.join(", "))
        })
    }
}

/// Sender of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) address: IpAddr,
    pub(crate) relation: Relation,
}
