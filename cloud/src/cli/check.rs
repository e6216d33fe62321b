//! Command `outrider check`: do two models make a pair, what do they need, and what does drafting gain.
//!
//! Both models read a text, and their distributions at each token give the acceptance rate. From that, the times of a
//! pass and of a draft, and a round trip, [`Conditions`] predicts the speed of a session. Sessions choose their mode by
//! the same simulation.

use std::{
    fs,
    hint::black_box,
    path::{Path, PathBuf},
    time::Instant,
};

use clap::Args;
use outrider_codec::frame::SamplingParameters;
use outrider_models::{Chunk, KvCache, Model, Scratch};
use outrider_speculation::{
    control::{
        ahead::{Conditions, Goal},
        goodput::{ROW_COST, RowCosts},
        plan::Schedule,
    },
    judge::coupled::agreement,
    sample,
    session::options::numbers::{TEMPERATURE, TOP_P},
};

use self::report::{End, LONGEST, Measured, Prediction, Report, Tab, WORTH};
use super::output::{CommandError, print};
use crate::pair::{self, PairPaths};

mod report;

/// Check whether a draft and a target make a pair, what they need, and at which round trips drafting pays
///
/// Both models read a text, which gives the acceptance rate, and are timed on this machine. From that the command
/// predicts the speed of sessions beside that of the server alone. It serves nothing.
#[derive(Debug, Args)]
pub struct Check {
    #[command(flatten)]
    pair: PairPaths,
    /// Sample of the texts to be written; a tale if not given
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Tokens of the text to read
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = clap::value_parser!(u32).range(16..))]
    tokens: u32,
    #[arg(long, value_name = "T", help = TEMPERATURE.explanation, default_value_t = TEMPERATURE.default as f32)]
    temperature: f32,
    #[arg(long, value_name = "p", help = TOP_P.explanation, default_value_t = TOP_P.default as f32)]
    top_p: f32,
    /// Round trips to predict for, in milliseconds
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = [2, 20, 50, 80, 150, 300])]
    round_trips: Vec<u16>,
    /// Milliseconds per draft in the browser, as the page shows them; measured here if not given
    #[arg(long, value_name = "MS")]
    draft_ms: Option<f64>,
    /// Milliseconds per pass of the server; measured here if not given
    #[arg(long, value_name = "MS")]
    pass_ms: Option<f64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Text that is read if no other is given.
const TALE: &str = include_str!("../../../pair/tale.txt");
/// Smallest number of tokens that gives a usable estimate.
const LEAST_TOKENS: usize = 8;
/// Number of tokens that a model reads at a time.
const PIECE: usize = 32;
/// Number of timed passes, of which the median counts.
const REPEATS: usize = 9;
/// Length in tokens of the texts whose speed is predicted.
const SIMULATED: usize = 1024;

impl Check {
    pub(super) async fn run(mut self) -> Result<(), CommandError> {
        outrider_models::check_instruction_set()?;
        self.pair.fetch().await?;
        let report = self.report()?;
        print(&if self.json { format!("{}\n", serde_json::to_string(&report)?) } else { report.to_string() });
        Ok(())
    }

    fn report(&self) -> Result<Report, CommandError> {
        let tokenizer = self.pair.tokenizer()?;
        let (mut draft, mut target) = (self.pair.draft()?, self.pair.target()?);
        let PairPaths { draft: draft_path, target: target_path, .. } = &self.pair;
        let ends = (
            End::new(
                pair::name(draft_path.as_deref(), "outrider-draft"),
                &draft,
                match draft_path {
                    Some(path) => weight_bytes(path)?,
                    None => self.pair.draft_file()?.len() as u64,
                },
            ),
            End::new(
                pair::name(target_path.as_deref(), "outrider-target"),
                &target,
                match target_path {
                    Some(path) => weight_bytes(path)?,
                    None => self.pair.target_gguf()?.len() as u64,
                },
            ),
        );
        for model in [&mut draft, &mut target] {
            model.cut_vocabulary(tokenizer.vocab_size())?;
        }
        // The checks of sessions for both models.
        pair::draft_info(&draft, &tokenizer)?;
        pair::target_info(&target, &tokenizer, 1)?;
        let context = draft.config().context_length.min(target.config().context_length);

        let text = match &self.text {
            Some(path) => {
                fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?
            }
            None => TALE.to_owned(),
        };
        let mut tokens = tokenizer.encode_prompt(draft.config().first_token(), text.trim())?;
        tokens.truncate((self.tokens as usize).min(context - 1));
        if tokens.len() < LEAST_TOKENS {
            return Err(format!("the text has {} tokens; at least {LEAST_TOKENS} are needed", tokens.len()).into());
        }
        let sampling = SamplingParameters { temperature: self.temperature, top_k: 0, top_p: self.top_p };
        let (mut reader, mut judge) = (Reader::new(&draft), Reader::new(&target));
        let acceptance = acceptance(&mut reader, &mut judge, &tokens, &sampling)?;
        let (draft_here, pass_here) = (reader.time_of_a_token()?, judge.time_of_a_token()?);
        let measured = Measured {
            threads: outrider_models::threads::count(),
            instruction_set: outrider_models::instruction_set(),
            draft_ms: draft_here * 1e3,
            pass_ms: pass_here * 1e3,
            acceptance_rate: acceptance,
            tokens: tokens.len(),
            temperature: self.temperature,
            top_p: self.top_p,
        };
        let draft = self.draft_ms.map_or(draft_here, |ms| ms / 1e3);
        let conditions = |round_trip_ms: u16| Conditions {
            pass: self.pass_ms.map_or(pass_here, |ms| ms / 1e3),
            draft,
            further: draft,
            round_trip: f64::from(round_trip_ms) / 1e3,
            acceptance,
            reaction: 0.0,
            rows: RowCosts::each(ROW_COST),
        };
        Ok(Report {
            tab: Tab::new(&ends.0, context, self.pair.draft.as_deref().is_none_or(is_gguf)),
            draft: ends.0,
            target: ends.1,
            tokens: tokenizer.vocab_size(),
            measured,
            draft_ms: conditions(0).draft * 1e3,
            pass_ms: conditions(0).pass * 1e3,
            predictions: self.round_trips.iter().map(|&ms| predict(ms, &conditions(ms))).collect(),
            worth_up_to_ms: (0..=LONGEST).take_while(|&ms| predict(ms, &conditions(ms)).speedup >= WORTH).last(),
        })
    }
}

/// A model with the tokens it has read.
struct Reader<'m> {
    model: &'m Model,
    cache: KvCache,
    scratch: Scratch,
}

impl<'m> Reader<'m> {
    fn new(model: &'m Model) -> Self {
        Self { model, cache: model.new_cache(), scratch: Scratch::default() }
    }

    /// Distributions after each of these tokens, `[tokens, vocab_size]`.
    fn read(&mut self, tokens: &[u32], sampling: &SamplingParameters) -> Result<Vec<Vec<f64>>, CommandError> {
        let positions: Vec<usize> = (0..tokens.len()).collect();
        let chunk = Chunk { cache: &mut self.cache, tokens, positions: &positions };
        let logits = self.model.forward_with(&mut [chunk], &mut self.scratch)?;
        let rows = logits.chunk(0);
        rows.iter().map(|row| Ok(sample::transform(row, sampling)?)).collect()
    }

    /// Median time in seconds of a pass that reads one token and computes the logits after it.
    fn time_of_a_token(&mut self) -> Result<f64, CommandError> {
        let held = self.cache.len();
        let mut times = Vec::new();
        // The first pass warms up and is not counted.
        for _ in 0..=REPEATS {
            self.cache.truncate(held);
            let chunk = Chunk { cache: &mut self.cache, tokens: &[0], positions: &[0] };
            let began = Instant::now();
            black_box(self.model.forward_with(&mut [chunk], &mut self.scratch)?.len());
            times.push(began.elapsed().as_secs_f64());
        }
        times.remove(0);
        times.sort_by(f64::total_cmp);
        Ok(times[times.len() / 2])
    }
}

/// Acceptance rate: the probability that both ends choose the same token with the same noise, averaged over the text.
fn acceptance(
    draft: &mut Reader<'_>,
    target: &mut Reader<'_>,
    tokens: &[u32],
    sampling: &SamplingParameters,
) -> Result<f64, CommandError> {
    let mut agreed = 0.0;
    for piece in tokens.chunks(PIECE) {
        let (q, p) = (draft.read(piece, sampling)?, target.read(piece, sampling)?);
        agreed += q.iter().zip(&p).map(|(q, p)| agreement(q, p)).sum::<f64>();
    }
    Ok(agreed / tokens.len() as f64)
}

/// Predicts the fastest mode over a link, chosen as in sessions.
fn predict(round_trip_ms: u16, conditions: &Conditions) -> Prediction {
    let (patient, rounds) = (conditions.patient(Goal::Speed).0, conditions.rounds(Goal::Speed).0);
    let ways = [("guesses, nobody waits", Schedule::AT_ONCE), ("guesses, passes wait", patient), ("in turn", rounds)];
    let fastest = ways
        .map(|(way, plan)| (way, plan, conditions.outcome(plan, SIMULATED).speed))
        .into_iter()
        .reduce(|best, next| if next.2 > best.2 { next } else { best });
    let (way, plan, speedup) = fastest.unwrap_or(("alone", Schedule::AT_ONCE, 1.0));
    Prediction {
        round_trip_ms,
        tokens_per_second: speedup / conditions.pass,
        speedup,
        way: if plan.group == 1 { way.to_owned() } else { format!("{way}, groups of {}", plan.group) },
    }
}

/// Size of a model's weights in its files, in bytes.
fn weight_bytes(path: &Path) -> Result<u64, CommandError> {
    if !path.is_dir() {
        return Ok(fs::metadata(path)?.len());
    }
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        let file = entry?.path();
        if file.extension().is_some_and(|extension| extension == "safetensors") {
            // Follows links, which the hub's cache has.
            bytes += fs::metadata(file)?.len();
        }
    }
    Ok(bytes)
}

fn is_gguf(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gguf")
}
