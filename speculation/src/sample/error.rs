//! Error of logits that cannot be sampled from.

/// Error of logits that cannot be sampled from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LogitsError {
    /// The row has no logits.
    #[error("there are no logits")]
    Empty,
    /// A logit is NaN or +∞, or all are −∞.
    #[error("the logits are not finite (first at token {token})")]
    NotFinite {
        /// Token id of the first bad logit.
        token: usize,
    },
}
