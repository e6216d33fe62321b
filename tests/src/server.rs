//! A real server on a free port, and a raw client that can misbehave.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use outrider_cloud::{
    app::{self, AppState},
    edge::{Generated, NativeEdge, Transport},
    engine::Engine,
    pair::{PairPaths, draft_info, target_info},
    session::Limits,
    target::Target,
};
use outrider_codec::frame::{ErrorCode, Frame};
use outrider_models::{Model, Tokenizer};
use outrider_speculation::{cloud::TargetInfo, edge::Settings};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, tungstenite::Message};

/// A target behind a real socket, until dropped.
#[derive(Debug)]
pub struct Server {
    /// `ws://…/session`.
    pub url: String,
    /// The target.
    pub engine: Target,
    stop: watch::Sender<bool>,
}

/// The most drafts a round may carry on this server.
pub const MAX_DRAFT_TOKENS: u8 = 16;

impl Server {
    /// Starts the pair's target on a free port.
    pub async fn start(sessions: usize, limits: Limits) -> Self {
        let pair = PairPaths::default();
        let (tokenizer, target) = (pair.tokenizer().unwrap(), pair.target().unwrap());
        let info = target_info(&target, &tokenizer, MAX_DRAFT_TOKENS).unwrap();
        Self::start_with(target, info, sessions, limits).await
    }

    /// Starts another target on a free port. The draft that it serves is the pair's all the same.
    pub async fn start_with(target: Model, info: TargetInfo, sessions: usize, limits: Limits) -> Self {
        Self::start_for(Engine::start(target, sessions).unwrap().into(), info, limits).await
    }

    /// Starts in front of any target.
    pub async fn start_for(engine: Target, info: TargetInfo, limits: Limits) -> Self {
        let pair = PairPaths::default();
        let (stop, stopping) = watch::channel(false);
        let state = AppState {
            engine: engine.clone(),
            target: info,
            limits,
            draft_gguf: pair.draft_gguf().unwrap().into_owned().into(),
            tokenizer_json: pair.tokenizer_json().unwrap().into_owned().into(),
            heads_safetensors: pair.heads_safetensors().unwrap().map(|bytes| bytes.into_owned().into()),
            stopping,
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/session", listener.local_addr().unwrap());
        tokio::spawn(app::serve(listener, app::app(state, "no-page".into())).into_future());
        Self { url, engine, stop }
    }

    /// Tells all sessions that the server stops.
    pub fn stop(&self) {
        self.stop.send(true).unwrap();
    }

    /// A raw connection.
    pub async fn raw(&self) -> RawClient {
        RawClient { socket: tokio_tungstenite::connect_async(&self.url).await.unwrap().0 }
    }
}

/// A connection on which anything can be sent.
#[derive(Debug)]
pub struct RawClient {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl RawClient {
    /// Sends bytes as one message.
    pub async fn send(&mut self, bytes: Vec<u8>) {
        self.socket.send(Message::Binary(bytes.into())).await.unwrap();
    }

    /// Sends a text message.
    pub async fn send_text(&mut self, text: &str) {
        self.socket.send(Message::Text(text.into())).await.unwrap();
    }

    /// The next frame; `None` when the server has closed.
    pub async fn receive(&mut self) -> Option<Frame> {
        let message = tokio::time::timeout(Duration::from_secs(20), self.socket.next());
        match message.await.expect("the server answers") {
            Some(Ok(Message::Binary(bytes))) => Some(Frame::decode(&bytes).unwrap()),
            _ => None,
        }
    }

    /// Expects an error that ends the connection.
    pub async fn expect_closing_error(&mut self, code: ErrorCode) {
        match self.receive().await {
            Some(Frame::Error(error)) => assert_eq!((error.generation, error.code), (0, code), "{}", error.text),
            other => panic!("{other:?} in place of {code:?}"),
        }
        assert_eq!(self.receive().await, None, "the connection ends");
    }
}

/// The pair's draft and tokenizer.
pub struct Edge {
    /// The draft model.
    pub model: Model,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
}

impl Edge {
    /// Loads them.
    pub fn load() -> Self {
        let pair = PairPaths::default();
        Self { model: pair.draft().unwrap(), tokenizer: pair.tokenizer().unwrap() }
    }

    /// Connects to a server.
    pub async fn connect(&self, url: &str) -> NativeEdge<'_> {
        let info = draft_info(&self.model, &self.tokenizer).unwrap();
        NativeEdge::greet(&self.model, info, Transport::connect(url).await.unwrap()).await.unwrap()
    }

    /// The ids of a prompt.
    pub fn prompt(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode_prompt(self.model.config().bos_token_id, text).unwrap()
    }
}

/// Generates and collects the committed ids.
pub async fn generate(edge: &mut NativeEdge<'_>, prompt: Vec<u32>, settings: &Settings) -> (Vec<u32>, Generated) {
    let mut ids = Vec::new();
    let generated = edge
        .generate(prompt, settings, |committed| ids.extend(committed.tokens.iter().map(|token| token.0)))
        .await
        .unwrap();
    (ids, generated)
}
