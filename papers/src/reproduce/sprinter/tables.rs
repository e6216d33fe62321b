//! Tables 1, 2 and 4 of SPRINTER.

use serde_json::{Value, json};

use super::{
    super::{
        laboratory::Laboratory,
        sessions::Failure,
        table::{markdown, row},
    },
    gates,
    methods::{self, DRAFT_LENGTH, Method, PairTimes, Quality, Run, Sample, Shapes},
    texts::{CONTINUATION, Kind},
};
use crate::report::{chart, estimate::Estimate, files::Report};

/// A line of Table 2: accepted tokens, milliseconds and speed-up, on Wiki-Summary and on LM1B.
type Line = [[f64; 3]; 2];

/// Table 2 of a pair of models, in its order: SD, SpecDec++, AdaEDL, MentoredDec, SPRINTER.
const fn printed(shapes: Shapes) -> [(Method, Line); 5] {
    match shapes {
        Shapes::GptNeo => [
            (Method::Speculative, [[2.17, 0.92, 1.0], [1.95, 0.84, 1.0]]),
            (Method::SpecDec, [[1.16, 0.75, 1.23], [1.08, 0.61, 1.38]]),
            (Method::AdaEdl, [[2.66, 0.72, 1.28], [1.91, 0.56, 1.50]]),
            (Method::Mentored, [[3.39, 0.76, 1.21], [3.11, 0.62, 1.35]]),
            (Method::Sprinter, [[11.10, 0.56, 1.64], [8.32, 0.46, 1.83]]),
        ],
        Shapes::Gpt2 => [
            (Method::Speculative, [[2.01, 0.84, 1.0], [2.05, 0.73, 1.0]]),
            (Method::SpecDec, [[1.82, 0.72, 1.18], [1.04, 0.61, 1.20]]),
            (Method::AdaEdl, [[1.96, 0.73, 1.16], [1.52, 0.64, 1.14]]),
            (Method::Mentored, [[3.20, 0.60, 1.40], [3.12, 0.55, 1.33]]),
            (Method::Sprinter, [[10.83, 0.49, 1.69], [6.56, 0.44, 1.66]]),
        ],
    }
}

/// Win-tie rates of Table 1 with their errors, in per cent: GPT-Neo and GPT2, on Wiki-Summary and on LM1B.
const WIN_RATES: [[[f64; 2]; 2]; 2] = [[[45.2, 3.12], [35.4, 5.08]], [[41.0, 6.82], [41.6, 3.98]]];

/// Milliseconds and win-tie rate of Table 4, by the kind that is continued and the kind that the gate was trained on.
const TRANSFER: [[[f64; 2]; 2]; 2] = [[[0.56, 45.2], [0.57, 47.6]], [[0.51, 38.2], [0.46, 39.6]]];

const KINDS: &str = "Tales stand in the columns of Wiki-Summary, which is what the draft model knows better here, \
notes in those of LM1B.";

pub fn table1(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    let (mut rows, mut numbers, mut bars) = (Vec::new(), Vec::new(), Vec::new());
    for (kind, index) in Kind::ALL.into_iter().zip(0..) {
        let base = methods::run(laboratory, kind, Method::Speculative)?;
        for method in Method::ALL.into_iter().filter(|method| *method != Method::Speculative) {
            let quality = Quality::of(&methods::run(laboratory, kind, method)?, &base);
            let printed = WIN_RATES.map(|pair: [[f64; 2]; 2]| pair[index]);
            let said = match method {
                Method::Sprinter => printed.map(|[rate, error]| format!("{rate} ± {error}")),
                _ => ["–".to_owned(), "–".to_owned()],
            };
            let own = [quality.difference, quality.excess].map(|number| format!("{number:+.3}"));
            let cells = [method.name().to_owned()].into_iter().chain(own).chain([format!("{:.1}", quality.wins)]);
            rows.push(row(kind.name(), cells.chain(said)));
            bars.push((format!("{}, {}", method.name(), kind.name()), vec![quality.wins.value]));
            numbers.push(json!({
                "texts": kind.name(), "method": method.name(), "quality": quality, "printedWinTieRates": printed,
            }));
        }
    }
    let head =
        row("texts", ["method", "nats a token", "less expected", "likelier, %", "printed: GPT-Neo", "printed: GPT2"]);
    Ok(Report {
        text: format!(
            "The paper's judge is GPT-4, which is not to be had offline. Ours is the target: the log-likelihood of a \
             continuation of {CONTINUATION} tokens under it at T = 1 less that of SD's from the same prompt and seed, \
             in nats a token, and how often it is the greater. \"Less expected\": each less what tokens that the \
             target itself draws at the same positions would be expected to have. The target's own texts are SD's in \
             distribution, so its row is what chance does. A text that is likelier is not better for it. {} {KINDS} ± \
             is one standard error over prompts.\n\n",
            methods::sampled(),
        ) + &markdown(&head, &rows),
        numbers: Value::Array(numbers),
        svg: Some(chart::single("texts that the target finds likelier than SD's, per cent", &["likelier"], bars)),
    })
}

pub fn table2(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    let times = [Shapes::GptNeo.times(laboratory)?, Shapes::Gpt2.times(laboratory)?];
    let (mut numbers, mut bars) = (Vec::new(), Vec::new());
    let mut text = format!(
        "{CONTINUATION} tokens behind prefixes of 30 %, all methods with the same prompts and seeds; γ = \
        {DRAFT_LENGTH} (the paper's is not said), h = 0.5, λ = 0.2 (AdaEDL), D = 0.1 nats, τ = 0.5. Accepted: tokens \
        of the draft model a pass of the target, unverified ones too. Passes: of the target, a token. {} {KINDS} {} \
        Speed-up is over SD; ± is one standard error over prompts.\n",
        methods::sampled(),
        said(&times),
    );
    for (kind, index) in Kind::ALL.into_iter().zip(0..) {
        let base = methods::run(laboratory, kind, Method::Speculative)?;
        let mut rows = Vec::new();
        for method in Method::ALL {
            let run = methods::run(laboratory, kind, method)?;
            let accepted = run.ratio(|sample| (sample.accepted as f64, sample.calls as f64));
            let passes = run.per_token(|sample| sample.calls as f64);
            let unverified = run.per_token(|sample| sample.passed as f64);
            let own = [
                if method == Method::Draft { "–".to_owned() } else { format!("{accepted:.2}") },
                format!("{passes:.3}"),
                format!("{unverified:.3}"),
            ];
            let mut cells = own.to_vec();
            let mut speedups = Vec::new();
            for (shapes, times) in Shapes::ALL.into_iter().zip(&times) {
                let seconds = |sample: &Sample| sample.seconds(times);
                let (latency, speedup) = (run.per_token(seconds), run.saving(&base, seconds));
                speedups.push(speedup.value);
                let line = printed(shapes).into_iter().find(|(other, _)| *other == method).map(|(_, line)| line[index]);
                let [tokens, ms, times] =
                    line.map_or(["–"; 3].map(str::to_owned), |line| line.map(|x| x.to_string()));
                cells.extend([
                    format!("{:.1}", latency.times(1e3)),
                    format!("{speedup:.2}"),
                    format!("{tokens}; {ms}; {times}"),
                ]);
                numbers.push(json!({
                    "texts": kind.name(), "method": method.name(), "shapes": shapes.name(), "accepted": accepted,
                    "passes": passes, "unverified": unverified, "seconds": latency, "speedup": speedup,
                    "rouge": rouge(&run), "printed": line,
                }));
            }
            rows.push(row(method.name(), cells));
            bars.push((format!("{}, {}", method.name(), kind.name()), speedups));
        }
        let head = row(
            format!("method, on {}", kind.name()),
            [
                "accepted",
                "passes",
                "unverified",
                "GPT-Neo: ms a token",
                "speed-up",
                "printed",
                "GPT2: ms a token",
                "speed-up",
                "printed",
            ],
        );
        text.push_str(&format!("\n{}", markdown(&head, &rows)));
    }
    text.push_str("\nPrinted: accepted tokens; ms; speed-up.\n");
    let svg = chart::single("speed-up over SD", &["GPT-Neo's shapes", "GPT2's"], bars);
    Ok(Report { text, numbers: Value::Array(numbers), svg: Some(svg) })
}

pub fn table4(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    let times = Shapes::GptNeo.times(laboratory)?;
    let (mut rows, mut numbers, mut bars) = (Vec::new(), Vec::new(), Vec::new());
    for (continued, printed) in Kind::ALL.into_iter().zip(TRANSFER) {
        let base = methods::run(laboratory, continued, Method::Speculative)?;
        for (trained, printed) in Kind::ALL.into_iter().zip(printed) {
            let (trial, heads) = gates::trained(laboratory, trained, continued)?;
            laboratory.say(&format!("gate of {} on {}", trained.name(), continued.name()));
            let run = methods::run_with(laboratory, continued, heads)?;
            let quality = Quality::of(&run, &base);
            let seconds = |sample: &Sample| sample.seconds(&times);
            let (latency, speedup) = (run.per_token(seconds), run.saving(&base, seconds));
            let unverified = run.per_token(|sample| sample.passed as f64);
            rows.push(row(
                continued.name(),
                [
                    trained.name().to_owned(),
                    format!("{:.3}", trial.area),
                    format!("{unverified:.3}"),
                    format!("{:.1}", latency.times(1e3)),
                    format!("{speedup:.2}"),
                    printed[0].to_string(),
                    format!("{:+.3}", quality.difference),
                    format!("{:.1}", quality.wins),
                    printed[1].to_string(),
                ],
            ));
            bars.push((format!("{} by {}'s gate", continued.name(), trained.name()), vec![trial.area.value]));
            numbers.push(json!({
                "texts": continued.name(), "trainedOn": trained.name(), "auRoc": trial.area, "unverified": unverified,
                "seconds": latency, "speedup": speedup, "quality": quality, "printed": printed,
            }));
        }
    }
    let head = row(
        "texts",
        [
            "gate of",
            "AU-ROC",
            "unverified",
            "ms a token",
            "speed-up",
            "printed ms",
            "nats a token",
            "likelier, %",
            "printed win-tie, %",
        ],
    );
    Ok(Report {
        text: format!(
            "SPRINTER with gates that were trained on one kind of text (λ = {}, they see the token), on held-out \
            texts of either. Speed-up and quality are against SD, as in Tables 2 and 1. {} {KINDS} {} ± is one \
            standard error over prompts.\n\n",
            gates::RATIO,
            methods::sampled(),
            said(&[times]),
        ) + &markdown(&head, &rows),
        numbers: Value::Array(numbers),
        svg: Some(chart::single("AU-ROC", &["AU-ROC"], bars)),
    })
}

/// ROUGE-1, ROUGE-2 and ROUGE-L of a run.
pub fn rouge(run: &Run) -> [Estimate; 3] {
    [0, 1, 2].map(|index: usize| run.mean(|sample| sample.rouge.scores()[index]))
}

/// Times of passes as a sentence.
pub fn said(times: &[PairTimes]) -> String {
    let one = |(PairTimes { draft, target }, shapes): (&PairTimes, Shapes)| {
        format!(
            "{} {:.1} and {:.1} ms + {:.1} ms a further token",
            shapes.name(),
            1e3 * draft.pass,
            1e3 * target.pass,
            1e3 * target.row
        )
    };
    let list: Vec<String> = times.iter().zip(Shapes::ALL).map(one).collect();
    format!(
        "Forward passes of draft and target, random weights of the papers' shapes in Q8_0 here: {}.",
        list.join("; ")
    )
}
