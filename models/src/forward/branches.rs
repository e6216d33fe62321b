//! Branches: tokens that may follow a text in another way than those of its cache, read in the same forward pass.
//!
//! A branch leaves a line of tokens behind its first `from` tokens; the line is the cache's own, or another branch. It
//! has the pages before that in common with it, and from there on pages of its own. The page in which it leaves is
//! copied layer by layer once the line's rows are staged, so that every key lies where it would in a cache that holds
//! the branch alone: each of its logits has the bits that it would have there.
//!
//! ```text
//! the cache's own   | page 0 | page 1 | page 2 |
//! branch 1                   | page 1'|            leaves in page 1: a copy, and its own rows behind
//! branch 2, of 1             | page 1"| page 2" |
//! ```

use crate::kernels::head_page::PAGE_TOKENS;

/// One of the branches of a cache.
#[derive(Debug, Clone)]
pub(super) struct Branch<P> {
    /// The line that it leaves: 0 for the cache's own, n for its n-th branch.
    pub(super) parent: usize,
    /// Number of tokens before its first, those of the text included.
    pub(super) from: usize,
    pub(super) tokens: Vec<u32>,
    /// Those from the page on in which it leaves, once there is room for it.
    pub(super) pages: Vec<P>,
}

/// The branches of a cache.
#[derive(Debug, Clone)]
pub(super) struct Branches<P> {
    pub(super) all: Vec<Branch<P>>,
    /// Whether a forward pass has read them.
    pub(super) are_read: bool,
    /// Pages of branches that were discarded, for those of the next pass.
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
    /// Pages that they hold.
    pub(super) fn pages(&self) -> usize {
        self.spare.len() + self.all.iter().map(|branch| branch.pages.len()).sum::<usize>()
    }

    /// Those that the next forward pass reads, in order, with the number of tokens before each.
    pub(super) fn unread(&self) -> impl Iterator<Item = (usize, &[u32])> {
        let unread = if self.are_read { &[] } else { &self.all[..] };
        unread.iter().map(|branch| (branch.from, &branch.tokens[..]))
    }

    /// Discards all. Their memory stays for those that the next pass reads.
    pub(super) fn discard(&mut self) {
        self.spare.extend(self.all.drain(..).flat_map(|branch| branch.pages));
        self.are_read = false;
    }

    /// Discards those that a pass has read: another begins.
    pub(super) fn forget_read(&mut self) {
        if self.are_read {
            self.discard();
        }
    }

    /// They have been staged in every layer.
    pub(super) fn grow(&mut self) {
        self.are_read = !self.all.is_empty();
    }
}
