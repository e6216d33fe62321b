//! One word of each of eight blocks.
//!
//! Compilers for processors make vectors of arrays. For the browser they do not where words are rotated, so its vectors
//! are named here.

/// Blocks computed together.
pub(crate) const BLOCKS: usize = 8;

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod arrays {
    use super::BLOCKS;

    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Lanes([u32; BLOCKS]);

    impl Lanes {
        pub(crate) fn new(words: [u32; BLOCKS]) -> Self {
            Self(words)
        }

        pub(crate) fn splat(word: u32) -> Self {
            Self([word; BLOCKS])
        }

        pub(crate) fn to_array(self) -> [u32; BLOCKS] {
            self.0
        }

        /// Sums of the lanes, modulo 2³².
        #[inline(always)]
        pub(crate) fn plus(self, other: Self) -> Self {
            self.zip(other, u32::wrapping_add)
        }

        /// (self ⊕ other), rotated to the left by `LEFT` bits.
        #[inline(always)]
        pub(crate) fn mixed<const LEFT: u32>(self, other: Self) -> Self {
            self.zip(other, |a, b| (a ^ b).rotate_left(LEFT))
        }

        #[inline(always)]
        pub(crate) fn max(self, other: Self) -> Self {
            self.zip(other, u32::max)
        }

        #[inline(always)]
        fn zip(mut self, other: Self, of: impl Fn(u32, u32) -> u32) -> Self {
            for (word, other) in self.0.iter_mut().zip(other.0) {
                *word = of(*word, other);
            }
            self
        }
    }
}

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod vectors {
    use core::arch::wasm32::{
        u32x4, u32x4_add, u32x4_extract_lane, u32x4_max, u32x4_shl, u32x4_shr, u32x4_splat, v128, v128_or, v128_xor,
    };

    use super::BLOCKS;

    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Lanes([v128; 2]);

    impl Lanes {
        pub(crate) fn new([a, b, c, d, e, f, g, h]: [u32; BLOCKS]) -> Self {
            Self([u32x4(a, b, c, d), u32x4(e, f, g, h)])
        }

        pub(crate) fn splat(word: u32) -> Self {
            Self([u32x4_splat(word); 2])
        }

        pub(crate) fn to_array(self) -> [u32; BLOCKS] {
            let words = |half: v128| {
                [
                    u32x4_extract_lane::<0>(half),
                    u32x4_extract_lane::<1>(half),
                    u32x4_extract_lane::<2>(half),
                    u32x4_extract_lane::<3>(half),
                ]
            };
            let ([a, b, c, d], [e, f, g, h]) = (words(self.0[0]), words(self.0[1]));
            [a, b, c, d, e, f, g, h]
        }

        /// Sums of the lanes, modulo 2³².
        #[inline(always)]
        pub(crate) fn plus(self, other: Self) -> Self {
            self.zip(other, |a, b| u32x4_add(a, b))
        }

        /// (self ⊕ other), rotated to the left by `LEFT` bits.
        #[inline(always)]
        pub(crate) fn mixed<const LEFT: u32>(self, other: Self) -> Self {
            self.zip(other, |a, b| {
                let mixed = v128_xor(a, b);
                v128_or(u32x4_shl(mixed, LEFT), u32x4_shr(mixed, 32 - LEFT))
            })
        }

        #[inline(always)]
        pub(crate) fn max(self, other: Self) -> Self {
            self.zip(other, |a, b| u32x4_max(a, b))
        }

        #[inline(always)]
        fn zip(self, other: Self, of: impl Fn(v128, v128) -> v128) -> Self {
            Self([of(self.0[0], other.0[0]), of(self.0[1], other.0[1])])
        }
    }
}

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
pub(super) use arrays::Lanes;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub(super) use vectors::Lanes;
