//! A native edge: the browser's part without a browser.

use std::time::Instant;

use futures_channel::mpsc;
use futures_util::{Sink, SinkExt, Stream, StreamExt, future};
use outrider_codec::frame::ErrorFrame;
use outrider_models::{Chunk, KvCache, Model, ModelError, Scratch};
use outrider_speculation::{
    Forward,
    cloud::TargetInfo,
    edge::{Committed, DraftInfo, EdgeError, EdgeOutput, EdgeSession, EndReason, Event, Settings, StartError},
    statistics::Statistics,
};
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::{self, Message};

use crate::{
    engine::Engine,
    session::{self, Limits},
    target,
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
}

/// Both directions of a connection, as bytes.
pub struct Transport {
    incoming: Box<dyn Stream<Item = Vec<u8>> + Send + Unpin>,
    outgoing: Box<dyn Sink<Vec<u8>, Error = ()> + Send + Unpin>,
}

impl Transport {
    /// A WebSocket to a server.
    pub async fn connect(url: &str) -> Result<Self, NativeEdgeError> {
        // Every frame is waited for: none may wait for the acknowledgement of the one before (Nagle's algorithm).
        let (socket, _) = tokio_tungstenite::connect_async_with_config(url, None, true)
            .await
            .map_err(|error| NativeEdgeError::Unreachable { url: url.to_owned(), error: Box::new(error) })?;
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
        let seat = engine.seat().map(target::Seat::Model)?;
        let (to_cloud, from_edge) = mpsc::unbounded();
        let (to_edge, from_cloud) = mpsc::unbounded();
        tokio::spawn(async move {
            // Held until the session ends: dropped, it would read as the server stopping.
            let (_running, stopping) = watch::channel(false);
            session::run(seat, target, Limits::default(), from_edge, to_edge, stopping).await;
        });
        Some(Self { incoming: Box::new(from_cloud), outgoing: Box::new(to_cloud.sink_map_err(|_| ())) })
    }
}

/// A draft model with a connection.
pub struct NativeEdge<'a> {
    model: &'a Model,
    cache: KvCache,
    scratch: Scratch,
    session: EdgeSession,
    transport: Transport,
    origin: Instant,
}

impl<'a> NativeEdge<'a> {
    /// Shakes hands.
    pub async fn greet(model: &'a Model, info: DraftInfo, transport: Transport) -> Result<Self, NativeEdgeError> {
        let mut edge = Self {
            model,
            cache: model.new_cache(),
            scratch: Scratch::default(),
            session: EdgeSession::new(info),
            transport,
            origin: Instant::now(),
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
        loop {
            match self.next_event().await? {
                Event::Committed(committed) => on_committed(&committed),
                Event::Finished(end) => {
                    return Ok(Generated { end, statistics: self.session.statistics().clone() });
                }
                Event::Refused(error) => return Err(NativeEdgeError::Refused(error)),
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
            match self.session.poll(self.origin.elapsed())? {
                Some(EdgeOutput::Send(bytes)) => {
                    self.transport.outgoing.send(bytes).await.map_err(|()| NativeEdgeError::Lost)?;
                }
                Some(EdgeOutput::Forward(forward)) => self.draft(&forward)?,
                Some(EdgeOutput::Event(Event::Closed(Some(error)))) => return Err(NativeEdgeError::Refused(error)),
                Some(EdgeOutput::Event(Event::Closed(None))) => return Err(NativeEdgeError::Lost),
                Some(EdgeOutput::Event(event)) => return Ok(event),
                None => {
                    let bytes = self.transport.incoming.next().await.ok_or(NativeEdgeError::Lost)?;
                    self.session.handle_frame(&bytes, self.origin.elapsed())?;
                }
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
