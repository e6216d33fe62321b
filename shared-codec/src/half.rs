//! Half-precision probabilities as integers.
//!
//! Every finite non-negative binary16 number up to 1 is a multiple of 2⁻²⁴: a subnormal is m·2⁻²⁴ and a normal one
//! (1024 + m)·2^(e−1)·2⁻²⁴, with the ten bits m of the fraction and the five bits e of the exponent. So the bits *are*
//! a count, and a distribution sent in f16 is a [`DraftDist`](crate::distribution::DraftDist) like any other: its
//! total is the sum of the counts, whatever rounding made of it.
//!
//! | bits | value | count |
//! |---|---|---|
//! | `0001` | 2⁻²⁴ | 1 |
//! | `03FF` | 1023·2⁻²⁴ | 1023 |
//! | `0400` | 2⁻¹⁴ | 1024 |
//! | `3800` | 1/2 | 2²³ |
//! | `3C00` | 1 | 2²⁴ |

/// The count of probability 1: 2²⁴.
pub const ONE: u32 = 1 << 24;
/// The bits of probability 1.
const ONE_BITS: u16 = 0x3c00;

/// Converts an f16's bits to a count; `None` if they are not of a number in [0, 1].
pub fn to_count(bits: u16) -> Option<u32> {
    let (exponent, fraction) = (u32::from(bits >> 10), u32::from(bits & 0x3ff));
    match (bits <= ONE_BITS, exponent) {
        (false, _) => None,
        (true, 0) => Some(fraction),
        (true, _) => Some((1024 + fraction) << (exponent - 1)),
    }
}

/// Converts a count to f16 bits; `None` if no f16 in [0, 1] is `count`·2⁻²⁴.
pub fn from_count(count: u32) -> Option<u16> {
    // Everything below 2048 has at most eleven bits.
    let shift = (u32::BITS - count.leading_zeros()).saturating_sub(11);
    let significand = count >> shift;
    if count > ONE || significand << shift != count {
        return None;
    }
    // A subnormal has exponent 0 and no implicit bit; 1024 is the first normal number.
    Some(if significand < 1024 { significand as u16 } else { ((shift + 1) << 10 | (significand - 1024)) as u16 })
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn the_table_holds() {
        for (bits, count) in [(0, 0), (1, 1), (0x3ff, 1023), (0x400, 1024), (0x3800, 1 << 23), (0x3c00, 1 << 24)] {
            assert_eq!((to_count(bits), from_count(count)), (Some(count), Some(bits)));
        }
    }

    #[test]
    fn counts_are_the_numbers_and_back() {
        for bits in 0..=u16::MAX {
            let value = ::half::f16::from_bits(bits).to_f64();
            let count = to_count(bits);
            let in_range = (0.0..=1.0).contains(&value) && value.is_sign_positive();
            assert_eq!(count.is_some(), in_range, "{bits:#06x}");
            if let Some(count) = count {
                assert_eq!(f64::from(count) / f64::from(ONE), value);
                assert_eq!(from_count(count), Some(bits));
            }
        }
        for count in [2049, ONE - 1, ONE + 1, u32::MAX] {
            assert_eq!(from_count(count), None, "{count}");
        }
    }
}
