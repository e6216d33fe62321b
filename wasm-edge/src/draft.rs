//! Draft model on the CPU, and on the browser's GPU if that is faster or required.

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

/// Number of drafts in a timing, after as many warm-up drafts.
const TIMED: usize = 4;

/// Open connection to a GPU, for JavaScript.
#[wasm_bindgen]
pub struct GpuHandle(Option<Gpu>);

#[wasm_bindgen]
impl GpuHandle {
    /// Opens the GPU that the browser offers.
    ///
    /// Throws an `Error` whose `code` is `gpu-failed` if there is none.
    pub async fn open() -> Result<Self, JsValue> {
        Ok(Self(Some(Gpu::open().await.map_err(Failure::from)?)))
    }

    /// Name of the GPU; browsers reveal little.
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

/// Processor that computes drafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Wasm,
    WebGpu,
    /// No model: guesses are looked up.
    Lookup,
}

impl Engine {
    pub fn name(self) -> &'static str {
        match self {
            Self::Wasm => "wasm",
            Self::WebGpu => "webgpu",
            Self::Lookup => "lookup",
        }
    }
}

/// Draft model on the CPU and, if used, on a GPU. The CPU copy is always kept, because a GPU may be lost at any time.
pub struct Draft {
    model: Model,
    /// Model on the GPU; taken out while it computes.
    gpu: RefCell<Option<GpuDraft>>,
    /// True while a text has the cache on the GPU. Texts beside it are drafted on the CPU.
    gpu_is_used: Cell<bool>,
    engine: Cell<Engine>,
    /// Reason why the GPU does not draft, if it was requested.
    declined: RefCell<Option<String>>,
}

impl Draft {
    /// Creates a draft model on the CPU only.
    pub fn on_processor(model: Model) -> Self {
        let (gpu, gpu_is_used) = (RefCell::default(), Cell::default());
        Self { model, gpu, gpu_is_used, engine: Cell::new(Engine::Wasm), declined: RefCell::default() }
    }

    /// Creates a draft model on CPU and GPU. The GPU drafts if it is faster, or `always`.
    pub async fn on_gpu(stored: StoredModel, gpu: Gpu, always: bool) -> Result<Self, Failure> {
        let on_gpu = GpuDraft::new(gpu, &stored).await;
        let draft = Self::on_processor(stored.into_model()?);
        match on_gpu {
            Err(error) if always => return Err(error.into()),
            Err(error) => draft.decline(error.to_string()),
            Ok(mut on_gpu) => {
                let processor = draft.time_on_processor()?;
                // Browsers report rejected commands only when results are awaited.
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

    /// Processor that computes drafts at present.
    pub fn engine(&self) -> Engine {
        self.engine.get()
    }

    /// Reason why the GPU does not draft, if it was requested.
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

    /// Measures the time per draft on the CPU, in milliseconds.
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

/// Measures the time per draft on the GPU, in milliseconds. Either kind of draft may be requested later, so this is the
/// slower of two: drafts in a group that the GPU chooses itself, and a draft whose largest logits are read back. Each
/// is the best of two runs.
async fn time_on_gpu(draft: &mut GpuDraft) -> Result<f64, GpuError> {
    let top_k = TopK { k: 1, temperature: 1.0 };
    let sampling = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };
    let choice = Choice { seed: Some(0), sampling, most: TIMED };
    // Kernels are compiled on first use: those for several rows here, the others in the first round.
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

/// Draft model with a KV cache, which is kept until another text is read.
pub struct CachedDraft {
    draft: Rc<Draft>,
    /// Tokens in the cache, on the GPU or on the CPU.
    held: Vec<u32>,
    holds_on_gpu: bool,
    may_use_gpu: bool,
    on_processor: OnProcessor,
    /// Rows of the last GPU pass.
    rows: Rows,
}

/// Source of an edge's guesses besides lookups.
pub enum EdgeDraft {
    Model(Box<CachedDraft>),
    /// There is no model, so that no session asks for a forward pass.
    Nothing,
}

impl EdgeDraft {
    pub fn of(draft: Option<&Rc<Draft>>) -> Self {
        draft.map_or(Self::Nothing, |draft| Self::Model(Box::new(CachedDraft::new(draft.clone()))))
    }
}

impl DraftModel for EdgeDraft {
    type Error = ModelError;

    async fn forward(&mut self, forward: &Forward) -> Result<Vec<DraftRow<'_>>, ModelError> {
        match self {
            Self::Model(draft) => draft.forward(forward).await,
            Self::Nothing => {
                Err(ModelError::ContextExceeded { chunk: 0, cached: 0, added: forward.tokens.len(), context_length: 0 })
            }
        }
    }

    async fn choose(&mut self, forward: &Forward) -> Result<Vec<Chosen>, ModelError> {
        match self {
            Self::Model(draft) => draft.choose(forward).await,
            Self::Nothing => Ok(Vec::new()),
        }
    }
}

struct OnProcessor {
    cache: KvCache,
    scratch: Scratch,
}

impl CachedDraft {
    fn new(draft: Rc<Draft>) -> Self {
        let on_processor = OnProcessor { cache: draft.model.new_cache(), scratch: Scratch::default() };
        let may_use_gpu = !draft.gpu_is_used.replace(true);
        Self { held: Vec::new(), holds_on_gpu: false, may_use_gpu, on_processor, rows: Rows::default(), draft }
    }

    /// Runs `work` on the GPU after the first `keep` cached tokens. Returns `None` if there is no GPU, or if these
    /// tokens are cached on the CPU.
    async fn on_gpu<R>(
        &mut self,
        keep: usize,
        work: impl AsyncFnOnce(&mut GpuDraft) -> Result<R, GpuError>,
    ) -> Result<Option<R>, ModelError> {
        // The GPU has not read tokens that are cached on the CPU.
        if !self.may_use_gpu || !self.holds_on_gpu && keep > 0 {
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

impl Drop for CachedDraft {
    fn drop(&mut self) {
        if self.may_use_gpu {
            self.draft.gpu_is_used.set(false);
        }
    }
}

impl DraftModel for CachedDraft {
    type Error = ModelError;

    /// Uses the GPU if possible, which then returns only as many logits as `top_k` requires. The CPU returns full rows.
    async fn forward(&mut self, forward: &Forward) -> Result<Vec<DraftRow<'_>>, ModelError> {
        let reused = forward.reusable(&self.held);
        let (mut keep, mut tokens) = (forward.keep + reused, forward.tokens[reused..].to_vec());
        self.held.truncate(keep);
        let pass = async |gpu: &mut GpuDraft| match forward.top_k {
            Some(top_k) => gpu.forward_top_k(&tokens, forward.rows, top_k).await,
            None => gpu.forward(&tokens, forward.rows).await,
        };
        if let Some(rows) = self.on_gpu(keep, pass).await? {
            self.rows = rows;
            self.held.extend(&tokens);
            return Ok(self.rows.iter().map(|(logits, hidden)| DraftRow { logits, hidden }).collect());
        }
        if std::mem::take(&mut self.holds_on_gpu) {
            // Conversely, the CPU has not read tokens that are cached on the GPU.
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

    /// Chooses guesses on the GPU. Returns none on the CPU, where the caller chooses from rows.
    async fn choose(&mut self, forward: &Forward) -> Result<Vec<Chosen>, ModelError> {
        let Some(choice) = &forward.chosen else { return Ok(Vec::new()) };
        let reused = forward.reusable(&self.held);
        let (keep, tokens) = (forward.keep + reused, &forward.tokens[reused..]);
        self.held.truncate(keep);
        let Some(chosen) = self.on_gpu(keep, async |gpu| gpu.choose(tokens, choice).await).await? else {
            return Ok(Vec::new());
        };
        self.held.extend(tokens);
        self.held.extend(chosen.iter().map(|chosen| chosen.first));
        // The last token is chosen but not in the cache.
        self.held.pop();
        Ok(chosen)
    }
}
