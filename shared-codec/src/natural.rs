//! Natural numbers for binomials: multiplied and divided by machine words in place, compared, added and subtracted.
//!
//! `num-bigint` holds the crate's other big integers. Ranking a subset takes some thousand divisions of a digit, and
//! here they leave no rest, which is known beforehand: then a division is a multiplication by the divisor's inverse
//! modulo 2⁶⁴.
//!
//! Let d be odd and x = q·d. The lowest digit of q is x₀·d⁻¹ mod 2⁶⁴, since the digits above do not reach it; take q₀·d
//! off x, and the next digit is the lowest of the rest (Jebelean, "An algorithm for exact division", 1993). Powers of
//! two are shifted out first.

use std::cmp::Ordering;

use num_bigint::BigUint;

/// A natural number of any size. Invariant: the highest digit is not zero; zero has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Natural {
    /// Digits in base 2⁶⁴, the lowest first.
    digits: Vec<u64>,
}

impl Natural {
    pub(crate) fn zero() -> Self {
        Self { digits: Vec::new() }
    }

    pub(crate) fn one() -> Self {
        Self { digits: vec![1] }
    }

    pub(crate) fn set_one(&mut self) {
        self.digits.clear();
        self.digits.push(1);
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    /// Multiplies by a factor that is not zero.
    pub(crate) fn multiply(&mut self, factor: u64) {
        debug_assert!(factor > 0);
        let mut carry = 0;
        for digit in &mut self.digits {
            // At most (2⁶⁴ − 1)² + 2⁶⁴ − 1 < 2¹²⁸.
            let product = u128::from(*digit) * u128::from(factor) + u128::from(carry);
            *digit = product as u64;
            carry = (product >> 64) as u64;
        }
        if carry > 0 {
            self.digits.push(carry);
        }
    }

    /// Divides by a divisor that leaves no rest.
    pub(crate) fn divide_exactly(&mut self, divisor: u64) {
        debug_assert!(divisor > 0);
        let shift = divisor.trailing_zeros();
        if shift > 0 {
            let mut above = 0;
            for digit in self.digits.iter_mut().rev() {
                let low = *digit << (64 - shift);
                *digit = *digit >> shift | above;
                above = low;
            }
            debug_assert!(above == 0, "the division leaves a rest");
        }
        let odd = divisor >> shift;
        if odd > 1 {
            let inverse = inverse(odd);
            // What the digits of the quotient so far take from those above.
            let mut taken = 0;
            for digit in &mut self.digits {
                let (rest, borrow) = digit.overflowing_sub(taken);
                *digit = rest.wrapping_mul(inverse);
                // The low half of this product is `rest`; the high half is at most d − 1, so one more still fits.
                let product = u128::from(*digit) * u128::from(odd);
                taken = (product >> 64) as u64 + u64::from(borrow);
            }
            debug_assert!(taken == 0, "the division leaves a rest");
        }
        self.trim();
    }

    pub(crate) fn add(&mut self, other: &Self) {
        if self.digits.len() < other.digits.len() {
            self.digits.resize(other.digits.len(), 0);
        }
        let mut carry = false;
        for (i, digit) in self.digits.iter_mut().enumerate() {
            let added = other.digits.get(i).copied().unwrap_or(0);
            let (sum, first) = digit.overflowing_add(added);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            *digit = sum;
            carry = first || second;
        }
        if carry {
            self.digits.push(1);
        }
    }

    /// Subtracts a number that is not larger.
    pub(crate) fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        for (i, digit) in self.digits.iter_mut().enumerate() {
            let taken = other.digits.get(i).copied().unwrap_or(0);
            let (rest, first) = digit.overflowing_sub(taken);
            let (rest, second) = rest.overflowing_sub(u64::from(borrow));
            *digit = rest;
            borrow = first || second;
        }
        debug_assert!(!borrow, "a natural number is not below zero");
        self.trim();
    }

    /// The logarithm log2, to about 50 bits; 0 of zero.
    pub(crate) fn log2(&self) -> f64 {
        let mut digits = self.digits.iter().rev();
        let high = digits.next().copied().unwrap_or(1) as f64;
        let low = digits.next().copied().unwrap_or(0) as f64;
        let below = self.digits.len().max(1) as f64 - 1.0;
        (high + low / 2f64.powi(64)).log2() + 64.0 * below
    }

    fn trim(&mut self) {
        while self.digits.last() == Some(&0) {
            self.digits.pop();
        }
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_length = self.digits.len().cmp(&other.digits.len());
        by_length.then_with(|| self.digits.iter().rev().cmp(other.digits.iter().rev()))
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl From<&BigUint> for Natural {
    fn from(value: &BigUint) -> Self {
        Self { digits: value.iter_u64_digits().collect() }
    }
}

impl From<&Natural> for BigUint {
    fn from(value: &Natural) -> Self {
        BigUint::new(value.digits.iter().flat_map(|&digit| [digit as u32, (digit >> 32) as u32]).collect())
    }
}

/// The inverse of an odd number modulo 2⁶⁴.
fn inverse(odd: u64) -> u64 {
    // Right in five bits; each step of Newton's doubles them: 10, 20, 40, 80.
    let mut inverse = odd.wrapping_mul(3) ^ 2;
    for _ in 0..4 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn inverses_are_inverses() {
        for odd in [1, 3, 5, 7, 9, 0xffff_ffff, u64::MAX, 0x9e37_79b9_7f4a_7c15] {
            assert_eq!(odd.wrapping_mul(inverse(odd)), 1);
        }
    }

    fn number() -> impl Strategy<Value = BigUint> {
        proptest::collection::vec(prop_oneof![any::<u32>(), Just(0), Just(u32::MAX)], 0..12).prop_map(BigUint::new)
    }

    proptest! {
        /// The library is the oracle.
        #[test]
        fn arithmetic_is_that_of_num_bigint(a in number(), b in number(), word in 1u64.., shift in 0u32..64) {
            let word = (word >> shift).max(1);
            let (natural, other) = (Natural::from(&a), Natural::from(&b));
            prop_assert_eq!(&BigUint::from(&natural), &a);
            prop_assert_eq!(natural.cmp(&other), a.cmp(&b));
            let mut result = natural.clone();
            result.multiply(word);
            prop_assert_eq!(BigUint::from(&result), &a * word);
            result.divide_exactly(word);
            prop_assert_eq!(&result, &natural);
            result.add(&other);
            prop_assert_eq!(BigUint::from(&result), &a + &b);
            result.subtract(&natural);
            prop_assert_eq!(&result, &other);
            prop_assert_eq!(result.is_zero(), b == BigUint::ZERO);
        }
    }
}
