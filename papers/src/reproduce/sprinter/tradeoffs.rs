//! Figures 1, 7, 9 and 10: quality, latency and operations.

use serde_json::{Value, json};

use super::{
    super::{
        laboratory::Laboratory,
        sessions::Failure,
        table::{markdown, row},
    },
    methods::{self, Method, Run, Sample, Shapes},
    tables::{rouge, said},
    texts::{CONTINUATION, Kind},
};
use crate::report::{
    chart::{self, Chart},
    estimate::Estimate,
    files::Report,
};
use crate::theory::flops::{Counted, FIGURE_10, TokenCosts};

/// The two methods compared: SD and SPRINTER.
const BOTH: [Method; 2] = [Method::Speculative, Method::Sprinter];
const NAMES: [&str; 3] = ["ROUGE-1", "ROUGE-2", "ROUGE-L"];

pub fn figure1(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    tradeoff(
        laboratory,
        Shapes::GptNeo,
        "The paper says \"1.64X speedups\" and \"8X\" less computation for 20 tokens in a row that pass; (b) shows \
        texts.",
    )
}

pub fn figure9(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    tradeoff(laboratory, Shapes::Gpt2, "The paper draws it; by its Table 2 the speed-up is 1.69.")
}

fn tradeoff(laboratory: &mut Laboratory, shapes: Shapes, printed: &str) -> Result<Report, Failure> {
    let (times, costs) = (shapes.times(laboratory)?, shapes.costs());
    let runs = BOTH.map(|method| methods::run(laboratory, Kind::Tales, method));
    let [sd, sprinter] = runs;
    let (sd, sprinter) = (sd?, sprinter?);
    let seconds = |sample: &Sample| 1e3 * sample.seconds(&times);
    let verified = |method| move |sample: &Sample| 20.0 * sample.verified_operations(method, &costs);
    let read = |method| move |sample: &Sample| 20.0 * sample.read_operations(method, &costs);
    let [all_sd, all_sprinter] = [costs.speculative(20), costs.sprinter(20)];
    let each = |of: &dyn Fn(&Run, Method) -> Estimate| [of(&sd, BOTH[0]), of(&sprinter, BOTH[1])];
    let lines = [
        ("ROUGE-1", each(&|run, _| rouge(run)[0])),
        ("ROUGE-2", each(&|run, _| rouge(run)[1])),
        ("ROUGE-L", each(&|run, _| rouge(run)[2])),
        ("ms a token", each(&|run, _| run.per_token(seconds))),
        ("GFLOPs of 20 tokens, by eqs 5 and 6", each(&|run, method| run.per_token(verified(method)))),
        ("GFLOPs of 20 tokens, all that is read", each(&|run, method| run.per_token(read(method)))),
    ];
    let mut rows: Vec<_> = lines
        .iter()
        .map(|(name, [sd, sprinter])| {
            let ratio = format!("{:.2}", sd.value / sprinter.value);
            row(name, [format!("{sd:.3}"), format!("{sprinter:.3}"), ratio])
        })
        .collect();
    let ideal = [all_sd, all_sprinter, all_sd / all_sprinter].map(|value| format!("{value:.2}"));
    rows.push(row("GFLOPs of 20 tokens that all pass (γ = 20)", ideal));
    let read_all = costs.sprinter_read(20);
    rows.push(row(
        "the same, all that is read",
        [all_sd, read_all, all_sd / read_all].map(|value| format!("{value:.2}")),
    ));
    let charts = [("ROUGE", 0..3), ("ms a token", 3..4), ("GFLOPs of 20 tokens", 4..6)].map(|(title, range)| Chart {
        title: title.to_owned(),
        series: BOTH.map(Method::name).to_vec(),
        groups: lines[range.clone()]
            .iter()
            .map(|(name, both)| ((*name).to_owned(), both.map(|x| x.value).to_vec()))
            .collect(),
        errors: lines[range].iter().map(|(_, both)| both.map(|x| x.error).to_vec()).collect(),
    });
    let numbers = lines.iter().map(|(name, both)| json!({ "shows": name, "sd": both[0], "sprinter": both[1] }));
    Ok(Report {
        text: format!(
            "SD and SPRINTER with {}'s shapes, {CONTINUATION} tokens behind prefixes of tales. {printed} Operations \
            are counted (A.8, Hoffmann et al.): by the paper's equations the target verifies one token a call of \
            SPRINTER's; it has to read all of them. {} {} ± is one standard error over prompts.\n\n",
            shapes.name(),
            methods::sampled(),
            said(&[times]).replace(Shapes::GptNeo.name(), shapes.name()),
        ) + &markdown(&row("", ["SD", "SPRINTER", "ratio"]), &rows),
        numbers: numbers.collect(),
        svg: Some(chart::svg(&charts)),
    })
}

pub fn figure7(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    let (mut rows, mut numbers, mut charts) = (Vec::new(), Vec::new(), Vec::new());
    for kind in Kind::ALL {
        let base = methods::run(laboratory, kind, Method::Speculative)?;
        let (mut groups, mut errors) = (Vec::new(), Vec::new());
        for method in Method::ALL {
            let run = methods::run(laboratory, kind, method)?;
            let scores = rouge(&run);
            let index = |index: usize| move |sample: &Sample| sample.rouge.scores()[index];
            let difference = run.compared(&base, |own, other| index(2)(own) - index(2)(other));
            let shown = scores.map(|score| format!("{score:.3}")).into_iter();
            let last = format!("{difference:+.3}");
            rows.push(row(kind.name(), [method.name().to_owned()].into_iter().chain(shown).chain([last])));
            numbers.push(json!({
                "texts": kind.name(), "method": method.name(), "rouge": scores, "differenceOfRougeL": difference,
            }));
            groups.push((method.name().to_owned(), scores.map(|score| 100.0 * score.value).to_vec()));
            errors.push(scores.map(|score| 100.0 * score.error).to_vec());
        }
        charts.push(Chart {
            title: format!("F₁ in per cent, on {}", kind.name()),
            series: NAMES.to_vec(),
            groups,
            errors,
        });
    }
    let head = row("texts", ["method", NAMES[0], NAMES[1], NAMES[2], "ROUGE-L, less SD's"]);
    Ok(Report {
        text: format!(
            "F₁ of {CONTINUATION} tokens behind prefixes of 30 % beside as many of the text itself, which no model \
             has seen. The paper draws SD and SPRINTER on Wiki-Summary for two pairs; we have one pair and two kinds \
             of text. {} ± is one standard error over prompts; differences are paired.\n\n",
            methods::sampled(),
        ) + &markdown(&head, &rows),
        numbers: Value::Array(numbers),
        svg: Some(chart::svg(&charts)),
    })
}

pub fn figure10() -> Report {
    let counted = |model: &Counted, tokens: u32| model.shape.forward(tokens) / 1e9;
    let rows: Vec<_> = FIGURE_10
        .iter()
        .map(|model| {
            let cells = [counted(model, 20), model.printed, model.printed / counted(model, 20)];
            row(model.name, cells.map(|value| format!("{value:.2}")))
        })
        .collect();
    let pairs: Vec<_> = FIGURE_10
        .chunks(2)
        .zip(Shapes::ALL)
        .flat_map(|(models, shapes)| {
            let by_print = |model: &Counted| model.printed / 20.0;
            let costs = shapes.costs();
            let printed = TokenCosts { draft: by_print(&models[0]), gate: costs.gate, target: by_print(&models[1]) };
            [("counted", costs), ("with the printed figures", printed)].map(|(how, costs)| {
                let values = [
                    costs.target / costs.draft,
                    costs.speculative(20),
                    costs.sprinter(20),
                    costs.speculative(20) / costs.sprinter(20),
                ];
                row(format!("{}, {how}", shapes.name()), values.map(|value| format!("{value:.2}")))
            })
        })
        .collect();
    let numbers = FIGURE_10
        .iter()
        .map(|model| json!({ "model": model.name, "counted": counted(model, 20), "printed": model.printed }));
    let bars = |model: &Counted| (model.name.to_owned(), vec![counted(model, 20), model.printed]);
    let svg = chart::single("GFLOPs of 20 tokens", &["counted", "printed"], FIGURE_10.iter().map(bars).collect());
    Report {
        text: String::from(
            "10⁹ operations of 20 tokens with nothing cached, a multiplication and an addition being two (Hoffmann et \
            al. 2022, Appendix F, as A.8 says). GPT2-small and GPT-Neo-125M have the same sizes.\n\n",
        ) + &markdown(&row("model", ["counted", "printed", "printed / counted"]), &rows)
            + "\nThe ratio that Figure 1a calls 8X is F_t/F_d; equations 5 and 6 give less for γ = 20.\n\n"
            + &markdown(&row("pair", ["F_t/F_d", "SD, eq. 5", "SPRINTER, eq. 6", "ratio"]), &pairs),
        numbers: numbers.collect(),
        svg: Some(svg),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's own figures in equations 5 and 6, and ours beside its four.
    #[test]
    fn figure_10_has_the_papers_numbers_beside_ours() {
        let text = figure10().text;
        for line in [
            "| GPT-Neo-125M | 6.50 | 8.01 | 1.23 |",
            "| GPT-Neo-1.3B | 56.63 | 64.66 | 1.14 |",
            "| GPT2-XL | 65.54 | 71.78 | 1.10 |",
            "| GPT-Neo, with the printed figures | 8.07 | 72.67 | 11.24 | 6.46 |",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
