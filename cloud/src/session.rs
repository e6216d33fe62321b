//! Driver of one session: state machine, engine and time limits, over one connection after another.

use std::{future::Future, net::IpAddr, pin::Pin, sync::Arc, time::Duration};

use futures_util::{SinkExt, StreamExt};
use outrider_codec::frame::{ErrorCode, Frame};
use outrider_speculation::{
    judge::Judgement,
    session::cloud::{
        Admission, CloudOutput, CloudSession, MAX_PATIENCE, OwnDraft, OwnDrafts, Shaping, ShapingOptions, TargetInfo,
    },
};
use tokio::{sync::watch, time};
use tracing::{Instrument, Span};

use crate::{
    blocking::{self, Habit},
    keys::Key,
    log_limits::client_event,
    metrics::SessionMeter,
    sessions::{Entry, NoSession, Sessions, UNKNOWN, Visit},
    target::{Target, TargetError, TargetSlot, engine::Drafter},
    wire::Wire,
};

pub(crate) mod in_process;

/// Time limits and permissions of a session.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Time limit for the Hello of a new connection.
    pub hello: Duration,
    /// Longest silence of a connection while nothing runs for it.
    pub idle: Duration,
    /// Time limit for the peer to accept a message.
    pub write: Duration,
    /// Time for which a session without a connection keeps its slot, in whole seconds.
    pub detached: Duration,
    /// Longest age of a session.
    pub lifetime: Duration,
    /// Permission to ask for evidence, the target's distribution at each judged draft.
    pub evidence: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            hello: Duration::from_secs(10),
            idle: Duration::from_secs(300),
            write: Duration::from_secs(30),
            detached: Duration::from_secs(120),
            lifetime: Duration::from_secs(12 * 3600),
            evidence: true,
        }
    }
}

/// Tracing span of a session: its number, the name of its model and the address of the peer.
pub(crate) fn span(slot: &TargetSlot, model: &str, peer: IpAddr) -> Span {
    tracing::info_span!("session", id = slot.id(), model, %peer)
}

/// Size of a frame, in bytes, up to which decoding is expected to be quick: rounds of the usual schemes are smaller.
const USUAL_FRAME: usize = 2048;

/// Asynchronous work of a session; at most one at a time.
type Work<'a> = Pin<Box<dyn Future<Output = Done> + Send + 'a>>;

/// Maker of the changes of logits that edges ask for; its error is for the client.
pub(crate) type Shaper = Arc<dyn Fn(&ShapingOptions) -> Result<Arc<dyn Shaping>, String> + Send + Sync>;

/// Result of a session's work.
enum Done {
    /// A pass of the target.
    Judged(Result<Judgement, TargetError>),
    /// Drafts of the server's own, by a model that can be asked again unless it failed.
    Drafted(Option<Drafter>, Vec<OwnDraft>),
    /// A change of logits, or the reason why there is none.
    Shaped(Result<Arc<dyn Shaping>, String>),
}

/// Drafts with the server's own draft model. Returns the model unless it failed or has no free slot.
async fn draft(drafter: Option<Drafter>, slot: &TargetSlot, wanted: OwnDrafts) -> (Option<Drafter>, Vec<OwnDraft>) {
    let Some(mut drafter) = drafter.or_else(|| slot.drafter()) else { return (None, Vec::new()) };
    match drafter.draft(&wanted).await {
        Ok(ids) => (Some(drafter), ids),
        Err(error) => {
            tracing::warn!(%error, "the server's own draft model failed");
            (None, Vec::new())
        }
    }
}

/// Parts of a server that all its sessions share.
#[derive(Clone)]
pub struct Host {
    /// Name of the model for log lines.
    pub model: String,
    /// Target that runs the sessions' passes.
    pub engine: Target,
    /// Open sessions, which can be resumed.
    pub sessions: Sessions,
    /// Description of the target for the sessions.
    pub target: TargetInfo,
    /// Time limits and permissions of each session.
    pub limits: Limits,
    /// Maker of changes of logits; `None` refuses them.
    pub(crate) shaper: Option<Shaper>,
    /// Key of the client, whose limits a new session counts towards.
    pub(crate) key: Option<Arc<Key>>,
    /// Becomes true when the server stops.
    pub stopping: watch::Receiver<bool>,
}

/// Error of an engine without a free slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{FULL}")]
pub(crate) struct Full;

impl Host {
    /// Serves a connection from `peer`. Its first frame either resumes a session or begins one. `waiting` is dropped
    /// when that frame has come.
    pub async fn converse(self, mut wire: Wire, peer: IpAddr, waiting: impl Send) {
        let limits = self.limits;
        if *self.stopping.borrow() {
            return wire.refuse(ErrorCode::ShuttingDown, STOPPING, limits.write).await;
        }
        let first = match time::timeout(limits.hello, wire.incoming.next()).await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return,
            Err(_) => return wire.refuse(ErrorCode::Idle, SILENT, limits.write).await,
        };
        drop(waiting);
        // Longer frames are no Resume; the session decodes them where blocking is allowed.
        if first.len() <= USUAL_FRAME
            && let Ok(Frame::Resume(resume)) = Frame::decode(&first)
        {
            if let Err(wire) = self.sessions.resume(resume, wire) {
                wire.refuse(ErrorCode::UnknownSession, UNKNOWN, limits.write).await;
            }
            return;
        }
        let bill = match self.key.as_ref().map(Key::open_session).transpose() {
            Ok(bill) => bill,
            Err(exceeded) => {
                client_event!(DEBUG, peer, "refused a session: its key is at a limit", %peer, %exceeded);
                self.engine.metrics().refused(ErrorCode::ServerFull);
                return wire.refuse(ErrorCode::ServerFull, &exceeded.to_string(), limits.write).await;
            }
        };
        let mut entry = match self.sessions.open(peer).await {
            Ok(entry) => entry,
            Err(error) => {
                client_event!(DEBUG, peer, "refused a session", %peer, %error);
                let code = match error {
                    NoSession::Address(_) => ErrorCode::ServerFull,
                    NoSession::Randomness(_) => ErrorCode::Internal,
                };
                self.engine.metrics().refused(code);
                return wire.refuse(code, &error.to_string(), limits.write).await;
            }
        };
        let Ok(slot) = self.slot(peer).await else {
            client_event!(DEBUG, peer, "refused a session: no slot is free", %peer);
            return wire.refuse(ErrorCode::ServerFull, FULL, limits.write).await;
        };
        entry.bill(bill);
        let Self { model, target, shaper, stopping, .. } = self;
        let span = span(&slot, &model, peer);
        run(entry, slot, target, shaper, limits, wire.with_first(first), stopping).instrument(span).await;
    }

    /// Takes a slot of the target for a client. If none is free, a detached session is asked to give way.
    pub(crate) async fn slot(&self, client: IpAddr) -> Result<TargetSlot, Full> {
        let mut slot = self.engine.slot();
        if slot.is_none() {
            self.sessions.free_a_slot().await;
            slot = self.engine.slot();
        }
        if slot.is_none() {
            self.engine.metrics().refused(ErrorCode::ServerFull);
        }
        slot.map(|slot| slot.of(client)).ok_or(Full)
    }
}

pub(crate) const STOPPING: &str = "The server is stopping; reconnect.";
const SILENT: &str = "The session was silent for too long.";
const FULL: &str = "The server is full; try again in some seconds.";
/// Refusal of a target whose logits cannot be changed.
pub(crate) const NO_SHAPING: &str = "response_format, tool_choice, penalties, logit_bias and min_p are not supported by \
    this server: its target runs on a GPU or in another engine.";
const TAKEN_OVER: &str = "Another connection has taken over the session.";
pub(crate) const EXPIRED: &str = "The session has reached its maximum age; start a new one.";

/// Runs a session until it closes, stays detached for too long, or `stopping` becomes true.
///
/// The slot is dropped before the entry: a caller that waits for the entry to be removed wants the slot.
pub async fn run(
    mut entry: Entry,
    slot: TargetSlot,
    target: TargetInfo,
    shaper: Option<Shaper>,
    limits: Limits,
    wire: Wire,
    mut stopping: watch::Receiver<bool>,
) {
    let detached_seconds = limits.detached.as_secs().try_into().unwrap_or(u32::MAX);
    let admission = Admission {
        ticket: entry.ticket(),
        detached_seconds,
        refuses_evidence: !limits.evidence,
        pass_micros: slot.pass_micros(),
    };
    let mut session = CloudSession::new(target, admission);
    let mut meter = SessionMeter::new(slot.metrics(), entry.address()).billing(entry.key_session());
    let mut wire = Some(wire);
    let mut work: Option<Work<'_>> = None;
    let (mut drafter, mut drafts_itself) = (None, true);
    let mut asked = time::Instant::now();
    let mut habit = Habit::of(entry.address());
    // Start and end of the time for which the next pass is held for guesses.
    let mut hold: Option<(time::Instant, time::Instant)> = None;
    let expiry = time::Instant::now() + limits.lifetime;
    // Time of the last frame, of the last finished work, or of the loss of the connection.
    let mut heard = time::Instant::now();
    let mut end: Option<(ErrorCode, &str)> = None;
    loop {
        if let Some((code, text)) = end.filter(|_| work.is_none()) {
            session.close(code, text);
            meter.observe(session.events());
        }
        let mut prices = slot.prices();
        prices.own_draft = prices.own_draft.filter(|_| drafts_itself);
        prices.looks_up &= drafts_itself;
        session.set_prices(prices);
        while let Some(connected) = &mut wire {
            match session.poll() {
                None => break,
                Some(CloudOutput::Send(bytes)) => {
                    meter.sent(bytes.len());
                    if !connected.send(bytes, limits.write).await {
                        wire = None;
                        heard = time::Instant::now();
                    }
                }
                Some(CloudOutput::Hold(patience)) => {
                    let now = time::Instant::now();
                    hold = Some((now, now + patience));
                }
                Some(CloudOutput::Verify(next)) => {
                    asked = time::Instant::now();
                    if let Some((since, _)) = hold.take() {
                        slot.metrics().sessions.held.observe((asked - since).as_secs_f64());
                    }
                    // This pass reads a text from its beginning; the server's own draft model reads it at the same
                    // time.
                    if next.forward.keep == 0 && session.may_draft() {
                        if drafter.is_none() {
                            drafter = slot.drafter();
                        }
                        drafter.iter_mut().for_each(|drafter| drafter.read(&next.forward.tokens));
                    }
                    let judged = slot.judge(next);
                    work = Some(Box::pin(async { Done::Judged(judged.await) }));
                }
                Some(CloudOutput::Offer(offer)) => slot.offer(&offer),
                Some(CloudOutput::Shape(options)) => {
                    let shaper = shaper.clone().filter(|_| slot.gives_rows());
                    let client = entry.address();
                    work = Some(Box::pin(async move {
                        let Some(shaper) = shaper else { return Done::Shaped(Err(NO_SHAPING.to_owned())) };
                        Done::Shaped(blocking::run(client, || shaper(&options)).await)
                    }));
                }
                Some(CloudOutput::Draft(wanted)) => {
                    let drafted = draft(drafter.take(), &slot, wanted);
                    work = Some(Box::pin(async {
                        let (drafter, ids) = drafted.await;
                        Done::Drafted(drafter, ids)
                    }));
                }
                Some(CloudOutput::Close) => {
                    let _ = connected.outgoing.close().await;
                    return;
                }
            }
        }
        // Stops the pass of a cancelled generation.
        if !session.is_generating() {
            slot.rest();
            if session.abandon_pass() {
                work = None;
                slot.withdraw();
            }
        }
        // The server's own draft model reads no prompt of a client that has cancelled or gone. It reads the text when
        // drafts are wanted again.
        if wire.is_none() || !session.is_generating() {
            drafter.take_if(Drafter::is_reading);
        }
        if wire.is_none() && (end.is_some() || !session.is_worth_keeping()) {
            return;
        }
        match wire {
            Some(_) => entry.attach(),
            None => entry.detach(session.is_generating()),
        }
        slot.attend(wire.is_some(), work.is_some());
        let patience = if wire.is_some() { limits.idle } else { limits.detached };
        tokio::select! {
            bytes = received(&mut wire) => {
                heard = time::Instant::now();
                match bytes {
                    Some(bytes) => {
                        let is_suspect = bytes.len() > USUAL_FRAME;
                        habit.run(is_suspect, || session.handle_frame(&bytes)).await;
                        meter.received(bytes.len(), session.events());
                    }
                    None => wire = None,
                }
            }
            done = finished(&mut work) => {
                work = None;
                if wire.is_some() {
                    heard = time::Instant::now();
                }
                match done {
                    Done::Drafted(again, ids) => {
                        (drafts_itself, drafter) = (again.is_some(), again);
                        session.handle_drafts(ids);
                    }
                    Done::Shaped(made) => session.handle_shaping(made),
                    Done::Judged(Ok(judgement)) => {
                        session.pass_took(asked.elapsed());
                        // This may decode the next round, if its draft has already arrived.
                        habit.run(false, || session.handle_judgement(judgement)).await;
                    }
                    Done::Judged(Err(error)) => {
                        client_event!(WARN, entry.address(), "a pass failed", %error);
                        error.tell(&mut session);
                    }
                }
                meter.observe(session.events());
            }
            visit = entry.visit() => match visit {
                Visit::Resume(resume, next) => {
                    if session.resume(&resume) {
                        client_event!(DEBUG, entry.address(), "a session is resumed");
                        heard = time::Instant::now();
                        if let Some(before) = wire.replace(next) {
                            tokio::spawn(before.refuse(ErrorCode::TakenOver, TAKEN_OVER, limits.write));
                        }
                    } else {
                        tokio::spawn(next.refuse(ErrorCode::UnknownSession, UNKNOWN, limits.write));
                    }
                }
                Visit::GiveWay if wire.is_none() => return,
                Visit::GiveWay => {}
            },
            () = time::sleep_until(heard + patience), if wire.is_none() || work.is_none() => {
                if wire.is_none() {
                    return;
                }
                end = Some((ErrorCode::Idle, SILENT));
            }
            () = held(hold) => {
                session.end_hold();
                hold = hold.map(|(since, _)| (since, time::Instant::now() + MAX_PATIENCE));
            }
            () = time::sleep_until(expiry), if end.is_none() => end = Some((ErrorCode::SessionExpired, EXPIRED)),
            () = stopped(&mut stopping), if end.is_none() => {
                end = Some((ErrorCode::ShuttingDown, STOPPING));
            }
        }
    }
}

/// Receives the next frame; without a connection, never completes.
async fn received(wire: &mut Option<Wire>) -> Option<Vec<u8>> {
    match wire {
        Some(wire) => wire.incoming.next().await,
        None => std::future::pending().await,
    }
}

/// Waits for the work under way; without any, never completes.
async fn finished(work: &mut Option<Work<'_>>) -> Done {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}

/// Waits until the held pass has waited long enough; if none is held, never completes.
async fn held(hold: Option<(time::Instant, time::Instant)>) {
    match hold {
        Some((_, until)) => time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// Waits until the server stops.
pub(crate) async fn stopped(stopping: &mut watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopping| *stopping).await;
}
