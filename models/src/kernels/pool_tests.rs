use std::thread;

use super::*;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

/// Separate pool, whose workers sleep until the end of the process.
fn new_pool() -> &'static Pool {
    Box::leak(Box::new(Pool::new()))
}

/// Pseudo-random numbers (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Runs a step of `units` and checks by non-atomic writes that each unit ran once.
fn check_step(pool: &Pool, units: usize, salt: u64) {
    struct Slots(Vec<Cell<u64>>);
    // SAFETY: each unit only accesses its own slot, which is what the test checks.
    #[allow(unsafe_code, reason = "a data race if the pool is wrong, for the test and for thread sanitizers to see")]
    unsafe impl Sync for Slots {}
    let slots = Slots((0..units).map(|_| Cell::new(0)).collect());
    let slots = &slots;
    pool.parallel(units, &|unit| {
        // Long enough for a worker to join while there is work.
        (0..50).for_each(|_| std::hint::spin_loop());
        let slot = &slots.0[unit];
        slot.set(slot.get() + salt + unit as u64);
    });
    for (unit, slot) in slots.0.iter().enumerate() {
        assert_eq!(slot.get(), salt + unit as u64, "unit {unit} of {units}");
    }
}

#[test]
fn every_unit_runs_once_for_every_number_of_threads() {
    let pool = new_pool();
    let mut random = Random(1);
    for pass in 0..300 {
        let limit = 1 + random.below(5);
        pool.pass(limit, || {
            for _ in 0..random.below(40) {
                check_step(pool, random.below(70), pass);
            }
        });
    }
}

#[test]
fn outside_of_a_pass_units_run_here_in_order() {
    let (pool, here) = (new_pool(), thread::current().id());
    let order = Mutex::new(Vec::new());
    let note = |unit| {
        assert_eq!(thread::current().id(), here);
        order.lock().unwrap().push(unit);
    };
    pool.parallel(9, &note);
    pool.pass(1, || pool.parallel(9, &note));
    assert_eq!(order.into_inner().unwrap(), (0..9).chain(0..9).collect::<Vec<_>>());
}

#[cfg(not(target_arch = "wasm32"))]
mod threaded {
    use std::{
        sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
        time::{Duration, Instant},
    };

    use super::*;

    /// Spins for about 20 µs.
    fn toil() {
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(20) {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn workers_take_part() {
        let pool = new_pool();
        let here = thread::current().id();
        let by_workers = AtomicUsize::new(0);
        let start = Instant::now();
        while by_workers.load(Relaxed) == 0 {
            assert!(start.elapsed() < Duration::from_secs(60), "no worker came");
            pool.pass(3, || {
                pool.parallel(16, &|_| {
                    toil();
                    if thread::current().id() != here {
                        by_workers.fetch_add(1, Relaxed);
                    }
                });
            });
        }
    }

    #[test]
    fn several_callers_at_once_all_get_right_sums() {
        let pool = new_pool();
        thread::scope(|scope| {
            for caller in 0..4 {
                scope.spawn(move || {
                    let mut random = Random(caller + 1);
                    for pass in 0..200 {
                        pool.pass(3, || (0..10).for_each(|_| check_step(pool, random.below(30), pass)));
                    }
                });
            }
        });
    }

    #[test]
    fn steps_inside_of_units_run_alone() {
        let pool = new_pool();
        let sum = AtomicU64::new(0);
        for _ in 0..50 {
            pool.pass(3, || {
                pool.parallel(8, &|outer| {
                    let here = thread::current().id();
                    pool.parallel(5, &|inner| {
                        assert_eq!(thread::current().id(), here);
                        sum.fetch_add((outer * 5 + inner) as u64, Relaxed);
                    });
                    pool.pass(3, || check_step(pool, 6, outer as u64));
                });
                // The outer pass still leads.
                check_step(pool, 20, 1);
            });
        }
        assert_eq!(sum.into_inner(), 50 * (0..40).sum::<u64>());
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = new_pool();
        for bad in 0..24 {
            let ran = AtomicUsize::new(0);
            let thrown = catch_unwind(AssertUnwindSafe(|| {
                pool.pass(3, || {
                    pool.parallel(24, &|unit| {
                        toil();
                        assert_ne!(unit, bad, "the unit that fails");
                        ran.fetch_add(1, Relaxed);
                    });
                });
            }));
            let message = thrown.unwrap_err().downcast::<String>().unwrap();
            assert!(message.contains("the unit that fails"), "{message}");
            assert!(ran.into_inner() < 24);
            pool.pass(3, || check_step(pool, 24, 5));
        }
    }

    #[test]
    fn a_panic_between_steps_ends_the_pass() {
        let pool = new_pool();
        let thrown = catch_unwind(|| pool.pass(3, || -> () { panic!("between") }));
        assert!(thrown.is_err());
        assert!(LEADS.get().is_null());
        assert_eq!(pool.invited.load(Relaxed), 0);
        pool.pass(3, || check_step(pool, 10, 1));
    }
}
