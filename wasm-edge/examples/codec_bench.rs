//! The browser's half of `cargo xtask bench codec`.
#![cfg(target_arch = "wasm32")]

use std::fmt::Write;

use wasm_bindgen::prelude::*;
use web_time::Instant;

#[path = "../../bench/src/measure.rs"]
#[expect(dead_code, reason = "the native half writes the cases")]
mod measure;
#[path = "../../bench/src/timing.rs"]
mod timing;

/// Long enough for a clock that steps by 0.1 ms.
const BATCH_MS: f64 = 5.0;

/// Times every case; gives a line `encode decode` for each, in microseconds a token.
#[wasm_bindgen]
pub fn time(cases: &str) -> Result<String, JsError> {
    let origin = Instant::now();
    let now = || origin.elapsed().as_secs_f64() * 1e3;
    let run = || -> Result<String, measure::Failure> {
        let mut out = String::new();
        for case in measure::Case::read_all(cases)? {
            let times = case.time(&now, BATCH_MS)?;
            writeln!(out, "{} {}", times.encode, times.decode)?;
        }
        Ok(out)
    };
    run().map_err(|error| JsError::new(&error.to_string()))
}
