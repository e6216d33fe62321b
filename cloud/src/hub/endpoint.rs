//! Requests to the hub, and to the hosts that it redirects to.
//!
//! Redirects are followed here, so that the token goes to one origin alone: the scheme, host and port of the endpoint.
//! reqwest's own policy is not enough. It compares hosts and ports, not schemes, and only the last two addresses: a
//! host that was redirected to and redirects to itself receives the headers of the first request again (reqwest 0.12).

use std::{env, error::Error, fmt, io, time::Duration};

use reqwest::{
    Client, Method, Response, StatusCode, Url,
    header::{ACCEPT_ENCODING, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, LOCATION, RANGE, RETRY_AFTER},
    redirect::Policy,
};

/// Limit on the redirects of one request.
const MOST_REDIRECTS: usize = 10;
/// Pauses before a request that was refused temporarily, or a download that was cut off, is repeated.
pub(super) const PAUSES: [Duration; 4] =
    [Duration::from_millis(500), Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4)];
/// Longest pause that a response may ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Time limit for a connection, and for the next bytes of a response.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Header of the hub's redirects: the version of a file that is stored elsewhere.
pub(super) const LINKED_ETAG: HeaderName = HeaderName::from_static("x-linked-etag");

/// Reason why a request has no usable response.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// `HF_ENDPOINT` is not the address of a server.
    #[error("HF_ENDPOINT is {given:?}, which is not a server's address: write https://HOST or http://HOST:PORT")]
    Endpoint {
        /// The value of the variable.
        given: String,
    },
    /// The token cannot be sent in a header.
    #[error("the token for the hub has an invalid character: see HF_TOKEN, or the file that HF_TOKEN_PATH names")]
    Token,
    /// The connection failed, or what came over it cannot be read.
    #[error("the request to {host} failed: {cause}")]
    Connection {
        /// The host, with its port if it is not the scheme's.
        host: String,
        /// The innermost cause.
        cause: String,
    },
    /// The status of the response is not one of success.
    #[error("{host} answered {path} with {status}")]
    Status {
        /// The host that answered, which may be one that the hub redirected to.
        host: String,
        /// The path of the request, without its query.
        path: String,
        /// The status of the answer.
        status: StatusCode,
    },
    /// The request leads to more redirects than are followed.
    #[error("{host} redirected more than {MOST_REDIRECTS} times")]
    Redirects {
        /// The host of the last redirect.
        host: String,
    },
    /// A header is absent, or has a value that cannot be used.
    #[error(
        "{host} answered {path} with the header {name} {}",
        .value.as_deref().map_or("absent".to_owned(), |value| format!("{value:?}"))
    )]
    Header {
        /// The host that answered.
        host: String,
        /// The path of the request, without its query.
        path: String,
        /// The name of the header.
        name: HeaderName,
        /// Its value, if it is there.
        value: Option<String>,
    },
    /// The hub's id of a commit cannot be the name of a folder.
    #[error("the hub names {given:?} as the last commit, which is not a commit")]
    Commit {
        /// The name that the hub gave.
        given: String,
    },
    /// The length of a download differs from that of the file.
    #[error("{host} sent {received} of {expected} bytes of {path}")]
    Length {
        /// The host that answered.
        host: String,
        /// The path of the request, without its query.
        path: String,
        /// Number of bytes in the cache.
        received: u64,
        /// Length of the file, in bytes.
        expected: u64,
    },
    /// A file of the cache cannot be written.
    #[error("{path} cannot be written: {error}")]
    Cache {
        /// The path of the file or folder.
        path: String,
        /// The error of the operating system.
        error: io::Error,
    },
}

impl RequestError {
    /// Status of the response, if that is the error.
    pub(super) fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    pub(super) fn of_status(response: &Response) -> Self {
        Self::Status { host: host(response.url()), path: path(response.url()), status: response.status() }
    }

    pub(super) fn of_header(response: &Response, name: HeaderName) -> Self {
        let value = response.headers().get(&name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        Self::Header { host: host(response.url()), path: path(response.url()), name, value }
    }

    /// Error of a connection without its address, whose query may be a signature that opens a private file.
    pub(super) fn of_connection(url: &Url, error: &reqwest::Error) -> Self {
        let mut cause: &dyn Error = error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        Self::Connection { host: host(url), cause: cause.to_string() }
    }
}

/// Host of an address, with its port if it is not the scheme's default.
pub(super) fn host(url: &Url) -> String {
    let name = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
}

/// The path of an address, without its query.
pub(super) fn path(url: &Url) -> String {
    url.path().to_owned()
}

/// The hub, or a mirror of it.
pub(super) struct Endpoint {
    url: Url,
    /// Value of `Authorization` for the origin of `url`.
    authorization: Option<HeaderValue>,
    client: Client,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.url.as_str().trim_end_matches('/'))
    }
}

/// Address of the hub that `HF_ENDPOINT` names, or else Hugging Face's.
pub(super) fn address() -> String {
    let given = env::var("HF_ENDPOINT").unwrap_or_default();
    match given.trim().trim_end_matches('/') {
        "" => "https://huggingface.co".to_owned(),
        given => given.to_owned(),
    }
}

impl Endpoint {
    /// The hub at this address, with the token to send to it.
    pub(super) fn new(address: &str, token: Option<&str>) -> Result<Self, RequestError> {
        let refused = || RequestError::Endpoint { given: address.to_owned() };
        let url = Url::parse(address).map_err(|_| refused())?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused());
        }
        let authorization = |token: &str| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}")).map_err(|_| RequestError::Token)?;
            value.set_sensitive(true);
            Ok(value)
        };
        let client = Client::builder()
            .redirect(Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .user_agent(concat!("outrider/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| RequestError::of_connection(&url, &error))?;
        Ok(Self { authorization: token.map(authorization).transpose()?, url, client })
    }

    /// Requests an address, starting from a byte. Returns the response after all redirects.
    pub(super) async fn get(&self, url: &Url, from: u64) -> Result<Response, RequestError> {
        self.follow(Method::GET, url, from).await
    }

    /// Requests the headers of a file: those of the first response that has its version.
    pub(super) async fn head(&self, url: &Url) -> Result<Response, RequestError> {
        self.follow(Method::HEAD, url, 0).await
    }

    async fn follow(&self, method: Method, url: &Url, from: u64) -> Result<Response, RequestError> {
        let mut url = url.clone();
        for _ in 0..=MOST_REDIRECTS {
            let response = self.ask(&method, &url, from).await?;
            // Signed addresses of files elsewhere often allow GET only.
            let is_enough = method == Method::HEAD && response.headers().contains_key(LINKED_ETAG);
            let Some(location) = response.headers().get(LOCATION).filter(|_| response.status().is_redirection()) else {
                return Ok(response);
            };
            if is_enough {
                return Ok(response);
            }
            let next = location.to_str().ok().and_then(|location| url.join(location).ok());
            url = next.ok_or_else(|| RequestError::of_header(&response, LOCATION))?;
        }
        Err(RequestError::Redirects { host: host(&url) })
    }

    /// Sends a request to one host, and repeats it while the host refuses temporarily.
    async fn ask(&self, method: &Method, url: &Url, from: u64) -> Result<Response, RequestError> {
        let mut pauses = PAUSES.into_iter();
        loop {
            let mut request = self.client.request(method.clone(), url.clone()).header(ACCEPT_ENCODING, "identity");
            if from > 0 {
                request = request.header(RANGE, format!("bytes={from}-"));
            }
            if let Some(authorization) = self.authorization_for(url) {
                request = request.header(AUTHORIZATION, authorization);
            }
            let response = request.send().await.map_err(|error| RequestError::of_connection(url, &error))?;
            if !is_for_now(response.status()) {
                return Ok(response);
            }
            let Some(pause) = pauses.next().map(|pause| retry_after(response.headers()).unwrap_or(pause)) else {
                return Ok(response);
            };
            if pause > LONGEST_PAUSE {
                return Ok(response);
            }
            tracing::info!(host = host(url), status = %response.status(), ?pause, "asking again after a pause");
            tokio::time::sleep(pause).await;
        }
    }

    /// Value of `Authorization` for an address; `None` outside the endpoint's origin.
    fn authorization_for(&self, url: &Url) -> Option<&HeaderValue> {
        self.authorization.as_ref().filter(|_| url.origin() == self.url.origin())
    }

    /// Address of a path below the endpoint. A slash within a segment is escaped.
    pub(super) fn at<'a>(&self, path: impl IntoIterator<Item = &'a str>) -> Url {
        let mut url = self.url.clone();
        // Addresses of http and https always have path segments.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }
}

/// Returns true for refusals after which the same request may succeed.
fn is_for_now(status: StatusCode) -> bool {
    use StatusCode as S;
    matches!(status, S::TOO_MANY_REQUESTS | S::BAD_GATEWAY | S::SERVICE_UNAVAILABLE | S::GATEWAY_TIMEOUT)
}

/// Pause in seconds that a response asks for. The header's other form, a date, is left to [`PAUSES`].
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_for_the_origin_of_the_endpoint_alone() {
        let endpoint = Endpoint::new("https://hub.example:8443/mirror", Some("secret")).unwrap();
        let is_shown = |url: &str| endpoint.authorization_for(&Url::parse(url).unwrap()).is_some();
        assert!(is_shown("https://hub.example:8443/mirror/me/model"));
        assert!(is_shown("https://HUB.example:8443/elsewhere"));
        for other in [
            "https://hub.example/mirror/me/model",
            "https://hub.example:8444/mirror/me/model",
            "http://hub.example:8443/mirror/me/model",
            "https://cdn.hub.example:8443/me/model",
            "https://hub.example.com:8443/me/model",
            "https://hub.example:8443@elsewhere.example/me/model",
        ] {
            assert!(!is_shown(other), "{other}");
        }
        let endpoint = Endpoint::new("https://hub.example", None).unwrap();
        assert_eq!(endpoint.authorization_for(&Url::parse("https://hub.example/me").unwrap()), None);
    }

    #[test]
    fn addresses_keep_the_endpoints_path_and_escape_names() {
        let endpoint = Endpoint::new("http://127.0.0.1:80/mirror/", None).unwrap();
        let url = endpoint.at("me/model/resolve/main/a b?#%2e.gguf".split('/'));
        assert_eq!(url.as_str(), "http://127.0.0.1/mirror/me/model/resolve/main/a%20b%3F%23%252e.gguf");
        let url = endpoint.at(["revision", "refs/pr/1"]);
        assert_eq!(url.as_str(), "http://127.0.0.1/mirror/revision/refs%2Fpr%2F1");
    }

    #[test]
    fn what_is_no_address_or_no_token_is_refused() {
        for wrong in ["huggingface.co", "ftp://hub.example", "file:///hub", "http://"] {
            assert!(matches!(Endpoint::new(wrong, None), Err(RequestError::Endpoint { .. })), "{wrong}");
        }
        let error = Endpoint::new("http://hub.example", Some("line\nend")).map(|_| ()).unwrap_err();
        assert!(matches!(error, RequestError::Token) && !error.to_string().contains("line"), "{error}");
    }
}
