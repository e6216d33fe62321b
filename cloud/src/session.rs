//! Drives one connection: state machine, engine, time limits.
//!
//! Generic over the stream and the sink of bytes, so that channels stand in for a socket.

use std::{future::Future, net::SocketAddr, pin::Pin, time::Duration};

use futures_util::{Sink, SinkExt, Stream, StreamExt};
use outrider_codec::frame::{ErrorCode, ErrorFrame, Frame};
use outrider_models::Logits;
use outrider_speculation::cloud::{CloudOutput, CloudSession, TargetInfo};
use tokio::{sync::watch, time};
use tracing::{
    Span,
    field::{Empty, display},
};

use crate::{
    engine::{EngineError, Seat},
    metrics::SessionMeter,
};

/// Bounds on a session.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long a connection may stay silent while nothing runs for it.
    pub idle: Duration,
    /// How long the peer may take to accept a message.
    pub write: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { idle: Duration::from_secs(300), write: Duration::from_secs(30) }
    }
}

/// What the log says with every line about a session: a number, who is at the other end, and the scheme of its drafts.
pub fn span(seat: &Seat, peer: Option<SocketAddr>) -> Span {
    let span = tracing::info_span!("session", id = seat.id(), peer = Empty, scheme = Empty);
    if let Some(peer) = peer {
        span.record("peer", display(peer));
    }
    span
}

type PassInFlight<'a> = Pin<Box<dyn Future<Output = Result<Logits, EngineError>> + Send + 'a>>;

/// Runs a session until it closes, the peer goes, or `stopping` becomes true.
pub async fn run<Incoming, Outgoing>(
    seat: Seat,
    target: TargetInfo,
    limits: Limits,
    mut incoming: Incoming,
    mut outgoing: Outgoing,
    mut stopping: watch::Receiver<bool>,
) where
    Incoming: Stream<Item = Vec<u8>> + Unpin,
    Outgoing: Sink<Vec<u8>> + Unpin,
{
    let mut session = CloudSession::new(target);
    let mut meter = SessionMeter::new(seat.metrics());
    let mut pass: Option<PassInFlight<'_>> = None;
    let mut heard = time::Instant::now();
    loop {
        while let Some(output) = session.poll() {
            match output {
                CloudOutput::Send(bytes) => {
                    meter.sent(bytes.len());
                    if !send(&mut outgoing, bytes, limits.write).await {
                        return;
                    }
                }
                CloudOutput::Forward(forward) => pass = Some(Box::pin(seat.forward(forward))),
                CloudOutput::Close => {
                    let _ = outgoing.close().await;
                    return;
                }
            }
        }
        tokio::select! {
            bytes = incoming.next() => match bytes {
                Some(bytes) => {
                    heard = time::Instant::now();
                    session.handle_frame(&bytes);
                    meter.received(bytes.len(), session.events());
                }
                None => return,
            },
            result = finished(&mut pass) => {
                pass = None;
                heard = time::Instant::now();
                match result {
                    Ok(logits) => session.handle_logits(&logits.iter().collect::<Vec<_>>()),
                    Err(error) => session.handle_failure(&format!("The server failed: {error}.")),
                }
                meter.observe(session.events());
            }
            () = time::sleep_until(heard + limits.idle), if pass.is_none() => {
                session.close(ErrorCode::Idle, "Nothing was heard for too long.");
                meter.observe(session.events());
            }
            _ = stopping.wait_for(|stopping| *stopping) => {
                session.close(ErrorCode::ShuttingDown, "The server is stopping.");
                meter.observe(session.events());
            }
        }
    }
}

/// Tells a peer that there is no seat for it.
pub async fn refuse<Outgoing: Sink<Vec<u8>> + Unpin>(mut outgoing: Outgoing, limits: Limits) {
    let error = ErrorFrame {
        generation: 0,
        code: ErrorCode::ServerFull,
        text: "The server has no place for another session; try again in a minute.".to_owned(),
    };
    if send(&mut outgoing, Frame::Error(error).encode(), limits.write).await {
        let _ = outgoing.close().await;
    }
}

/// The result of the pass under way; without one, never.
async fn finished(pass: &mut Option<PassInFlight<'_>>) -> Result<Logits, EngineError> {
    match pass {
        Some(pass) => pass.await,
        None => std::future::pending().await,
    }
}

/// Whether the peer took the message in time.
async fn send<Outgoing: Sink<Vec<u8>> + Unpin>(outgoing: &mut Outgoing, bytes: Vec<u8>, limit: Duration) -> bool {
    matches!(time::timeout(limit, outgoing.send(bytes)).await, Ok(Ok(())))
}
