//! Rows of next-token logits, and the hidden states that they are read from.

/// Next-token logits at the wanted positions of one chunk, in the order they were asked for, with the hidden state
/// of each; in memory of a [`Scratch`](crate::Scratch).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogitsRef<'s> {
    /// shape: [wanted, vocab_size]
    values: &'s [f32],
    /// shape: [wanted, hidden_size]
    hidden: &'s [f32],
    vocab_size: usize,
    hidden_size: usize,
}

/// [`LogitsRef`] with memory of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Logits {
    values: Vec<f32>,
    hidden: Vec<f32>,
    vocab_size: usize,
    hidden_size: usize,
}

/// What a forward pass gives: the logits of each chunk.
#[derive(Debug, Clone, Copy)]
pub struct BatchLogits<'s> {
    pub(crate) rows: LogitsRef<'s>,
    /// For each chunk, where its rows end.
    pub(crate) ends: &'s [usize],
}

impl<'s> BatchLogits<'s> {
    /// Number of chunks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there was no chunk.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The rows of the `index`-th chunk.
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

    /// The chunks in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = LogitsRef<'s>> + use<'s> {
        let batch = *self;
        (0..batch.len()).map(move |index| batch.chunk(index))
    }
}

impl<'s> LogitsRef<'s> {
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
    pub fn row(&self, index: usize) -> &'s [f32] {
        &self.values[index * self.vocab_size..(index + 1) * self.vocab_size]
    }

    /// The last hidden state of the `index`-th wanted position, `hidden_size` numbers: what the output head turns into
    /// [`row`](Self::row), so after the final norm. As independent of batching as the row is.
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[must_use]
    pub fn hidden(&self, index: usize) -> &'s [f32] {
        &self.hidden[index * self.hidden_size..(index + 1) * self.hidden_size]
    }

    /// The rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'s [f32]> + use<'s> {
        self.values.chunks_exact(self.vocab_size)
    }

    /// A copy that outlives the memory of the forward pass.
    #[must_use]
    pub fn to_logits(&self) -> Logits {
        let Self { values, hidden, vocab_size, hidden_size } = *self;
        Logits { values: values.to_vec(), hidden: hidden.to_vec(), vocab_size, hidden_size }
    }

    /// `values` are `[wanted, vocab_size]`, `hidden` `[wanted, hidden_size]`.
    pub(crate) fn new(values: &'s [f32], vocab_size: usize, hidden: &'s [f32], hidden_size: usize) -> Self {
        debug_assert!(values.len().is_multiple_of(vocab_size));
        debug_assert_eq!(values.len() / vocab_size * hidden_size, hidden.len());
        Self { values, hidden, vocab_size, hidden_size }
    }
}

impl Logits {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.borrow().len()
    }

    /// Whether no position was wanted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// [`LogitsRef::row`].
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[must_use]
    pub fn row(&self, index: usize) -> &[f32] {
        self.borrow().row(index)
    }

    /// [`LogitsRef::hidden`].
    ///
    /// # Panics
    /// If `index` is not below [`len`](Self::len).
    #[must_use]
    pub fn hidden(&self, index: usize) -> &[f32] {
        self.borrow().hidden(index)
    }

    /// The rows in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.borrow().iter()
    }

    fn borrow(&self) -> LogitsRef<'_> {
        LogitsRef::new(&self.values, self.vocab_size, &self.hidden, self.hidden_size)
    }
}
