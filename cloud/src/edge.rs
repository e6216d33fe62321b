//! A native edge: the browser's part without a browser.

use std::{
    io,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::{Duration, Instant},
};

use futures_channel::mpsc;
use futures_util::{Sink, SinkExt, Stream, StreamExt, future};
use outrider_codec::frame::ErrorFrame;
use outrider_models::{Chunk, KvCache, Model, ModelError, Scratch};
use outrider_speculation::{
    Forward,
    control::link::Link,
    draft::Passages,
    session::{
        cloud::TargetInfo,
        edge::{Committed, DraftInfo, EdgeError, EdgeSession, EndReason, Settings, StartError},
        edge_driver::{DraftModel, DraftRow, DriveError, Driver, Notice, Platform, Socket},
    },
    study::Statistics,
};
use tokio::{sync::watch, task, time};
use tokio_tungstenite::tungstenite::{
    self, Message,
    client::IntoClientRequest,
    error::ProtocolError,
    http::{HeaderValue, header::AUTHORIZATION},
};

use crate::{
    session::{self, Limits},
    sessions::{NoSession, Sessions},
    target::{TargetSlot, engine::Engine},
    wire::Wire,
};

pub use outrider_speculation::session::edge_driver::Retry;

/// Largest delay of the runtime's timers.
const TIMER: Duration = Duration::from_millis(2);

/// Attempts after a first connection that is cut in its handshake.
const FIRST_ATTEMPTS: u32 = 5;

/// Failure of a native edge.
#[derive(Debug, thiserror::Error)]
pub enum NativeEdgeError {
    /// The server cannot be reached.
    #[error("{url} cannot be reached ({error}): start `outrider serve` there, or use --local")]
    Unreachable {
        /// Address of the server.
        url: String,
        /// Error of the connection attempt.
        error: Box<tungstenite::Error>,
    },
    /// The server is silent.
    #[error("{url} does not answer within {} s: check the address and the network", .patience.as_secs_f64())]
    Silent {
        /// Address of the server.
        url: String,
        /// Time that the server was given.
        patience: Duration,
    },
    /// The connection is gone.
    #[error("the connection to the server was lost")]
    Lost,
    /// The server refuses the session or the generation.
    #[error("the server refused the request ({}): {}", .0.code.name(), .0.text)]
    Refused(ErrorFrame),
    /// The server breaks the protocol, or the draft model fails.
    #[error(transparent)]
    Session(#[from] EdgeError),
    /// The settings cannot be used.
    #[error("the settings cannot be used: {0}")]
    Start(#[from] StartError),
    /// The draft model fails.
    #[error("the draft model failed: {0}")]
    Model(#[from] ModelError),
}

impl NativeEdgeError {
    /// Returns true if a server was reached and then lost, so that another attempt may succeed.
    fn is_cut(&self) -> bool {
        match self {
            Self::Lost | Self::Silent { .. } => true,
            Self::Unreachable { error, .. } => match &**error {
                tungstenite::Error::Io(error) => error.kind() != io::ErrorKind::ConnectionRefused,
                tungstenite::Error::Protocol(error) => *error == ProtocolError::HandshakeIncomplete,
                _ => false,
            },
            _ => false,
        }
    }
}

impl From<DriveError<NativeEdgeError, ModelError>> for NativeEdgeError {
    fn from(error: DriveError<NativeEdgeError, ModelError>) -> Self {
        match error {
            DriveError::Connect(error) => error,
            DriveError::Lost => Self::Lost,
            DriveError::Closed(error) | DriveError::Refused(error) => Self::Refused(error),
            DriveError::Start(error) => Self::Start(error),
            DriveError::Session(error) => Self::Session(error),
            DriveError::Draft(error) => Self::Model(error),
        }
    }
}

/// Result of a finished generation.
#[derive(Debug, Clone)]
pub struct Generated {
    /// Reason why the generation ended.
    pub end: EndReason,
    /// Counts and times of the generation.
    pub statistics: Statistics,
    /// Number of times the generation was resumed over another connection.
    pub resumed: usize,
}

/// Both directions of a connection, as bytes.
pub struct Transport {
    incoming: Box<dyn Stream<Item = Vec<u8>> + Send + Unpin>,
    outgoing: Box<dyn Sink<Vec<u8>, Error = ()> + Send + Unpin>,
}

impl Transport {
    /// Connects a WebSocket to a server.
    pub async fn connect(url: &str) -> Result<Self, NativeEdgeError> {
        Self::connect_as(url, None).await
    }

    /// Connects with a bearer token, if the server requires one.
    pub async fn connect_as(url: &str, token: Option<&str>) -> Result<Self, NativeEdgeError> {
        let unreachable = |error| NativeEdgeError::Unreachable { url: url.to_owned(), error: Box::new(error) };
        let mut request = url.into_client_request().map_err(unreachable)?;
        if let Some(token) = token {
            let value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|error| unreachable(error.into()))?;
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        // Disables Nagle's algorithm: both ends wait for every frame, so a frame must not wait for an acknowledgement.
        let (socket, _) =
            tokio_tungstenite::connect_async_with_config(request, None, true).await.map_err(unreachable)?;
        let (sink, stream) = socket.split();
        let incoming = stream.take_while(|message| future::ready(message.is_ok())).filter_map(|message| {
            future::ready(match message {
                Ok(Message::Binary(bytes)) => Some(bytes.to_vec()),
                Ok(Message::Text(text)) => Some(text.as_bytes().to_vec()),
                _ => None,
            })
        });
        let outgoing =
            sink.sink_map_err(|_| ()).with(|bytes: Vec<u8>| future::ready(Ok::<_, ()>(Message::Binary(bytes.into()))));
        Ok(Self { incoming: Box::new(incoming), outgoing: Box::new(outgoing) })
    }

    /// Opens a session of an engine in this process; `None` if the engine is full.
    pub fn local(engine: &Engine, target: TargetInfo) -> Option<Self> {
        let slot = engine.slot().map(TargetSlot::Model)?;
        // Without a sender a session reads a shutdown of the server.
        let (running, stopping) = watch::channel(false);
        let transport = Self::to_slot(slot, target, Limits::default(), stopping, running);
        transport.ok()
    }

    /// Opens a session on a slot in this process. `held` is dropped when it ends.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub(crate) fn to_slot(
        slot: TargetSlot,
        target: TargetInfo,
        limits: Limits,
        stopping: watch::Receiver<bool>,
        held: impl Send + 'static,
    ) -> Result<Self, NoSession> {
        let entry = Sessions::default().open_now(IpAddr::V4(Ipv4Addr::LOCALHOST))?;
        // Without a registry the session cannot be resumed: it keeps no slot after its edge has gone.
        let limits = Limits { detached: Duration::ZERO, ..limits };
        let (to_cloud, from_edge) = mpsc::unbounded();
        let (to_edge, from_cloud) = mpsc::unbounded();
        tokio::spawn(async move {
            let wire = Wire::new(from_edge, to_edge);
            session::run(entry, slot, target, None, limits, wire, stopping).await;
            drop(held);
        });
        Ok(Self { incoming: Box::new(from_cloud), outgoing: Box::new(to_cloud.sink_map_err(|_| ())) })
    }

    /// Puts an emulated link between both ends: bytes arrive when the link says. Must be called within a runtime.
    pub fn over(self, uplink: Link, downlink: Link) -> Self {
        let (to_link, from_edge) = mpsc::unbounded();
        let mut outgoing = self.outgoing;
        let mut sent = delayed(from_edge, uplink);
        tokio::spawn(async move {
            while let Some(bytes) = sent.next().await {
                if outgoing.send(bytes).await.is_err() {
                    return;
                }
            }
            let _ = outgoing.close().await;
        });
        let incoming = delayed(self.incoming, downlink);
        Self { incoming: Box::new(incoming), outgoing: Box::new(to_link.sink_map_err(|_| ())) }
    }
}

/// Delays messages as a link does. Returns the receiver at the other end of the link.
fn delayed(
    mut from: impl Stream<Item = Vec<u8>> + Send + Unpin + 'static,
    mut link: Link,
) -> mpsc::UnboundedReceiver<Vec<u8>> {
    let (on_link, mut under_way) = mpsc::unbounded();
    let (arrived, to) = mpsc::unbounded();
    let origin = Instant::now();
    tokio::spawn(async move {
        while let Some(bytes) = from.next().await {
            let at = origin + link.arrival(origin.elapsed(), bytes.len());
            if on_link.unbounded_send((at, bytes)).is_err() {
                return;
            }
        }
    });
    tokio::spawn(async move {
        while let Some((at, bytes)) = under_way.next().await {
            // Sleeps a little less than needed and then yields, since timers are too coarse for fast links.
            time::sleep_until(at.checked_sub(TIMER).unwrap_or(at).into()).await;
            while Instant::now() < at {
                task::yield_now().await;
            }
            if arrived.unbounded_send(bytes).is_err() {
                return;
            }
        }
    });
    to
}

impl Socket for Transport {
    async fn send(&mut self, bytes: Vec<u8>) -> bool {
        self.outgoing.send(bytes).await.is_ok()
    }

    async fn receive(&mut self) -> Option<Vec<u8>> {
        self.incoming.next().await
    }

    async fn close(&mut self) {
        let _ = self.outgoing.close().await;
    }
}

/// Platform of a native edge: the server's address and the runtime's clock.
#[derive(Debug)]
struct Runtime {
    url: String,
    token: Option<String>,
    origin: Instant,
    /// Time that the server has to accept a connection.
    patience: Duration,
}

/// The result of `work`, or an error if the server at `url` is silent for longer than `patience`.
async fn answered<R>(
    url: &str,
    patience: Duration,
    work: impl Future<Output = Result<R, NativeEdgeError>>,
) -> Result<R, NativeEdgeError> {
    let silent = |_| NativeEdgeError::Silent { url: url.to_owned(), patience };
    time::timeout(patience, work).await.map_err(silent)?
}

impl Platform for Runtime {
    type Socket = Transport;
    type Error = NativeEdgeError;

    async fn connect(&mut self) -> Result<Transport, NativeEdgeError> {
        let connecting = Transport::connect_as(&self.url, self.token.as_deref());
        let connected = answered(&self.url, self.patience, connecting).await;
        connected.inspect_err(|error| tracing::debug!(%error, "the server cannot be reached yet"))
    }

    fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    async fn sleep(&mut self, pause: Duration) {
        time::sleep(pause).await;
    }

    async fn turn(&mut self) {
        task::yield_now().await;
    }

    fn chance(&mut self) -> u8 {
        let mut chance = [255];
        // Without randomness the retry pauses are not shortened.
        let _ = getrandom::fill(&mut chance);
        chance[0]
    }
}

/// A draft model and its KV cache, which keeps a text until another one is read.
struct CachedDraft<'a> {
    model: &'a Model,
    cache: KvCache,
    /// Tokens in the KV cache.
    held: Vec<u32>,
    scratch: Scratch,
}

impl DraftModel for CachedDraft<'_> {
    type Error = ModelError;

    async fn forward(&mut self, forward: &Forward) -> Result<Vec<DraftRow<'_>>, ModelError> {
        let reused = forward.reusable(&self.held);
        let (keep, tokens) = (forward.keep + reused, &forward.tokens[reused..]);
        self.cache.truncate(keep);
        self.held.truncate(keep);
        let positions: Vec<usize> = (tokens.len() - forward.rows..tokens.len()).collect();
        let chunk = Chunk { cache: &mut self.cache, tokens, positions: &positions };
        let batch = self.model.forward_with(&mut [chunk], &mut self.scratch)?;
        self.held.extend(tokens);
        let rows = batch.chunk(0);
        Ok((0..rows.len()).map(|index| DraftRow { logits: rows.row(index), hidden: rows.hidden(index) }).collect())
    }
}

/// A draft model with a connection to a server.
pub struct NativeEdge<'a> {
    driver: Driver<Runtime, CachedDraft<'a>>,
}

impl<'a> NativeEdge<'a> {
    /// Connects to a server, with a bearer token if it requires one, and performs the handshake. Both are repeated a
    /// few times if the connection is cut or silent meanwhile. A generation survives a lost or silent connection as far
    /// as `retry` allows.
    pub async fn connect(
        model: &'a Model,
        info: DraftInfo,
        url: &str,
        token: Option<&str>,
        retry: Retry,
    ) -> Result<Self, NativeEdgeError> {
        let mut failed = 0;
        loop {
            let begun = Self::begin(model, info.clone(), url, token, retry.stall);
            let error = match answered(url, retry.stall, begun).await {
                Ok(mut edge) => {
                    edge.driver.set_retry(retry);
                    return Ok(edge);
                }
                Err(error) => error,
            };
            if !error.is_cut() || failed >= retry.attempts.min(FIRST_ATTEMPTS) {
                return Err(error);
            }
            tracing::debug!(%error, "cut in the handshake");
            time::sleep(retry.pause_after(failed, u8::MAX)).await;
            failed += 1;
        }
    }

    async fn begin(
        model: &'a Model,
        info: DraftInfo,
        url: &str,
        token: Option<&str>,
        patience: Duration,
    ) -> Result<Self, NativeEdgeError> {
        let transport = Transport::connect_as(url, token).await?;
        let (origin, token) = (Instant::now(), token.map(str::to_owned));
        let runtime = Runtime { url: url.to_owned(), token, origin, patience };
        Self::open(model, info, runtime, transport).await
    }

    /// Performs the handshake over one connection, without reconnecting later.
    pub async fn greet(model: &'a Model, info: DraftInfo, transport: Transport) -> Result<Self, NativeEdgeError> {
        let origin = Instant::now();
        let runtime = Runtime { url: String::new(), token: None, origin, patience: Duration::MAX };
        Self::open(model, info, runtime, transport).await
    }

    async fn open(
        model: &'a Model,
        info: DraftInfo,
        runtime: Runtime,
        transport: Transport,
    ) -> Result<Self, NativeEdgeError> {
        let (cache, held, scratch) = (model.new_cache(), Vec::new(), Scratch::default());
        let draft = CachedDraft { model, cache, held, scratch };
        Ok(Self { driver: Driver::open(EdgeSession::new(info), runtime, transport, draft).await? })
    }

    /// Generates from the ids of a prompt, with every notice of the driver.
    pub async fn generate_with(
        &mut self,
        prompt: Vec<u32>,
        settings: &Settings,
        tell: impl FnMut(&EdgeSession, Notice),
    ) -> Result<EndReason, NativeEdgeError> {
        self.generate_until(prompt, settings, future::pending(), tell).await
    }

    /// Generates from the ids of a prompt until `stop` cancels it, with every notice of the driver.
    pub(crate) async fn generate_until(
        &mut self,
        prompt: Vec<u32>,
        settings: &Settings,
        stop: impl Future<Output = ()>,
        tell: impl FnMut(&EdgeSession, Notice),
    ) -> Result<EndReason, NativeEdgeError> {
        Ok(self.driver.generate(prompt, settings, stop, tell).await?)
    }

    /// Sets how many tokens to guess after the committed text while the connection is gone. At first none.
    pub fn set_offline_tokens(&mut self, tokens: usize) {
        self.driver.set_offline_tokens(tokens);
    }

    /// Sets the passages in which guesses are looked up from the next generation on.
    pub fn set_passages(&mut self, passages: Arc<Passages>) {
        self.driver.set_passages(passages);
    }

    /// Changes the target's logits from the next generation on, by options in the terms of OpenAI's API. `answered` is
    /// the number of the prompt's last tokens that are of the answer already.
    pub fn set_shaping(&mut self, options: Option<String>, answered: usize) {
        self.driver.set_shaping(options, answered);
    }

    /// Generates from the ids of a prompt; calls `on_committed` with tokens as they are committed.
    pub async fn generate(
        &mut self,
        prompt: Vec<u32>,
        settings: &Settings,
        mut on_committed: impl FnMut(&Committed),
    ) -> Result<Generated, NativeEdgeError> {
        let mut resumed = 0;
        let tell = |_: &EdgeSession, notice: Notice| match notice {
            Notice::Committed(committed) => on_committed(&committed),
            Notice::Resumed { anew } => {
                tracing::info!(anew, "the session is resumed");
                resumed += 1;
            }
            _ => {}
        };
        let end = self.generate_with(prompt, settings, tell).await?;
        Ok(Generated { end, statistics: self.driver.session().statistics().clone(), resumed })
    }

    /// Sends Bye and closes the connection.
    pub async fn close(mut self) {
        self.driver.close().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rate and delay computed by hand: 100 bytes at 80 kbit/s leave after 10 ms, the next 100 after 20 ms, and both
    /// take another 30 ms to arrive.
    #[tokio::test]
    async fn what_is_sent_over_a_link_arrives_whole_in_order_and_never_early() {
        let mut link = Link::unlimited();
        link.configure(Some(80_000.0), Duration::from_millis(30));
        let (to, from) = mpsc::unbounded();
        let began = Instant::now();
        let mut arriving = delayed(from, link);
        for first in 0..2u8 {
            to.unbounded_send(vec![first; 100]).unwrap();
        }
        drop(to);
        for (first, least) in [(0, 40), (1, 50)] {
            assert_eq!(arriving.next().await, Some(vec![first; 100]));
            assert!(began.elapsed() >= Duration::from_millis(least), "{first} after {:?}", began.elapsed());
        }
        assert_eq!(arriving.next().await, None, "the end arrives, too");
    }
}
