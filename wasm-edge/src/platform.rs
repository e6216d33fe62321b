//! Browser services for the driver of a session: connecting to the server, and the clock. The driver itself, which also
//! reconnects, is `speculation/src/session/driver.rs`; the socket is in `link.rs`.

use std::time::Duration;

use gloo_timers::future::TimeoutFuture;
use outrider_models::ModelError;
use outrider_speculation::session::driver::{DriveError, Driver, Platform};

use crate::{
    draft::CachedDraft,
    error::Failure,
    link::{LinkedSocket, Links},
    turn::Turn,
};

/// Session with its socket and its draft model.
pub type Connection = Driver<Browser, CachedDraft>;

/// Connection factory and clock of the browser.
pub struct Browser {
    url: String,
    token: Option<String>,
    links: Links,
    turn: Turn,
}

impl Browser {
    pub fn new(url: &str, token: Option<String>, links: Links) -> Result<Self, Failure> {
        Ok(Self { url: url.to_owned(), token, links, turn: Turn::new()? })
    }

    /// Starts to connect to the server. Failure shows in the socket; the browser reports it as well.
    pub fn open(&self) -> Result<LinkedSocket, Failure> {
        LinkedSocket::open(&self.url, self.token.as_deref(), self.links.clone())
    }
}

impl Platform for Browser {
    type Socket = LinkedSocket;
    type Error = Failure;

    async fn connect(&mut self) -> Result<LinkedSocket, Failure> {
        self.open()
    }

    fn now(&self) -> Duration {
        self.links.now()
    }

    async fn sleep(&mut self, pause: Duration) {
        TimeoutFuture::new(pause.as_millis() as u32).await;
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
