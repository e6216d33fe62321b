//! The frame of a round of drafts.

use super::fields::{draft_count, put_ids, take_generation, take_ids, take_positive};
use crate::{
    error::DecodeError,
    wire::{ByteReader, put_varint},
};

const DRAFT: u8 = 0x04;
/// A Draft with passed tokens, or one that asks the target to write alone.
const LONG_DRAFT: u8 = 0x07;
/// Flag in the kind: the round is one of several in flight.
const IN_FLIGHT: u8 = 0x10;
/// Flag in twice the number of the epoch: other rounds follow.
const CONTINUED: u32 = 1;
/// Flag in the count: a resampled token precedes the payload.
const HAS_RESAMPLED: u8 = 0x80;

/// A round of drafts, for the cloud to verify.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft {
    /// The generation it belongs to.
    pub generation: u32,
    /// Number of the round within the generation: 0, 1, ….
    pub round: u32,
    /// Number of continued rounds that had a rejection when this was drafted; below 2³¹. A round of an earlier epoch is
    /// discarded.
    pub epoch: u32,
    /// True if rounds follow it that were drafted as if all of it were accepted. No bonus token is drawn after it then.
    /// It has drafts.
    pub continued: bool,
    /// The token that the edge put in place of the rejected draft of the round before; DSSD only.
    pub resampled: Option<u32>,
    /// Tokens that the edge has committed without asking, since the round before; they come before the drafts.
    pub passed: Vec<u32>,
    /// Number of tokens that the target is to write alone, in [`Tokens`](super::Tokens) frames; none is drafted then.
    /// Zero is a round.
    pub stream: u32,
    /// Number of drafted tokens; zero asks for one token of the target's own.
    pub count: u8,
    /// The statistics that the rule needs (see [`crate::rule`]), then the tokens in the scheme's bits, filled with zero
    /// bits to whole bytes.
    pub payload: Vec<u8>,
}

impl Draft {
    /// True for the first byte of a Draft.
    pub(super) fn has_kind(kind: u8) -> bool {
        matches!(kind & !IN_FLIGHT, DRAFT | LONG_DRAFT)
    }

    /// The frame's first byte.
    pub(super) fn kind(&self) -> u8 {
        (if self.is_long() { LONG_DRAFT } else { DRAFT }) | if self.flight() > 0 { IN_FLIGHT } else { 0 }
    }

    fn is_long(&self) -> bool {
        self.stream > 0 || !self.passed.is_empty()
    }

    /// Epoch and continuation as one number.
    fn flight(&self) -> u32 {
        self.epoch << 1 | if self.continued { CONTINUED } else { 0 }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.generation);
        put_varint(out, self.round);
        if self.flight() > 0 {
            put_varint(out, self.flight());
        }
        match self.resampled {
            None => out.push(self.count),
            Some(token) => {
                out.push(self.count | HAS_RESAMPLED);
                put_varint(out, token);
            }
        }
        if self.is_long() {
            put_varint(out, self.stream);
            put_ids(out, &self.passed);
        }
        out.extend(&self.payload);
    }

    pub(super) fn decode(kind: u8, input: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        let (generation, round) = (take_generation(input)?, input.varint("round")?);
        let flight = if kind & IN_FLIGHT == 0 { 0 } else { take_positive(input, "epoch")? };
        let (epoch, continued) = (flight >> 1, flight & CONTINUED != 0);
        let count = input.u8("draft count")?;
        let resampled = if count & HAS_RESAMPLED != 0 { Some(input.varint("resampled token")?) } else { None };
        let count = draft_count(count & !HAS_RESAMPLED, "draft count")?;
        if continued && count == 0 {
            return Err(DecodeError::Value { field: "epoch", value: flight.into() });
        }
        let is_long = kind & !IN_FLIGHT == LONG_DRAFT;
        let (stream, passed) =
            if is_long { (input.varint("stream")?, take_ids(input, "passed tokens")?) } else { (0, Vec::new()) };
        if is_long && stream == 0 && passed.is_empty() || stream > 0 && count > 0 {
            return Err(DecodeError::Value { field: "stream", value: stream.into() });
        }
        // Without drafts to come, nothing more may follow.
        let payload = if stream > 0 { Vec::new() } else { input.rest().to_vec() };
        Ok(Self { generation, round, epoch, continued, resampled, passed, stream, count, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::tests::refused;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn forbidden_values_are_named() {
        assert_eq!(refused(&[DRAFT, 1, 0, 65]), "draft count");
        assert_eq!(refused(&[LONG_DRAFT, 1, 0, 0, 0, 0]), "stream");
        assert_eq!(refused(&[LONG_DRAFT, 1, 0, 1, 9, 0]), "stream");
        // Nothing of a pipeline in the frame that says that there is one; a round of nothing that goes on.
        assert_eq!(refused(&[DRAFT | IN_FLIGHT, 1, 0, 0, 1]), "epoch");
        assert_eq!(refused(&[DRAFT | IN_FLIGHT, 1, 0, 1, 0]), "epoch");
        assert_eq!(refused(&[LONG_DRAFT | IN_FLIGHT, 1, 0, 3, 0, 4, 0]), "epoch");
        assert_eq!(refused(&[LONG_DRAFT | IN_FLIGHT, 1, 0, 2, 0, 0, 0]), "stream");
    }
}
