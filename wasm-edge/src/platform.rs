//! What the driver of a session needs of the browser: a draft model in its memory, a way to the server, and its clock.
//! The driver itself, which connects again and again, is `speculation/src/session/driver.rs`; the socket is in
//! `link.rs`.

use std::{rc::Rc, time::Duration};

use gloo_timers::future::TimeoutFuture;
use outrider_models::{Chunk, KvCache, Model, ModelError, Scratch};
use outrider_speculation::{
    Forward,
    session::driver::{DraftModel, DriveError, Driver, Platform},
};

use crate::{
    error::Failure,
    link::{LinkedSocket, Links},
    turn::Turn,
};

/// A session with its socket and its draft model.
pub type Connection = Driver<Browser, CachedDraft>;

/// The way to a server, and the browser's clock.
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

    /// Begins to connect. That nobody is there shows in the socket; the browser itself reports it, too.
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

/// A draft model and its KV cache, which holds on to a text until another is read.
pub struct CachedDraft {
    model: Rc<Model>,
    cache: KvCache,
    /// The tokens in it.
    held: Vec<u32>,
    scratch: Scratch,
}

impl CachedDraft {
    pub fn new(model: Rc<Model>) -> Self {
        Self { cache: model.new_cache(), held: Vec::new(), scratch: Scratch::default(), model }
    }
}

impl DraftModel for CachedDraft {
    type Error = ModelError;

    fn forward(&mut self, forward: &Forward, give: &mut dyn FnMut(&[f32], &[f32])) -> Result<(), ModelError> {
        let reused = forward.reusable(&self.held);
        let (keep, tokens) = (forward.keep + reused, &forward.tokens[reused..]);
        self.cache.truncate(keep);
        self.held.truncate(keep);
        let positions: Vec<usize> = (tokens.len() - forward.rows..tokens.len()).collect();
        let chunk = Chunk { cache: &mut self.cache, tokens, positions: &positions };
        let batch = self.model.forward_with(&mut [chunk], &mut self.scratch)?;
        self.held.extend(tokens);
        for logits in batch.iter() {
            for index in 0..logits.len() {
                give(logits.row(index), logits.hidden(index));
            }
        }
        Ok(())
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
