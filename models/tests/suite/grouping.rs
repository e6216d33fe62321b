//! Equality of bits, no tolerance, however tokens are grouped into calls: for every kind of model.

use outrider_models::KvCache;
use outrider_testing::logits::assert_same_bits;

/// Runs tokens after a cache, and returns the logits of the given rows.
pub type ForwardPass<'m> = dyn Fn(&mut KvCache, &[u32], &[usize]) -> Vec<Vec<f32>> + 'm;

/// A model that reads tokens into a cache.
pub struct Reader<'m> {
    pub fresh: &'m dyn Fn() -> KvCache,
    /// Reads tokens and gives the logits at the positions.
    pub forward: &'m ForwardPass<'m>,
}

impl Reader<'_> {
    fn all(&self, cache: &mut KvCache, tokens: &[u32]) -> Vec<Vec<f32>> {
        (self.forward)(cache, tokens, &(0..tokens.len()).collect::<Vec<_>>())
    }

    fn whole(&self, text: &[u32]) -> Vec<Vec<f32>> {
        self.all(&mut (self.fresh)(), text)
    }

    /// Fails unless pieces of any length give the logits of the whole text.
    pub fn assert_pieces_equal_the_whole(&self, text: &[u32]) {
        let whole = self.whole(text);
        for step in [1, 2, 3, 7, 9, 32, 40] {
            let mut cache = (self.fresh)();
            let rows: Vec<_> = text.chunks(step).flat_map(|piece| self.all(&mut cache, piece)).collect();
            assert_eq!(cache.len(), text.len());
            assert_same_bits(&rows, &whole);
        }
    }

    /// Fails unless tokens that are rolled back, at most `longest`, leave no trace.
    pub fn assert_rollback_leaves_no_trace(&self, text: &[u32], wrong_token: u32, longest: usize) {
        let (whole, mut cache) = (self.whole(text), (self.fresh)());
        self.all(&mut cache, &text[..20]);
        for (keep, wrong) in [(20, 9), (20, 17), (7, 1), (0, longest), (25, 3)] {
            let from = keep.min(cache.len());
            cache.truncate(keep);
            assert_eq!(cache.len(), from);
            self.all(&mut cache, &vec![wrong_token; wrong]);
            cache.truncate(from);
            assert_same_bits(&self.all(&mut cache, &text[from..]), &whole[from..]);
        }
    }

    /// Fails unless the logits at some positions are rows of the whole, and the cache is complete in any case.
    pub fn assert_wanted_positions_are_rows_of_the_whole(&self, text: &[u32]) {
        let (mut reference, last) = ((self.fresh)(), text.len() - 1);
        let whole = self.all(&mut reference, text);
        let next = self.all(&mut reference, &[7]);
        for wanted in [vec![], vec![last], vec![0], vec![3, 4, 11], vec![0, last]] {
            let mut cache = (self.fresh)();
            let expected: Vec<Vec<f32>> = wanted.iter().map(|&row| whole[row].clone()).collect();
            assert_same_bits(&(self.forward)(&mut cache, text, &wanted), &expected);
            assert_same_bits(&self.all(&mut cache, &[7]), &next);
        }
    }
}
