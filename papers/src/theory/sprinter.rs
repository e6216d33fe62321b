//! SPRINTER (Zhong et al., "Speeding up Speculative Decoding via Sequential Approximate Verification"): what a gate
//! that passes most tokens unverified does to the text and to the time.
//!
//! A token x drafted from q is *acceptable* for p if q(x) ≤ p(x). The gate passes acceptable tokens with probability
//! η_TP and others with η_FP, independently of everything else; at the first that it does not pass, the target
//! verifies that one by the exact rule. Theorems 3.3 and 3.4 suppose that the next r drafts are acceptable, and none
//! after them. Real gates err more on some tokens than on others, so their distributions differ from these.

use super::geometric_sum;

/// Error rates of a gate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GateRates {
    /// η_TP: how often it passes an acceptable token.
    pub true_positive: f64,
    /// η_FP: how often it passes one that is not.
    pub false_positive: f64,
}

impl GateRates {
    /// Distance of the committed token's distribution (1 − η_FP)·p + η_FP·q from p: η_FP·TV(p, q) (Theorem
    /// 3.1). It is p at η_FP = 0 and q at 1; η_TP is of no influence.
    pub fn output_distance(&self, total_variation: f64) -> f64 {
        self.false_positive * total_variation
    }

    /// E\[N\]: how many tokens are passed before the first that is not (Theorem 3.3, eq. 3; Figure 5), written as
    /// Σ η_TP^k for k from 1 to r, and [`expected_unacceptable`](Self::expected_unacceptable).
    ///
    /// r/(1 − η_FP) at most; infinite at η_FP = 1 unless η_TP^r = 0.
    pub fn expected_passed(&self, acceptable: u32) -> f64 {
        self.true_positive * geometric_sum(self.true_positive, acceptable) + self.expected_unacceptable(acceptable)
    }

    /// Expected unacceptable ones among those, η_TP^r·η_FP/(1 − η_FP): the "gap" of Figure 5. At most 1 if η_FP ≤ ½;
    /// infinite at η_FP = 1 unless η_TP^r = 0.
    pub fn expected_unacceptable(&self, acceptable: u32) -> f64 {
        let reached = power(self.true_positive, acceptable);
        if reached == 0.0 { 0.0 } else { reached * self.false_positive / (1.0 - self.false_positive) }
    }

    /// E\[T_stop\]: the time until the target is called, in the unit of `draft_time` (t_d, for one token); the gate's
    /// own time is neglected (Theorem 3.4, eq. 4; Figure 6). It is (E\[N\] + 1)·t_d: the token that is not passed is
    /// drafted too.
    ///
    /// Infinite where E\[N\] is, unless t_d = 0.
    pub fn expected_stopping_time(&self, acceptable: u32, draft_time: f64) -> f64 {
        if draft_time == 0.0 { 0.0 } else { (self.expected_passed(acceptable) + 1.0) * draft_time }
    }

    /// Rate of accepted drafts, passed or verified: 1 − (1 − η_FP)·TV(p, q) (Theorem A.4). At η_FP = 0 as often
    /// as in speculative decoding, at η_FP = 1 always.
    pub fn acceptance_rate(&self, total_variation: f64) -> f64 {
        1.0 - (1.0 - self.false_positive) * total_variation
    }
}

fn power(base: f64, exponent: u32) -> f64 {
    base.powf(f64::from(exponent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theory::{tests::distribution, total_variation};
    use outrider_speculation::sample::{End, Randomness};
    use proptest::prelude::*;

    fn gate() -> impl Strategy<Value = GateRates> {
        let rate = || prop_oneof![Just(0.0), Just(1.0), 0.0f64..1.0];
        (rate(), rate()).prop_map(|(true_positive, false_positive)| GateRates { true_positive, false_positive })
    }

    /// A mean of this number of draws is five standard deviations off once in two million runs; the seed is fixed.
    const DRAWS: u32 = 100_000;

    fn agrees(mean: f64, deviation: f64, expected: f64) -> bool {
        (mean - expected).abs() <= 5.0 * deviation / f64::from(DRAWS).sqrt()
    }

    /// All that the text says of Figures 5 and 6: r = 5, t_d = 0.1, and gaps of at most 1 and t_d while η_FP ≤ 0.5.
    #[test]
    fn figures_5_and_6_as_the_text_describes_them() {
        let at = |true_positive, false_positive| GateRates { true_positive, false_positive };
        for step in 0..=10 {
            let true_positive = f64::from(step) / 10.0;
            let (perfect, poor) = (at(true_positive, 0.0), at(true_positive, 0.5));
            let passed_gap = poor.expected_passed(5) - perfect.expected_passed(5);
            assert!((passed_gap - poor.expected_unacceptable(5)).abs() < 1e-12);
            assert!(passed_gap <= 1.0);
            let time_gap = poor.expected_stopping_time(5, 0.1) - perfect.expected_stopping_time(5, 0.1);
            assert!(time_gap <= 0.1 + 1e-12);
        }
        // Where both bounds are met: a gate that stops no acceptable token.
        assert_eq!((at(1.0, 0.0).expected_passed(5), at(1.0, 0.5).expected_passed(5)), (5.0, 6.0));
        assert!((at(1.0, 0.0).expected_stopping_time(5, 0.1) - 0.6).abs() < 1e-12);
        assert!((at(1.0, 0.5).expected_stopping_time(5, 0.1) - 0.7).abs() < 1e-12);
        assert!(at(1.0, 0.51).expected_unacceptable(5) > 1.0);
    }

    #[test]
    fn a_gate_that_passes_everything_never_stops() {
        let everything = GateRates { true_positive: 1.0, false_positive: 1.0 };
        assert_eq!(
            (everything.expected_passed(5), everything.expected_stopping_time(5, 0.1)),
            (f64::INFINITY, f64::INFINITY)
        );
        assert_eq!(everything.expected_stopping_time(5, 0.0), 0.0);
        let timid = GateRates { true_positive: 0.0, false_positive: 1.0 };
        assert_eq!((timid.expected_passed(5), timid.expected_passed(0)), (0.0, f64::INFINITY));
    }

    #[test]
    fn passed_tokens_agree_with_a_simulation() {
        for (true_positive, false_positive, acceptable) in [(0.9, 0.5, 5), (0.6, 0.2, 3), (0.95, 0.7, 0)] {
            let gate = GateRates { true_positive, false_positive };
            let mut randomness = Randomness::new(5, End::Edge);
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..DRAWS {
                let mut passed = 0;
                while randomness.unit() < if passed < acceptable { true_positive } else { false_positive } {
                    passed += 1;
                }
                sum += f64::from(passed);
                squares += f64::from(passed).powi(2);
            }
            let mean = sum / f64::from(DRAWS);
            let deviation = (squares / f64::from(DRAWS) - mean * mean).sqrt();
            assert!(agrees(mean, deviation, gate.expected_passed(acceptable)));
            // One token more or fewer acceptable would be noticed.
            assert!(!agrees(mean, deviation, gate.expected_passed(acceptable + 1)));
        }
    }

    #[test]
    fn the_acceptance_rate_agrees_with_a_simulation() {
        let (p, q) = ([0.5, 0.3, 0.2, 0.0], [0.1, 0.3, 0.2, 0.4]);
        let gate = GateRates { true_positive: 0.8, false_positive: 0.3 };
        let mut randomness = Randomness::new(5, End::Edge);
        let mut accepted = 0;
        for _ in 0..DRAWS {
            let x = randomness.draw(&q) as usize;
            let rate = if q[x] <= p[x] { gate.true_positive } else { gate.false_positive };
            let passed = randomness.unit() < rate;
            accepted += u32::from(passed || randomness.unit() * q[x] < p[x]);
        }
        let mean = f64::from(accepted) / f64::from(DRAWS);
        let distance = total_variation(&p, &q);
        assert!(agrees(mean, 0.5, gate.acceptance_rate(distance)), "{mean}");
        assert!(!agrees(mean, 0.5, 1.0 - distance), "speculative decoding's rate is another");
    }

    /// P(N = `passed`): the probability that `passed` tokens pass before the first that does not (Theorem 3.3).
    fn passed_probability(gate: GateRates, acceptable: u32, passed: u32) -> f64 {
        let GateRates { true_positive, false_positive } = gate;
        if passed < acceptable {
            power(true_positive, passed) * (1.0 - true_positive)
        } else {
            power(true_positive, acceptable) * power(false_positive, passed - acceptable) * (1.0 - false_positive)
        }
    }

    proptest! {
        /// Theorem 3.1 and A.4, by enumeration of what may happen to each draft.
        #[test]
        fn the_output_is_that_of_an_independent_gate(p in distribution(), q in distribution(), gate in gate()) {
            let distance = total_variation(&p, &q);
            let kept: Vec<f64> = (p.iter().zip(&q))
                .map(|(&p, &q)| {
                    let passed = if q <= p { gate.true_positive } else { gate.false_positive };
                    q * passed + (1.0 - passed) * q.min(p)
                })
                .collect();
            let accepted: f64 = kept.iter().sum();
            prop_assert!((accepted - gate.acceptance_rate(distance)).abs() < 1e-12);
            let mixed = |(p, q)| (1.0 - gate.false_positive) * p + gate.false_positive * q;
            let distribution: Vec<f64> = p.iter().zip(&q).map(mixed).collect();
            for (x, kept) in kept.iter().enumerate() {
                let residual = if distance > 0.0 { (p[x] - q[x]).max(0.0) / distance } else { 0.0 };
                prop_assert!((kept + (1.0 - accepted) * residual - distribution[x]).abs() < 1e-9);
            }
            prop_assert!((total_variation(&p, &distribution) - gate.output_distance(distance)).abs() < 1e-12);
        }

        #[test]
        fn the_passed_tokens_have_a_distribution_with_that_mean(
            true_positive in 0.0f64..=1.0, false_positive in 0.0f64..0.9, acceptable in 0u32..20,
        ) {
            let gate = GateRates { true_positive, false_positive };
            // 0.9^500 is below 10⁻²².
            let distribution: Vec<f64> = (0..520).map(|passed| passed_probability(gate, acceptable, passed)).collect();
            prop_assert!((distribution.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            let mean: f64 = distribution.iter().zip(0u32..).map(|(p, passed)| p * f64::from(passed)).sum();
            prop_assert!((gate.expected_passed(acceptable) - mean).abs() < 1e-9);
            let drafts: f64 = distribution.iter().zip(1u32..).map(|(p, drafts)| p * f64::from(drafts)).sum();
            prop_assert!((gate.expected_stopping_time(acceptable, 0.1) - drafts * 0.1).abs() < 1e-9);
        }

        /// Equations 3 and 4 as they are printed.
        #[test]
        fn the_printed_forms_agree(
            true_positive in 0.0f64..0.999, false_positive in 0.0f64..0.999, acceptable in 0u32..20,
        ) {
            let gate = GateRates { true_positive, false_positive };
            let reached = power(true_positive, acceptable);
            let passed = (true_positive - reached) / (1.0 - true_positive) + reached / (1.0 - false_positive);
            prop_assert!((gate.expected_passed(acceptable) - passed).abs() < 1e-9);
            let time = (1.0 - reached) * 0.1 / (1.0 - true_positive) + reached * 0.1 / (1.0 - false_positive);
            prop_assert!((gate.expected_stopping_time(acceptable, 0.1) - time).abs() < 1e-9);
        }
    }
}
