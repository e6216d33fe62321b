//! Work that would block the runtime's threads for long.
//!
//! The runtime has one thread for each processor, and long work on one of them delays every session that it serves.
//! Before long work, the runtime therefore starts a replacement thread. Work that clients can make long without the
//! target taking part (parsing requests, decoding payloads) also takes turns, on half of the processors at most. Turns
//! rotate among clients rather than sessions, so a client with much work delays only itself.

use std::{
    net::IpAddr,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    thread::available_parallelism,
    time::{Duration, Instant},
};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::oneshot,
    task,
};

use crate::{address_limits::subnet, rotation::Rotation};

/// Turns of this process, since its processors are the scarce resource.
static TURNS: LazyLock<Turns> =
    LazyLock::new(|| Turns::new(available_parallelism().map_or(1, |count| count.get().div_ceil(2))));
/// Duration above which work counts as long.
const LONG: Duration = Duration::from_millis(1);

/// Runs long work of a client when its turn comes.
pub(crate) async fn run<T>(client: IpAddr, work: impl FnOnce() -> T) -> T {
    let _turn = TURNS.take(subnet(client)).await;
    in_place(work)
}

/// Runs work on this thread that may be long, while another thread serves the other tasks.
pub(crate) fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => task::block_in_place(work),
        // A runtime with a single thread, as in tests, has no other.
        _ => work(),
    }
}

/// Turns, of which a fixed number is taken at a time.
struct Turns(Arc<Mutex<Line>>);

struct Line {
    free: usize,
    waiting: Rotation<IpAddr, oneshot::Sender<Turn>>,
}

/// A turn that is being used; dropping it passes it to the next client.
struct Turn(Arc<Mutex<Line>>);

impl Turns {
    fn new(count: usize) -> Self {
        Self(Arc::new(Mutex::new(Line { free: count, waiting: Rotation::default() })))
    }

    /// Waits for a client's turn. Always `Some`, since the queue outlives its waiting clients.
    async fn take(&self, client: IpAddr) -> Option<Turn> {
        let turn = {
            let mut line = lock(&self.0);
            if line.free > 0 {
                line.free -= 1;
                return Some(Turn(Arc::clone(&self.0)));
            }
            let (sender, turn) = oneshot::channel();
            line.waiting.push(client, sender);
            turn
        };
        turn.await.ok()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = {
            let mut line = lock(&self.0);
            let next = std::iter::from_fn(|| line.waiting.pop()).find(|(_, sender)| !sender.is_closed());
            line.free += usize::from(next.is_none());
            next
        };
        if let Some((_, sender)) = next {
            // If the receiver is gone by now, the turn is dropped and passes on.
            let _ = sender.send(Turn(Arc::clone(&self.0)));
        }
    }
}

/// Locks the queue, even after a panic, since no update can be interrupted halfway.
fn lock(line: &Mutex<Line>) -> MutexGuard<'_, Line> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Predictor of long work, whose duration is known only afterwards: work is expected to be as long as the client's
/// last.
#[derive(Debug)]
pub(crate) struct Habit {
    client: IpAddr,
    last: Duration,
}

impl Habit {
    /// A predictor for this client's work, with nothing measured yet.
    pub(crate) fn of(client: IpAddr) -> Self {
        Self { client, last: Duration::ZERO }
    }

    /// Runs the work, in turn if it is expected to be long.
    pub(crate) async fn run<T>(&mut self, is_suspect: bool, work: impl FnOnce() -> T) -> T {
        let timed = || {
            let began = Instant::now();
            let result = work();
            (result, began.elapsed())
        };
        let (result, time) = if is_suspect || self.last > LONG { run(self.client, timed).await } else { timed() };
        self.last = time;
        result
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Address of a client by its number.
    fn client(number: u32) -> IpAddr {
        Ipv4Addr::from(number).into()
    }

    #[tokio::test]
    async fn clients_take_turns_whatever_each_has_waiting() {
        let turns = Arc::new(Turns::new(1));
        let done = Arc::new(Mutex::new(Vec::new()));
        let first = turns.take(client(0)).await;
        let mut tasks = Vec::new();
        for (whose, name) in [(0, "many"), (0, "many"), (0, "gone"), (0, "many"), (1, "one"), (2, "gone"), (3, "other")]
        {
            let (turns, done) = (Arc::clone(&turns), Arc::clone(&done));
            let task = tokio::spawn(async move {
                let _turn = turns.take(client(whose)).await;
                done.lock().unwrap().push(name);
            });
            task::yield_now().await;
            tasks.push((name, task));
        }
        tasks.iter().filter(|(name, _)| *name == "gone").for_each(|(_, task)| task.abort());
        task::yield_now().await;
        drop(first);
        for (name, task) in tasks {
            assert_eq!(task.await.is_ok(), name != "gone");
        }
        assert_eq!(*done.lock().unwrap(), ["many", "one", "other", "many", "many"]);
        // All turns have been returned.
        assert_eq!(lock(&turns.0).free, 1);
    }
}
