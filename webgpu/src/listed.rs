//! Rows of logits as their largest values and the mass of the rest: a few kilobytes instead of four bytes per token of
//! the vocabulary.

use crate::kernels::{THREADS, TOKENS};

/// Capacity of a list in tokens.
const MOST_LISTED: usize = 512;
/// Maximum K of a request. If K pieces of the row reach the bound, more than K tokens may: several in one piece.
const MOST_WANTED: usize = 256;
/// Maximum number of pieces of a row: 32 per thread of one workgroup.
const MOST_PIECES: usize = 32 * THREADS;

/// Layout of the lists for a model's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listing {
    vocab_size: usize,
    /// Number of workgroups per row.
    pub(crate) groups: usize,
    /// Number of pieces per workgroup.
    pieces: usize,
}

impl Listing {
    pub(crate) fn new(vocab_size: usize) -> Self {
        let groups = vocab_size.div_ceil(THREADS * TOKENS);
        let fits = |pieces: &usize| groups * pieces <= MOST_PIECES;
        let pieces = (0..=THREADS.ilog2()).rev().map(|power| 1 << power).find(fits).unwrap_or(0);
        Self { vocab_size, groups, pieces }
    }

    /// Largest K for which rows can be listed.
    pub(crate) fn most(&self) -> usize {
        // Each piece has a token, unless the vocabulary has fewer tokens.
        self.all_pieces().min(self.vocab_size).min(MOST_WANTED)
    }

    /// Number of pieces per row.
    pub(crate) fn all_pieces(&self) -> usize {
        self.groups * self.pieces
    }

    /// Number of words in a row's list.
    pub(crate) fn words(&self) -> usize {
        1 + 2 * MOST_LISTED + self.groups
    }

    /// Contents of the shaders' `Shape`.
    pub(crate) fn shape(&self) -> [u32; 3] {
        [self.groups as u32, self.pieces as u32, MOST_LISTED as u32]
    }

    /// Appends the row described by a list. All tokens not listed share their total mass equally; `rate` is log2(e)/T,
    /// or 0 at T = 0, where their mass is zero. Returns `false` and appends nothing if the list has overflowed.
    pub(crate) fn append_row(&self, list: &[[u8; 4]], rate: f32, logits: &mut Vec<f32>) -> bool {
        let (Some((&[count], rest)), start) = (list.split_first_chunk(), logits.len()) else { return false };
        let count = u32::from_le_bytes(count) as usize;
        let (tokens, masses) = rest.split_at((2 * MOST_LISTED).min(rest.len()));
        if count == 0 || count > MOST_LISTED.min(self.vocab_size) {
            return false;
        }
        let (pairs, _) = tokens.as_chunks::<2>();
        let pairs = || {
            let pair = |&[id, logit]: &[[u8; 4]; 2]| (u32::from_le_bytes(id) as usize, f32::from_le_bytes(logit));
            pairs.iter().take(count).map(pair)
        };
        let logits_of = || pairs().map(|(_, logit)| logit);
        let (most, least) = logits_of()
            .fold((f32::NEG_INFINITY, f32::INFINITY), |(most, least), logit| (most.max(logit), least.min(logit)));
        let mass: f64 = masses.iter().map(|&mass| f64::from(f32::from_le_bytes(mass))).sum();
        let share = mass / (self.vocab_size - count) as f64;
        let other =
            if rate == 0.0 || mass == 0.0 { f32::NEG_INFINITY } else { most + (share.log2() / f64::from(rate)) as f32 };
        // Rounding must not rank the other tokens above listed ones. NaN stays NaN.
        let other = if other > least { least } else { other };
        logits.resize(start + self.vocab_size, other);
        let row = &mut logits[start..];
        for (id, logit) in pairs() {
            if let Some(place) = row.get_mut(id) {
                *place = logit;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    #[test]
    fn every_vocabulary_has_pieces_of_some_tokens() {
        for (vocab_size, groups, pieces, most) in
            [(40, 1, 64, 40), (4096, 8, 64, 256), (32_000, 63, 32, 256), (151_936, 297, 4, 256), (262_144, 512, 4, 256)]
        {
            let listing = Listing::new(vocab_size);
            assert_eq!((listing.groups, listing.pieces, listing.most()), (groups, pieces, most), "{vocab_size}");
            assert!(listing.all_pieces() <= MOST_PIECES);
        }
        assert_eq!(Listing::new(MOST_PIECES * THREADS * TOKENS + 1).most(), 0, "more than a list is made for");
    }

    fn list(listing: &Listing, tokens: &[(u32, f32)], mass: f32) -> Vec<[u8; 4]> {
        let mut words = vec![[0; 4]; listing.words()];
        words[0] = (tokens.len() as u32).to_le_bytes();
        for (index, (id, logit)) in tokens.iter().take(MOST_LISTED).enumerate() {
            words[1 + 2 * index..][..2].copy_from_slice(&[id.to_le_bytes(), logit.to_le_bytes()]);
        }
        words[1 + 2 * MOST_LISTED] = mass.to_le_bytes();
        words
    }

    #[test]
    fn what_is_not_listed_shares_its_mass() {
        let listing = Listing::new(1000);
        let mut row = Vec::new();
        // At T = ½: e^(2·(l − 3)) = 998/998.
        let rate = 2.0 * core::f32::consts::LOG2_E;
        assert!(listing.append_row(&list(&listing, &[(7, 3.0), (2, 2.5)], 99.8), rate, &mut row));
        assert_eq!((row.len(), row[7], row[2]), (1000, 3.0, 2.5));
        let share = f64::from(row[0] - 3.0) * 2.0;
        assert!((share.exp() - 0.1).abs() < 1e-6, "{share}");
        assert!(row.iter().enumerate().all(|(id, &logit)| id == 7 || id == 2 || logit == row[0]));
        // Appended after the existing row.
        assert!(listing.append_row(&list(&listing, &[(0, 1.0)], 1e30), rate, &mut row));
        assert_eq!((row.len(), row[1000], row[1999]), (2000, 1.0, 1.0), "none is before what is listed");
        for (rate, mass) in [(0.0, 5.0), (rate, 0.0)] {
            row.clear();
            assert!(listing.append_row(&list(&listing, &[(999, 1.0)], mass), rate, &mut row));
            assert_eq!((row[0], row[999]), (f32::NEG_INFINITY, 1.0));
        }
        row.clear();
        assert!(listing.append_row(&list(&listing, &[(0, 1.0)], f32::NAN), rate, &mut row) && row[1].is_nan());
    }

    #[test]
    fn lists_that_are_not_whole_give_nothing() {
        let listing = Listing::new(1000);
        let mut row = Vec::new();
        let many: Vec<(u32, f32)> = (0..513).map(|id| (id, 0.0)).collect();
        for words in [list(&listing, &many, 0.0), list(&listing, &[], 1.0), Vec::new()] {
            assert!(!listing.append_row(&words, 1.0, &mut row) && row.is_empty());
        }
    }
}
