//! Drives an edge session: over one connection after another, with a draft model, for a user who may stop it.
//!
//! It is written once, over four small traits: a [`Socket`], the [`Platform`] that opens sockets and keeps time, and a
//! [`DraftModel`]. The browser has its own, the native edge has others, and the tests have a virtual clock.
//!
//! A lost connection is opened again: the first attempt comes at once, and pauses follow as [`Retry`] says. A
//! connection on which nothing arrives while text is due counts as lost after [`Retry::stall`].

use core::{
    future::{Future, pending, poll_fn},
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use outrider_codec::frame::ErrorFrame;

use super::edge::{Committed, EdgeError, EdgeOutput, EdgeSession, EndReason, Event, Settings, StartError};
use crate::{Chosen, Forward};

mod reading;
mod reconnect;
mod silence;
#[cfg(test)]
mod tests;
mod tuning;

pub use self::reconnect::Retry;

/// A connection in both directions.
pub trait Socket {
    /// Sends one binary message. Returns `false` if the connection is gone.
    fn send(&mut self, bytes: Vec<u8>) -> impl Future<Output = bool>;

    /// The next message; `None` when the connection is gone. May be dropped and called again.
    fn receive(&mut self) -> impl Future<Output = Option<Vec<u8>>>;

    /// Closes the connection after all that was handed in is sent.
    fn close(&mut self) -> impl Future<Output = ()>;

    /// True while it holds back bytes of either direction, as an emulated link does.
    fn holds_bytes(&self) -> bool {
        false
    }
}

/// A maker of connections to one server, and a clock.
pub trait Platform {
    /// The socket of a connection.
    type Socket: Socket;
    /// The reason why there is no connection.
    type Error;

    /// Opens a connection to the server. That the server cannot be reached may also show in the socket.
    fn connect(&mut self) -> impl Future<Output = Result<Self::Socket, Self::Error>>;

    /// The time since any fixed moment.
    fn now(&self) -> Duration;

    /// Waits for the time `pause`, or less where the network is known to have changed.
    fn sleep(&mut self, pause: Duration) -> impl Future<Output = ()>;

    /// Lets what has arrived be delivered. A runtime that drafting keeps busy would read nothing.
    fn turn(&mut self) -> impl Future<Output = ()>;

    /// A random number from 0 to 255.
    fn chance(&mut self) -> u8;
}

/// Longest time of drafting without a look at what has arrived. A turn of a browser's event loop takes as long as a
/// small draft.
const SPELL: Duration = Duration::from_micros(500);
/// Longest wait for frames before a draft that is worth little.
const BREAK: Duration = Duration::from_millis(1);

/// A draft model with its KV cache.
pub trait DraftModel {
    /// The reason why a pass fails.
    type Error;

    /// Runs one forward pass, and gives the rows that are wanted: all logits, or as many as [are
    /// enough](Forward::top_k).
    fn forward(&mut self, forward: &Forward) -> impl Future<Output = Result<Vec<DraftRow<'_>>, Self::Error>>;

    /// Runs one forward pass and chooses a guess by its logits as [`Forward::chosen`] says, and so on after its own
    /// guesses as long as they are of use. An engine that does not choose gives none and does nothing;
    /// [`forward`](Self::forward) is asked then. Guesses may be chosen in any precision: they change no text.
    fn choose(&mut self, _forward: &Forward) -> impl Future<Output = Result<Vec<Chosen>, Self::Error>> {
        async { Ok(Vec::new()) }
    }
}

/// Result of a forward pass for one token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DraftRow<'d> {
    /// Logits of the token that follows. shape: `[vocab_size]`
    pub logits: &'d [f32],
    /// The hidden state that they are made of; may be empty where no heads read it. shape: `[hidden_size]`
    pub hidden: &'d [f32],
}

/// Error that ends a driver's work. `C` is the platform's reason, `M` the draft model's.
#[derive(Debug, Clone, PartialEq)]
pub enum DriveError<C, M> {
    /// No other connection can be opened.
    Connect(C),
    /// The connection is gone.
    Lost,
    /// The server ended the session.
    Closed(ErrorFrame),
    /// The server ended the generation; the driver can be used again.
    Refused(ErrorFrame),
    /// The settings cannot be used; the driver can be used again.
    Start(StartError),
    /// The server breaks the protocol, or the draft model gave what cannot be used.
    Session(EdgeError),
    /// The draft model fails.
    Draft(M),
}

impl<C, M> DriveError<C, M> {
    /// True if another generation may be asked of the same driver.
    pub fn leaves_the_session(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Start(_))
    }
}

impl<C, M> From<EdgeError> for DriveError<C, M> {
    fn from(error: EdgeError) -> Self {
        Self::Session(error)
    }
}

/// News for the user while a generation runs.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Notice {
    /// The generation has begun.
    Begun,
    /// Tokens were committed.
    Committed(Committed),
    /// The [guesses](EdgeSession::guesses) after the committed text have changed.
    Guessed,
    /// The connection is lost; the next attempt comes after a pause.
    Reconnecting {
        /// 1, 2, … since the last that succeeded.
        attempt: u32,
        /// The time until that attempt.
        pause: Duration,
    },
    /// The session was resumed over another connection.
    Resumed {
        /// The server had forgotten it: the rest of the text is asked for in a new one.
        anew: bool,
    },
}

/// A session with its connection and its draft model.
#[derive(Debug)]
pub struct Driver<P: Platform, D> {
    session: EdgeSession,
    platform: P,
    socket: P::Socket,
    draft: D,
    retry: Retry,
    /// The most guesses after the committed text while the connection is gone.
    offline_tokens: usize,
    /// Attempts to connect since the last that succeeded.
    failed: u32,
    /// Connections since the last token that the server answered and that were lost all the same.
    fruitless: u32,
    /// The reason with which the server ended the last connection, if it gave one.
    interruption: Option<ErrorFrame>,
    /// Time at which others last had a turn; `None`: a frame waits for one.
    turned: Option<Duration>,
    /// Start of the current silence: the last frame in either direction. Forward passes do not count as silence, since
    /// a frame that arrives meanwhile is not seen.
    silent_since: Duration,
    /// Connections that were replaced for their silence since the last token.
    stalls: u32,
    reading: reading::Reading,
}

/// The user of a generation, who may stop it and receives its notices.
struct User<'a, S, T> {
    /// Resolves when the user wants it to end; `None` once that is known.
    stop: Option<Pin<&'a mut S>>,
    tell: T,
}

impl<S: Future<Output = ()>, T> User<'_, S, T> {
    /// The result of `other`; `None` if the user wants to stop before.
    async fn unless_stopped<R>(&mut self, other: impl Future<Output = R>) -> Option<R> {
        let mut other = pin!(other);
        poll_fn(|context| {
            if self.stop.as_mut().is_some_and(|stop| stop.as_mut().poll(context).is_ready()) {
                self.stop = None;
                return Poll::Ready(None);
            }
            other.as_mut().poll(context).map(Some)
        })
        .await
    }
}

type Failure<P, D> = DriveError<<P as Platform>::Error, <D as DraftModel>::Error>;

impl<P: Platform, D: DraftModel> Driver<P, D> {
    /// Begins a session with the handshake over a first connection. A server that does not know a session that was
    /// saved is asked for a new one.
    pub async fn open(session: EdgeSession, platform: P, socket: P::Socket, draft: D) -> Result<Self, Failure<P, D>> {
        let mut driver = Self::new(session, platform, socket, draft);
        let mut nobody = User { stop: Some(pin!(pending())), tell: |_: &EdgeSession, _| {} };
        loop {
            match driver.next_event(&mut nobody).await? {
                Event::Connected(_) => break,
                Event::Closed(reason) => return Err(reason.map_or(DriveError::Lost, DriveError::Closed)),
                _ => {}
            }
        }
        driver.failed = 0;
        Ok(driver)
    }

    /// A driver of a session that [begins without its server](EdgeSession::absent): the first generation connects.
    pub fn new(session: EdgeSession, platform: P, socket: P::Socket, draft: D) -> Self {
        let (retry, failed, interruption, turned) = (Retry::NEVER, 0, None, None);
        let (silent_since, stalls) = (platform.now(), 0);
        Self {
            session,
            platform,
            socket,
            draft,
            retry,
            offline_tokens: 0,
            failed,
            fruitless: 0,
            interruption,
            turned,
            silent_since,
            stalls,
            reading: reading::Reading::default(),
        }
    }

    /// The session that it drives.
    pub fn session(&self) -> &EdgeSession {
        &self.session
    }

    /// Generates from a prompt's ids to the end; `stop` resolves when the user wants it to end sooner, and `tell` says
    /// what happens.
    ///
    /// # Errors
    /// After those that do not [leave the session](DriveError::leaves_the_session) the driver is of no use any more.
    pub async fn generate(
        &mut self,
        prompt: Vec<u32>,
        settings: &Settings,
        stop: impl Future<Output = ()>,
        tell: impl FnMut(&EdgeSession, Notice),
    ) -> Result<EndReason, Failure<P, D>> {
        self.reading.begin(&prompt, self.session.server());
        self.session.start(prompt, settings, self.platform.now()).map_err(DriveError::Start)?;
        let mut user = User { stop: Some(pin!(stop)), tell };
        (user.tell)(&self.session, Notice::Begun);
        loop {
            match self.next_event(&mut user).await? {
                Event::Committed(committed) => {
                    (self.stalls, self.fruitless) = (0, 0);
                    self.reading.end();
                    (user.tell)(&self.session, Notice::Committed(committed));
                    self.tell_guesses(&mut user);
                }
                Event::Finished(reason) => return Ok(reason),
                Event::Refused(error) => return Err(DriveError::Refused(error)),
                Event::Closed(reason) => return Err(reason.map_or(DriveError::Lost, DriveError::Closed)),
                Event::Interrupted(error) => self.interruption = Some(error),
                Event::Resumed { anew } => {
                    (self.failed, self.interruption) = (0, None);
                    self.fruitless += 1;
                    (user.tell)(&self.session, Notice::Resumed { anew });
                }
                Event::Connected(_) => {}
            }
        }
    }

    /// Says goodbye and closes the connection.
    pub async fn close(&mut self) {
        self.session.close();
        while let Ok(Some(output)) = self.session.poll(self.platform.now()) {
            if let EdgeOutput::Send(bytes) = output {
                self.socket.send(bytes).await;
            }
        }
        self.socket.close().await;
    }

    /// Does what the session wants, and waits for the server, until there is something to tell.
    async fn next_event<S: Future<Output = ()>, T: FnMut(&EdgeSession, Notice)>(
        &mut self,
        user: &mut User<'_, S, T>,
    ) -> Result<Event, Failure<P, D>> {
        loop {
            if self.session.is_ahead() {
                self.take_what_has_arrived(user).await?;
            }
            match self.session.poll(self.platform.now())? {
                Some(EdgeOutput::Event(event)) => return Ok(event),
                Some(EdgeOutput::Forward(forward)) => {
                    let began = self.platform.now();
                    self.run_draft(&forward).await?;
                    self.tell_guesses(user);
                    self.silent_since += self.platform.now().saturating_sub(began);
                }
                Some(EdgeOutput::Send(bytes)) => {
                    self.turned = None;
                    self.silent_since = self.platform.now();
                    if !self.socket.send(bytes).await {
                        self.reconnect(user).await?;
                    }
                }
                None => match user.unless_stopped(self.receive()).await {
                    Some(Some(bytes)) => {
                        self.turned = Some(self.platform.now());
                        self.hear(&bytes)?;
                    }
                    Some(None) => self.reconnect(user).await?,
                    None => self.session.cancel(),
                },
            }
        }
    }

    fn hear(&mut self, bytes: &[u8]) -> Result<(), EdgeError> {
        self.silent_since = self.platform.now();
        self.session.handle_frame(bytes, self.silent_since)
    }

    /// Hands in what has arrived without waiting for more: a verdict may discard what would be drafted next.
    async fn take_what_has_arrived<S: Future<Output = ()>, T: FnMut(&EdgeSession, Notice)>(
        &mut self,
        user: &mut User<'_, S, T>,
    ) -> Result<(), Failure<P, D>> {
        let is_due = self.turned.is_none_or(|turned| self.platform.now().saturating_sub(turned) >= SPELL);
        let has_time = self.session.has_time();
        if !is_due && !has_time {
            return Ok(());
        }
        if has_time {
            // A processor that drafts without a break sends nothing, where it is the only one.
            match user.unless_stopped(received_within(&mut self.socket, &mut self.platform, BREAK)).await {
                Some(Some(Some(bytes))) => self.hear(&bytes)?,
                Some(Some(None)) => return self.reconnect(user).await,
                Some(None) => {}
                None => {
                    self.session.cancel();
                    return Ok(());
                }
            }
        }
        if user.unless_stopped(self.platform.turn()).await.is_none() {
            self.session.cancel();
            return Ok(());
        }
        self.turned = Some(self.platform.now());
        while let Some(received) = if_ready(self.socket.receive()).await {
            match received {
                Some(bytes) => self.hear(&bytes)?,
                None => return self.reconnect(user).await,
            }
        }
        Ok(())
    }

    /// Opens another connection in place of one that is gone, unless the user stops in a pause.
    async fn reconnect<S: Future<Output = ()>, T: FnMut(&EdgeSession, Notice)>(
        &mut self,
        user: &mut User<'_, S, T>,
    ) -> Result<(), Failure<P, D>> {
        // That a server does not know a saved session is no reason not to begin.
        let begins = self.session.server().is_none() && self.session.saved().is_none();
        if !self.session.disconnected() || !begins && self.failed + self.fruitless >= self.retry.attempts {
            return Err(self.interruption.take().map_or(DriveError::Lost, DriveError::Closed));
        }
        loop {
            let earlier = self.failed + self.fruitless;
            let pause = self.retry.pause_after(earlier, self.platform.chance());
            self.failed += 1;
            (user.tell)(&self.session, Notice::Reconnecting { attempt: earlier + 1, pause });
            let until = self.platform.now() + pause;
            let goes_on = self.guess_offline(until, user).await?;
            let rest = until.saturating_sub(self.platform.now());
            if !goes_on || user.unless_stopped(self.platform.sleep(rest)).await.is_none() {
                // The server cannot be reached; the next connection cancels the generation there.
                self.session.cancel();
                return Ok(());
            }
            match self.platform.connect().await {
                Ok(socket) => {
                    self.socket = socket;
                    self.session.reconnected();
                    return Ok(());
                }
                Err(error) if self.failed >= self.retry.attempts => return Err(DriveError::Connect(error)),
                Err(_) => {}
            }
        }
    }

    /// Guesses without a connection, up to a time. Returns false if the user stops.
    async fn guess_offline<S: Future<Output = ()>, T: FnMut(&EdgeSession, Notice)>(
        &mut self,
        until: Duration,
        user: &mut User<'_, S, T>,
    ) -> Result<bool, Failure<P, D>> {
        while self.platform.now() < until {
            let Some(forward) = self.session.offline_step(self.offline_tokens, self.platform.now()) else { break };
            self.run_draft(&forward).await?;
            self.tell_guesses(user);
            if user.unless_stopped(self.platform.turn()).await.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reports that the guesses may have changed, in the scheme that has any.
    fn tell_guesses<S, T: FnMut(&EdgeSession, Notice)>(&self, user: &mut User<'_, S, T>) {
        if self.session.is_guessing() {
            (user.tell)(&self.session, Notice::Guessed);
        }
    }

    async fn run_draft(&mut self, forward: &Forward) -> Result<(), Failure<P, D>> {
        if forward.chosen.is_some() {
            let chosen = self.draft.choose(forward).await.map_err(DriveError::Draft)?;
            if !chosen.is_empty() {
                return Ok(self.session.handle_chosen(&chosen, self.platform.now())?);
            }
        }
        for DraftRow { logits, hidden } in self.draft.forward(forward).await.map_err(DriveError::Draft)? {
            self.session.handle_logits(logits, hidden, self.platform.now())?;
        }
        Ok(())
    }
}

/// The next message, or the end of the connection, if it comes within `time`.
async fn received_within<P: Platform>(
    socket: &mut P::Socket,
    platform: &mut P,
    time: Duration,
) -> Option<Option<Vec<u8>>> {
    let (mut received, mut time) = (pin!(socket.receive()), pin!(platform.sleep(time)));
    poll_fn(|context| match received.as_mut().poll(context) {
        Poll::Ready(received) => Poll::Ready(Some(received)),
        Poll::Pending => time.as_mut().poll(context).map(|()| None),
    })
    .await
}

/// The result of a future, if it is ready at once.
async fn if_ready<R>(future: impl Future<Output = R>) -> Option<R> {
    let mut future = pin!(future);
    poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        })
    })
    .await
}
