//! The papers' tables that follow from their closed forms alone, as `outrider theory` prints them.

use serde_json::{Value, json};

use super::{
    dssd,
    flops::{FIGURE_10, TokenCosts},
    sprinter::GateRates,
    tk_slt,
};

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

/// All tables, as text and as one JSON object of their cells.
#[derive(Debug)]
pub struct Tables {
    /// The tables one below the other.
    pub text: String,
    /// Every cell with its place.
    pub json: Value,
}

/// A table as text, and its cells.
type Table = (String, Vec<Value>);

impl Tables {
    /// Computes every cell.
    pub fn compute() -> Self {
        let (lengths, costs, communication) = (draft_lengths(), cost_ratios(), communication());
        let figure5 =
            gates(format!("SPRINTER, Figure 5: E[N] at r = {ACCEPTABLE}\n"), |gate| gate.expected_passed(ACCEPTABLE));
        let figure6 = gates(format!("SPRINTER, Figure 6: E[T] at r = {ACCEPTABLE}, t_d = {DRAFT_TIME}\n"), |gate| {
            gate.expected_stopping_time(ACCEPTABLE, DRAFT_TIME)
        });
        let (figure10, operations) = (figure10(), operations());
        let all = [&lengths, &costs, &communication, &figure5, &figure6, &figure10, &operations];
        Self {
            text: all.map(|table| table.0.as_str()).join("\n"),
            json: json!({
                "tkSlt": { "table1": lengths.1, "table2": costs.1 },
                "dssd": { "table1": communication.1 },
                "sprinter": {
                    "figure5": figure5.1, "figure6": figure6.1, "figure10": figure10.1, "operations": operations.1,
                },
            }),
        }
    }
}

fn draft_lengths() -> Table {
    let title = "TK-SLT, Table I: gamma* by ODLD; * where AS2 uses the target alone\n".to_owned()
        + &line("  alpha \\ L", COST_RATIOS.map(|ratio| format!("{ratio} ")));
    let mut table = grid(title, &ACCEPTANCE_RATES, &COST_RATIOS, |rate, ratio| {
        let length = tk_slt::optimal_draft_length(rate, ratio, u32::MAX);
        let speculates = tk_slt::speculates(rate, ratio);
        let cell = json!({
            "acceptanceRate": rate, "costRatio": ratio, "draftLength": length,
            "speedup": tk_slt::speedup(rate, ratio, length), "speculates": speculates,
        });
        (format!("{length}{}", if speculates { " " } else { "*" }), cell)
    });
    table.0 += "  Where alpha = L, S_inf is 1. The paper, by rounding, stars (0.6, 0.6) but not (0.4, 0.4).\n";
    table
}

fn cost_ratios() -> Table {
    let title = format!("TK-SLT, Table II: L at c = {DRAFT_COST}, b = {TRANSMISSION_COST}, V = {VOCABULARY_SIZE}\n")
        + &line("  K", SUPPORT_SIZES.map(|size| size.to_string()));
    let mut table = grid(title, &["L"], &SUPPORT_SIZES, |_, size| {
        let ratio = tk_slt::cost_ratio(DRAFT_COST, TRANSMISSION_COST, size, VOCABULARY_SIZE);
        (format!("{ratio:.4}"), json!({ "supportSize": size, "costRatio": ratio }))
    });
    table.0 += "  The paper swaps b and c in its text. Its gamma* follow from alphas that it only draws.\n";
    table
}

fn communication() -> Table {
    let title = format!(
        "DSSD, Table 1: 1 - alpha^gamma (T_comm in ms) at |V|b/R = {DISTRIBUTION_MS}, NTT = {OVERHEAD_MS} ms\n"
    ) + &line("  gamma \\ alpha", DSSD_RATES.map(|rate| rate.to_string()));
    grid(title, &DSSD_LENGTHS, &DSSD_RATES, |length, rate| {
        let rejection = dssd::rejection_probability(rate, length);
        let time = dssd::communication_time(rate, length, DISTRIBUTION_MS, OVERHEAD_MS);
        let cell = json!({
            "draftLength": length, "acceptanceRate": rate, "rejectionProbability": rejection, "communicationMs": time,
        });
        (format!("{rejection:.2} ({time:.2})"), cell)
    })
}

/// Expectations of gates by both of their rates, and what the second false positive rate adds.
fn gates(title: String, expected: impl Fn(&GateRates) -> f64) -> Table {
    let columns = FALSE_POSITIVE_RATES.map(|rate| rate.to_string()).into_iter().chain(["gap".to_owned()]);
    let (mut text, mut cells) = (title + &line("  eta_TP \\ eta_FP", columns), Vec::new());
    for true_positive in (0..=10).map(|tenths| f64::from(tenths) / 10.0) {
        let [perfect, other] = FALSE_POSITIVE_RATES.map(|false_positive| {
            let expected = expected(&GateRates { true_positive, false_positive });
            cells.push(json!({
                "truePositiveRate": true_positive, "falsePositiveRate": false_positive, "expected": expected,
            }));
            expected
        });
        text += &line(format!("  {true_positive:.1}"), [perfect, other, other - perfect].map(|x| format!("{x:.3}")));
    }
    (text, cells)
}

fn figure10() -> Table {
    let (mut text, mut cells) = (format!("SPRINTER, Figure 10: FLOPs for {TOKENS} tokens, 10^9\n"), Vec::new());
    text += &line("  model", ["printed", "counted"].map(str::to_owned));
    for model in &FIGURE_10 {
        let counted = model.shape.forward(TOKENS) / 1e9;
        text += &line(format!("  {}", model.name), [model.printed, counted].map(|x| format!("{x:.2}")));
        cells.push(json!({ "model": model.name, "printed": model.printed, "counted": counted }));
    }
    (text + "  The paper prints two figures for two models of equal sizes.\n", cells)
}

/// Equations 5 and 6 from the counts of Figure 10; of equation 6 also with every token that passed read by the target.
fn operations() -> Table {
    let (mut text, mut cells) = (
        format!("SPRINTER, equations 5 and 6: FLOPs at gamma = {TOKENS}, 10^9, each target with its small model\n"),
        Vec::new(),
    );
    text += &line("  model", ["SD", "SPRINTER", "ratio", "as read"].map(str::to_owned));
    for pair in FIGURE_10.chunks(2) {
        let costs = TokenCosts::counted(&pair[0].shape, &pair[1].shape);
        let [speculative, sprinter] = [costs.speculative(TOKENS), costs.sprinter(TOKENS)];
        let read = costs.sprinter_read(TOKENS);
        let values = [speculative, sprinter, speculative / sprinter, read];
        text += &line(format!("  {}", pair[1].name), values.map(|x| format!("{x:.2}")));
        cells.push(json!({
            "draft": pair[0].name, "target": pair[1].name, "speculative": speculative, "sprinter": sprinter,
            "sprinterRead": read,
        }));
    }
    (
        text + "  Equation 6 has F_t once. The target also reads the tokens that passed, as the last column counts.\n",
        cells,
    )
}

/// A table below its title: every row with every column.
fn grid<R: Copy + ToString, C: Copy>(
    title: String,
    rows: &[R],
    columns: &[C],
    cell: impl Fn(R, C) -> (String, Value),
) -> Table {
    let (mut text, mut cells) = (title, Vec::new());
    for &row in rows {
        let (texts, values): (Vec<_>, Vec<_>) = columns.iter().map(|&column| cell(row, column)).unzip();
        text += &line(format!("  {}", row.to_string()), texts);
        cells.extend(values);
    }
    (text, cells)
}

fn line(head: impl Into<String>, cells: impl IntoIterator<Item = String>) -> String {
    let cells: String = cells.into_iter().map(|cell| format!("{cell:>14}")).collect();
    let line = format!("{:<17}{cells}", head.into());
    format!("{}\n", line.trim_end())
}
