//! Whose pages may use the server.
//!
//! A browser says in `Origin` which site's page sends a request, and a page cannot change that. So a site cannot have
//! its visitors' browsers use a server that only they can reach. Programs that are no browsers say nothing, or what
//! they like: tokens are for them.

use std::{str::FromStr, time::Duration};

use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use tower_http::cors::{AllowHeaders, AllowOrigin, Any, CorsLayer};

/// For how long a browser need not ask again what another site's page may send; Chromium keeps it no longer.
const ASKED_AGAIN: Duration = Duration::from_secs(7200);

/// A site: scheme, host and port, or `*` for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(HeaderValue);

/// A text that is no origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "an origin has a scheme and a host and no path, such as https://example.com or http://127.0.0.1:5173; * is all of them"
)]
pub struct OriginError;

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        if text == "*" {
            return Ok(Self(HeaderValue::from_static("*")));
        }
        let text = text.strip_suffix('/').unwrap_or(text).to_ascii_lowercase();
        let uri: Uri = text.parse().map_err(|_| OriginError)?;
        let (scheme, authority) = uri.scheme_str().zip(uri.authority()).ok_or(OriginError)?;
        // What browsers send: without the port that the scheme has anyway.
        let usual = if scheme == "https" { ":443" } else { ":80" };
        let authority = authority.as_str();
        let authority = authority.strip_suffix(usual).unwrap_or(authority);
        let is_site = matches!(scheme, "http" | "https") && uri.path() == "/" && !text.ends_with('/');
        let is_plain = uri.query().is_none() && !authority.contains('@');
        if !is_site || !is_plain {
            return Err(OriginError);
        }
        HeaderValue::try_from(format!("{scheme}://{authority}")).map(Self).map_err(|_| OriginError)
    }
}

/// The sites whose pages may use the server beside its own.
#[derive(Debug, Clone, Default)]
pub struct Origins {
    any: bool,
    listed: Vec<HeaderValue>,
}

/// How the sender of a request is related to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// No page at all, as far as one can see.
    Program,
    /// A page of the server's own site.
    Same,
    /// A page of another site that is allowed.
    Listed,
    /// A page of another site.
    Foreign,
}

impl Origins {
    /// These, beside the server's own.
    pub fn new(origins: Vec<Origin>) -> Self {
        let any = origins.iter().any(|origin| origin.0 == "*");
        let listed = origins.into_iter().map(|origin| origin.0).filter(|origin| origin != "*").collect();
        Self { any, listed }
    }

    /// Whether pages of the server's own are the only ones.
    pub(crate) fn are_same_only(&self) -> bool {
        !self.any && self.listed.is_empty()
    }

    pub(crate) fn relation(&self, headers: &HeaderMap) -> Relation {
        let Some(origin) = headers.get(header::ORIGIN) else { return Relation::Program };
        // The scheme is not compared: behind a proxy that speaks TLS the server does not know its own.
        let site = origin.to_str().ok().and_then(|origin| origin.split_once("://")).map(|(_, site)| site);
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        if site.zip(host).is_some_and(|(site, host)| site.eq_ignore_ascii_case(host)) {
            Relation::Same
        } else if self.any || self.listed.contains(origin) {
            Relation::Listed
        } else {
            Relation::Foreign
        }
    }

    /// Tells browsers which pages may read what is answered.
    pub(crate) fn cors(&self) -> CorsLayer {
        if self.are_same_only() {
            return CorsLayer::new();
        }
        let origins = match self.any {
            true => AllowOrigin::from(Any),
            false => AllowOrigin::list(self.listed.clone()),
        };
        let methods = [Method::GET, Method::POST];
        // By these a download is kept, and continues where it broke.
        let shown = [header::ETAG, header::CONTENT_ENCODING, header::CONTENT_RANGE];
        CorsLayer::new()
            .allow_origin(origins)
            .allow_methods(methods)
            .allow_headers(AllowHeaders::mirror_request())
            .expose_headers(shown)
            .max_age(ASKED_AGAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relation(origins: &[&str], origin: Option<&str>, host: &str) -> Relation {
        let origins = Origins::new(origins.iter().map(|origin| origin.parse().unwrap()).collect());
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        origins.relation(&headers)
    }

    #[test]
    fn a_page_of_another_site_is_foreign_until_it_is_listed() {
        let evil = Some("https://evil.example");
        assert_eq!(relation(&[], None, "a.example"), Relation::Program);
        assert_eq!(relation(&[], Some("https://A.example"), "a.example"), Relation::Same);
        assert_eq!(relation(&[], Some("http://127.0.0.1:8787"), "127.0.0.1:8787"), Relation::Same);
        for (origin, host) in [
            ("https://evil.example", "a.example"),
            ("https://a.example.evil.example", "a.example"),
            ("http://a.example:81", "a.example"),
            ("http://a.example", "a.example:8787"),
            ("null", "a.example"),
        ] {
            assert_eq!(relation(&[], Some(origin), host), Relation::Foreign, "{origin} {host}");
            assert_eq!(relation(&["*"], Some(origin), host), Relation::Listed, "{origin} {host}");
        }
        assert_eq!(relation(&["https://evil.example:443/"], evil, "a.example"), Relation::Listed);
        assert_eq!(relation(&["http://evil.example"], evil, "a.example"), Relation::Foreign);
    }

    #[test]
    fn only_origins_are_origins() {
        for text in ["example.com", "https://", "https://a/b", "https://a?b", "ftp://a", "https://u@a", "null", ""] {
            assert_eq!(text.parse::<Origin>(), Err(OriginError), "{text}");
        }
        assert_eq!("HTTPS://Example.com:443".parse::<Origin>(), "https://example.com".parse());
    }
}
