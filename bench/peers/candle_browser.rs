//! candle in the browser, with the class that `wasm-edge/examples/edge_bench.rs` has for Outrider.
#![cfg(target_arch = "wasm32")]
#![forbid(unsafe_code)]

use std::io::Cursor;

use js_sys::{Function, Reflect, global};
use wasm_bindgen::{JsCast, JsValue, prelude::wasm_bindgen};

use crate::{passes::Pass, quantized::Quantized};

#[path = "../src/passes.rs"]
mod passes;
mod quantized;

/// A model, first as the bytes of its file.
#[wasm_bindgen]
pub struct Bench {
    file: Vec<u8>,
    engine: Option<Quantized>,
    text: Vec<u32>,
}

#[wasm_bindgen]
impl Bench {
    /// Starts with nothing.
    #[wasm_bindgen(constructor)]
    pub fn new(total_bytes: f64) -> Self {
        Self { file: Vec::with_capacity(total_bytes as usize), engine: None, text: Vec::new() }
    }

    /// Takes the next bytes of the file.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), JsValue> {
        self.file.extend_from_slice(chunk);
        Ok(())
    }

    /// Makes the model from the file's pieces.
    pub fn finish(&mut self) -> Result<(), JsValue> {
        let mut file = Cursor::new(std::mem::take(&mut self.file));
        let engine = Quantized::read(&mut file).map_err(message)?;
        self.text = passes::text(engine.vocabulary);
        self.engine = Some(engine);
        Ok(())
    }

    /// Milliseconds of each of `times` passes.
    pub fn pass(&mut self, rows: usize, cached: usize, all_logits: bool, times: usize) -> Result<Vec<f64>, JsValue> {
        let engine = self.engine.as_mut().ok_or("the model is not finished")?;
        let now = clock()?;
        passes::time(engine, Pass { rows, cached, all_logits }, times, &self.text, now).map_err(message)
    }
}

fn message(error: passes::Failure) -> JsValue {
    error.to_string().into()
}

/// `performance.now()`.
fn clock() -> Result<impl Fn() -> f64, JsValue> {
    let performance = Reflect::get(&global(), &"performance".into())?;
    let now: Function = Reflect::get(&performance, &"now".into())?.dyn_into()?;
    Ok(move || now.call0(&performance).ok().and_then(|now| now.as_f64()).unwrap_or(f64::NAN))
}
