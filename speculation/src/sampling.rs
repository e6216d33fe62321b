//! The sampling transform S(·): logits to the distribution that is sampled.
//!
//! Both ends apply it: the edge to the draft's logits, the cloud to the target's. "The target's own text" in the
//! exactness contract means samples from S(target).

use outrider_codec::frame::SamplingParameters;

/// Why logits cannot be sampled from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LogitsError {
    /// No logits.
    #[error("there are no logits")]
    Empty,
    /// A logit is NaN or +∞, or all are −∞.
    #[error("the logits are not finite (first at token {token})")]
    NotFinite {
        /// Token id of the first bad logit.
        token: usize,
    },
}

/// S(softmax(logits)): probabilities of all V tokens, summing to 1 up to rounding.
///
/// Order: temperature, then top-k, then top-p (the order of the Hugging Face generators). Ties at the edge of
/// top-k, within top-p and at temperature 0 go to the smaller id. Temperature 0 gives one token probability 1.
pub fn transform(logits: &[f32], parameters: &SamplingParameters) -> Result<Vec<f64>, LogitsError> {
    let best = argmax(logits)?;
    let mut probabilities = vec![0.0; logits.len()];
    if parameters.temperature == 0.0 {
        probabilities[best] = 1.0;
        return Ok(probabilities);
    }
    let scale = 1.0 / f64::from(parameters.temperature);
    let max = f64::from(logits[best]);
    for (probability, &logit) in probabilities.iter_mut().zip(logits) {
        *probability = ((f64::from(logit) - max) * scale).exp();
    }
    let k = parameters.top_k as usize;
    let keeps_all = k == 0 || k >= logits.len();
    if !(keeps_all && parameters.top_p >= 1.0) {
        let mut order: Vec<usize> = (0..logits.len()).collect();
        order.sort_unstable_by(|&a, &b| probabilities[b].total_cmp(&probabilities[a]).then(a.cmp(&b)));
        let mut kept = if keeps_all { logits.len() } else { k };
        if parameters.top_p < 1.0 {
            let mass: f64 = order[..kept].iter().map(|&id| probabilities[id]).sum();
            let wanted = f64::from(parameters.top_p) * mass;
            let mut reached = 0.0;
            let enough = order[..kept].iter().position(|&id| {
                reached += probabilities[id];
                reached >= wanted
            });
            kept = enough.map_or(kept, |last| last + 1);
        }
        for &id in &order[kept..] {
            probabilities[id] = 0.0;
        }
    }
    let sum: f64 = probabilities.iter().sum();
    for probability in &mut probabilities {
        *probability /= sum;
    }
    Ok(probabilities)
}

/// The smallest id among those with the largest logit.
fn argmax(logits: &[f32]) -> Result<usize, LogitsError> {
    let mut best = 0;
    for (token, &logit) in logits.iter().enumerate() {
        if logit.is_nan() || logit == f32::INFINITY {
            return Err(LogitsError::NotFinite { token });
        }
        if logit > logits[best] {
            best = token;
        }
    }
    match logits.get(best) {
        None => Err(LogitsError::Empty),
        Some(&f32::NEG_INFINITY) => Err(LogitsError::NotFinite { token: best }),
        Some(_) => Ok(best),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    fn s(temperature: f32, top_k: u32, top_p: f32) -> Vec<f64> {
        // softmax: 1/10, 2/10, 4/10, 2/10, 1/10
        let logits = [1f32, 2.0, 4.0, 2.0, 1.0].map(f32::ln);
        transform(&logits, &SamplingParameters { temperature, top_k, top_p }).unwrap()
    }

    fn close(a: &[f64], b: &[f64]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-6)
    }

    #[test]
    fn temperature() {
        assert!(close(&s(1.0, 0, 1.0), &[0.1, 0.2, 0.4, 0.2, 0.1]));
        assert!(close(&s(0.5, 0, 1.0), &[1.0, 4.0, 16.0, 4.0, 1.0].map(|x| x / 26.0)));
        assert_eq!(s(0.0, 0, 1.0), [0.0, 0.0, 1.0, 0.0, 0.0]);
        assert!(!close(&s(0.9, 0, 1.0), &s(1.0, 0, 1.0)), "the comparison can fail");
    }

    #[test]
    fn top_k_and_top_p_break_ties_by_id() {
        assert!(close(&s(1.0, 2, 1.0), &[0.0, 1.0 / 3.0, 2.0 / 3.0, 0.0, 0.0]));
        assert!(close(&s(1.0, 99, 1.0), &s(1.0, 0, 1.0)));
        assert!(close(&s(1.0, 0, 0.39), &[0.0, 0.0, 1.0, 0.0, 0.0]));
        assert!(close(&s(1.0, 0, 0.5), &[0.0, 1.0 / 3.0, 2.0 / 3.0, 0.0, 0.0]));
        assert!(close(&s(1.0, 0, 0.75), &[0.0, 0.25, 0.5, 0.25, 0.0]));
        // top-p works on what top-k left, renormalised: 0.6 of {2/3, 1/3} is the first alone.
        assert!(close(&s(1.0, 2, 0.6), &[0.0, 0.0, 1.0, 0.0, 0.0]));
        assert_eq!(
            transform(&[1.0, 1.0], &SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 }),
            Ok(vec![1.0, 0.0])
        );
    }

    #[test]
    fn bad_logits_are_errors() {
        let greedy = SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 };
        assert_eq!(transform(&[], &greedy), Err(LogitsError::Empty));
        assert_eq!(transform(&[0.0, f32::NAN], &greedy), Err(LogitsError::NotFinite { token: 1 }));
        assert_eq!(transform(&[0.0, f32::INFINITY], &greedy), Err(LogitsError::NotFinite { token: 1 }));
        assert_eq!(transform(&[f32::NEG_INFINITY; 2], &greedy), Err(LogitsError::NotFinite { token: 0 }));
        assert_eq!(transform(&[f32::NEG_INFINITY, 0.0], &greedy), Ok(vec![0.0, 1.0]));
    }
}
