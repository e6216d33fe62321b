//! Time of a round on either end: `cargo xtask bench codec` and `cargo xtask bench sampling`.
//!
//! | group | from | to |
//! |---|---|---|
//! | `codec/encode`, `codec/decode` | drafts | payload, and back |
//! | `sampling/draft` | rows of logits | payload |
//! | `sampling/judge` | rows of logits and drafts | verdict |
//!
//! Rates are drafted tokens per second, of `judge` judged rows per second.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed measurement")]

use std::{hint::black_box, time::Duration};

use criterion::{BenchmarkId, Criterion, Throughput};
use outrider_codec::{
    distribution::DraftToken,
    frame::SamplingParameters,
    probabilities::DraftProbability,
    scheme::{Drafts, Scheme, SchemeParameters},
};
use outrider_speculation::{
    draft,
    judge::{Need, Round, Rule, judge},
    sample::{Distribution, End, Randomness, SharedNoise},
    session::options::{Code, DraftingOptions, SchemeName},
};

/// Vocabulary sizes of the built-in pair, Llama 2 and Qwen 2.5.
const VOCABULARIES: [usize; 3] = [4096, 32_000, 151_936];
const SAMPLINGS: [(&str, SamplingParameters); 2] = [
    ("default", SamplingParameters { temperature: 0.7, top_k: 0, top_p: 0.95 }),
    ("T=1", SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 }),
];
/// Number of drafts in a round.
const DRAFT_LENGTH: usize = 4;
/// Rounds that the adaptive code learns from before it is timed.
const LEARNED: usize = 16;
/// Threshold of C-SQS after some rounds.
const THRESHOLD: f64 = 0.002;

fn main() {
    // Short, since there are two hundred of them.
    let criterion = Criterion::default().warm_up_time(Duration::from_millis(300)).sample_size(50);
    let mut criterion = criterion.measurement_time(Duration::from_secs(1)).configure_from_args();
    codec(&mut criterion);
    sampling(&mut criterion);
    criterion.final_summary();
}

/// Schemes with their codes, and the further numbers that a rule or stop rule needs of each distribution.
fn cases() -> Vec<(&'static str, DraftingOptions, Need)> {
    let of = |scheme: SchemeName, code, support_size| DraftingOptions {
        scheme: scheme.into(),
        code,
        support_size,
        ..Default::default()
    };
    let (enumerative, adaptive) = (Code::Enumerative, Code::Adaptive);
    vec![
        ("k-sqs K=8", of(SchemeName::KSqs, enumerative, 8), Need::Nothing),
        ("k-sqs K=8 adaptive", of(SchemeName::KSqs, adaptive, 8), Need::Nothing),
        ("k-sqs K=32", of(SchemeName::KSqs, enumerative, 32), Need::Nothing),
        ("k-sqs K=32 adaptive", of(SchemeName::KSqs, adaptive, 32), Need::Nothing),
        ("k-sqs K=32 with the entropy", of(SchemeName::KSqs, enumerative, 32), Need::Entropy),
        ("k-sqs K=128", of(SchemeName::KSqs, enumerative, 128), Need::Nothing),
        ("k-sqs K=128 adaptive", of(SchemeName::KSqs, adaptive, 128), Need::Nothing),
        ("c-sqs", of(SchemeName::CSqs, enumerative, 32), Need::Nothing),
        ("c-sqs adaptive", of(SchemeName::CSqs, adaptive, 32), Need::Nothing),
        ("qs", of(SchemeName::Qs, enumerative, 32), Need::Nothing),
        ("tk-slt K=32", of(SchemeName::TkSlt, enumerative, 32), Need::Nothing),
        ("dssd", of(SchemeName::Dssd, enumerative, 32), Need::Nothing),
        ("coupled", of(SchemeName::Coupled, enumerative, 32), Need::Nothing),
    ]
}

/// Encoding and decoding of drafts that were made before.
fn codec(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("codec");
    group.throughput(Throughput::Elements(DRAFT_LENGTH as u64));
    for vocab_size in VOCABULARIES {
        let rows = rows(vocab_size);
        for (sampling_name, sampling) in SAMPLINGS {
            for (case, options, need) in cases() {
                let mut edge = Edge::new(&options, need, sampling, &rows[..DRAFT_LENGTH]);
                if need != Need::Nothing || !edge.sends_distributions() {
                    continue;
                }
                let drafts = Drafts::Distributions(edge.drafts());
                let payload = edge.scheme.encode_round(&drafts).unwrap();
                let count = DRAFT_LENGTH as u8;
                assert_eq!(edge.scheme.decode_round(&payload, count).unwrap(), drafts, "{case}");
                let case = format!("{case}, {sampling_name}");
                group.bench_function(BenchmarkId::new(format!("encode/{case}"), vocab_size), |bencher| {
                    bencher.iter(|| edge.scheme.encode_round(&drafts).unwrap());
                });
                group.bench_function(BenchmarkId::new(format!("decode/{case}"), vocab_size), |bencher| {
                    bencher.iter(|| edge.scheme.decode_round(&payload, count).unwrap());
                });
            }
        }
    }
}

/// The whole way of a round from logits to bytes at the edge, and from logits to a verdict at the server.
fn sampling(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sampling");
    for vocab_size in VOCABULARIES {
        let rows = rows(vocab_size);
        for (sampling_name, sampling) in SAMPLINGS {
            group.throughput(Throughput::Elements(DRAFT_LENGTH as u64));
            for (case, options, need) in cases() {
                let mut edge = Edge::new(&options, need, sampling, &rows[..DRAFT_LENGTH]);
                let id = BenchmarkId::new(format!("draft/{case}, {sampling_name}"), vocab_size);
                group.bench_function(id, |bencher| bencher.iter(|| edge.round()));
            }
            for rule in ["exact", "diff-log"] {
                let (mut round, rows) = judged(rule, sampling, &rows);
                let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
                group.throughput(Throughput::Elements(rows.len() as u64));
                let mut position = 0;
                let id = BenchmarkId::new(format!("judge/{rule}, {sampling_name}"), vocab_size);
                group.bench_function(id, |bencher| {
                    bencher.iter(|| {
                        // Other random numbers each time, as in a text that grows.
                        position += 1;
                        round.randomness.begin_round(position);
                        judge(&round, &rows).unwrap()
                    });
                });
            }
        }
    }
}

/// Rows of logits as of a language model, one more than drafts: they fall with the logarithm of the rank, with noise,
/// and are scattered over the ids. At T = 1 one token in four is the most likely, and the tail is heavy.
fn rows(vocab_size: usize) -> Vec<Vec<f32>> {
    let row = |seed| {
        let mut randomness = Randomness::new(seed, End::Edge);
        let mut noise = || 2.0 * (randomness.unit() - 0.5);
        let mut row: Vec<f32> = (1..=vocab_size).map(|rank| (noise() - 1.3 * (rank as f64).ln()) as f32).collect();
        for last in (1..vocab_size).rev() {
            row.swap(last, randomness.below(last as u32 + 1) as usize);
        }
        row
    };
    (1..=DRAFT_LENGTH as u64 + 1).map(row).collect()
}

/// A round of K-SQS and the target's rows for it, a little away from the draft's: some drafts are rejected.
fn judged(rule: &str, sampling: SamplingParameters, rows: &[Vec<f32>]) -> (Round, Vec<Vec<f32>>) {
    let info = Rule::all().iter().find(|info| info.name == rule).unwrap();
    let rule = Rule::new(info.name, info.default).unwrap();
    let mut edge = Edge::new(&DraftingOptions::default(), Need::Nothing, sampling, &rows[..DRAFT_LENGTH]);
    let drafts = Drafts::Distributions(edge.drafts());
    let statistic = |row: &Vec<f32>| rule.info().need.of_unscaled(&Distribution::new(row, &sampling).unwrap(), &[]);
    let statistics = edge.rows.iter().map(statistic).collect();
    let away = |row: &Vec<f32>| -> Vec<f32> {
        row.iter().zip(0u32..).map(|(logit, id)| logit + if id % 2 == 0 { 0.3 } else { -0.3 }).collect()
    };
    let round = Round { rule, drafts, statistics, ..Round::alone(sampling, 1, 0) };
    let rows = rows[..round.rows()].iter().map(away).collect();
    (round, rows)
}

/// The steps of a round as the edge takes them.
struct Edge<'a> {
    parameters: SchemeParameters,
    scheme: Scheme,
    need: Need,
    sampling: SamplingParameters,
    rows: &'a [Vec<f32>],
    randomness: Randomness,
    noise: SharedNoise,
    position: usize,
}

impl<'a> Edge<'a> {
    fn new(options: &DraftingOptions, need: Need, sampling: SamplingParameters, rows: &'a [Vec<f32>]) -> Self {
        let parameters = options.speculation().unwrap().scheme;
        let scheme = Scheme::new(parameters, rows[0].len() as u32).unwrap();
        let (randomness, noise) = (Randomness::new(1, End::Edge), SharedNoise::new(1));
        let mut edge = Self { parameters, scheme, need, sampling, rows, randomness, noise, position: 0 };
        if options.code == Code::Adaptive {
            for _ in 0..LEARNED {
                let tokens = edge.drafts();
                let count = tokens.len();
                edge.scheme.commit(&Drafts::Distributions(tokens), count, None);
            }
        }
        edge
    }

    fn sends_distributions(&self) -> bool {
        !matches!(self.parameters, SchemeParameters::Coupled | SchemeParameters::Dssd { .. })
    }

    fn drafts(&mut self) -> Vec<DraftToken> {
        let distributions = self.rows.iter().map(|row| Distribution::new(row, &self.sampling).unwrap());
        let proposals = distributions.map(|q| draft::propose(&q, self.parameters, &self.scheme, THRESHOLD).unwrap());
        proposals.map(|proposal| draft::draw(proposal, &mut self.randomness)).collect()
    }

    /// Transforms, drafts and encodes each row. Gives the payload.
    fn round(&mut self) -> Vec<u8> {
        let mut round = self.scheme.round();
        for row in self.rows {
            let q = Distribution::new(row, &self.sampling).unwrap();
            black_box(self.need.of_unscaled(&q, &[]));
            self.position += 1;
            if self.parameters == SchemeParameters::Coupled {
                round.push_id(&self.scheme, self.noise.choose_from(self.position, &q)).unwrap();
                continue;
            }
            let proposal = draft::propose(&q, self.parameters, &self.scheme, THRESHOLD).unwrap();
            // The edge learns before the draw whether the token fits into the bit budget.
            black_box(round.bound(&self.scheme, &proposal.dist, proposal.support_size).unwrap());
            let token = draft::draw(proposal, &mut self.randomness);
            match self.parameters {
                SchemeParameters::Dssd { .. } => {
                    round.push_probability(&self.scheme, &DraftProbability::from(&token)).unwrap();
                }
                _ => round.push(&self.scheme, &token).unwrap(),
            }
        }
        round.finish().0
    }
}
