//! Who may use the server.

use std::{net::IpAddr, str::FromStr};

use super::{
    client_address::Proxies,
    origin::{Origins, Relation},
    token::Tokens,
};

/// Who may use the server.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// The sites whose pages may.
    pub origins: Origins,
    /// The tokens of which one has to be shown, if any has to.
    pub tokens: Option<Tokens>,
    /// Whose word counts for where a request comes from.
    pub proxies: Proxies,
    /// Who may ask for evidence.
    pub evidence: EvidencePolicy,
}

/// Who may ask a session for evidence: the target's whole distribution at each judged draft, far more than its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EvidencePolicy {
    /// Nobody.
    Never,
    /// Pages of the server's own, and programs, which are no pages; not pages from other sites.
    #[default]
    SameOrigin,
    /// Everybody who may open a session.
    Always,
}

impl EvidencePolicy {
    /// The word on the command line.
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

/// Who has sent a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) address: IpAddr,
    pub(crate) relation: Relation,
}
