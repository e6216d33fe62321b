//! A connection as two streams of bytes, so that channels stand in for a socket.

use std::{pin::Pin, time::Duration};

use futures_util::{Sink, SinkExt, Stream, StreamExt, stream};
use outrider_codec::frame::{ErrorCode, ErrorFrame, Frame};
use tokio::time;

/// Both directions of a connection.
pub struct Wire {
    pub(crate) incoming: Pin<Box<dyn Stream<Item = Vec<u8>> + Send>>,
    pub(crate) outgoing: Pin<Box<dyn Sink<Vec<u8>, Error = ()> + Send>>,
}

impl Wire {
    /// Joins the stream of incoming frames and the sink of outgoing ones; each item is one frame.
    pub fn new<Outgoing: Sink<Vec<u8>> + Send + 'static>(
        incoming: impl Stream<Item = Vec<u8>> + Send + 'static,
        outgoing: Outgoing,
    ) -> Self {
        Self { incoming: Box::pin(incoming), outgoing: Box::pin(outgoing.sink_map_err(|_| ())) }
    }

    /// A connection whose peer is gone.
    pub fn closed() -> Self {
        Self::new(stream::empty(), futures_util::sink::drain())
    }

    /// Sends a message; returns false if the peer did not take it within the time limit.
    pub(crate) async fn send(&mut self, bytes: Vec<u8>, within: Duration) -> bool {
        matches!(time::timeout(within, self.outgoing.send(bytes)).await, Ok(Ok(())))
    }

    /// Sends the reason why the connection ends, and closes it.
    pub(crate) async fn refuse(mut self, code: ErrorCode, text: &str, within: Duration) {
        let error = ErrorFrame { generation: 0, code, text: text.to_owned() };
        if self.send(Frame::Error(error).encode(), within).await {
            let _ = self.outgoing.close().await;
        }
    }

    /// Puts a frame that was already received back in front of the incoming ones.
    pub(crate) fn with_first(self, bytes: Vec<u8>) -> Self {
        let Self { incoming, outgoing } = self;
        Self { incoming: Box::pin(stream::iter([bytes]).chain(incoming)), outgoing }
    }
}

impl core::fmt::Debug for Wire {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Wire")
    }
}
