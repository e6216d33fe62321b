//! The axum routes.
//!
//! | route | what |
//! |---|---|
//! | `/` | the page (a folder) |
//! | `/pair/draft.gguf`, `/pair/tokenizer.json` | the draft model for the browser |
//! | `/pair/heads.safetensors` | its trained heads, if it has any |
//! | `/session` | the WebSocket |
//! | `/healthz` | how full the engine is, as JSON |

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{
        State,
        ws::{Message, WebSocket, WebSocketUpgrade},
    },
    http::{HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
    routing::get,
    serve::{Listener, ListenerExt, Serve},
};
use futures_util::{SinkExt, StreamExt, future, stream::SplitSink};
use outrider_codec::frame::MAX_FRAME_BYTES;
use outrider_speculation::cloud::TargetInfo;
use tokio::{net::TcpListener, sync::watch};
use tower_http::{compression::CompressionLayer, services::ServeDir, set_header::SetResponseHeaderLayer};

use crate::{
    engine::Load,
    session::{self, Limits},
    target::Target,
};

/// What the routes share.
#[derive(Debug, Clone)]
pub struct AppState {
    /// The target.
    pub engine: Target,
    /// What sessions need to know of it.
    pub target: TargetInfo,
    /// Bounds on each session.
    pub limits: Limits,
    /// The draft model for browsers.
    pub draft_gguf: Bytes,
    /// Its tokenizer.
    pub tokenizer_json: Bytes,
    /// Its trained heads, if it has any.
    pub heads_safetensors: Option<Bytes>,
    /// Becomes true when the server stops.
    pub stopping: watch::Receiver<bool>,
}

/// Serves the routes on a listener.
///
/// Every frame is waited for at the other end, so none may wait for the acknowledgement of the one before (Nagle's
/// algorithm, 40 ms a round with delayed acknowledgements).
pub fn serve(listener: TcpListener, app: Router) -> Serve<impl Listener<Addr = SocketAddr>, Router, Router> {
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection is slower than it could be");
        }
    });
    axum::serve(listener, app)
}

/// The routes; `page` is the folder of the built page.
pub fn app(state: AppState, page: PathBuf) -> Router {
    // The page of anyone may load the draft model and open a session.
    let any_origin =
        SetResponseHeaderLayer::overriding(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    // Revalidate: the page and the model behind an address change with the server.
    let revalidate =
        SetResponseHeaderLayer::if_not_present(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // An isolated page may share memory among its workers, which drafting with threads needs. It may load what says that
    // it may be loaded: the page's own files from here, the model from anywhere.
    let header = |name: &'static str, value| {
        SetResponseHeaderLayer::if_not_present(HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    Router::new()
        .route("/pair/draft.gguf", get(draft_gguf))
        .route("/pair/tokenizer.json", get(tokenizer_json))
        .route("/pair/heads.safetensors", get(heads_safetensors))
        .layer(any_origin)
        .layer(header("cross-origin-resource-policy", "cross-origin"))
        .route("/healthz", get(health))
        .fallback_service(ServeDir::new(page).fallback(get(no_such_page)))
        .layer(CompressionLayer::new())
        .layer(revalidate)
        .layer(header("cross-origin-opener-policy", "same-origin"))
        .layer(header("cross-origin-embedder-policy", "require-corp"))
        .layer(header("cross-origin-resource-policy", "same-origin"))
        // After the layers: none of them is for an upgraded connection.
        .route("/session", get(upgrade))
        .with_state(Arc::new(state))
}

async fn draft_gguf(State(state): State<Arc<AppState>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/octet-stream")], state.draft_gguf.clone())
}

async fn tokenizer_json(State(state): State<Arc<AppState>>) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], state.tokenizer_json.clone())
}

async fn heads_safetensors(State(state): State<Arc<AppState>>) -> Response {
    match &state.heads_safetensors {
        Some(bytes) => ([(header::CONTENT_TYPE, "application/octet-stream")], bytes.clone()).into_response(),
        None => (axum::http::StatusCode::NOT_FOUND, "The draft model has no trained heads.\n").into_response(),
    }
}

/// The body of `/healthz`.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Health {
    status: &'static str,
    #[serde(flatten)]
    load: Load,
}

async fn health(State(state): State<Arc<AppState>>) -> Json<Health> {
    let status = if *state.stopping.borrow() { "stopping" } else { "ok" };
    Json(Health { status, load: state.engine.load() })
}

async fn no_such_page() -> Response {
    let text = "There is no such page here. If this is the first page you see, the demo page has not been built: \
                run `cargo xtask demo`, or give its folder with --web.\n";
    (axum::http::StatusCode::NOT_FOUND, text).into_response()
}

async fn upgrade(State(state): State<Arc<AppState>>, upgrade: WebSocketUpgrade) -> Response {
    // A little over a frame's limit passes, so that the session can say what is wrong; far over ends the connection.
    upgrade
        .max_message_size(2 * MAX_FRAME_BYTES)
        .max_frame_size(2 * MAX_FRAME_BYTES)
        .on_upgrade(move |socket| converse(socket, state))
}

async fn converse(socket: WebSocket, state: Arc<AppState>) {
    let (sink, stream) = socket.split();
    let outgoing = binary(sink);
    let Some(seat) = state.engine.seat() else {
        tracing::warn!("refused a session: no seat is free");
        return session::refuse(outgoing, state.limits).await;
    };
    let incoming = stream.take_while(|message| future::ready(message.is_ok())).filter_map(|message| {
        future::ready(match message {
            Ok(Message::Binary(bytes)) => Some(bytes.to_vec()),
            // No frame is text; the session refuses it like any other bytes.
            Ok(Message::Text(text)) => Some(text.as_bytes().to_vec()),
            _ => None,
        })
    });
    session::run(seat, state.target.clone(), state.limits, incoming, outgoing, state.stopping.clone()).await;
}

/// Bytes as binary messages.
fn binary(sink: SplitSink<WebSocket, Message>) -> impl futures_util::Sink<Vec<u8>, Error = axum::Error> + Unpin {
    sink.with(|bytes: Vec<u8>| future::ready(Ok::<_, axum::Error>(Message::Binary(bytes.into()))))
}
