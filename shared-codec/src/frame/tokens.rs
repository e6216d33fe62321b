//! The tokens of a text that the target writes, and the end of a text.

use super::fields::{draft_count, put_ids, take_generation, take_ids};
use crate::{
    error::DecodeError,
    wire::{ByteReader, put_varint},
};

/// Flag: the drafts that the pass judged were the cloud's own.
const OWN_DRAFTS: u8 = 0x10;

/// The tokens that one forward pass has added to a text that the target writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tokens {
    /// The generation it belongs to.
    pub generation: u32,
    /// Position of the first token in the text; the prompt's first token is at 0.
    pub position: u32,
    /// The tokens, at least one.
    pub ids: Vec<u32>,
    /// Number of them, from the first on, that were drafts accepted by the pass.
    pub accepted: u8,
    /// True if these drafts were the cloud's own; else they were [`Guesses`](super::Guesses).
    pub own: bool,
    /// Number of frames of [`Guesses`](super::Guesses) received in this generation when the pass began, modulo 256.
    pub heard: u8,
    /// Time of the pass since it was asked for, in tenths of a millisecond; 0 if unknown.
    pub pass: u32,
    /// The reason why the generation is over, if it is.
    pub finish: Option<Finish>,
}

/// Reason why a generation is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Finish {
    /// An end-of-text token was committed.
    Eos = 1,
    /// `max_new_tokens` were committed.
    Length = 2,
    /// The target's context is full.
    Context = 3,
}

impl Tokens {
    /// A token of a pass that judged nothing.
    pub fn one(generation: u32, position: u32, id: u32, finish: Option<Finish>) -> Self {
        Self { generation, position, ids: vec![id], accepted: 0, own: false, heard: 0, pass: 0, finish }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.generation);
        out.push(Finish::bits(self.finish) | if self.own { OWN_DRAFTS } else { 0 });
        out.push(self.heard);
        out.push(self.accepted);
        put_varint(out, self.pass);
        put_varint(out, self.position);
        put_ids(out, &self.ids);
    }

    pub(super) fn decode(input: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        let generation = take_generation(input)?;
        let flags = input.u8("flags of tokens")?;
        let (own, finish) = (flags & OWN_DRAFTS != 0, Finish::from_bits(flags & !OWN_DRAFTS)?);
        let heard = input.u8("frames heard")?;
        let accepted = draft_count(input.u8("accepted")?, "accepted")?;
        let pass = input.varint("time of the pass")?;
        let position = input.varint("position")?;
        let ids = take_ids(input, "tokens")?;
        // A pass adds a token of the target's own, except after one that ends the text.
        let own_choice = ids.len().checked_sub(accepted.into());
        if ids.is_empty() || !(own_choice == Some(1) || own_choice == Some(0) && finish.is_some()) {
            return Err(DecodeError::Value { field: "tokens", value: ids.len() as u64 });
        }
        if own && accepted == 0 {
            return Err(DecodeError::Value { field: "flags of tokens", value: flags.into() });
        }
        Ok(Self { generation, position, ids, accepted, own, heard, pass, finish })
    }
}

impl Finish {
    /// The name of the reason in logs, JSON and the page.
    pub fn name(self) -> &'static str {
        match self {
            Finish::Eos => "eos",
            Finish::Length => "length",
            Finish::Context => "context",
        }
    }

    pub(super) fn bits(finish: Option<Self>) -> u8 {
        finish.map_or(0, |finish| finish as u8)
    }

    pub(super) fn from_bits(bits: u8) -> Result<Option<Self>, DecodeError> {
        match bits {
            0 => Ok(None),
            1 => Ok(Some(Finish::Eos)),
            2 => Ok(Some(Finish::Length)),
            3 => Ok(Some(Finish::Context)),
            other => Err(DecodeError::Value { field: "finish", value: other.into() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{TOKENS, tests::refused};
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn forbidden_values_are_named() {
        assert_eq!(refused(&[TOKENS, 1, 4]), "finish");
        // No token; more accepted than there are; accepted alone in a text that goes on; own drafts where none was
        // accepted.
        assert_eq!(refused(&[TOKENS, 1, 0, 0, 0, 0, 0, 0]), "tokens");
        assert_eq!(refused(&[TOKENS, 1, 1, 0, 2, 0, 0, 1, 9]), "tokens");
        assert_eq!(refused(&[TOKENS, 1, 0, 0, 1, 0, 0, 1, 9]), "tokens");
        assert_eq!(refused(&[TOKENS, 1, OWN_DRAFTS, 0, 0, 0, 0, 1, 9]), "flags of tokens");
    }
}
