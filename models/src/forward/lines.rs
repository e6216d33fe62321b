//! Lines of a cache: its own, and the [branches](super::branches) that a forward pass also reads. One branch may be
//! adopted as the cache's own line.

use super::{
    branches::{Branch, Branches},
    cache::{Chunk, HostPages, KvCache, PageSource},
};
use crate::{error::ModelError, kernels::head_page::PAGE_TOKENS};

impl<S: PageSource> KvCache<S> {
    /// Adds a branch for the next forward pass and returns its number, counted from 1. Its tokens follow the first
    /// `from` tokens of line `parent`: 0 for the cache's own, including the chunk's tokens, or an earlier branch. The
    /// pass returns logits after each of its tokens, after those of the chunk.
    ///
    /// Branches last until the next forward pass, or until the cache is truncated.
    pub fn branch(&mut self, parent: usize, from: usize, tokens: Vec<u32>) -> usize {
        self.branches.forget_read();
        self.branches.all.push(Branch { parent, from, tokens, pages: Vec::new() });
        self.branches.all.len()
    }

    /// Makes a branch that was read the cache's own line, as if the cache had been fed this branch alone. All other
    /// branches are discarded. Has no effect if the branch does not exist or was not read.
    pub fn adopt(&mut self, branch: usize) {
        if !self.branches.are_read {
            return;
        }
        let mut path = Vec::new();
        let mut line = branch;
        while let Some(Branch { parent, .. }) = line.checked_sub(1).and_then(|index| self.branches.all.get(index)) {
            path.push(line - 1);
            line = *parent;
        }
        let Some(&last) = path.first() else { return };
        self.len = self.branches.all[last].end();
        for index in path.into_iter().rev() {
            let first = self.branches.all[index].first_page();
            for (number, page) in (first..).zip(std::mem::take(&mut self.branches.all[index].pages)) {
                match self.pages.get_mut(number) {
                    Some(other) => self.branches.spare.push(std::mem::replace(other, page)),
                    None => self.pages.push(page),
                }
            }
        }
        self.branches.discard();
    }

    /// Size in bytes of a branch of `tokens` tokens after `from` others.
    #[must_use]
    pub fn bytes_for_branch(&self, from: usize, tokens: usize) -> usize {
        ((from + tokens).div_ceil(PAGE_TOKENS) - from / PAGE_TOKENS) * self.source.page_bytes()
    }

    /// Allocates pages for the branches of the next pass.
    pub(super) fn make_room_for_branches(&mut self) -> Result<(), S::Error> {
        let Branches { all, spare, .. } = &mut self.branches;
        for branch in all {
            let missing = branch.end().div_ceil(PAGE_TOKENS) - branch.first_page() - branch.pages.len();
            branch.pages.extend(spare.drain(spare.len().saturating_sub(missing)..));
            let missing = branch.end().div_ceil(PAGE_TOKENS) - branch.first_page() - branch.pages.len();
            if missing > 0 {
                self.source.extend(&mut branch.pages, missing)?;
            }
        }
        spare.clear();
        Ok(())
    }
}

impl<S: PageSource> Chunk<'_, S> {
    /// Checks the chunk's branches against the model.
    pub(super) fn check_branches(
        &self,
        chunk: usize,
        context_length: usize,
        vocab_size: usize,
    ) -> Result<(), ModelError> {
        let Branches { all, are_read: false, .. } = &self.cache.branches else { return Ok(()) };
        let (cached, own) = (self.cache.len(), self.cache.len() + self.tokens.len());
        for (index, branch) in all.iter().enumerate() {
            let line = match branch.parent.checked_sub(1) {
                None => Some(0..=own),
                Some(parent) => all[..index].get(parent).map(|parent| parent.from..=parent.end()),
            };
            let is_on_line = line.is_some_and(|line| line.contains(&branch.from));
            if !S::BRANCHES || !is_on_line || branch.tokens.is_empty() {
                return Err(ModelError::Branch { chunk, branch: index + 1 });
            }
            if branch.end() > context_length {
                let added = branch.end() - cached;
                return Err(ModelError::ContextExceeded { chunk, cached, added, context_length });
            }
            if let Some(index) = branch.tokens.iter().position(|&token| token as usize >= vocab_size) {
                return Err(ModelError::TokenOutOfRange { chunk, index, token: branch.tokens[index], vocab_size });
            }
        }
        Ok(())
    }
}

impl KvCache {
    /// Writes `keys` and `values`, each `[new, kv_heads, head_dim]`, of a line into a layer. Line 0 is the cache's own,
    /// line n its n-th branch, whose parent must already be staged in this layer.
    pub(super) fn stage_line(&mut self, number: usize, layer: usize, keys: &[f32], values: &[f32]) {
        let Some(index) = number.checked_sub(1) else { return self.stage(layer, keys, values) };
        let (earlier, [branch, ..]) = self.branches.all.split_at_mut(index) else { return };
        let first = branch.first_page();
        if branch.from % PAGE_TOKENS > 0 {
            let shared = match branch.parent.checked_sub(1) {
                None => &self.pages[first],
                Some(parent) => &earlier[parent].pages[first - earlier[parent].first_page()],
            };
            let part = self.source.layer(layer);
            branch.pages[0][part.clone()].copy_from_slice(&shared[part]);
        }
        self.source.write(&mut branch.pages, branch.from - first * PAGE_TOKENS, layer, keys, values);
    }

    /// Page of a line by its index.
    pub(super) fn line_page(&self, mut line: usize, page: usize) -> &<HostPages as PageSource>::Page {
        while let Some(branch) = line.checked_sub(1).map(|index| &self.branches.all[index]) {
            if page >= branch.first_page() {
                return &branch.pages[page - branch.first_page()];
            }
            line = branch.parent;
        }
        &self.pages[page]
    }
}
