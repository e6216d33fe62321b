//! Access to a server: origins, tokens, TLS, caps. Every refusal is shown as its user sees it.

use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use outrider_cloud::{
    app::{
        Access, Caps, EvidencePolicy, Origins, Proxies, Tokens,
        tls::{self, Tls},
    },
    http::Elsewhere,
    session::Limits,
};
use outrider_codec::{
    frame::{ErrorCode, Frame, Prompt, Request},
    scheme::SchemeParameters,
};
use outrider_tests::{
    http::{self, Answer},
    samplings::{GREEDY, NEUTRAL},
    server::{self, Edge, Options, RawClient, Server},
};
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::CertificateDer};
use serde_json::Value;
use tokio::{io::AsyncWriteExt, net::TcpStream, time};
use tokio_tungstenite::Connector;

const TOKEN: &str = "0123456789abcdef";

fn access(options: Access) -> Options {
    Options { access: options, ..Options::default() }
}

fn hello() -> Vec<u8> {
    server::hello(&Edge::load().info())
}

async fn is_welcome(client: &mut RawClient) -> bool {
    client.send(hello()).await;
    matches!(client.receive().await, Some(Frame::Welcome(_)))
}

fn error(answer: &Answer) -> Value {
    serde_json::from_str::<Value>(&answer.body).unwrap()["error"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_other_sites_are_refused_until_they_are_listed() {
    let server = Server::start_as(Options::default()).await;
    let own = format!("http://{}", server.address());
    assert!(is_welcome(&mut server.raw_with(&[("origin", &own)]).await.unwrap()).await);
    assert!(is_welcome(&mut server.raw().await).await, "a program has no origin");
    assert_eq!(server.raw_with(&[("origin", "https://evil.example")]).await.err(), Some(403));
    for path in ["/pair/draft", "/pair/tokenizer.json", "/v1/models", "/v1/info"] {
        let answer = http::get(server.address(), path, &[("Origin", "https://evil.example")]).await;
        assert_eq!((answer.status, &error(&answer)["code"]), (403, &"origin_not_allowed".into()), "{path}");
        let host = ("Host", server.address());
        let answer =
            http::exchange(server.address(), &http::request("HEAD", path, &[host, ("Origin", &own)], "")).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }

    let listed = Origins::new(vec!["https://good.example".parse().unwrap()]);
    let server = Server::start_as(access(Access { origins: listed, ..Access::default() })).await;
    let good = ("Origin", "https://good.example");
    assert!(is_welcome(&mut server.raw_with(&[("origin", good.1)]).await.unwrap()).await);
    assert_eq!(server.raw_with(&[("origin", "https://evil.example")]).await.err(), Some(403));
    let answer = http::get(server.address(), "/pair/tokenizer.json", &[good]).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some("https://good.example")));
    assert_eq!(answer.header("cross-origin-resource-policy"), Some("cross-origin"));
    let asked = [good, ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "authorization")];
    let preflight = http::exchange(server.address(), &http::request("OPTIONS", "/v1/completions", &asked, "")).await;
    assert_eq!(preflight.header("access-control-allow-headers"), Some("authorization"));

    let all = Origins::new(vec!["*".parse().unwrap()]);
    let server = Server::start_as(access(Access { origins: all, ..Access::default() })).await;
    assert!(is_welcome(&mut server.raw_with(&[("origin", "https://evil.example")]).await.unwrap()).await);
    let answer = http::get(server.address(), "/v1/models", &[good]).await;
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some("*")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_tokens_wants_one_of_sessions_and_of_the_api() {
    let tokens = Tokens::parse(&format!("alice {TOKEN}\n")).unwrap();
    let server = Server::start_as(access(Access { tokens: Some(tokens), ..Access::default() })).await;
    let header = format!("Bearer {TOKEN}");
    assert!(is_welcome(&mut server.raw_with(&[("authorization", &header)]).await.unwrap()).await);
    let offered = format!("outrider, outrider.bearer.{TOKEN}");
    assert!(is_welcome(&mut server.raw_with(&[("sec-websocket-protocol", &offered)]).await.unwrap()).await);
    // A page learns why: it cannot see the status of an upgrade.
    let text = server.raw().await.expect_refusal(ErrorCode::Unauthorized).await;
    assert_eq!(text, "This server requires a token, and none was sent.");
    let wrong = "outrider, outrider.bearer.0123456789abcdee";
    let mut client = server.raw_with(&[("sec-websocket-protocol", wrong)]).await.unwrap();
    let text = client.expect_refusal(ErrorCode::Unauthorized).await;
    assert_eq!(text, "This server does not know the token that was sent.");

    for path in ["/v1/models", "/v1/info"] {
        let answer = http::get(server.address(), path, &[]).await;
        assert_eq!((answer.status, answer.header("www-authenticate")), (401, Some("bearer")), "{path}");
        assert_eq!(error(&answer)["code"], "invalid_api_key");
        assert_eq!(http::get(server.address(), path, &[("Authorization", &header)]).await.status, 200, "{path}");
    }
    // The page must load before it can show a token, and probes have none.
    for path in ["/pair/tokenizer.json", "/healthz", "/readyz"] {
        assert_eq!(http::get(server.address(), path, &[]).await.status, 200, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_has_so_many_sessions_wherever_its_proxy_is() {
    let caps = Caps { sessions_per_address: 2, ..Caps::default() };
    let proxies = Proxies::new(vec!["127.0.0.0/8".parse().unwrap()]);
    let access = Access { proxies, ..Access::default() };
    let server = Server::start_as(Options { caps, access, ..Options::default() }).await;
    let from = |address: &'static str| [("x-forwarded-for", address)];
    let mut clients = Vec::new();
    for _ in 0..2 {
        let mut client = server.raw_with(&from("192.0.2.1")).await.unwrap();
        assert!(is_welcome(&mut client).await);
        clients.push(client);
    }
    let mut third = server.raw_with(&from("192.0.2.1")).await.unwrap();
    third.send(hello()).await;
    let text = third.expect_refusal(ErrorCode::ServerFull).await;
    assert_eq!(text, "Your address has 2 sessions here, the most it may have; end one, or try again later.");
    let body = r#"{"prompt": "Once"}"#;
    let answer = http::post(server.address(), "/v1/completions", &[("X-Forwarded-For", "192.0.2.1")], body).await;
    assert_eq!((answer.status, &error(&answer)["code"]), (429, &"too_many_sessions".into()));
    assert_eq!(answer.header("retry-after"), Some("5"));
    assert!(is_welcome(&mut server.raw_with(&from("192.0.2.2")).await.unwrap()).await);
    // What the client itself has put there does not count.
    let mut liar = server.raw_with(&from("192.0.2.9, 192.0.2.1")).await.unwrap();
    liar.send(hello()).await;
    liar.expect_refusal(ErrorCode::ServerFull).await;
    drop(clients);
    let there_is_room = async {
        while !is_welcome(&mut server.raw_with(&from("192.0.2.1")).await.unwrap()).await {
            time::sleep(Duration::from_millis(10)).await;
        }
    };
    time::timeout(Duration::from_secs(10), there_is_room).await.expect("places are given up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_takes_too_long_to_begin_is_not_waited_for() {
    let short = Duration::from_millis(300);
    let caps = Caps { header_read: short, body_read: short, sessions_per_address: 0, ..Caps::default() };
    let limits = Limits { hello: short, ..Limits::default() };
    let server = Server::start_as(Options { caps, limits, ..Options::default() }).await;
    let text = server.raw().await.expect_refusal(ErrorCode::Idle).await;
    assert_eq!(text, "The session was silent for too long.");
    // Later the limit is that for silence.
    let mut client = server.raw().await;
    assert!(is_welcome(&mut client).await);
    time::sleep(2 * short).await;
    client.send(hello()).await;
    client.expect_refusal(ErrorCode::OutOfOrder).await;

    for (begun, status) in [
        ("GET /healthz HTTP/1.1\r\nHost: a\r\nX-Slow: ", &[0, 408][..]),
        ("POST /v1/completions HTTP/1.0\r\nContent-Length: 100\r\n\r\n{\"prompt\"", &[408][..]),
    ] {
        let start = Instant::now();
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        let answer = http::rest(&mut stream).await;
        assert!(status.contains(&answer.status) && start.elapsed() < Duration::from_secs(10), "{answer:?}");
    }
    assert_eq!(http::get(server.address(), "/healthz", &[]).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_that_come_too_fast_wait() {
    let caps = Caps { frames_per_second: 10, sessions_per_address: 0, ..Caps::default() };
    let server = Server::start_as(Options { caps, ..Options::default() }).await;
    let mut client = server.raw().await;
    assert!(is_welcome(&mut client).await);
    // Ten frames pass at once, Hello among them; the last of these waits for a second.
    let start = Instant::now();
    for generation in 1..=20 {
        let request = Request { generation, sampling: GREEDY, seed: 1, max_new_tokens: 1, tokens: vec![0] };
        client.send(Frame::Generate(request).encode()).await;
        assert!(matches!(client.receive().await, Some(Frame::Tokens(_))));
    }
    assert!(start.elapsed() > Duration::from_millis(900), "{:?}", start.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evidence_is_for_those_who_may_have_it() {
    let prompt = |generation| {
        let request = Request { generation, sampling: NEUTRAL, seed: 1, max_new_tokens: 8, tokens: vec![0, 5] };
        Frame::Prompt(Prompt { evidence: true, ..Prompt::exact(SchemeParameters::Coupled, request) }).encode()
    };
    for (evidence, origin, may) in [
        (EvidencePolicy::Never, None, false),
        (EvidencePolicy::SameOrigin, None, true),
        (EvidencePolicy::SameOrigin, Some("https://good.example"), false),
        (EvidencePolicy::Always, Some("https://good.example"), true),
    ] {
        let origins = Origins::new(vec!["https://good.example".parse().unwrap()]);
        let server = Server::start_as(access(Access { origins, evidence, ..Access::default() })).await;
        let origin: Vec<_> = origin.map(|origin| ("origin", origin)).into_iter().collect();
        let mut client = server.raw_with(&origin).await.unwrap();
        assert!(is_welcome(&mut client).await);
        client.send(prompt(1)).await;
        if may {
            client.send(Frame::Cancel { generation: 1 }.encode()).await;
            client.send(hello()).await;
            client.expect_refusal(ErrorCode::OutOfOrder).await;
        } else {
            match client.receive().await {
                Some(Frame::Error(error)) => {
                    assert_eq!((error.generation, error.code), (1, ErrorCode::InvalidParameters));
                    assert!(error.text.contains("without evidence"), "{}", error.text);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_a_certificate_speaks_tls() {
    let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (cert, key) = (folder.join("cert.pem"), folder.join("key.pem"));
    fs::write(&cert, certified.cert.pem()).unwrap();
    fs::write(&key, certified.signing_key.serialize_pem()).unwrap();
    let replaceable = Tls::new(tls::server_config(&cert, &key).unwrap());
    let tls = Some(replaceable.clone());
    let server = Server::start_as(Options { tls, ..Options::default() }).await;

    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(certified.cert.der().to_vec())).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = Connector::Rustls(Arc::new(client));
    let connect = || tokio_tungstenite::connect_async_tls_with_config(&server.url, None, true, Some(connector.clone()));
    let mut client = RawClient::from(connect().await.unwrap().0);
    assert!(is_welcome(&mut client).await);
    // A certificate that the client does not trust, and then the first one again.
    let other = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let (other_cert, other_key) = (folder.join("other-cert.pem"), folder.join("other-key.pem"));
    fs::write(&other_cert, other.cert.pem()).unwrap();
    fs::write(&other_key, other.signing_key.serialize_pem()).unwrap();
    replaceable.replace(tls::server_config(&other_cert, &other_key).unwrap());
    assert!(connect().await.is_err());
    replaceable.replace(tls::server_config(&cert, &key).unwrap());
    assert!(is_welcome(&mut RawClient::from(connect().await.unwrap().0)).await);
    // Without TLS there is nothing to be had.
    assert_ne!(http::get(server.address(), "/healthz", &[]).await.status, 200);

    for (cert, key, part) in [
        (&key, &key, "no certificate"),
        (&cert, &cert, "private key"),
        (&folder.join("nowhere.pem"), &key, "certificate"),
    ] {
        let error = tls::server_config(cert, key).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_says_what_it_is_and_whether_it_is_ready() {
    let server = Server::start_as(Options { sessions: 1, ..Options::default() }).await;
    let info: Value = serde_json::from_str(&http::get(server.address(), "/v1/info", &[]).await.body).unwrap();
    assert_eq!((&info["vocabSize"], &info["models"]["target"]), (&4096.into(), &"pair".into()));
    assert_eq!(info["elsewhere"], serde_json::json!([{ "name": "another", "url": "http://127.0.0.1:1/" }]));
    for wrong in ["http://127.0.0.1/", "a=javascript:alert(1)", "=http://127.0.0.1/", "a=http://one two/"] {
        let refused: Result<Elsewhere, _> = wrong.parse();
        assert!(refused.is_err(), "{wrong}");
    }
    assert_eq!((&info["limits"]["contextLength"], &info["limits"]["sessions"]), (&512.into(), &1.into()));
    assert_eq!(
        (&info["evidence"], &info["instructionSet"]),
        (&"same-origin".into(), &outrider_models::instruction_set().into())
    );
    assert!(info["schemes"].as_array().unwrap().len() == 7 && info["rules"].as_array().unwrap().len() == 16, "{info}");
    let status = async |path| {
        let answer = http::get(server.address(), path, &[]).await;
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        (answer.status, body["status"].as_str().unwrap().to_owned())
    };
    assert_eq!(status("/readyz").await, (200, "ready".to_owned()));
    let mut only = server.raw().await;
    assert!(is_welcome(&mut only).await);
    assert_eq!(status("/readyz").await, (503, "full".to_owned()));
    drop(only);
    server.stop();
    assert_eq!(status("/readyz").await, (503, "stopping".to_owned()));
    assert_eq!(status("/healthz").await, (200, "stopping".to_owned()));
}
