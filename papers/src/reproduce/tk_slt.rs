//! Top-K sparse logits transmission (Zheng & Yang): Figures 2 to 4 and Tables I and II.
//!
//! α is Σ min(q_K, p) over the tokens (§II-A), q_K the draft model's distribution at T = 1 cut to its K likeliest and
//! renormalised, whatever the target's temperature (§VI-B); its mean over the positions of a text that neither model
//! wrote.

use serde_json::{Value, json};

use super::{
    laboratory::{Laboratory, probabilities},
    sessions::Failure,
    table::{markdown, row},
};
use crate::report::{
    chart::{self, Chart},
    curves::{self, Bounds, Curve, Mark, Panel},
    estimate::Estimate,
    files::Report,
};
use crate::theory::{
    tables::{ACCEPTANCE_RATES as ALPHAS, COST_RATIOS, DRAFT_COST, SUPPORT_SIZES, TRANSMISSION_COST, VOCABULARY_SIZE},
    tk_slt::{cost_ratio, optimal_draft_length, speculates, speedup},
};

/// γ* as Table I prints it, a star where S_inf < 1.
const TABLE_1: [[&str; 5]; 3] = [["4", "2", "1", "1", "1*"], ["7", "3", "2", "1", "1*"], ["14", "6", "4", "2", "1"]];
/// L and γ* at T = 0 and 1 as Table II prints them.
const TABLE_2: [[&str; 5]; 3] =
    [["0.0700", "0.0702", "0.0723", "0.093", "0.300"], ["3", "2", "2", "1", "1"], ["2", "2", "2", "2", "1"]];
const TEMPERATURES: [f32; 2] = [0.0, 1.0];
/// Bits of a probability (§VI-B).
const PROBABILITY_BITS: u32 = 16;
const LONGEST: u32 = 20;

pub fn figure2() -> Report {
    let mark = |alpha: f64, ratio: f64| {
        move |gamma: u32| Mark { x: gamma.into(), y: speedup(alpha, ratio, gamma), error: 0.0 }
    };
    let panel = |alpha: f64| Panel {
        title: format!("α = {alpha}"),
        across: "γ",
        up: "S_inf",
        bounds: Bounds { x: (0.0, LONGEST.into()), y: (0.0, 5.0) },
        curves: COST_RATIOS
            .map(|ratio| Curve {
                name: format!("L = {ratio}"),
                points: (1..=LONGEST).map(mark(alpha, ratio)).collect(),
            })
            .into(),
    };
    let lengths = [1, 2, 3, 4, 6, 8, 12, 16, 20];
    let head = row("α, L", lengths.map(|gamma| format!("γ = {gamma}")));
    let rows: Vec<_> = pairs()
        .map(|(alpha, ratio)| {
            let cells = lengths.map(|gamma| format!("{:.3}", speedup(alpha, ratio, gamma)));
            row(format!("{alpha}, {ratio}"), cells)
        })
        .collect();
    let numbers = pairs().map(|(alpha, ratio)| {
        let speeds: Vec<f64> = (1..=LONGEST).map(|gamma| speedup(alpha, ratio, gamma)).collect();
        json!({ "alpha": alpha, "costRatio": ratio, "speedups": speeds })
    });
    Report {
        text: "S_inf by draft length, from eq. 11. The paper draws it.\n\n".to_owned() + &markdown(&head, &rows),
        numbers: numbers.collect(),
        svg: Some(curves::svg(&ALPHAS.map(panel))),
    }
}

pub fn table1() -> Report {
    let cell = |alpha: f64, ratio: f64, printed: &str| {
        let star = if speculates(alpha, ratio) { "" } else { "*" };
        let ours = format!("{}{star}", optimal_draft_length(alpha, ratio, u32::MAX));
        if ours == printed { ours } else { format!("{ours} (printed: {printed})") }
    };
    let rows: Vec<_> = ALPHAS
        .iter()
        .zip(TABLE_1)
        .map(|(&alpha, printed)| {
            row(alpha, COST_RATIOS.iter().zip(printed).map(|(&ratio, printed)| cell(alpha, ratio, printed)))
        })
        .collect();
    let numbers = pairs().map(|(alpha, ratio)| {
        let gamma = optimal_draft_length(alpha, ratio, u32::MAX);
        json!({ "alpha": alpha, "costRatio": ratio, "draftLength": gamma, "speculates": speculates(alpha, ratio) })
    });
    let lengths = |ratio| ALPHAS.map(|alpha| f64::from(optimal_draft_length(alpha, ratio, u32::MAX))).to_vec();
    let groups = COST_RATIOS.map(|ratio| (format!("L = {ratio}"), lengths(ratio))).into();
    Report {
        text: "γ* by ODLD; * where AS² has the target alone. Where α = L, S_inf is 1; the paper, by rounding, stars \
               (0.6, 0.6) and not (0.4, 0.4).\n\n"
            .to_owned()
            + &markdown(&row("α \\ L", COST_RATIOS), &rows),
        numbers: numbers.collect(),
        svg: Some(chart::single("γ*", &["α = 0.4", "0.6", "0.8"], groups)),
    }
}

/// α by K, at both temperatures of the target.
struct Acceptance {
    support_sizes: Vec<u32>,
    rates: [Vec<Estimate>; 2],
}

impl Acceptance {
    fn measure(laboratory: &Laboratory) -> Result<Self, Failure> {
        let vocabulary = laboratory.vocabulary() as u32;
        let mut support_sizes: Vec<u32> =
            [1, 3, 10, 32, 100, 320, 1000, 3200, 32000].into_iter().filter(|&size| size < vocabulary).collect();
        support_sizes.push(vocabulary);
        laboratory.say("reading a text that neither model wrote");
        let texts = laboratory.held_out()?;
        let mut sums = [(); 2].map(|()| vec![Vec::new(); support_sizes.len()]);
        for text in &texts {
            let mut shares = [(); 2].map(|()| vec![0.0; support_sizes.len()]);
            for rows in text {
                let q = probabilities(&rows.draft, 1.0)?;
                let mut order: Vec<usize> = (0..q.len()).collect();
                order.sort_by(|&a, &b| q[b].total_cmp(&q[a]));
                for (shares, temperature) in shares.iter_mut().zip(TEMPERATURES) {
                    let p = probabilities(&rows.target, temperature)?;
                    for (share, &size) in shares.iter_mut().zip(&support_sizes) {
                        *share += overlap(&q, &p, &order[..size as usize]);
                    }
                }
            }
            for (sums, shares) in sums.iter_mut().zip(shares) {
                for (sums, share) in sums.iter_mut().zip(shares) {
                    sums.push((share, text.len() as f64));
                }
            }
        }
        let rates = sums.map(|sums| sums.iter().map(|pairs| Estimate::of(pairs)).collect());
        Ok(Self { support_sizes, rates })
    }

    /// α at a K that was measured.
    fn at(&self, temperature: usize, support_size: u32) -> f64 {
        let index = self.support_sizes.iter().position(|&size| size == support_size);
        index.map_or(f64::NAN, |index| self.rates[temperature][index].value)
    }
}

/// A draft's cost L at some K of V tokens.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// Number of tokens that are kept, K.
    size: u32,
    /// c + b·K/V, as in Table II: what travels are probabilities.
    probabilities: f64,
    /// L with the ids as well, ⌈log₂ V⌉ bits beside each probability; the whole vocabulary needs none.
    with_ids: f64,
}

impl Cost {
    fn new(size: u32, vocabulary: u32) -> Self {
        let id_bits = if size < vocabulary { u32::BITS - (vocabulary - 1).leading_zeros() } else { 0 };
        let more = 1.0 + f64::from(id_bits) / f64::from(PROBABILITY_BITS);
        let ratio = |transmission| cost_ratio(DRAFT_COST, transmission, size, vocabulary);
        Self { size, probabilities: ratio(TRANSMISSION_COST), with_ids: ratio(TRANSMISSION_COST * more) }
    }

    /// The paper's K below the size of a vocabulary, and all of it: K and V are of one vocabulary.
    fn of(vocabulary: u32) -> Vec<Self> {
        let sizes = SUPPORT_SIZES.into_iter().filter(|&size| size < vocabulary).chain([vocabulary]);
        sizes.map(|size| Self::new(size, vocabulary)).collect()
    }

    /// L without ids and with them.
    fn ratios(&self) -> [f64; 2] {
        [self.probabilities, self.with_ids]
    }
}

/// Σ min(q_K, p), where the K tokens are those at `kept`.
fn overlap(q: &[f64], p: &[f64], kept: &[usize]) -> f64 {
    let mass: f64 = kept.iter().map(|&id| q[id]).sum();
    kept.iter().map(|&id| (q[id] / mass).min(p[id])).sum()
}

pub fn figure3(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    let measured = Acceptance::measure(laboratory)?;
    let rows: Vec<_> = measured
        .support_sizes
        .iter()
        .enumerate()
        .map(|(index, size)| {
            let cell = |rates: &Vec<Estimate>| format!("{:.3}", rates[index]);
            row(size, measured.rates.iter().map(cell))
        })
        .collect();
    let curve = |(rates, temperature): (&Vec<Estimate>, f32)| Curve {
        name: format!("T = {temperature}"),
        points: measured
            .support_sizes
            .iter()
            .zip(rates)
            .map(|(&size, rate)| Mark { x: f64::from(size).log10(), y: rate.value, error: rate.error })
            .collect(),
    };
    let panel = Panel {
        title: "α by K".to_owned(),
        across: "log₁₀ K",
        up: "α",
        bounds: Bounds { x: (0.0, 5.0), y: (0.0, 1.0) },
        curves: measured.rates.iter().zip(TEMPERATURES).map(curve).collect(),
    };
    let rates = measured.rates.iter().zip(TEMPERATURES);
    let numbers = rates.map(|(rates, temperature)| {
        json!({ "temperature": temperature, "supportSizes": measured.support_sizes, "acceptanceRates": rates })
    });
    Ok(Report {
        text:
            "The draft model at T = 1. ± is one standard error over paragraphs. The paper draws it, and says: at T = 0 \
               the smaller K, the larger α; at T = 1 the other way round.\n\n"
                .to_owned()
                + &markdown(&row("K", ["target at T = 0", "target at T = 1"]), &rows),
        numbers: Value::Array(numbers.collect()),
        svg: Some(curves::svg(&[panel])),
    })
}

pub fn table2(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    let measured = Acceptance::measure(laboratory)?;
    let printed = SUPPORT_SIZES.map(|size| Cost::new(size, VOCABULARY_SIZE));
    let paper = [
        row("L", printed.map(|cost| format!("{:.4}", cost.probabilities))),
        row("L, printed", TABLE_2[0]),
        row("L with ids", printed.map(|cost| format!("{:.4}", cost.with_ids))),
        row("γ* at T = 0, printed", TABLE_2[1]),
        row("γ* at T = 1, printed", TABLE_2[2]),
    ];
    let costs = Cost::of(laboratory.vocabulary() as u32);
    let best = |temperature: usize, ids: usize| -> Vec<u32> {
        let best =
            |cost: &Cost| optimal_draft_length(measured.at(temperature, cost.size), cost.ratios()[ids], u32::MAX);
        costs.iter().map(best).collect()
    };
    let lengths = [best(0, 0), best(0, 1), best(1, 0), best(1, 1)];
    let names = ["γ* at T = 0", "γ* at T = 0, with ids", "γ* at T = 1", "γ* at T = 1, with ids"];
    let mut own: Vec<_> = [("L", 0), ("L with ids", 1)]
        .map(|(name, ids)| row(name, costs.iter().map(|cost| format!("{:.4}", cost.ratios()[ids]))))
        .into();
    own.extend(names.iter().zip(&lengths).map(|(name, lengths)| row(name, lengths)));
    let sizes: Vec<u32> = costs.iter().map(|cost| cost.size).collect();
    let parsed = |printed: &str| printed.parse().unwrap_or(f64::NAN);
    let printed_bars = (0..SUPPORT_SIZES.len())
        .map(|i| (format!("K = {}", SUPPORT_SIZES[i]), [TABLE_2[1][i], TABLE_2[2][i]].map(parsed).to_vec()));
    let own_bars = sizes
        .iter()
        .enumerate()
        .map(|(i, size)| (format!("K = {size}"), vec![f64::from(lengths[0][i]), f64::from(lengths[2][i])]));
    let series = vec!["T = 0", "T = 1"];
    let charts = [
        Chart {
            title: "γ*, printed".to_owned(),
            series: series.clone(),
            groups: printed_bars.collect(),
            ..Chart::default()
        },
        Chart { title: "γ* of our pair".to_owned(), series, groups: own_bars.collect(), ..Chart::default() },
    ];
    Ok(Report {
        text: format!(
            "L = c + b·K/V with c = {DRAFT_COST}, b = {TRANSMISSION_COST}, V = {VOCABULARY_SIZE}; the paper's text swaps b \
             and c. It counts {PROBABILITY_BITS} bits of each of the K tokens and nothing for their ids, of which each \
             takes ⌈log₂ V⌉ bits more.\n\n{}\nOurs: γ* is ODLD's for the α of Figure 3, with the L of the same K and \
             the same V = {}.\n\n",
            markdown(&row("K", SUPPORT_SIZES), &paper),
            laboratory.vocabulary()
        ) + &markdown(&row("K", &sizes), &own),
        numbers: json!({
            "supportSizes": sizes, "costRatios": costs.iter().map(Cost::ratios).collect::<Vec<_>>(),
            "greedy": lengths[0], "sampled": lengths[2], "greedyWithIds": lengths[1], "sampledWithIds": lengths[3],
            "ofThePaper": { "supportSizes": SUPPORT_SIZES, "costRatios": printed.map(|cost| cost.ratios()) },
        }),
        svg: Some(chart::svg(&charts)),
    })
}

pub fn figure4(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    let measured = Acceptance::measure(laboratory)?;
    let costs = Cost::of(laboratory.vocabulary() as u32);
    let lines: Vec<(String, Vec<f64>)> = [(0, 0), (1, 0), (0, 1), (1, 1)]
        .map(|(temperature, ids)| {
            let speed = |cost: &Cost| {
                let (alpha, ratio) = (measured.at(temperature, cost.size), cost.ratios()[ids]);
                speedup(alpha, ratio, optimal_draft_length(alpha, ratio, u32::MAX))
            };
            let with = if ids == 1 { ", with ids" } else { "" };
            (format!("T = {}{with}", TEMPERATURES[temperature]), costs.iter().map(speed).collect())
        })
        .into();
    let rows: Vec<_> =
        lines.iter().map(|(name, speeds)| row(name, speeds.iter().map(|speed| format!("{speed:.3}")))).collect();
    let curve = |(name, speeds): &(String, Vec<f64>)| Curve {
        name: name.clone(),
        points: costs
            .iter()
            .zip(speeds)
            .map(|(cost, &speed)| Mark { x: f64::from(cost.size).log10(), y: speed, error: 0.0 })
            .collect(),
    };
    let panel = Panel {
        title: "S_inf at γ* by K".to_owned(),
        across: "log₁₀ K",
        up: "S_inf",
        bounds: Bounds { x: (0.0, 5.0), y: (0.0, 3.0) },
        curves: lines.iter().map(curve).collect(),
    };
    let sizes: Vec<u32> = costs.iter().map(|cost| cost.size).collect();
    Ok(Report {
        text: format!(
            "S_inf at γ*, with the α of Figure 3 and L = c + b·K/V of the same K and V = {}; with ids, each of the K \
             tokens takes ⌈log₂ V⌉ bits more. The paper draws it without them, and says that K = 320 of \
             {VOCABULARY_SIZE} is the best.\n\n",
            laboratory.vocabulary()
        ) + &markdown(&row("target \\ K", &sizes), &rows),
        numbers: json!({ "supportSizes": sizes, "speedUps": lines }),
        svg: Some(curves::svg(&[panel])),
    })
}

fn pairs() -> impl Iterator<Item = (f64, f64)> {
    ALPHAS.into_iter().flat_map(|alpha| COST_RATIOS.into_iter().map(move |ratio| (alpha, ratio)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: q = (½, ¼, ¼), p = (¼, ¼, ½). All kept: ¾. Two kept: q₂ = (⅔, ⅓), so ¼ + ¼. One kept: ¼.
    #[test]
    fn acceptance_is_the_overlap_of_what_is_drawn_from() {
        let (q, p) = ([0.5, 0.25, 0.25], [0.25, 0.25, 0.5]);
        for (kept, expected) in [(&[0, 1, 2][..], 0.75), (&[0, 1], 0.5), (&[0], 0.25)] {
            assert!((overlap(&q, &p, kept) - expected).abs() < 1e-12, "{kept:?}");
        }
    }

    /// Table II's L, and L with ⌈log₂ 32000⌉ = 15 bits of an id beside each of 16 bits.
    #[test]
    fn ids_are_paid_for() {
        let printed = SUPPORT_SIZES.map(|size| format!("{:.4}", Cost::new(size, VOCABULARY_SIZE).probabilities));
        assert_eq!(printed, ["0.0700", "0.0702", "0.0723", "0.0930", "0.3000"]);
        let with_ids = [320, 3200, 32000].map(|size| format!("{:.4}", Cost::new(size, VOCABULARY_SIZE).with_ids));
        assert_eq!(with_ids, ["0.0745", "0.1146", "0.3000"]);
    }

    /// K and V are of one vocabulary: 320 of 4096 tokens are a thirteenth of it, not a hundredth.
    #[test]
    fn a_k_is_a_share_of_the_vocabulary_that_its_alpha_is_of() {
        let costs = Cost::of(4096);
        assert_eq!(costs.iter().map(|cost| cost.size).collect::<Vec<_>>(), [3, 32, 320, 3200, 4096]);
        assert_eq!(format!("{:.4}", costs[2].probabilities), "0.0880");
        assert_eq!(format!("{:.4}", costs[4].probabilities), "0.3000");
    }

    /// Every printed cell but the one that is rounding.
    #[test]
    fn table_1_is_the_printed_one() {
        let text = table1().text;
        assert_eq!(text.matches("printed").count(), 1, "{text}");
        assert!(text.contains("1* (printed: 1)"), "{text}");
    }
}
