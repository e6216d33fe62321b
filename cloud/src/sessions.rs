//! Open sessions of a server, indexed by session id and counted by client address.
//!
//! A session keeps its slot with or without a connection. A session that has lost its connection is *detached*, and
//! detached sessions give way, longest detached first: to a new session from the same address when that address is at
//! its limit, to any new session when the engine has no free slot, and to each other when more than half of all seats
//! are detached. An edge that returns to a session that gave way opens another one and sends the text so far.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use outrider_codec::frame::{ErrorCode, Resume, Ticket};
use subtle::ConstantTimeEq;
use tokio::{
    sync::{Notify, mpsc},
    time::{self, Instant},
};

use crate::{
    address_limits::{AddressLimits, AddressPermit, subnet},
    keys::KeySession,
    wire::Wire,
};

/// Text of the error sent to an edge that tries to resume an unknown session.
pub(crate) const UNKNOWN: &str = "There is no such session: it waited too long, or the server was restarted.";
/// Time limit for sending that error.
const LAST_WORD: Duration = Duration::from_secs(10);
/// Longest wait for a session that was asked to give way.
const GIVING_WAY: Duration = Duration::from_millis(80);
/// Capacity of a session's queue of visits. A resuming connection is refused when the queue is full.
const VISITS: usize = 4;

/// All sessions of a server; clones share them.
#[derive(Debug, Clone)]
pub struct Sessions {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Number of sessions that may be detached at a time: half of the seats.
    most_detached: usize,
    limits: AddressLimits,
    doors: Mutex<HashMap<[u8; 16], Door>>,
    /// Notified when a session ends.
    left: Notify,
}

/// Channel to a running session, with the secret that a resuming edge must show.
#[derive(Debug)]
struct Door {
    secret: [u8; 16],
    visits: mpsc::Sender<Visit>,
    /// Address of the client that opened the session, as [`subnet`] gives it.
    address: IpAddr,
    detached: Option<Detached>,
}

/// State of a session without a connection. Orders sessions by which gives way first: those that generate nothing, then
/// those detached for longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Detached {
    is_generating: bool,
    since: Instant,
}

/// Reason why a session cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoSession {
    /// The address holds as many sessions as it may.
    #[error("Your address has {0} sessions here, the most it may have; end one, or try again later.")]
    Address(usize),
    /// The operating system has no randomness for the ticket.
    #[error("The server cannot get random numbers: {0}.")]
    Randomness(#[from] getrandom::Error),
}

/// Message to a running session.
#[derive(Debug)]
pub enum Visit {
    /// Another connection whose edge has shown the session's ticket.
    Resume(Resume, Wire),
    /// Request to end, because another session needs the slot.
    GiveWay,
}

/// Registration of one session; dropping it removes the session.
#[derive(Debug)]
pub struct Entry {
    sessions: Sessions,
    /// Permit of the address; `None` only while the entry is dropped.
    permit: Option<AddressPermit>,
    address: IpAddr,
    ticket: Ticket,
    visits: mpsc::Receiver<Visit>,
    key_session: Option<KeySession>,
}

impl Default for Sessions {
    /// Sessions without any limit.
    fn default() -> Self {
        Self::new(usize::MAX, 0)
    }
}

impl Sessions {
    /// Sessions of a server with `seats` slots, of which one address may hold `per_address` (0: no limit). `seats` only
    /// sets how many sessions may be detached; the caller hands out the slots.
    pub fn new(seats: usize, per_address: usize) -> Self {
        let shared = Shared {
            most_detached: seats.div_ceil(2),
            limits: AddressLimits::new(per_address),
            doors: Mutex::default(),
            left: Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Registers a session under a new ticket. If the address is at its limit, one of its detached sessions is asked to
    /// give way first.
    ///
    /// # Errors
    /// [`NoSession`] if the address is at its limit, or the operating system has no randomness.
    pub async fn open(&self, address: IpAddr) -> Result<Entry, NoSession> {
        match self.open_now(address) {
            Err(NoSession::Address(_)) => {
                let own = subnet(address);
                self.make_room(|door| door.address == own).await;
                self.open_now(address)
            }
            opened => opened,
        }
    }

    /// Registers a session without waiting for another to give way.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub fn open_now(&self, address: IpAddr) -> Result<Entry, NoSession> {
        let limits = &self.shared.limits;
        let permit = limits.take(address).ok_or(NoSession::Address(limits.limit()))?;
        let mut ticket = Ticket::default();
        getrandom::fill(&mut ticket.id)?;
        getrandom::fill(&mut ticket.secret)?;
        let (sender, visits) = mpsc::channel(VISITS);
        let address = permit.address();
        self.doors().insert(ticket.id, Door { secret: ticket.secret, visits: sender, address, detached: None });
        Ok(Entry { sessions: self.clone(), permit: Some(permit), address, ticket, visits, key_session: None })
    }

    /// Hands a connection to the session that its ticket names. Returns the connection if the ticket is unknown, the
    /// secret is wrong, or the session's queue is full.
    pub fn resume(&self, resume: Resume, wire: Wire) -> Result<(), Wire> {
        let doors = self.doors();
        // Compared in constant time, so that the time of a refusal reveals nothing about the secret.
        let door = doors.get(&resume.ticket.id).filter(|door| door.secret.ct_eq(&resume.ticket.secret).into());
        let Some(door) = door else { return Err(wire) };
        door.visits.try_send(Visit::Resume(resume, wire)).map_err(|error| match error.into_inner() {
            Visit::Resume(_, wire) => wire,
            Visit::GiveWay => Wire::closed(),
        })
    }

    /// Asks a detached session to end, if there is one, and waits briefly until a session has ended.
    pub async fn free_a_slot(&self) {
        self.make_room(|_| true).await;
    }

    async fn make_room(&self, of: impl Fn(&Door) -> bool) {
        let left = self.shared.left.notified();
        if dismiss(&self.doors(), of) {
            let _ = time::timeout(GIVING_WAY, left).await;
        }
    }

    /// Number of registered sessions.
    pub fn count(&self) -> usize {
        self.doors().len()
    }

    /// Locks the sessions, even after a panic, since no update can be interrupted halfway.
    fn doors(&self) -> MutexGuard<'_, HashMap<[u8; 16], Door>> {
        self.shared.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks the first session to give way among the detached ones that `of` selects. Returns true if one was asked.
fn dismiss(doors: &HashMap<[u8; 16], Door>, of: impl Fn(&Door) -> bool) -> bool {
    let detached = doors.values().filter(|door| of(door)).filter_map(|door| Some((door.detached?, &door.visits)));
    let first = detached.min_by_key(|&(detached, _)| detached);
    first.is_some_and(|(_, visits)| visits.try_send(Visit::GiveWay).is_ok())
}

impl Entry {
    /// Counts the session and its tokens towards the limits of its client's key.
    pub(crate) fn bill(&mut self, key_session: Option<KeySession>) {
        self.key_session = key_session;
    }

    /// Key that the session counts towards.
    pub(crate) fn key_session(&self) -> Option<&KeySession> {
        self.key_session.as_ref()
    }

    /// Address of the client, as limits count it.
    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Ticket with which an edge can resume the session.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Waits for the next visit.
    pub async fn visit(&mut self) -> Visit {
        match self.visits.recv().await {
            Some(visit) => visit,
            // The sender is in the map until this entry is dropped, so the channel stays open.
            None => std::future::pending().await,
        }
    }

    /// Marks the session as connected.
    pub fn attach(&self) {
        if let Some(door) = self.sessions.doors().get_mut(&self.ticket.id) {
            door.detached = None;
        }
    }

    /// Marks the session as detached; `is_generating` if a generation is under way.
    pub fn detach(&self, is_generating: bool) {
        let mut doors = self.sessions.doors();
        let Some(door) = doors.get_mut(&self.ticket.id) else { return };
        let since = door.detached.map(|detached| detached.since);
        door.detached = Some(Detached { is_generating, since: since.unwrap_or_else(Instant::now) });
        let is_new = since.is_none();
        if is_new && doors.values().filter(|door| door.detached.is_some()).count() > self.sessions.shared.most_detached
        {
            dismiss(&doors, |_| true);
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.sessions.doors().remove(&self.ticket.id);
        // Returned before the waiting callers are notified.
        self.permit = None;
        self.sessions.shared.left.notify_waiters();
        // Refuses connections that arrived but were not taken over before the session ended.
        while let Ok(visit) = self.visits.try_recv() {
            if let Visit::Resume(_, wire) = visit {
                tokio::spawn(wire.refuse(ErrorCode::UnknownSession, UNKNOWN, LAST_WORD));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures_util::{FutureExt, StreamExt};
    use outrider_codec::frame::Frame;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

    fn resume(ticket: Ticket) -> Resume {
        Resume { ticket, attempt: 1, generation: 0, length: 0 }
    }

    fn is_dismissed(entry: &mut Entry) -> bool {
        matches!(entry.visit().now_or_never(), Some(Visit::GiveWay))
    }

    #[tokio::test]
    async fn only_the_right_secret_opens_the_door_and_only_while_there_is_one() {
        let sessions = Sessions::default();
        let (mut entry, other) = (sessions.open_now(HERE).unwrap(), sessions.open(HERE).await.unwrap());
        assert_ne!(entry.ticket(), other.ticket());
        assert_eq!(sessions.count(), 2);
        let ticket = entry.ticket();
        for byte in 0..16 {
            let mut wrong = ticket;
            wrong.secret[byte] ^= 1;
            assert!(sessions.resume(resume(wrong), Wire::closed()).is_err());
        }
        assert!(sessions.resume(resume(Ticket { id: other.ticket().id, ..ticket }), Wire::closed()).is_err());
        assert!(sessions.resume(resume(ticket), Wire::closed()).is_ok());
        assert!(matches!(entry.visit().await, Visit::Resume(..)));
        drop(entry);
        assert!(sessions.resume(resume(ticket), Wire::closed()).is_err());
        assert_eq!(sessions.count(), 1);
    }

    #[tokio::test]
    async fn who_waits_for_a_place_has_it_as_soon_as_there_is_one() {
        let sessions = Sessions::new(8, 1);
        let mut entry = sessions.open(HERE).await.unwrap();
        entry.detach(true);
        let mut newcomer = std::pin::pin!(sessions.open(HERE));
        assert!(newcomer.as_mut().now_or_never().is_none(), "nobody has left yet");
        assert!(is_dismissed(&mut entry));
        drop(entry);
        let mut newcomer = newcomer.now_or_never().unwrap().unwrap();
        assert_eq!(sessions.open(HERE).now_or_never().unwrap().unwrap_err(), NoSession::Address(1), "it is connected");
        assert!(!is_dismissed(&mut newcomer) && sessions.open(THERE).await.is_ok());
    }

    #[tokio::test]
    async fn idle_ones_give_way_first_and_then_who_has_waited_for_longest() {
        let sessions = Sessions::default();
        let mut entries: Vec<Entry> = (0..4).map(|_| sessions.open_now(HERE).unwrap()).collect();
        sessions.free_a_slot().await;
        for (entry, is_generating) in [(3, true), (2, false), (1, false)] {
            entries[entry].detach(is_generating);
            time::sleep(Duration::from_millis(2)).await;
        }
        entries[2].detach(false);
        for expected in [2, 1, 3] {
            sessions.free_a_slot().await;
            let dismissed: Vec<bool> = entries.iter_mut().map(is_dismissed).collect();
            assert!((0..4).all(|entry| dismissed[entry] == (entry == expected)), "{expected}: {dismissed:?}");
            entries[expected].attach();
        }
    }

    #[tokio::test]
    async fn who_comes_as_the_session_ends_is_told() {
        let sessions = Sessions::default();
        let entry = sessions.open_now(HERE).unwrap();
        let (outgoing, mut told) = futures_channel::mpsc::unbounded();
        let wire = Wire::new(futures_util::stream::pending(), outgoing);
        assert!(sessions.resume(resume(entry.ticket()), wire).is_ok());
        drop(entry);
        match Frame::decode(&told.next().await.unwrap()) {
            Ok(Frame::Error(error)) => assert_eq!(error.code, ErrorCode::UnknownSession),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn at_most_half_of_them_are_detached() {
        let sessions = Sessions::new(4, 0);
        let mut entries: Vec<Entry> = (0..3).map(|_| sessions.open_now(HERE).unwrap()).collect();
        for entry in &entries {
            entry.detach(true);
            time::sleep(Duration::from_millis(2)).await;
        }
        assert!(is_dismissed(&mut entries[0]) && !is_dismissed(&mut entries[1]) && !is_dismissed(&mut entries[2]));
        let only = Sessions::new(1, 0);
        let mut entry = only.open_now(HERE).unwrap();
        entry.detach(true);
        assert!(!is_dismissed(&mut entry), "who is alone keeps a place");
    }
}
