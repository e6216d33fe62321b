//! Settings that a running server takes over at SIGHUP: the certificate, the tokens and the log's level.

use tracing_subscriber::filter::LevelFilter;

use super::access::AccessArgs;
use crate::{
    app::{Tokens, tls::Tls},
    cli::{log, output::CommandError},
};

/// Parts of a running server whose settings can change.
pub(super) struct Reloadable {
    pub(super) tokens: Option<Tokens>,
    pub(super) tls: Option<Tls>,
}

impl Reloadable {
    /// Takes over the settings. Each of the three is taken over or left as it was; the log has the reason.
    pub(super) fn reload(&self, settings: Result<(&AccessArgs, LevelFilter), &CommandError>) {
        let (access, log_level) = match settings {
            Ok(settings) => settings,
            Err(error) => {
                tracing::error!(%error, "nothing was reloaded: the settings cannot be read");
                return;
            }
        };
        for (part, result) in [
            ("tokens", self.tokens(access)),
            ("certificate", self.certificate(access)),
            ("log level", log::set_level(log_level)),
        ] {
            match result {
                Ok(true) => tracing::info!(part, "reloaded"),
                Ok(false) => {}
                Err(error) => tracing::error!(part, %error, "not reloaded; the previous one stays in use"),
            }
        }
    }

    fn tokens(&self, access: &AccessArgs) -> Result<bool, CommandError> {
        match (&self.tokens, access.tokens()?) {
            (Some(tokens), Some(new)) => tokens.replace(new),
            (None, None) => return Ok(false),
            _ => return Err("--tokens-file was added or removed, which needs a restart".into()),
        }
        Ok(true)
    }

    fn certificate(&self, access: &AccessArgs) -> Result<bool, CommandError> {
        match (&self.tls, access.tls()?) {
            (Some(tls), Some(new)) => tls.replace(new),
            (None, None) => return Ok(false),
            _ => return Err("--tls-cert was added or removed, which needs a restart".into()),
        }
        Ok(true)
    }
}
