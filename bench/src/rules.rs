//! `cargo xtask bench rules`: quality against rejections, for every acceptance rule over the range of its parameter
//! (after Narasimhan et al., "Faster Cascades via Speculative Decoding", Figures 4–7 and 12), on the default pair.
//!
//! The argument is a folder: the table goes to `rules.md` there, the curves to `rules.svg`.

mod panels;
mod quality;
mod sweep;

use std::{
    fmt::Write,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use outrider_papers::report::estimate::Estimate;
use serde_json::{Value, json};

use crate::{
    passes::Failure,
    report,
    rules::{
        quality::{Judges, Quality},
        sweep::{Point, SAMPLINGS, TARGET_ALONE},
    },
};
use outrider_cloud::{both_ends, pair::PairPaths};

const SESSIONS: usize = 16;
/// Tokens of a session: short, so that the two models do not yet lead to texts of different kinds.
const TOKENS: u32 = 48;
/// Points that are measured at a time, each with models of its own.
const WORKERS: usize = 2;

/// Runs it with the arguments behind its name.
pub fn run(arguments: &[&str]) -> Result<(), Failure> {
    let [folder] = *arguments else { return Err("a folder is expected".into()) };
    let points = sweep::points()?;
    let measured = measure(&points)?;
    let markdown = table(&points, &measured)?;
    let sample = |(point, found): (&Point, &Quality)| {
        json!({
            "name": point.name,
            "parameter": point.parameter,
            "sampling": SAMPLINGS[point.sampling].0,
            "rejected": found.rejected().value,
            "expected": found.expected().value,
            "divergence": found.divergence.value,
            "loss": found.loss.value,
            "excess": found.excess.value,
            "passes": found.passes,
        })
    };
    let samples: Value = points.iter().zip(&measured).map(sample).collect();
    report::write(Path::new(folder), "rules", &markdown, samples, Some(panels::svg(&points, &measured)))
}

/// Measures every point, in their order.
fn measure(points: &[Point]) -> Result<Vec<Quality>, Failure> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(vec![None; points.len()]));
    let work = || -> Result<(), Failure> {
        let pair = both_ends::open(&PairPaths::default())?;
        let judges = Judges::open()?;
        let prompts = pair.prompts(SESSIONS)?;
        let runtime = tokio::runtime::Runtime::new()?;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(point) = points.get(index) else { return Ok(()) };
            let sampling = SAMPLINGS[point.sampling].1;
            let sessions = runtime.block_on(pair.generate_at(&prompts, &point.mode, sampling, TOKENS))?;
            let quality = judges.quality(&sessions, sampling)?;
            let (rejected, excess) = (quality.expected().value, quality.excess.value);
            let parameter = point.parameter.map_or(String::new(), |value| format!(" at {value}"));
            println!(
                "{}/{} {}{parameter}: rejects {rejected:.3}, {excess:.3} nats",
                index + 1,
                points.len(),
                point.name
            );
            if let Some(place) = done.lock().map_err(|_| "a worker failed")?.get_mut(index) {
                *place = Some(quality);
            }
        }
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| "a worker panicked")?)
    })?;
    let done = done.into_inner().map_err(|_| "a worker failed")?;
    Ok(done.into_iter().collect::<Option<_>>().ok_or("a point was left out")?)
}

fn table(points: &[Point], measured: &[Quality]) -> Result<String, Failure> {
    let mut out = format!(
        "{SESSIONS} sessions of {TOKENS} tokens a row. Rejected: predicted is the mean probability of rejection, measured \
         what was rejected, both per judged draft; of the sequential cascades, tokens that the target wrote. bild, \
         fallback α_f: a round ends before a token of which the draft model is not sure, or with ten drafts, and the \
         target writes the next. TV: mean distance of a committed token's distribution from the target's, and of q \
         from p. Loss: of the text, nats per token under the target at T = 1. Excess: the same less what the target's \
         own next token would cost at each place of that text, 0 for the exact rule but for chance. Passes: of the \
         target, per token. ±: standard errors over sessions.\n"
    );
    for (sampling, (name, _)) in SAMPLINGS.iter().enumerate() {
        write!(
            out,
            "\n## {name}\n\n| rule | α or D | rejected, predicted | measured | TV(distribution, p) | TV(q, p) | excess | loss | passes / token |\n\
             |---|--:|--:|--:|--:|--:|--:|--:|--:|\n"
        )?;
        for (point, quality) in points.iter().zip(measured).filter(|(point, _)| point.sampling == sampling) {
            let parameter = point.parameter.map_or("–".to_owned(), |value| value.to_string());
            let measured = match point.name {
                TARGET_ALONE => "–".to_owned(),
                _ => format!("{:.3}", quality.rejected().value),
            };
            writeln!(
                out,
                "| {} | {parameter} | {} | {measured} | {:.3} | {} | {:.3} | {:.3} | {:.2} |",
                point.name,
                number(quality.predicted),
                quality.divergence.value,
                number(quality.discrepancy),
                quality.excess,
                quality.loss,
                quality.passes,
            )?;
        }
    }
    let worst = |of: fn(&Quality) -> Option<Estimate>| {
        measured.iter().filter_map(of).map(|estimate| estimate.error).fold(0.0, f64::max)
    };
    let mut scores: Vec<f64> = measured.iter().filter_map(|quality| quality.score).collect();
    let mean = scores.iter().sum::<f64>() / scores.len() as f64;
    scores.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    write!(
        out,
        "\nLargest standard errors: {:.3} of a predicted rejection rate, {:.3} of a measured one, {:.3} of TV(distribution, p), {:.3} \
         nats of an excess, {:.3} of a loss. Between measured and predicted rejections lie {mean:.2} standard \
         deviations on average over {} \
         rows, and at most {:.1}.\n",
        worst(|quality| quality.predicted),
        worst(|quality| quality.measured),
        worst(|quality| Some(quality.divergence)),
        worst(|quality| Some(quality.excess)),
        worst(|quality| Some(quality.loss)),
        scores.len(),
        scores.last().map_or(0.0, |score| score.abs()),
    )?;
    Ok(out)
}

fn number(estimate: Option<Estimate>) -> String {
    estimate.map_or("–".to_owned(), |estimate| format!("{:.3}", estimate.value))
}
