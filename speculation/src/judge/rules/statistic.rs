//! Statistics of the models' confidence, unscaled: of softmax(logits) at T = 1, without top-k and top-p (Narasimhan et
//! al., App. C.1).

use half::f16;
use outrider_codec::distribution::DraftDist;

use super::decision::probabilities;
use crate::sample::Distribution;

/// The part of the draft model's unscaled distribution q that a rule needs. Here q is the softmax of its logits at T =
/// 1 without top-k and top-p.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Nothing: S(q) says all.
    Nothing,
    /// The largest probability, max q.
    Peak,
    /// H(q) = −Σ q·ln q, in nats.
    Entropy,
    /// q(x) of each token of q̂'s support.
    Support,
    /// q(x) of each token of the vocabulary.
    Whole,
}

/// The statistic of q that comes with a draft because a rule needs it.
#[derive(Debug, Clone, PartialEq)]
pub enum Statistic {
    /// Nothing: the rule needs nothing, or S(·) changes nothing and q̂ says it all.
    Nothing,
    /// One number, max q or H(q).
    Scalar(f64),
    /// q(x) of each token of q̂'s support, by ascending id; their sum is at most 1 up to rounding.
    Support(Vec<f64>),
    /// q(x) of each token of the vocabulary, V numbers.
    Whole(Vec<f64>),
}

impl Need {
    /// The statistic of q̂ itself: what the rules use where S(·) changes nothing. Where q̂ is sparse it stands in for
    /// q.
    pub(crate) fn of_dist(self, q: &DraftDist) -> Statistic {
        match self {
            Self::Nothing => Statistic::Nothing,
            Self::Peak => Statistic::Scalar(probabilities(q).fold(0.0, f64::max)),
            Self::Entropy => Statistic::Scalar(probabilities(q).map(|q| -q * q.ln()).sum()),
            Self::Support | Self::Whole => Statistic::Support(probabilities(q).collect()),
        }
    }

    /// The statistic of the draft model's distribution before S(·), rounded to f16, in which it travels. `ids` are
    /// q̂'s, all below V.
    pub fn of_unscaled(self, q: &Distribution<'_>, ids: &[u32]) -> Statistic {
        let rounded = |value: f64| f16::from_f64(value).to_f64();
        let probability = |logit: f32| rounded(q.unscaled().probability(logit));
        match self {
            Self::Nothing => Statistic::Nothing,
            Self::Peak => Statistic::Scalar(rounded(q.unscaled().peak())),
            Self::Entropy => Statistic::Scalar(rounded(q.unscaled().entropy())),
            Self::Support => Statistic::Support(ids.iter().map(|&id| probability(q.logits()[id as usize])).collect()),
            Self::Whole => Statistic::Whole(q.logits().iter().copied().map(probability).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::PLAIN;
    use outrider_codec::frame::SamplingParameters;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn statistics_of_a_row_are_unscaled_and_in_half_precision() {
        // softmax: 1/10, 2/10, 7/10
        let row = [1f32, 2.0, 7.0].map(f32::ln);
        // S(·) has no say.
        let q = Distribution::new(&row, &SamplingParameters { temperature: 0.3, top_k: 2, ..PLAIN }).unwrap();
        let half = |value: f64| f16::from_f64(value).to_f64();
        let entropy = -(0.1 * 0.1f64.ln() + 0.2 * 0.2f64.ln() + 0.7 * 0.7f64.ln());
        assert_eq!(Need::Nothing.of_unscaled(&q, &[0, 2]), Statistic::Nothing);
        assert_eq!(Need::Peak.of_unscaled(&q, &[0, 2]), Statistic::Scalar(half(0.7)));
        assert_eq!(Need::Entropy.of_unscaled(&q, &[0, 2]), Statistic::Scalar(half(entropy)));
        assert_eq!(Need::Support.of_unscaled(&q, &[0, 2]), Statistic::Support(vec![half(0.1), half(0.7)]));
        assert_eq!(Need::Whole.of_unscaled(&q, &[0]), Statistic::Whole([0.1, 0.2, 0.7].map(half).to_vec()));
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
