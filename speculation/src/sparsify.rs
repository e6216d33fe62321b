//! Which tokens of a distribution are kept (Bhattacharjee et al., §2–3).

/// A distribution cut to a few tokens; probabilities as they were, not renormalised.
#[derive(Debug, Clone, PartialEq)]
pub struct Support {
    /// Ascending.
    pub ids: Vec<u32>,
    /// One for each id, above zero.
    pub probabilities: Vec<f64>,
}

impl Support {
    fn of(ids: Vec<u32>, probabilities: &[f64]) -> Self {
        let probabilities = ids.iter().map(|&id| probabilities[id as usize]).collect();
        Self { ids, probabilities }
    }

    /// The mass of what is not kept, in [0, 1].
    pub fn dropped_mass(&self) -> f64 {
        (1.0 - self.probabilities.iter().sum::<f64>()).clamp(0.0, 1.0)
    }
}

/// Dense and QS: every token with any mass.
pub fn all(probabilities: &[f64]) -> Support {
    Support::of(with_mass(probabilities), probabilities)
}

/// C-SQS: the tokens with mass whose probability is at least `threshold` (eq. 6), or else the most likely one: the
/// paper's support would be empty where the threshold is above every probability. Tokens without mass are never
/// kept; the paper's support has them where the threshold is not above zero, to no effect but bits.
pub fn above(probabilities: &[f64], threshold: f64) -> Support {
    let ids: Vec<u32> =
        with_mass(probabilities).into_iter().filter(|&id| probabilities[id as usize] >= threshold).collect();
    if ids.is_empty() { top_k(probabilities, 1) } else { Support::of(ids, probabilities) }
}

fn with_mass(probabilities: &[f64]) -> Vec<u32> {
    (0..probabilities.len() as u32).filter(|&id| probabilities[id as usize] > 0.0).collect()
}

/// K-SQS and TK-SLT: the `k` most likely tokens of `probabilities` (V of them), fewer if fewer have any mass. Ties go to the
/// smaller id.
pub fn top_k(probabilities: &[f64], k: u32) -> Support {
    let mut ids = with_mass(probabilities);
    let k = k as usize;
    if k < ids.len() {
        ids.select_nth_unstable_by(k, |&a, &b| {
            probabilities[b as usize].total_cmp(&probabilities[a as usize]).then(a.cmp(&b))
        });
        ids.truncate(k);
        ids.sort_unstable();
    }
    Support::of(ids, probabilities)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_keeps_what_reaches_it_and_never_nothing() {
        let q = [0.1, 0.3, 0.0, 0.4, 0.2];
        assert_eq!(above(&q, 0.2).ids, [1, 3, 4]);
        assert!((above(&q, 0.2).dropped_mass() - 0.1).abs() < 1e-15);
        assert_eq!(above(&q, 0.9).ids, [3]);
        assert_eq!(above(&q, -0.1), all(&q));
        assert_eq!(all(&q).ids, [0, 1, 3, 4]);
    }

    #[test]
    fn keeps_the_most_likely_and_prefers_small_ids() {
        let q = [0.1, 0.3, 0.0, 0.3, 0.3];
        assert_eq!(top_k(&q, 2).ids, [1, 3]);
        assert_eq!(top_k(&q, 4), Support { ids: vec![0, 1, 3, 4], probabilities: vec![0.1, 0.3, 0.3, 0.3] });
        assert_eq!(top_k(&q, 5).ids, [0, 1, 3, 4]);
        assert_eq!(top_k(&q, 1).ids, [1]);
    }
}
