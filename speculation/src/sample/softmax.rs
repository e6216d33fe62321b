//! softmax(logits) at T = 1, without top-k and top-p: the model's own confidence.

use super::exponential::moments;

/// Sums over a row of logits, with m = max l: Z = Σ e^(l−m) and W = Σ e^(l−m)·(l − m). Logits of −∞ have no part in
/// either.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Softmax {
    /// m, the largest logit.
    max: f64,
    /// Z, the sum of exponentials; at least 1.
    partition: f64,
    /// W, the weighted sum; at most 0.
    weighted: f64,
}

impl Softmax {
    /// Makes the statistics of V logits, the largest of which is `max`.
    pub(super) fn of(logits: &[f32], max: f32) -> Self {
        let max = f64::from(max);
        let (partition, octaves) = moments(logits, max, core::f64::consts::LOG2_E);
        Self { max, partition, weighted: octaves * core::f64::consts::LN_2 }
    }

    /// The largest probability.
    pub(crate) fn peak(&self) -> f64 {
        1.0 / self.partition
    }

    /// The entropy in nats.
    pub(crate) fn entropy(&self) -> f64 {
        self.partition.ln() - self.weighted / self.partition
    }

    /// The probability of a token with this logit.
    pub(crate) fn probability(&self, logit: f32) -> f64 {
        (f64::from(logit) - self.max).exp() / self.partition
    }

    /// Logarithm of a token's probability; −∞ for a logit of −∞.
    pub(crate) fn log_probability(&self, logit: f32) -> f64 {
        f64::from(logit) - self.max - self.partition.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    proptest! {
        #[test]
        fn the_sums_find_what_the_definitions_say(
            logits in prop::collection::vec(prop_oneof![1 => Just(f32::NEG_INFINITY), 6 => -60f32..60.0], 1..60),
        ) {
            prop_assume!(logits.iter().any(|logit| logit.is_finite()));
            let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
            let q: Vec<f64> = logits.iter().map(|&logit| f64::from(logit).exp() / sum).collect();
            let entropy: f64 = q.iter().filter(|&&q| q > 0.0).map(|q| -q * q.ln()).sum();
            let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let softmax = Softmax::of(&logits, max);
            prop_assert!((softmax.peak() - q.iter().copied().fold(0.0, f64::max)).abs() < 1e-12);
            prop_assert!((softmax.entropy() - entropy).abs() < 1e-10);
            for (&logit, q) in logits.iter().zip(q) {
                prop_assert!((softmax.probability(logit) - q).abs() < 1e-12);
                prop_assert!((softmax.log_probability(logit).exp() - q).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn certainty_is_certain() {
        let softmax = Softmax::of(&[f32::NEG_INFINITY, 3.0, f32::NEG_INFINITY], 3.0);
        assert_eq!((softmax.peak(), softmax.entropy()), (1.0, 0.0));
        assert_eq!((softmax.probability(3.0), softmax.probability(f32::NEG_INFINITY)), (1.0, 0.0));
        assert_eq!(softmax.log_probability(f32::NEG_INFINITY), f64::NEG_INFINITY);
    }
}
