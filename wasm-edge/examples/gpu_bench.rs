//! Outrider on the browser's GPU for `cargo xtask bench edge`, with the class that `edge_bench.rs` has.
#![cfg(target_arch = "wasm32")]

use outrider_codec::frame::SamplingParameters;
use outrider_models::StoredLoader;
use outrider_speculation::{Choice, TopK};
use outrider_webgpu::{Gpu, GpuDraft, GpuError};
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

    /// Brings the model to the GPU, and returns the GPU's name and subgroups.
    pub async fn finish(&mut self) -> Result<String, JsError> {
        let loader = self.loader.take().ok_or(JsError::new("the model is there already"))?;
        let draft = GpuDraft::new(Gpu::open().await?, &loader.finish()?).await?;
        self.text = passes::text(draft.config().vocab_size as u32);
        let name = match draft.gpu().name() {
            "" => "an adapter without a name",
            name => name,
        };
        let described = if draft.gpu().has_subgroups() { format!("{name} with subgroups") } else { name.to_owned() };
        self.draft = Some(draft);
        Ok(described)
    }

    /// Milliseconds of each of `times` passes of `rows` tokens after `cached` others.
    pub async fn pass(
        &mut self,
        rows: usize,
        cached: usize,
        all_logits: bool,
        times: usize,
    ) -> Result<Vec<f64>, JsError> {
        let wanted = if all_logits { rows } else { 1 };
        self.timed(cached, rows, times, async |draft, tokens, _| draft.forward(tokens, wanted).await.map(drop)).await
    }

    /// Milliseconds of each of `times` passes after `cached` tokens whose `k` largest logits are enough.
    pub async fn top_k(&mut self, k: u32, cached: usize, times: usize) -> Result<Vec<f64>, JsError> {
        let top_k = TopK { k, temperature: 0.7 };
        self.timed(cached, 1, times, async |draft, tokens, _| draft.forward_top_k(tokens, 1, top_k).await.map(drop))
            .await
    }

    /// Milliseconds of a guess, of each of `times` groups of `most` after `cached` tokens.
    pub async fn guesses(&mut self, most: usize, cached: usize, times: usize) -> Result<Vec<f64>, JsError> {
        let sampling = SamplingParameters { temperature: 0.7, top_k: 0, top_p: 0.95 };
        let group = async |draft: &mut GpuDraft, tokens: &[u32], round: usize| {
            draft.choose(tokens, &Choice { seed: Some(round as u64), sampling, most }).await.map(drop)
        };
        let found = self.timed(cached, 1, times, group).await?;
        Ok(found.into_iter().map(|ms| ms / most as f64).collect())
    }

    /// Submissions, read-backs, bytes of these, and dispatches so far.
    #[must_use]
    pub fn counts(&self) -> Vec<f64> {
        let counts = self.draft.as_ref().map(GpuDraft::counts).unwrap_or_default();
        [counts.submissions, counts.read_backs, counts.bytes, counts.dispatches].map(|count| count as f64).to_vec()
    }
}

impl Bench {
    /// Milliseconds of each time of `times` that `work` is done with `rows` tokens after `cached` others; a first one
    /// is not timed.
    async fn timed(
        &mut self,
        cached: usize,
        rows: usize,
        times: usize,
        work: impl AsyncFn(&mut GpuDraft, &[u32], usize) -> Result<(), GpuError>,
    ) -> Result<Vec<f64>, JsError> {
        let tokens = self.text[cached..cached + rows].to_vec();
        let draft = self.behind(cached).await?;
        let mut found = Vec::with_capacity(times);
        for round in 0..=times {
            draft.truncate(cached);
            let began = Instant::now();
            work(draft, &tokens, round).await?;
            if round > 0 {
                found.push(began.elapsed().as_secs_f64() * 1e3);
            }
        }
        Ok(found)
    }

    /// Returns the model with `cached` tokens in its cache.
    async fn behind(&mut self, cached: usize) -> Result<&mut GpuDraft, JsError> {
        let draft = self.draft.as_mut().ok_or(JsError::new("the model is not finished"))?;
        draft.truncate(cached);
        let held = draft.held();
        draft.forward(&self.text[held..cached], 0).await?;
        Ok(draft)
    }
}
