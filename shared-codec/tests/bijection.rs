//! The enumerative codes are bijections: every rank of every small code decodes to an object of its own, and encodes
//! back to that rank; the number of ranks is the closed form.
#![cfg(not(target_arch = "wasm32"))]

use num_bigint::BigUint;
use outrider_codec::{
    bits::{BitReader, BitWriter},
    enumerative::{CompositionCode, SubsetCode},
};

const LARGEST: u32 = 12;

/// C(n, k) by Pascal's triangle.
fn pascal(n: u32, k: u32) -> u64 {
    let mut row = vec![1u64];
    for _ in 0..n {
        let inner = row.windows(2).map(|pair| pair[0] + pair[1]);
        row = [1].into_iter().chain(inner).chain([1]).collect();
    }
    row.get(k as usize).copied().unwrap_or(0)
}

fn bits_of(count: u64) -> u32 {
    count.next_power_of_two().ilog2()
}

#[test]
fn subsets_of_up_to_twelve_ids() {
    for n in 0..=LARGEST {
        for k in 0..=n {
            let (code, count) = (SubsetCode::new(n, k), pascal(n, k));
            assert_eq!(code.bits(), bits_of(count));
            for rank in 0..count {
                let subset = code.unrank(rank.into()).unwrap();
                assert!(subset.len() == k as usize && subset.windows(2).all(|pair| pair[0] < pair[1]));
                assert!(subset.last().is_none_or(|&last| last < n));
                assert_eq!(code.rank(&subset), BigUint::from(rank));
            }
            assert_eq!(code.unrank(count.into()), None);
        }
    }
}

#[test]
fn compositions_of_up_to_twelve_into_up_to_twelve_parts() {
    for total in 0..=LARGEST {
        for parts in 1..=LARGEST {
            let (code, count) = (CompositionCode::new(total, parts), pascal(total + parts - 1, parts - 1));
            assert_eq!(code.bits(), bits_of(count));
            for rank in 0..count {
                let mut word = BitWriter::new();
                word.put(rank, code.bits());
                let word = word.into_bytes();
                let counts = code.decode(&mut BitReader::new(&word), "counts").unwrap();
                assert_eq!((counts.len() as u32, counts.iter().sum::<u32>()), (parts, total));
                let mut again = BitWriter::new();
                code.encode(&counts, &mut again);
                assert_eq!(again.into_bytes(), word);
            }
            if count < 1 << code.bits() {
                let mut word = BitWriter::new();
                word.put(count, code.bits());
                let word = word.into_bytes();
                assert!(code.decode(&mut BitReader::new(&word), "counts").is_err());
            }
        }
    }
}
