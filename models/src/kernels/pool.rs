//! Splitting a pass over threads.
//!
//! A forward pass of a model is some hundred steps of 10 to 300 µs, each a product or a loop over heads that falls into
//! equal units. What splitting a step costs must be about a microsecond, and a worker that is late, because the machine
//! has more to do than processors (a server beside a browser, tests in parallel), must cost nothing but the few units
//! it has claimed. So:
//!
//! - for the time of a [`pass`] the workers are awake and look for units; between forward passes they sleep;
//! - units are claimed by the caller as by the workers, a few neighbours at a time and towards the end one by one:
//!   weights are then read in long runs. The caller waits for units that somebody has claimed and for nothing else, and
//!   alone it would do all of them;
//! - one thread leads at a time. Whoever else runs a forward pass meanwhile, or starts a step from inside a unit, runs
//!   it alone, in the same order of units as with threads there is none.
//!
//! Workers are threads natively, started with the first pass that is worth it. In a browser they are Web Workers
//! that share the memory and call `work`; in a build without shared memory there are none.
//!
//! # Why it is sound
//!
//! A step is the claim counter `remaining`, counting down, and what the units do, a [`Step`] on the caller's stack.
//! Everything about the step is read after a unit has been claimed, and the caller does not return while a claimed
//! unit is unfinished, so whoever reads a [`Step`] keeps it alive by the claim it holds. That a worker may have
//! looked at the counter of an older step is harmless: its claim succeeds on the number that is there now.

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

/// How often a waiting thread looks before it lets others have the processor, and a worker without a forward pass
/// before it sleeps: some 50 µs. Passes follow each other faster than that while a draft model drafts, and waking a
/// sleeper costs the caller a few microseconds.
const PATIENCE: u32 = if cfg!(target_arch = "wasm32") { 30_000 } else { 1_500 };

/// One part in so many of the units that are left is claimed at once: long runs for the memory's prefetching, while a
/// thread that is interrupted holds up little.
const CLAIMED: usize = 8;

static POOL: Pool = Pool::new();

/// Runs `body`, a forward pass, on `limit` threads: with the workers awake, if these are more than the caller's own.
pub(crate) fn pass<T>(limit: usize, body: impl FnOnce() -> T) -> T {
    POOL.pass(limit, body)
}

/// Runs `work(0)` to `work(units - 1)`, each exactly once, and returns when all are done: on several threads if this is
/// part of a [`pass`] that is worth it, else here, in ascending order.
///
/// A panic of a unit reaches the caller once no other unit runs any more; units that had not been started are left out.
pub(crate) fn parallel(units: usize, work: impl Fn(usize) + Sync) {
    POOL.parallel(units, &work);
}

/// How many threads divide the units of a step that begins here: those of the [`pass`] that this thread leads.
pub(crate) fn sharing() -> usize {
    if ptr::eq(LEADS.get(), &POOL) { 1 + POOL.invited.load(Relaxed) } else { 1 }
}

/// How many threads take part in a forward pass if `limit` may: the caller and the workers there are.
pub(crate) fn threads(limit: usize) -> usize {
    if cfg!(target_arch = "wasm32") { limit.min(1 + POOL.lock().len()) } else { limit }
}

/// A worker's life, in a thread that somebody else has started; it never ends.
#[cfg(target_arch = "wasm32")]
pub(crate) fn work() -> ! {
    let index = {
        let mut workers = POOL.lock();
        workers.push(thread::current());
        workers.len() - 1
    };
    POOL.serve(index)
}

/// Ends the wait for a worker that has trapped: a Web Worker does not unwind.
#[cfg(target_arch = "wasm32")]
pub(crate) fn give_up() {
    POOL.dead.store(1, Relaxed);
}

struct Pool {
    /// The workers, for whoever leads: the lock is held for the time of a forward pass.
    workers: Mutex<Vec<Thread>>,
    counters: Counters,
    /// The step under way; dangling between steps.
    step: AtomicPtr<Step<'static>>,
    /// How many workers take part in the forward pass under way: those with an index below it. 0 between passes.
    invited: AtomicUsize,
    /// Not 0 when a worker has died inside of a unit, which happens in browsers only.
    dead: AtomicUsize,
}

/// What every thread writes during a step, in a cache line of its own (two, as processors fetch pairs).
#[repr(align(128))]
struct Counters {
    /// Units of the step that nobody has claimed.
    remaining: AtomicUsize,
    /// Units of the step that are not done.
    unfinished: AtomicUsize,
}

/// Units that one thread runs.
struct Claim {
    step: *const Step<'static>,
    /// How many units were left, these among them.
    remaining: usize,
    count: usize,
}

struct Step<'a> {
    work: &'a (dyn Fn(usize) + Sync),
    units: usize,
    /// What the first unit that panicked threw.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

thread_local! {
    /// The pool whose pass this thread leads, outside of a step; else null.
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
        // A leader that panics leaves the list as it was.
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass<T>(&'static self, limit: usize, body: impl FnOnce() -> T) -> T {
        // A forward pass inside of a forward pass or of a unit, or beside another thread's.
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
        // `unpark` releases and `park` acquires, so that a worker that wakes sees the invitation. One that had
        // seen none before it parked finds the token of `unpark` and returns at once: no invitation gets lost.
        self.invited.store(invited, Relaxed);
        for worker in &workers[..invited] {
            worker.unpark();
        }
        let _lead = Lead { pool: self, _workers: workers };
        LEADS.set(self);
        body()
    }

    /// Has `count` workers at least, or as many as the system lets us start.
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
        // Publishes the two stores above, and the step: a claim acquires this store or, by the chain of claims since, a
        // successor of it.
        self.counters.remaining.store(units, Release);

        // Steps inside of units are for one thread.
        LEADS.set(ptr::null());
        while let Some(claim) = self.claim() {
            self.run(&claim);
        }
        let mut idle = 0;
        // Acquires what units have written: each one releases it by its decrement.
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

    /// Claims units of the step under way, if any are left. The step is valid until they have been [`run`](Self::run).
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
        // Releases what the units have written, to the caller's load.
        self.counters.unfinished.fetch_sub(done, Release);
    }
}

/// Waits a moment, the longer it has waited the more politely.
fn linger(idle: &mut u32) {
    if *idle < PATIENCE {
        *idle += 1;
        std::hint::spin_loop();
    } else {
        thread::yield_now();
    }
}

/// A forward pass in which the workers are awake; ends with this value, also by a panic.
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
