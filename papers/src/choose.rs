//! Choice of the way of writing that computes least on the server at a wanted quality.
//!
//! Exact speculation computes at least one row of the target for each token. Cascades may compute fewer, and may answer
//! worse. On a sample of questions with scores, each method at each parameter is compared with the target alone; those
//! that keep the quality at a level of confidence are *certified*, and the one with the fewest rows a token is chosen.
//!
//! The test of a parameter is one-sided, on the mean of score − quality × the target's score over questions, with its
//! standard error. One imagined question more, which the method fails and the target answers, stands for failures that
//! are too rare for the sample. The parameters of a method are tested in a fixed order, from the safest on, until one
//! fails (fixed-sequence testing; Angelopoulos et al. 2021, Learn then Test), and the methods share the error rate
//! (Bonferroni). So the chosen one misses the quality with a probability of at most 1 − confidence, however many were
//! tried.

use std::fmt::Write;

use outrider_speculation::sample::{End, Randomness};
use serde_json::json;
use statrs::distribution::{ContinuousCDF, Normal};

use crate::{
    report::{estimate::Estimate, files::Report},
    reproduce::{
        cascades::{
            curves::View,
            sweep::{self, Answer, Method, Sweep},
        },
        laboratory::Laboratory,
        metric::Metric,
        sessions::Failure,
    },
};

/// A kind of cascade, by its threshold.
type Cascade = fn(f64) -> Method;

/// Number of parameters of each kind.
const PARAMETERS: usize = 10;

/// Methods that can compute less than a row a token, each at parameters from the safest on. Rules cannot: they judge
/// every draft.
const TRIED: [(Cascade, [f64; PARAMETERS]); 2] = [
    (Method::SequenceCascade, [0.01, 0.03, 0.05, 0.06, 0.07, 0.08, 0.1, 0.15, 0.3, 0.6]),
    (Method::TokenCascade, [0.005, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 0.7]),
];
/// Drafts of a round, γ, where there are rounds.
const GAMMA: u32 = 5;
/// Divisions of the questions into halves, on which the choice is tested.
const TRIALS: u64 = 20;

/// Aim of a choice, and the sampling it is made at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aim {
    /// Least share of the target's score, from 0 to 1.
    pub quality: f64,
    /// Probability with which it is kept.
    pub confidence: f64,
    /// Temperature of both models.
    pub temperature: f32,
    /// Nucleus probability, top-p.
    pub top_p: f32,
}

/// Scores of a question by a method and by the target alone.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pair {
    method: f64,
    target: f64,
}

/// Returns true if the sample shows, with an error rate of at most `rate`, that the method's mean score is at least
/// `quality` times the target's.
fn keeps(pairs: &[Pair], quality: f64, rate: f64) -> bool {
    let most = pairs.iter().map(|pair| pair.target).fold(0.0, f64::max);
    let imagined = Pair { method: 0.0, target: most };
    let excess = |pair: &Pair| (pair.method - quality * pair.target, 1.0);
    let sample: Vec<_> = pairs.iter().chain([&imagined]).map(excess).collect();
    let Estimate { value, error } = Estimate::of(&sample);
    value - Normal::standard().inverse_cdf(1.0 - rate) * error >= 0.0
}

/// Number of parameters, in their order, that keep the quality: all before the first that does not.
fn certified(parameters: &[Vec<Pair>], quality: f64, rate: f64) -> usize {
    parameters.iter().take_while(|pairs| keeps(pairs, quality, rate)).count()
}

/// Number of trials in which the method that one half of the questions certifies as the cheapest keeps the quality on
/// the other half, and of those in which any is certified.
fn trials(families: &[Vec<(Vec<Pair>, f64)>], quality: f64, rate: f64) -> (usize, usize) {
    let questions = families[0][0].0.len();
    let (mut kept, mut certain) = (0, 0);
    for seed in 0..TRIALS {
        let mut random = Randomness::new(seed, End::Edge);
        let is_first: Vec<bool> = (0..questions).map(|_| random.unit() < 0.5).collect();
        let half = |pairs: &[Pair], first: bool| -> Vec<Pair> {
            pairs.iter().zip(&is_first).filter(|(_, is)| **is == first).map(|(pair, _)| *pair).collect()
        };
        let certified = families.iter().flat_map(|family| {
            let halves: Vec<_> = family.iter().map(|(pairs, _)| half(pairs, true)).collect();
            family.iter().take(certified(&halves, quality, rate))
        });
        let Some((pairs, _)) = certified.min_by(|a, b| a.1.total_cmp(&b.1)) else { continue };
        let scores: Vec<_> = half(pairs, false).iter().map(|pair| (pair.method, pair.target)).collect();
        certain += 1;
        kept += usize::from(Estimate::of(&scores).value >= quality);
    }
    (kept, certain)
}

/// A method at a parameter, with its outcome.
struct Tried {
    method: Method,
    rows: Estimate,
    quality: Estimate,
    is_certified: bool,
}

/// Tries the methods on the laboratory's questions and chooses one.
///
/// # Errors
/// If the questions have no references and the metric needs them, or a session fails.
pub fn report(laboratory: &mut Laboratory, aim: Aim) -> Result<Report, Failure> {
    let Aim { quality, confidence, temperature, top_p } = aim;
    let sweep = sweep::of(laboratory)?;
    let view = View { temperature, top_p, gamma: GAMMA, task: None };
    let metric = sweep.scored_by().clone();
    // An answer's tokens, rows and score of which a share is to be kept.
    let answers = |sweep: &mut Sweep, method: Method| -> Result<Vec<Answer>, Failure> {
        let gamma = if method == Method::TargetAlone { 1 } else { GAMMA };
        let mut answers = sweep.answers(&View { gamma, ..view }.point(method))?.to_vec();
        answers.iter_mut().for_each(|answer| answer.worth.score = metric.share(answer.worth.score));
        Ok(answers)
    };
    let alone = answers(sweep, Method::TargetAlone)?;
    let rate = (1.0 - confidence) / TRIED.len() as f64;
    let (mut tried, mut families) = (Vec::new(), Vec::new());
    for (method, parameters) in TRIED {
        let methods = parameters.map(method);
        let found = methods.iter().map(|&method| answers(sweep, method)).collect::<Result<Vec<_>, _>>()?;
        let pairs: Vec<_> = found.iter().map(|answers| pairs(answers, &alone)).collect();
        let count = certified(&pairs, quality, rate);
        let mut family = Vec::new();
        for (index, (method, (answers, pairs))) in methods.into_iter().zip(found.iter().zip(pairs)).enumerate() {
            let outcome = Tried { is_certified: index < count, ..Tried::of(method, answers, &alone) };
            family.push((pairs, outcome.rows.value));
            tried.push(outcome);
        }
        families.push(family);
    }
    let ends = [Method::TargetAlone, Method::Rule("exact", 0.0), Method::DraftAlone];
    let mut beside = Vec::new();
    for method in ends {
        beside.push(Tried::of(method, &answers(sweep, method)?, &alone));
    }
    let chosen = tried.iter().filter(|tried| tried.is_certified && tried.rows.value < 1.0);
    let chosen = chosen.min_by(|a, b| a.rows.value.total_cmp(&b.rows.value));
    let halves = trials(&families, quality, rate);
    let metric = if matches!(metric, Metric::LogLikelihood) {
        "geometric mean of the tokens' probabilities under the target"
    } else {
        metric.name()
    };
    let text = text(&aim, metric, chosen, beside.iter().chain(&tried), (sweep.questions(), halves))?;
    let of =
        |tried: &Tried| json!({ "method": tried.method.to_string(), "rows": tried.rows, "quality": tried.quality });
    let numbers = json!({
        "quality": quality, "confidence": confidence, "score": metric, "temperature": temperature, "topP": top_p,
        "questions": sweep.questions(), "halves": { "certified": halves.1, "kept": halves.0 }, "chosen": chosen.map(of), "tried": tried.iter().map(of).collect::<Vec<_>>(),
    });
    Ok(Report { text, numbers, svg: None })
}

fn pairs(answers: &[Answer], alone: &[Answer]) -> Vec<Pair> {
    let scores = answers.iter().zip(alone);
    scores.map(|(answer, alone)| Pair { method: answer.worth.score, target: alone.worth.score }).collect()
}

impl Tried {
    fn of(method: Method, answers: &[Answer], alone: &[Answer]) -> Self {
        let rows: Vec<_> = answers.iter().map(|answer| (answer.rows, answer.tokens)).collect();
        let scores: Vec<_> = pairs(answers, alone).iter().map(|pair| (pair.method, pair.target)).collect();
        Self { method, rows: Estimate::of(&rows), quality: Estimate::of(&scores), is_certified: false }
    }
}

fn text<'a>(
    aim: &Aim,
    metric: &str,
    chosen: Option<&Tried>,
    tried: impl Iterator<Item = &'a Tried>,
    (questions, (kept, certain)): (usize, (usize, usize)),
) -> Result<String, Failure> {
    let Aim { quality, confidence, temperature, top_p } = aim;
    let mut text = match chosen {
        Some(Tried { method, rows, quality: kept, .. }) => format!(
            "**{method}** computes {rows:.2} rows of the target for each token, at {kept:.3} of its score. Lossy: texts \
             are not distributed as the target's.\n\n"
        ),
        None => "**The target alone, or exact speculation**: no method with fewer rows keeps the quality on this \
                 sample. More questions show smaller losses.\n\n"
            .to_owned(),
    };
    writeln!(
        text,
        "Wanted: at least {quality} of the target's score, with a confidence of {confidence}, at T = {temperature} and \
         top-p = {top_p}; {questions} questions, γ = {GAMMA}. Rows that the target computes: one for each token that \
         it writes, draft that it judges, and passed token that it reads. Score: {metric}. Of {TRIALS} \
         random halves of the questions {certain} certify a method; on the other half {kept} of these keep it.\n\n\
         | method | rows / token | score / target's | keeps the quality |\n|---|--:|--:|---|"
    )?;
    for Tried { method, rows, quality, is_certified } in tried {
        let certified = if *is_certified { "yes" } else { "" };
        writeln!(text, "| {method} | {rows:.3} | {quality:.3} | {certified} |")?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Questions that the target answers with probability 0.9, and the method as often times `quality`.
    fn sample(random: &mut Randomness, count: usize, quality: f64) -> Vec<Pair> {
        let pair = |_| {
            let target = f64::from(u8::from(random.unit() < 0.9));
            let keeps = random.unit() < quality;
            Pair { method: if keeps { target } else { 0.0 }, target }
        };
        (0..count).map(pair).collect()
    }

    /// A method's parameters lose more and more. In at most one trial of twenty one that loses too much is certified,
    /// and one that loses nothing nearly always is. Without the fixed order, the planted error, the first is missed.
    #[test]
    fn the_quality_is_kept_in_nineteen_trials_of_twenty() {
        let truth = [1.0, 0.99, 0.976, 0.95, 0.975, 0.97];
        let (mut wrong, mut unordered, mut useful) = (0, 0, 0);
        for seed in 0..600 {
            let mut random = Randomness::new(seed, End::Edge);
            let parameters: Vec<_> = truth.iter().map(|&quality| sample(&mut random, 800, quality)).collect();
            let count = certified(&parameters, 0.98, 0.05);
            wrong += usize::from(count > 2);
            useful += usize::from(count > 0);
            let any = parameters.iter().zip(truth).any(|(pairs, truth)| truth < 0.98 && keeps(pairs, 0.98, 0.5));
            unordered += usize::from(any);
        }
        assert!(wrong <= 600 / 20, "{wrong} of 600");
        assert!(useful > 570, "{useful} of 600");
        assert!(unordered > 600 / 20, "an error rate that is not kept is caught: {unordered}");
    }

    /// Scores below 0 have no shares: 0.98 times one would be better than it, and nothing would be certified.
    #[test]
    fn a_likelihood_that_is_kept_is_certified() {
        let kept = |method: f64, metric: &Metric| {
            let share = |score| metric.share(score);
            keeps(&vec![Pair { method: share(method), target: share(-0.7) }; 400], 0.98, 0.05)
        };
        let metric = Metric::LogLikelihood;
        assert!(kept(-0.7, &metric) && !kept(-0.7, &Metric::ExactMatch));
        // e^−0.71 is 0.99 of e^−0.7, e^−0.73 is 0.97 of it.
        assert!(kept(-0.71, &metric) && !kept(-0.73, &metric));
    }

    /// Forty questions without a failure cannot show that one of fifty may fail.
    #[test]
    fn few_questions_certify_nothing() {
        let same = vec![Pair { method: 1.0, target: 1.0 }; 40];
        assert!(!keeps(&same, 0.98, 0.05));
        assert!(keeps(&same, 0.8, 0.05));
        assert!(keeps(&vec![Pair { method: 1.0, target: 1.0 }; 400], 0.98, 0.05));
    }
}
