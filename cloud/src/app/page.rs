//! The page: a folder of files, some of which also exist in compressed form (`.br`, `.gz`).
//!
//! | file | rule for caches |
//! |---|---|
//! | below `assets/`, with a hash of its content in its name (`index-B3x_9aQz.js`) | cache for a year |
//! | any other | revalidate each time |
//!
//! A page may name in `<meta name="first-requests" content="v1/info pair/chat.json">` what its first text waits for. It
//! then comes with a header Link, by which browsers ask for that at once: a round trip before the script would.

use std::{
    fs,
    path::{Path, PathBuf},
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderValue, Method, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use tower_http::services::ServeDir;

use crate::openai;

/// Cache-Control of files that never change: one year, the most that RFC 2616 recommended.
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// Length of the content hash in this page's file names, in hex digits.
const HEX_HASH_LENGTH: usize = 16;
/// Length of the content hash that Vite and Rollup put into file names by default, in base64url characters.
const HASH_LENGTH: usize = 8;

/// Longest name of a file on common file systems, in bytes. Opening a longer one is an error other than "not found".
const LONGEST_NAME: usize = 255;

/// Beginning of the element that names a page's first requests.
const FIRST_REQUESTS: &str = r#"<meta name="first-requests" content=""#;

/// Serves the files of a folder. The server is `open` if it demands no token: these requests carry none.
pub(super) fn routes<S: Clone + Send + Sync + 'static>(folder: PathBuf, open: bool) -> Router<S> {
    let links = open.then(|| first_requests(&folder)).flatten();
    let files = ServeDir::new(folder)
        .precompressed_br()
        .precompressed_gzip()
        // Otherwise ServeDir compares every range of a request with every other one.
        .ignore_multi_range_requests(true)
        .fallback(get(no_such_page));
    let answer = move |request, next| answer(request, next, links.clone());
    Router::new().fallback_service(files).layer(middleware::from_fn(answer))
}

/// Adds to the responses of [`ServeDir`] how long they may be cached, and support for If-Range. Without the latter a
/// download might join bytes of two versions.
async fn answer(request: Request, next: Next, links: Option<HeaderValue>) -> Response {
    // Only the API takes other methods; a client may have left out its /v1.
    if !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return openai::unknown(request.method().clone(), request.uri().clone()).await.into_response();
    }
    if has_long_name(request.uri().path()) {
        return no_such_page().await;
    }
    let is_immutable = is_named_by_content(request.uri().path());
    let links = links.filter(|_| matches!(request.uri().path(), "/" | "/index.html"));
    let only_if = request.headers().get(header::IF_RANGE).cloned();
    let whole = only_if.map(|tag| (tag, whole(&request)));
    let mut answer = next.clone().run(request).await;
    if let Some((tag, whole)) = whole
        && matches!(answer.status(), StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE)
        && answer.headers().get(header::ETAG) != Some(&tag)
    {
        answer = next.run(whole).await;
    }
    // An absent file may exist later.
    let is_there = answer.status().is_success() || answer.status() == StatusCode::NOT_MODIFIED;
    let headers = answer.headers_mut();
    if is_there && is_immutable {
        headers.insert(header::CACHE_CONTROL, FOR_EVER);
    }
    if let Some(links) = links.filter(|_| is_there) {
        headers.insert(header::LINK, links);
    }
    headers.entry(header::VARY).or_insert(HeaderValue::from_static("accept-encoding"));
    answer
}

/// Header Link of the page in a folder, as it is at the server's start; `None` if the page names no requests.
fn first_requests(folder: &Path) -> Option<HeaderValue> {
    let page = fs::read_to_string(folder.join("index.html")).ok()?;
    let (named, _) = page.split_once(FIRST_REQUESTS)?.1.split_once('"')?;
    let links = named.split_ascii_whitespace().map(|path| format!("<{path}>; rel=preload; as=fetch; crossorigin"));
    HeaderValue::from_str(&links.collect::<Vec<_>>().join(", ")).ok().filter(|links| !links.is_empty())
}

/// Returns true if a segment of the path is longer than any file's name. A byte may be written as `%` and two digits.
fn has_long_name(path: &str) -> bool {
    path.split('/').any(|name| name.len().saturating_sub(2 * name.matches('%').count()) > LONGEST_NAME)
}

/// Copy of the request without its range.
fn whole(request: &Request) -> Request {
    let mut whole = Request::new(Body::empty());
    *whole.method_mut() = request.method().clone();
    *whole.uri_mut() = request.uri().clone();
    *whole.headers_mut() = request.headers().clone();
    whole.headers_mut().remove(header::RANGE);
    whole
}

/// Returns true if a file of another content would have another name.
fn is_named_by_content(path: &str) -> bool {
    let Some(name) = path.strip_prefix("/assets/") else { return false };
    let stem = name.split('.').next().unwrap_or_default();
    let is_hex = |hash: &str| hash.bytes().all(|c| c.is_ascii_hexdigit());
    let is_base64 = |hash: &str| {
        // `page-settings.js` ends with a word, not a hash: its content may change.
        let is_word = hash.chars().skip(1).all(|c| c.is_ascii_lowercase() || c == '-' || c == '_');
        hash.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') && !is_word
    };
    let ends_with = |length: usize, is_hash: &dyn Fn(&str) -> bool| {
        let parts = stem.len().checked_sub(length).and_then(|at| stem.split_at_checked(at));
        parts.is_some_and(|(before, hash)| before.ends_with('-') && is_hash(hash))
    };
    ends_with(HEX_HASH_LENGTH, &is_hex) || ends_with(HASH_LENGTH, &is_base64)
}

async fn no_such_page() -> Response {
    let text = "There is no such page here. If this is the first page you see, the demo page has not been built: \
                run `cargo xtask demo`, or give its folder with --web.\n";
    (StatusCode::NOT_FOUND, text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_file_has_are_found_by_their_bytes() {
        let name = "a".repeat(LONGEST_NAME);
        let encoded = "%61".repeat(LONGEST_NAME);
        for short in ["/", &format!("/{name}/{name}"), &format!("/{encoded}")] {
            assert!(!has_long_name(short), "{short}");
        }
        for long in [format!("/{name}a"), format!("/b/{encoded}a/c"), format!("/{name}%61")] {
            assert!(has_long_name(&long), "{long}");
        }
    }

    #[test]
    fn names_with_a_hash_are_told_from_words() {
        for hashed in [
            "index-B3x_9aQz.js",
            "outrider_edge_bg-DkP2-x0a.wasm",
            "a-b-BLKQT0ZZ.css",
            "x-0aaaaaa1.js.map",
            "index-0123456789abcdef.js",
            "index-abcdefabcdefabcd.css",
        ] {
            assert!(is_named_by_content(&format!("/assets/{hashed}")), "{hashed}");
            assert!(!is_named_by_content(&format!("/{hashed}")), "{hashed}");
        }
        for plain in [
            "page-settings.js",
            "page-Settings.js",
            "index-0123456789abcdeg.js",
            "B3x_9aQz.js",
            "index.js",
            "indexB3x_9aQz.js",
            "",
            "é-ö.js",
        ] {
            assert!(!is_named_by_content(&format!("/assets/{plain}")), "{plain}");
        }
    }
}
