//! What `cargo xtask bench sampling` times, natively and in the browser: the way from a row of logits to coded bytes,
//! the way from a row to a verdict, and a read of memory. The browser's half includes this file
//! (`wasm-edge/examples/sampling_bench.rs`).

use std::fmt::Write;

use outrider_codec::{
    distribution::DraftToken,
    frame::SamplingParameters,
    probabilities::DraftProbability,
    scheme::{Drafts, RoundEncoder, Scheme, SchemeParameters},
};
use outrider_speculation::{
    draft,
    judge::{
        Round, judge,
        rules::{Need, Rule},
    },
    sample::{Distribution, End, Randomness, SharedNoise},
    session::options::{Code, DraftingOptions, SchemeName},
};

use crate::timing::microseconds;

/// Of the default pair, of Llama 2, of Qwen 2.5.
pub const VOCABULARIES: [usize; 3] = [4096, 32_000, 151_936];
/// S(·) of the cases.
pub const SAMPLINGS: [(&str, SamplingParameters); 2] = [
    ("default", SamplingParameters { temperature: 0.7, top_k: 0, top_p: 0.95 }),
    ("T=1", SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 }),
];
/// Drafts of a round.
const DRAFT_LENGTH: usize = 4;
/// Rounds that the adaptive code has learned from.
const LEARNED: usize = 16;
/// C-SQS's threshold after a while.
const THRESHOLD: f64 = 0.002;
/// Bytes that are read to measure the memory's speed: more than caches hold.
const READ: usize = 256 << 20;

/// Why something cannot be timed.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Batches of which the fastest counts: many, since one that takes milliseconds is seldom left alone.
const BATCHES: usize = 41;

/// What was measured.
#[derive(Debug, Clone, Default)]
pub struct Times {
    /// One for each V, S(·) and scheme, in microseconds a drafted token; then one for each V, S(·) and rule, in
    /// microseconds a judged row.
    pub rows: Vec<Time>,
    /// Bytes per second that one thread reads.
    pub bandwidth: f64,
}

/// One row of a table.
#[derive(Debug, Clone)]
pub struct Time {
    /// `edge` or `cloud`.
    pub end: String,
    /// V.
    pub vocab_size: usize,
    /// Name of S(·).
    pub sampling: String,
    /// Scheme or rule.
    pub name: String,
    /// A token's or a row's.
    pub microseconds: f64,
}

impl Times {
    /// Measures by a clock in milliseconds.
    pub fn measure(now: &dyn Fn() -> f64, batch_ms: f64) -> Result<Self, Failure> {
        let mut rows = Vec::new();
        for vocab_size in VOCABULARIES {
            let logits: Vec<Vec<f32>> = (1..=DRAFT_LENGTH as u64 + 1).map(|seed| row(vocab_size, seed)).collect();
            for (name, sampling) in SAMPLINGS {
                let time = |end: &str, case: &str, microseconds| Time {
                    end: end.to_owned(),
                    vocab_size,
                    sampling: name.to_owned(),
                    name: case.to_owned(),
                    microseconds,
                };
                for (case, options, need) in cases() {
                    let mut path = Path::new(&options, need, sampling, &logits[..DRAFT_LENGTH])?;
                    path.round()?;
                    let round = microseconds(now, batch_ms, BATCHES, || path.round().is_ok());
                    rows.push(time("edge", case, round / DRAFT_LENGTH as f64));
                }
                for case in ["exact", "diff-log"] {
                    rows.push(time("cloud", case, verdict(case, sampling, &logits, now, batch_ms)?));
                }
            }
        }
        Ok(Self { rows, bandwidth: bandwidth(now) })
    }

    /// As lines of text.
    #[cfg_attr(not(target_arch = "wasm32"), expect(dead_code, reason = "the browser writes, the native half reads"))]
    pub fn write(&self) -> String {
        let mut out = format!("{}\n", self.bandwidth);
        for Time { end, vocab_size, sampling, name, microseconds } in &self.rows {
            // Writing to a string does not fail.
            let _ = writeln!(out, "{end},{vocab_size},{sampling},{name},{microseconds}");
        }
        out
    }
}

/// What is drafted, and what its rule or stop rule needs to know.
fn cases() -> Vec<(&'static str, DraftingOptions, Need)> {
    let of = |scheme: SchemeName, code, support_size| DraftingOptions {
        scheme: scheme.into(),
        code,
        support_size,
        ..Default::default()
    };
    let (enumerative, adaptive) = (Code::Enumerative, Code::Adaptive);
    vec![
        ("k-sqs K=32", of(SchemeName::KSqs, enumerative, 32), Need::Nothing),
        ("k-sqs K=32 adaptive", of(SchemeName::KSqs, adaptive, 32), Need::Nothing),
        ("k-sqs K=128", of(SchemeName::KSqs, enumerative, 128), Need::Nothing),
        ("k-sqs K=128 adaptive", of(SchemeName::KSqs, adaptive, 128), Need::Nothing),
        ("k-sqs K=32 with the entropy", of(SchemeName::KSqs, enumerative, 32), Need::Entropy),
        ("c-sqs", of(SchemeName::CSqs, enumerative, 32), Need::Nothing),
        ("c-sqs adaptive", of(SchemeName::CSqs, adaptive, 32), Need::Nothing),
        ("qs", of(SchemeName::Qs, enumerative, 32), Need::Nothing),
        ("tk-slt K=32", of(SchemeName::TkSlt, enumerative, 32), Need::Nothing),
        ("dssd", of(SchemeName::Dssd, enumerative, 32), Need::Nothing),
        ("coupled", of(SchemeName::Coupled, enumerative, 32), Need::Nothing),
    ]
}

/// Logits as a language model's: they fall with the logarithm of the rank, with noise, and are scattered over the ids.
/// At T = 1 one token in four is the most likely, and the tail is heavy.
fn row(vocab_size: usize, seed: u64) -> Vec<f32> {
    let mut randomness = Randomness::new(seed, End::Edge);
    let noise = |randomness: &mut Randomness| 2.0 * (randomness.unit() - 0.5);
    let mut row: Vec<f32> =
        (1..=vocab_size).map(|rank| (noise(&mut randomness) - 1.3 * (rank as f64).ln()) as f32).collect();
    for last in (1..vocab_size).rev() {
        row.swap(last, randomness.below(last as u32 + 1) as usize);
    }
    row
}

/// The way of a round from logits to bytes, step by step as the edge goes it.
struct Path<'a> {
    parameters: SchemeParameters,
    scheme: Scheme,
    need: Need,
    sampling: SamplingParameters,
    rows: &'a [Vec<f32>],
    randomness: Randomness,
    noise: SharedNoise,
    position: usize,
}

impl<'a> Path<'a> {
    fn new(
        options: &DraftingOptions,
        need: Need,
        sampling: SamplingParameters,
        rows: &'a [Vec<f32>],
    ) -> Result<Self, Failure> {
        let parameters = options.scheme();
        let scheme = Scheme::new(parameters, rows[0].len() as u32)?;
        let (randomness, noise) = (Randomness::new(1, End::Edge), SharedNoise::new(1));
        let mut path = Self { parameters, scheme, need, sampling, rows, randomness, noise, position: 0 };
        if options.code == Code::Adaptive {
            for _ in 0..LEARNED {
                let tokens = path.drafts()?;
                let count = tokens.len();
                path.scheme.commit(&Drafts::Distributions(tokens), count, None);
            }
        }
        Ok(path)
    }

    fn drafts(&mut self) -> Result<Vec<DraftToken>, Failure> {
        let mut tokens = Vec::new();
        for row in self.rows {
            let q = Distribution::new(row, &self.sampling)?;
            let proposal = draft::propose(&q, self.parameters, &self.scheme, THRESHOLD)?;
            tokens.push(draft::draw(proposal, &mut self.randomness));
        }
        Ok(tokens)
    }

    fn round(&mut self) -> Result<Vec<u8>, Failure> {
        let mut round = self.scheme.round();
        for row in self.rows {
            let q = Distribution::new(row, &self.sampling)?;
            std::hint::black_box(self.need.of_unscaled(&q, &[]));
            self.token(&q, &mut round)?;
        }
        Ok(round.finish().0)
    }

    fn token(&mut self, q: &Distribution<'_>, round: &mut RoundEncoder) -> Result<(), Failure> {
        self.position += 1;
        if self.parameters == SchemeParameters::Coupled {
            round.push_id(&self.scheme, self.noise.choose_from(self.position, q))?;
            return Ok(());
        }
        let proposal = draft::propose(q, self.parameters, &self.scheme, THRESHOLD)?;
        // Whether it still fits is known before the draw.
        std::hint::black_box(round.bound(&self.scheme, &proposal.dist, proposal.support_size)?);
        let token = draft::draw(proposal, &mut self.randomness);
        match self.parameters {
            SchemeParameters::Dssd { .. } => round.push_probability(&self.scheme, &DraftProbability::from(&token))?,
            _ => round.push(&self.scheme, &token)?,
        }
        Ok(())
    }
}

/// Microseconds of a judged row: rounds of K-SQS's drafts, each of which the target's row is a little away from, so
/// that rejections and bonus tokens are among them.
fn verdict(
    rule: &str,
    sampling: SamplingParameters,
    logits: &[Vec<f32>],
    now: &dyn Fn() -> f64,
    batch_ms: f64,
) -> Result<f64, Failure> {
    let rule = Rule::all().iter().find(|info| info.name == rule).ok_or("no such rule")?;
    let rule = Rule::new(rule.name, rule.default)?;
    let mut path = Path::new(&DraftingOptions::default(), Need::Nothing, sampling, &logits[..DRAFT_LENGTH])?;
    let drafts = path.drafts()?;
    let mut statistics = Vec::new();
    for row in path.rows {
        statistics.push(rule.need().of_unscaled(&Distribution::new(row, &sampling)?, &[]));
    }
    let away = |row: &Vec<f32>| -> Vec<f32> {
        row.iter().zip(0u32..).map(|(logit, id)| logit + if id % 2 == 0 { 0.3 } else { -0.3 }).collect()
    };
    let rows: Vec<Vec<f32>> = logits.iter().map(away).collect();
    let drafts = Drafts::Distributions(drafts);
    let mut round = Round { rule, drafts, statistics, ..Round::alone(sampling, 1, 0) };
    let rows: Vec<&[f32]> = rows[..round.rows()].iter().map(Vec::as_slice).collect();
    let (mut calls, mut judged) = (0, 0);
    let time = microseconds(now, batch_ms, BATCHES, || {
        // The draws of a text as it grows.
        round.randomness.begin_round(calls as usize);
        let judgement = judge(&round, &rows);
        calls += 1;
        judged += judgement.as_ref().map_or(0, |judgement| rows.len().min(judgement.accepted + 1));
        judgement.is_ok()
    });
    Ok(time * f64::from(calls) / judged as f64)
}

/// Bytes per second of one thread that adds up what it reads; the fastest time of many.
fn bandwidth(now: &dyn Fn() -> f64) -> f64 {
    const LANES: usize = 32;
    let words = vec![1u64; READ / 8];
    let read = || {
        let start = now();
        let mut sums = [0u64; LANES];
        for block in words.as_chunks::<LANES>().0 {
            for lane in 0..LANES {
                sums[lane] = sums[lane].wrapping_add(block[lane]);
            }
        }
        std::hint::black_box(sums);
        now() - start
    };
    let fastest = (0..BATCHES).map(|_| read()).fold(f64::INFINITY, f64::min);
    READ as f64 / (fastest / 1e3)
}
