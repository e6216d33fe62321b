//! Outrider's side of `cargo xtask bench edge`: a model that is loaded and timed, and the speed of reading memory.
#![cfg(target_arch = "wasm32")]

use outrider_models::{ModelLoader, threads};
use wasm_bindgen::prelude::*;
use web_time::Instant;

use crate::{decoder::Decoder, passes::Pass};

#[path = "../../bench/src/decoder.rs"]
mod decoder;
#[path = "../../bench/src/passes.rs"]
mod passes;
#[path = "../../bench/src/sweep_memory.rs"]
mod sweep_memory;

/// A model, first as the bytes of its file.
#[wasm_bindgen]
pub struct Bench {
    loader: Option<ModelLoader>,
    decoder: Option<Decoder>,
    text: Vec<u32>,
}

#[wasm_bindgen]
impl Bench {
    /// Starts with nothing.
    #[wasm_bindgen(constructor)]
    pub fn new(total_bytes: f64) -> Self {
        console_error_panic_hook::set_once();
        Self { loader: Some(ModelLoader::new(Some(total_bytes as u64))), decoder: None, text: Vec::new() }
    }

    /// Takes the next bytes of the file.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), JsError> {
        Ok(self.loader.as_mut().ok_or(JsError::new("the file has ended"))?.push(chunk)?)
    }

    /// Makes the model from what was pushed.
    pub fn finish(&mut self) -> Result<(), JsError> {
        let loader = self.loader.take().ok_or(JsError::new("the model is there already"))?;
        let decoder = Decoder::new(loader.finish()?);
        self.text = passes::text(decoder.vocabulary());
        self.decoder = Some(decoder);
        Ok(())
    }

    /// Milliseconds of each of `times` passes of `rows` tokens after `cached` others.
    pub fn pass(&mut self, rows: usize, cached: usize, all_logits: bool, times: usize) -> Result<Vec<f64>, JsError> {
        let decoder = self.decoder.as_mut().ok_or(JsError::new("the model is not finished"))?;
        let origin = Instant::now();
        let now = || origin.elapsed().as_secs_f64() * 1e3;
        let pass = Pass { rows, cached, all_logits };
        passes::time(decoder, pass, times, &self.text, now).map_err(|error| JsError::new(&error.to_string()))
    }
}

/// Memory to read, far more than caches hold.
#[wasm_bindgen]
pub struct Memory(Vec<u64>);

#[wasm_bindgen]
impl Memory {
    /// Allocates memory of a size in MiB.
    #[wasm_bindgen(constructor)]
    pub fn new(mebibytes: usize) -> Self {
        Self((0..(mebibytes << 17) as u64).collect())
    }

    /// Bytes per second of each of `times` sweeps.
    pub fn sweep(&self, times: usize) -> Vec<f64> {
        let seconds = |_| {
            let start = Instant::now();
            std::hint::black_box(sweep_memory::sum(&self.0));
            size_of_val(&self.0[..]) as f64 / start.elapsed().as_secs_f64()
        };
        (0..times).map(seconds).collect()
    }
}

/// Gives the calling worker, which shares the memory of another, to that one's model. Never returns.
#[wasm_bindgen]
pub fn work() {
    threads::work()
}
