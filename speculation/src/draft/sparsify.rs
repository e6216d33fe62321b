//! Supports of distributions: the tokens that are kept (Bhattacharjee et al., §2–3).

use crate::sample::Distribution;

/// A distribution cut to its support; probabilities as they were, not renormalised.
///
/// Tokens that rounding to integers is sure to leave without a count need not be listed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Support {
    /// Token ids in ascending order.
    pub ids: Vec<u32>,
    /// Probability of each id, above zero.
    pub probabilities: Vec<f64>,
    /// The mass of all tokens of the support, listed or not.
    pub mass: f64,
    /// Number of tokens of the support, listed or not.
    pub size: u32,
}

impl Support {
    /// A support whose tokens are all listed.
    pub(crate) fn new(ids: Vec<u32>, probabilities: Vec<f64>) -> Self {
        Self { mass: probabilities.iter().sum(), size: ids.len() as u32, ids, probabilities }
    }

    fn of(ids: Vec<u32>, q: &Distribution<'_>) -> Self {
        let probabilities = ids.iter().map(|&id| q.probability(id)).collect();
        Self::new(ids, probabilities)
    }

    /// The mass of what is not kept, in [0, 1].
    pub(crate) fn dropped_mass(&self) -> f64 {
        (1.0 - self.mass).clamp(0.0, 1.0)
    }

    /// Lists no more than the `most` most likely tokens of the support. Ties go to the smaller id.
    pub(crate) fn listing(mut self, most: u32) -> Self {
        let most = most as usize;
        if most < self.ids.len() {
            let mut places: Vec<usize> = (0..self.ids.len()).collect();
            let order =
                |&a: &usize, &b: &usize| self.probabilities[b].total_cmp(&self.probabilities[a]).then(a.cmp(&b));
            places.select_nth_unstable_by(most, order);
            places.truncate(most);
            places.sort_unstable();
            self.probabilities = places.iter().map(|&place| self.probabilities[place]).collect();
            self.ids = places.into_iter().map(|place| self.ids[place]).collect();
        }
        self
    }
}

/// The support of QS: every token with any mass. Listed are the `most` most likely. Ties go to the smaller id.
pub(crate) fn all_listing(q: &Distribution<'_>, most: u32) -> Support {
    Support { mass: 1.0, size: q.vocab_size(), ..top_k(q, most) }
}

/// C-SQS: the tokens with mass whose probability is at least `threshold` (eq. 6), or else the most likely one: the
/// paper's support would be empty where the threshold is above every probability. Tokens without mass are never
/// kept; the paper's support has them where the threshold is not above zero, to no effect but bits.
pub(crate) fn above(q: &Distribution<'_>, threshold: f64) -> Support {
    let (ids, probabilities): (Vec<u32>, Vec<f64>) = q.at_least(threshold).unzip();
    if ids.is_empty() { top_k(q, 1) } else { Support::new(ids, probabilities) }
}

/// K-SQS and TK-SLT: the `k` most likely tokens of `q`, fewer if fewer have any mass. Ties go to the smaller id.
pub(crate) fn top_k(q: &Distribution<'_>, k: u32) -> Support {
    Support::of(q.most_likely(k), q)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::{PLAIN, logits};

    #[test]
    fn a_threshold_keeps_what_reaches_it_and_never_nothing() {
        let row = logits(&[0.1, 0.3, 0.0, 0.4, 0.2]);
        let q = Distribution::new(&row, &PLAIN).unwrap();
        assert_eq!(above(&q, 0.19).ids, [1, 3, 4]);
        assert!((above(&q, 0.19).dropped_mass() - 0.1).abs() < 1e-7);
        let least = q.probability(4);
        assert_eq!(above(&q, least).ids, [1, 3, 4], "the threshold itself is kept");
        assert_eq!(above(&q, 0.9).ids, [3]);
        assert_eq!(above(&q, -0.1).ids, [0, 1, 3, 4]);
        let all = all_listing(&q, u32::MAX);
        assert_eq!((&all.ids[..], all.dropped_mass()), (&[0, 1, 3, 4][..], 0.0));
    }

    #[test]
    fn keeps_the_most_likely_and_prefers_small_ids() {
        let row = logits(&[0.1, 0.3, 0.0, 0.3, 0.3]);
        let q = Distribution::new(&row, &PLAIN).unwrap();
        assert_eq!(top_k(&q, 2).ids, [1, 3]);
        assert_eq!(top_k(&q, 5).ids, [0, 1, 3, 4]);
        assert_eq!(top_k(&q, 1).ids, [1]);
        let all = top_k(&q, 4);
        assert_eq!((&all.ids[..], all.size), (&[0, 1, 3, 4][..], 4));
        assert!(all.ids.iter().zip(&all.probabilities).all(|(&id, &p)| p == q.probability(id)));
    }

    #[test]
    fn what_is_not_listed_still_counts() {
        let row = logits(&[0.1, 0.3, 0.0, 0.3, 0.3]);
        let q = Distribution::new(&row, &PLAIN).unwrap();
        let listed = top_k(&q, 4).listing(2);
        assert_eq!((&listed.ids[..], listed.size), (&[1, 3][..], 4));
        assert_eq!(listed.mass, top_k(&q, 4).mass);
        assert_eq!(listed.clone().listing(9), listed);
        assert_eq!((all_listing(&q, 2).ids, all_listing(&q, 2).dropped_mass()), (vec![1, 3], 0.0));
    }
}
