//! A tree of guesses at the tokens that follow a text: those of an edge, and those of them that a server has.
//!
//! The children of a node are guesses at the same token, the likeliest first; a path from the end of the text is a
//! chain of guesses of which each assumes those before it. When the text goes on, everything that disagrees is dropped,
//! in time proportional to what that is.

use std::collections::BTreeMap;

/// Names a node of a tree; never used again for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(u64);

/// A guess at the token after its parent or, without one, after the text.
#[derive(Debug)]
pub(super) struct Node<T> {
    pub(super) id: u32,
    pub(super) parent: Option<Key>,
    children: Vec<Key>,
    pub(super) value: T,
}

/// Guesses at the tokens after the end of a text.
#[derive(Debug)]
pub(super) struct Tree<T> {
    nodes: BTreeMap<Key, Node<T>>,
    /// Guesses at the next token.
    first: Vec<Key>,
    made: u64,
}

/// The guesses at the text's next token, once it is written.
#[derive(Debug)]
pub(super) struct Step<T> {
    /// Number of guesses at it.
    pub(super) candidates: usize,
    /// The one that was right: which of them, and what was kept of it.
    pub(super) right: Option<(usize, Key, Node<T>)>,
}

/// Probabilities that the first candidate after right guesses is right, and that the second is. No other is worth
/// anything.
pub(super) type Rates = [f64; 2];

impl<T> Default for Tree<T> {
    fn default() -> Self {
        Self { nodes: BTreeMap::new(), first: Vec::new(), made: 0 }
    }
}

impl<T> Tree<T> {
    /// The number of guesses.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.nodes.clear();
        self.first.clear();
    }

    /// Adds a guess after a node, which is there, or after the text.
    pub(super) fn add(&mut self, parent: Option<Key>, id: u32, value: T) -> Key {
        let key = Key(self.made);
        self.made += 1;
        match parent.and_then(|parent| self.nodes.get_mut(&parent)) {
            Some(parent) => parent.children.push(key),
            None => self.first.push(key),
        }
        self.nodes.insert(key, Node { id, parent, children: Vec::new(), value });
        key
    }

    pub(super) fn get(&self, key: Key) -> Option<&Node<T>> {
        self.nodes.get(&key)
    }

    pub(super) fn get_mut(&mut self, key: Key) -> Option<&mut Node<T>> {
        self.nodes.get_mut(&key)
    }

    /// The guesses at the token after a node, or after the text.
    pub(super) fn children(&self, parent: Option<Key>) -> &[Key] {
        match parent {
            None => &self.first,
            Some(parent) => self.nodes.get(&parent).map_or(&[], |node| &node.children),
        }
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.nodes.values().map(|node| &node.value)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.nodes.values_mut().map(|node| &mut node.value)
    }

    /// The node `steps` guesses before another on its path; `None` if that is the text.
    pub(super) fn ancestor(&self, key: Key, steps: usize) -> Option<Key> {
        (0..steps).try_fold(key, |key, _| self.nodes.get(&key)?.parent)
    }

    /// The ids of the guesses up to a node.
    pub(super) fn path(&self, key: Option<Key>) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut at = key.and_then(|key| self.nodes.get(&key));
        while let Some(node) = at {
            ids.push(node.id);
            at = node.parent.and_then(|parent| self.nodes.get(&parent));
        }
        ids.reverse();
        ids
    }

    /// The path of first candidates.
    pub(super) fn line(&self) -> impl Iterator<Item = Key> {
        let mut at = None;
        core::iter::from_fn(move || {
            at = self.children(at).first().copied();
            at
        })
    }

    /// The text goes on by a token: guesses at it, and what follows wrong ones, are dropped.
    pub(super) fn advance(&mut self, token: u32) -> Step<T> {
        let roots = core::mem::take(&mut self.first);
        let candidates = roots.len();
        let is_right = |key: &Key| self.nodes.get(key).is_some_and(|node| node.id == token);
        let right = roots.iter().position(is_right);
        let mut dropped: Vec<Key> = roots.iter().enumerate().filter(|at| Some(at.0) != right).map(|at| *at.1).collect();
        while let Some(key) = dropped.pop() {
            dropped.extend(self.nodes.remove(&key).into_iter().flat_map(|node| node.children));
        }
        let right = right.and_then(|which| {
            let mut node = self.nodes.remove(&roots[which])?;
            self.first = core::mem::take(&mut node.children);
            for key in &self.first {
                self.nodes.entry(*key).and_modify(|child| child.parent = None);
            }
            Some((which, roots[which], node))
        });
        Step { candidates, right }
    }

    /// Probability that a node and all before it on its path are right; 1 for the text.
    pub(super) fn probability(&self, key: Option<Key>, rates: Rates) -> f64 {
        let (mut path, mut at) = (1.0, key);
        while let Some(key) = at {
            let Some(node) = self.nodes.get(&key) else { return 0.0 };
            let place = self.children(node.parent).iter().position(|child| *child == key);
            path *= place.and_then(|place| rates.get(place)).copied().unwrap_or(0.0);
            at = node.parent;
        }
        path
    }

    /// The most probable nodes, at most `most`, none before its parent, that `wants` and all before them on their paths
    /// are wanted, with their probabilities.
    pub(super) fn most_probable(&self, rates: Rates, most: usize, wants: impl Fn(Key, f64) -> bool) -> Vec<(Key, f64)> {
        let behind = |parent: Option<Key>, path: f64| {
            let children = self.children(parent).iter().zip(rates);
            children.map(move |(&key, rate)| (key, path * rate))
        };
        let mut open: Vec<(Key, f64)> = behind(None, 1.0).collect();
        let mut found = Vec::new();
        while found.len() < most {
            open.retain(|&(key, path)| wants(key, path));
            // Of two that are as probable the one that was guessed first.
            let best = open.iter().enumerate().max_by(|(_, a), (_, b)| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
            let Some((index, &(key, path))) = best else { break };
            open.swap_remove(index);
            found.push((key, path));
            open.extend(behind(Some(key), path));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    #[test]
    fn what_disagrees_is_dropped_and_the_rest_goes_on() {
        let mut tree = Tree::default();
        let a = tree.add(None, 1, "a");
        let b = tree.add(None, 2, "b");
        let c = tree.add(Some(b), 3, "c");
        let d = tree.add(Some(b), 4, "d");
        tree.add(Some(a), 5, "e");
        let f = tree.add(Some(d), 6, "f");
        assert_eq!((tree.path(Some(f)), tree.ancestor(f, 2), tree.ancestor(f, 3)), (vec![2, 4, 6], Some(b), None));
        assert_eq!(tree.line().count(), 2);
        let step = tree.advance(2);
        assert!(matches!(step, Step { candidates: 2, right: Some((1, key, Node { value: "b", .. })) } if key == b));
        assert_eq!((tree.len(), tree.children(None), tree.path(Some(f))), (3, &[c, d][..], vec![4, 6]));
        let step = tree.advance(9);
        assert!(step.candidates == 2 && step.right.is_none() && tree.is_empty() && tree.children(None).is_empty());
    }

    /// By hand: 0.7, 0.49, 0.343, 0.2 (the second at the first token), 0.14 twice.
    #[test]
    fn the_most_probable_come_first() {
        let mut tree = Tree::default();
        let a = tree.add(None, 1, ());
        let b = tree.add(Some(a), 2, ());
        let c = tree.add(Some(b), 3, ());
        let second = tree.add(None, 4, ());
        let behind = tree.add(Some(second), 5, ());
        let at_two = tree.add(Some(a), 6, ());
        tree.add(None, 7, ());
        let found = |most, least| {
            let all = tree.most_probable([0.7, 0.2], most, |_, path| path > least);
            all.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
        };
        assert_eq!(found(9, 0.0), [a, b, c, second, behind, at_two], "a third is worth nothing");
        assert_eq!((found(9, 0.15), found(2, 0.0)), (vec![a, b, c, second], vec![a, b]));
        for (key, path) in tree.most_probable([0.7, 0.2], 9, |_, _| true) {
            assert!((tree.probability(Some(key), [0.7, 0.2]) - path).abs() < 1e-12);
        }
        assert_eq!(tree.probability(None, [0.7, 0.2]), 1.0);
    }

    proptest! {
        /// Against a list of paths.
        #[test]
        fn it_is_a_set_of_paths(steps in prop::collection::vec((0usize..12, 0u32..3, any::<bool>()), 0..60)) {
            let mut tree = Tree::default();
            let mut paths: Vec<(Key, Vec<u32>)> = Vec::new();
            for (at, id, advances) in steps {
                if advances {
                    let step = tree.advance(id);
                    let right = step.right.map(|(_, key, _)| key);
                    let first = paths.iter().filter(|(_, path)| path.len() == 1).find(|(_, path)| path[0] == id);
                    prop_assert_eq!(right, first.map(|(key, _)| *key));
                    // Of two that say the same the first counts, with what follows it.
                    paths.retain(|(key, _)| tree.get(*key).is_some());
                    paths.iter_mut().for_each(|(_, path)| { path.remove(0); });
                } else {
                    let parent = at.checked_sub(1).and_then(|at| paths.get(at)).cloned();
                    let key = tree.add(parent.as_ref().map(|(key, _)| *key), id, ());
                    paths.push((key, [parent.map_or(vec![], |(_, path)| path), vec![id]].concat()));
                }
                prop_assert_eq!(tree.len(), paths.len());
                for (key, path) in &paths {
                    prop_assert_eq!(&tree.path(Some(*key)), path);
                }
            }
        }
    }
}
