//! Which tokens of a distribution are kept (Bhattacharjee et al., §2).

/// A distribution cut to a few tokens; probabilities as they were, not renormalised.
#[derive(Debug, Clone, PartialEq)]
pub struct Support {
    /// Ascending.
    pub ids: Vec<u32>,
    /// One for each id, above zero.
    pub probabilities: Vec<f64>,
}

/// K-SQS: the `k` most likely tokens of `probabilities` (V of them), fewer if fewer have any mass. Ties go to the
/// smaller id.
pub fn top_k(probabilities: &[f64], k: u32) -> Support {
    let mut ids: Vec<u32> = (0..probabilities.len() as u32).filter(|&id| probabilities[id as usize] > 0.0).collect();
    let k = k as usize;
    if k < ids.len() {
        ids.select_nth_unstable_by(k, |&a, &b| {
            probabilities[b as usize].total_cmp(&probabilities[a as usize]).then(a.cmp(&b))
        });
        ids.truncate(k);
        ids.sort_unstable();
    }
    let probabilities = ids.iter().map(|&id| probabilities[id as usize]).collect();
    Support { ids, probabilities }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_most_likely_and_prefers_small_ids() {
        let q = [0.1, 0.3, 0.0, 0.3, 0.3];
        assert_eq!(top_k(&q, 2).ids, [1, 3]);
        assert_eq!(top_k(&q, 4), Support { ids: vec![0, 1, 3, 4], probabilities: vec![0.1, 0.3, 0.3, 0.3] });
        assert_eq!(top_k(&q, 5).ids, [0, 1, 3, 4]);
        assert_eq!(top_k(&q, 1).ids, [1]);
    }
}
