//! Files of a server beside its sessions' address.

use std::time::Duration;

use reqwest::{Client, Url};

/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Fetches `path` of the server with this session's address, for the same model; `None` if it does not give it.
pub(super) async fn fetch(session: &str, path: &str, token: Option<&str>) -> Option<Vec<u8>> {
    let request = Client::builder().timeout(TIMEOUT).build().ok()?.get(url(session, path)?);
    let request = match token {
        Some(token) => request.bearer_auth(token),
        None => request,
    };
    let answered = async { request.send().await?.error_for_status()?.bytes().await }.await;
    answered.inspect_err(|error| tracing::debug!(%error, "the server does not give {path}")).ok().map(Into::into)
}

/// Address of `path` beside a session's address, for the same model.
fn url(session: &str, path: &str) -> Option<Url> {
    let session = Url::parse(session).ok()?;
    let mut url = session.join(path).ok()?;
    if let Some((_, model)) = session.query_pairs().find(|(key, _)| key == "model") {
        url.query_pairs_mut().append_pair("model", &model);
    }
    let scheme = if url.scheme() == "wss" { "https" } else { "http" };
    url.set_scheme(scheme).ok()?;
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_beside_the_sessions() {
        let url = |session: &str| url(session, "v1/info").unwrap().to_string();
        assert_eq!(url("ws://127.0.0.1:8787/session"), "http://127.0.0.1:8787/v1/info");
        assert_eq!(url("wss://example.org/outrider/session?a=1"), "https://example.org/outrider/v1/info");
        assert_eq!(url("ws://127.0.0.1/session?a=1&model=b%2Fc"), "http://127.0.0.1/v1/info?model=b%2Fc");
    }
}
