//! Thread pool that splits a forward pass.
//!
//! A forward pass consists of about a hundred steps of 10 to 300 µs. Each is a product or a loop over heads, and
//! divides into equal units. Splitting a step must cost no more than about a microsecond. Threads often compete for
//! processors, for example with a server next to a browser or with parallel tests. A worker that is late must only
//! delay the few units it has claimed. Therefore:
//!
//! - During a [`pass`] the workers are awake and poll for units; between passes they sleep.
//! - The caller and the workers claim units, several adjacent ones at a time and single ones towards the end, so
//!   weights are read in long runs. The caller only waits for claimed units, and would run all of them if it were
//!   alone.
//! - One thread leads at a time. Another thread that runs a forward pass meanwhile, or a unit that starts a step, runs
//!   alone, in the same order of units as without threads.
//!
//! Native workers are threads, started with the first pass that is large enough. In a browser they are Web Workers that
//! share the memory and call `work`; builds without shared memory have none.
//!
//! # Soundness
//!
//! A step consists of the claim counter `remaining`, which counts down, and a [`Step`] on the caller's stack.
//! Everything about the step is read after a unit has been claimed, and the caller does not return while a claimed unit
//! is unfinished. A thread that reads a [`Step`] therefore keeps it alive by its claim. A worker may have read the
//! counter of an older step; this is harmless, because its claim only succeeds on the current value.

use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    ptr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicPtr, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    thread::{self, Thread},
};

/// Number of polls before a waiting thread yields the processor, and before a worker without a pass sleeps: about 50
/// µs. While a draft model drafts, passes follow each other faster than that, and waking a thread costs the caller a
/// few microseconds.
const PATIENCE: u32 = if cfg!(target_arch = "wasm32") { 30_000 } else { 1_500 };

/// Fraction of the remaining units claimed at a time: 1/CLAIMED. Long runs help prefetching; short ones limit the delay
/// by an interrupted thread.
const CLAIMED: usize = 8;

static POOL: Pool = Pool::new();

/// Runs `body`, a forward pass, with up to `limit` threads, including the calling one.
pub(crate) fn pass<T>(limit: usize, body: impl FnOnce() -> T) -> T {
    POOL.pass(limit, body)
}

/// Runs `work(0)` to `work(units - 1)`, each exactly once, and returns when all are done. Units are spread over threads
/// within a [`pass`] that this thread leads; otherwise they run here, in ascending order.
///
/// A panic in a unit is propagated once no other unit is running; units that have not started are skipped.
pub(crate) fn parallel(units: usize, work: impl Fn(usize) + Sync) {
    POOL.parallel(units, &work);
}

/// Number of threads that share the units of a step started here.
pub(crate) fn sharing() -> usize {
    if ptr::eq(LEADS.get(), &POOL) { 1 + POOL.invited.load(Relaxed) } else { 1 }
}

/// Number of threads in a forward pass with the given limit: the caller and the available workers.
pub(crate) fn threads(limit: usize) -> usize {
    if cfg!(target_arch = "wasm32") { limit.min(1 + POOL.lock().len()) } else { limit }
}

/// Runs a worker in the calling thread; never returns.
#[cfg(target_arch = "wasm32")]
pub(crate) fn work() -> ! {
    let index = {
        let mut workers = POOL.lock();
        workers.push(thread::current());
        workers.len() - 1
    };
    POOL.serve(index)
}

/// Ends waits for a worker that has trapped. Web Workers do not unwind.
#[cfg(target_arch = "wasm32")]
pub(crate) fn give_up() {
    POOL.dead.store(1, Relaxed);
}

struct Pool {
    /// Handles of the workers. The leader holds the lock for the duration of a forward pass.
    workers: Mutex<Vec<Thread>>,
    counters: Counters,
    /// Current step; dangling between steps.
    step: AtomicPtr<Step<'static>>,
    /// Number of workers in the current pass: those with a smaller index. 0 between passes.
    invited: AtomicUsize,
    /// Not 0 if a worker has died inside a unit, which only happens in browsers.
    dead: AtomicUsize,
}

/// Counters that every thread writes during a step. They have their own pair of cache lines, because processors fetch
/// pairs.
#[repr(align(128))]
struct Counters {
    /// Number of unclaimed units in the step.
    remaining: AtomicUsize,
    /// Number of unfinished units in the step.
    unfinished: AtomicUsize,
}

/// Units claimed by one thread.
struct Claim {
    step: *const Step<'static>,
    /// Number of units left before the claim, including these.
    remaining: usize,
    count: usize,
}

struct Step<'a> {
    work: &'a (dyn Fn(usize) + Sync),
    units: usize,
    /// Payload of the first unit that panicked.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

thread_local! {
    /// Pool whose pass this thread leads, if it is not inside a step; otherwise null.
    static LEADS: Cell<*const Pool> = const { Cell::new(ptr::null()) };
}

impl Pool {
    const fn new() -> Self {
        Self {
            workers: Mutex::new(Vec::new()),
            counters: Counters { remaining: AtomicUsize::new(0), unfinished: AtomicUsize::new(0) },
            step: AtomicPtr::new(ptr::null_mut()),
            invited: AtomicUsize::new(0),
            dead: AtomicUsize::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Thread>> {
        // A leader that panics leaves the list unchanged.
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass<T>(&'static self, limit: usize, body: impl FnOnce() -> T) -> T {
        // A pass nested in a pass or unit, or concurrent with another thread's, runs alone.
        if limit < 2 || !LEADS.get().is_null() {
            return body();
        }
        let workers = match self.workers.try_lock() {
            Ok(workers) => workers,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return body(),
        };
        #[cfg(not(target_arch = "wasm32"))]
        let workers = self.start(workers, limit - 1);
        let invited = workers.len().min(limit - 1);
        if invited == 0 {
            return body();
        }
        // `unpark` releases and `park` acquires, so a worker that wakes sees the invitation. A worker that had not seen
        // it before parking finds the token of `unpark` and returns at once, so no invitation is lost.
        self.invited.store(invited, Relaxed);
        for worker in &workers[..invited] {
            worker.unpark();
        }
        let _lead = Lead { pool: self, _workers: workers };
        LEADS.set(self);
        body()
    }

    /// Starts workers until there are `count`, or as many as the system allows.
    #[cfg(not(target_arch = "wasm32"))]
    fn start<'a>(&'static self, mut workers: MutexGuard<'a, Vec<Thread>>, count: usize) -> MutexGuard<'a, Vec<Thread>> {
        while workers.len() < count {
            let index = workers.len();
            let name = format!("outrider-{}", index + 1);
            match thread::Builder::new().name(name).spawn(move || self.serve(index)) {
                Ok(handle) => workers.push(handle.thread().clone()),
                Err(_) => break,
            }
        }
        workers
    }

    fn serve(&self, index: usize) -> ! {
        let mut idle = 0;
        loop {
            let is_invited = index < self.invited.load(Relaxed);
            if is_invited && let Some(claim) = self.claim() {
                self.run(&claim);
                idle = 0;
            } else if is_invited || idle < PATIENCE {
                linger(&mut idle);
            } else {
                thread::park();
                idle = 0;
            }
        }
    }

    fn parallel(&self, units: usize, work: &(dyn Fn(usize) + Sync)) {
        if units < 2 || !ptr::eq(LEADS.get(), self) {
            (0..units).for_each(work);
            return;
        }
        let step = Step { work, units, panic: Mutex::new(None) };
        self.step.store(ptr::from_ref(&step).cast_mut().cast(), Relaxed);
        self.counters.unfinished.store(units, Relaxed);
        // Publishes the two stores above, and the step. A claim acquires this store or, through the chain of claims
        // since, a successor of it.
        self.counters.remaining.store(units, Release);

        // Steps started inside units run on one thread.
        LEADS.set(ptr::null());
        while let Some(claim) = self.claim() {
            self.run(&claim);
        }
        let mut idle = 0;
        // Acquires the writes of units, each released by its decrement.
        while self.counters.unfinished.load(Acquire) > 0 {
            assert!(self.dead.load(Relaxed) == 0, "a worker died in the middle of a step");
            linger(&mut idle);
        }
        LEADS.set(self);
        let panic = step.panic.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(panic) = panic {
            resume_unwind(panic);
        }
    }

    /// Claims units of the current step, if any are left. The step is valid until they have been [`run`](Self::run).
    fn claim(&self) -> Option<Claim> {
        let mut remaining = self.counters.remaining.load(Relaxed);
        while remaining > 0 {
            let count = (remaining / CLAIMED).max(1);
            match self.counters.remaining.compare_exchange_weak(remaining, remaining - count, Acquire, Relaxed) {
                Ok(_) => return Some(Claim { step: self.step.load(Relaxed), remaining, count }),
                Err(now) => remaining = now,
            }
        }
        None
    }

    /// Runs the claimed units in ascending order.
    fn run(&self, claim: &Claim) {
        // SAFETY: the units have been claimed, which acquired the caller's store of `step`, and are not done until the
        // decrement of `unfinished` below. The caller keeps the step on its stack until that counter is 0, and the
        // reference is not used after the decrement.
        #[allow(unsafe_code, reason = "the step lives on the stack of a thread that waits for us")]
        let step = unsafe { &*claim.step };
        let first = step.units - claim.remaining;
        let outcome = catch_unwind(AssertUnwindSafe(|| (first..first + claim.count).for_each(step.work)));
        let mut done = claim.count;
        if let Err(panic) = outcome {
            step.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(panic);
            done += self.counters.remaining.swap(0, Relaxed);
        }
        // Releases the writes of the units to the caller's load.
        self.counters.unfinished.fetch_sub(done, Release);
    }
}

/// Waits briefly: spins at first, then yields.
fn linger(idle: &mut u32) {
    if *idle < PATIENCE {
        *idle += 1;
        std::hint::spin_loop();
    } else {
        thread::yield_now();
    }
}

/// Guard of a pass with awake workers, which ends when it is dropped, also by a panic.
struct Lead<'a> {
    pool: &'a Pool,
    _workers: MutexGuard<'a, Vec<Thread>>,
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        LEADS.set(ptr::null());
        self.pool.invited.store(0, Relaxed);
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
