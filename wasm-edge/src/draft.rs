//! The draft model: on the processor, and on the browser's GPU where that is faster or was asked for.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use outrider_codec::frame::SamplingParameters;
use outrider_models::{Chunk, KvCache, Model, ModelConfig, ModelError, Scratch, StoredModel};
use outrider_speculation::{
    Choice, Chosen, Forward, TopK,
    session::edge_driver::{DraftModel, DraftRow},
};
use outrider_webgpu::{Gpu, GpuDraft, GpuError, Rows};
use wasm_bindgen::prelude::*;
use web_time::Instant;

use crate::error::Failure;

/// Drafts that are timed together, after as many that are not.
const TIMED: usize = 4;

/// A GPU that is open.
#[wasm_bindgen]
pub struct GpuHandle(Option<Gpu>);

#[wasm_bindgen]
impl GpuHandle {
    /// Opens the GPU that the browser gives.
    ///
    /// Throws an `Error` whose `code` is `gpu-failed` if there is none.
    pub async fn open() -> Result<Self, JsValue> {
        Ok(Self(Some(Gpu::open().await.map_err(Failure::from)?)))
    }

    /// What the GPU calls itself; browsers tell little.
    #[wasm_bindgen(getter)]
    #[must_use]
    pub fn name(&self) -> String {
        self.0.as_ref().map(|gpu| gpu.name().to_owned()).unwrap_or_default()
    }
}

impl GpuHandle {
    pub(crate) fn into_gpu(mut self) -> Option<Gpu> {
        self.0.take()
    }
}

/// What drafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Wasm,
    WebGpu,
}

impl Engine {
    pub fn name(self) -> &'static str {
        match self {
            Self::Wasm => "wasm",
            Self::WebGpu => "webgpu",
        }
    }
}

/// A draft model. It is on the processor in any case: a GPU may be taken away at any time.
pub struct Draft {
    model: Model,
    /// Taken out while it computes.
    gpu: RefCell<Option<GpuDraft>>,
    engine: Cell<Engine>,
    /// Why the GPU does not draft, if it was to.
    declined: RefCell<Option<String>>,
}

impl Draft {
    /// On the processor alone.
    pub fn on_processor(model: Model) -> Self {
        Self { model, gpu: RefCell::default(), engine: Cell::new(Engine::Wasm), declined: RefCell::default() }
    }

    /// On both: of which the GPU drafts if it is faster, or `always`.
    pub async fn on_gpu(stored: StoredModel, gpu: Gpu, always: bool) -> Result<Self, Failure> {
        let on_gpu = GpuDraft::new(gpu, &stored).await;
        let draft = Self::on_processor(stored.into_model()?);
        match on_gpu {
            Err(error) if always => return Err(error.into()),
            Err(error) => draft.decline(error.to_string()),
            Ok(mut on_gpu) => {
                let processor = draft.time_on_processor()?;
                // A browser says only now what it has refused of all that.
                match time_on_gpu(&mut on_gpu).await {
                    Err(error) if always => return Err(error.into()),
                    Err(error) => draft.decline(error.to_string()),
                    Ok(gpu) if always || gpu < processor => draft.drafts_on(on_gpu),
                    Ok(gpu) => {
                        draft.decline(format!("a draft takes {gpu:.1} ms on the GPU, and {processor:.1} ms without"));
                    }
                }
            }
        }
        Ok(draft)
    }

    pub fn config(&self) -> &ModelConfig {
        self.model.config()
    }

    /// What drafts at present.
    pub fn engine(&self) -> Engine {
        self.engine.get()
    }

    /// Why the GPU does not draft, if it was to.
    pub fn declined(&self) -> Option<String> {
        self.declined.borrow().clone()
    }

    fn drafts_on(&self, gpu: GpuDraft) {
        *self.gpu.borrow_mut() = Some(gpu);
        self.engine.set(Engine::WebGpu);
    }

    fn decline(&self, reason: String) {
        *self.declined.borrow_mut() = Some(reason);
        *self.gpu.borrow_mut() = None;
        self.engine.set(Engine::Wasm);
    }

    /// Milliseconds a draft.
    fn time_on_processor(&self) -> Result<f64, Failure> {
        let (mut cache, mut scratch) = (self.model.new_cache(), Scratch::default());
        let mut began = Instant::now();
        for step in 0..2 * TIMED {
            if step == TIMED {
                began = Instant::now();
            }
            let chunk = Chunk { cache: &mut cache, tokens: &[0], positions: &[0] };
            self.model.forward_with(&mut [chunk], &mut scratch)?;
        }
        Ok(began.elapsed().as_secs_f64() * 1e3 / TIMED as f64)
    }
}

/// Milliseconds a draft: of a group that the GPU chooses by itself, or of one whose largest logits come back, whichever
/// takes longer, as both kinds may be asked for. Of each the faster of two.
async fn time_on_gpu(draft: &mut GpuDraft) -> Result<f64, GpuError> {
    let top_k = TopK { k: 1, temperature: 1.0 };
    let sampling = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };
    let choice = Choice { seed: Some(0), sampling, most: TIMED };
    // Kernels are compiled when they are first needed: here those of several rows, and in the first round the others.
    draft.forward_top_k(&[0; 4], 2, top_k).await?;
    let [mut chosen, mut listed] = [f64::INFINITY; 2];
    for round in 0..3 {
        draft.truncate(0);
        let began = Instant::now();
        let guesses = draft.choose(&[0], &choice).await?.len();
        let between = Instant::now();
        draft.forward_top_k(&[0], 1, top_k).await?;
        if round > 0 {
            let group = between.duration_since(began).as_secs_f64() * 1e3;
            chosen = chosen.min(group / guesses as f64);
            listed = listed.min(between.elapsed().as_secs_f64() * 1e3);
        }
    }
    draft.truncate(0);
    Ok(chosen.max(listed))
}

/// A draft model and the text that it has read, which it holds on to until another is read.
pub struct CachedDraft {
    draft: Rc<Draft>,
    /// The tokens in the cache, the GPU's or the processor's.
    held: Vec<u32>,
    holds_on_gpu: bool,
    on_processor: OnProcessor,
    /// What the GPU gave last.
    rows: Rows,
}

struct OnProcessor {
    cache: KvCache,
    scratch: Scratch,
}

impl CachedDraft {
    pub fn new(draft: Rc<Draft>) -> Self {
        let on_processor = OnProcessor { cache: draft.model.new_cache(), scratch: Scratch::default() };
        Self { held: Vec::new(), holds_on_gpu: false, on_processor, rows: Rows::default(), draft }
    }

    /// What a GPU does behind the first `keep` tokens that are held, if there is one that has read what they are.
    async fn on_gpu<R>(
        &mut self,
        keep: usize,
        work: impl AsyncFnOnce(&mut GpuDraft) -> Result<R, GpuError>,
    ) -> Result<Option<R>, ModelError> {
        // What the processor has read it has not.
        if !self.holds_on_gpu && keep > 0 {
            return Ok(None);
        }
        let Some(mut gpu) = self.draft.gpu.take() else { return Ok(None) };
        gpu.truncate(keep);
        let done = match work(&mut gpu).await {
            Ok(done) => Ok(Some(done)),
            Err(GpuError::Model(error)) => Err(error),
            Err(error) => {
                self.draft.decline(error.to_string());
                return Ok(None);
            }
        };
        self.draft.drafts_on(gpu);
        self.holds_on_gpu |= done.is_ok();
        done
    }
}

impl DraftModel for CachedDraft {
    type Error = ModelError;

    /// A GPU gives what is enough; for the processor all rows are where they are wanted.
    async fn forward(&mut self, forward: &Forward, enough: Option<TopK>) -> Result<Vec<DraftRow<'_>>, ModelError> {
        let reused = forward.reusable(&self.held);
        let (mut keep, mut tokens) = (forward.keep + reused, forward.tokens[reused..].to_vec());
        self.held.truncate(keep);
        let pass = async |gpu: &mut GpuDraft| match enough {
            Some(top_k) => gpu.forward_top_k(&tokens, forward.rows, top_k).await,
            None => gpu.forward(&tokens, forward.rows).await,
        };
        if let Some(rows) = self.on_gpu(keep, pass).await? {
            self.rows = rows;
            self.held.extend(&tokens);
            return Ok(self.rows.iter().map(|(logits, hidden)| DraftRow { logits, hidden }).collect());
        }
        if std::mem::take(&mut self.holds_on_gpu) {
            // Nor the other way round.
            tokens.splice(..0, self.held.drain(..));
            keep = 0;
        }
        let OnProcessor { cache, scratch } = &mut self.on_processor;
        cache.truncate(keep);
        let positions: Vec<usize> = (tokens.len() - forward.rows..tokens.len()).collect();
        let chunk = Chunk { cache, tokens: &tokens, positions: &positions };
        let rows = self.draft.model.forward_with(&mut [chunk], scratch)?.chunk(0);
        self.held.extend(&tokens);
        Ok((0..rows.len()).map(|index| DraftRow { logits: rows.row(index), hidden: rows.hidden(index) }).collect())
    }

    /// A GPU does; for the processor a row is where it is wanted.
    async fn choose(&mut self, forward: &Forward, choice: &Choice) -> Result<Vec<Chosen>, ModelError> {
        let reused = forward.reusable(&self.held);
        let (keep, tokens) = (forward.keep + reused, &forward.tokens[reused..]);
        self.held.truncate(keep);
        let Some(chosen) = self.on_gpu(keep, async |gpu| gpu.choose(tokens, choice).await).await? else {
            return Ok(Vec::new());
        };
        self.held.extend(tokens);
        self.held.extend(chosen.iter().map(|chosen| chosen.first));
        // The last is chosen, and not read.
        self.held.pop();
        Ok(chosen)
    }
}
