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
    chart,
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

    /// α at the paper's K, of which those that are the whole vocabulary or more are ours.
    fn at(&self, temperature: usize, support_size: u32) -> f64 {
        let index = self.support_sizes.iter().position(|&size| size >= support_size);
        self.rates[temperature][index.unwrap_or(self.support_sizes.len() - 1)].value
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
    let ratios = SUPPORT_SIZES.map(|size| cost_ratio(DRAFT_COST, TRANSMISSION_COST, size, VOCABULARY_SIZE));
    let best = |temperature: usize| {
        let best =
            |(&size, &ratio): (&u32, &f64)| optimal_draft_length(measured.at(temperature, size), ratio, u32::MAX);
        SUPPORT_SIZES.iter().zip(&ratios).map(best).collect::<Vec<u32>>()
    };
    let (greedy, sampled) = (best(0), best(1));
    let rows = [
        row("L", ratios.map(|ratio| format!("{ratio:.4}"))),
        row("L, printed", TABLE_2[0]),
        row("γ* at T = 0", &greedy),
        row("γ* at T = 0, printed", TABLE_2[1]),
        row("γ* at T = 1", &sampled),
        row("γ* at T = 1, printed", TABLE_2[2]),
    ];
    let parsed = |printed: &str| printed.parse().unwrap_or(f64::NAN);
    let groups = (0..SUPPORT_SIZES.len()).map(|i| {
        let [at_zero, at_one] = [TABLE_2[1][i], TABLE_2[2][i]].map(parsed);
        (format!("K = {}", SUPPORT_SIZES[i]), vec![f64::from(greedy[i]), at_zero, f64::from(sampled[i]), at_one])
    });
    let series = ["T = 0", "T = 0, printed", "T = 1", "T = 1, printed"];
    Ok(Report {
        text: format!(
            "L = c + b·K/V with c = {DRAFT_COST}, b = {TRANSMISSION_COST}, V = {VOCABULARY_SIZE}; the paper's text swaps b \
             and c. γ* is ODLD's for the α of Figure 3, which is our pair's (V = {}; a K above that keeps everything) \
             and in the paper's case that of two Llamas.\n\n",
            laboratory.vocabulary()
        ) + &markdown(&row("K", SUPPORT_SIZES), &rows),
        numbers: json!({ "supportSizes": SUPPORT_SIZES, "costRatios": ratios, "greedy": greedy, "sampled": sampled }),
        svg: Some(chart::single("γ*", &series, groups.collect())),
    })
}

pub fn figure4(laboratory: &mut Laboratory) -> Result<Report, Failure> {
    let measured = Acceptance::measure(laboratory)?;
    let point = |temperature: usize, size: u32| {
        let (alpha, ratio) =
            (measured.at(temperature, size), cost_ratio(DRAFT_COST, TRANSMISSION_COST, size, VOCABULARY_SIZE));
        speedup(alpha, ratio, optimal_draft_length(alpha, ratio, u32::MAX))
    };
    let speeds = [0, 1].map(|temperature| SUPPORT_SIZES.map(|size| point(temperature, size)));
    let rows = [0, 1]
        .map(|index| row(format!("T = {}", TEMPERATURES[index]), speeds[index].map(|speed| format!("{speed:.3}"))));
    let curve = |index: usize| Curve {
        name: format!("T = {}", TEMPERATURES[index]),
        points: SUPPORT_SIZES
            .iter()
            .zip(speeds[index])
            .map(|(&size, speed)| Mark { x: f64::from(size).log10(), y: speed, error: 0.0 })
            .collect(),
    };
    let panel = Panel {
        title: "S_inf at γ* by K".to_owned(),
        across: "log₁₀ K",
        up: "S_inf",
        bounds: Bounds { x: (0.0, 5.0), y: (0.0, 3.0) },
        curves: vec![curve(0), curve(1)],
    };
    Ok(Report {
        text: "S_inf at γ*, with the α of Figure 3 and the L of Table II. The paper draws it, and says that K = 320 is \
               the best.\n\n"
            .to_owned() + &markdown(&row("target \\ K", SUPPORT_SIZES), &rows),
        numbers: json!({ "supportSizes": SUPPORT_SIZES, "greedy": speeds[0], "sampled": speeds[1] }),
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

    /// Every printed cell but the one that is rounding.
    #[test]
    fn table_1_is_the_printed_one() {
        let text = table1().text;
        assert_eq!(text.matches("printed").count(), 1, "{text}");
        assert!(text.contains("1* (printed: 1)"), "{text}");
    }
}
