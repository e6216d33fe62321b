//! A real server on a free port, and a raw client that can misbehave.

use std::{
    net::TcpListener,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::{SinkExt, StreamExt};
use outrider_cloud::{
    api_drafting::ApiDrafting,
    app::{self, Access, AppState, Caps, Connections, PairFile, tls::Tls},
    edge::{Generated, NativeEdge, Transport},
    http::{Models, Served},
    pair::{PairPaths, draft_info, target_info},
    sampling::SamplingDefaults,
    session::Limits,
    sessions::Sessions,
    shaping::grammar::Grammars,
    target::{Target, engine::Engine},
};
use outrider_codec::frame::{ErrorCode, Frame, Hello, Welcome};
use outrider_models::{ChatSource, ChatTemplate, Model, Tokenizer};
use outrider_speculation::session::{
    cloud::TargetInfo,
    edge::{DraftInfo, Settings},
};
use tokio::{net::TcpStream, sync::watch, time};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream,
    tungstenite::{self, Message, client::IntoClientRequest, http::HeaderValue},
};

/// A target that serves a real socket, until dropped.
#[derive(Debug)]
pub struct Server {
    /// Address of the session, `ws://…/session`.
    pub url: String,
    /// The target that it serves.
    pub engine: Target,
    stop: watch::Sender<bool>,
    close: watch::Sender<bool>,
}

/// The most drafts a round may carry on this server.
pub const MAX_DRAFT_TOKENS: u8 = 16;

/// Settings of a server; by default it lets everybody in.
#[derive(Debug, Clone)]
pub struct Options {
    /// Number of sessions at a time.
    pub sessions: usize,
    /// Bounds on a session.
    pub limits: Limits,
    /// Bounds on one client.
    pub caps: Caps,
    /// Origins, tokens and proxies that are accepted.
    pub access: Access,
    /// TLS settings; `None` for plain HTTP.
    pub tls: Option<Tls>,
    /// The source of the target's chat template.
    pub chat: ChatSource,
    /// Sampling parameters for requests that give none.
    pub sampling: SamplingDefaults,
    /// Drafting of texts of the API.
    pub api_drafting: Option<Arc<ApiDrafting>>,
    /// The folder of its page.
    pub page: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        // All tests come from one address.
        let caps = Caps { sessions_per_address: 0, frames_per_second: 0, ..Caps::default() };
        Self {
            sessions: 8,
            limits: Limits::default(),
            caps,
            access: Access::default(),
            tls: None,
            chat: ChatSource::default(),
            sampling: SamplingDefaults::default(),
            api_drafting: None,
            page: "no-page".into(),
        }
    }
}

impl Server {
    /// Starts the pair's target on a free port.
    pub async fn start(sessions: usize, limits: Limits) -> Self {
        Self::start_as(Options { sessions, limits, ..Options::default() }).await
    }

    /// Starts the pair's target on a free port, with these options.
    pub async fn start_as(options: Options) -> Self {
        let pair = PairPaths::default();
        let (tokenizer, target) = (pair.tokenizer().unwrap(), pair.target().unwrap());
        let info = target_info(&target, &tokenizer, MAX_DRAFT_TOKENS).unwrap();
        Self::serve(Engine::start(target, options.sessions).unwrap().into(), info, options)
    }

    /// Starts another target on a free port. The draft that it serves is the pair's all the same.
    pub async fn start_with(target: Model, info: TargetInfo, sessions: usize, limits: Limits) -> Self {
        Self::start_for(Engine::start(target, sessions).unwrap().into(), info, limits).await
    }

    /// Starts a server in front of any target, on a free port.
    pub async fn start_for(engine: Target, info: TargetInfo, limits: Limits) -> Self {
        Self::serve(engine, info, Options { limits, ..Options::default() })
    }

    /// Starts a server in front of any target with these options; the target sets the number of slots.
    pub fn serve(engine: Target, info: TargetInfo, options: Options) -> Self {
        Self::serve_models(served("pair", engine, info, &options).into(), options)
    }

    /// Starts a server of several models with these options; the first target sets the number of slots.
    pub fn serve_models(models: Models, options: Options) -> Self {
        let Options { limits, caps, access, tls, page, .. } = options;
        let engine = models.first().engine.clone();
        // The sender is dropped, which leaves the value.
        let (_, draining) = watch::channel(false);
        let (stop, stopping) = watch::channel(false);
        let (close, closing) = watch::channel(false);
        let proxies = access.proxies.clone();
        let state = AppState {
            models,
            elsewhere: vec!["another=http://127.0.0.1:1/".parse().unwrap()],
            sessions: Sessions::new(engine.load().session_limit, caps.sessions_per_address),
            limits,
            caps,
            access,
            draining,
            stopping,
            closing: closing.clone(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let scheme = if tls.is_some() { "wss" } else { "ws" };
        let url = format!("{scheme}://{}/session", listener.local_addr().unwrap());
        let app = app::app(state, page);
        let (per_address, head) = (caps.connections_per_address, caps.header_read);
        let connections = Connections { tls, head, per_address, proxies };
        tokio::spawn(app::serve(listener, app, connections, closing).unwrap());
        Self { url, engine, stop, close }
    }

    /// Address that the server listens on, `host:port`.
    pub fn address(&self) -> &str {
        self.url.split('/').nth(2).unwrap()
    }

    /// Opens a raw connection with these headers, or returns the status of the refusal.
    pub async fn raw_with(&self, headers: &[(&'static str, &str)]) -> Result<RawClient, u16> {
        let mut request = self.url.as_str().into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, HeaderValue::from_str(value).unwrap());
        }
        match tokio_tungstenite::connect_async(request).await {
            Ok((socket, _)) => Ok(RawClient { socket }),
            Err(tungstenite::Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until all sessions are over.
    pub async fn is_empty(&self) {
        let is_empty = async {
            while self.engine.load().sessions > 0 {
                time::sleep(Duration::from_millis(5)).await;
            }
        };
        time::timeout(Duration::from_secs(30), is_empty).await.expect("sessions end");
    }

    /// Ends all sessions with the message that the server stops.
    pub fn stop(&self) {
        self.stop.send(true).unwrap();
    }

    /// Ends the answers of the API, too, and accepts no more connections.
    pub fn close(&self) {
        self.close.send(true).unwrap();
    }

    /// Opens a raw connection.
    pub async fn raw(&self) -> RawClient {
        RawClient { socket: tokio_tungstenite::connect_async(&self.url).await.unwrap().0 }
    }

    /// Opens a raw connection and shakes hands for a draft.
    pub async fn greeted(&self, draft: &DraftInfo) -> (RawClient, Welcome) {
        let mut client = self.raw().await;
        client.send(hello(draft)).await;
        match client.receive().await {
            Some(Frame::Welcome(welcome)) => (client, welcome),
            other => panic!("{other:?}"),
        }
    }
}

/// A target under a name. Its tokenizer and the draft for browsers are the pair's.
pub fn served(name: &str, engine: Target, target: TargetInfo, options: &Options) -> Served {
    let pair = PairPaths::default();
    let template = ChatTemplate::new(options.chat.clone()).unwrap();
    Served {
        name: name.to_owned(),
        draft_name: Some("draft".to_owned()),
        engine,
        target,
        bos_token_id: pair.draft().unwrap().config().first_token(),
        tokenizer: Arc::new(pair.tokenizer().unwrap()),
        chat_json: PairFile::chat(&template),
        template: Arc::new(template),
        grammars: Grammars::default(),
        sampling: options.sampling,
        api_drafting: options.api_drafting.clone(),
        draft: Some(PairFile::weights(pair.draft_file().unwrap().into_owned())),
        tokenizer_json: tokenizer_json(&pair),
        heads_safetensors: pair.heads_safetensors().unwrap().map(|bytes| PairFile::weights(bytes.into_owned())),
    }
}

/// The pair's tokenizer, which is compressed once for all servers.
fn tokenizer_json(pair: &PairPaths) -> PairFile {
    static FILE: OnceLock<PairFile> = OnceLock::new();
    FILE.get_or_init(|| PairFile::json(pair.tokenizer_with_json().unwrap().1.into_owned())).clone()
}

/// The Hello with which the edge of a draft begins.
pub fn hello(draft: &DraftInfo) -> Vec<u8> {
    Frame::Hello(Hello { vocab_size: draft.vocab_size, tokenizer_hash: draft.tokenizer_hash }).encode()
}

/// A connection on which anything can be sent.
#[derive(Debug)]
pub struct RawClient {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
}

impl From<WebSocketStream<MaybeTlsStream<TcpStream>>> for RawClient {
    fn from(socket: WebSocketStream<MaybeTlsStream<TcpStream>>) -> Self {
        Self { socket }
    }
}

impl RawClient {
    /// Sends bytes as one message.
    pub async fn send(&mut self, bytes: Vec<u8>) {
        self.socket.send(Message::Binary(bytes.into())).await.unwrap();
    }

    /// Sends bytes as one message to a server that may have gone.
    pub async fn try_send(&mut self, bytes: Vec<u8>) -> Result<(), tungstenite::Error> {
        self.socket.send(Message::Binary(bytes.into())).await
    }

    /// Sends a text message.
    pub async fn send_text(&mut self, text: &str) {
        self.socket.send(Message::Text(text.into())).await.unwrap();
    }

    /// The next frame; `None` when the server has closed.
    pub async fn receive(&mut self) -> Option<Frame> {
        let message = time::timeout(Duration::from_secs(20), self.socket.next());
        match message.await.expect("the server answers") {
            Some(Ok(Message::Binary(bytes))) => Some(Frame::decode(&bytes).unwrap()),
            _ => None,
        }
    }

    /// The text of the error that ends the connection.
    pub async fn expect_refusal(&mut self, code: ErrorCode) -> String {
        let text = match self.receive().await {
            Some(Frame::Error(error)) => {
                assert_eq!((error.generation, error.code), (0, code), "{}", error.text);
                error.text
            }
            other => panic!("{other:?} in place of {code:?}"),
        };
        assert_eq!(self.receive().await, None, "the connection ends");
        text
    }
}

/// The pair's draft and tokenizer.
pub struct Edge {
    /// The draft model of the pair.
    pub model: Model,
    /// The pair's tokenizer.
    pub tokenizer: Tokenizer,
}

impl Edge {
    /// Loads the draft and its tokenizer.
    pub fn load() -> Self {
        let pair = PairPaths::default();
        Self { model: pair.draft().unwrap(), tokenizer: pair.tokenizer().unwrap() }
    }

    /// Description of the draft for a session.
    pub fn info(&self) -> DraftInfo {
        draft_info(&self.model, &self.tokenizer).unwrap()
    }

    /// Connects to a server.
    pub async fn connect(&self, url: &str) -> NativeEdge<'_> {
        NativeEdge::greet(&self.model, self.info(), Transport::connect(url).await.unwrap()).await.unwrap()
    }

    /// The ids of a prompt.
    pub fn prompt(&self, text: &str) -> Vec<u32> {
        self.tokenizer.encode_prompt(self.model.config().first_token(), text).unwrap()
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
