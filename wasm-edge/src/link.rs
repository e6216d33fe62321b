//! Socket with an emulated link of given rate and delay. Bytes are really held back here.

use std::{
    cell::{Cell, RefCell},
    pin::pin,
    rc::Rc,
    time::Duration,
};

use futures_channel::{
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded},
    oneshot,
};
use futures_util::{
    StreamExt,
    future::{Either, select},
};
use gloo_net::websocket::{Message, futures::WebSocket};
use gloo_timers::future::TimeoutFuture;
use js_sys::{Array, Error, Promise, Uint8Array};
use outrider_speculation::{control::link::Link, session::edge_driver::Socket};
use wasm_bindgen_futures::{JsFuture, spawn_local};
use web_time::Instant;

use crate::{error::Failure, options::LinkOptions};

/// A socket with the channel by which its owner learns of a cut.
type OpenSocket = (web_sys::WebSocket, oneshot::Sender<()>);

/// Links in both directions; shared, so that they can be changed while bytes are in flight.
#[derive(Debug, Clone)]
pub struct Links {
    up: Rc<RefCell<Link>>,
    down: Rc<RefCell<Link>>,
    origin: Instant,
    is_cut: Rc<Cell<bool>>,
    /// Sockets whose stream has not ended, which a cut closes.
    open: Rc<RefCell<Vec<OpenSocket>>>,
}

impl Links {
    pub fn unlimited() -> Self {
        Self {
            up: Rc::new(RefCell::new(Link::unlimited())),
            down: Rc::new(RefCell::new(Link::unlimited())),
            origin: Instant::now(),
            is_cut: Rc::default(),
            open: Rc::default(),
        }
    }

    /// Sets rates and delay, and cuts or mends the link. Each direction gets half of the round-trip time.
    pub fn configure(&self, options: &LinkOptions) {
        let half = Duration::from_secs_f64((options.round_trip_ms / 2e3).clamp(0.0, 3600.0));
        self.up.borrow_mut().configure(options.uplink_bits_per_second, half);
        self.down.borrow_mut().configure(options.downlink_bits_per_second, half);
        self.is_cut.set(options.is_cut);
        if options.is_cut {
            for (socket, cut) in self.open.borrow_mut().drain(..) {
                let _ = socket.close();
                let _ = cut.send(());
            }
        }
    }

    /// Time since these links were created.
    pub fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// Waits until `time`, to the nearest millisecond, which is the resolution of timers here. Rounding up at both ends
    /// would turn a link of 2 ms into one of 4 ms.
    async fn wait_until(&self, time: Duration) {
        let left = time.saturating_sub(self.now());
        let milliseconds = (left.as_micros() + 500) / 1000;
        if milliseconds > 0 {
            TimeoutFuture::new(milliseconds.min(u128::from(u32::MAX)) as u32).await;
        }
    }
}

/// Connected socket with an emulated link.
pub struct LinkedSocket {
    links: Links,
    outgoing: UnboundedSender<(Duration, Vec<u8>)>,
    incoming: UnboundedReceiver<(Duration, Vec<u8>)>,
    /// Time at which all bytes so far reach the end of the uplink.
    sent_at: Duration,
    /// Next message, which has not yet reached the end of the link.
    under_way: Option<(Duration, Vec<u8>)>,
    /// Resolves once the link is cut: then nothing that is still on it arrives.
    cut: oneshot::Receiver<()>,
}

impl LinkedSocket {
    /// Connects to a WebSocket URL. Pages cannot set headers on a WebSocket, so a token is sent as an offered
    /// subprotocol, with bytes that a subprotocol cannot have as `%2F`.
    pub fn open(url: &str, token: Option<&str>, links: Links) -> Result<Self, Failure> {
        if links.is_cut.get() {
            return Ok(Self::closed(links));
        }
        let protocols = Array::new();
        if let Some(token) = token {
            protocols.push(&"outrider".into());
            let token = js_sys::encode_uri_component(token);
            protocols.push(&format!("outrider.bearer.{token}").into());
        }
        let failed = |why: String| Failure::new("connection-failed", format!("{url} cannot be reached: {why}"));
        let socket = web_sys::WebSocket::new_with_str_sequence(url, &protocols)
            .map_err(|error| failed(Error::from(error).to_string().into()))?;
        let stream = WebSocket::try_from(socket.clone()).map_err(|error| failed(error.to_string()))?;
        let (cuts, cut) = oneshot::channel();
        links.open.borrow_mut().push((socket.clone(), cuts));
        let (outgoing, queue) = unbounded();
        spawn_local(pump(socket.clone(), queue, links.clone()));
        let (arrivals, incoming) = unbounded();
        let stamped = stamp(stream, arrivals, links.clone());
        let open = links.open.clone();
        spawn_local(async move {
            stamped.await;
            open.borrow_mut().retain(|(other, _)| *other != socket);
        });
        Ok(Self { links, outgoing, incoming, sent_at: Duration::ZERO, under_way: None, cut })
    }

    /// A socket whose connection is gone already.
    pub fn closed(links: Links) -> Self {
        let ((outgoing, _), (_, incoming), (_, cut)) = (unbounded(), unbounded(), oneshot::channel());
        Self { links, outgoing, incoming, sent_at: Duration::ZERO, under_way: None, cut }
    }
}

impl Socket for LinkedSocket {
    /// Queues bytes for the link and returns at once.
    async fn send(&mut self, bytes: Vec<u8>) -> bool {
        let arrival = self.links.up.borrow_mut().arrival(self.links.now(), bytes.len());
        self.sent_at = arrival;
        // The pump ends when the socket does, which `receive` reports.
        let _ = self.outgoing.unbounded_send((arrival, bytes));
        true
    }

    async fn receive(&mut self) -> Option<Vec<u8>> {
        let Self { links, incoming, under_way, cut, .. } = self;
        let arrives = async {
            if under_way.is_none() {
                *under_way = incoming.next().await;
            }
            links.wait_until(under_way.as_ref()?.0).await;
            under_way.take().map(|(_, bytes)| bytes)
        };
        match select(pin!(arrives), cut).await {
            Either::Left((arrived, _)) => return arrived,
            // The connection has ended, and what it brought is still on the link.
            Either::Right((Err(_), arrives)) => return arrives.await,
            Either::Right((Ok(()), _)) => {}
        }
        (self.under_way, self.incoming) = (None, unbounded().1);
        None
    }

    /// Closes the socket after the last bytes have been sent.
    async fn close(&mut self) {
        self.outgoing.close_channel();
    }

    fn holds_bytes(&self) -> bool {
        self.under_way.is_some() || self.sent_at > self.links.now()
    }
}

/// Computes each message's arrival time as soon as it leaves the socket, so that consecutive messages are delayed
/// together and not one after the other.
async fn stamp(mut stream: WebSocket, arrivals: UnboundedSender<(Duration, Vec<u8>)>, links: Links) {
    while let Some(Ok(message)) = stream.next().await {
        let bytes = match message {
            Message::Bytes(bytes) => bytes,
            // No frame is text; the session rejects it like other invalid bytes.
            Message::Text(text) => text.into_bytes(),
        };
        let arrival = links.down.borrow_mut().arrival(links.now(), bytes.len());
        if arrivals.unbounded_send((arrival, bytes)).is_err() {
            return;
        }
    }
}

/// Sends messages that have reached the end of the uplink, in order, and closes the socket at the end. Uses the socket
/// directly, because `WebSocket` would create a blob per message, which another process stores; that takes almost a
/// millisecond.
async fn pump(socket: web_sys::WebSocket, mut queue: UnboundedReceiver<(Duration, Vec<u8>)>, links: Links) {
    let mut on_open = |opened, _| {
        socket.set_onopen(Some(&opened));
        socket.set_onclose(Some(&opened));
    };
    // Resolves on success and on failure, which `receive` reports.
    let _ = JsFuture::from(Promise::new(&mut on_open)).await;
    while let Some((arrival, bytes)) = queue.next().await {
        links.wait_until(arrival).await;
        if socket.send_with_js_u8_array(&Uint8Array::from(bytes.as_slice())).is_err() {
            break;
        }
    }
    let _ = socket.close();
}
