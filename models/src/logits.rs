//! Rows of next-token logits, and the hidden states that they are read from.

/// Next-token logits at the wanted positions of one chunk, in the order they were asked for, with the hidden state
/// of each.
#[derive(Debug, Clone, PartialEq)]
pub struct Logits {
    /// shape: [wanted, vocab_size]
    values: Vec<f32>,
    /// shape: [wanted, hidden_size]
    hidden: Vec<f32>,
    vocab_size: usize,
    hidden_size: usize,
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

    /// The last hidden state of the `index`-th wanted position, `hidden_size` numbers: what the output head turns into
    /// [`row`](Self::row), so after the final norm. As independent of batching as the row is.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[must_use]
    pub fn hidden(&self, index: usize) -> &[f32] {
        &self.hidden[index * self.hidden_size..(index + 1) * self.hidden_size]
    }

    /// The rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.vocab_size)
    }

    /// `values` are `[wanted, vocab_size]`, `hidden` `[wanted, hidden_size]`.
    pub(crate) fn new(values: Vec<f32>, vocab_size: usize, hidden: Vec<f32>, hidden_size: usize) -> Self {
        debug_assert!(values.len().is_multiple_of(vocab_size));
        debug_assert_eq!(values.len() / vocab_size * hidden_size, hidden.len());
        Self { values, hidden, vocab_size, hidden_size }
    }
}
