//! The figures of a training as text for people.

use super::{report::Report, roc::Rates};

impl Report {
    /// The figures as text: a table, the curve as numbers and the curve in characters.
    pub fn text(&self) -> String {
        let Rates { threshold, true_positive, false_positive } = self.at_threshold;
        let exact = self.at_threshold_exact;
        let mut out = format!(
            "{} positions, {} of them in {} held-out texts, at T = {}, top-k {}, top-p {}\n\n",
            self.positions, self.test_positions, self.test_texts, self.temperature, self.top_k, self.top_p
        );
        let mut row = |name: &str, value: String| out.push_str(&format!("{name:<42} {value}\n"));
        row(&format!("acceptable tokens (q <= {} p)", self.lambda), format!("{:.3}", self.base_rate));
        row("AU-ROC of the gate", format!("{:.3}", self.au_roc));
        for kind in &self.kinds {
            let area = kind.au_roc.map_or("-".to_owned(), |area| format!("{area:.3}"));
            let text = format!("{area} ({:.3} acceptable, {} positions)", kind.base_rate, kind.positions);
            row(&format!("  in texts of kind {:?}", kind.kind).to_lowercase(), text);
        }
        row(&format!("eta_TP, eta_FP at tau = {threshold}"), format!("{true_positive:.3}, {false_positive:.3}"));
        row("the same for q <= p", format!("{:.3}, {:.3}", exact.true_positive, exact.false_positive));
        row("tokens passed", format!("{:.3}", self.measured.passed));
        row("1 - TV(p, q): acceptance, all verified", format!("{:.3}", self.acceptance_verified));
        row("1 - (1 - eta_FP) TV (Theorem A.4)", format!("{:.3}", self.acceptance_theory));
        row("  measured", format!("{:.3}", self.measured.acceptance));
        row("eta_FP TV: distance from p (Theorem 3.1)", format!("{:.3}", self.distance_theory));
        row("  measured", format!("{:.3}", self.measured.distance));
        let stop = self.stop;
        row("AU-ROC of the stop head", format!("{:.3}", stop.au_roc));
        row("  mean score, mean label", format!("{:.3}, {:.3}", stop.mean_score, stop.mean_label));
        row("  cross-entropy, of the mean label alone", format!("{:.3}, {:.3}", stop.loss, stop.base_loss));
        out.push_str("\n   tau  eta_TP  eta_FP\n");
        for rates in self.curve.iter().step_by(2) {
            out.push_str(&format!(
                "{:>6.2}{:>8.3}{:>8.3}\n",
                rates.threshold, rates.true_positive, rates.false_positive
            ));
        }
        out.push('\n');
        out.push_str(&plot(&self.curve));
        out
    }
}

const PLOT_WIDTH: usize = 41;
const PLOT_HEIGHT: usize = 11;

/// The curve in characters: η_TP upwards over η_FP, with the diagonal of chance.
fn plot(curve: &[Rates]) -> String {
    let mut rows = [[' '; PLOT_WIDTH]; PLOT_HEIGHT];
    let mut mark = |x: f64, y: f64, mark| {
        let column = (x * (PLOT_WIDTH - 1) as f64).round() as usize;
        let row = ((1.0 - y) * (PLOT_HEIGHT - 1) as f64).round() as usize;
        rows[row.min(PLOT_HEIGHT - 1)][column.min(PLOT_WIDTH - 1)] = mark;
    };
    for step in 0..PLOT_WIDTH {
        let x = step as f64 / (PLOT_WIDTH - 1) as f64;
        mark(x, x, '.');
    }
    for rates in curve {
        mark(rates.false_positive, rates.true_positive, '*');
    }
    let lines: String = rows
        .iter()
        .enumerate()
        .map(|(index, row)| {
            let label = if index == 0 {
                "eta_TP 1"
            } else if index == PLOT_HEIGHT - 1 {
                "0"
            } else {
                ""
            };
            format!("{label:>8} |{}\n", row.iter().collect::<String>().trim_end())
        })
        .collect();
    format!("{lines}{:>9}+{}\n{:>10}0{:>40}\n", "", "-".repeat(PLOT_WIDTH), "", "1 eta_FP")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plot_goes_from_corner_to_corner() {
        let at = |x, y| Rates { threshold: 0.5, true_positive: y, false_positive: x };
        let plot = plot(&[at(0.0, 0.0), at(0.25, 0.8), at(1.0, 1.0)]);
        let lines: Vec<&str> = plot.lines().collect();
        assert!(lines[0].ends_with('*') && lines[0].starts_with("eta_TP 1 |"), "{plot}");
        assert_eq!(lines[2].find('*'), Some(10 + 10), "{plot}");
        assert_eq!(&lines[10][..11], "       0 |*", "{plot}");
    }
}
