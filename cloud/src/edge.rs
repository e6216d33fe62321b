//! A native edge: the browser's part without a browser.

use std::time::{Duration, Instant};

use futures_channel::mpsc;
use futures_util::{FutureExt, Sink, SinkExt, Stream, StreamExt, future};
use outrider_codec::frame::ErrorFrame;
use outrider_models::{Chunk, KvCache, Model, ModelError, Scratch};
use outrider_speculation::{
    Forward,
    session::{
        cloud::TargetInfo,
        edge::{Committed, DraftInfo, EdgeError, EdgeOutput, EdgeSession, EndReason, Event, Settings, StartError},
    },
    study::statistics::Statistics,
};
use tokio::{sync::watch, task, time};
use tokio_tungstenite::tungstenite::{
    self, Message,
    client::IntoClientRequest,
    http::{HeaderValue, header::AUTHORIZATION},
};

use crate::{
    session::{self, Limits},
    sessions::Sessions,
    target::{TargetSlot, engine::Engine},
    wire::Wire,
};

/// Why a native edge cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum NativeEdgeError {
    /// The server cannot be reached.
    #[error("{url} cannot be reached ({error}): start `outrider serve` there, or use --local")]
    Unreachable {
        /// Where it should be.
        url: String,
        /// Why not.
        error: Box<tungstenite::Error>,
    },
    /// The connection is gone.
    #[error("the connection to the server is lost")]
    Lost,
    /// The server says no.
    #[error("the server refuses ({}): {}", .0.code.name(), .0.text)]
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

/// What a generation gave.
#[derive(Debug, Clone)]
pub struct Generated {
    /// Why it ended.
    pub end: EndReason,
    /// What it cost.
    pub statistics: Statistics,
    /// How often it went on over another connection.
    pub resumed: usize,
}

/// How a native edge goes on when the connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Attempts one after the other without success; 0 gives up at once.
    pub attempts: u32,
    /// The pause before the second; it doubles with each, and up to half of it is left to chance. The first comes at once.
    pub pause: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts: 12, pause: Duration::from_millis(100), longest: Duration::from_secs(5) }
    }
}

impl Retry {
    /// The pause after so many attempts. `chance`, from 0 to 255, spreads those that have lost the same server.
    fn pause_after(&self, failed: u32, chance: u8) -> Duration {
        if failed == 0 {
            return Duration::ZERO;
        }
        let pause = self.pause.saturating_mul(1 << (failed - 1).min(20)).min(self.longest);
        pause / 2 + pause / 2 * u32::from(chance) / 255
    }
}

/// Both directions of a connection, as bytes.
pub struct Transport {
    incoming: Box<dyn Stream<Item = Vec<u8>> + Send + Unpin>,
    outgoing: Box<dyn Sink<Vec<u8>, Error = ()> + Send + Unpin>,
}

impl Transport {
    /// A WebSocket to a server.
    pub async fn connect(url: &str) -> Result<Self, NativeEdgeError> {
        Self::connect_as(url, None).await
    }

    /// The same with a bearer token, if the server wants one.
    pub async fn connect_as(url: &str, token: Option<&str>) -> Result<Self, NativeEdgeError> {
        let unreachable = |error| NativeEdgeError::Unreachable { url: url.to_owned(), error: Box::new(error) };
        let mut request = url.into_client_request().map_err(unreachable)?;
        if let Some(token) = token {
            let value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|error| unreachable(error.into()))?;
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        // Every frame is waited for: none may wait for the acknowledgement of the one before (Nagle's algorithm).
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

    /// A session of an engine in this process; `None` if the engine is full.
    pub fn local(engine: &Engine, target: TargetInfo) -> Option<Self> {
        let slot = engine.slot().map(TargetSlot::Model)?;
        let entry = Sessions::default().open().ok()?;
        let (to_cloud, from_edge) = mpsc::unbounded();
        let (to_edge, from_cloud) = mpsc::unbounded();
        tokio::spawn(async move {
            // Held until the session ends: dropped, it would read as the server stopping.
            let (_running, stopping) = watch::channel(false);
            session::run(entry, slot, target, Limits::default(), Wire::new(from_edge, to_edge), stopping).await;
        });
        Some(Self { incoming: Box::new(from_cloud), outgoing: Box::new(to_cloud.sink_map_err(|_| ())) })
    }
}

/// How a server is reached, again and again.
#[derive(Clone)]
struct Way {
    url: String,
    token: Option<String>,
    retry: Retry,
}

/// A draft model with a connection.
pub struct NativeEdge<'a> {
    model: &'a Model,
    cache: KvCache,
    scratch: Scratch,
    session: EdgeSession,
    transport: Transport,
    origin: Instant,
    /// Where to connect to again.
    way: Option<Way>,
    /// Attempts since the last that succeeded.
    failed: u32,
    /// Why the server ended the last connection, if it said so.
    interruption: Option<ErrorFrame>,
    resumed: usize,
}

impl<'a> NativeEdge<'a> {
    /// Connects to a server, with a bearer token if it wants one, and shakes hands. A generation goes on when the connection is
    /// lost, as `retry` says.
    pub async fn connect(
        model: &'a Model,
        info: DraftInfo,
        url: &str,
        token: Option<&str>,
        retry: Retry,
    ) -> Result<Self, NativeEdgeError> {
        let edge = Self::greet(model, info, Transport::connect_as(url, token).await?).await?;
        let way = Way { url: url.to_owned(), token: token.map(str::to_owned), retry };
        Ok(Self { way: Some(way), ..edge })
    }

    /// Shakes hands over one connection, which is the only one.
    pub async fn greet(model: &'a Model, info: DraftInfo, transport: Transport) -> Result<Self, NativeEdgeError> {
        let mut edge = Self {
            model,
            cache: model.new_cache(),
            scratch: Scratch::default(),
            session: EdgeSession::new(info),
            transport,
            origin: Instant::now(),
            way: None,
            failed: 0,
            interruption: None,
            resumed: 0,
        };
        while !matches!(edge.next_event().await?, Event::Connected(_)) {}
        Ok(edge)
    }

    /// Generates from a prompt's ids; `on_committed` is told of tokens as they come.
    pub async fn generate(
        &mut self,
        prompt: Vec<u32>,
        settings: &Settings,
        mut on_committed: impl FnMut(&Committed),
    ) -> Result<Generated, NativeEdgeError> {
        self.session.start(prompt, settings, self.origin.elapsed())?;
        self.resumed = 0;
        loop {
            match self.next_event().await? {
                Event::Committed(committed) => on_committed(&committed),
                Event::Finished(end) => {
                    let statistics = self.session.statistics().clone();
                    return Ok(Generated { end, statistics, resumed: self.resumed });
                }
                Event::Refused(error) => return Err(NativeEdgeError::Refused(error)),
                Event::Resumed { anew } => {
                    tracing::info!(anew, "the session goes on");
                    (self.failed, self.interruption) = (0, None);
                    self.resumed += 1;
                }
                Event::Interrupted(error) => self.interruption = Some(error),
                Event::Connected(_) | Event::Closed(_) => {}
            }
        }
    }

    /// Says goodbye.
    pub async fn close(mut self) {
        self.session.close();
        while let Ok(Some(EdgeOutput::Send(bytes))) = self.session.poll(self.origin.elapsed()) {
            let _ = self.transport.outgoing.send(bytes).await;
        }
        let _ = self.transport.outgoing.close().await;
    }

    /// Does what the session wants, and waits for the server, until there is something to tell.
    async fn next_event(&mut self) -> Result<Event, NativeEdgeError> {
        loop {
            if self.session.is_ahead() {
                self.take_what_has_arrived().await?;
            }
            match self.session.poll(self.origin.elapsed())? {
                Some(EdgeOutput::Send(bytes)) => {
                    if self.transport.outgoing.send(bytes).await.is_err() {
                        self.reconnect().await?;
                    }
                }
                Some(EdgeOutput::Forward(forward)) => self.draft(&forward)?,
                Some(EdgeOutput::Event(Event::Closed(Some(error)))) => return Err(NativeEdgeError::Refused(error)),
                Some(EdgeOutput::Event(Event::Closed(None))) => return Err(NativeEdgeError::Lost),
                Some(EdgeOutput::Event(event)) => return Ok(event),
                None => match self.transport.incoming.next().await {
                    Some(bytes) => self.session.handle_frame(&bytes, self.origin.elapsed())?,
                    None => self.reconnect().await?,
                },
            }
        }
    }

    /// Hands in what has arrived without waiting for more: a verdict may make moot what would be drafted next.
    async fn take_what_has_arrived(&mut self) -> Result<(), NativeEdgeError> {
        // A runtime that drafting keeps busy would read nothing.
        task::yield_now().await;
        while let Some(received) = self.transport.incoming.next().now_or_never() {
            match received {
                Some(bytes) => self.session.handle_frame(&bytes, self.origin.elapsed())?,
                None => return self.reconnect().await,
            }
        }
        Ok(())
    }

    /// Opens another connection in place of one that is gone.
    async fn reconnect(&mut self) -> Result<(), NativeEdgeError> {
        let way = self.way.clone().filter(|way| self.failed < way.retry.attempts);
        let Some(Way { url, token, retry }) = way.filter(|_| self.session.disconnected()) else {
            return Err(self.interruption.take().map_or(NativeEdgeError::Lost, NativeEdgeError::Refused));
        };
        loop {
            let mut chance = [255];
            // Without randomness the pauses are whole.
            let _ = getrandom::fill(&mut chance);
            time::sleep(retry.pause_after(self.failed, chance[0])).await;
            self.failed += 1;
            match Transport::connect_as(&url, token.as_deref()).await {
                Ok(transport) => {
                    self.transport = transport;
                    self.session.reconnected();
                    return Ok(());
                }
                Err(error) if self.failed >= retry.attempts => return Err(error),
                Err(error) => tracing::debug!(%error, "the server cannot be reached yet"),
            }
        }
    }

    fn draft(&mut self, forward: &Forward) -> Result<(), NativeEdgeError> {
        self.cache.truncate(forward.keep);
        let positions: Vec<usize> = (forward.tokens.len() - forward.rows..forward.tokens.len()).collect();
        let chunk = Chunk { cache: &mut self.cache, tokens: &forward.tokens, positions: &positions };
        for logits in self.model.forward_with(&mut [chunk], &mut self.scratch)?.iter() {
            for (index, row) in logits.iter().enumerate() {
                self.session.handle_logits(row, logits.hidden(index), self.origin.elapsed())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_left_to_chance() {
        let retry = Retry::default();
        let pauses = |chance| [0, 1, 2, 3, 6, 7, 40].map(|failed| retry.pause_after(failed, chance).as_millis());
        assert_eq!(pauses(255), [0, 100, 200, 400, 3200, 5000, 5000]);
        assert_eq!(pauses(0), [0, 50, 100, 200, 1600, 2500, 2500]);
    }
}
