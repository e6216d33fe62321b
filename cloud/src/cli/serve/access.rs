//! Options for access to the server and for TLS.

use std::{fs, path::PathBuf, str::FromStr, sync::Arc};

use clap::Args;
use ipnet::IpNet;

use super::key_file;
use crate::{
    app::{Access, EvidencePolicy, Origin, Origins, Proxies, Tokens, tls},
    cli::output::CommandError,
};

/// Options for access to the server and for TLS.
#[derive(Debug, Args)]
pub(super) struct AccessArgs {
    /// Origin whose pages may use the sessions, the API and the draft model, such as https://example.com, in addition
    /// to the server's own; * allows all. May be given more than once
    #[arg(long, value_name = "ORIGIN", value_delimiter = ',', value_parser = Origin::from_str)]
    allow_origin: Vec<Origin>,
    /// File of bearer tokens: a name and a token on each line. With it, sessions and the API require one
    #[arg(long, value_name = "FILE")]
    tokens_file: Option<PathBuf>,
    /// TOML file of named keys with rights, limits and usage, read again when it changes; docs/operating.md describes
    /// it. With it, sessions and the API require one, or a token of --tokens-file
    #[arg(long, value_name = "FILE")]
    pub(super) keys: Option<PathBuf>,
    /// Clients that may ask for the target's distribution at each judged draft (generate --explain): never, same-origin
    /// (pages of this server and programs, not other pages) or always
    #[arg(long, value_name = "WHO", default_value = "same-origin", value_parser = EvidencePolicy::from_str)]
    evidence: EvidencePolicy,
    /// Address or network of a proxy whose X-Forwarded-For is trusted. May be given more than once
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', value_parser = network)]
    trusted_proxy: Vec<IpNet>,
    /// Certificate chain in PEM; the server then speaks TLS
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate in PEM
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
}

impl AccessArgs {
    pub(super) fn tokens(&self) -> Result<Option<Tokens>, CommandError> {
        let tokens = self.tokens_file.as_deref().map(|path| {
            let text = fs::read_to_string(path)
                .map_err(|error| format!("the tokens {} cannot be read: {error}", path.display()))?;
            Tokens::parse(&text).map_err(|error| format!("the tokens {} cannot be used: {error}", path.display()))
        });
        Ok(tokens.transpose()?)
    }

    pub(super) fn access(&self) -> Result<Access, CommandError> {
        Ok(Access {
            origins: Origins::new(self.allow_origin.clone()),
            tokens: self.tokens()?,
            keys: self.keys.as_deref().map(key_file::load).transpose()?,
            proxies: Proxies::new(self.trusted_proxy.clone()),
            evidence: self.evidence,
        })
    }

    pub(super) fn tls(&self) -> Result<Option<Arc<rustls::ServerConfig>>, CommandError> {
        match (&self.tls_cert, &self.tls_key) {
            (None, None) => Ok(None),
            (Some(cert), Some(key)) => Ok(Some(tls::server_config(cert, key)?)),
            (Some(_), None) => Err("--tls-cert needs --tls-key, the certificate's private key".into()),
            (None, Some(_)) => Err("--tls-key needs --tls-cert, the certificate chain".into()),
        }
    }
}

/// Parses an address, or a network such as 10.0.0.0/8.
fn network(text: &str) -> Result<IpNet, String> {
    let address = text.parse::<std::net::IpAddr>().map(IpNet::from);
    address
        .or_else(|_| text.parse())
        .map_err(|_| "an address such as 10.0.0.1, or a network such as 10.0.0.0/8".to_owned())
}
