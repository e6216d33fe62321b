//! Work that takes long enough for others to notice.
//!
//! The runtime has a thread for each processor, and whatever runs long on one keeps every session waiting that it
//! serves. So long work has its thread replaced meanwhile; and what strangers can make long without the target taking
//! part (reading requests, decoding payloads) takes turns, on half of the processors at most.

use std::{
    sync::LazyLock,
    thread::available_parallelism,
    time::{Duration, Instant},
};

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::Semaphore,
    task,
};

/// The turns of this process: its processors are what is scarce.
static TURNS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(available_parallelism().map_or(1, |count| count.get().div_ceil(2))));
/// Longer than this is long.
const LONG: Duration = Duration::from_millis(1);

/// Does long work when its turn comes.
pub(crate) async fn run<T>(work: impl FnOnce() -> T) -> T {
    // Never closed.
    let _turn = TURNS.acquire().await;
    in_place(work)
}

/// Does work on this thread that may be long, and has another thread serve the others meanwhile.
pub(crate) fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => task::block_in_place(work),
        // There is no other thread: a test's runtime.
        _ => work(),
    }
}

/// Work of one client that is long or not, which is not known before it is done: what was long is expected to be long
/// again.
#[derive(Debug, Default)]
pub(crate) struct Habit {
    last: Duration,
}

impl Habit {
    /// Does the work, in turn if it is expected to be long.
    pub(crate) async fn run<T>(&mut self, is_suspect: bool, work: impl FnOnce() -> T) -> T {
        let timed = || {
            let began = Instant::now();
            let result = work();
            (result, began.elapsed())
        };
        let (result, time) = if is_suspect || self.last > LONG { run(timed).await } else { timed() };
        self.last = time;
        result
    }
}
