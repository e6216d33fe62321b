//! The chance that a guess of the draft model is the target's token.
//!
//! The draft model's own probability q of its guess is no such chance: under the shared noise both models often choose
//! the same unlikely token. The best sign is the [margin](Clarity::margin) of the choice: where the next best token
//! came close, a target that differs a little chooses that one. So the chance is a logistic regression,
//! `1 / (1 + exp(-(a + b·√margin + c·√q + d·ln(1 + r))))`, whose weights are estimated as the text is written, by the
//! extended Kalman filter: a Gaussian belief, an update with each compared guess, and a little doubt added each time,
//! so that recent text weighs more. A session compares a hundred guesses in a few texts; four weights are known by
//! then, where a share for each of a dozen bins is not.
//!
//! The chance that several guesses in a row hold is the product of theirs, because each is compared only where those
//! before it were right. They are not independent: where r guesses have held the text is easy to guess.

use core::array::from_fn;

/// Facts about a guess that are known when it is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clarity {
    /// Logarithm of the quotient by which the choice was ahead of the next best token, at least 0; infinite if no other
    /// token can follow.
    pub margin: f64,
    /// The draft model's own probability of the guess, before S(·).
    pub probability: f64,
    /// Number of guesses directly before it that are right, or would have to be.
    pub run: usize,
}

impl Clarity {
    /// The same guess after `run` guesses that are right, or would have to be.
    #[must_use]
    pub fn after(self, run: usize) -> Self {
        Self { run, ..self }
    }
}

const INPUTS: usize = 4;
type Vector = [f64; INPUTS];

/// Weights expected before anything was compared: between those of the built-in pair at T = 0.7 and at T = 1.
const PRIOR: Vector = [-1.7, 2.5, 1.0, 0.2];
/// Variances of the weights before anything was compared.
const DOUBT: Vector = [1.0, 4.0, 4.0, 0.25];
/// Variance that each compared guess adds to each weight. In the long run the last 500 guesses count.
const DRIFT: f64 = 2e-5;
/// Stands for what is not known: a guess as clear as the usual one.
const UNKNOWN: Clarity = Clarity { margin: 0.95, probability: 0.1, run: 0 };
/// The largest margin that makes a difference.
const CLEAR: f64 = 12.0;
/// The longest run that makes a difference.
const LONG: usize = 8;

/// Logistic regression of right guesses on their clarity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    weights: Vector,
    covariance: [Vector; INPUTS],
}

impl Default for Calibration {
    fn default() -> Self {
        Self {
            weights: PRIOR,
            covariance: from_fn(|row| from_fn(|column| if row == column { DOUBT[row] } else { 0.0 })),
        }
    }
}

impl Calibration {
    /// A calibration that begins with weights measured for a draft: of the constant, √margin and √q.
    #[must_use]
    pub fn beginning_with([constant, margin, probability]: [f64; 3]) -> Self {
        Self { weights: [constant, margin, probability, PRIOR[3]], ..Self::default() }
    }

    /// Records a guess, with its clarity if that is known, and whether the target wrote the same token.
    pub fn observe(&mut self, clarity: Option<Clarity>, is_right: bool) {
        let (x, chance) = (inputs(clarity), self.chance(clarity));
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

    /// Chance that a guess is the target's token, if all guesses before it are.
    pub fn chance(&self, clarity: Option<Clarity>) -> f64 {
        1.0 / (1.0 + (-dot(self.weights, inputs(clarity))).exp())
    }
}

/// Inputs of the regression; what is no number counts as clear.
fn inputs(clarity: Option<Clarity>) -> Vector {
    let Clarity { margin, probability, run } = clarity.unwrap_or(UNKNOWN);
    let within = |value: f64, most: f64| if value.is_nan() { most } else { value.clamp(0.0, most) };
    [1.0, within(margin, CLEAR).sqrt(), within(probability, 1.0).sqrt(), (run.min(LONG) as f64).ln_1p()]
}

fn dot(a: Vector, b: Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Randomness;

    fn clarity(margin: f64, probability: f64) -> Option<Clarity> {
        Some(Clarity { margin, probability, run: 0 })
    }

    #[test]
    fn what_is_out_of_range_counts_as_its_end() {
        let chance = |margin, probability| Calibration::default().chance(clarity(margin, probability));
        assert_eq!(chance(f64::NAN, f64::NAN), chance(CLEAR, 1.0));
        assert_eq!(chance(f64::INFINITY, 7.0), chance(CLEAR, 1.0));
        assert_eq!(chance(-7.0, -7.0), chance(0.0, 0.0));
    }

    /// Guesses of the built-in draft at T = 0.7: shares of right ones by margin.
    #[test]
    fn it_begins_with_what_a_usual_draft_has() {
        let calibration = Calibration::default();
        for (margin, probability, right) in [(0.07, 0.09, 0.33), (0.4, 0.1, 0.53), (1.1, 0.14, 0.75), (3.0, 0.23, 0.95)]
        {
            let chance = calibration.chance(clarity(margin, probability));
            assert!((chance - right).abs() < 0.1, "{chance} where {right} are right");
        }
        assert!((calibration.chance(None) - 0.7).abs() < 0.06, "{}", calibration.chance(None));
    }

    /// Some passages are easy to guess and others hard, so that a guess after three right ones is right more often. The
    /// chance that four in a row hold is then more than the product of four usual chances.
    #[test]
    fn guesses_after_right_ones_are_right_more_often() {
        let mut random = Randomness::edge(11);
        let mut calibration = Calibration::default();
        let (mut lines, mut held, mut predicted) = (0.0, 0.0, 0.0);
        for line in 0..3000 {
            let rate = if random.unit() < 0.5 { 0.3 } else { 0.9 };
            let line_chance: f64 =
                (0..4).map(|run| calibration.chance(clarity(1.0, 0.1).map(|c| c.after(run)))).product();
            let right = (0..4).take_while(|_| random.unit() < rate).count();
            for run in 0..4.min(right + 1) {
                calibration.observe(clarity(1.0, 0.1).map(|c| c.after(run)), run < right);
            }
            if line >= 500 {
                (lines, held, predicted) =
                    (lines + 1.0, held + f64::from(u8::from(right == 4)), predicted + line_chance);
            }
        }
        assert!((predicted / lines - held / lines).abs() < 0.03, "{} where {} hold", predicted / lines, held / lines);
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
                calibration.observe(clarity(1.0, q), random.unit() < 0.25 + 0.7 * q);
            }
            for q in [0.1, 0.3, 0.5, 0.7, 0.9] {
                off += (calibration.chance(clarity(1.0, q)) - 0.25 - 0.7 * q).abs() / 250.0;
            }
        }
        assert!(off < 0.1, "{off}");
    }

    /// Under the shared noise a token wins by the margin of an exponential race, and holds where the target's logits
    /// differ by less. Predicted and measured shares agree within 0.05 in every bin; a calibration that sees the
    /// draft's probability alone cannot tell these guesses apart.
    #[test]
    fn chances_become_the_measured_shares() {
        let mut random = Randomness::edge(3);
        let (mut calibration, mut blind) = (Calibration::default(), Calibration::default());
        let mut draw = || {
            let margin = -2.0 * (1.0 - random.unit()).ln();
            // A logistic disturbance.
            let u = random.unit();
            (margin, (u / (1.0 - u)).ln() < 2.0 * margin - 0.5)
        };
        let mut of_bins = [[0.0; 4]; 10];
        for count in 0..40_000 {
            let (margin, is_right) = draw();
            let (seen, unseen) = (clarity(margin, 0.2), clarity(UNKNOWN.margin, 0.2));
            if count >= 20_000 {
                let bin = &mut of_bins[((margin * 2.0) as usize).min(9)];
                let chances = [calibration.chance(seen), blind.chance(unseen)];
                for (sum, value) in bin.iter_mut().zip([1.0, f64::from(is_right), chances[0], chances[1]]) {
                    *sum += value;
                }
            }
            calibration.observe(seen, is_right);
            blind.observe(unseen, is_right);
        }
        let off =
            |which: usize| of_bins.map(|bin| ((bin[which] - bin[1]) / bin[0]).abs()).into_iter().fold(0.0, f64::max);
        assert!(off(2) < 0.05, "calibrated: {}", off(2));
        assert!(off(3) > 0.2, "the planted error, a calibration without the margin, is caught: {}", off(3));
    }

    #[test]
    fn recent_guesses_weigh_more() {
        let mut calibration = Calibration::default();
        (0..100_000).for_each(|_| calibration.observe(None, true));
        (0..2_048).for_each(|_| calibration.observe(None, false));
        assert!(calibration.chance(None) < 0.3);
    }
}
