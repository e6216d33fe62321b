//! Answers to all questions by each method at each parameter, measured once however many figures show them.
//!
//! Seconds are those of the virtual clock of one machine, as the paper's: no link, drafts that take what a pass of 135
//! million weights takes, and passes of the target those of 1.1 billion (the paper: T5 of 77 and 800 million). A pass
//! that reads k drafts takes what k further rows take more.

use std::{collections::BTreeMap, fmt, rc::Rc};

use outrider_codec::frame::SamplingParameters;
use outrider_speculation::{
    judge::{Rule, RuleError, Verification},
    session::{
        edge::{Mode, Origin, Speculation},
        options::{DraftingOptions, GateName, SchemeName, StopName},
    },
};
use tokio::{runtime::Handle, task};

use super::tasks::{TASKS, Tasks, Worth};
use crate::report::estimate::Estimate;
use crate::reproduce::{
    clock::Clock,
    laboratory::Laboratory,
    metric::Metric,
    records::{Record, Records},
    sessions::{Failure, Session},
};

/// A method to write an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Method {
    /// The target, a token a pass.
    TargetAlone,
    /// The draft model, unverified.
    DraftAlone,
    /// Rounds of drafts under a rule at its α or D.
    Rule(&'static str, f64),
    /// BiLD with its fallback (Kim et al. 2023): at most ten drafts a round, which ends before a token of which the
    /// draft model is not sure, max q < 1 − α_f; drafts are rejected where D(q, p) > α.
    Bild {
        /// Threshold of the fallback, α_f.
        fallback: f64,
        /// Divergence at which a draft is rejected, α, in nats.
        alpha: f64,
    },
    /// Algorithm 2 with Chow's rule, eq. 2.
    TokenCascade(f64),
    /// Sequence-level deferral, eq. 1, by the geometric mean.
    SequenceCascade(f64),
}

/// Answers of the target alone to each question, which every method is compared with.
pub const TIMES: usize = 4;
/// Drafts of a round of BiLD's.
const LONGEST_BILD: usize = 10;

/// A method at some sampling and γ.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The method that writes.
    pub method: Method,
    /// Temperature of both models.
    pub temperature: f32,
    /// Nucleus probability, top-P.
    pub top_p: f32,
    /// Length of a draft, γ.
    pub gamma: u32,
}

/// An answer with its quality and costs.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    /// Index into [`TASKS`].
    pub task: usize,
    /// Quality of the answer.
    pub worth: Worth,
    /// Time of the answer on the virtual clock, in seconds.
    pub seconds: f64,
    /// Rows that the target computed.
    pub rows: f64,
    /// Drafts that were judged.
    pub judged: f64,
    /// Rejected drafts among these.
    pub rejected: f64,
    /// Tokens of the answer.
    pub tokens: f64,
    /// Tokens among these that the target wrote, not the draft model.
    pub deferred: f64,
}

/// Answers of a point, in the order of the questions.
pub type Answers = Rc<Vec<Answer>>;

/// The task pair, and the points measured so far.
pub struct Sweep {
    tasks: Tasks,
    clock: Clock,
    runtime: Handle,
    say: fn(&str),
    /// Sessions of each question at a point.
    seeds: usize,
    records: Records,
    found: BTreeMap<String, Answers>,
}

/// Whole distributions travel in f16, so that nothing but the rule stands between q, p and the text.
pub fn options(gamma: u32) -> DraftingOptions {
    let scheme = SchemeName::Dense.into();
    let (draft_length, verification) = (Some(gamma), Verification::Token);
    DraftingOptions { scheme, bit_budget: 0, draft_length, verification, ..DraftingOptions::default() }
}

impl Method {
    /// The mode of a session that uses this method.
    ///
    /// # Errors
    /// If a parameter is out of its range.
    pub fn mode(self, options: &DraftingOptions) -> Result<Mode, RuleError> {
        let gate = |gate, threshold| {
            let options = DraftingOptions { gate, gate_threshold: Some(threshold), ..options.clone() };
            options.speculation().map(Mode::Speculative)
        };
        match self {
            Self::TargetAlone => Ok(Mode::CloudOnly),
            Self::DraftAlone => gate(GateName::SequenceCascade, 1.0),
            Self::TokenCascade(alpha) => gate(GateName::TokenCascade, alpha),
            Self::SequenceCascade(alpha) => gate(GateName::SequenceCascade, alpha),
            Self::Rule(name, value) => {
                let rule = Rule::new(name, value)?;
                Ok(Mode::Speculative(Speculation { rule, ..options.speculation()? }))
            }
            Self::Bild { fallback, alpha } => {
                let (stop_rule, stop_threshold) = (StopName::Bild, Some(fallback));
                let options = DraftingOptions { stop_rule, stop_threshold, ..options.clone() };
                let rule = Rule::new("bild", alpha)?;
                Ok(Mode::Speculative(Speculation { rule, ..options.speculation()? }))
            }
        }
    }

    /// Returns true if a token of the target follows a round that is accepted whole.
    fn has_bonus(self) -> bool {
        match self {
            Self::Rule(name, value) => Rule::new(name, value).is_ok_and(|rule| rule.info().has_bonus),
            _ => true,
        }
    }

    /// Parameter of the method, if it has one.
    pub fn parameter(self) -> Option<f64> {
        match self {
            Self::TargetAlone | Self::DraftAlone => None,
            Self::Rule(_, value) | Self::TokenCascade(value) | Self::SequenceCascade(value) => Some(value),
            Self::Bild { alpha, .. } => Some(alpha),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TargetAlone => f.write_str("target alone"),
            Self::DraftAlone => f.write_str("draft alone"),
            Self::Rule("exact", _) => f.write_str("exact"),
            Self::Rule(name, value) => write!(f, "{name} at {value}"),
            Self::Bild { fallback, alpha } => write!(f, "bild at {alpha}, α_f = {fallback}"),
            Self::TokenCascade(alpha) => write!(f, "token-cascade at {alpha}"),
            Self::SequenceCascade(alpha) => write!(f, "sequence-cascade at {alpha}"),
        }
    }
}

impl Answer {
    /// The mean worth, time and counts of answers to one question.
    fn mean(answers: &[Self]) -> Self {
        let mean = |of: fn(&Self) -> f64| answers.iter().map(of).sum::<f64>() / answers.len() as f64;
        Self {
            task: answers[0].task,
            worth: Worth { score: mean(|answer| answer.worth.score), similarity: mean(|a| a.worth.similarity) },
            seconds: mean(|answer| answer.seconds),
            rows: mean(|answer| answer.rows),
            judged: mean(|answer| answer.judged),
            rejected: mean(|answer| answer.rejected),
            tokens: mean(|answer| answer.tokens),
            deferred: mean(|answer| answer.deferred),
        }
    }
}

/// The sweep of a laboratory, with all points that were measured so far.
///
/// # Errors
/// If the task pair cannot be loaded.
pub fn of(laboratory: &mut Laboratory) -> Result<&mut Sweep, Failure> {
    if laboratory.kept::<Option<Sweep>>()?.is_none() {
        let clock = laboratory.clock(None)?;
        let tasks = Tasks::open(laboratory)?;
        let sweep = Sweep {
            seeds: laboratory.seeds,
            records: laboratory.records.clone(),
            ..Sweep::new(tasks, clock, laboratory.runtime.clone(), laboratory.say)
        };
        *laboratory.kept()? = Some(sweep);
    }
    laboratory.kept::<Option<Sweep>>()?.as_mut().ok_or_else(|| "there is no sweep".into())
}

impl Sweep {
    /// A sweep without any measured point.
    pub fn new(tasks: Tasks, clock: Clock, runtime: Handle, say: fn(&str)) -> Self {
        let (seeds, records, found) = (1, Records::default(), BTreeMap::new());
        Self { tasks, clock, runtime, say, seeds, records, found }
    }

    /// The virtual clock of the sweep.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Number of questions.
    pub fn questions(&self) -> usize {
        self.tasks.questions.len()
    }

    /// The metric of answers.
    pub fn scored_by(&self) -> &Metric {
        &self.tasks.metric
    }

    /// Name of the metric; `None` for answers that are right to the letter.
    pub fn metric(&self) -> Option<&'static str> {
        let metric = &self.tasks.metric;
        (!matches!(metric, Metric::ExactMatch)).then_some(metric.name())
    }

    /// Returns true if the questions are those of the tasks that come with the program.
    pub fn are_tasks(&self) -> bool {
        self.tasks.are_tasks
    }

    /// The answers of a point.
    ///
    /// # Errors
    /// If a parameter is out of its range, or a session fails.
    pub fn answers(&mut self, point: &Point) -> Result<Answers, Failure> {
        let Point { method, temperature, top_p, gamma } = *point;
        let key = format!("{method}: T = {temperature}, P = {top_p}, γ = {gamma}");
        if let Some(found) = self.found.get(&key) {
            return Ok(found.clone());
        }
        // What a text costs that is given up: the draft model has written it by the same draws.
        let written = match method {
            Method::SequenceCascade(_) => {
                let alone = self.answers(&Point { method: Method::DraftAlone, ..*point })?;
                alone.iter().map(|answer| answer.tokens.round() as usize).collect()
            }
            _ => vec![0; self.tasks.questions.len()],
        };
        (self.say)(&key);
        let (mode, sampling) = (method.mode(&options(gamma))?, SamplingParameters { temperature, top_k: 0, top_p });
        // At T = 0 the target has one answer.
        let is_drawn = method == Method::TargetAlone && temperature > 0.0;
        let (times, count) = (if is_drawn { TIMES.max(self.seeds) } else { self.seeds }, self.tasks.questions.len());
        // Each has a seed of its own.
        let prompts = vec![&self.tasks.prompts[..]; times].concat();
        let sessions = self.tasks.pair.generate_at(&prompts, &mode, sampling, self.tasks.longest);
        let sessions = task::block_in_place(|| self.runtime.block_on(sessions))?;
        let answer = |(index, session): (usize, &Session)| {
            let (question, statistics) = (&self.tasks.questions[index % count], &session.statistics);
            let worth = self.tasks.worth(question, session)?;
            let seconds = seconds(session, method, written[index % count], &self.clock);
            self.records.add(Record {
                score: Some(worth.score),
                similarity: Some(worth.similarity).filter(|similarity| !similarity.is_nan()),
                seconds: Some(seconds),
                ..Record::of(&key, index % count, index as u64 + 1, session)
            });
            Ok(Answer {
                task: TASKS.iter().position(|name| *name == question.task).unwrap_or_default(),
                worth,
                seconds,
                rows: rows(session, method) as f64,
                judged: statistics.judged as f64,
                rejected: (statistics.judged - statistics.accepted) as f64,
                tokens: session.tokens.len() as f64,
                deferred: (session.tokens.len() - statistics.passed) as f64,
            })
        };
        let answers = sessions.iter().enumerate().map(answer).collect::<Result<Vec<Answer>, Failure>>()?;
        let of_question = |index: usize| answers.iter().skip(index).step_by(count).copied().collect::<Vec<_>>();
        let answers: Answers = Rc::new((0..count).map(|index| Answer::mean(&of_question(index))).collect());
        self.found.insert(key, answers.clone());
        Ok(answers)
    }
}

/// Rows that the target computed for an answer: a token that it wrote, a draft that it judged, and a passed token that
/// it read, is one each.
fn rows(session: &Session, method: Method) -> usize {
    session.statistics.server_passes + further_rows(session, method)
}

/// Rows of passes beyond the first of each.
fn further_rows(session: &Session, method: Method) -> usize {
    let drafted: usize = session.rounds.iter().map(|round| round.drafted.len()).sum();
    // A pass reads the tokens that passed before it; those after the last pass are not read.
    let is_passed = |origin: &&Origin| **origin == Origin::Passed;
    let passed = session.origins.iter().filter(is_passed).count();
    let unread = session.origins.iter().rev().take_while(is_passed).count();
    // Nor is the last draft of a round, where no token of the target's is to follow it: it is judged in the row of the
    // one before.
    let last = if method.has_bonus() { 0 } else { session.rounds.iter().filter(|r| !r.drafted.is_empty()).count() };
    drafted - last + passed - unread
}

/// Seconds of an answer; `written` is the length of a draft model's text that may have been discarded.
fn seconds(session: &Session, method: Method, written: usize, clock: &Clock) -> f64 {
    let drafted: usize = session.rounds.iter().map(|round| round.drafted.len()).sum();
    let is_passed = |origin: &Origin| *origin == Origin::Passed;
    let passed = session.origins.iter().filter(|origin| is_passed(origin)).count();
    // Forward passes of the draft model that gave no draft: it was not sure, or what it wrote was given up.
    let vain = match method {
        Method::TokenCascade(_) => session.tokens.len() - passed,
        Method::SequenceCascade(_) if passed == 0 => written,
        Method::Bild { .. } => {
            session.rounds.iter().filter(|round| round.drafted.len() < LONGEST_BILD && round.token.is_some()).count()
        }
        _ => 0,
    };
    let drafts = drafted + passed + vain;
    let rows = further_rows(session, method);
    let computing =
        clock.draft * drafts as f64 + clock.pass * session.statistics.server_passes as f64 + clock.row * rows as f64;
    computing + clock.crossings(session)
}

/// Quality and costs of a point, over the answers of one task or of all.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Summary {
    /// Mean score of the answers: by default the share of exact matches.
    pub quality: Estimate,
    /// Similarity to the right answers.
    pub similarity: Estimate,
    /// Seconds, in those of the target alone on the same questions.
    pub latency: Estimate,
    /// Rejected per judged draft; for cascades without drafts, tokens that the target wrote, per token.
    pub rejected: Estimate,
    /// Score less that of the target alone, question by question.
    pub gain: Estimate,
}

impl Summary {
    /// Summarises `answers` beside those of the target `alone`, of one task or of all.
    pub fn of(answers: &[Answer], alone: &[Answer], task: Option<usize>) -> Self {
        let chosen = || answers.iter().zip(alone).filter(|(answer, _)| task.is_none_or(|task| answer.task == task));
        let estimate = |pair: fn(&Answer, &Answer) -> (f64, f64)| {
            Estimate::of(&chosen().map(|(answer, alone)| pair(answer, alone)).collect::<Vec<_>>())
        };
        let has_drafts = chosen().any(|(answer, _)| answer.judged > 0.0);
        let rejected: fn(&Answer, &Answer) -> (f64, f64) = match has_drafts {
            true => |answer, _| (answer.rejected, answer.judged),
            false => |answer, _| (answer.deferred, answer.tokens),
        };
        Self {
            quality: estimate(|answer, _| (answer.worth.score, 1.0)),
            similarity: estimate(|answer, _| (answer.worth.similarity, 1.0)),
            latency: estimate(|answer, alone| (answer.seconds, alone.seconds)),
            rejected: estimate(rejected),
            gain: estimate(|answer, alone| (answer.worth.score - alone.worth.score, 1.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use outrider_speculation::study::{RoundRecord, Statistics};

    use super::*;

    /// A draft is 1 s, a pass 100, a row 10.
    const CLOCK: Clock = Clock { draft: 1.0, pass: 100.0, row: 10.0, bits_per_second: None, delay: 0.0 };

    fn session(rounds: &[usize], origins: &[Origin], passes: usize) -> Session {
        let round = |&drafts: &usize| RoundRecord {
            round: 0,
            drafted: vec![1; drafts],
            accepted: drafts,
            token: Some(1),
            payload_bits: 0,
            uplink_bits: 0,
            downlink_bits: 0,
            draft_ms: 0.0,
            round_trip_ms: 0.0,
            threshold: None,
            other_bits: BTreeMap::new(),
        };
        Session {
            prompt: vec![0],
            tokens: vec![1; origins.len()],
            origins: origins.to_vec(),
            rounds: rounds.iter().map(round).collect(),
            statistics: Statistics { server_passes: passes, ..Statistics::default() },
        }
    }

    #[test]
    fn an_answer_takes_what_its_passes_take() {
        use Origin::{Accepted, Cloud, Passed, Resampled};
        let seconds = |session: &Session, method, written| seconds(session, method, written, &CLOCK);
        let alone = session(&[], &[Cloud; 3], 3);
        assert_eq!(seconds(&alone, Method::TargetAlone, 0), 300.0);
        // Two rounds of three drafts. A rule without a bonus token judges the third in the row of the second.
        let rounds = session(&[3, 3], &[Accepted; 6], 2);
        assert_eq!(seconds(&rounds, Method::Rule("exact", 0.0), 0), 6.0 + 200.0 + 60.0);
        assert_eq!(seconds(&rounds, Method::Rule("opt", 0.5), 0), 6.0 + 200.0 + 40.0);
        // The draft model was not sure after three drafts, twice.
        assert_eq!(seconds(&rounds, Method::Bild { fallback: 0.5, alpha: 1.0 }, 0), 8.0 + 200.0 + 60.0);
        // Two tokens pass, the target writes one, one more passes: no pass reads that.
        let cascade = session(&[0], &[Passed, Passed, Resampled, Passed], 1);
        assert_eq!(seconds(&cascade, Method::TokenCascade(0.5), 0), 4.0 + 100.0 + 20.0);
        // The draft model wrote five tokens for nothing.
        assert_eq!(seconds(&alone, Method::SequenceCascade(0.5), 5), 5.0 + 300.0);
        let kept = session(&[], &[Passed; 4], 0);
        assert_eq!(seconds(&kept, Method::SequenceCascade(0.5), 4), 4.0);
    }

    #[test]
    fn a_summary_is_of_one_task_or_of_all_and_against_the_target() {
        let answer = |task, exact, seconds, rejected| Answer {
            task,
            worth: Worth { score: exact, similarity: 1.0 },
            seconds,
            rows: 5.0,
            judged: 4.0,
            rejected,
            tokens: 5.0,
            deferred: 5.0,
        };
        let answers = [answer(0, 1.0, 1.0, 1.0), answer(1, 0.0, 2.0, 3.0)];
        let alone = [answer(0, 1.0, 4.0, 0.0), answer(1, 1.0, 4.0, 0.0)];
        let all = Summary::of(&answers, &alone, None);
        let mean = Answer::mean(&answers);
        assert_eq!((mean.worth.score, mean.seconds, mean.rejected), (0.5, 1.5, 2.0));
        let values = [all.quality, all.latency, all.rejected, all.gain].map(|estimate| estimate.value);
        assert_eq!(values, [0.5, 0.375, 0.5, -0.5]);
        assert_eq!(Summary::of(&answers, &alone, Some(1)).latency.value, 0.5);
    }
}
