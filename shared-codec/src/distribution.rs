//! The draft distribution, in integers.
//!
//! The edge samples from it, the cloud verifies against it, and neither ever sees the floats it was rounded
//! from. That is the first clause of the exactness contract: a draft is exact with respect to whatever
//! distribution it was *actually* drawn from, so that distribution has to be the one on the wire.

/// A probability distribution over token ids whose probabilities are `counts[i] / total`.
///
/// Invariant: `ids` ascend strictly, `counts` are at least 1 and as many as `ids`, `total` is their sum and
/// at least 1. Only [`DraftDist::new`] makes one, and nothing changes it afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftDist {
    ids: Vec<u32>,
    counts: Vec<u32>,
    total: u32,
}

/// Reason why ids and counts do not make a [`DraftDist`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DistError {
    /// No token has any mass.
    #[error("no token has any mass")]
    Empty,
    /// Ids and counts differ in number.
    #[error("{ids} ids but {counts} counts")]
    Lengths {
        /// Number of ids given.
        ids: usize,
        /// Number of counts given.
        counts: usize,
    },
    /// An id does not ascend.
    #[error("id {id} does not ascend")]
    Order {
        /// The id that is not larger than its predecessor.
        id: u32,
    },
    /// The count of an id is zero.
    #[error("the count of id {id} is zero")]
    ZeroCount {
        /// The id whose count is zero.
        id: u32,
    },
    /// The counts add up to more than 2³² − 1.
    #[error("the counts add up to more than 32 bits hold")]
    Overflow,
}

impl DraftDist {
    /// Checks the invariant and makes a distribution; `ids` and `counts` have one element for each token with mass.
    pub fn new(ids: Vec<u32>, counts: Vec<u32>) -> Result<Self, DistError> {
        if ids.len() != counts.len() {
            return Err(DistError::Lengths { ids: ids.len(), counts: counts.len() });
        }
        if ids.is_empty() {
            return Err(DistError::Empty);
        }
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] >= pair[1]) {
            return Err(DistError::Order { id: pair[1] });
        }
        let mut total = 0u32;
        for (&id, &count) in ids.iter().zip(&counts) {
            if count == 0 {
                return Err(DistError::ZeroCount { id });
            }
            total = total.checked_add(count).ok_or(DistError::Overflow)?;
        }
        Ok(Self { ids, counts, total })
    }

    /// Token ids with mass, ascending.
    pub fn ids(&self) -> &[u32] {
        &self.ids
    }

    /// The count of each of [`ids`](Self::ids), at least 1.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Sum of the counts of all ids.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// The count of `id`, zero outside the support.
    pub fn count(&self, id: u32) -> u32 {
        self.ids.binary_search(&id).map_or(0, |i| self.counts[i])
    }
}

/// A drafted token and the distribution it was drawn from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftToken {
    /// The drafted id; its count in `dist` is at least 1.
    pub id: u32,
    /// The draft distribution q̂ that the token was drawn from.
    pub dist: DraftDist,
    /// Number of ids that the scheme's code keeps room for, K, with mass or without; at least as many as `dist` has.
    pub support_size: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_invariant_is_checked() {
        let d = DraftDist::new(vec![2, 7], vec![1, 3]).unwrap();
        assert_eq!((d.total(), d.count(2), d.count(7), d.count(3)), (4, 1, 3, 0));
        assert_eq!(DraftDist::new(vec![], vec![]), Err(DistError::Empty));
        assert_eq!(DraftDist::new(vec![1], vec![]), Err(DistError::Lengths { ids: 1, counts: 0 }));
        assert_eq!(DraftDist::new(vec![1, 1], vec![1, 1]), Err(DistError::Order { id: 1 }));
        assert_eq!(DraftDist::new(vec![1, 2], vec![1, 0]), Err(DistError::ZeroCount { id: 2 }));
        assert_eq!(DraftDist::new(vec![1, 2], vec![u32::MAX, 1]), Err(DistError::Overflow));
    }
}
