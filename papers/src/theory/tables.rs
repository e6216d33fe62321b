//! The papers' tables that follow from their closed forms alone, as `outrider theory` prints them.

use serde::Serialize;

use super::{
    dssd,
    flops::{self, FIGURE_10, TokenCosts},
    sprinter::GateRates,
    tk_slt,
};

/// Every cell of the tables with its place.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tables {
    tk_slt: TkSlt,
    dssd: Dssd,
    sprinter: Sprinter,
}

#[derive(Debug, Serialize)]
struct TkSlt {
    table1: Vec<DraftLength>,
    table2: Vec<CostRatio>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct DraftLength {
    acceptance_rate: f64,
    cost_ratio: f64,
    draft_length: u32,
    speedup: f64,
    speculates: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct CostRatio {
    support_size: u32,
    cost_ratio: f64,
}

#[derive(Debug, Serialize)]
struct Dssd {
    table1: Vec<Communication>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Communication {
    draft_length: u32,
    acceptance_rate: f64,
    rejection_probability: f64,
    communication_ms: f64,
}

#[derive(Debug, Serialize)]
struct Sprinter {
    figure5: Vec<Gated>,
    figure6: Vec<Gated>,
    figure10: Vec<Counted>,
    operations: Vec<Operations>,
}

/// A gate, and what is expected of it: passed tokens in Figure 5, time in Figure 6.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Gated {
    true_positive_rate: f64,
    false_positive_rate: f64,
    expected: f64,
}

/// A model's operations for [`TOKENS`] tokens, in 10⁹.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Counted {
    model: &'static str,
    printed: f64,
    counted: f64,
}

/// What [`TOKENS`] tokens take with a pair of models by equations 5 and 6, in 10⁹, from the counts of Figure 10.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Operations {
    draft: &'static str,
    target: &'static str,
    /// Equation 5.
    speculative: f64,
    /// Equation 6.
    sprinter: f64,
    /// Equation 6 with every token that passed read by the target.
    sprinter_read: f64,
}

/// α and L of TK-SLT's Table I.
pub(crate) const ACCEPTANCE_RATES: [f64; 3] = [0.4, 0.6, 0.8];
pub(crate) const COST_RATIOS: [f64; 5] = [0.01, 0.1, 0.2, 0.4, 0.6];
/// K and V of its Table II.
pub(crate) const SUPPORT_SIZES: [u32; 5] = [3, 32, 320, 3200, 32000];
pub(crate) const VOCABULARY_SIZE: u32 = 32000;
/// c and b of Table II; the paper's text swaps them.
pub(crate) const DRAFT_COST: f64 = 0.07;
pub(crate) const TRANSMISSION_COST: f64 = 0.23;

/// γ and α of DSSD's Table 1.
pub(crate) const DSSD_LENGTHS: [u32; 4] = [2, 4, 6, 8];
pub(crate) const DSSD_RATES: [f64; 6] = [0.5, 0.6, 0.7, 0.8, 0.9, 0.99];
/// |V|b/R and NTT of Table 1. The paper does not say them; these give all its cells.
pub(crate) const DISTRIBUTION_MS: f64 = 8.0;
pub(crate) const OVERHEAD_MS: f64 = 20.0;

/// The paper draws two rates, of which its text names 0.5; a gap is what that gate adds to a perfect one.
pub(crate) const FALSE_POSITIVE_RATES: [f64; 2] = [0.0, 0.5];
/// r and t_d of Figures 5 and 6.
pub(crate) const ACCEPTABLE: u32 = 5;
pub(crate) const DRAFT_TIME: f64 = 0.1;

/// Tokens of Figure 10.
const TOKENS: u32 = 20;

impl Default for Tables {
    fn default() -> Self {
        Self::new()
    }
}

impl Tables {
    /// Computes every cell.
    pub fn new() -> Self {
        let draft_length = |(acceptance_rate, cost_ratio)| {
            let draft_length = tk_slt::optimal_draft_length(acceptance_rate, cost_ratio, u32::MAX);
            DraftLength {
                acceptance_rate,
                cost_ratio,
                draft_length,
                speedup: tk_slt::speedup(acceptance_rate, cost_ratio, draft_length),
                speculates: tk_slt::speculates(acceptance_rate, cost_ratio),
            }
        };
        let cost_ratio = |support_size| CostRatio {
            support_size,
            cost_ratio: tk_slt::cost_ratio(DRAFT_COST, TRANSMISSION_COST, support_size, VOCABULARY_SIZE),
        };
        let communication = |(draft_length, acceptance_rate)| Communication {
            draft_length,
            acceptance_rate,
            rejection_probability: dssd::rejection_probability(acceptance_rate, draft_length),
            communication_ms: dssd::communication_time(acceptance_rate, draft_length, DISTRIBUTION_MS, OVERHEAD_MS),
        };
        let figure = |expected: fn(&GateRates) -> f64| {
            let cells = pairs((0..=10).map(|tenths| f64::from(tenths) / 10.0), FALSE_POSITIVE_RATES);
            let gated = |(true_positive, false_positive)| Gated {
                true_positive_rate: true_positive,
                false_positive_rate: false_positive,
                expected: expected(&GateRates { true_positive, false_positive }),
            };
            cells.map(gated).collect()
        };
        let figure10: Vec<Counted> = (FIGURE_10.iter())
            .map(|model| Counted {
                model: model.name,
                printed: model.printed,
                counted: model.shape.forward(TOKENS) / 1e9,
            })
            .collect();
        let operations = |(pair, models): (&[Counted], &[flops::Counted])| {
            let each = |total: f64| total / f64::from(TOKENS);
            // A linear layer of the draft model's width, and a bias.
            let gate = f64::from(2 * models[0].shape.width + 1) / 1e9;
            let costs = TokenCosts { draft: each(pair[0].counted), gate, target: each(pair[1].counted) };
            Operations {
                draft: pair[0].model,
                target: pair[1].model,
                speculative: costs.speculative(TOKENS),
                sprinter: costs.sprinter(TOKENS),
                sprinter_read: costs.sprinter_read(TOKENS),
            }
        };
        Self {
            tk_slt: TkSlt {
                table1: pairs(ACCEPTANCE_RATES, COST_RATIOS).map(draft_length).collect(),
                table2: SUPPORT_SIZES.map(cost_ratio).into(),
            },
            dssd: Dssd { table1: pairs(DSSD_LENGTHS, DSSD_RATES).map(communication).collect() },
            sprinter: Sprinter {
                figure5: figure(|gate| gate.expected_passed(ACCEPTABLE)),
                figure6: figure(|gate| gate.expected_stopping_time(ACCEPTABLE, DRAFT_TIME)),
                operations: figure10.chunks(2).zip(FIGURE_10.chunks(2)).map(operations).collect(),
                figure10,
            },
        }
    }

    /// All tables as text, one below the other.
    pub fn text(&self) -> String {
        [self.tk_slt.text(), self.dssd.text(), self.sprinter.text()].join("\n")
    }
}

impl TkSlt {
    fn text(&self) -> String {
        let lengths = self.table1.chunks(COST_RATIOS.len()).map(|row| {
            let star = |cell: &DraftLength| if cell.speculates { " " } else { "*" };
            let cells = row.iter().map(|cell| format!("{}{}", cell.draft_length, star(cell)));
            line(format!("  {}", row[0].acceptance_rate), cells)
        });
        let costs = self.table2.iter().map(|cell| format!("{:.4}", cell.cost_ratio));
        [
            "TK-SLT, Table I: gamma* by ODLD; * where AS2 uses the target alone\n".to_owned(),
            line("  alpha \\ L", COST_RATIOS.map(|cost_ratio| format!("{cost_ratio} "))),
            lengths.collect(),
            "  Where alpha = L, S_inf is 1. The paper, by rounding, stars (0.6, 0.6) but not (0.4, 0.4).\n\n"
                .to_owned(),
            format!("TK-SLT, Table II: L at c = {DRAFT_COST}, b = {TRANSMISSION_COST}, V = {VOCABULARY_SIZE}\n"),
            line("  K", SUPPORT_SIZES.map(|support_size| support_size.to_string())),
            line("  L", costs),
            "  The paper swaps b and c in its text. Its gamma* follow from alphas that it only draws.\n".to_owned(),
        ]
        .concat()
    }
}

impl Dssd {
    fn text(&self) -> String {
        let rows = self.table1.chunks(DSSD_RATES.len()).map(|row| {
            let cells =
                row.iter().map(|cell| format!("{:.2} ({:.2})", cell.rejection_probability, cell.communication_ms));
            line(format!("  {}", row[0].draft_length), cells)
        });
        [
            format!(
                "DSSD, Table 1: 1 - alpha^gamma (T_comm in ms) at |V|b/R = {DISTRIBUTION_MS}, NTT = {OVERHEAD_MS} ms\n"
            ),
            line("  gamma \\ alpha", DSSD_RATES.map(|acceptance_rate| acceptance_rate.to_string())),
            rows.collect(),
        ]
        .concat()
    }
}

impl Sprinter {
    fn text(&self) -> String {
        let figure = |title: String, cells: &[Gated]| {
            let rows = cells.chunks(FALSE_POSITIVE_RATES.len()).map(|row| {
                let gap = row[1].expected - row[0].expected;
                let values = row.iter().map(|cell| cell.expected).chain([gap]);
                line(format!("  {:.1}", row[0].true_positive_rate), values.map(|value| format!("{value:.3}")))
            });
            let columns = FALSE_POSITIVE_RATES.map(|rate| rate.to_string()).into_iter().chain(["gap".to_owned()]);
            [title, line("  eta_TP \\ eta_FP", columns), rows.collect()].concat()
        };
        [
            figure(format!("SPRINTER, Figure 5: E[N] at r = {ACCEPTABLE}\n"), &self.figure5),
            figure(format!("SPRINTER, Figure 6: E[T] at r = {ACCEPTABLE}, t_d = {DRAFT_TIME}\n"), &self.figure6),
            self.operations(),
        ]
        .join("\n")
    }

    fn operations(&self) -> String {
        let row = |head: String, values: &[f64]| line(head, values.iter().map(|value| format!("{value:.2}")));
        let models = self.figure10.iter().map(|cell| row(format!("  {}", cell.model), &[cell.printed, cell.counted]));
        let pairs = self.operations.iter().map(|cell| {
            let values = [cell.speculative, cell.sprinter, cell.speculative / cell.sprinter, cell.sprinter_read];
            row(format!("  {}", cell.target), &values)
        });
        let columns = |names: &[&str]| line("  model", names.iter().map(|&name| name.to_owned()));
        [
            format!("SPRINTER, Figure 10: FLOPs for {TOKENS} tokens, 10^9\n"),
            columns(&["printed", "counted"]),
            models.collect(),
            "  The paper prints two figures for two models of equal sizes.\n\n".to_owned(),
            format!("SPRINTER, equations 5 and 6: FLOPs at gamma = {TOKENS}, 10^9, each target with its small model\n"),
            columns(&["SD", "SPRINTER", "ratio", "as read"]),
            pairs.collect(),
            "  Equation 6 has F_t once. The target also reads the tokens that passed, as the last column counts.\n"
                .to_owned(),
        ]
        .concat()
    }
}

/// Every row with every column, row by row.
fn pairs<R: Copy, C: Clone + IntoIterator>(
    rows: impl IntoIterator<Item = R>,
    columns: C,
) -> impl Iterator<Item = (R, C::Item)> {
    rows.into_iter().flat_map(move |row| columns.clone().into_iter().map(move |column| (row, column)))
}

fn line(head: impl Into<String>, cells: impl IntoIterator<Item = String>) -> String {
    let cells: String = cells.into_iter().map(|cell| format!("{cell:>14}")).collect();
    let line = format!("{:<17}{cells}", head.into());
    format!("{}\n", line.trim_end())
}
