//! The sessions that can be resumed, by name.
//!
//! Each session holds a slot of the engine, with a connection or without, so there are never more entries than slots. A
//! session without a connection and without a generation under way gives its slot up to a new one when none is free.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use outrider_codec::frame::{Resume, Ticket};
use subtle::ConstantTimeEq;
use tokio::{
    sync::{Notify, mpsc},
    time::{self, Instant},
};

use crate::wire::Wire;

/// How long a session that is asked to give way may take.
const GIVING_WAY: Duration = Duration::from_millis(80);
/// Visits that wait at one door. Who has a session's secret and comes more often than it answers is sent away.
const VISITS: usize = 4;

/// All sessions of a server; clones share them.
#[derive(Debug, Clone, Default)]
pub struct Sessions {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    doors: Mutex<HashMap<[u8; 16], Door>>,
    /// Told when a session ends.
    left: Notify,
}

/// How a session is reached.
#[derive(Debug)]
struct Door {
    secret: [u8; 16],
    visits: mpsc::Sender<Visit>,
    /// Since when the session waits for somebody to come back, with nothing under way.
    idle_since: Option<Instant>,
}

/// Who comes to a session's door.
#[derive(Debug)]
pub enum Visit {
    /// An edge that has shown the ticket, over another connection.
    Resume(Resume, Wire),
    /// Somebody needs the slot.
    GiveWay,
}

/// A session's own entry among them; taken out when dropped.
#[derive(Debug)]
pub struct Entry {
    sessions: Sessions,
    ticket: Ticket,
    visits: mpsc::Receiver<Visit>,
}

impl Sessions {
    /// An entry under a new ticket.
    ///
    /// # Errors
    /// If the operating system has no randomness to give.
    pub fn open(&self) -> Result<Entry, getrandom::Error> {
        let mut ticket = Ticket::default();
        getrandom::fill(&mut ticket.id)?;
        getrandom::fill(&mut ticket.secret)?;
        let (sender, visits) = mpsc::channel(VISITS);
        self.doors().insert(ticket.id, Door { secret: ticket.secret, visits: sender, idle_since: None });
        Ok(Entry { sessions: self.clone(), ticket, visits })
    }

    /// Takes a connection to its session. If there is none of this name, or the secret is another's, the connection
    /// comes back.
    pub fn resume(&self, resume: Resume, wire: Wire) -> Result<(), Wire> {
        let doors = self.doors();
        // How long a refusal takes says nothing of the secret.
        let door = doors.get(&resume.ticket.id).filter(|door| door.secret.ct_eq(&resume.ticket.secret).into());
        let Some(door) = door else { return Err(wire) };
        door.visits.try_send(Visit::Resume(resume, wire)).map_err(|error| match error.into_inner() {
            Visit::Resume(_, wire) => wire,
            Visit::GiveWay => Wire::closed(),
        })
    }

    /// Has the session end that has been idle without a connection for longest, if there is one, and waits until one
    /// has.
    pub async fn make_room(&self) {
        let left = self.shared.left.notified();
        let visits = {
            let doors = self.doors();
            let idle = doors.values().filter_map(|door| Some((door.idle_since?, &door.visits)));
            idle.min_by_key(|&(since, _)| since).map(|(_, visits)| visits.clone())
        };
        let Some(visits) = visits else { return };
        if visits.try_send(Visit::GiveWay).is_ok() {
            let _ = time::timeout(GIVING_WAY, left).await;
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.doors().len()
    }

    /// Nothing is left half done under this lock, whoever panics.
    fn doors(&self) -> MutexGuard<'_, HashMap<[u8; 16], Door>> {
        self.shared.doors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// What the session can be resumed with.
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Who comes next.
    pub async fn visit(&mut self) -> Visit {
        match self.visits.recv().await {
            Some(visit) => visit,
            // The door outlives this: nobody closes it.
            None => std::future::pending().await,
        }
    }

    /// Says whether the session has neither a connection nor anything to do.
    pub fn set_idle(&self, idle: bool) {
        if let Some(door) = self.sessions.doors().get_mut(&self.ticket.id) {
            door.idle_since = if idle { door.idle_since.or_else(|| Some(Instant::now())) } else { None };
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.sessions.doors().remove(&self.ticket.id);
        self.sessions.shared.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn resume(ticket: Ticket) -> Resume {
        Resume { ticket, attempt: 1, generation: 0, length: 0 }
    }

    #[tokio::test]
    async fn only_the_right_secret_opens_the_door_and_only_while_there_is_one() {
        let sessions = Sessions::default();
        let (mut entry, other) = (sessions.open().unwrap(), sessions.open().unwrap());
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
        let sessions = Sessions::default();
        let mut entry = sessions.open().unwrap();
        entry.set_idle(true);
        let mut room = std::pin::pin!(sessions.make_room());
        assert!(room.as_mut().now_or_never().is_none(), "nobody has left yet");
        assert!(matches!(entry.visit().await, Visit::GiveWay));
        drop(entry);
        assert!(room.as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_has_been_idle_for_longest_gives_way() {
        let sessions = Sessions::default();
        let mut entries: Vec<Entry> = (0..3).map(|_| sessions.open().unwrap()).collect();
        sessions.make_room().await;
        entries[2].set_idle(true);
        time::sleep(Duration::from_millis(2)).await;
        entries[1].set_idle(true);
        entries[2].set_idle(true);
        sessions.make_room().await;
        assert!(matches!(entries[2].visit().now_or_never(), Some(Visit::GiveWay)));
        entries[2].set_idle(false);
        sessions.make_room().await;
        assert!(matches!(entries[1].visit().now_or_never(), Some(Visit::GiveWay)));
    }
}
