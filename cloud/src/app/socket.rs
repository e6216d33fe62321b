//! The WebSocket, as a stream and a sink of frames.

use std::{borrow::Cow, error::Error, sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{
        State,
        ws::{Message, WebSocket, WebSocketUpgrade},
    },
    http::{HeaderMap, HeaderValue},
    response::Response,
};
use futures_util::{
    SinkExt, Stream, StreamExt, future,
    stream::{self, BoxStream},
};
use outrider_codec::frame::{ErrorCode, Frame, MAX_FRAME_BYTES};
use tokio::time::{self, Instant};
use tokio_tungstenite::tungstenite::{self, error::CapacityError};
use tracing::{Instrument, Span};

use crate::{
    http::{
        AddressedModel, Caller, Served, Shared, UnknownModel,
        token::{self, PROTOCOL},
    },
    keys::{Key, Right},
    log_limits::client_event,
    openai,
    session::Host,
    wire::Wire,
};

/// Read buffer of a connection, in bytes, which it keeps while it is idle. Most frames are shorter.
const READ_BUFFER: usize = 4096;

/// Limit on the bytes that wait to be written. A session writes one frame at a time; the few short frames that the
/// WebSocket protocol adds (pongs, a close) come on top.
const WRITE_BUFFER: usize = 2 * MAX_FRAME_BYTES;

/// Limit on a message, in bytes, and so on the memory for one that is still arriving. It is a little above the limit of
/// a frame, so that the session can report a frame that is too long. A longer message ends the connection.
const LONGEST_MESSAGE: usize = MAX_FRAME_BYTES + (64 << 10);

const TOO_MANY_NEWCOMERS: &str =
    "Your address has the most connections allowed before Hello; try again in a few seconds.";

const NO_RIGHT: &str = "This key has no right \"session\"; the server's operator can add it.";

pub(super) async fn upgrade(
    State(shared): State<Arc<Shared>>,
    Extension(caller): Extension<Caller>,
    model: Result<AddressedModel, UnknownModel>,
    headers: HeaderMap,
    mut upgrade: WebSocketUpgrade,
) -> Response {
    let protocols: Vec<&str> = upgrade.requested_protocols().filter_map(|protocol| protocol.to_str().ok()).collect();
    let shown = token::bearer(&headers).map(Cow::Borrowed).or(token::offered(protocols.iter().copied()));
    let client = shared.state.access.identify(shown.as_deref());
    if protocols.contains(&PROTOCOL) {
        upgrade.set_selected_protocol(HeaderValue::from_static(PROTOCOL));
    }
    // The session goes on after the response; its lines of the log name the request that began it.
    let span = Span::current();
    if let Ok(Some(key)) = &client {
        span.record("key", key.name());
    }
    upgrade
        .read_buffer_size(READ_BUFFER)
        .max_message_size(LONGEST_MESSAGE)
        .max_frame_size(LONGEST_MESSAGE)
        .max_write_buffer_size(WRITE_BUFFER)
        .on_upgrade(move |socket| {
            let conversation = async move {
                match client {
                    Ok(Some(key)) if !key.has(Right::Session) => {
                        refuse(socket, &shared, ErrorCode::Unauthorized, NO_RIGHT).await;
                    }
                    Ok(key) => match model {
                        Ok(AddressedModel(model)) => converse(socket, &shared, &model, caller, key).await,
                        Err(unknown) => {
                            refuse(socket, &shared, ErrorCode::InvalidParameters, &unknown.to_string()).await;
                        }
                    },
                    // Browsers do not show a page the status of a failed upgrade, so the refusal is sent as a frame.
                    Err(refusal) => {
                        client_event!(WARN, caller.address, "refused a session", address = %caller.address, %refusal);
                        refuse(socket, &shared, ErrorCode::Unauthorized, &refusal.to_string()).await;
                    }
                }
            };
            conversation.instrument(span)
        })
}

async fn refuse(socket: WebSocket, shared: &Shared, code: ErrorCode, text: &str) {
    shared.state.models.first().engine.metrics().refused(code);
    let wire = wire(socket, |_| stream::empty());
    wire.refuse(code, text, shared.state.limits.write).await;
}

async fn converse(socket: WebSocket, shared: &Shared, model: &Served, caller: Caller, key: Option<Arc<Key>>) {
    let address = caller.address;
    let Some(waiting) = shared.newcomers.take(address) else {
        client_event!(
            DEBUG,
            address,
            "refused a session: too many connections of its address have not said Hello",
            %address
        );
        return refuse(socket, shared, ErrorCode::ServerFull, TOO_MANY_NEWCOMERS).await;
    };
    client_event!(DEBUG, address, "a connection begins", %address, key = key.as_ref().map(|key| key.name()));
    let rate = shared.state.caps.frames_per_second;
    let payer = key.clone();
    let wire = wire(socket, |messages| paid(paced(messages, rate), payer));
    let host = Host { key, shaper: Some(openai::shaper(model)), ..shared.host(model, shared.limits(&caller)) };
    host.converse(wire, address, waiting).await;
}

/// Payload of a message for the session; `None` for pings and other control messages.
type Heard = Option<Vec<u8>>;

/// Carries frames in binary messages, in both directions; `with` is applied to all incoming messages.
fn wire<S: Stream<Item = Heard> + Send + 'static>(
    socket: WebSocket,
    with: impl FnOnce(BoxStream<'static, Heard>) -> S,
) -> Wire {
    let (sink, stream) = socket.split();
    // Ends at the first error, which ends the connection.
    let incoming = stream.map(frame).scan((), |(), frame| future::ready(frame.ok()));
    let outgoing = sink.with(|bytes: Vec<u8>| future::ready(Ok::<_, axum::Error>(Message::Binary(bytes.into()))));
    Wire::new(with(incoming.boxed()).filter_map(future::ready), outgoing)
}

/// Reads the frame of a message; `None` if it is not for the session, an error if the connection has ended.
fn frame(message: Result<Message, axum::Error>) -> Result<Heard, axum::Error> {
    match message {
        Ok(Message::Binary(bytes)) => Ok(Some(bytes.to_vec())),
        // No frame is text. The session refuses it as an empty frame.
        Ok(Message::Text(_)) => Ok(Some(Vec::new())),
        Ok(_) => Ok(None),
        // A message that is too long is not read. A frame of too many bytes makes the session report that.
        Err(error) if is_too_long(&error) => Ok(Some(vec![0; MAX_FRAME_BYTES + 1])),
        Err(error) => Err(error),
    }
}

/// Returns true if a message was longer than [`LONGEST_MESSAGE`].
fn is_too_long(error: &axum::Error) -> bool {
    let error = error.source().and_then(|error| error.downcast_ref::<tungstenite::Error>());
    matches!(error, Some(tungstenite::Error::Capacity(CapacityError::MessageTooLong { .. })))
}

/// Limits messages to `rate` per second, with bursts of as many. Further messages stay unread, so that the sender
/// waits.
fn paced<S: Stream<Item = Heard>>(messages: S, rate: u32) -> impl Stream<Item = Heard> {
    let mut pace = Pace::new(rate, Instant::now());
    messages.then(move |message| {
        let until = pace.next(Instant::now());
        async move {
            if let Some(until) = until {
                time::sleep_until(until).await;
            }
            message
        }
    })
}

/// Holds messages back while the client's key has used up its tokens of this minute, except one that ends the session.
fn paid<S: Stream<Item = Heard>>(messages: S, key: Option<Arc<Key>>) -> impl Stream<Item = Heard> {
    messages.then(move |message| {
        let is_end = message.as_ref().is_some_and(|bytes| *bytes == Frame::Bye.encode());
        let key = key.clone().filter(|_| !is_end);
        async move {
            while let Some(wait) = key.as_ref().map(|key| key.token_wait()).filter(|wait| !wait.is_zero()) {
                time::sleep(wait).await;
            }
            message
        }
    })
}

/// Rate limiter (the generic cell rate algorithm, ITU-T I.371).
#[derive(Debug)]
struct Pace {
    /// Interval between two frames; `None` without a limit.
    interval: Option<Duration>,
    /// Time at which all frames so far would have passed at that interval.
    level: Instant,
}

/// Largest lead of the level over the clock: a burst has the frames of this time.
const BURST: Duration = Duration::from_secs(1);

impl Pace {
    fn new(rate: u32, now: Instant) -> Self {
        Self { interval: Duration::from_secs(1).checked_div(rate), level: now }
    }

    /// Time at which a frame that came now may pass; `None` if it may pass at once.
    fn next(&mut self, now: Instant) -> Option<Instant> {
        self.level = self.level.max(now) + self.interval?;
        self.level.checked_sub(BURST).filter(|&until| until > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_so_many_a_second() {
        let start = Instant::now();
        let mut pace = Pace::new(10, start);
        assert!((0..10).all(|_| pace.next(start).is_none()));
        let until = pace.next(start).unwrap();
        assert_eq!(until - start, Duration::from_millis(100));
        assert_eq!(pace.next(until).unwrap() - until, Duration::from_millis(100));
        // A long silence earns one burst, not two.
        let later = start + Duration::from_secs(60);
        assert_eq!((0..20).filter(|_| pace.next(later).is_none()).count(), 10);
        let mut unlimited = Pace::new(0, start);
        assert!((0..10_000).all(|_| unlimited.next(start).is_none()));
    }
}
