//! Rows of next-token logits.

/// Next-token logits at the wanted positions of one chunk, in the order they were asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Logits {
    values: Vec<f32>,
    vocab_size: usize,
}

impl Logits {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len() / self.vocab_size
    }

    /// Whether no position was wanted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The row of the `index`-th wanted position: one unnormalised log-probability per token id.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[must_use]
    pub fn row(&self, index: usize) -> &[f32] {
        &self.values[index * self.vocab_size..(index + 1) * self.vocab_size]
    }

    /// The rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.vocab_size)
    }

    pub(crate) fn new(values: Vec<f32>, vocab_size: usize) -> Self {
        debug_assert!(values.len().is_multiple_of(vocab_size));
        Self { values, vocab_size }
    }
}
