//! **Decisions.** What is drafted, what is accepted, and who says what when; on slices of logits.
//!
//! Folders follow a token from logits to verdict:
//!
//! | folder | what is in it |
//! |---|---|
//! | [`sample`] | logits to a distribution, a distribution to a token |
//! | [`draft`] | a distribution to a draft token: kept, rounded to integers, drawn |
//! | [`judge`] | drafts to a verdict: acceptance rules, DSSD, coupled drafting |
//! | [`policy`] | whether to draft, and how much: gates, stop rules, control |
//! | [`session`] | the two state machines, and the options of a generation |
//! | [`theory`] | closed forms that a session chooses by or reports |
//! | [`study`] | what a generation cost, and what it would have cost otherwise |
//!
//! Nothing here sees a tensor, a socket or a clock: logits come as `&[f32]`, time as a [`Duration`] since any
//! fixed moment, randomness from a seed. So both ends run together in one process on a virtual clock, and the
//! same code runs in the browser and on the server.
//!
//! [`Duration`]: core::time::Duration
#![forbid(unsafe_code)]

pub mod draft;
pub mod judge;
pub mod policy;
pub mod sample;
pub mod session;
pub mod study;
pub mod theory;

use outrider_codec::frame::SamplingParameters;

/// What one forward pass of a model is asked for.
///
/// The KV cache is cut back to its first `keep` tokens, then `tokens` are fed. Logits are wanted after the last
/// `rows` of them, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// Tokens of the cache that stay.
    pub keep: usize,
    /// Tokens to feed after them; at least one.
    pub tokens: Vec<u32>,
    /// Number of rows of logits, from the end of `tokens`; may be zero.
    pub rows: usize,
}

impl Forward {
    /// How many of its first tokens need not be fed if the cache holds `held`: they stand there already, as when a
    /// conversation goes on from a text that has been read. Never those whose rows are wanted, and never all.
    pub fn reusable(&self, held: &[u32]) -> usize {
        let behind = held.get(self.keep..).unwrap_or_default();
        let same = behind.iter().zip(&self.tokens).take_while(|(held, token)| held == token).count();
        same.min(self.tokens.len().saturating_sub(self.rows.max(1)))
    }
}

/// Seed and distribution that an engine chooses guesses by, in place of giving the logits behind a forward pass: at the
/// next token, and at what follows its own first choices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// The seed of the noise that both ends [share](sample::SharedNoise); `None`: what is likeliest is chosen.
    pub seed: Option<u64>,
    /// S(·); the temperature is above 0 if there is a seed, and nothing matters if there is none.
    pub sampling: SamplingParameters,
    /// The most guesses that are of use, each behind the one before; at least 1.
    pub most: usize,
}

/// How many of a row's logits are enough to draft by: the largest. Of the others their mass is, at this temperature,
/// and each may be given the logit that is an equal share of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopK {
    /// K; at least 1.
    pub k: u32,
    /// 0: nothing of the others is needed.
    pub temperature: f32,
}

/// A guess at a position, and the next best where there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen {
    /// The best.
    pub first: u32,
    /// The next best; `None`: there is none, or nobody knows.
    pub second: Option<u32>,
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::Forward;

    #[test]
    fn what_the_cache_holds_is_not_fed_again() {
        let reusable =
            |keep, tokens: &[u32], rows, held: &[u32]| Forward { keep, tokens: tokens.to_vec(), rows }.reusable(held);
        assert_eq!(reusable(0, &[1, 2, 3, 4], 1, &[1, 2, 3]), 3);
        assert_eq!(reusable(2, &[3, 4], 0, &[1, 2, 3, 9]), 1, "behind what it keeps");
        assert_eq!(reusable(0, &[1, 2, 9], 1, &[1, 2, 3]), 2);
        assert_eq!(reusable(0, &[9, 2, 3], 1, &[1, 2, 3]), 0, "from the first difference on, nothing");
        assert_eq!(reusable(0, &[1, 2, 3], 2, &[1, 2, 3, 4]), 1, "its rows are wanted");
        assert_eq!(reusable(0, &[1, 2], 0, &[1, 2]), 1, "something is fed");
        assert_eq!(reusable(3, &[1], 1, &[1]), 0, "it asks for more than is held");
    }
}
