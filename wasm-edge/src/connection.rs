//! Drives one session: polls the state machine, runs the draft model, hands events on.

use std::sync::Arc;

use futures_util::{
    FutureExt,
    future::{Either, select},
    pin_mut,
};
use gloo_timers::future::TimeoutFuture;
use outrider_codec::frame::{ErrorFrame, Welcome};
use outrider_models::{Chunk, KvCache, Model, Scratch};
use outrider_speculation::{
    Forward,
    policy::gate::Heads,
    session::edge::{Committed, DraftInfo, EdgeOutput, EdgeSession, EndReason, Event, SavedSession, Settings},
    study::statistics::Report,
};

use crate::{
    error::Failure,
    link::{Links, Socket},
    options::ConnectionEvent,
    turn::Turn,
};

/// The pause before the second attempt to connect again; it doubles with each. The first comes at once.
const PAUSE_MS: u32 = 100;
/// The longest pause.
const LONGEST_PAUSE_MS: u32 = 5_000;

/// A session and its socket.
pub struct Connection {
    session: EdgeSession,
    socket: Socket,
    links: Links,
    url: String,
    token: Option<String>,
    /// Attempts to connect again, one after the other, before a generation is lost.
    pub attempts: u32,
    /// Attempts since the last that succeeded.
    failed: u32,
    /// Why the server ended the last connection, if it said so.
    interruption: Option<ErrorFrame>,
    cache: KvCache,
    scratch: Scratch,
    turn: Turn,
}

/// What the session wants the user to know, once it has nothing else to do.
enum Progress {
    Connected,
    Committed(Committed),
    Finished(EndReason),
    Refused(ErrorFrame),
    Interrupted(ErrorFrame),
    Resumed {
        anew: bool,
    },
    /// Nothing: there is more to draft, but a verdict that has come meanwhile may make it moot.
    Ahead,
    /// Nothing: the server has the word.
    Waiting,
}

impl Connection {
    /// Connects and shakes hands, with a claim to go on with its session. The browser itself reports a server that cannot be reached.
    pub async fn open(
        url: &str,
        token: Option<&str>,
        links: Links,
        model: &Model,
        tokenizer_hash: [u8; 32],
        heads: Option<Arc<Heads>>,
        claim: Option<SavedSession>,
    ) -> Result<Self, Failure> {
        let config = model.config();
        let info = DraftInfo {
            vocab_size: config.vocab_size as u32,
            tokenizer_hash,
            context_length: config.context_length as u32,
            heads,
        };
        let session = match claim {
            Some(claim) => EdgeSession::returning(info, claim),
            None => EdgeSession::new(info),
        };
        let mut connection = Self {
            session,
            socket: Socket::open(url, token, links.clone())?,
            links,
            url: url.to_owned(),
            token: token.map(str::to_owned),
            attempts: 0,
            failed: 0,
            interruption: None,
            cache: model.new_cache(),
            scratch: Scratch::default(),
            turn: Turn::new()?,
        };
        loop {
            match connection.advance(model)? {
                Progress::Connected => return Ok(connection),
                Progress::Waiting => match connection.socket.receive().await {
                    Some(bytes) => connection.session.handle_frame(&bytes, connection.links.now())?,
                    // A claim that the server does not know is no reason not to begin.
                    None if connection.session.saved().is_none() && connection.session.disconnected() => {
                        connection.socket = Socket::open(url, token, connection.links.clone())?;
                        connection.session.reconnected();
                    }
                    None => return Err(Failure::new("connection-failed", format!("{url} cannot be reached"))),
                },
                _ => {}
            }
        }
    }

    /// What the server said of itself.
    pub fn server(&self) -> Option<&Welcome> {
        self.session.server()
    }

    /// The current statistics.
    pub fn report(&self) -> Report {
        self.session.statistics().report()
    }

    /// What the session can be gone on with by another.
    pub fn claim(&self) -> Option<SavedSession> {
        self.session.saved()
    }

    /// Runs a generation to its end; `stop` resolves when the user wants it to end sooner. When the connection is lost it goes on over
    /// another, after no more than [`attempts`](Self::attempts).
    ///
    /// On `Err(Interruption::Refused)` the connection can be used again, on `Err(Interruption::Broken)` not.
    pub async fn generate(
        &mut self,
        model: &Model,
        prompt: Vec<u32>,
        settings: &Settings,
        stop: impl Future<Output = ()>,
        mut on_committed: impl FnMut(&Committed, Report),
        mut on_line: impl FnMut(ConnectionEvent),
    ) -> Result<EndReason, Interruption> {
        self.session.start(prompt, settings, self.links.now()).map_err(|error| Interruption::Refused(error.into()))?;
        on_line(ConnectionEvent::Begun { claim: self.claim().map(Into::into) });
        pin_mut!(stop);
        let mut stopped = false;
        loop {
            match self.advance(model)? {
                Progress::Committed(committed) => on_committed(&committed, self.report()),
                Progress::Finished(reason) => return Ok(reason),
                Progress::Refused(error) => return Err(Interruption::Refused(error.into())),
                Progress::Connected => {}
                Progress::Interrupted(error) => self.interruption = Some(error),
                Progress::Resumed { anew } => {
                    (self.failed, self.interruption) = (0, None);
                    on_line(ConnectionEvent::Resumed { anew, claim: self.claim().map(Into::into) });
                }
                Progress::Ahead => {
                    self.turn.pass().await;
                    while let Some(bytes) = self.socket.arrived() {
                        self.session.handle_frame(&bytes, self.links.now()).map_err(Failure::from)?;
                    }
                    if !stopped && stop.as_mut().now_or_never().is_some() {
                        stopped = true;
                        self.session.cancel();
                    }
                }
                Progress::Waiting => {
                    let received = {
                        let receive = self.socket.receive();
                        pin_mut!(receive);
                        if stopped {
                            receive.await
                        } else {
                            match select(stop.as_mut(), receive).await {
                                Either::Left(((), _)) => {
                                    stopped = true;
                                    self.session.cancel();
                                    continue;
                                }
                                Either::Right((received, _)) => received,
                            }
                        }
                    };
                    let Some(bytes) = received else {
                        if self.failed >= self.attempts || !self.session.disconnected() {
                            let reason = self.interruption.take();
                            return Err(reason.map_or_else(Failure::connection_lost, Failure::from).into());
                        }
                        let delay_ms = pause_after(self.failed);
                        self.failed += 1;
                        on_line(ConnectionEvent::Reconnecting { attempt: self.failed, delay_ms });
                        let pause = TimeoutFuture::new(delay_ms);
                        if stopped {
                            pause.await;
                        } else if let Either::Left(_) = select(stop.as_mut(), pause).await {
                            // There is nobody to tell; the next connection will.
                            stopped = true;
                            self.session.cancel();
                            continue;
                        }
                        self.socket = Socket::open(&self.url, self.token.as_deref(), self.links.clone())?;
                        self.session.reconnected();
                        continue;
                    };
                    self.session.handle_frame(&bytes, self.links.now()).map_err(Failure::from)?;
                }
            }
        }
    }

    /// Says goodbye; the socket closes when the last bytes have left.
    pub fn close(&mut self) {
        self.session.close();
        while let Ok(Some(output)) = self.session.poll(self.links.now()) {
            if let EdgeOutput::Send(bytes) = output {
                self.socket.send(bytes);
            }
        }
    }

    /// Does what the session wants until it has something to tell or waits for the server.
    fn advance(&mut self, model: &Model) -> Result<Progress, Failure> {
        loop {
            match self.session.poll(self.links.now())? {
                None => return Ok(Progress::Waiting),
                Some(EdgeOutput::Send(bytes)) => {
                    self.socket.send(bytes);
                    // Bytes leave, and verdicts come, in turns of the event loop.
                    if self.session.is_ahead() {
                        return Ok(Progress::Ahead);
                    }
                }
                Some(EdgeOutput::Forward(forward)) => {
                    self.draft(model, &forward)?;
                    if self.session.is_ahead() {
                        return Ok(Progress::Ahead);
                    }
                }
                Some(EdgeOutput::Event(event)) => match event {
                    Event::Connected(_) => return Ok(Progress::Connected),
                    Event::Committed(committed) => return Ok(Progress::Committed(committed)),
                    Event::Finished(reason) => return Ok(Progress::Finished(reason)),
                    Event::Refused(error) => return Ok(Progress::Refused(error)),
                    Event::Interrupted(error) => return Ok(Progress::Interrupted(error)),
                    Event::Resumed { anew } => return Ok(Progress::Resumed { anew }),
                    Event::Closed(Some(error)) => return Err(error.into()),
                    Event::Closed(None) => return Err(Failure::connection_lost()),
                },
            }
        }
    }

    fn draft(&mut self, model: &Model, forward: &Forward) -> Result<(), Failure> {
        self.cache.truncate(forward.keep);
        let positions: Vec<usize> = (forward.tokens.len() - forward.rows..forward.tokens.len()).collect();
        let chunk = Chunk { cache: &mut self.cache, tokens: &forward.tokens, positions: &positions };
        for logits in model.forward_with(&mut [chunk], &mut self.scratch)?.iter() {
            for index in 0..logits.len() {
                self.session.handle_logits(logits.row(index), logits.hidden(index), self.links.now())?;
            }
        }
        Ok(())
    }
}

/// The pause after so many attempts. Chance spreads the pages that have lost the same server.
fn pause_after(failed: u32) -> u32 {
    if failed == 0 {
        return 0;
    }
    let pause = PAUSE_MS.saturating_mul(1 << (failed - 1).min(20)).min(LONGEST_PAUSE_MS);
    pause / 2 + (f64::from(pause / 2) * js_sys::Math::random()) as u32
}

/// Why a generation gave no end.
pub enum Interruption {
    /// It was refused; the connection goes on.
    Refused(Failure),
    /// The connection is of no use any more.
    Broken(Failure),
}

impl From<Failure> for Interruption {
    fn from(failure: Failure) -> Self {
        Self::Broken(failure)
    }
}
