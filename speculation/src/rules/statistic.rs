//! How sure the models are, unscaled: statistics of softmax(logits) at T = 1, without top-k and top-p (Narasimhan et al.,
//! App. C.1).

use half::f16;
use outrider_codec::distribution::DraftDist;

use super::decision::probabilities;

/// What of the draft model's own distribution a rule needs: q, unscaled, the softmax of its logits at T = 1 without top-k
/// and top-p.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: S(q) says all.
    Nothing,
    /// max q.
    Peak,
    /// H(q) = −Σ q·ln q, in nats.
    Entropy,
    /// q(x) of each token of q̂'s support.
    Support,
}

/// What came with a draft of what a rule needs.
#[derive(Debug, Clone, PartialEq)]
pub enum Statistic {
    /// Nothing: the rule needs nothing, or S(·) changes nothing and q̂ says it all.
    Nothing,
    /// max q or H(q).
    Scalar(f64),
    /// q(x) of each token of q̂'s support, by ascending id; their sum is at most 1 up to rounding.
    Support(Vec<f64>),
}

impl Need {
    /// The statistic of q̂ itself: what the rules use where S(·) changes nothing. Where q̂ is sparse it stands in for q.
    pub fn of_dist(self, q: &DraftDist) -> Statistic {
        match self {
            Self::Nothing => Statistic::Nothing,
            Self::Peak => Statistic::Scalar(probabilities(q).fold(0.0, f64::max)),
            Self::Entropy => Statistic::Scalar(probabilities(q).map(|q| -q * q.ln()).sum()),
            Self::Support => Statistic::Support(probabilities(q).collect()),
        }
    }

    /// The statistic of the draft model's row of V logits, rounded to f16, in which it travels. `ids` are q̂'s, all below
    /// V; the row is one that S(·) accepts.
    pub fn of_logits(self, row: &[f32], ids: &[u32]) -> Statistic {
        let rounded = |value: f64| f16::from_f64(value).to_f64();
        match self {
            Self::Nothing => Statistic::Nothing,
            Self::Peak => Statistic::Scalar(rounded(Softmax::of(row).peak())),
            Self::Entropy => Statistic::Scalar(rounded(Softmax::of(row).entropy())),
            Self::Support => {
                let q = Softmax::of(row);
                Statistic::Support(ids.iter().map(|&id| rounded(q.probability(row[id as usize]))).collect())
            }
        }
    }
}

/// softmax(logits) at T = 1, from one pass over them.
///
/// With m = max l: Z = Σ e^(l−m) and W = Σ e^(l−m)·(l − m). A logit above the largest so far, by d, moves both to the new
/// m: Z ← e^−d·Z, W ← e^−d·(W − d·Z). Logits of −∞ have no part in either.
#[derive(Debug, Clone, Copy)]
pub(super) struct Softmax {
    /// m.
    max: f64,
    /// Z; at least 1.
    partition: f64,
    /// W; at most 0.
    weighted: f64,
}

impl Softmax {
    /// Of V logits, at least one of them finite and the others finite or −∞.
    pub(super) fn of(logits: &[f32]) -> Self {
        let mut finite = logits.iter().copied().filter(|&logit| logit > f32::NEG_INFINITY).map(f64::from);
        let first = finite.next().unwrap_or(0.0);
        let (mut max, mut partition, mut weighted) = (first, 1.0, 0.0);
        for logit in finite {
            if logit > max {
                let rise = logit - max;
                let scale = (-rise).exp();
                weighted = scale * (weighted - rise * partition);
                partition = scale * partition + 1.0;
                max = logit;
            } else {
                let weight = (logit - max).exp();
                partition += weight;
                weighted += weight * (logit - max);
            }
        }
        Self { max, partition, weighted }
    }

    /// The largest probability.
    pub(super) fn peak(&self) -> f64 {
        1.0 / self.partition
    }

    /// The entropy in nats.
    pub(super) fn entropy(&self) -> f64 {
        self.partition.ln() - self.weighted / self.partition
    }

    /// The probability of a token with this logit.
    pub(super) fn probability(&self, logit: f32) -> f64 {
        (f64::from(logit) - self.max).exp() / self.partition
    }

    /// Its logarithm; −∞ for a logit of −∞.
    pub(super) fn log_probability(&self, logit: f32) -> f64 {
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
        fn one_pass_finds_what_the_definitions_say(
            logits in prop::collection::vec(prop_oneof![1 => Just(f32::NEG_INFINITY), 6 => -60f32..60.0], 1..60),
        ) {
            prop_assume!(logits.iter().any(|logit| logit.is_finite()));
            let sum: f64 = logits.iter().map(|&logit| f64::from(logit).exp()).sum();
            let q: Vec<f64> = logits.iter().map(|&logit| f64::from(logit).exp() / sum).collect();
            let entropy: f64 = q.iter().filter(|&&q| q > 0.0).map(|q| -q * q.ln()).sum();
            let softmax = Softmax::of(&logits);
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
        let softmax = Softmax::of(&[f32::NEG_INFINITY, 3.0, f32::NEG_INFINITY]);
        assert_eq!((softmax.peak(), softmax.entropy()), (1.0, 0.0));
        assert_eq!((softmax.probability(3.0), softmax.probability(f32::NEG_INFINITY)), (1.0, 0.0));
        assert_eq!(softmax.log_probability(f32::NEG_INFINITY), f64::NEG_INFINITY);
    }

    #[test]
    fn statistics_of_a_row_are_unscaled_and_in_half_precision() {
        // softmax: 1/10, 2/10, 7/10
        let row = [1f32, 2.0, 7.0].map(f32::ln);
        let half = |value: f64| f16::from_f64(value).to_f64();
        let entropy = -(0.1 * 0.1f64.ln() + 0.2 * 0.2f64.ln() + 0.7 * 0.7f64.ln());
        assert_eq!(Need::Nothing.of_logits(&row, &[0, 2]), Statistic::Nothing);
        assert_eq!(Need::Peak.of_logits(&row, &[0, 2]), Statistic::Scalar(half(0.7)));
        assert_eq!(Need::Entropy.of_logits(&row, &[0, 2]), Statistic::Scalar(half(entropy)));
        assert_eq!(Need::Support.of_logits(&row, &[0, 2]), Statistic::Support(vec![half(0.1), half(0.7)]));
        assert_ne!(half(0.7), 0.7);
    }

    #[test]
    fn statistics_of_a_draft_distribution_are_its_own() {
        let q = DraftDist::new(vec![3, 8, 9], vec![1, 1, 2]).unwrap();
        assert_eq!(Need::Nothing.of_dist(&q), Statistic::Nothing);
        assert_eq!(Need::Peak.of_dist(&q), Statistic::Scalar(0.5));
        assert_eq!(Need::Entropy.of_dist(&q), Statistic::Scalar(1.5 * core::f64::consts::LN_2));
        assert_eq!(Need::Support.of_dist(&q), Statistic::Support(vec![0.25, 0.25, 0.5]));
    }
}
