//! Drives one connection: state machine, engine, time limits.
//!
//! Generic over the stream and the sink of bytes, so that channels stand in for a socket.

use std::{future::Future, pin::Pin, time::Duration};

use futures_util::{Sink, SinkExt, Stream, StreamExt};
use outrider_codec::frame::{ErrorCode, ErrorFrame, Frame};
use outrider_speculation::cloud::{CloudOutput, CloudSession, TargetInfo};
use tokio::{sync::watch, time};

use crate::target::{Rows, Seat, TargetError};

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

type PassInFlight<'a> = Pin<Box<dyn Future<Output = Result<Rows, TargetError>> + Send + 'a>>;

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
    let mut pass: Option<PassInFlight<'_>> = None;
    let mut heard = time::Instant::now();
    loop {
        while let Some(output) = session.poll() {
            match output {
                CloudOutput::Send(bytes) => {
                    if !send(&mut outgoing, bytes, limits.write).await {
                        return;
                    }
                }
                CloudOutput::Forward(forward) => pass = Some(Box::pin(seat.run(forward, &session))),
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
                }
                None => return,
            },
            result = finished(&mut pass) => {
                pass = None;
                heard = time::Instant::now();
                match result {
                    Ok(rows) => session.handle_logits(&rows.to_slices()),
                    Err(error) => {
                        tracing::warn!(%error, "a pass failed");
                        error.tell(&mut session);
                    }
                }
            }
            () = time::sleep_until(heard + limits.idle), if pass.is_none() => {
                session.close(ErrorCode::Idle, "Nothing was heard for too long.");
            }
            _ = stopping.wait_for(|stopping| *stopping) => {
                session.close(ErrorCode::ShuttingDown, "The server is stopping.");
            }
        }
    }
}

/// Tells a peer that there is no seat for it.
pub async fn refuse<Outgoing: Sink<Vec<u8>> + Unpin>(mut outgoing: Outgoing, limits: Limits) {
    let error = ErrorFrame {
        generation: 0,
        code: ErrorCode::ServerFull,
        text: "The server has no place for another session; try again later.".to_owned(),
    };
    if send(&mut outgoing, Frame::Error(error).encode(), limits.write).await {
        let _ = outgoing.close().await;
    }
}

/// The result of the pass under way; without one, never.
async fn finished(pass: &mut Option<PassInFlight<'_>>) -> Result<Rows, TargetError> {
    match pass {
        Some(pass) => pass.await,
        None => std::future::pending().await,
    }
}

/// Whether the peer took the message in time.
async fn send<Outgoing: Sink<Vec<u8>> + Unpin>(outgoing: &mut Outgoing, bytes: Vec<u8>, limit: Duration) -> bool {
    matches!(time::timeout(limit, outgoing.send(bytes)).await, Ok(Ok(())))
}
