//! Time of one call, by any clock.

/// Microseconds of one call: the calls double until they take long enough for the clock; then the fastest of so many
/// `batches`, as the machine has other things to do, too.
pub fn microseconds(now: &dyn Fn() -> f64, batch_ms: f64, batches: usize, mut call: impl FnMut() -> bool) -> f64 {
    let mut batch = |calls: u32| {
        let start = now();
        for _ in 0..calls {
            std::hint::black_box(call());
        }
        now() - start
    };
    let mut fastest = |calls: u32, batches: usize| (0..batches).map(|_| batch(calls)).fold(f64::INFINITY, f64::min);
    let mut calls = 1;
    // Not by one that was interrupted.
    while fastest(calls, 3) < batch_ms {
        calls *= 2;
    }
    let fastest = fastest(calls, batches);
    fastest * 1e3 / f64::from(calls)
}
