//! Browser services for the driver of a session: connecting to the server, and the clock. The driver itself, which also
//! reconnects, is `speculation/src/session/edge_driver.rs`; the socket is in `link.rs`.

use std::{future::pending, pin::pin, time::Duration};

use futures_channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures_util::{StreamExt, future::select};
use gloo_timers::future::TimeoutFuture;
use js_sys::{Error, Function, Promise};
use outrider_models::ModelError;
use outrider_speculation::session::edge_driver::{DriveError, Driver, Platform};
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;

use crate::{
    draft::EdgeDraft,
    error::Failure,
    link::{LinkedSocket, Links},
    turn::Turn,
};

/// Session with its socket and its draft model.
pub type Connection = Driver<Browser, EdgeDraft>;

/// Longest time of a timer, in milliseconds; browsers end longer ones at once.
const LONGEST_TIMER: u128 = i32::MAX as u128;
/// Longest pause after the network has changed: a server that can be reached answers within it.
const AFTER_A_CHANGE: Duration = Duration::from_secs(1);

/// Connection factory and clock of the browser.
pub struct Browser {
    url: String,
    /// Function that resolves to a bearer token, if the server requires one.
    token: Option<Function>,
    links: Links,
    turn: Turn,
    /// Changes of the network that shorten the next pause.
    changes: UnboundedReceiver<()>,
}

impl Browser {
    /// Creates a platform, and the sender of changes of its network.
    pub fn new(url: &str, token: Option<Function>, links: Links) -> Result<(Self, UnboundedSender<()>), Failure> {
        let (change, changes) = unbounded();
        Ok((Self { url: url.to_owned(), token, links, turn: Turn::new()?, changes }, change))
    }

    /// Starts to connect to the server. Failure shows in the socket; the browser reports it as well.
    pub async fn open(&self) -> Result<LinkedSocket, Failure> {
        let token = match &self.token {
            Some(token) => Some(renewed(token).await?),
            None => None,
        };
        LinkedSocket::open(&self.url, token.as_deref(), self.links.clone())
    }
}

/// Asks the page for a token, which may have to be renewed.
async fn renewed(token: &Function) -> Result<String, Failure> {
    let refused = |error: JsValue| {
        let error = error.dyn_into().map_or_else(|_| "it is no text".into(), |error: Error| error.message());
        Failure::new("unauthorized", String::from(error))
    };
    let promise = Promise::resolve(&token.call0(&JsValue::NULL).map_err(refused)?);
    let token = JsFuture::from(promise).await.map_err(refused)?;
    token.as_string().ok_or_else(|| refused(token))
}

impl Platform for Browser {
    type Socket = LinkedSocket;
    type Error = Failure;

    async fn connect(&mut self) -> Result<LinkedSocket, Failure> {
        self.open().await
    }

    fn now(&self) -> Duration {
        self.links.now()
    }

    async fn sleep(&mut self, pause: Duration) {
        let timer = |pause: Duration| TimeoutFuture::new(pause.as_millis().min(LONGEST_TIMER) as u32);
        let shortened = async {
            if pause <= AFTER_A_CHANGE || self.changes.next().await.is_none() {
                pending::<()>().await;
            }
            timer(AFTER_A_CHANGE).await;
        };
        select(timer(pause), pin!(shortened)).await;
    }

    async fn turn(&mut self) {
        self.turn.take().await;
    }

    fn chance(&mut self) -> u8 {
        (js_sys::Math::random() * 256.0) as u8
    }
}

impl From<DriveError<Failure, ModelError>> for Failure {
    fn from(error: DriveError<Failure, ModelError>) -> Self {
        match error {
            DriveError::Connect(failure) => failure,
            DriveError::Lost => Self::connection_lost(),
            DriveError::Closed(error) | DriveError::Refused(error) => error.into(),
            DriveError::Start(error) => error.into(),
            DriveError::Session(error) => error.into(),
            DriveError::Draft(error) => error.into(),
        }
    }
}
