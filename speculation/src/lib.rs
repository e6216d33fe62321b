//! **Decisions.** Drafting, acceptance and the messages of a session, on slices of logits.
//!
//! Folders follow a token from logits to verdict:
//!
//! | folder | what is in it |
//! |---|---|
//! | [`sample`] | logits to a distribution, a distribution to a token |
//! | [`draft`] | a distribution to a draft token: kept, rounded to integers, drawn |
//! | [`judge`] | drafts to a verdict: acceptance rules, DSSD, coupled drafting |
//! | [`control`] | how much to draft and when: another crate, whose types are in this one's interface |
//! | [`session`] | the two state machines, and the options of a generation |
//! | [`theory`] | closed forms that a session chooses by or reports |
//! | [`study`] | what a generation cost, and what it would have cost otherwise |
//!
//! Nothing here sees a tensor, a socket or a clock: logits come as `&[f32]`, time as a [`Duration`] since any fixed
//! moment, randomness from a seed. So both ends run together in one process on a virtual clock, and the same code runs
//! in the browser and on the server.
//!
//! Events and errors may gain variants. What a session asks for (`EdgeOutput`, `CloudOutput`) does not without a new
//! major version: all of it has to be done.
//!
//! # Both ends in one process
//!
//! A draft and a target that always say the same stand in for models; frames go from hand to hand.
//!
//! ```
//! use core::time::Duration;
//! use outrider_codec::{frame::{Limits, SamplingParameters}, scheme::SchemeParameters};
//! use outrider_speculation::session::{
//!     cloud::{Admission, CloudOutput, CloudSession, TargetInfo},
//!     edge::{DraftInfo, EdgeOutput, EdgeSession, Event, Mode, Settings, Speculation},
//! };
//!
//! // The logits of both models, over a vocabulary of four tokens.
//! const LOGITS: [f32; 4] = [0.0, 1.0, 4.0, 2.0];
//! let (vocab_size, tokenizer_hash, context_length, now) = (4, [0; 32], 64, Duration::ZERO);
//!
//! let draft = DraftInfo { vocab_size, tokenizer_hash, context_length, heads: None, guess_chance: None };
//! let mut edge = EdgeSession::new(draft);
//! let limits = Limits::rounds(context_length, 8);
//! let target = TargetInfo { vocab_size, tokenizer_hash, limits, eos_ids: vec![] };
//! let mut cloud = CloudSession::new(target, Admission::default());
//! let settings = Settings {
//!     mode: Mode::Speculative(Speculation::new(SchemeParameters::Coupled, 4)),
//!     sampling: SamplingParameters { temperature: 0.0, top_k: 0, top_p: 1.0 },
//!     seed: 1,
//!     max_new_tokens: 10,
//! };
//! let mut text = vec![1];
//! loop {
//!     match edge.poll(now)? {
//!         Some(EdgeOutput::Send(frame)) => cloud.handle_frame(&frame),
//!         // A draft model runs `forward.tokens` here and gives a row of logits after each of the last `forward.rows`.
//!         Some(EdgeOutput::Forward(forward)) => {
//!             for _ in 0..forward.rows {
//!                 edge.handle_logits(&LOGITS, &[], now)?;
//!             }
//!         }
//!         Some(EdgeOutput::Event(Event::Connected(_))) => edge.start(text.clone(), &settings, now)?,
//!         Some(EdgeOutput::Event(Event::Committed(committed))) => {
//!             text.extend(committed.tokens.iter().map(|(id, _)| id));
//!         }
//!         Some(EdgeOutput::Event(Event::Finished(_))) => break,
//!         Some(EdgeOutput::Event(event)) => panic!("{event:?}"),
//!         None => match cloud.poll() {
//!             Some(CloudOutput::Send(frame)) => edge.handle_frame(&frame, now)?,
//!             // The target's forward pass; its rows judge the drafts.
//!             Some(CloudOutput::Verify(pass)) => {
//!                 let rows = vec![&LOGITS[..]; pass.forward.rows];
//!                 cloud.handle_judgement(pass.judge(&rows)?);
//!             }
//!             other => panic!("{other:?}"),
//!         },
//!     }
//! }
//! // Greedy decoding of the target, in two passes: four drafts and a token of the target's own each.
//! assert_eq!(text, [1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]);
//! assert_eq!(edge.statistics().server_passes, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Duration`]: core::time::Duration
#![forbid(unsafe_code)]

pub mod draft;
pub mod judge;
pub mod sample;
pub mod session;
pub mod study;
pub mod theory;

pub use outrider_control as control;

use outrider_codec::frame::SamplingParameters;

/// A forward pass that a session asks of its model.
///
/// The KV cache is cut back to its first `keep` tokens, then `tokens` are fed. Logits are wanted after the last
/// `rows` of them, in order.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Forward {
    /// Tokens of the cache that stay.
    pub keep: usize,
    /// Tokens to feed after them; at least one.
    pub tokens: Vec<u32>,
    /// Number of rows of logits, from the end of `tokens`; may be zero.
    pub rows: usize,
    /// The number of logits of each row that are enough; `None` if all are needed.
    pub top_k: Option<TopK>,
    /// Guesses that an engine may choose instead of giving its row; `None` if only the row will do.
    pub chosen: Option<Choice>,
}

impl Forward {
    /// A pass that wants all logits of its rows.
    pub const fn new(keep: usize, tokens: Vec<u32>, rows: usize) -> Self {
        Self { keep, tokens, rows, top_k: None, chosen: None }
    }

    /// The same pass, whatever else is wanted of it.
    #[cfg(test)]
    pub(crate) fn rows_alone(self) -> Self {
        Self::new(self.keep, self.tokens, self.rows)
    }

    /// Number of its first tokens that need not be fed if the cache holds `held`: they stand there already, as when a
    /// conversation goes on from a text that has been read. Never those whose rows are wanted, and never all.
    pub fn reusable(&self, held: &[u32]) -> usize {
        let behind = held.get(self.keep..).unwrap_or_default();
        let same = behind.iter().zip(&self.tokens).take_while(|(held, token)| held == token).count();
        same.min(self.tokens.len().saturating_sub(self.rows.max(1)))
    }
}

/// Seed and distribution by which an engine chooses guesses instead of giving the logits after a forward pass: at the
/// next token, and at what follows its own first choices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// The seed of the noise that both ends [share](sample::SharedNoise); `None`: what is likeliest is chosen.
    pub seed: Option<u64>,
    /// Parameters of S(·); the temperature is above 0 if there is a seed, and nothing matters if there is none.
    pub sampling: SamplingParameters,
    /// The most guesses that are of use, each after the one before; at least 1.
    pub most: usize,
}

/// The number of a row's largest logits that suffice to draft by. Of the others only their mass counts, at this
/// temperature, and each may be given the logit that is an equal share of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopK {
    /// K, the number of logits; at least 1.
    pub k: u32,
    /// Temperature of the mass of the others; 0 if nothing of them is needed.
    pub temperature: f32,
}

/// A guess at a position, and the next best where there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen {
    /// The id of the best guess.
    pub first: u32,
    /// The next best; `None` if there is none or it is not known.
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
            |keep, tokens: &[u32], rows, held: &[u32]| Forward::new(keep, tokens.to_vec(), rows).reusable(held);
        assert_eq!(reusable(0, &[1, 2, 3, 4], 1, &[1, 2, 3]), 3);
        assert_eq!(reusable(2, &[3, 4], 0, &[1, 2, 3, 9]), 1, "behind what it keeps");
        assert_eq!(reusable(0, &[1, 2, 9], 1, &[1, 2, 3]), 2);
        assert_eq!(reusable(0, &[9, 2, 3], 1, &[1, 2, 3]), 0, "from the first difference on, nothing");
        assert_eq!(reusable(0, &[1, 2, 3], 2, &[1, 2, 3, 4]), 1, "its rows are wanted");
        assert_eq!(reusable(0, &[1, 2], 0, &[1, 2]), 1, "something is fed");
        assert_eq!(reusable(3, &[1], 1, &[1]), 0, "it asks for more than is held");
    }
}
