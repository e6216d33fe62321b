//! The browser's half of `cargo xtask bench sampling`.
#![cfg(target_arch = "wasm32")]

use wasm_bindgen::prelude::*;
use web_time::Instant;

#[path = "../../bench/src/path.rs"]
mod path;
#[path = "../../bench/src/timing.rs"]
mod timing;

/// Long enough for a clock that steps by 0.1 ms, and short enough not to be interrupted.
const BATCH_MS: f64 = 2.0;

/// Times everything; gives a line for each time. There is nothing to be told beforehand.
#[wasm_bindgen]
pub fn time(_cases: &str) -> Result<String, JsError> {
    let origin = Instant::now();
    let now = || origin.elapsed().as_secs_f64() * 1e3;
    path::Times::measure(&now, BATCH_MS).map(|times| times.write()).map_err(|error| JsError::new(&error.to_string()))
}
