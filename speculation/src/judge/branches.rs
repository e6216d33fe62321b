//! Guesses that form a tree: branches leave the line of a round's drafts, or one another, and one pass judges all.
//!
//! Under coupled drafting the target's choice at a position does not depend on the guesses. Thus the judgement follows
//! its choices through the tree, and ends where no guess is the choice.

use core::iter;

use crate::judge::types::{Branch, NextToken, Round};

impl Round {
    /// Number of guesses that it judges, those of its branches included.
    pub(crate) fn guesses(&self) -> usize {
        self.drafts.len() + self.branch_rows()
    }

    /// Number of guesses that it judges at the next `tokens` tokens, those of its branches included.
    pub(crate) fn guesses_at(&self, tokens: usize) -> usize {
        let branched = self.branches.iter().map(|branch| branch.ids.len().min(tokens.saturating_sub(branch.from)));
        self.drafts.len().min(tokens) + branched.sum::<usize>()
    }

    /// Number of rows of logits after guesses of branches, which follow [those of the drafts](Self::rows).
    pub fn branch_rows(&self) -> usize {
        self.branches.iter().map(|branch| branch.ids.len()).sum()
    }

    /// The guesses up to the end of a line: the drafts, 0, or one of the branches, counted from 1.
    pub fn line(&self, line: usize) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut length = usize::MAX;
        for branch in self.ancestry(line) {
            ids.splice(0..0, branch.ids[..(length.saturating_sub(branch.from)).min(branch.ids.len())].iter().copied());
            length = length.min(branch.from);
        }
        let drafts = self.drafts.ids();
        ids.splice(0..0, drafts[..length.min(drafts.len())].iter().copied());
        ids
    }

    /// Number of guesses of a line, at most `accepted`, that are drafts of the round.
    pub(crate) fn on_drafts(&self, line: usize, accepted: usize) -> usize {
        self.ancestry(line).last().map_or(accepted, |branch| accepted.min(branch.from))
    }

    /// Index of the row of logits after `guesses` guesses of a line.
    pub fn row(&self, line: usize, guesses: usize) -> usize {
        let mut line = line;
        while let Some(branch) = line.checked_sub(1).and_then(|index| self.branches.get(index)) {
            if guesses > branch.from {
                let before: usize = self.branches[..line - 1].iter().map(|branch| branch.ids.len()).sum();
                return self.rows() + before + guesses - branch.from - 1;
            }
            line = branch.parent;
        }
        guesses
    }

    /// A line's branch, that which it leaves, and so on to the drafts.
    fn ancestry(&self, line: usize) -> impl Iterator<Item = &Branch> {
        let get = |line: usize| line.checked_sub(1).and_then(|index| self.branches.get(index));
        iter::successors(get(line), move |branch| get(branch.parent))
    }

    /// Follows choices of the target through the tree: `choose(row, guesses)` gives the choice after that number of
    /// guesses, by that row. Returns the number of accepted guesses, their line, and the choice after them.
    pub(super) fn follow<E>(
        &self,
        mut choose: impl FnMut(usize, usize) -> Result<u32, E>,
    ) -> Result<(usize, usize, NextToken), E> {
        let lines: Vec<Vec<u32>> = (0..=self.branches.len()).map(|line| self.line(line)).collect();
        let (mut line, mut accepted) = (0, 0);
        loop {
            let choice = choose(self.row(line, accepted), accepted)?;
            let is_on = |other: &Vec<u32>| {
                other.len() > accepted && other[..accepted] == lines[line][..accepted] && other[accepted] == choice
            };
            let Some(next) = lines.iter().position(is_on) else {
                return Ok((accepted, line, NextToken::Token(choice)));
            };
            (line, accepted) = (next, accepted + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use outrider_codec::frame::SamplingParameters;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;
    use crate::{
        judge::{Judgement, judge},
        sample::Distribution,
    };

    const WARM: SamplingParameters = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };
    const POSITION: usize = 5;

    fn branch(parent: usize, from: usize, ids: &[u32]) -> Branch {
        Branch { parent, from, ids: ids.to_vec() }
    }

    /// Drafts 1 2 3 with branches: 4 5 in place of 2, 6 in place of 5, 7 in place of 1, and 0 4 after 3. Rows: after
    /// the text and each of these.
    fn tree(seed: u64) -> Round {
        let branches = vec![branch(0, 1, &[4, 5]), branch(1, 2, &[6]), branch(0, 0, &[7]), branch(0, 3, &[0, 4])];
        Round { branches, ..Round::ahead(WARM, seed, POSITION, vec![1, 2, 3]) }
    }

    /// A target whose choice at each position depends on the two tokens before.
    fn logits(text: &[u32]) -> Vec<f32> {
        let state = text.iter().rev().take(2).fold(7u32, |state, id| state.wrapping_mul(31).wrapping_add(id + 3));
        (0..8u32).map(|id| (state.wrapping_mul(id + 5) >> 7) as f32 % 3.0).collect()
    }

    #[test]
    fn rows_and_lines_are_where_they_are_said_to_be() {
        let tree = tree(1);
        let lines = [vec![1, 2, 3], vec![1, 4, 5], vec![1, 4, 6], vec![7], vec![1, 2, 3, 0, 4]];
        assert_eq!((0..5).map(|line| tree.line(line)).collect::<Vec<_>>(), lines);
        assert_eq!((tree.rows(), tree.branch_rows(), tree.guesses()), (4, 6, 9));
        let rows = |line: usize| (0..=lines[line].len()).map(|guesses| tree.row(line, guesses)).collect::<Vec<_>>();
        assert_eq!(
            [rows(0), rows(1), rows(2), rows(3)],
            [vec![0, 1, 2, 3], vec![0, 1, 4, 5], vec![0, 1, 4, 6], vec![0, 7]]
        );
        assert_eq!(rows(4), [0, 1, 2, 3, 8, 9]);
        assert_eq!([(0, 2), (2, 3), (2, 1), (3, 1), (4, 5)].map(|(line, n)| tree.on_drafts(line, n)), [2, 1, 1, 0, 3]);
    }

    /// Token by token: what the target chooses alone is what a tree's judgement says, wherever its path leads.
    #[test]
    fn the_judgement_is_what_the_target_writes_alone() {
        let mut ends = std::collections::BTreeSet::new();
        for seed in 0..20_000 {
            let tree = tree(seed);
            let choice = |text: &[u32]| {
                let row = logits(text);
                tree.noise.choose_from(POSITION + text.len(), &Distribution::new(&row, &WARM).unwrap())
            };
            let mut text = Vec::new();
            let lines: Vec<Vec<u32>> = (0..5).map(|line| tree.line(line)).collect();
            loop {
                text.push(choice(&text));
                if !lines.iter().any(|line| line.starts_with(&text)) {
                    break;
                }
            }
            let next = text.pop().unwrap();
            let mut rows = vec![vec![]; tree.rows() + tree.branch_rows()];
            for (number, line) in lines.iter().enumerate() {
                (0..=line.len()).for_each(|guesses| rows[tree.row(number, guesses)] = logits(&line[..guesses]));
            }
            let rows: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
            let judgement = judge(&tree, &rows).unwrap();
            assert_eq!((judgement.accepted, &judgement.next), (text.len(), &NextToken::Token(next)), "seed {seed}");
            assert_eq!(tree.line(judgement.branch)[..judgement.accepted], text);
            assert_eq!(tree.check(&judgement, 8), Ok(()));
            ends.insert(text);
        }
        assert!(ends.len() >= 8, "most nodes are an end: {ends:?}");
    }

    #[test]
    fn what_no_tree_leads_to_is_found() {
        let tree = tree(1);
        let to = |branch, accepted, next| Judgement { accepted, next, branch, ..Judgement::default() };
        let token = NextToken::Token(1);
        for (judgement, is_right) in [
            (to(4, 5, token.clone()), true),
            (to(3, 1, token.clone()), true),
            (to(3, 2, token.clone()), false),
            (to(5, 1, token.clone()), false),
            (to(0, 4, token), false),
            (to(0, 3, NextToken::Nothing), false),
            (to(2, 3, NextToken::Token(8)), false),
        ] {
            assert_eq!(tree.check(&judgement, 8).is_ok(), is_right, "{judgement:?}");
        }
    }
}
