//! What the engine runs its passes on: the CPU's own kernels, or a device.

#[cfg(feature = "device")]
use outrider_device::{BatchRows, Decision, DeviceCache, DeviceModel, Next};
use outrider_models::{Chunk, KvCache, Model, ModelConfig, Scratch};
#[cfg(feature = "device")]
use outrider_speculation::judge::acceptance::Outcome;
use outrider_speculation::session::cloud::Round;

use crate::target::rows::Rows;
#[cfg(feature = "device")]
use crate::target::rows::{self, Decided};

/// A target, where it runs.
pub struct Backend(Place);

enum Place {
    Cpu {
        model: Box<Model>,
        scratch: Box<Scratch>,
    },
    #[cfg(feature = "device")]
    Device(Box<DeviceModel>),
}

/// Keys and values of a session, where the backend has them.
#[derive(Debug)]
pub(crate) enum Cache {
    Cpu(KvCache),
    #[cfg(feature = "device")]
    Device(DeviceCache),
}

/// A session's part in a run.
pub(crate) struct Part<'p> {
    pub(crate) cache: &'p mut Cache,
    pub(crate) tokens: &'p [u32],
    /// Indices into `tokens` after which logits are wanted.
    pub(crate) positions: &'p [usize],
    /// What the rows are for, if somebody may decide it.
    #[cfg_attr(not(feature = "device"), expect(dead_code, reason = "the CPU decides nothing"))]
    pub(crate) round: Option<&'p Round>,
}

impl From<Model> for Backend {
    fn from(model: Model) -> Self {
        Self(Place::Cpu { model: Box::new(model), scratch: Box::default() })
    }
}

#[cfg(feature = "device")]
impl From<DeviceModel> for Backend {
    fn from(model: DeviceModel) -> Self {
        Self(Place::Device(Box::new(model)))
    }
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Backend({})", self.name())
    }
}

impl Backend {
    /// The model's shape and constants.
    pub fn config(&self) -> &ModelConfig {
        match &self.0 {
            Place::Cpu { model, .. } => model.config(),
            #[cfg(feature = "device")]
            Place::Device(model) => model.config(),
        }
    }

    /// What multiplies: an instruction set, or a device.
    pub(crate) fn name(&self) -> &'static str {
        match &self.0 {
            Place::Cpu { .. } => outrider_models::instruction_set(),
            #[cfg(feature = "device")]
            Place::Device(model) if model.device().is_cpu() => "candle",
            #[cfg(feature = "device")]
            Place::Device(_) => "cuda",
        }
    }

    /// What sharing a run does to the logits of a row.
    pub(crate) fn batching(&self) -> &'static str {
        match &self.0 {
            // The kernels give a row the same bits in every batch.
            Place::Cpu { .. } => "bit-identical",
            #[cfg(feature = "device")]
            Place::Device(_) => "approximate",
        }
    }

    /// Whether it decides rounds, and so wants to know them.
    pub(crate) fn decides(&self) -> bool {
        !matches!(self.0, Place::Cpu { .. })
    }

    pub(crate) fn new_cache(&self) -> Cache {
        match &self.0 {
            Place::Cpu { model, .. } => Cache::Cpu(model.new_cache()),
            #[cfg(feature = "device")]
            Place::Device(model) => Cache::Device(model.new_cache()),
        }
    }

    /// One run of the model: what came of each part.
    ///
    /// # Errors
    /// Why there is nothing, for the log; the caches are then as they were.
    pub(crate) fn run(&mut self, parts: &mut [Part<'_>]) -> Result<Vec<Rows>, String> {
        match &mut self.0 {
            Place::Cpu { model, scratch } => {
                let mut chunks = Vec::with_capacity(parts.len());
                for part in parts.iter_mut() {
                    let cache = part.cache.on_cpu().ok_or(ELSEWHERE)?;
                    chunks.push(Chunk { cache, tokens: part.tokens, positions: part.positions });
                }
                let logits = model.forward_with(&mut chunks, scratch).map_err(|error| error.to_string())?;
                Ok(logits.iter().map(|chunk| Rows::Computed(chunk.to_logits())).collect())
            }
            #[cfg(feature = "device")]
            Place::Device(model) => {
                let rounds: Vec<Option<&Round>> = parts.iter().map(|part| part.round).collect();
                let counts: Vec<usize> = parts.iter().map(|part| part.positions.len()).collect();
                let mut chunks = Vec::with_capacity(parts.len());
                for part in parts.iter_mut() {
                    let cache = part.cache.on_device().ok_or(ELSEWHERE)?;
                    let (tokens, positions) = (part.tokens, part.positions);
                    chunks.push(Chunk { cache, tokens, positions });
                }
                let decide = |rows: BatchRows| rows.decide(&rounds);
                let decisions = model.forward(&mut chunks).and_then(decide).map_err(|error| error.to_string())?;
                let vocab_size = model.config().vocab_size as u32;
                let rows = decisions.into_iter().zip(rounds).zip(counts);
                Ok(rows.map(|((decision, round), count)| decided(decision, round, count, vocab_size)).collect())
            }
        }
    }
}

/// A cache that another backend made. There is one backend an engine.
const ELSEWHERE: &str = "the cache is not this backend's";

/// `count` rows that leave what a device has decided.
#[cfg(feature = "device")]
fn decided(decision: Decision, round: Option<&Round>, count: usize, vocab_size: u32) -> Rows {
    let drafts = round.map(|round| round.drafts.ids()).unwrap_or_default();
    Rows::Decided(match decision {
        Decision::Rows(rows) => Decided::of(rows),
        Decision::Certain(tokens) => Decided::of(tokens.into_iter().map(|id| rows::certain(id, vocab_size)).collect()),
        Decision::Judged { accepted, next: Next::Token(token) } => {
            Decided::forcing(Outcome { accepted, token: Some(token) }, &drafts, vocab_size, count)
        }
        Decision::Judged { accepted, next: Next::Nothing } => {
            Decided::forcing(Outcome { accepted, token: None }, &drafts, vocab_size, count)
        }
        Decision::Judged { accepted, next: Next::Rows(rows) } => {
            Decided::standing(&drafts[..accepted], rows, vocab_size)
        }
    })
}

impl Cache {
    fn on_cpu(&mut self) -> Option<&mut KvCache> {
        match self {
            Self::Cpu(cache) => Some(cache),
            #[cfg(feature = "device")]
            Self::Device(_) => None,
        }
    }

    #[cfg(feature = "device")]
    fn on_device(&mut self) -> Option<&mut DeviceCache> {
        match self {
            Self::Device(cache) => Some(cache),
            Self::Cpu(_) => None,
        }
    }

    /// Number of tokens held.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Cpu(cache) => cache.len(),
            #[cfg(feature = "device")]
            Self::Device(cache) => cache.len(),
        }
    }

    /// Forgets all but the first `len` tokens.
    pub(crate) fn truncate(&mut self, len: usize) {
        match self {
            Self::Cpu(cache) => cache.truncate(len),
            #[cfg(feature = "device")]
            Self::Device(cache) => cache.truncate(len),
        }
    }

    /// Bytes it has.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Cpu(cache) => cache.bytes(),
            #[cfg(feature = "device")]
            Self::Device(cache) => cache.bytes(),
        }
    }

    /// Bytes that one of its kind has once it holds `tokens`.
    pub(crate) fn bytes_for(&self, tokens: usize) -> usize {
        match self {
            Self::Cpu(cache) => cache.bytes_for(tokens),
            #[cfg(feature = "device")]
            Self::Device(cache) => cache.bytes_for(tokens),
        }
    }
}
