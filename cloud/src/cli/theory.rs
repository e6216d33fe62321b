//! `outrider theory`.

use clap::Args;
use outrider_speculation::theory::{
    dssd,
    flops::{Shape, TokenCosts},
    sprinter::GateRates,
    tk_slt,
};
use serde::Serialize;

use super::output::{CommandError, print};

const SYMBOLS: &str = "\
Symbols:
  p, q      what the target and the draft model give for the next token
  alpha     acceptance rate: how often a draft is accepted; 1 - TV(p, q) on average, TV the total variation distance
  gamma     draft length: tokens drafted in a round; gamma* is the best one
  V, K      vocabulary size, and how many of its tokens are kept of q
  b, c      time to send a whole distribution, and to draft a token, in passes of the target
  L         cost of a draft in passes of the target: c + b K/V
  S_inf     speed-up over the target alone: (1 - alpha^(gamma+1)) / ((1 - alpha) (1 + gamma L))
  ODLD      optimal draft length determination: the gamma at which S_inf is largest
  AS2       adaptive speculative selection: draft only if S_inf(gamma*) > 1, that is if alpha > L
  T_comm    time on the link in a round of DSSD: (1 - alpha^gamma) |V|b/R + NTT
  |V|b/R    time to send a distribution of V probabilities of b bits at rate R
  NTT       non-transmission time: propagation, processing and queues
  eta_TP    how often SPRINTER's gate passes a token that is acceptable (q <= p)
  eta_FP    how often it passes one that is not
  r         how many drafts in a row are acceptable, before one that is not
  t_d       time to draft a token
  E[N]      tokens that the gate passes before it asks the target
  E[T]      time until then: (E[N] + 1) t_d
  gap       what eta_FP adds: unacceptable tokens that are passed, and the time for them
  FLOPs     floating-point operations; F_d, F_v and F_t of the draft model, the gate and the target for a token";

/// Print the papers' tables, from their closed forms
///
/// TK-SLT (Zheng & Yang): Tables I and II. DSSD (Ning et al.): Table 1. SPRINTER (Zhong et al.): Figures 5, 6 and 10
/// and equations 5 and 6, as tables. Nothing is measured: the papers' formulas give every number, and notes say where a
/// paper differs.
#[derive(Debug, Args)]
#[command(after_help = SYMBOLS)]
pub struct Theory {
    /// Print one JSON object instead
    #[arg(long)]
    json: bool,
}

/// What `--json` prints: every cell with where it stands.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tables {
    tk_slt: TkSlt,
    dssd: Dssd,
    sprinter: Sprinter,
}

#[derive(Serialize)]
struct TkSlt {
    table1: Vec<DraftLength>,
    table2: Vec<CostRatio>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DraftLength {
    acceptance_rate: f64,
    cost_ratio: f64,
    draft_length: u32,
    speedup: f64,
    speculates: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CostRatio {
    support_size: u32,
    cost_ratio: f64,
}

#[derive(Serialize)]
struct Dssd {
    table1: Vec<Communication>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Communication {
    draft_length: u32,
    acceptance_rate: f64,
    rejection_probability: f64,
    communication_ms: f64,
}

#[derive(Serialize)]
struct Sprinter {
    figure5: Vec<Gated>,
    figure6: Vec<Gated>,
    figure10: Vec<Counted>,
    operations: Vec<Operations>,
}

/// A gate, and what is expected of it: passed tokens in Figure 5, time in Figure 6.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Gated {
    true_positive_rate: f64,
    false_positive_rate: f64,
    expected: f64,
}

/// A model's operations for [`TOKENS`] tokens, in 10⁹.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Counted {
    model: &'static str,
    printed: f64,
    counted: f64,
}

/// What [`TOKENS`] tokens take with a pair of models by equations 5 and 6, in 10⁹, from the counts of Figure 10.
#[derive(Serialize)]
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

const COST_RATIOS: [f64; 5] = [0.01, 0.1, 0.2, 0.4, 0.6];
const SUPPORT_SIZES: [u32; 5] = [3, 32, 320, 3200, 32000];
const VOCABULARY_SIZE: u32 = 32000;
/// c and b of Table II; the paper's text swaps them.
const DRAFT_COST: f64 = 0.07;
const TRANSMISSION_COST: f64 = 0.23;

const DSSD_RATES: [f64; 6] = [0.5, 0.6, 0.7, 0.8, 0.9, 0.99];
/// |V|b/R and NTT of Table 1. The paper does not say them; these give all its cells.
const DISTRIBUTION_MS: f64 = 8.0;
const OVERHEAD_MS: f64 = 20.0;

/// The paper draws two rates, of which its text names 0.5; a gap is what that gate adds to a perfect one.
const FALSE_POSITIVE_RATES: [f64; 2] = [0.0, 0.5];
/// r and t_d of Figures 5 and 6.
const ACCEPTABLE: u32 = 5;
const DRAFT_TIME: f64 = 0.1;

/// Figure 10: draft models, each followed by its target, with the 10⁹ operations that the paper prints.
const MODELS: [(&str, Shape, f64); 4] = [
    ("GPT-Neo-125M", GPT_SMALL, 8.01),
    ("GPT-Neo-1.3B", Shape { layers: 24, heads: 16, width: 2048, ..GPT_SMALL }, 64.66),
    ("GPT2-Small", GPT_SMALL, 7.25),
    ("GPT2-XL", Shape { layers: 48, heads: 25, width: 1600, ..GPT_SMALL }, 71.78),
];
const GPT_SMALL: Shape = Shape { layers: 12, heads: 12, width: 768, vocabulary: 50257 };
const TOKENS: u32 = 20;

impl Theory {
    pub(super) fn run(self) -> Result<(), CommandError> {
        let tables = Tables::new();
        print(&if self.json { format!("{}\n", serde_json::to_string(&tables)?) } else { tables.text() });
        Ok(())
    }
}

impl Tables {
    fn new() -> Self {
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
        let figure10: Vec<Counted> = (MODELS.iter())
            .map(|&(model, shape, printed)| Counted { model, printed, counted: shape.forward(TOKENS) / 1e9 })
            .collect();
        let operations = |pair: &[Counted]| {
            let each = |total: f64| total / f64::from(TOKENS);
            // A linear layer of the draft model's width, and a bias.
            let gate = f64::from(2 * GPT_SMALL.width + 1) / 1e9;
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
                table1: pairs([0.4, 0.6, 0.8], COST_RATIOS).map(draft_length).collect(),
                table2: SUPPORT_SIZES.map(cost_ratio).into(),
            },
            dssd: Dssd { table1: pairs([2, 4, 6, 8], DSSD_RATES).map(communication).collect() },
            sprinter: Sprinter {
                figure5: figure(|gate| gate.expected_passed(ACCEPTABLE)),
                figure6: figure(|gate| gate.expected_stopping_time(ACCEPTABLE, DRAFT_TIME)),
                operations: figure10.chunks(2).map(operations).collect(),
                figure10,
            },
        }
    }

    fn text(&self) -> String {
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
}

impl Sprinter {
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
