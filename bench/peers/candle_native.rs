//! candle's own models as an engine on this machine.
#![forbid(unsafe_code)]

use std::{fs::File, time::Instant};

use quantized::Quantized;

#[path = "../src/passes.rs"]
mod passes;
#[path = "../src/native/protocol.rs"]
mod protocol;
mod quantized;

fn main() -> Result<(), passes::Failure> {
    let began = Instant::now();
    // The number of threads is read by candle, from the environment.
    let path = std::env::args().nth(1).ok_or("usage: candle_native MODEL THREADS")?;
    let engine = Quantized::read(&mut File::open(path)?)?;
    let build = if cfg!(target_feature = "avx512vnni") { "avx512vnni" } else { "no avx512vnni" };
    let vocabulary = engine.vocabulary;
    protocol::serve(engine, began, build, vocabulary)
}
