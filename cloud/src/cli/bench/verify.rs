//! Command `outrider bench verify`: time of verify passes on a device, and comparison of its logits with the CPU's.
//!
//! A verify pass reads all weights once, however few rows it has. Its time is therefore compared with the size of the
//! weights over the memory's bandwidth. The passes are those of the engine: packed rows of one session or many, after
//! 256 tokens of context in each. On a GPU, rounds are judged there, and the time includes the transfer of the results.

use std::{hint::black_box, thread, time::Instant};

use bytesize::ByteSize;
use clap::Args;
use outrider_codec::{
    distribution::{DraftDist, DraftToken},
    frame::SamplingParameters,
    scheme::{Code, Drafts, SchemeParameters},
};
use outrider_models::{Chunk, KvCache, ModelConfig, StoredModel};
use outrider_speculation::judge::Round;

use super::{
    report::{Correctness, ModelReport, PassTime, Report},
    shapes::Choice,
};
use crate::{
    cli::output::{CommandError, print},
    pair::PairPaths,
    target::{
        cpu::CpuTarget,
        device_name::{DeviceName, UseBackend},
        engine::{Answer, Backend},
    },
};

/// Time verify passes of a device beside the time to read the weights, and compare its logits with the CPU's
///
/// Without --models it measures 1.1B-bf16,1.1B-q8_0,7B-bf16,7B-q8_0 on a GPU, and the pair alone on the CPU.
#[derive(Debug, Args)]
pub struct Verify {
    /// Device: cpu; or, in a build with CUDA, cuda or cuda:N
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    device: DeviceName,
    /// Models to measure; shapes other than the pair have random weights, and take seconds to generate and GB of memory
    #[arg(long, value_enum, value_delimiter = ',', value_name = "LIST")]
    models: Vec<Choice>,
    /// Passes of each kind; the median counts
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    repeats: u16,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pair: PairPaths,
}

/// Context length of each session before a pass, in tokens.
const CACHED: usize = 256;
/// Numbers of rows of a single session.
const ROWS: [usize; 7] = [1, 2, 3, 4, 5, 8, 16];
/// Numbers of sessions, each with [`SESSION_ROWS`] rows.
const SESSIONS: [usize; 6] = [2, 4, 8, 16, 32, 64];
/// Rows of a round: four drafts and the token before them.
const SESSION_ROWS: usize = 5;
/// Number of tokens whose logits are compared.
const COMPARED: usize = 160;

impl Verify {
    pub(super) async fn run(mut self) -> Result<(), CommandError> {
        self.device.check()?;
        self.pair.fetch().await?;
        let models = match (self.models.as_slice(), &self.device) {
            ([], DeviceName::Cuda(_)) => {
                vec![Choice::Pair, Choice::SmallBf16, Choice::SmallQ8, Choice::LargeBf16, Choice::LargeQ8]
            }
            ([], _) => vec![Choice::Pair],
            (chosen, _) => chosen.to_vec(),
        };
        let bandwidth = self.bandwidth()?;
        let correctness = if models.contains(&Choice::Pair) { Some(self.compare()?) } else { None };
        let models = models.into_iter().map(|model| self.measure(model, bandwidth)).collect::<Result<_, _>>()?;
        let report = Report { device: self.device.to_string(), bandwidth, correctness, models };
        let text = if self.json { serde_json::to_string_pretty(&report)? + "\n" } else { report.to_string() };
        print(&text);
        Ok(())
    }

    /// Memory bandwidth of the device, in bytes per second read and written.
    fn bandwidth(&self) -> Result<f64, CommandError> {
        match self.device {
            #[cfg(feature = "device")]
            DeviceName::Cuda(_) | DeviceName::Candle => Ok(outrider_device::bandwidth(&self.device.device()?)?),
            _ => Ok(copied()),
        }
    }

    /// Compares the target's logits on the device with those of the CPU's kernels, in rounds as they are verified.
    fn compare(&self) -> Result<Correctness, CommandError> {
        let cpu = CpuTarget::from(self.pair.target()?);
        self.bring(self.pair.stored_target()?, 1, Compare { cpu })?
    }

    fn measure(&self, choice: Choice, bandwidth: f64) -> Result<ModelReport, CommandError> {
        let model = match choice.random() {
            Some(model) => model,
            None => self.pair.stored_target()?,
        };
        let weight_bytes = streamed(&model);
        let most = SESSIONS.into_iter().max().unwrap_or(1);
        let passes = self.bring(model, most, Measure { sessions: most, repeats: self.repeats })??;
        let floor_ms = weight_bytes as f64 / bandwidth * 1e3;
        Ok(ModelReport { model: choice.name(), weight_bytes, floor_ms, passes })
    }

    /// Loads the model to the device, with KV memory for this number of sessions.
    fn bring<U: UseBackend>(&self, model: StoredModel, sessions: usize, user: U) -> Result<U::Gives, CommandError> {
        if matches!(self.device, DeviceName::Cpu) {
            let mut model = model.into_model()?;
            model.set_activation_bits(self.pair.activation_bits.unwrap_or_default());
            return Ok(user.with(CpuTarget::from(model)));
        }
        let ModelConfig { layers, kv_heads, head_dim, .. } = model.config;
        // Keys and values in f32, with room for each session's last page.
        let token_bytes = 8 * layers * kv_heads * head_dim;
        let bytes = sessions * (CACHED + 64) * token_bytes;
        Ok(self.device.bring(model, ByteSize(bytes as u64), user)?)
    }
}

/// Comparison of a device's logits with the CPU's.
struct Compare {
    cpu: CpuTarget,
}

impl UseBackend for Compare {
    type Gives = Result<Correctness, CommandError>;

    fn with<B: Backend>(mut self, mut device: B) -> Self::Gives {
        let text = text(device.config(), COMPARED, 1);
        let (mut here, mut there) = (self.cpu.new_cache(), device.new_cache());
        let mut correctness = Correctness { rows: 0, other_greedy: 0, largest_error: 0.0 };
        for piece in text.chunks(SESSION_ROWS) {
            let (expected, actual) = (rows(&mut self.cpu, &mut here, piece)?, rows(&mut device, &mut there, piece)?);
            for (expected, actual) in expected.iter().zip(&actual) {
                let scale = expected.iter().fold(0f32, |scale, x| scale.max(x.abs()));
                let error = expected.iter().zip(actual).fold(0f32, |most, (a, b)| most.max((a - b).abs()));
                correctness.rows += 1;
                correctness.other_greedy += usize::from(largest(expected) != largest(actual));
                correctness.largest_error = correctness.largest_error.max(f64::from(error / scale));
            }
        }
        Ok(correctness)
    }
}

/// Logits after every token of a piece, `[tokens, vocab_size]`.
fn rows<B: Backend>(
    backend: &mut B,
    cache: &mut KvCache<B::Pages>,
    piece: &[u32],
) -> Result<Vec<Vec<f32>>, CommandError> {
    let positions: Vec<usize> = (0..piece.len()).collect();
    let answers = backend.run(&mut [Chunk { cache, tokens: piece, positions: &positions }], &[None])?;
    // Without a round, the backend judges nothing and returns rows.
    Ok(answers.into_iter().flat_map(|answer| if let Answer::Rows(rows) = answer { rows } else { Vec::new() }).collect())
}

/// Measurement of passes of every kind.
struct Measure {
    sessions: usize,
    repeats: u16,
}

impl UseBackend for Measure {
    type Gives = Result<Vec<PassTime>, CommandError>;

    fn with<B: Backend>(self, mut backend: B) -> Self::Gives {
        let text = text(backend.config(), CACHED + 16, 2);
        let mut caches: Vec<KvCache<B::Pages>> = (0..self.sessions).map(|_| backend.new_cache()).collect();
        for cache in &mut caches {
            backend.run(&mut [Chunk { cache, tokens: &text[..CACHED], positions: &[] }], &[None])?;
        }
        let kinds = ROWS.map(|rows| (1, rows)).into_iter().chain(SESSIONS.map(|sessions| (sessions, SESSION_ROWS)));
        let time = |(sessions, rows)| -> Result<PassTime, CommandError> {
            let ms = self.time(&mut backend, &mut caches[..sessions], &text[CACHED..CACHED + rows])?;
            Ok(PassTime { sessions, rows, ms })
        };
        kinds.map(time).collect()
    }
}

impl Measure {
    /// Median time of a pass in milliseconds, without the first one.
    fn time<B: Backend>(
        &self,
        backend: &mut B,
        caches: &mut [KvCache<B::Pages>],
        tokens: &[u32],
    ) -> Result<f64, CommandError> {
        let positions: Vec<usize> = (0..tokens.len()).collect();
        let round = round(&tokens[1..]);
        let mut times = Vec::with_capacity(self.repeats.into());
        for repeat in 0..=self.repeats {
            caches.iter_mut().for_each(|cache| cache.truncate(CACHED));
            let rounds = vec![Some(&round); caches.len()];
            let chunk = |cache| Chunk { cache, tokens, positions: &positions };
            let mut chunks: Vec<Chunk<'_, B::Pages>> = caches.iter_mut().map(chunk).collect();
            let began = Instant::now();
            black_box(backend.run(&mut chunks, &rounds)?);
            if repeat > 0 {
                times.push(began.elapsed().as_secs_f64() * 1e3);
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }
}

/// A round of these drafts, each with a q̂ of eight tokens.
fn round(drafts: &[u32]) -> Round {
    let dist = |id: u32| {
        let first = id.saturating_sub(4);
        DraftDist::new((first..first + 8).collect(), vec![1; 8])
    };
    let token = |&id: &u32| Some(DraftToken { id, dist: dist(id).ok()?, support_size: 8 });
    let tokens: Vec<DraftToken> = drafts.iter().filter_map(token).collect();
    let sampling = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };
    Round {
        scheme: Some(SchemeParameters::KSqs { support_size: 8, lattice_resolution: 8, code: Code::Enumerative }),
        drafts: Drafts::Distributions(tokens),
        ..Round::alone(sampling, 1, CACHED)
    }
}

/// Pseudorandom tokens without a pattern.
fn text(config: &ModelConfig, len: usize, seed: usize) -> Vec<u32> {
    // Ids near the end are left out, since a q̂ of eight tokens would leave the vocabulary.
    let vocab_size = config.vocab_size.saturating_sub(8).max(1);
    (0..len).map(|index| ((index * index * 31 + index * 37 + seed * 101) % vocab_size) as u32).collect()
}

/// Size of the matrices that a pass reads, in bytes.
fn streamed(model: &StoredModel) -> u64 {
    model.weights.multiplied().map(|matrix| matrix.bytes.len() as u64).sum()
}

/// Memory bandwidth of this processor: bytes per second that all threads together read and write beyond its caches.
fn copied() -> f64 {
    const LEN: usize = 256 << 17;
    let threads = outrider_models::threads::count().max(1);
    let share = LEN.div_ceil(threads);
    let from: Vec<u64> = (0..LEN as u64).collect();
    let mut to = vec![0u64; LEN];
    let mut best = f64::INFINITY;
    for _ in 0..4 {
        let began = Instant::now();
        thread::scope(|scope| {
            for (from, to) in from.chunks(share).zip(to.chunks_mut(share)) {
                scope.spawn(move || to.copy_from_slice(black_box(from)));
            }
        });
        best = best.min(began.elapsed().as_secs_f64());
    }
    black_box(&to);
    (2 * size_of_val(&from[..])) as f64 / best
}

/// Index of the largest logit; the first among equals.
fn largest(row: &[f32]) -> usize {
    (0..row.len()).fold(0, |best, id| if row[id] > row[best] { id } else { best })
}
