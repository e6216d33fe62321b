//! Subsets and compositions as integers: the codes that attain ⌈log2 of the number of objects⌉ bits.
//!
//! # Subsets
//!
//! A k-subset c₁ < c₂ < … < c_k of {0, …, n−1} has the rank
//!
//! ```text
//! rank = C(c₁,1) + C(c₂,2) + … + C(c_k,k)        (the combinatorial number system)
//! ```
//!
//! which is a bijection onto 0 … C(n,k)−1: the subsets whose largest element is below c number C(c,k) and come
//! first. Unranking reads it backwards: c_k is the largest c with C(c,k) ≤ rank, and so on with the rest.
//!
//! n = 4, k = 2:
//!
//! | rank | 0 | 1 | 2 | 3 | 4 | 5 |
//! |---|---|---|---|---|---|---|
//! | subset | 0 1 | 0 2 | 1 2 | 0 3 | 1 3 | 2 3 |
//!
//! # Compositions
//!
//! ℓ = b₁ + … + b_K with bᵢ ≥ 0 is a row of ℓ stars and K−1 bars (Bhattacharjee et al., eq. 2): the positions of
//! the bars are a (K−1)-subset of {0, …, ℓ+K−2}. So one code serves both.
//!
//! # Cost
//!
//! With s = min(k, n−k): O(s²) factors and divisors at worst, O(s + Σ gaps) when consecutive elements are close. As
//! many as fit into a machine word are applied to the big integer at once. A subset with k > n/2 is coded as its
//! complement.
//!
//! Cover, "Enumerative source encoding", IEEE Trans. Inf. Theory 19(1), 1973.

use num_bigint::BigUint;

use crate::{
    bits::{BitReader, BitWriter},
    error::DecodeError,
    natural::Natural,
};

/// The binomial coefficient C(n, k); zero for k > n.
pub fn binomial(n: u32, k: u32) -> BigUint {
    if k > n {
        return BigUint::ZERO;
    }
    BigUint::from(&Cursor::new(n, k.min(n - k)).value)
}

/// ⌈log2 C(n, k)⌉: the bits of the largest rank.
pub fn subset_bits(n: u32, k: u32) -> u32 {
    bits_for(&binomial(n, k))
}

/// Estimated cost of ranking a k-subset of {0, …, n−1}, in operations on 64-bit digits, without any binomial computed.
///
/// It is a lower bound, and the true cost is at most a few times as large: with s = min(k, n−k) elements to go through,
/// s times the 64-bit digits of a bound on C(n, k), which is below 2ⁿ and below n^s.
pub fn subset_work(n: u32, k: u32) -> u64 {
    let short = u64::from(k.min(n - k));
    let bits = short.saturating_mul((u32::BITS - n.leading_zeros()).into()).min(n.into());
    short.saturating_mul(bits.div_ceil(64))
}

/// A code for k-subsets of {0, …, n−1}.
#[derive(Debug, Clone)]
pub struct SubsetCode {
    n: u32,
    k: u32,
    /// The number of subsets, C(n, k).
    count: BigUint,
    bits: u32,
}

impl SubsetCode {
    /// Makes the code for k-subsets of {0, …, n−1}; `k` ≤ `n`.
    pub fn new(n: u32, k: u32) -> Self {
        assert!(k <= n, "no {k}-subset of {n} elements exists");
        let count = binomial(n, k);
        let bits = bits_for(&count);
        Self { n, k, count, bits }
    }

    /// Bits of a rank, ⌈log2 C(n, k)⌉.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Rank of a subset given as k ascending elements below n.
    pub fn rank(&self, subset: &[u32]) -> BigUint {
        debug_assert_eq!(subset.len(), self.k as usize);
        debug_assert!(subset.windows(2).all(|pair| pair[0] < pair[1]));
        debug_assert!(subset.last().is_none_or(|&last| last < self.n));
        let rank = if self.is_complemented() { rank(&complement(self.n, subset)) } else { rank(subset) };
        BigUint::from(&rank)
    }

    /// The subset of a rank; `None` if the rank is not below C(n, k).
    pub fn unrank(&self, rank: BigUint) -> Option<Vec<u32>> {
        if rank >= self.count {
            return None;
        }
        let rank = Natural::from(&rank);
        Some(if self.is_complemented() {
            complement(self.n, &unrank(rank, self.n, self.n - self.k))
        } else {
            unrank(rank, self.n, self.k)
        })
    }

    /// Writes the rank in [`bits`](Self::bits) bits.
    pub fn encode(&self, subset: &[u32], out: &mut BitWriter) {
        out.put_big(&self.rank(subset), self.bits);
    }

    /// Reads a subset that [`encode`](Self::encode) wrote; `field` names it in errors.
    pub fn decode(&self, input: &mut BitReader<'_>, field: &'static str) -> Result<Vec<u32>, DecodeError> {
        let rank = input.take_big(self.bits, field)?;
        let low = rank.iter_u64_digits().next().unwrap_or(0);
        self.unrank(rank).ok_or(DecodeError::Value { field, value: low })
    }

    fn is_complemented(&self) -> bool {
        self.k > self.n - self.k
    }
}

/// A code for compositions of ℓ into K parts, each at least zero.
#[derive(Debug, Clone)]
pub struct CompositionCode {
    total: u32,
    bars: SubsetCode,
}

impl CompositionCode {
    /// Makes the code for compositions of `total` = ℓ into `parts` = K ≥ 1 parts.
    pub fn new(total: u32, parts: u32) -> Self {
        Self { total, bars: SubsetCode::new(total + parts - 1, parts - 1) }
    }

    /// Bits of a rank, ⌈log2 C(ℓ+K−1, K−1)⌉.
    pub fn bits(&self) -> u32 {
        self.bars.bits()
    }

    /// Writes the rank of `counts` (K numbers that add up to ℓ) in [`bits`](Self::bits) bits.
    pub fn encode(&self, counts: &[u32], out: &mut BitWriter) {
        debug_assert_eq!(counts.iter().sum::<u32>(), self.total);
        // Bar i stands after the stars of parts 0..=i and the i bars before it.
        let mut stars = 0;
        let bars: Vec<u32> = counts[..counts.len() - 1]
            .iter()
            .zip(0u32..)
            .map(|(count, i)| {
                stars += count;
                stars + i
            })
            .collect();
        self.bars.encode(&bars, out);
    }

    /// Reads counts that [`encode`](Self::encode) wrote; `field` names them in errors.
    pub fn decode(&self, input: &mut BitReader<'_>, field: &'static str) -> Result<Vec<u32>, DecodeError> {
        let bars = self.bars.decode(input, field)?;
        let mut counts = Vec::with_capacity(bars.len() + 1);
        let mut start = 0;
        for bar in bars {
            counts.push(bar - start);
            start = bar + 1;
        }
        counts.push(self.bars.n - start);
        Ok(counts)
    }
}

/// Bits of an index below `count`: ⌈log2 count⌉.
fn bits_for(count: &BigUint) -> u32 {
    // C(n, k) < 2^n and n < 2^32, so the number of bits fits.
    (count - 1u32).bits() as u32
}

fn complement(n: u32, subset: &[u32]) -> Vec<u32> {
    let mut out = Vec::with_capacity(n as usize - subset.len());
    let mut start = 0;
    for &element in subset {
        out.extend(start..element);
        start = element + 1;
    }
    out.extend(start..n);
    out
}

fn rank(subset: &[u32]) -> Natural {
    let mut sum = Natural::zero();
    let mut cursor: Option<Cursor> = None;
    for (&c, i) in subset.iter().rev().zip((1..=subset.len() as u32).rev()) {
        // The elements 0, 1, …, i−1 that are left contribute C(c, c+1) = 0 each.
        if c < i {
            break;
        }
        let at = match cursor.take() {
            Some(mut previous) => {
                previous.move_to(c, i);
                previous
            }
            None => Cursor::new(c, i),
        };
        sum.add(&at.value);
        cursor = Some(at);
    }
    sum
}

fn unrank(mut rest: Natural, n: u32, k: u32) -> Vec<u32> {
    let mut subset = vec![0; k as usize];
    // C(n, k) > rest: the search for c_k starts above it.
    let mut cursor = Cursor::new(n, k);
    for i in (1..=k).rev() {
        if rest.is_zero() {
            // All that is left is 0, 1, …, i−1.
            for (slot, element) in subset.iter_mut().zip(0..i) {
                *slot = element;
            }
            break;
        }
        cursor.seek(&rest, i);
        rest.subtract(&cursor.value);
        subset[i as usize - 1] = cursor.n;
    }
    subset
}

/// C(n, k) with its neighbours one factor and one divisor away. Invariant: k ≤ n, so it is at least 1.
///
/// Passes over the digits of the value are what takes time. So factors and divisors wait in a machine word each, until
/// it is full:
///
/// ```text
/// C(n, k) = value · factors / divisors
/// ```
///
/// Both sides are integers for every n and k on the way, so dividing value · factors by the divisors leaves no rest
/// whenever it is done.
#[derive(Debug, Clone)]
struct Cursor {
    n: u32,
    k: u32,
    value: Natural,
    factors: u64,
    divisors: u64,
}

impl Cursor {
    /// A cursor at C(n, k), settled.
    fn new(n: u32, k: u32) -> Self {
        let mut cursor = Self { n, k, value: Natural::one(), factors: 1, divisors: 1 };
        cursor.start_at(n, k);
        cursor
    }

    /// Makes it C(n, k), settled, whatever its value.
    fn start_at(&mut self, n: u32, k: u32) {
        (self.n, self.k) = (n, k);
        self.value.set_one();
        let short = k.min(n - k);
        // C(n−short+j, j) for j = 1, 2, …
        for j in 1..=short {
            self.times(n - short + j, j);
        }
        self.settle();
    }

    /// Multiplies by factor/divisor, which has to lead to the neighbour that the caller moves to.
    fn times(&mut self, factor: u32, divisor: u32) {
        match self.divisors.checked_mul(divisor.into()) {
            Some(divisors) => self.divisors = divisors,
            None => {
                self.settle();
                self.divisors = divisor.into();
            }
        }
        match self.factors.checked_mul(factor.into()) {
            Some(factors) => self.factors = factors,
            None => {
                self.value.multiply(self.factors);
                self.factors = factor.into();
            }
        }
    }

    /// Makes `value` C(n, k).
    fn settle(&mut self) {
        if self.factors > 1 {
            self.value.multiply(std::mem::replace(&mut self.factors, 1));
        }
        if self.divisors > 1 {
            self.value.divide_exactly(std::mem::replace(&mut self.divisors, 1));
        }
    }

    /// Moves from C(n, k) to C(n′, k′) for k′ ≤ n′ and k′ ≤ k, settled: step by step or by a new start, whichever is
    /// shorter.
    fn move_to(&mut self, n: u32, k: u32) {
        debug_assert!(k <= self.k, "ranks are read from the largest element down");
        let walk = u64::from(self.n.abs_diff(n)) + u64::from(self.k - k);
        // A new start is on smaller integers all the way and has small divisors, of which more fit into a word.
        if 4 * walk > u64::from(k.min(n - k)) {
            self.start_at(n, k);
            return;
        }
        // Down in k first and down in n last, so that k ≤ n holds all the way.
        while self.k > k {
            // C(n, k−1) = C(n, k)·k/(n−k+1)
            self.times(self.k, self.n - self.k + 1);
            self.k -= 1;
        }
        while self.n < n {
            // C(n+1, k) = C(n, k)·(n+1)/(n+1−k)
            self.times(self.n + 1, self.n + 1 - self.k);
            self.n += 1;
        }
        while self.n > n {
            // C(n−1, k) = C(n, k)·(n−k)/n
            self.times(self.n - self.k, self.n);
            self.n -= 1;
        }
        self.settle();
    }

    /// Moves to the largest n with C(n, i) ≤ `rest`, where 1 ≤ `rest` < C(self.n, i) and i ≤ self.k.
    ///
    /// A float guess says where to look first; the integers decide. A bad guess costs steps, never a wrong answer.
    fn seek(&mut self, rest: &Natural, i: u32) {
        // Invariant: C(below, i) ≤ rest < C(above, i). C(i, i) = 1 ≤ rest.
        let (mut below, mut above) = (i, self.n);
        self.move_to(self.n, i);
        loop {
            let guess = self.guess(rest).clamp(below, above - 1);
            self.move_to(guess, i);
            if self.value > *rest {
                above = self.n;
                continue;
            }
            below = self.n;
            if below + 1 == above {
                return;
            }
            let mut next = self.value.clone();
            next.multiply((self.n + 1).into());
            next.divide_exactly((self.n + 1 - i).into());
            if next > *rest {
                return;
            }
            self.value = next;
            self.n += 1;
            below = self.n;
        }
    }

    /// About the n′ with C(n′, k) = `rest`: C(n, k) ≈ (n − (k−1)/2)^k / k!, scaled to be exact at the cursor.
    fn guess(&self, rest: &Natural) -> u32 {
        let middle = f64::from(self.k - 1) / 2.0;
        let ratio = (rest.log2() - self.value.log2()) / f64::from(self.k);
        ((f64::from(self.n) - middle) * ratio.exp2() + middle) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn the_table_in_the_module_text_holds() {
        let code = SubsetCode::new(4, 2);
        let table = [[0, 1], [0, 2], [1, 2], [0, 3], [1, 3], [2, 3]];
        for (rank, subset) in table.iter().enumerate() {
            assert_eq!(code.rank(subset), BigUint::from(rank));
            assert_eq!(code.unrank(rank.into()).unwrap(), subset);
        }
    }

    #[test]
    fn small_subset_codes_are_bijections() {
        for n in 0..=12 {
            for k in 0..=n {
                let code = SubsetCode::new(n, k);
                let masks = (0u32..1 << n).filter(|mask| mask.count_ones() == k);
                // Masks of one weight ascend as their subsets do in this order (colexicographic), unless they
                // are coded by their complement, which reverses it.
                let mut ranks: Vec<u64> = Vec::new();
                for mask in masks {
                    let subset: Vec<u32> = (0..n).filter(|i| (mask >> i) & 1 == 1).collect();
                    let rank = code.rank(&subset);
                    assert_eq!(code.unrank(rank.clone()).unwrap(), subset);
                    ranks.push(rank.iter_u64_digits().next().unwrap_or(0));
                }
                ranks.sort_unstable();
                let count = ranks.len() as u64;
                assert!(ranks.iter().copied().eq(0..count), "n={n} k={k}");
                assert_eq!(binomial(n, k), count.into());
                assert_eq!(code.unrank(count.into()), None);
                assert_eq!(code.bits(), (count as f64).log2().ceil() as u32);
            }
        }
    }

    #[test]
    fn small_composition_codes_are_bijections() {
        fn compositions(total: u32, parts: u32) -> Vec<Vec<u32>> {
            if parts == 1 {
                return vec![vec![total]];
            }
            (0..=total)
                .flat_map(|first| {
                    compositions(total - first, parts - 1).into_iter().map(move |mut rest| {
                        rest.insert(0, first);
                        rest
                    })
                })
                .collect()
        }
        for total in 0..=8 {
            for parts in 1..=6 {
                let code = CompositionCode::new(total, parts);
                let all = compositions(total, parts);
                assert_eq!(binomial(total + parts - 1, parts - 1), all.len().into());
                let mut seen = std::collections::BTreeSet::new();
                for counts in &all {
                    let mut out = BitWriter::new();
                    code.encode(counts, &mut out);
                    assert_eq!(out.len(), code.bits() as usize);
                    let bytes = out.into_bytes();
                    let mut input = BitReader::new(&bytes);
                    assert_eq!(&code.decode(&mut input, "counts").unwrap(), counts);
                    assert!(seen.insert(bytes), "two compositions share a code word");
                }
            }
        }
    }

    #[test]
    fn the_first_and_the_last_rank_of_large_codes() {
        for (n, k) in [(4096, 8), (50257, 32), (151_936, 128), (151_936, 1), (300, 150), (4096, 4095), (9, 9)] {
            let code = SubsetCode::new(n, k);
            let first: Vec<u32> = (0..k).collect();
            let last: Vec<u32> = (n - k..n).collect();
            let (low, high) = (BigUint::ZERO, binomial(n, k) - 1u32);
            let expected = if k > n - k { (&high, &low) } else { (&low, &high) };
            assert_eq!((&code.rank(&first), &code.rank(&last)), expected);
            assert_eq!(code.unrank(code.rank(&first)).unwrap(), first);
            assert_eq!(code.unrank(code.rank(&last)).unwrap(), last);
            assert_eq!(code.unrank(high + 1u32), None);
        }
    }

    proptest! {
        #[test]
        fn large_subset_codes_round_trip(n in 1u32..200_000, k in 0usize..150, seed in any::<u64>()) {
            // A few clusters and a few spread elements: both kinds of movement of the cursor.
            let mut state = seed | 1;
            let mut next = || { state ^= state << 13; state ^= state >> 7; state ^= state << 17; state };
            let mut set = std::collections::BTreeSet::new();
            while set.len() < k.min(n as usize / 2) {
                let base = (next() % u64::from(n)) as u32;
                for offset in 0..1 + (next() % 4) as u32 {
                    if base + offset < n { set.insert(base + offset); }
                }
            }
            let subset: Vec<u32> = set.into_iter().collect();
            let code = SubsetCode::new(n, subset.len() as u32);
            prop_assert_eq!(code.unrank(code.rank(&subset)), Some(subset));
        }

        #[test]
        fn every_rank_below_the_count_is_used(n in 1u32..60_000, k in 1u32..64, fraction in 0u32..=1 << 20) {
            let k = k.min(n);
            let code = SubsetCode::new(n, k);
            let rank = ((binomial(n, k) - 1u32) * fraction) >> 20u32;
            let subset = code.unrank(rank.clone()).unwrap();
            prop_assert_eq!(code.rank(&subset), rank);
        }
    }
}
