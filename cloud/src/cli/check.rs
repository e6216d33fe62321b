//! Command `outrider check`: do two models make a pair, what do they need, and what does drafting gain.
//!
//! Both models read a text, and their distributions at each token give the acceptance rate. From that, a round trip,
//! and the times of drafts, of passes by their rows, of sampling and of frames, [`Conditions`] predicts the speed of a
//! session. Sessions choose their mode by the same simulation.

use std::{
    fs,
    hint::black_box,
    path::{Path, PathBuf},
};

use clap::Args;
use outrider_codec::frame::{Frame, Guesses, SamplingParameters, Tokens};
use outrider_models::{Model, Tokenizer, gguf_part_names};
use outrider_speculation::{
    control::{
        ahead::{Conditions, Goal},
        goodput::{ROW_COST, RowCosts},
        plan::Schedule,
    },
    session::options::numbers::{TEMPERATURE, TOP_P},
};

use self::{
    acceptance::{listed_distribution, mean_agreement},
    answers::Text,
    reader::Reader,
    report::{End, LONGEST, Measured, Prediction, Report, RowPass, Source, Tab, Target, WORTH},
    timing::{ROWS, mean_seconds, repeated, row_costs},
};
use super::{
    drafting::within,
    output::{CommandError, print},
};
use crate::{
    pair::{self, PairPaths},
    target::gateway::{EngineArgs, GatewayError, Way},
};

mod acceptance;
mod answers;
mod reader;
mod report;
mod timing;

/// Check whether a draft and a target make a pair, what they need, and at which round trips drafting pays
///
/// Nothing is served. Both models read a text, which shows how often drafts are accepted, and are timed on this
/// machine; from that the speed of sessions is predicted, beside that of the server alone. A chat model writes the text
/// itself, in answer to four questions. With --target openai:URL or vllm:URL the engine is asked for its probabilities
/// of the text, and its time for a token is measured.
#[derive(Debug, Args)]
pub struct Check {
    #[command(flatten)]
    pair: PairPaths,
    #[command(flatten)]
    engine: EngineArgs,
    /// Text of the kind that is to be written; if not given, answers of a chat model, or else a tale
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,
    /// Tokens of the text to read
    #[arg(long, value_name = "COUNT", default_value_t = 256, value_parser = clap::value_parser!(u32).range(16..))]
    tokens: u32,
    #[arg(long, value_name = "T", help = TEMPERATURE.explanation, default_value_t = TEMPERATURE.default as f32,
        value_parser = |text: &str| within(&TEMPERATURE, text).map(|value| value as f32))]
    temperature: f32,
    #[arg(long, value_name = "p", help = TOP_P.explanation, default_value_t = TOP_P.default as f32,
        value_parser = |text: &str| within(&TOP_P, text).map(|value| value as f32))]
    top_p: f32,
    /// Round trips to predict for, in milliseconds
    #[arg(long, value_name = "LIST", value_delimiter = ',', num_args = 1.., default_value = "2,20,50,80,150,300")]
    round_trips: Vec<u16>,
    /// Milliseconds of a draft in the browser with its sampling, which the page shows; as long as here if not given
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    draft_ms: Option<f64>,
    /// Milliseconds of a pass of the server with its sampling; as long as here if not given
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pass_ms: Option<f64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Text that is read if no other is given.
const TALE: &str = include_str!("../../../pair/tale.txt");
/// Smallest number of tokens that gives a usable estimate.
const LEAST_TOKENS: usize = 8;
/// Encodings of frames in one measurement, which are too short to be timed alone.
const FRAMES: u32 = 64;
/// Length in tokens of the texts whose speed is predicted.
const SIMULATED: usize = 1024;

/// The target of a session, as far as it can be measured from here.
struct Judge {
    target: Target,
    acceptance: f64,
    /// The text that acceptance was measured over.
    text: Source,
    /// Number of tokens over which the acceptance rate is the mean.
    tokens: usize,
    /// Seconds of passes of [`ROWS`] rows, with the choice of a token at each row; `None` for an engine elsewhere.
    passes: Option<[f64; ROWS.len()]>,
    /// Seconds of a pass of one row.
    pass: f64,
    /// Seconds of a draft, with the choice of its token.
    draft: f64,
    /// Seconds to encode and decode the frames of a round.
    frames: f64,
    spread: f64,
    is_stable: bool,
}

impl Check {
    pub(super) async fn run(mut self) -> Result<(), CommandError> {
        outrider_models::check_instruction_set()?;
        self.pair.fetch().await?;
        let report = self.report().await?;
        print(&if self.json { format!("{}\n", serde_json::to_string(&report)?) } else { report.to_string() });
        Ok(())
    }

    async fn report(&self) -> Result<Report, CommandError> {
        if self.pair.engine_address().is_some() && self.pair.tokenizer.is_none() {
            return Err(GatewayError::NoTokenizer.into());
        }
        let tokenizer = self.pair.tokenizer()?;
        let mut draft = self.pair.draft()?;
        let path = self.pair.draft.as_deref();
        let weights = match path {
            Some(path) => weight_bytes(path)?,
            None => self.pair.draft_file()?.len() as u64,
        };
        let end = End::new(pair::name(path, "outrider-draft"), &draft, weights);
        self.pair.fit_draft(&mut draft, &tokenizer)?;
        // The check of sessions.
        pair::draft_info(&draft, &tokenizer)?;
        let tokens = self.text(&draft, &tokenizer)?;
        let judge = match self.pair.engine_address() {
            Some(engine) => self.survey(engine, &draft, &tokenizer, tokens.clone()).await?,
            None => self.measure(&draft, &tokenizer, &tokens)?,
        };
        let measured = Measured {
            threads: outrider_models::threads::count(),
            instruction_set: outrider_models::instruction_set(),
            draft_ms: judge.draft * 1e3,
            pass_ms: judge.pass * 1e3,
            row_passes: judge.passes.iter().flat_map(RowPass::all).collect(),
            frames_ms: judge.frames * 1e3,
            spread: judge.spread,
            is_stable: judge.is_stable,
            acceptance_rate: judge.acceptance,
            text: judge.text,
            is_least: judge.passes.is_none(),
            tokens: judge.tokens,
            temperature: self.temperature,
            top_p: self.top_p,
        };
        let conditions = |round_trip_ms: u16| self.conditions(&judge, round_trip_ms);
        let way = self.pair.engine_address().map(|(way, _)| way);
        let context = draft.config().context_length.min(judge.target.context_length());
        Ok(Report {
            tab: Tab::new(&end, context, path.and_then(gguf_part_names).is_none_or(|parts| parts.len() < 2)),
            draft: end,
            tokens: tokenizer.vocab_size(),
            measured,
            draft_ms: conditions(0).draft * 1e3,
            pass_ms: conditions(0).pass * 1e3,
            predictions: self.round_trips.iter().map(|&ms| predict(ms, &conditions(ms), way)).collect(),
            worth_up_to_ms: (0..=LONGEST).take_while(|&ms| predict(ms, &conditions(ms), way).speedup >= WORTH).last(),
            target: judge.target,
        })
    }

    /// Tokens of the text to read.
    fn text(&self, draft: &Model, tokenizer: &Tokenizer) -> Result<Vec<u32>, CommandError> {
        let text = match &self.text {
            Some(path) => {
                fs::read_to_string(path).map_err(|error| format!("{} cannot be read: {error}", path.display()))?
            }
            None => TALE.to_owned(),
        };
        let mut tokens = tokenizer.encode_prompt(draft.config().first_token(), text.trim())?;
        let room = draft.config().context_length.saturating_sub(ROWS[ROWS.len() - 1]);
        tokens.truncate((self.tokens as usize).min(room));
        if tokens.len() < LEAST_TOKENS {
            return Err(format!("the text has {} tokens; at least {LEAST_TOKENS} are needed", tokens.len()).into());
        }
        Ok(tokens)
    }

    fn sampling(&self) -> SamplingParameters {
        SamplingParameters { temperature: self.temperature, top_k: 0, top_p: self.top_p }
    }

    /// Measures a target on this machine.
    fn measure(&self, draft: &Model, tokenizer: &Tokenizer, tokens: &[u32]) -> Result<Judge, CommandError> {
        let mut target = self.pair.target()?;
        let path = self.pair.target.as_deref();
        let weights = match path {
            Some(path) => weight_bytes(path)?,
            None => self.pair.target_gguf()?.len() as u64,
        };
        let end = End::new(pair::name(path, "outrider-target"), &target, weights);
        target.cut_vocabulary(tokenizer.vocab_size())?;
        pair::target_info(&target, tokenizer, 1)?;
        let room = target.config().context_length.saturating_sub(ROWS[ROWS.len() - 1]);
        let tokens = &tokens[..tokens.len().min(room)];
        let sampling = self.sampling();
        let (mut reader, mut judge) = (Reader::new(draft), Reader::new(&target));
        let p = judge.read(tokens, &sampling)?;
        let mut texts = match &self.text {
            Some(_) => Vec::new(),
            None => answers::write(&target, path, tokenizer, (self.tokens as usize, &sampling))?,
        };
        let text = if texts.is_empty() { Source::Read } else { Source::Answers };
        if texts.is_empty() {
            texts.push(Text { tokens: tokens.to_vec(), skipped: 0, p });
        }
        let mut q = Vec::new();
        for text in &texts {
            reader.cache.truncate(0);
            q.extend(reader.read(&text.tokens, &sampling)?.split_off(text.skipped));
        }
        let p: Vec<&[f64]> = texts.iter().flat_map(|text| &text.p).map(Vec::as_slice).collect();
        let acceptance = mean_agreement(q.iter().map(Vec::as_slice).zip(p.iter().copied()));
        let series = repeated(|| {
            let mut times = [0.0; 1 + ROWS.len()];
            times[0] = reader.time_of(1, &sampling)?;
            for (time, rows) in times[1..].iter_mut().zip(ROWS) {
                *time = judge.time_of(rows, &sampling)?;
            }
            Ok(times)
        })?;
        let [draft, passes @ ..] = series.medians();
        Ok(Judge {
            target: Target::Model(end),
            acceptance,
            text,
            tokens: p.len(),
            passes: Some(passes),
            pass: passes[0],
            draft,
            frames: frames()?,
            spread: series.spread(),
            is_stable: series.is_stable(),
        })
    }

    /// Asks an engine elsewhere for its probabilities of the text, and measures its time for a token.
    async fn survey(
        &self,
        engine: (Way, &str),
        draft: &Model,
        tokenizer: &Tokenizer,
        mut tokens: Vec<u32>,
    ) -> Result<Judge, CommandError> {
        let info = pair::target_info(draft, tokenizer, 1)?;
        let connected = self.engine.connect(engine, tokenizer, info, 1).await;
        let (gateway, info) = connected.map_err(|error| match error {
            GatewayError::NoPromptLogprobs => GatewayError::NothingToCheck,
            other => other,
        })?;
        tokens.truncate((info.limits.context_length as usize).saturating_sub(LEAST_ROOM));
        let survey = gateway.survey(&tokens).await?;
        let (sampling, vocab_size) = (self.sampling(), tokenizer.vocab_size());
        let mut reader = Reader::new(draft);
        let mut q = reader.read(&tokens, &sampling)?;
        q.iter_mut().for_each(|row| row.push(0.0));
        let listed = survey.likely.iter().map(|listed| listed_distribution(listed, vocab_size, &sampling));
        let p: Vec<Vec<f64>> = listed.collect();
        let series = repeated(|| Ok([reader.time_of(1, &sampling)?]))?;
        Ok(Judge {
            target: Target::Engine {
                name: gateway.model().to_owned(),
                context_length: info.limits.context_length as usize,
            },
            acceptance: mean_agreement(q.iter().map(Vec::as_slice).zip(p.iter().map(Vec::as_slice))),
            text: Source::Read,
            tokens: p.len(),
            passes: None,
            pass: survey.token_seconds,
            draft: series.medians()[0],
            frames: frames()?,
            spread: series.spread(),
            is_stable: series.is_stable(),
        })
    }

    /// Conditions of sessions over a link, from what was measured or given.
    fn conditions(&self, judge: &Judge, round_trip_ms: u16) -> Conditions {
        let draft = self.draft_ms.map_or(judge.draft, |ms| ms / 1e3);
        Conditions {
            pass: self.pass_ms.map_or(judge.pass, |ms| ms / 1e3),
            draft,
            further: draft,
            round_trip: f64::from(round_trip_ms) / 1e3,
            acceptance: judge.acceptance,
            reaction: judge.frames,
            rows: judge.passes.as_ref().map_or_else(|| RowCosts::each(ROW_COST), row_costs),
        }
    }
}

/// Parses a time in milliseconds.
fn milliseconds(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
    value.ok_or_else(|| "it must be a number above 0".to_owned())
}

/// Tokens that an engine may write after the text.
const LEAST_ROOM: usize = 64;

/// Seconds to encode and decode the frames of a round: four guesses, and the tokens that answer them.
fn frames() -> Result<f64, CommandError> {
    let guesses =
        Guesses { generation: 1, chain: 1, position: 100, count: 4, payload: vec![7; 7], ..Guesses::default() };
    let tokens = Tokens { ids: vec![7; 5], accepted: 4, ..Tokens::one(1, 100, 7, None) };
    let (guesses, tokens) = (Frame::Guesses(guesses), Frame::Tokens(tokens));
    let series = repeated(|| {
        let seconds = mean_seconds(FRAMES, || {
            for frame in [&guesses, &tokens] {
                black_box(Frame::decode(&frame.encode())?);
            }
            Ok(())
        })?;
        Ok([seconds])
    })?;
    Ok(series.medians()[0])
}

/// Predicts the fastest mode over a link, chosen as in sessions with this target: a model here if `way` is `None`.
fn predict(round_trip_ms: u16, conditions: &Conditions, way: Option<Way>) -> Prediction {
    let (patient, rounds) = (conditions.patient(Goal::Speed).0, conditions.rounds(Goal::Speed).0);
    let ways = [("guesses, nobody waits", Schedule::AT_ONCE), ("guesses, passes wait", patient), ("in turn", rounds)];
    // An engine that is asked takes no guesses, and one that streams waits for none.
    let possible = match way {
        None => &ways[..],
        Some(Way::Asked) => &ways[2..],
        Some(Way::Streamed) => &ways[..1],
    };
    let fastest = possible
        .iter()
        .map(|&(way, plan)| (way, plan, conditions.outcome(plan, SIMULATED).speed))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// With times given, turns of γ drafts have a closed form (Leviathan et al. 2023, Theorem 3.8, with a round trip
    /// and the measured cost of rows): (1 − αᵞ⁺¹)/(1 − α) tokens in the time γ·d + R + T(γ + 1 rows).
    #[test]
    fn a_prediction_is_at_least_the_closed_form_of_turns() {
        // Eight rows cost 2.2 passes: a row costs what real kernels take, not a small constant.
        let passes = [0.040, 0.048, 0.060, 0.088];
        let seconds = |rows: usize| [0.040, 0.048, 0.054, 0.060, 0.067, 0.074, 0.081, 0.088][rows - 1];
        for acceptance in [0.3, 0.6, 0.8, 0.95] {
            for (draft, round_trip_ms) in [(0.002, 0), (0.002, 20), (0.010, 2), (0.010, 80), (0.030, 50)] {
                let conditions = Conditions {
                    pass: passes[0],
                    draft,
                    further: draft,
                    round_trip: f64::from(round_trip_ms) / 1e3,
                    acceptance,
                    reaction: 0.0,
                    rows: row_costs(&passes),
                };
                let turns = |gamma: usize| {
                    let tokens = (1.0 - f64::powi(acceptance, gamma as i32 + 1)) / (1.0 - acceptance);
                    tokens / (gamma as f64 * draft + conditions.round_trip + seconds(gamma + 1))
                };
                let found = predict(round_trip_ms, &conditions, None);
                for gamma in [1, 2, 3, 4, 6] {
                    let plan = Schedule { group: gamma, patience: 1.0, lead: gamma };
                    let outcome = conditions.outcome(plan, SIMULATED).speed / passes[0];
                    assert!((outcome / turns(gamma) - 1.0).abs() < 1e-9, "{gamma}: {outcome} and {}", turns(gamma));
                    // Groups that are nearly as fast as the fastest count as well.
                    assert!(found.tokens_per_second > 0.97 * turns(gamma), "{gamma}: {found:?}");
                }
                assert!((found.speedup - found.tokens_per_second * passes[0]).abs() < 1e-9);
            }
        }
    }

    /// Rows of 0.06 and of 0.41 of a pass, the least and the most that was measured.
    #[test]
    fn dear_rows_are_not_predicted_to_be_cheap() {
        let conditions = |passes: [f64; 4]| Conditions {
            pass: passes[0],
            draft: 0.001,
            further: 0.001,
            round_trip: 0.0,
            acceptance: 0.8,
            reaction: 0.0,
            rows: row_costs(&passes),
        };
        let cheap = predict(0, &conditions([0.040, 0.0424, 0.0472, 0.0568]), None).speedup;
        let dear = predict(0, &conditions([0.040, 0.0564, 0.0892, 0.1548]), None).speedup;
        assert!(cheap > 2.0 && dear < 1.4, "{cheap} and {dear}");
    }

    #[test]
    fn an_engine_is_predicted_in_the_modes_that_it_has() {
        for round_trip_ms in [0, 20, 80, 300] {
            let conditions = Conditions {
                pass: 0.040,
                draft: 0.002,
                further: 0.002,
                round_trip: f64::from(round_trip_ms) / 1e3,
                acceptance: 0.8,
                reaction: 0.0,
                rows: RowCosts::each(ROW_COST),
            };
            let found = |way| predict(round_trip_ms, &conditions, way);
            assert!(found(Some(Way::Asked)).way.starts_with("in turn"), "{:?}", found(Some(Way::Asked)));
            assert_eq!(found(Some(Way::Streamed)).way, "guesses, nobody waits");
            assert!(found(None).speedup >= found(Some(Way::Asked)).speedup.max(found(Some(Way::Streamed)).speedup));
        }
    }
}
