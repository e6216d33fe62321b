//! Files that a server sends, as docs/deploying.md describes them: who may keep which, in which forms they come, and
//! that a part is always one of the version that was begun.

use std::{fs, io::Read, path::PathBuf, time::Duration};

use flate2::read::GzDecoder;
use outrider_cloud::app::{Access, Origins, Tokens};
use outrider_tests::{
    http::{self, Answer},
    server::{Options, Server},
};
use tokio::time;

const SCRIPT: &str = "/assets/index-B3x_9aQz.js";
const ENGINE: &str = "/assets/engine-DkP2-x0a.wasm";

/// A page as a build leaves it. A compressed file is known by its text, for the server does not look into it.
fn page(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(folder.join("assets")).unwrap();
    for (path, text) in [
        ("index.html", r#"<meta name="first-requests" content="v1/info a/b" /><p>the page</p>"#),
        ("index.html.br", "br page"),
        ("favicon.svg", "<svg/>"),
        (SCRIPT, "the script"),
        (&format!("{SCRIPT}.br"), "br script"),
        (&format!("{SCRIPT}.gz"), "gz script"),
        (ENGINE, "the engine"),
        (&format!("{ENGINE}.br"), "br engine"),
        ("assets/page-settings.js", "a word"),
    ] {
        fs::write(folder.join(path.trim_start_matches('/')), text).unwrap();
    }
    folder
}

async fn server(name: &str) -> Server {
    Server::start_as(Options { page: page(name), ..Options::default() }).await
}

fn shown<'a>(answer: &'a Answer, names: &[&str]) -> Vec<Option<&'a str>> {
    names.iter().map(|name| answer.header(name)).collect()
}

/// The tokenizer is compressed while the server already answers.
async fn compressed(server: &Server, coding: &str) -> (Answer, Vec<u8>) {
    let made = async {
        loop {
            let answer =
                http::get_bytes(server.address(), "/pair/tokenizer.json", &[("Accept-Encoding", coding)]).await;
            if answer.0.header("content-encoding").is_some() {
                return answer;
            }
            time::sleep(Duration::from_millis(20)).await;
        }
    };
    time::timeout(Duration::from_secs(60), made).await.expect("it is compressed")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_named_by_its_content_is_kept_and_all_else_is_asked_for() {
    let server = server("page-kept").await;
    let for_ever = "public, max-age=31536000, immutable";
    for (path, kind, kept) in [
        ("/", "text/html", "no-cache"),
        ("/favicon.svg", "image/svg+xml", "no-cache"),
        ("/assets/page-settings.js", "text/javascript", "no-cache"),
        (SCRIPT, "text/javascript", for_ever),
        (ENGINE, "application/wasm", for_ever),
        ("/pair/draft", "application/octet-stream", "no-cache, no-transform"),
        ("/pair/tokenizer.json", "application/json", "no-cache, no-transform"),
        ("/pair/chat.json", "application/json", "no-cache, no-transform"),
        ("/v1/info", "application/json", "no-store"),
        ("/healthz", "application/json", "no-store"),
    ] {
        let (answer, _) = http::get_bytes(server.address(), path, &[]).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(shown(&answer, &["content-type", "cache-control"]), [Some(kind), Some(kept)], "{path}");
        // A page that shares memory among its workers may load nothing without these.
        let isolation = ["cross-origin-opener-policy", "cross-origin-embedder-policy", "cross-origin-resource-policy"];
        assert_eq!(
            shown(&answer, &isolation),
            [
                Some("same-origin"),
                Some("require-corp"),
                Some(if path == "/healthz" { "cross-origin" } else { "same-origin" })
            ],
            "{path}"
        );
        if kept == "no-store" {
            continue;
        }
        let etag = answer.header("etag").unwrap_or_else(|| panic!("{path} has no tag"));
        let (again, body) = http::get_bytes(server.address(), path, &[("If-None-Match", etag)]).await;
        assert_eq!((again.status, body.len(), again.header("etag")), (304, 0, Some(etag)), "{path}");
        assert_eq!(again.header("cache-control"), Some(kept), "{path}");
        assert_eq!(again.header("vary"), answer.header("vary"), "{path}");
    }
    // It may be there after the next start.
    let (answer, _) = http::get_bytes(server.address(), "/assets/index-AAAA0000.js", &[]).await;
    assert_eq!((answer.status, answer.header("cache-control")), (404, Some("no-cache")));
}

/// A browser sends no token with such a request, which the server would refuse.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_names_what_its_first_text_waits_for_unless_that_needs_a_token() {
    let tokens = Tokens::parse("alice 0123456789abcdef\n").unwrap();
    for (name, tokens, names_it) in [("page-open", None, true), ("page-closed", Some(tokens), false)] {
        let access = Access { tokens, ..Access::default() };
        let server = Server::start_as(Options { page: page(name), access, ..Options::default() }).await;
        for (path, is_page) in [("/", true), ("/index.html", true), ("/favicon.svg", false), (SCRIPT, false)] {
            let (answer, _) = http::get_bytes(server.address(), path, &[]).await;
            let link = answer.header("link").unwrap_or_default();
            let named = "<v1/info>; rel=preload; as=fetch; crossorigin, <a/b>; rel=preload; as=fetch; crossorigin";
            assert_eq!(link, if is_page && names_it { named } else { "" }, "{path}");
        }
    }
    let (folder, page) = (page("page-plain"), "<p>a page that names nothing</p>");
    fs::write(folder.join("index.html"), page).unwrap();
    let server = Server::start_as(Options { page: folder, ..Options::default() }).await;
    assert_eq!(http::get_bytes(server.address(), "/", &[]).await.0.header("link"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_come_in_the_form_that_lies_ready_for_the_client() {
    let server = server("page-forms").await;
    for (path, accepted, coding, body) in [
        (SCRIPT, "gzip, deflate, br, zstd", Some("br"), "br script"),
        (SCRIPT, "gzip, deflate", Some("gzip"), "gz script"),
        (SCRIPT, "br;q=0, gzip;q=0", None, "the script"),
        (ENGINE, "gzip, br", Some("br"), "br engine"),
        // Files are not compressed while a client waits.
        (ENGINE, "gzip", None, "the engine"),
        ("/", "br", Some("br"), "br page"),
        ("/favicon.svg", "gzip, br", None, "<svg/>"),
    ] {
        let answer = http::get(server.address(), path, &[("Accept-Encoding", accepted)]).await;
        assert_eq!((answer.header("content-encoding"), &*answer.body), (coding, body), "{path} {accepted}");
        assert_eq!(answer.header("vary"), Some("accept-encoding"), "{path} {accepted}");
        assert_eq!(answer.header("content-length"), Some(&*body.len().to_string()), "{path} {accepted}");
    }
    let (plain, json) = http::get_bytes(server.address(), "/pair/tokenizer.json", &[]).await;
    let length = json.len().to_string();
    assert_eq!(shown(&plain, &["content-encoding", "content-length"]), [None, Some(&*length)]);
    for coding in ["br", "gzip"] {
        let (answer, bytes) = compressed(&server, coding).await;
        assert_eq!(answer.header("content-encoding"), Some(coding));
        assert_eq!(answer.header("content-length"), Some(&*bytes.len().to_string()));
        assert!(answer.head.lines().any(|line| line == "vary: accept-encoding"), "{}", answer.head);
        assert!(bytes.len() < json.len() / 5, "{coding}: {} of {length}", bytes.len());
        let mut read = Vec::new();
        match coding {
            "br" => brotli::Decompressor::new(&*bytes, 4096).read_to_end(&mut read).unwrap(),
            _ => GzDecoder::new(&*bytes).read_to_end(&mut read).unwrap(),
        };
        assert_eq!(read, json, "{coding}");
        assert_ne!(answer.header("etag"), plain.header("etag"), "another form has another tag");
    }
    // Weights are the same for everybody; a model of unknown length shows no progress.
    let (answer, draft) = http::get_bytes(server.address(), "/pair/draft", &[("Accept-Encoding", "gzip, br")]).await;
    let length = draft.len().to_string();
    assert_eq!(shown(&answer, &["content-encoding", "content-length"]), [None, Some(&*length)]);
    assert_eq!(answer.header("accept-ranges"), Some("bytes"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_is_one_of_the_version_that_was_begun() {
    let server = server("page-parts").await;
    for (path, accepted) in [
        ("/pair/draft", "identity"),
        ("/pair/tokenizer.json", "identity"),
        ("/pair/tokenizer.json", "br"),
        (SCRIPT, "br"),
        (SCRIPT, "identity"),
        ("/favicon.svg", "identity"),
    ] {
        compressed(&server, "br").await;
        let accept = ("Accept-Encoding", accepted);
        let (answer, all) = http::get_bytes(server.address(), path, &[accept]).await;
        let etag = answer.header("etag").unwrap();
        let range = format!("bytes={}-", all.len() / 2);
        let rest = [accept, ("Range", &*range), ("If-Range", etag)];
        let (answer, part) = http::get_bytes(server.address(), path, &rest).await;
        assert_eq!((answer.status, &*part), (206, &all[all.len() / 2..]), "{path} {accepted}");
        let place = format!("bytes {}-{}/{}", all.len() / 2, all.len() - 1, all.len());
        assert_eq!(answer.header("content-range"), Some(&*place), "{path} {accepted}");
        for range in [&*range, "bytes=4000000-"] {
            let other = [accept, ("Range", range), ("If-Range", "\"another version\"")];
            let (answer, whole) = http::get_bytes(server.address(), path, &other).await;
            assert_eq!((answer.status, whole == all), (200, true), "{path} {accepted} {range}");
        }
        for several in ["bytes=0-0,2-2", "bytes=0-2,1-3"] {
            let (answer, whole) = http::get_bytes(server.address(), path, &[accept, ("Range", several)]).await;
            assert_eq!((answer.status, whole == all), (200, true), "{path} {accepted} {several}");
        }
        let beyond = [accept, ("Range", "bytes=4000000-"), ("If-Range", etag)];
        assert_eq!(http::get_bytes(server.address(), path, &beyond).await.0.status, 416, "{path} {accepted}");
    }
    // Of the compressed form the plain one is no part.
    let (brotli, _) = compressed(&server, "br").await;
    let asked = [("Range", "bytes=100-"), ("If-Range", brotli.header("etag").unwrap())];
    assert_eq!(http::get_bytes(server.address(), "/pair/tokenizer.json", &asked).await.0.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shared_caches_learn_that_the_pair_depends_on_the_page_that_asks() {
    let origins = Origins::new(vec!["https://good.example".parse().unwrap()]);
    let access = Access { origins, ..Access::default() };
    let listed = Server::start_as(Options { access, ..Options::default() }).await;
    let same_only = server("page-origins").await;
    for server in [&listed, &same_only] {
        for path in ["/pair/draft", "/pair/tokenizer.json"] {
            let (answer, _) = http::get_bytes(server.address(), path, &[]).await;
            let vary: Vec<&str> = answer.head.lines().filter_map(|line| line.strip_prefix("vary: ")).collect();
            assert!(vary.iter().any(|names| names.split(", ").any(|name| name == "origin")), "{path}: {vary:?}");
        }
    }
    // A script of another site sees no header that it could resume a download with, unless the server exposes it.
    let good = ("Origin", "https://good.example");
    let (answer, _) = http::get_bytes(listed.address(), "/pair/draft", &[good]).await;
    let shown = answer.header("access-control-expose-headers").unwrap();
    for name in ["etag", "content-encoding", "content-range", "x-request-id", "retry-after", "x-ratelimit-reset-tokens"]
    {
        assert!(shown.split(',').any(|header| header == name), "{name}: {shown}");
    }
    let asked = [good, ("Access-Control-Request-Method", "GET"), ("Access-Control-Request-Headers", "if-range,range")];
    let preflight = http::exchange(listed.address(), &http::request("OPTIONS", "/pair/draft", &asked, "")).await;
    assert_eq!(preflight.header("access-control-allow-headers"), Some("if-range,range"));
    assert_eq!(preflight.header("access-control-max-age"), Some("7200"), "a download is not asked for twice");
}
