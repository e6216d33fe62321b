//! N-grams that two sequences share.

use std::{collections::HashMap, hash::Hash};

/// Numbers of n-grams of two sequences, and of those that they share, each as often as both have it.
pub fn shared<T: Eq + Hash>(answer: &[T], reference: &[T], n: usize) -> [usize; 3] {
    let mut left: HashMap<&[T], usize> = HashMap::new();
    for gram in reference.windows(n) {
        *left.entry(gram).or_default() += 1;
    }
    let mut take = |gram: &[T]| match left.get_mut(gram).filter(|count| **count > 0) {
        Some(count) => {
            *count -= 1;
            true
        }
        None => false,
    };
    let both = answer.windows(n).filter(|gram| take(gram)).count();
    let grams = |sequence: &[T]| (sequence.len() + 1).saturating_sub(n);
    [grams(answer), grams(reference), both]
}
