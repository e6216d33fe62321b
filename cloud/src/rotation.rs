//! Queues that are served in turn.

use std::collections::VecDeque;

/// Waiting items in one queue for each owner. Queues take turns, so an owner with many items delays only itself.
#[derive(Debug)]
pub(crate) struct Rotation<K, T> {
    /// Queues with their owners, the next to be served first. None of them is empty.
    lines: VecDeque<(K, VecDeque<T>)>,
}

impl<K, T> Default for Rotation<K, T> {
    fn default() -> Self {
        Self { lines: VecDeque::new() }
    }
}

impl<K: PartialEq + Copy, T> Rotation<K, T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Number of waiting items, over all queues.
    pub(crate) fn len(&self) -> usize {
        self.lines.iter().map(|(_, line)| line.len()).sum()
    }

    /// Appends an item to its owner's queue. A new queue is served after all others.
    pub(crate) fn push(&mut self, whose: K, item: T) {
        match self.lines.iter_mut().find(|(key, _)| *key == whose) {
            Some((_, line)) => line.push_back(item),
            None => self.lines.push_back((whose, VecDeque::from([item]))),
        }
    }

    /// Takes the first item of the next queue, with its owner. The rest of that queue moves to the end.
    pub(crate) fn pop(&mut self) -> Option<(K, T)> {
        self.pop_if(|_, _| true)
    }

    /// Takes the first item of the next queue whose first item `may` be taken. The rest of that queue moves to
    /// the end, and queues before it keep their places.
    pub(crate) fn pop_if(&mut self, may: impl Fn(&K, &T) -> bool) -> Option<(K, T)> {
        let at = self.lines.iter().position(|(whose, line)| line.front().is_some_and(|item| may(whose, item)))?;
        let (whose, mut line) = self.lines.remove(at)?;
        let item = line.pop_front()?;
        if !line.is_empty() {
            self.lines.push_back((whose, line));
        }
        Some((whose, item))
    }

    /// Owners of waiting items.
    pub(crate) fn owners(&self) -> impl Iterator<Item = &K> {
        self.lines.iter().map(|(whose, _)| whose)
    }

    /// All waiting items, in no particular order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.lines.iter().flat_map(|(_, line)| line)
    }

    /// Keeps only the items for which `stays` is true.
    pub(crate) fn retain(&mut self, stays: impl Fn(&T) -> bool) {
        self.lines.iter_mut().for_each(|(_, line)| line.retain(&stays));
        self.lines.retain(|(_, line)| !line.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_take_turns() {
        let mut rotation = Rotation::default();
        for (whose, item) in [('a', 1), ('a', 2), ('a', 3), ('b', 4), ('c', 5), ('b', 6), ('c', 7)] {
            rotation.push(whose, item);
        }
        rotation.retain(|item| *item != 5 && *item != 2);
        assert_eq!(rotation.len(), 5);
        assert_eq!(rotation.pop(), Some(('a', 1)));
        // An owner that comes back has lost its turn.
        rotation.push('d', 8);
        rotation.push('a', 1);
        let rest: Vec<(char, i32)> = std::iter::from_fn(|| rotation.pop()).collect();
        assert_eq!(rest, [('b', 4), ('c', 7), ('a', 3), ('d', 8), ('b', 6), ('a', 1)]);
        assert!(rotation.is_empty());
    }
}
