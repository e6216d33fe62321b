//! Branches of a text that are read in the same pass have the bits of texts of their own.

use outrider_models::{Chunk, KvCache, Model, ModelError};
use outrider_testing::logits::{bits, logits_at_all};
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

use crate::fixture::{BLOCKS, DRAFT, gguf, models, tokens};

/// A text of `past` tokens, `own` tokens of its line after them, and branches: the line that each leaves, the number of
/// tokens after which it does, and its length.
struct Tree {
    past: usize,
    own: usize,
    branches: &'static [(usize, usize, usize)],
}

/// Pages have 32 tokens.
const TREES: [Tree; 6] = [
    // In the middle of a page, after the line's end, branches of branches, and two that leave together.
    Tree { past: 10, own: 6, branches: &[(0, 12, 3), (0, 16, 2), (1, 13, 4), (1, 15, 1), (3, 14, 2), (0, 12, 2)] },
    // At the edge of a page and on either side of it.
    Tree { past: 28, own: 8, branches: &[(0, 32, 3), (0, 31, 4), (0, 33, 2), (2, 32, 5), (2, 31, 1), (4, 37, 3)] },
    // Longer than a page, and branches of such a one in its first and its second page.
    Tree { past: 5, own: 3, branches: &[(0, 7, 40), (1, 30, 5), (1, 40, 8), (1, 32, 3), (3, 44, 6)] },
    // Without tokens of the line, and where the text is long read.
    Tree { past: 20, own: 0, branches: &[(0, 20, 2), (0, 9, 3), (2, 12, 1)] },
    Tree { past: 0, own: 1, branches: &[(0, 1, 1)] },
    Tree { past: 33, own: 2, branches: &[] },
];

impl Tree {
    /// Returns true if a model can read the tree.
    fn fits(&self, model: &Model) -> bool {
        let ends = self.branches.iter().map(|&(_, from, length)| from + length);
        ends.chain([self.past + self.own]).all(|end| end + 4 <= model.config().context_length)
    }

    /// The texts of the cache's own line and of each branch, with the number of tokens before the line's first.
    fn texts(&self) -> Vec<(Vec<u32>, usize)> {
        let mut texts = vec![(tokens(self.past + self.own, 1), self.past)];
        for (&(parent, from, length), seed) in self.branches.iter().zip(2..) {
            let text = [&texts[parent].0[..from], &tokens(length, seed)].concat();
            texts.push((text, from));
        }
        texts
    }

    /// A cache that has read the past, and is to read the branches.
    fn cache(&self, model: &Model) -> KvCache {
        let mut cache = model.new_cache();
        let texts = self.texts();
        if self.past > 0 {
            logits_at_all(model, &mut cache, &texts[0].0[..self.past]);
        }
        for ((number, &(parent, from, _)), (text, _)) in (1..).zip(self.branches).zip(&texts[1..]) {
            assert_eq!(cache.branch(parent, from, text[from..].to_vec()), number);
        }
        cache
    }
}

/// The rows of a text from a position on, read alone.
fn alone(model: &Model, text: &[u32], from: usize) -> Vec<Vec<u32>> {
    let rows = logits_at_all(model, &mut model.new_cache(), text);
    bits(rows[from..].iter().map(Vec::as_slice))
}

/// Trees of several texts in one batch: every row is the one of a text that is read alone.
#[test]
fn a_branch_has_the_bits_of_a_text_of_its_own() {
    let mut read = 0;
    for model in models() {
        let trees: Vec<&Tree> = TREES.iter().filter(|tree| tree.fits(&model)).collect();
        let mut caches: Vec<KvCache> = trees.iter().map(|tree| tree.cache(&model)).collect();
        let texts: Vec<_> = trees.iter().map(|tree| tree.texts()).collect();
        // Of the line, only some rows are wanted.
        let wanted: Vec<Vec<usize>> = trees.iter().map(|tree| (tree.own / 2..tree.own).collect()).collect();
        let mut batch: Vec<Chunk<'_>> = (caches.iter_mut().zip(&trees).zip(texts.iter().zip(&wanted)))
            .map(|((cache, tree), (texts, positions))| Chunk { cache, tokens: &texts[0].0[tree.past..], positions })
            .collect();
        let logits = model.forward(&mut batch).unwrap();
        for ((tree, texts), logits) in trees.iter().zip(&texts).zip(&logits) {
            let mut expected = alone(&model, &texts[0].0, tree.past + tree.own / 2);
            expected.extend(texts[1..].iter().flat_map(|(text, from)| alone(&model, text, *from)));
            assert!(bits(logits.iter()) == expected, "logits differ");
            read += texts.len() - 1;
        }
    }
    assert!(read > 100, "{read} branches were read");
}

/// Whichever branch is adopted, what follows has the bits of a cache that never held anything else; and so it has where
/// none is, in another batch.
#[test]
fn an_adopted_branch_leaves_the_cache_of_a_text_of_its_own() {
    for model in models() {
        for tree in TREES.iter().filter(|tree| tree.fits(&model)) {
            let texts = tree.texts();
            let own = &texts[0].0[tree.past..];
            let mut read = tree.cache(&model);
            logits_at_all(&model, &mut read, own);
            for (number, (text, from)) in texts.iter().enumerate() {
                let mut cache = read.clone();
                cache.adopt(number);
                if number > 0 {
                    assert_eq!(cache.len(), text.len());
                }
                // Cut back in the branch, or before it: a part of it was accepted.
                for keep in [text.len(), from + 1, *from, from.saturating_sub(2)] {
                    cache.truncate(keep);
                    let kept = &text[..keep.min(cache.len())];
                    let next = [kept, &[5, 3, 1]].concat();
                    let mut cache = cache.clone();
                    // The next pass has branches of its own.
                    cache.branch(0, next.len(), vec![2]);
                    let rows = logits_at_all(&model, &mut cache, &next[kept.len()..]);
                    let mut expected = alone(&model, &next, kept.len());
                    expected.extend(alone(&model, &[&next[..], &[2]].concat(), next.len()));
                    assert!(bits(rows.iter().map(Vec::as_slice)) == expected, "branch {number}, {keep} kept");
                }
            }
        }
    }
}

/// Memory: what branches hold is counted, and is given back with the next pass.
#[test]
fn branches_are_accounted_for_and_given_back() {
    let model = gguf(DRAFT);
    let mut cache = TREES[1].cache(&model);
    let page = cache.bytes_for(1);
    let own = tokens(8, 1);
    logits_at_all(&model, &mut cache, &own);
    let branches: usize = TREES[1].branches.iter().map(|&(_, from, length)| cache.bytes_for_branch(from, length)).sum();
    assert_eq!((cache.bytes(), branches), (2 * page + branches, 7 * page));
    let clone = cache.clone();
    logits_at_all(&model, &mut cache, &[1]);
    assert_eq!((cache.len(), cache.bytes()), (37, 2 * page));
    // Those that are not adopted are discarded, and are not there to be adopted any more.
    let mut cache = clone;
    cache.adopt(4);
    cache.adopt(2);
    assert_eq!(cache.len(), 37);
    logits_at_all(&model, &mut cache, &[1]);
    assert_eq!(cache.bytes(), 2 * page);
}

/// A branch that leaves no line is refused, and the cache is as it was.
#[test]
fn what_leaves_no_line_is_refused() {
    let model = gguf(BLOCKS[0].1);
    let context = model.config().context_length;
    let mut cache = model.new_cache();
    logits_at_all(&model, &mut cache, &[1, 2, 3, 4]);
    // After the line's end; of a branch that is not there, that is itself, or before it begins; without tokens.
    let wrong: [&[(usize, usize, usize)]; 5] =
        [&[(0, 7, 1)], &[(2, 5, 1)], &[(1, 5, 1)], &[(0, 5, 2), (1, 4, 1)], &[(0, 5, 0)]];
    let wrong = wrong.map(|branches| (branches, branches.len()));
    for (branches, offending) in wrong {
        for &(parent, from, length) in branches {
            cache.branch(parent, from, vec![1; length]);
        }
        let chunk = Chunk { cache: &mut cache, tokens: &[5, 6], positions: &[1] };
        let error = model.forward(&mut [chunk]).unwrap_err();
        assert!(matches!(error, ModelError::Branch { chunk: 0, branch } if branch == offending), "{error}");
    }
    for (token, length) in [(1, context - 3), (u32::MAX, 1)] {
        cache.branch(0, 4, vec![token; length]);
        let chunk = Chunk { cache: &mut cache, tokens: &[5, 6], positions: &[1] };
        let error = model.forward(&mut [chunk]).unwrap_err();
        let is_right = match error {
            ModelError::ContextExceeded { added, .. } => added == context - 3,
            ModelError::TokenOutOfRange { token: found, .. } => found == token,
            _ => false,
        };
        assert!(is_right, "{error}");
    }
    assert_eq!(cache.len(), 4);
    let rows = logits_at_all(&model, &mut cache, &[5, 6]);
    assert!(bits(rows.iter().map(Vec::as_slice)) == alone(&model, &[1, 2, 3, 4, 5, 6], 4));
}
