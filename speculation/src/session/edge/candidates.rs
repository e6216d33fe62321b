//! Guesses of an edge ahead of a text: a tree of candidates, and the part of it that the server has.
//!
//! The first candidate after a node is the best by E(x)/q(x), the second the next best. A draft gives both. Without
//! branches only first ones are guesses, and they form one chain.

use std::collections::BTreeMap;

use outrider_codec::frame::MAX_DRAFT_TOKENS;

use super::super::tree::{Key, Tree};
use crate::{control::calibration::Clarity, study::evidence::TokenEvidence};

/// Least probability of being right for a guess, or a path of them, to be worth its row or its drafting.
const LEAST: f64 = 0.05;

/// Guesses at the tokens after the end of a text.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    tree: Tree<Guess>,
    /// The draft model's result for the token after the text.
    next: Drafted,
    /// The chain that the last token of the text was of, if nothing of that was wrong; 0: none.
    chain: u32,
    /// Position after the last guess that was sent of each chain.
    ends: BTreeMap<u32, usize>,
    /// Number of the last chain.
    last: u32,
}

#[derive(Debug, Default)]
struct Guess {
    /// The chain that it was sent in; 0: the server does not have it, as far as is known.
    chain: u32,
    /// True if it was ever sent.
    was_sent: bool,
    source: Source,
    behind: Drafted,
}

/// The origin of a guess.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Source {
    /// The draft model, with the clarity of its choice if that is known.
    Drafted(Option<Clarity>),
    /// A repetition, with the number of tokens that the text's end repeats there.
    Found { matched: usize },
}

impl Default for Source {
    fn default() -> Self {
        Self::Drafted(None)
    }
}

/// The draft model's result for a position.
#[derive(Debug, Default)]
struct Drafted {
    /// True once the draft model was asked.
    is_known: bool,
    /// The second candidate, as long as that is no guess.
    second: Option<u32>,
    /// The distribution that candidates are drawn from, if it is reported.
    evidence: Option<TokenEvidence>,
}

/// Settings by which candidates are chosen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    /// Number of tokens ahead of the text for which first candidates are guessed.
    pub(super) lead: usize,
    /// Rates at which first and second candidates are right.
    pub(super) rates: [f64; 2],
    /// The most branches that the server takes; 0 where second candidates are not guessed.
    pub(super) branches: usize,
    /// The most guesses that it lets lie ahead of the text.
    pub(super) most: usize,
    /// The most guesses in a row after the text.
    pub(super) depth: usize,
}

/// A run of guesses to be sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) chain: u32,
    pub(super) parent: u32,
    pub(super) position: usize,
    pub(super) ids: Vec<u32>,
}

/// A token of the text beside what was guessed there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Compared {
    /// Number of guesses at it.
    pub(super) guesses: usize,
    /// Candidates for it that are known.
    pub(super) candidates: usize,
    /// Rank of the right candidate among them, if one was right.
    pub(super) right: Option<usize>,
    /// The guess that it was.
    pub(super) key: Option<Key>,
    /// True if it was a guess that was sent.
    pub(super) was_sent: bool,
}

impl Candidates {
    /// The connection is another: the server may have nothing.
    pub(super) fn resumed(&mut self) {
        self.chain = 0;
        self.ends.clear();
        self.tree.values_mut().for_each(|guess| guess.chain = 0);
    }

    /// True if no chain has begun.
    pub(super) fn is_new(&self) -> bool {
        self.last == 0
    }

    /// True if the server has a guess.
    pub(super) fn is_any_sent(&self) -> bool {
        self.tree.values().any(|guess| guess.chain > 0)
    }

    /// True if a node is still guessed.
    pub(super) fn has(&self, key: Key) -> bool {
        self.tree.get(key).is_some()
    }

    /// True if all nodes up to this one are first candidates.
    pub(super) fn is_on_line(&self, at: Option<Key>) -> bool {
        at.is_none_or(|key| self.tree.line().any(|of_line| of_line == key))
    }

    /// The ids of the guesses up to a node.
    pub(super) fn path(&self, at: Option<Key>) -> Vec<u32> {
        self.tree.path(at)
    }

    /// The node, or the text, after which the next draft is worth most; `None` if no draft is worth anything. Nothing
    /// follows a token that `ends` a text.
    pub(super) fn next(&self, policy: Policy, ends: impl Fn(u32) -> bool) -> Option<Option<Key>> {
        if !self.next.is_known {
            return (policy.depth > 0 && policy.lead > 0 && policy.most > 0).then_some(None);
        }
        if self.tree.len() >= policy.most {
            return None;
        }
        let goes_on = |key: Key| self.tree.get(key).is_some_and(|node| !ends(node.id));
        let (tip, length) = self.tree.line().zip(1..).last()?;
        let line = (length < policy.lead.min(policy.depth) && goes_on(tip)).then_some(tip);
        let [first, _] = policy.rates;
        if self.room_beside(policy) == 0 {
            return line.map(Some);
        }
        let of_line = line.map_or(0.0, |_| first.powi(length as i32));
        let is_better = |&(key, path): &(Key, f64)| {
            let is_open = self.tree.get(key).is_some_and(|node| !node.value.behind.is_known);
            is_open && key != tip && path > of_line && goes_on(key) && self.tree.path(Some(key)).len() < policy.depth
        };
        let worth = self.tree.most_probable(policy.rates, usize::MAX, |_, path| path * first > LEAST);
        worth.iter().find(|at| is_better(at)).map(|(key, _)| *key).or(line).map(Some)
    }

    /// Number of guesses that may still be made beside the line, for which room up to `lead` is always left.
    fn room_beside(&self, policy: Policy) -> usize {
        if policy.branches == 0 {
            return 0;
        }
        let beside = self.tree.len() - self.tree.line().count();
        policy.most.saturating_sub(policy.lead + beside)
    }

    /// Takes the evidence of the candidates for the next token, as far as it is known.
    pub(super) fn take_evidence(&mut self) -> TokenEvidence {
        self.next.evidence.take().unwrap_or_default()
    }

    /// Number of first candidates in the line, each after the one before.
    pub(super) fn line_length(&self) -> usize {
        self.tree.line().count()
    }

    /// Number of the line's candidates that were not yet sent.
    pub(super) fn unsent(&self) -> usize {
        let is_unsent = |key: &Key| self.tree.get(*key).is_some_and(|node| node.value.chain == 0);
        self.tree.line().filter(is_unsent).count()
    }

    /// Number of all guesses in the tree.
    pub(super) fn len(&self) -> usize {
        self.tree.len()
    }

    /// Adds candidates after a node, or after the text, with the first one's source, and the distribution that they
    /// were drawn from if it is reported. Gives the first as a node.
    pub(super) fn drafted(
        &mut self,
        at: Option<Key>,
        (first, source): (u32, Source),
        second: Option<u32>,
        evidence: Option<TokenEvidence>,
    ) -> Option<Key> {
        let drafted = Drafted { is_known: true, second, evidence };
        match at {
            None => self.next = drafted,
            Some(key) => self.tree.get_mut(key)?.value.behind = drafted,
        }
        Some(self.tree.add(at, first, Guess { source, ..Guess::default() }))
    }

    /// The line's guesses and their sources.
    pub(super) fn line(&self) -> impl Iterator<Item = (u32, Source)> {
        self.tree.line().filter_map(|key| self.tree.get(key)).map(|node| (node.id, node.value.source))
    }

    /// Continues the line to the end of what is `expected` after the text, unless the line differs from that; up to
    /// `most` guesses in all. Returns the number of guesses that this added.
    pub(super) fn continue_line(&mut self, expected: &[u32], source: Source, most: usize) -> usize {
        if self.line().zip(expected).any(|((id, _), of)| id != *of) {
            return 0;
        }
        let before = self.len();
        let (mut tip, room) = (self.tree.line().last(), most.saturating_sub(self.len()));
        for &id in expected.iter().skip(self.line_length()).take(room) {
            tip = self.drafted(tip, (id, source), None, None);
        }
        self.len() - before
    }

    /// Takes second candidates as guesses where they are worth it.
    pub(super) fn branch(&mut self, policy: Policy) {
        let [_, second] = policy.rates;
        if second <= LEAST {
            return;
        }
        let mut nodes = vec![(None, 1.0)];
        let worth = self.tree.most_probable(policy.rates, usize::MAX, |_, path| path * second > LEAST);
        nodes.extend(worth.into_iter().map(|(key, path)| (Some(key), path)));
        for (at, _) in nodes {
            if self.room_beside(policy) == 0 {
                return;
            }
            let behind = match at {
                None => Some(&mut self.next),
                Some(key) => self.tree.get_mut(key).map(|node| &mut node.value.behind),
            };
            if let Some(id) = behind.and_then(|behind| behind.second.take()) {
                self.tree.add(at, id, Guess::default());
            }
        }
    }

    /// Guesses that are to be sent now; the text has `length` tokens. The line is sent in groups, or as far as it goes
    /// if the `next` draft is not of the line. Branches are sent as they are, after the line's group, which a target
    /// that waits needs first. Branches less probable than the guess that the next draft will give are not sent,
    /// because a frame takes time, too.
    pub(super) fn send(
        &mut self,
        length: usize,
        group: usize,
        next: Option<Option<Key>>,
        policy: Policy,
    ) -> Option<Run> {
        let line_goes_on = next.is_some_and(|at| self.is_on_line(at));
        let is_unsent = |key: &Key| self.tree.get(*key).is_some_and(|node| node.value.chain == 0);
        // Guesses made without a connection may be more than the server lets lie ahead of the text.
        let line = self.tree.line().take(policy.most);
        let mut run: Vec<Key> = line.filter(is_unsent).take(MAX_DRAFT_TOKENS.into()).collect();
        if run.len() < group && line_goes_on && !run.is_empty() {
            return None;
        }
        if run.is_empty() && policy.branches > 0 && self.tree.len() <= policy.most {
            let is_side = |key: &Key| {
                let Some(node) = self.tree.get(*key).filter(|_| is_unsent(key)) else { return false };
                let before = node.parent.is_none_or(|parent| !is_unsent(&parent));
                let first = self.tree.children(node.parent).first();
                let other = first.is_some_and(|first| first == key || !is_unsent(first));
                before && other && !self.tree.line().any(|of_line| of_line == *key)
            };
            let [first, _] = policy.rates;
            let least = next.map_or(0.0, |at| first * self.tree.probability(at, policy.rates));
            let worth = self.tree.most_probable(policy.rates, usize::MAX, |_, path| path >= least);
            run.extend(worth.into_iter().map(|(key, _)| key).find(is_side));
        }
        let first = *run.first()?;
        let parent = self.tree.get(first)?.parent;
        let position = length + self.tree.path(parent).len();
        let chain_of = |key: Key| self.tree.get(key).map_or(0, |node| node.value.chain);
        let mut left = parent.map_or(self.chain, chain_of);
        if left == 0 {
            left = self.tree.children(parent).first().map_or(0, |other| chain_of(*other));
        }
        let goes_on = left > 0 && self.ends.get(&left) == Some(&position);
        if !goes_on && left > 0 && self.alive() > policy.branches {
            return None;
        }
        let chain = if goes_on { left } else { self.last + 1 };
        let ids: Vec<u32> = run.iter().filter_map(|key| Some(self.tree.get(*key)?.id)).collect();
        for key in run {
            if let Some(node) = self.tree.get_mut(key) {
                (node.value.chain, node.value.was_sent) = (chain, true);
            }
        }
        self.last = self.last.max(chain);
        self.ends.insert(chain, position + ids.len());
        Some(Run { chain, parent: if goes_on { 0 } else { left }, position, ids })
    }

    /// A run of nothing, which says how long the server is to wait. It has no guesses, and gets another chain unless
    /// the text is one's end.
    pub(super) fn nothing(&mut self, length: usize) -> Run {
        if self.chain == 0 || self.ends.get(&self.chain) != Some(&length) {
            self.last += 1;
            self.chain = self.last;
            self.ends.insert(self.chain, length);
        }
        Run { chain: self.chain, parent: 0, position: length, ids: Vec::new() }
    }

    /// Chains that the server takes to be alive.
    fn alive(&self) -> usize {
        let mut chains: Vec<u32> = self.tree.values().map(|guess| guess.chain).chain([self.chain]).collect();
        chains.sort_unstable();
        chains.dedup();
        chains.iter().filter(|chain| **chain > 0).count()
    }

    /// The text goes on by a token.
    pub(super) fn advance(&mut self, token: u32) -> Compared {
        let Drafted { second, is_known, .. } = core::mem::take(&mut self.next);
        let step = self.tree.advance(token);
        let guesses = step.candidates;
        let candidates = guesses + usize::from(second.is_some());
        self.chain = 0;
        let Some((which, key, node)) = step.right else {
            self.ends.clear();
            let right = (is_known && second == Some(token)).then_some(guesses);
            return Compared { guesses, candidates, right, key: None, was_sent: false };
        };
        (self.next, self.chain) = (node.value.behind, node.value.chain);
        self.ends.retain(|chain, _| *chain == self.chain || self.tree.values().any(|guess| guess.chain == *chain));
        Compared { guesses, candidates, right: Some(which), key: Some(key), was_sent: node.value.was_sent }
    }
}
