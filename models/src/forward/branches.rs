//! Branches: alternative continuations of a cached text, evaluated in the same forward pass.
//!
//! A branch continues the first `from` tokens of a line, which is the cache's own or an earlier branch. It shares the
//! full pages before that point and has its own pages from there on. The page at the branching point is copied layer by
//! layer after the parent line's rows are staged. Every key then lies where it would in a cache that holds only the
//! branch, so logits have the same bits as there.
//!
//! ```text
//! the cache's own   | page 0 | page 1 | page 2 |
//! branch 1                   | page 1'|            starts in page 1: a copy, followed by its own rows
//! branch 2, of 1             | page 1"| page 2" |
//! ```

use crate::kernels::head_page::PAGE_TOKENS;

/// Branch of a KV cache.
#[derive(Debug, Clone)]
pub(super) struct Branch<P> {
    /// Parent line: 0 for the cache's own, n for its n-th branch.
    pub(super) parent: usize,
    /// Number of tokens before the branch, on its parent line and the cache.
    pub(super) from: usize,
    pub(super) tokens: Vec<u32>,
    /// Pages from the branching point on, once they are allocated.
    pub(super) pages: Vec<P>,
}

/// All branches of a KV cache.
#[derive(Debug, Clone)]
pub(super) struct Branches<P> {
    pub(super) all: Vec<Branch<P>>,
    /// True once a forward pass has read the branches.
    pub(super) are_read: bool,
    /// Pages of discarded branches, reused by the next pass.
    pub(super) spare: Vec<P>,
}

impl<P> Default for Branches<P> {
    fn default() -> Self {
        Self { all: Vec::new(), are_read: false, spare: Vec::new() }
    }
}

impl<P> Branch<P> {
    pub(super) fn first_page(&self) -> usize {
        self.from / PAGE_TOKENS
    }

    pub(super) fn end(&self) -> usize {
        self.from + self.tokens.len()
    }
}

impl<P> Branches<P> {
    /// Number of pages held, including spare ones.
    pub(super) fn pages(&self) -> usize {
        self.spare.len() + self.all.iter().map(|branch| branch.pages.len()).sum::<usize>()
    }

    /// Branches for the next forward pass, in order, each with the number of tokens before it.
    pub(super) fn unread(&self) -> impl Iterator<Item = (usize, &[u32])> {
        let unread = if self.are_read { &[] } else { &self.all[..] };
        unread.iter().map(|branch| (branch.from, &branch.tokens[..]))
    }

    /// Discards all branches. Their pages are kept for the next ones.
    pub(super) fn discard(&mut self) {
        self.spare.extend(self.all.drain(..).flat_map(|branch| branch.pages));
        self.are_read = false;
    }

    /// Discards branches that a pass has already read.
    pub(super) fn forget_read(&mut self) {
        if self.are_read {
            self.discard();
        }
    }

    /// Marks the branches as read, after they have been staged in every layer.
    pub(super) fn grow(&mut self) {
        self.are_read = !self.all.is_empty();
    }
}
