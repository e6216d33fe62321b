//! The chance that a guess of the draft model is the target's token.
//!
//! The draft model's own probability q of its guess is no such chance: under the shared noise both models often choose
//! the same unlikely token. So the chance is a logistic regression, `1 / (1 + exp(-(a + b·√q + c·q)))`, whose weights
//! are estimated as the text is written, by the extended Kalman filter: a Gaussian belief, an update with each compared
//! guess, and a little doubt added each time, so that recent text weighs more. A session compares a hundred guesses in
//! a few texts; three weights are known by then, where a share for each of a dozen bins of q is not.
//! The chance that several guesses in a row hold is the product of theirs, because each is compared only where those
//! before it were right.

const INPUTS: usize = 3;
type Vector = [f64; INPUTS];

/// Weights expected before anything was compared. With the built-in pair at T = 0.7 guesses of q = 0.01, 0.08, 0.23,
/// 0.38 and 0.67 are right at a rate of 0.55, 0.63, 0.71, 0.79 and 1.
const PRIOR: Vector = [0.0, 3.0, 0.0];
/// Variances of the weights before anything was compared.
const DOUBT: Vector = [1.0, 4.0, 4.0];
/// Variance that each compared guess adds to each weight. In the long run the last 500 guesses count.
const DRIFT: f64 = 2e-5;
/// Probability that stands for one that is not known.
const UNKNOWN: f64 = 0.02;

/// Logistic regression of right guesses on the root of the draft model's probability of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    weights: Vector,
    covariance: [Vector; INPUTS],
}

impl Default for Calibration {
    fn default() -> Self {
        Self { weights: PRIOR, covariance: [[DOUBT[0], 0.0, 0.0], [0.0, DOUBT[1], 0.0], [0.0, 0.0, DOUBT[2]]] }
    }
}

impl Calibration {
    /// Records a guess to which the draft model gave the probability `q`, if that is known, and whether the target
    /// wrote the same token.
    pub fn observe(&mut self, q: Option<f64>, is_right: bool) {
        let (x, chance) = (inputs(q), self.chance(q));
        let px = self.covariance.map(|row| dot(row, x));
        let slope = chance * (1.0 - chance);
        let scale = 1.0 / (1.0 + slope * dot(px, x));
        for row in 0..INPUTS {
            self.weights[row] += px[row] * scale * (f64::from(is_right) - chance);
            for column in 0..INPUTS {
                self.covariance[row][column] -= slope * scale * px[row] * px[column];
            }
            self.covariance[row][row] = (self.covariance[row][row] + DRIFT).min(DOUBT[row]);
        }
    }

    /// Chance that a guess of probability `q` is the target's token, if all guesses before it are.
    pub fn chance(&self, q: Option<f64>) -> f64 {
        1.0 / (1.0 + (-dot(self.weights, inputs(q))).exp())
    }
}

/// Inputs of the regression; what is no probability counts as 1.
fn inputs(q: Option<f64>) -> Vector {
    let q = q.map_or(UNKNOWN, |q| if q.is_nan() { 1.0 } else { q.clamp(0.0, 1.0) });
    [1.0, q.sqrt(), q]
}

fn dot(a: Vector, b: Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Randomness;

    #[test]
    fn what_is_no_probability_counts_as_one() {
        let calibration = Calibration::default();
        assert_eq!(calibration.chance(Some(f64::NAN)), calibration.chance(Some(1.0)));
        assert_eq!(calibration.chance(Some(7.0)), calibration.chance(Some(1.0)));
        assert_eq!(calibration.chance(Some(-7.0)), calibration.chance(Some(0.0)));
    }

    /// A hundred guesses of a draft that is right at a rate of 0.25 + 0.7 q are enough to know it within 0.1.
    #[test]
    fn a_hundred_guesses_suffice() {
        let mut off = 0.0;
        for seed in 0..50 {
            let mut random = Randomness::edge(seed);
            let mut calibration = Calibration::default();
            for _ in 0..100 {
                let q = random.unit();
                calibration.observe(Some(q), random.unit() < 0.25 + 0.7 * q);
            }
            for q in [0.1, 0.3, 0.5, 0.7, 0.9] {
                off += (calibration.chance(Some(q)) - 0.25 - 0.7 * q).abs() / 250.0;
            }
        }
        assert!(off < 0.1, "{off}");
    }

    /// A draft model that is right with the probability (q + q²) / 2 is believed that, not q. Predicted and measured
    /// shares agree within 0.06 in every bin; the draft's own q does not pass the same test.
    #[test]
    fn chances_become_the_measured_shares() {
        let mut random = Randomness::edge(3);
        let mut calibration = Calibration::default();
        let mut draw = || {
            let q = random.unit();
            (q, random.unit() < f64::midpoint(q, q * q))
        };
        for _ in 0..20_000 {
            let (q, is_right) = draw();
            calibration.observe(Some(q), is_right);
        }
        let mut of_bins = [[0.0; 4]; 10];
        for _ in 0..20_000 {
            let (q, is_right) = draw();
            let bin = &mut of_bins[(q * 10.0) as usize];
            for (sum, value) in bin.iter_mut().zip([1.0, f64::from(is_right), calibration.chance(Some(q)), q]) {
                *sum += value;
            }
        }
        let off =
            |which: usize| of_bins.map(|bin| ((bin[which] - bin[1]) / bin[0]).abs()).into_iter().fold(0.0, f64::max);
        assert!(off(2) < 0.06, "calibrated: {}", off(2));
        assert!(off(3) > 0.06, "the planted error, the draft's own probability, is caught");
    }

    #[test]
    fn recent_guesses_weigh_more() {
        let mut calibration = Calibration::default();
        (0..100_000).for_each(|_| calibration.observe(None, true));
        (0..2_048).for_each(|_| calibration.observe(None, false));
        assert!(calibration.chance(None) < 0.3);
    }
}
