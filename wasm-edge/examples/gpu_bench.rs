//! Outrider on the browser's GPU for `cargo xtask bench edge`, with the class that `edge_bench.rs` has.
#![cfg(target_arch = "wasm32")]

use outrider_codec::frame::SamplingParameters;
use outrider_models::StoredLoader;
use outrider_speculation::{Choice, TopK};
use outrider_webgpu::{Gpu, GpuDraft};
use wasm_bindgen::prelude::*;
use web_time::Instant;

#[path = "../../bench/src/passes.rs"]
#[allow(dead_code, reason = "an engine that waits for nobody needs the rest")]
mod passes;

/// A model, first as the bytes of its file.
#[wasm_bindgen]
pub struct Bench {
    loader: Option<StoredLoader>,
    draft: Option<GpuDraft>,
    text: Vec<u32>,
}

#[wasm_bindgen]
impl Bench {
    /// Starts with nothing.
    #[wasm_bindgen(constructor)]
    pub fn new(total_bytes: f64) -> Self {
        console_error_panic_hook::set_once();
        Self { loader: Some(StoredLoader::new(Some(total_bytes as u64))), draft: None, text: Vec::new() }
    }

    /// Takes the next bytes of the file.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), JsError> {
        Ok(self.loader.as_mut().ok_or(JsError::new("the file has ended"))?.push(chunk)?)
    }

    /// Brings the model to the GPU, whose name it gives.
    pub async fn finish(&mut self) -> Result<String, JsError> {
        let loader = self.loader.take().ok_or(JsError::new("the model is there already"))?;
        let draft = GpuDraft::new(Gpu::open().await?, &loader.finish()?).await?;
        self.text = passes::text(draft.config().vocab_size as u32);
        let name = draft.gpu().name().to_owned();
        self.draft = Some(draft);
        Ok(name)
    }

    /// Milliseconds of each of `times` passes of `rows` tokens behind `cached` others.
    pub async fn pass(
        &mut self,
        rows: usize,
        cached: usize,
        all_logits: bool,
        times: usize,
    ) -> Result<Vec<f64>, JsError> {
        let text = self.text.clone();
        let draft = self.behind(cached).await?;
        let mut found = Vec::with_capacity(times);
        for round in 0..=times {
            draft.truncate(cached);
            let began = Instant::now();
            draft.forward(&text[cached..cached + rows], if all_logits { rows } else { 1 }).await?;
            if round > 0 {
                found.push(began.elapsed().as_secs_f64() * 1e3);
            }
        }
        Ok(found)
    }

    /// Milliseconds of each of `times` passes behind `cached` tokens whose `k` largest logits are enough.
    pub async fn top_k(&mut self, k: u32, cached: usize, times: usize) -> Result<Vec<f64>, JsError> {
        let text = self.text.clone();
        let draft = self.behind(cached).await?;
        let mut found = Vec::with_capacity(times);
        for round in 0..=times {
            draft.truncate(cached);
            let began = Instant::now();
            draft.forward_top_k(&text[cached..=cached], 1, TopK { k, temperature: 0.7 }).await?;
            if round > 0 {
                found.push(began.elapsed().as_secs_f64() * 1e3);
            }
        }
        Ok(found)
    }

    /// Milliseconds of a guess, of each of `times` groups of `most` behind `cached` tokens.
    pub async fn guesses(&mut self, most: usize, cached: usize, times: usize) -> Result<Vec<f64>, JsError> {
        let text = self.text.clone();
        let draft = self.behind(cached).await?;
        let mut found = Vec::with_capacity(times);
        for round in 0..=times {
            draft.truncate(cached);
            let began = Instant::now();
            let sampling = SamplingParameters { temperature: 0.7, top_k: 0, top_p: 0.95 };
            let choice = Choice { seed: Some(round as u64), sampling, most };
            draft.choose(&text[cached..=cached], &choice).await?;
            if round > 0 {
                found.push(began.elapsed().as_secs_f64() * 1e3 / most as f64);
            }
        }
        Ok(found)
    }

    /// Submissions, read-backs, and bytes of these so far.
    #[must_use]
    pub fn counts(&self) -> Vec<f64> {
        let counts = self.draft.as_ref().map(GpuDraft::counts).unwrap_or_default();
        vec![counts.submissions as f64, counts.read_backs as f64, counts.bytes as f64]
    }
}

impl Bench {
    /// The model with so many tokens in its cache.
    async fn behind(&mut self, cached: usize) -> Result<&mut GpuDraft, JsError> {
        let draft = self.draft.as_mut().ok_or(JsError::new("the model is not finished"))?;
        draft.truncate(cached);
        let held = draft.held();
        draft.forward(&self.text[held..cached], 0).await?;
        Ok(draft)
    }
}
