//! Heads on the draft model's last hidden state: two questions about a token that cost one dot product.
//!
//! A head is σ(w·h + b), with h the hidden state that the token's distribution q was read from. It has seen what comes
//! before the token, not the token itself.
//!
//! - SPRINTER's **gate** (Zhong et al., "Speeding up Speculative Decoding via Sequential Approximate Verification",
//!   §3.2): will the token be acceptable, q(x) ≤ λ·p(x)? At a score of τ and above it passes without the target's
//!   verification. What that does to the text is in [`theory::sprinter`](crate::theory::sprinter); the text is then
//!   not the target's any more.
//! - SpecDec++'s **stop** head (Huang et al., "SpecDec++: Boosting Speculative Decoding via Adaptive Candidate
//!   Lengths"): with which probability, min(1, p(x)/q(x)) on average, will the target accept the token? A round ends
//!   where the product of the scores says that some draft is likely to be rejected. The text stays the target's.
//!
//! `outrider train-gate` trains both; `outrider-models` reads and writes their file.

/// Why numbers do not make a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// No weights.
    #[error("a head needs weights")]
    Empty,
    /// A weight or the bias is NaN or infinite.
    #[error("the head is not finite (first at {index}; the bias comes last)")]
    NotFinite {
        /// Which number; the bias has the index after the weights'.
        index: usize,
    },
    /// The head is for hidden states of another width.
    #[error("the head is for hidden states of {head} numbers, the draft model's have {hidden}")]
    Width {
        /// Weights of the head.
        head: usize,
        /// Width of the draft's hidden state.
        hidden: usize,
    },
}

/// σ(w·h + b): a probability from a hidden state.
#[derive(Debug, Clone, PartialEq)]
pub struct Head {
    /// w; not empty, finite.
    weights: Vec<f32>,
    /// b; finite.
    bias: f32,
}

/// The heads of a draft model.
#[derive(Debug, Clone, PartialEq)]
pub struct Heads {
    /// SPRINTER's gate, if there is one.
    pub gate: Option<Head>,
    /// SpecDec++'s stop head, if there is one.
    pub stop: Option<Head>,
    /// τ: the gate passes a token at this score and above. The paper takes ½.
    pub threshold: f64,
}

impl Head {
    /// A head of these weights w and this bias b.
    pub fn new(weights: Vec<f32>, bias: f32) -> Result<Self, HeadError> {
        if weights.is_empty() {
            return Err(HeadError::Empty);
        }
        let bad = weights.iter().chain([&bias]).position(|number| !number.is_finite());
        match bad {
            Some(index) => Err(HeadError::NotFinite { index }),
            None => Ok(Self { weights, bias }),
        }
    }

    /// Numbers in the hidden states that it scores.
    pub fn width(&self) -> usize {
        self.weights.len()
    }

    /// σ(w·h + b), in [0, 1]. Summed in f64 from the first element on, so that it has the same bits everywhere but
    /// for what `exp` differs in. NaN if `hidden` has one.
    ///
    /// # Panics
    /// If `hidden` is not as wide as the head; [`Heads::check_width`] tells beforehand.
    pub fn score(&self, hidden: &[f32]) -> f64 {
        assert_eq!(hidden.len(), self.weights.len(), "a hidden state of another width than the head's");
        let products = self.weights.iter().zip(hidden).map(|(&w, &h)| f64::from(w) * f64::from(h));
        sigmoid(products.sum::<f64>() + f64::from(self.bias))
    }
}

impl Heads {
    /// Whether the gate lets the token drawn from this hidden state pass without the target: its score is at least
    /// `threshold`, or τ where that is `None` (SPRINTER, Algorithm 2). `false` without a gate, and for a score that is
    /// NaN.
    ///
    /// # Panics
    /// As [`Head::score`].
    pub fn passes(&self, hidden: &[f32], threshold: Option<f64>) -> bool {
        let threshold = threshold.unwrap_or(self.threshold);
        self.gate.as_ref().is_some_and(|gate| gate.score(hidden) >= threshold)
    }

    /// Checks that the heads are for hidden states of so many numbers.
    pub fn check_width(&self, hidden: usize) -> Result<(), HeadError> {
        match self.gate.iter().chain(&self.stop).map(Head::width).find(|&head| head != hidden) {
            Some(head) => Err(HeadError::Width { head, hidden }),
            None => Ok(()),
        }
    }
}

/// 1 / (1 + e^(−x)), without overflow.
fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 { 1.0 / (1.0 + (-x).exp()) } else { x.exp() / (1.0 + x.exp()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    fn head(weights: &[f32], bias: f32) -> Head {
        Head::new(weights.to_vec(), bias).unwrap()
    }

    #[test]
    fn a_score_is_the_sigmoid_of_the_affine_form() {
        assert_eq!(head(&[1.0, -2.0], 0.0).score(&[2.0, 1.0]), 0.5);
        // w·h + b = ln 3: three to one.
        assert!((head(&[3f32.ln(), 9.0], 0.0).score(&[1.0, 0.0]) - 0.75).abs() < 1e-7);
        assert!((head(&[9.0], -(3f32.ln())).score(&[0.0]) - 0.25).abs() < 1e-7);
        assert_eq!(head(&[f32::MAX], 0.0).score(&[f32::MAX]), 1.0);
        assert_eq!(head(&[f32::MAX], 0.0).score(&[f32::MIN]), 0.0);
        assert!(head(&[1.0], 0.0).score(&[f32::NAN]).is_nan());
    }

    #[test]
    fn the_gate_passes_at_its_threshold() {
        let mut heads = Heads { gate: Some(head(&[1.0], 0.0)), stop: None, threshold: 0.5 };
        assert!(heads.passes(&[0.0], None) && heads.passes(&[0.1], None) && !heads.passes(&[-0.1], None));
        assert!(!heads.passes(&[f32::NAN], None) && !heads.passes(&[0.1], Some(0.9)));
        heads.threshold = 0.51;
        assert!(!heads.passes(&[0.0], None) && heads.passes(&[0.1], None));
        assert!(!Heads { gate: None, stop: heads.gate, threshold: 0.0 }.passes(&[9.0], None));
    }

    #[test]
    fn bad_numbers_and_widths_are_errors() {
        assert_eq!(Head::new(vec![], 0.0), Err(HeadError::Empty));
        assert_eq!(Head::new(vec![0.0, f32::NAN], 0.0), Err(HeadError::NotFinite { index: 1 }));
        assert_eq!(Head::new(vec![0.0, 1.0], f32::INFINITY), Err(HeadError::NotFinite { index: 2 }));
        let heads = Heads { gate: Some(head(&[1.0], 0.0)), stop: Some(head(&[1.0, 2.0], 0.0)), threshold: 0.5 };
        assert_eq!(heads.check_width(1), Err(HeadError::Width { head: 2, hidden: 1 }));
        assert_eq!(heads.check_width(2), Err(HeadError::Width { head: 1, hidden: 2 }));
        assert_eq!(Heads { stop: None, ..heads }.check_width(1), Ok(()));
    }

    #[test]
    #[should_panic(expected = "another width")]
    fn another_width_is_not_scored() {
        head(&[1.0, 2.0], 0.0).score(&[1.0]);
    }

    proptest! {
        #[test]
        fn scores_are_probabilities_that_mirror(x in -1e3f32..1e3, bias in -1e3f32..1e3) {
            let (up, down) = (head(&[1.0], bias).score(&[x]), head(&[-1.0], -bias).score(&[x]));
            prop_assert!((0.0..=1.0).contains(&up));
            prop_assert!((up + down - 1.0).abs() < 1e-12);
        }
    }
}
