//! What the experiments share: a pair, its prompts, and what passes of models of the papers' shapes take here.

use std::{hint::black_box, time::Instant};

use outrider_codec::frame::SamplingParameters;
use outrider_models::{Chunk, ElementType, Model};
use outrider_speculation::{
    sample,
    session::{edge::Mode, options::DraftingOptions},
};
use tokio::{runtime::Handle, task};

use super::{
    sessions::{Failure, Pair, Session},
    sprinter,
};
use crate::{
    pair::PairPaths,
    random_models::{SMOLLM_135M, Shape, TINYLLAMA},
};

/// Tokens before a timed pass, and passes of which the median counts.
const CACHED: usize = 128;
const REPEATS: usize = 9;
/// Rows of a timed pass that judges.
const ROWS: usize = 9;

/// Seconds of passes of a model.
#[derive(Debug, Clone, Copy)]
pub struct PassTimes {
    /// Of one row.
    pub pass: f64,
    /// That a further row adds.
    pub row: f64,
}

/// What passes of models of the papers' sizes take on this processor: random weights in Q8_0, since time depends on the
/// shape alone.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Of 135 million weights, as the papers' drafts have.
    pub small: PassTimes,
    /// Of 1.1 billion, as their smaller targets have.
    pub large: PassTimes,
}

/// A pair, and where it is told how far an experiment is.
pub struct Laboratory {
    pub(super) pair: Pair,
    pub(super) target: Model,
    runtime: Handle,
    /// How many prompts each setting is tried with.
    pub(super) prompts: usize,
    say: fn(&str),
    times: Option<Times>,
    /// What SPRINTER's items share.
    pub(super) sprinter: sprinter::Memo,
}

impl std::fmt::Debug for Laboratory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Laboratory").field("prompts", &self.prompts).finish_non_exhaustive()
    }
}

/// q and p of a position of a text, before temperature.
#[derive(Debug)]
pub struct Rows {
    /// Logits of the draft model.
    pub draft: Vec<f32>,
    /// Of the target.
    pub target: Vec<f32>,
}

impl Laboratory {
    /// Within a runtime of several threads.
    ///
    /// # Errors
    /// If the pair cannot be loaded.
    pub fn open(paths: &PairPaths, prompts: usize, say: fn(&str)) -> Result<Self, Failure> {
        let (pair, target) = (Pair::open(paths)?, paths.target()?);
        let sprinter = sprinter::Memo::default();
        Ok(Self { pair, target, runtime: Handle::current(), prompts, say, times: None, sprinter })
    }

    /// Tells how far it is.
    pub fn say(&self, text: &str) {
        (self.say)(text);
    }

    /// V.
    pub fn vocabulary(&self) -> usize {
        self.target.config().vocab_size
    }

    /// A session for each prompt.
    ///
    /// # Errors
    /// If options are out of range, or a session fails.
    pub fn sessions(
        &self,
        options: &DraftingOptions,
        sampling: SamplingParameters,
        tokens: u32,
    ) -> Result<Vec<Session>, Failure> {
        let prompts = self.pair.prompts(self.prompts)?;
        self.generate(&prompts, &Mode::Speculative(options.speculation()?), sampling, tokens)
    }

    /// A session for each of these prompts, seeded by its position among them.
    ///
    /// # Errors
    /// If a session fails.
    pub fn generate(
        &self,
        prompts: &[Vec<u32>],
        mode: &Mode,
        sampling: SamplingParameters,
        tokens: u32,
    ) -> Result<Vec<Session>, Failure> {
        let sessions = self.pair.generate_at(prompts, mode, sampling, tokens);
        task::block_in_place(|| self.runtime.block_on(sessions))
    }

    /// What passes of a model of this shape take, with random weights in Q8_0.
    ///
    /// # Errors
    /// If there is no memory for the model.
    pub fn time(&self, shape: &Shape) -> Result<PassTimes, Failure> {
        time(shape)
    }

    /// What both models say of each position of each paragraph of a text that neither wrote.
    ///
    /// # Errors
    /// If a model fails.
    pub fn held_out(&self) -> Result<Vec<Vec<Rows>>, Failure> {
        let paragraphs = self.pair.paragraphs()?;
        paragraphs.iter().take(self.prompts).map(|text| self.rows(text)).collect()
    }

    fn rows(&self, text: &[u32]) -> Result<Vec<Rows>, Failure> {
        let longest = self.pair.draft.config().context_length.min(self.target.config().context_length);
        let text = &text[..text.len().min(longest)];
        let read = |model: &Model| -> Result<Vec<Vec<f32>>, Failure> {
            let (mut cache, positions) = (model.new_cache(), (0..text.len()).collect::<Vec<_>>());
            let logits = model.forward(&mut [Chunk { cache: &mut cache, tokens: text, positions: &positions }])?;
            Ok(logits[0].iter().map(<[f32]>::to_vec).collect())
        };
        let both = read(&self.pair.draft)?.into_iter().zip(read(&self.target)?);
        Ok(both.map(|(draft, target)| Rows { draft, target }).collect())
    }

    /// What passes take, measured once.
    ///
    /// # Errors
    /// If there is no memory for the models.
    pub fn times(&mut self) -> Result<Times, Failure> {
        if let Some(times) = self.times {
            return Ok(times);
        }
        self.say("timing passes of 135M and 1.1B weights");
        let times = Times { small: time(&SMOLLM_135M)?, large: time(&TINYLLAMA)? };
        self.times = Some(times);
        Ok(times)
    }
}

/// S of a row of logits.
///
/// # Errors
/// If they are no numbers.
pub fn probabilities(logits: &[f32], temperature: f32) -> Result<Vec<f64>, Failure> {
    Ok(sample::transform(logits, &SamplingParameters { temperature, top_k: 0, top_p: 1.0 })?)
}

fn time(shape: &Shape) -> Result<PassTimes, Failure> {
    let stored = shape.model(ElementType::Q8_0).ok_or("there are no random weights in Q8_0")?;
    let model = stored.into_model()?;
    let text: Vec<u32> = (0..(CACHED + ROWS) as u32).map(|index| 300 + index * 37 % 1000).collect();
    let mut cache = model.new_cache();
    model.forward(&mut [Chunk { cache: &mut cache, tokens: &text[..CACHED], positions: &[] }])?;
    let mut median = |rows: usize| -> Result<f64, Failure> {
        let positions: Vec<usize> = (0..rows).collect();
        let mut times = Vec::with_capacity(REPEATS);
        for _ in 0..REPEATS {
            cache.truncate(CACHED);
            let tokens = &text[CACHED..CACHED + rows];
            let began = Instant::now();
            black_box(model.forward(&mut [Chunk { cache: &mut cache, tokens, positions: &positions }])?);
            times.push(began.elapsed().as_secs_f64());
        }
        times.sort_by(f64::total_cmp);
        Ok(times[REPEATS / 2])
    };
    let (pass, judging) = (median(1)?, median(ROWS)?);
    Ok(PassTimes { pass, row: ((judging - pass) / (ROWS - 1) as f64).max(0.0) })
}
