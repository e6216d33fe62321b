//! ChaCha8 (Bernstein 2008), eight blocks at a time: the words that the noise of a position is made of.
//!
//! A token has two words of its position's stream, so that a block has the noise of eight. Which tokens are wanted is
//! known beforehand and they are many: computed side by side in one loop, the blocks go through vector registers, in
//! the browser too.

mod lanes;

pub(super) use lanes::BLOCKS;
use lanes::Lanes;

/// Number of tokens in a block.
pub(super) const TOKENS: usize = 8;

const WORDS: usize = 16;
const DOUBLE_ROUNDS: usize = 4;
/// ChaCha's constants, "expand 32-byte k".
const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// The words of some blocks: `[word][block]`.
pub(super) struct Words([Lanes; WORDS]);

impl Words {
    /// 64 random bits of each token: `[block][token]`.
    pub(super) fn bits(&self) -> [[u64; TOKENS]; BLOCKS] {
        let words = self.0.map(Lanes::to_array);
        core::array::from_fn(|block| {
            let word = |word: usize| u64::from(words[word][block]);
            core::array::from_fn(|token| word(2 * token) | word(2 * token + 1) << 32)
        })
    }

    /// The largest high half of any token's bits.
    pub(super) fn highest(&self) -> u32 {
        let high = self.0.iter().skip(1).step_by(2);
        high.fold(Lanes::splat(0), |highest, &words| highest.max(words)).to_array().into_iter().fold(0, u32::max)
    }
}

/// The words of the `blocks` of a stream. The key is the seed and zeros.
pub(super) fn words(seed: u64, stream: u64, blocks: [u64; BLOCKS]) -> Words {
    let mut start = [Lanes::splat(0); WORDS];
    for (words, constant) in start.iter_mut().zip(CONSTANTS) {
        *words = Lanes::splat(constant);
    }
    (start[4], start[5]) = (Lanes::splat(low(seed)), Lanes::splat(high(seed)));
    (start[12], start[13]) = (Lanes::new(blocks.map(low)), Lanes::new(blocks.map(high)));
    (start[14], start[15]) = (Lanes::splat(low(stream)), Lanes::splat(high(stream)));
    let mut state = start;
    for _ in 0..DOUBLE_ROUNDS {
        // Columns, then diagonals.
        quarter_round(&mut state, [0, 4, 8, 12]);
        quarter_round(&mut state, [1, 5, 9, 13]);
        quarter_round(&mut state, [2, 6, 10, 14]);
        quarter_round(&mut state, [3, 7, 11, 15]);
        quarter_round(&mut state, [0, 5, 10, 15]);
        quarter_round(&mut state, [1, 6, 11, 12]);
        quarter_round(&mut state, [2, 7, 8, 13]);
        quarter_round(&mut state, [3, 4, 9, 14]);
    }
    for (words, start) in state.iter_mut().zip(start) {
        *words = words.plus(start);
    }
    Words(state)
}

#[inline(always)]
fn quarter_round(state: &mut [Lanes; WORDS], [a, b, c, d]: [usize; 4]) {
    state[a] = state[a].plus(state[b]);
    state[d] = state[d].mixed::<16>(state[a]);
    state[c] = state[c].plus(state[d]);
    state[b] = state[b].mixed::<12>(state[c]);
    state[a] = state[a].plus(state[b]);
    state[d] = state[d].mixed::<8>(state[a]);
    state[c] = state[c].plus(state[d]);
    state[b] = state[b].mixed::<7>(state[c]);
}

fn low(value: u64) -> u32 {
    value as u32
}

fn high(value: u64) -> u32 {
    (value >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngCore, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn the_bits_are_chacha8s() {
        let (seed, stream) = (0x0123_4567_89ab_cdefu64, (1 << 32) + 77);
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut reference = ChaCha8Rng::from_seed(key);
        reference.set_stream(stream);
        let blocks = [0, 1, 2, 7, 8, 18_991, (1 << 32) - 1, 1 << 32];
        let words = words(seed, stream, blocks);
        let highest = words.bits().as_flattened().iter().map(|bits| (bits >> 32) as u32).max();
        assert_eq!(Some(words.highest()), highest);
        for (block, found) in blocks.into_iter().zip(words.bits()) {
            reference.set_word_pos(u128::from(block) * WORDS as u128);
            assert_eq!(found, [(); TOKENS].map(|()| reference.next_u64()), "block {block}");
        }
    }
}
