//! `/metrics` after a run over a real socket, and the alert rules, which ask for nothing else.

use std::collections::BTreeSet;

use outrider_cloud::session::Limits;
use outrider_codec::{
    frame::{ErrorCode, Frame, SamplingParameters},
    scheme::{Code, SchemeParameters},
};
use outrider_speculation::session::edge::{Ahead, Mode, Settings, Speculation};
use outrider_tests::{
    http,
    server::{Edge, RawClient, Server, generate},
};

use crate::metric_rules::violations;

const SCHEME: SchemeParameters =
    SchemeParameters::KSqs { support_size: 8, lattice_resolution: 100, code: Code::Enumerative };

/// Metrics without labels, and so without a line, until a gateway has workers.
const WITHOUT_LABELS: [&str; 1] = ["outrider_guess_workers"];

/// The number of a sample, labels included in its name.
fn sample(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is not in\n{text}")).parse().unwrap()
}

/// A connection that has sent something: the first message of a connection is answered by whether there is a place.
async fn knock(server: &Server) -> RawClient {
    let mut client = server.raw().await;
    client.send(Frame::Bye.encode()).await;
    client
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_is_counted_and_the_alerts_ask_for_what_there_is() {
    let edge = Edge::load();
    let server = Server::start(1, Limits::default()).await;
    let mut session = edge.connect(&server.url).await;
    let sampling = SamplingParameters { temperature: 0.7, top_k: 0, top_p: 0.95 };
    let mode = Mode::Speculative(Speculation::new(SCHEME, 4));
    let settings = Settings { mode, sampling, seed: 1, max_new_tokens: 48 };
    let (ids, generated) = generate(&mut session, edge.prompt("Once upon a time"), &settings).await;
    // Guesses are of another scheme, and change no count below.
    let ahead = Settings { mode: Mode::Ahead(Ahead::default()), ..settings };
    let (guessed, _) = generate(&mut session, edge.prompt("Once upon a time"), &ahead).await;
    assert!(!guessed.is_empty());
    knock(&server).await.expect_refusal(ErrorCode::ServerFull).await;

    let answer = http::get(server.address(), "/metrics", &[]).await;
    let text = &answer.body;
    assert_eq!(answer.header("content-type"), Some("application/openmetrics-text; version=1.0.0; charset=utf-8"));
    let statistics = &generated.statistics;
    for (name, expected) in [
        ("outrider_sessions_connected", 1.0),
        ("outrider_sessions_generating", 0.0),
        ("outrider_sessions_total", 1.0),
        ("outrider_sessions_refused_total{cause=\"server-full\"}", 1.0),
        ("outrider_errors_total{cause=\"internal\"}", 0.0),
        ("outrider_log_lines_dropped_total", 0.0),
        ("outrider_tokens_committed_total{scheme=\"k-sqs\"}", ids.len() as f64),
        ("outrider_draft_tokens_proposed_total{scheme=\"k-sqs\"}", statistics.drafted as f64),
        ("outrider_draft_tokens_accepted_total{scheme=\"k-sqs\"}", statistics.accepted as f64),
        ("outrider_time_to_first_token_seconds_count", 2.0),
    ] {
        assert_eq!(sample(text, name), expected, "{name}");
    }
    let positions: f64 =
        (1..=4).map(|p| sample(text, &format!("outrider_draft_positions_proposed_total{{position=\"{p}\"}}"))).sum();
    assert_eq!(positions, statistics.drafted as f64);
    for name in ["outrider_received_bytes_total{scheme=\"k-sqs\"}", "outrider_sent_bytes_total{scheme=\"k-sqs\"}"] {
        assert!(sample(text, name) > 48.0, "{name}");
    }
    assert!(sample(text, "outrider_kv_bytes") > 0.0);

    assert_eq!(violations(text), Vec::<String>::new());
    // Requests by route and status; addresses of no route count as the page.
    for (path, status) in [("/v1/models", 200), ("/v1/nothing", 404), ("/no-such-page", 404), ("/metrics", 200)] {
        assert_eq!(http::get(server.address(), path, &[]).await.status, status, "{path}");
    }
    let again = http::get(server.address(), "/metrics", &[]).await.body;
    for (labels, expected) in [
        ("route=\"/v1/models\",status=\"200\"", 1.0),
        ("route=\"/v1/{*path}\",status=\"404\"", 1.0),
        ("route=\"page\",status=\"404\"", 1.0),
        ("route=\"/metrics\",status=\"200\"", 2.0),
        ("route=\"/session\",status=\"101\"", 2.0),
    ] {
        assert_eq!(sample(&again, &format!("outrider_http_requests_total{{{labels}}}")), expected, "{labels}");
    }

    let names: BTreeSet<&str> = text.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
    for (file, asking) in [
        ("docs/alerts.yml", include_str!("../../docs/alerts.yml")),
        ("docs/grafana.json", include_str!("../../docs/grafana.json")),
    ] {
        let asked: BTreeSet<&str> = asking
            .split(|c: char| !(c.is_ascii_lowercase() || c == '_'))
            .filter(|word| word.starts_with("outrider_"))
            .collect();
        assert!(asked.len() >= 10, "{asked:?}");
        let missing = asked.difference(&names).filter(|name| !WITHOUT_LABELS.contains(name));
        assert_eq!(missing.collect::<Vec<_>>(), Vec::<&&str>::new(), "{file} asks for what /metrics does not have");
    }
    session.close().await;
}
