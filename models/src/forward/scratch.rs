//! Working memory of forward passes, and the layout of a packed batch in it.

use super::{
    cache::Chunk,
    mixture::Mixture,
    rope::{Angles, PerRotary, Rope},
};
use crate::{
    family::draft_vocabulary::DraftVocabulary,
    kernels::{attention::RowSpan, rounded::Activations},
    threads,
};

/// Number of multiplications of a forward pass below which waking other threads costs more than it saves.
const PASS_WORTH_SPLITTING: usize = 2 << 20;

/// Reusable working memory of forward passes, for any model and batch.
#[derive(Debug, Default)]
pub struct Scratch {
    // Rows of the packed batch.
    pub(super) tokens: Vec<u32>,
    pub(super) spans: Vec<RowSpan>,
    /// Lines to which the spans belong.
    pub(super) lines: Vec<Line>,
    /// Rows whose logits are requested, ascending.
    pub(super) wanted: Vec<usize>,
    /// End of each chunk's rows among the requested ones.
    pub(super) ends: Vec<usize>,
    // Vectors of each row.
    pub(super) hidden: Vec<f32>,
    pub(super) normed: Vec<f32>,
    pub(super) query: Vec<f32>,
    pub(super) key: Vec<f32>,
    pub(super) value: Vec<f32>,
    pub(super) context: Vec<f32>,
    pub(super) projected: Vec<f32>,
    pub(super) gate: Vec<f32>,
    pub(super) up: Vec<f32>,
    pub(super) mixture: Mixture,
    // Vectors of requested rows.
    pub(super) final_hidden: Vec<f32>,
    pub(super) logits: Vec<f32>,
    /// Logits of a head with fewer rows than the vocabulary.
    pub(super) head_logits: Vec<f32>,
    // Working memory of products and attention.
    pub(super) activations: Activations,
    pub(super) angles: PerRotary<Angles>,
    /// Rows of the embedding or position table.
    pub(super) places: Vec<u32>,
    pub(super) groups: Vec<[usize; 2]>,
}

/// Run of rows in a batch that continue one text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) chunk: usize,
    /// Line in the chunk's cache: 0 for its own, n for its n-th branch.
    pub(super) number: usize,
    pub(super) tokens: usize,
}

impl Scratch {
    /// Number of threads for a forward pass of these rows. `multiplications` is per row.
    pub(super) fn threads(&self, multiplications: usize) -> usize {
        match self.tokens.len() * multiplications < PASS_WORTH_SPLITTING {
            true => 1,
            false => threads::limit(),
        }
    }

    /// Lays out the rows of a batch. Each row sees the tokens before it and itself. The rows of a chunk's branches
    /// follow its own.
    pub(super) fn lay_out<'b, 'c: 'b>(&mut self, batch: impl Iterator<Item = &'b Chunk<'c>>) {
        self.tokens.clear();
        self.spans.clear();
        self.lines.clear();
        self.wanted.clear();
        self.ends.clear();
        for (index, chunk) in batch.enumerate() {
            let first = self.tokens.len();
            self.wanted.extend(chunk.positions.iter().map(|position| first + position));
            self.line(index, 0, chunk.cache.len(), chunk.tokens);
            for (number, (from, tokens)) in (1..).zip(chunk.cache.branches.unread()) {
                self.wanted.extend(self.tokens.len()..self.tokens.len() + tokens.len());
                self.line(index, number, from, tokens);
            }
            self.ends.push(self.wanted.len());
        }
    }

    /// Adds tokens of a line, starting at position `from`.
    fn line(&mut self, chunk: usize, number: usize, from: usize, tokens: &[u32]) {
        let sequence = self.lines.len();
        self.lines.push(Line { chunk, number, tokens: tokens.len() });
        self.tokens.extend(tokens);
        let positions = from..from + tokens.len();
        self.spans.extend(positions.map(|position| RowSpan { sequence, position, visible: position + 1 }));
    }

    /// Keeps only the requested rows of the residual stream, and of its norm if it was computed.
    pub(super) fn keep_wanted(&mut self, width: usize) {
        let normed = if self.normed.len() == self.hidden.len() { Some(&mut self.normed) } else { None };
        for rows in [Some(&mut self.hidden), normed].into_iter().flatten() {
            for (to, &from) in self.wanted.iter().enumerate() {
                rows.copy_within(from * width..(from + 1) * width, to * width);
            }
            rows.truncate(self.wanted.len() * width);
        }
        for (to, &from) in self.wanted.iter().enumerate() {
            self.spans[to] = self.spans[from];
        }
        self.spans.truncate(self.wanted.len());
    }

    /// Keeps only the first `width` logits of each requested row.
    pub(super) fn cut_logits(&mut self, width: usize) {
        let rows = self.wanted.len();
        let computed = self.logits.len() / rows.max(1);
        if computed > width {
            for row in 0..rows {
                self.logits.copy_within(row * computed..row * computed + width, row * width);
            }
            self.logits.truncate(rows * width);
        }
    }

    /// Moves the logits of each requested row to the places of their tokens.
    pub(super) fn spread_logits(&mut self, vocabulary: &DraftVocabulary, vocab_size: usize) {
        let width = self.logits.len() / self.wanted.len().max(1);
        std::mem::swap(&mut self.logits, &mut self.head_logits);
        vocabulary.spread(&self.head_logits, width.max(1), vocab_size, &mut self.logits);
    }

    /// Computes the rotary angles of all rows.
    pub(super) fn angles(&mut self, ropes: &PerRotary<Option<Rope>>) {
        let Self { spans, angles, .. } = self;
        for (rope, angles) in [(&ropes.global, &mut angles.global), (&ropes.local, &mut angles.local)] {
            if let Some(rope) = rope {
                rope.angles(spans.iter().map(|span| span.position), angles);
            }
        }
    }
}
