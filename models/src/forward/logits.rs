//! Next-token logits, and the hidden states from which they are computed.

/// Next-token logits at the requested positions of one chunk, in the order of the request, with the hidden state of
/// each. Borrowed from a [`Scratch`](crate::Scratch).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogitsRef<'s> {
    /// shape: [wanted, vocab_size]
    values: &'s [f32],
    /// shape: [wanted, hidden_size]
    hidden: &'s [f32],
    vocab_size: usize,
    hidden_size: usize,
}

/// Owned copy of a [`LogitsRef`].
#[derive(Debug, Clone, PartialEq)]
pub struct Logits {
    values: Vec<f32>,
    hidden: Vec<f32>,
    vocab_size: usize,
    hidden_size: usize,
}

/// Result of a forward pass: the logits of each chunk.
#[derive(Debug, Clone, Copy)]
pub struct BatchLogits<'s> {
    pub(crate) rows: LogitsRef<'s>,
    /// End of each chunk's rows, as a row index.
    pub(crate) ends: &'s [usize],
}

impl<'s> BatchLogits<'s> {
    /// Number of chunks in the batch.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether the batch had no chunk.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Rows of the chunk at `index`.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[must_use]
    pub fn chunk(&self, index: usize) -> LogitsRef<'s> {
        let first = if index == 0 { 0 } else { self.ends[index - 1] };
        let LogitsRef { values, hidden, vocab_size, hidden_size } = self.rows;
        let end = self.ends[index];
        LogitsRef {
            values: &values[first * vocab_size..end * vocab_size],
            hidden: &hidden[first * hidden_size..end * hidden_size],
            vocab_size,
            hidden_size,
        }
    }

    /// Iterator over the chunks in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = LogitsRef<'s>> + use<'s> {
        let batch = *self;
        (0..batch.len()).map(move |index| batch.chunk(index))
    }
}

impl<'s> LogitsRef<'s> {
    /// Number of rows, one per requested position.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len() / self.vocab_size
    }

    /// Returns whether no position was requested.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Logits at the requested position `index`: one unnormalised log-probability per token id.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[must_use]
    pub fn row(&self, index: usize) -> &'s [f32] {
        &self.values[index * self.vocab_size..(index + 1) * self.vocab_size]
    }

    /// Last hidden state at the requested position `index`, `hidden_size` numbers after the final norm. It is the
    /// output head's input for [`row`](Self::row). Like the row, it does not depend on batching.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[must_use]
    pub fn hidden(&self, index: usize) -> &'s [f32] {
        &self.hidden[index * self.hidden_size..(index + 1) * self.hidden_size]
    }

    /// Iterator over the rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'s [f32]> + use<'s> {
        self.values.chunks_exact(self.vocab_size)
    }

    /// Copies the rows out of the memory of the forward pass.
    #[must_use]
    pub fn to_logits(&self) -> Logits {
        let Self { values, hidden, vocab_size, hidden_size } = *self;
        Logits { values: values.to_vec(), hidden: hidden.to_vec(), vocab_size, hidden_size }
    }

    /// Creates a view of `values`, `[wanted, vocab_size]`, and `hidden`, `[wanted, hidden_size]`.
    pub(crate) fn new(values: &'s [f32], vocab_size: usize, hidden: &'s [f32], hidden_size: usize) -> Self {
        debug_assert!(values.len().is_multiple_of(vocab_size));
        debug_assert_eq!(values.len() / vocab_size * hidden_size, hidden.len());
        Self { values, hidden, vocab_size, hidden_size }
    }
}

impl Logits {
    /// Number of rows, one per requested position.
    #[must_use]
    pub fn len(&self) -> usize {
        self.borrow().len()
    }

    /// Returns whether no position was requested.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Logits at the requested position `index`; see [`LogitsRef::row`].
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[must_use]
    pub fn row(&self, index: usize) -> &[f32] {
        self.borrow().row(index)
    }

    /// Last hidden state at the requested position `index`; see [`LogitsRef::hidden`].
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[must_use]
    pub fn hidden(&self, index: usize) -> &[f32] {
        self.borrow().hidden(index)
    }

    /// Iterator over the rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.borrow().iter()
    }

    fn borrow(&self) -> LogitsRef<'_> {
        LogitsRef::new(&self.values, self.vocab_size, &self.hidden, self.hidden_size)
    }
}
