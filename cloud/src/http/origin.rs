//! Origins of pages that may use the server.
//!
//! A browser sends the origin of a page in `Origin`, and the page cannot change it. Therefore a site cannot make its
//! visitors' browsers use a server that only they can reach. Programs other than browsers send no origin or any they
//! like; tokens protect against them.

use std::{str::FromStr, time::Duration};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use tower_http::cors::{AllowHeaders, AllowOrigin, Any, CorsLayer};

use super::{quota, request_id};

/// Time for which a browser may cache the answer to a preflight request; Chromium caches it no longer.
const ASKED_AGAIN: Duration = Duration::from_secs(7200);

/// An origin: scheme, host and port, or `*` for all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(HeaderValue);

/// Error of a text that is not an origin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "an origin is a scheme and a host without a path, such as https://example.com or http://127.0.0.1:5173; * allows all"
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
        // The form that browsers send: without the default port of the scheme.
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

/// Origins whose pages may use the server, in addition to its own.
#[derive(Debug, Clone, Default)]
pub struct Origins {
    any: bool,
    listed: Vec<HeaderValue>,
}

/// Relation of a request's sender to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// A program, since the request has no `Origin`.
    Program,
    /// A page of the server's own origin.
    Same,
    /// A page of another origin that is allowed.
    Listed,
    /// A page of another origin that is not allowed.
    Foreign,
}

impl Origins {
    /// Allows these origins in addition to the server's own.
    pub fn new(origins: Vec<Origin>) -> Self {
        let any = origins.iter().any(|origin| origin.0 == "*");
        let listed = origins.into_iter().map(|origin| origin.0).filter(|origin| origin != "*").collect();
        Self { any, listed }
    }

    /// Returns true if only pages of the server's own origin are allowed.
    pub(crate) fn are_same_only(&self) -> bool {
        !self.any && self.listed.is_empty()
    }

    pub(crate) fn relation(&self, headers: &HeaderMap) -> Relation {
        let Some(origin) = headers.get(header::ORIGIN) else { return Relation::Program };
        // The scheme is not compared: if a proxy terminates TLS, the server does not know its own scheme.
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

    /// CORS layer that lets pages of the allowed origins read responses.
    pub(crate) fn cors(&self) -> CorsLayer {
        if self.are_same_only() {
            return CorsLayer::new();
        }
        let origins = match self.any {
            true => AllowOrigin::from(Any),
            false => AllowOrigin::list(self.listed.clone()),
        };
        let methods = [Method::GET, Method::POST];
        // Headers that a page needs to cache a download and to resume it.
        let files = [header::ETAG, header::CONTENT_ENCODING, header::CONTENT_RANGE];
        // Headers that clients of the API read.
        let api = [request_id::HEADER.clone(), header::RETRY_AFTER];
        let shown: Vec<HeaderName> = files.into_iter().chain(api).chain(quota::headers()).collect();
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
