//! Sparse quantize-and-sample (Bhattacharjee et al.): Figures 2 and 4 to 6.
//!
//! The paper's setting (§4): ℓ = 100, B = 5000 bits a batch and no other limit, η = 0.001, α = 0.0005, both models at
//! the same temperature. Its values of K and β stand in figures that its text does not repeat; those here are ours.
//! Latency is drafting, the uplink and judging; the link's rate is not said, and is taken to be 1 Mbit/s.

use outrider_codec::frame::SamplingParameters;
use outrider_speculation::{
    judge::Verification,
    session::options::{DraftingOptions, SchemeName, numbers},
};
use serde_json::json;

use super::{
    clock::{Clock, Sent},
    laboratory::Laboratory,
    sessions::{Failure, Session, estimate},
    table::{markdown, row},
};
use crate::report::{
    curves::{self, Bounds, Curve, Mark, Panel},
    estimate::Estimate,
    files::Report,
};

const TEMPERATURES: [f32; 5] = [0.2, 0.4, 0.6, 0.8, 1.0];
const SUPPORT_SIZES: [u32; 4] = [4, 16, 64, 256];
const THRESHOLDS: [f64; 4] = [0.0001, 0.001, 0.01, 0.1];
/// K and β₁ of Figure 2.
const SUPPORT_SIZE: u32 = 32;
const THRESHOLD: f64 = 0.01;
const STEP_SIZE: f64 = 0.001;
/// Bit budget of a batch, B.
const BUDGET: u32 = 5000;
const BITS_PER_SECOND: f64 = 1e6;
const TOKENS: u32 = 64;
const MOST_CURVES: usize = 4;
/// Drafts of a batch in which the budget is not reached, for comparison.
const SHORT: u32 = 4;
/// Temperature of the sessions in real time.
const REAL_TEMPERATURE: f32 = 0.6;

/// A scheme with its options, swept over temperature.
struct Setting {
    scheme: &'static str,
    name: String,
    options: DraftingOptions,
}

/// A setting at a temperature.
struct Point {
    /// Time of a text, in seconds.
    latency: Estimate,
    /// Rejected and resampled tokens per round (§4 (b)).
    resampling: Estimate,
    /// Number of drafts of a batch.
    drafted: Estimate,
    /// Committed tokens of a batch.
    written: Estimate,
}

fn k_sqs(support_size: u32) -> Setting {
    let options = DraftingOptions { scheme: SchemeName::KSqs.into(), support_size, ..batches() };
    Setting { scheme: "K-SQS", name: format!("K = {support_size}"), options }
}

/// C-SQS with a threshold that stays.
const FIXED: &str = "C-SQS, fixed";

fn c_sqs(initial_threshold: f64, step_size: f64) -> Setting {
    let options = DraftingOptions { scheme: SchemeName::CSqs.into(), initial_threshold, step_size, ..batches() };
    let (scheme, fixed) = if step_size == 0.0 { (FIXED, ", fixed") } else { ("C-SQS", "") };
    Setting { scheme, name: format!("β₁ = {initial_threshold}{fixed}"), options }
}

impl Setting {
    /// The setting with batches of at most four drafts.
    fn short(self) -> Self {
        let options = DraftingOptions { draft_length: Some(SHORT), ..self.options };
        Self { name: format!("{}, γ ≤ {SHORT}", self.name), options, ..self }
    }
}

/// Options of batches of 5000 bits.
fn batches() -> DraftingOptions {
    DraftingOptions {
        bit_budget: BUDGET,
        draft_length: Some(numbers::DRAFT_LENGTH.bounds.max as u32),
        lattice_resolution: 100,
        dropped_mass_target: 0.0005,
        verification: Verification::Token,
        ..DraftingOptions::default()
    }
}

/// Settings of Figure 2: batches that the budget alone ends, as in the paper, and batches of four drafts.
fn of_figure2() -> [Setting; 4] {
    let both = || [k_sqs(SUPPORT_SIZE), c_sqs(THRESHOLD, STEP_SIZE)];
    let [[k_sqs, c_sqs], short] = [both(), both().map(Setting::short)];
    let [short_k_sqs, short_c_sqs] = short;
    [k_sqs, c_sqs, short_k_sqs, short_c_sqs]
}

pub fn figure2(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    let mut report = report(laboratory, &of_figure2(), true)?;
    report.text = format!(
        "A batch ends where its {BUDGET} bits do, as in the paper, or after {SHORT} drafts. The first drafts far more than \
         is accepted; a support that grows with the temperature then ends the batch earlier, and spares drafts that \
         would be rejected. Where the two schemes differ in the first and not in the second, that is what the length \
         of the batch does, and not what is sent of a distribution.\n\n{}",
        report.text
    );
    Ok(report)
}

pub fn figure4(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    report(laboratory, &all(), false)
}

pub fn figure5(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    let settings = THRESHOLDS.iter().flat_map(|&threshold| [STEP_SIZE, 0.0].map(|step| c_sqs(threshold, step)));
    report(laboratory, &settings.collect::<Vec<_>>(), true)
}

pub fn figure6(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    report(laboratory, &all(), true)
}

fn all() -> Vec<Setting> {
    SUPPORT_SIZES.map(k_sqs).into_iter().chain(THRESHOLDS.map(|threshold| c_sqs(threshold, STEP_SIZE))).collect()
}

fn report(laboratory: &mut Laboratory, settings: &[Setting], resampling: bool) -> Result<Report, Failure> {
    let clock = laboratory.clock(Some(BITS_PER_SECOND))?;
    let mut points = Vec::new();
    for Setting { name, options, .. } in settings {
        let mut line = Vec::new();
        for temperature in TEMPERATURES {
            let setting = format!("{name}, T = {temperature}");
            let sampling = SamplingParameters { temperature, top_k: 0, top_p: 1.0 };
            line.push(Point::of(&laboratory.sessions(&setting, options, sampling, TOKENS)?, &clock));
        }
        points.push(line);
    }
    let (first, temperature) = (&settings[0], REAL_TEMPERATURE);
    let sampling = SamplingParameters { temperature, top_k: 0, top_p: 1.0 };
    let real = laboratory.for_real(&first.options, sampling, TOKENS, clock)?;
    let kinds: &[Kind] = if resampling { &[LATENCY, RESAMPLING] } else { &[LATENCY] };
    let text = format!(
        "Texts of {TOKENS} tokens; ± is one standard error over prompts. A draft takes {:.1} ms and a pass {:.1} ms + \
         {:.1} ms a draft (given with --times, or else measured here on models of 135M and 1.1B weights; the paper: \
         125M and 1.3B); the link has {}.\n\n",
        1e3 * clock.draft,
        1e3 * clock.pass,
        1e3 * clock.row,
        clock.link_speed(),
    );
    let table = |(title, of): &Kind| {
        let head = row(title, TEMPERATURES.map(|temperature| format!("T = {temperature}")));
        let cells = |line: &Vec<Point>| line.iter().map(|point| format!("{:.3}", of(point))).collect::<Vec<_>>();
        let rows: Vec<_> =
            settings.iter().zip(&points).map(|(setting, line)| row(&setting.name, cells(line))).collect();
        markdown(&head, &rows)
    };
    let tables: Vec<String> = kinds.iter().chain(&[DRAFTED, WRITTEN]).map(table).collect();
    let lines: Vec<Line<'_>> = settings.iter().zip(&points).map(|(setting, points)| Line { setting, points }).collect();
    // What one panel can hold, or one for each scheme, at the same scale.
    let mut schemes = vec![None];
    // Each adaptive threshold is followed by the fixed one.
    let in_pairs = settings.iter().any(|setting| setting.scheme == FIXED);
    if settings.len() > MOST_CURVES && !in_pairs {
        schemes = settings.iter().map(|setting| Some(setting.scheme)).collect();
        schemes.sort_unstable();
        schemes.dedup();
    }
    let panels: Vec<Panel> =
        kinds.iter().flat_map(|kind| schemes.iter().map(|&scheme| panel(kind, scheme, &lines))).collect();
    let told = real.told(&format!("{} at T = {temperature}", first.name));
    let numbers = settings.iter().zip(&points).map(|(setting, line)| {
        let points = line.iter().zip(TEMPERATURES).map(|(point, temperature)| {
            let Point { latency, resampling, drafted, written } = point;
            json!({ "temperature": temperature, "latency": latency, "resampling": resampling,
                "draftsPerBatch": drafted, "tokensPerBatch": written })
        });
        json!({ "setting": setting.name, "points": points.collect::<Vec<_>>() })
    });
    Ok(Report {
        text: text + &tables.join("\n") + &told,
        numbers: json!({ "settings": numbers.collect::<Vec<_>>(), "inRealTime": real.numbers() }),
        svg: Some(if in_pairs { curves::svg_of_pairs(&panels) } else { curves::svg(&panels) }),
    })
}

type Kind = (&'static str, fn(&Point) -> Estimate);
const LATENCY: Kind = ("seconds a text", |point| point.latency);
const RESAMPLING: Kind = ("resampled per round", |point| point.resampling);
const DRAFTED: Kind = ("drafts a batch", |point| point.drafted);
const WRITTEN: Kind = ("tokens a batch", |point| point.written);

/// A setting over all temperatures.
struct Line<'a> {
    setting: &'a Setting,
    points: &'a [Point],
}

/// The curves of a scheme, or of all.
fn panel((up, of): &Kind, scheme: Option<&str>, lines: &[Line<'_>]) -> Panel {
    let most =
        lines.iter().flat_map(|line| line.points).map(|point| of(point).value + of(point).error).fold(0.0, f64::max);
    let mark = |(point, temperature): (&Point, f32)| Mark {
        x: f64::from(temperature),
        y: of(point).value,
        error: of(point).error,
    };
    let has_fixed = lines.iter().any(|line| line.setting.scheme == FIXED);
    let title = if has_fixed { "C-SQS, thresholds adaptive and fixed" } else { "K-SQS and C-SQS" };
    let shown = lines.iter().filter(|line| scheme.is_none_or(|scheme| line.setting.scheme == scheme));
    let curves = shown.map(|line| Curve {
        name: line.setting.name.clone(),
        points: line.points.iter().zip(TEMPERATURES).map(mark).collect(),
    });
    Panel {
        title: scheme.unwrap_or(title).to_owned(),
        across: "T",
        up,
        bounds: Bounds { x: (0.0, 1.0), y: (0.0, most) },
        curves: curves.collect(),
    }
}

impl Point {
    fn of(sessions: &[Session], clock: &Clock) -> Self {
        let latency = |session: &Session| {
            let rounds = session.rounds.iter().map(|round| Sent { down: 0, ..Sent::from(round) });
            // Texts end early: what 64 tokens would have taken.
            (clock.spend(rounds).total() * f64::from(TOKENS), session.tokens.len() as f64)
        };
        let resampling = |session: &Session| {
            let rejected = session.rounds.iter().filter(|round| round.accepted < round.drafted.len()).count();
            (rejected as f64, session.rounds.len() as f64)
        };
        let estimate = |pair: &dyn Fn(&Session) -> (f64, f64)| estimate(sessions, pair);
        let drafted = |session: &Session| {
            let drafts: usize = session.rounds.iter().map(|round| round.drafted.len()).sum();
            (drafts as f64, session.rounds.len() as f64)
        };
        let written = |session: &Session| (session.tokens.len() as f64, session.rounds.len() as f64);
        let [latency, resampling] = [estimate(&latency), estimate(&resampling)];
        Self { latency, resampling, drafted: estimate(&drafted), written: estimate(&written) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's batch ends with its budget alone (§4), which at T = 1 is long after the first rejection. So Figure 2
    /// is measured with short batches as well.
    #[test]
    fn figure_2_has_batches_by_the_budget_and_short_ones() {
        let lengths = of_figure2().map(|setting| (setting.scheme, setting.options.draft_length));
        let longest = Some(numbers::DRAFT_LENGTH.bounds.max as u32);
        assert_eq!(lengths, [("K-SQS", longest), ("C-SQS", longest), ("K-SQS", Some(4)), ("C-SQS", Some(4))]);
        let names: std::collections::BTreeSet<_> = of_figure2().map(|setting| setting.name).into();
        assert_eq!(names.len(), 4, "{names:?}");
        assert!(of_figure2().iter().all(|setting| setting.options.bit_budget == BUDGET));
    }
}
