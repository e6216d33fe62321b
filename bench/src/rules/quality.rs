//! What sessions are worth, and what they cost.

use outrider_cloud::pair::PairPaths;
use outrider_codec::frame::SamplingParameters;
use outrider_models::{Chunk, Model};
use outrider_papers::report::estimate::Estimate;
use outrider_speculation::{sample, session::edge::Origin, theory};

use outrider_papers::reproduce::sessions::Session;

use crate::passes::Failure;

/// What a point gave.
#[derive(Debug, Clone)]
pub struct Quality {
    /// Mean probability that a judged draft is rejected; `None` if none was judged.
    pub predicted: Option<Estimate>,
    /// Rejected per judged draft.
    pub measured: Option<Estimate>,
    /// Tokens that did not pass, per token.
    pub deferred: Estimate,
    /// Mean TV between the distribution of a committed token and the target's.
    pub divergence: Estimate,
    /// Mean TV(q, p) at judged drafts; `None` if none was judged.
    pub discrepancy: Option<Estimate>,
    /// Nats per token under the target at T = 1.
    pub loss: Estimate,
    /// The same less what a token of the target's own is expected to cost at the same place: what texts differ in
    /// without being better or worse for it falls out.
    pub excess: Estimate,
    /// Passes of the target per token.
    pub passes: f64,
    /// How many of its standard deviations the number of rejections is from what was predicted.
    pub score: Option<f64>,
}

/// The pair, to read finished texts with.
pub struct Judges {
    draft: Model,
    target: Model,
}

impl Quality {
    /// What the text cost in rejections, or without rounds in deferrals.
    pub fn rejected(&self) -> Estimate {
        self.measured.unwrap_or(self.deferred)
    }

    /// The same with less noise, where that is to be had.
    pub fn expected(&self) -> Estimate {
        self.predicted.unwrap_or(self.deferred)
    }
}

impl Judges {
    pub fn open() -> Result<Self, Failure> {
        let paths = PairPaths::default();
        Ok(Self { draft: paths.draft()?, target: paths.target()? })
    }

    /// Reads the texts of sessions that had this sampling.
    pub fn quality(&self, sessions: &[Session], sampling: SamplingParameters) -> Result<Quality, Failure> {
        let (mut losses, mut excesses, mut divergences) = (Vec::new(), Vec::new(), Vec::new());
        let (mut predicted, mut measured, mut discrepancies) = (Vec::new(), Vec::new(), Vec::new());
        let (mut expected, mut variance, mut rejections) = (0.0, 0.0, 0.0);
        for session in sessions {
            let tokens = session.tokens.len() as f64;
            let reading = self.read(session, &sampling)?;
            let mut divergence = reading.divergence;
            if let Some(explanation) = session.statistics.explanation.as_ref().filter(|e| e.judged > 0) {
                let judged = explanation.judged as f64;
                let rejected = (session.statistics.judged - session.statistics.accepted) as f64;
                divergence += explanation.divergence;
                predicted.push((explanation.rejections, judged));
                measured.push((rejected, session.statistics.judged as f64));
                discrepancies.push((explanation.bound.discrepancy, judged));
                expected += explanation.rejections;
                variance += explanation.variance;
                rejections += rejected;
            }
            losses.push((reading.loss, tokens));
            excesses.push((reading.loss - reading.expected_loss, tokens));
            divergences.push((divergence, tokens));
        }
        let of = |pairs: &[(f64, f64)]| (!pairs.is_empty()).then(|| Estimate::of(pairs));
        let sum = |count: fn(&Session) -> usize| sessions.iter().map(count).sum::<usize>() as f64;
        let deferred = |session: &Session| {
            let tokens = session.tokens.len();
            ((tokens - session.statistics.passed) as f64, tokens as f64)
        };
        Ok(Quality {
            predicted: of(&predicted),
            measured: of(&measured),
            deferred: Estimate::of(&sessions.iter().map(deferred).collect::<Vec<_>>()),
            divergence: Estimate::of(&divergences),
            discrepancy: of(&discrepancies),
            loss: Estimate::of(&losses),
            excess: Estimate::of(&excesses),
            passes: sum(|session| session.statistics.server_passes) / sum(|session| session.tokens.len()),
            score: (variance > 1.0).then(|| (rejections - expected) / variance.sqrt()),
        })
    }

    fn read(&self, session: &Session, sampling: &SamplingParameters) -> Result<Reading, Failure> {
        let text = [&session.prompt[..], &session.tokens].concat();
        // The row that gives a token is that of the one before.
        let rows: Vec<usize> = (session.prompt.len() - 1..text.len() - 1).collect();
        let logits = |model: &Model| {
            let mut cache = model.new_cache();
            model.forward(&mut [Chunk { cache: &mut cache, tokens: &text, positions: &rows }])
        };
        let p = logits(&self.target)?;
        let mut reading = Reading { loss: 0.0, expected_loss: 0.0, divergence: 0.0 };
        for (row, &token) in p[0].iter().zip(&session.tokens) {
            let normaliser = log_sum_exp(row);
            let loss = |logit: f32| normaliser - f64::from(logit);
            reading.loss += loss(row[token as usize]);
            let own = sample::transform(row, sampling)?;
            reading.expected_loss += own.iter().zip(row).map(|(p, &logit)| p * loss(logit)).sum::<f64>();
        }
        if session.origins.contains(&Origin::Passed) {
            let q = logits(&self.draft)?;
            for ((p, q), origin) in p[0].iter().zip(q[0].iter()).zip(&session.origins) {
                if *origin == Origin::Passed {
                    let (p, q) = (sample::transform(p, sampling)?, sample::transform(q, sampling)?);
                    reading.divergence += theory::total_variation(&q, &p);
                }
            }
        }
        Ok(reading)
    }
}

/// Sums over a text.
struct Reading {
    loss: f64,
    /// Of tokens drawn by the target instead.
    expected_loss: f64,
    /// Of the tokens that passed: their distribution is q.
    divergence: f64,
}

/// ln Σ e^logit.
fn log_sum_exp(row: &[f32]) -> f64 {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    f64::from(most) + row.iter().map(|&logit| f64::from(logit - most).exp()).sum::<f64>().ln()
}
