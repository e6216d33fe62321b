//! DSSD: the drafted token's probability in f16; the edge resamples. Per token:
//!
//! ```text
//! the drafted id                         ⌈log2 V⌉ bits
//! its probability                        16
//! the sum of all V probabilities         25, a multiple of 2⁻²⁴
//! ```
//!
//! The sum is needed because rounding V numbers to f16 makes it differ from 1.

use super::{
    layout::{Draft, Drafts, Keeps, Layout, Payload, SchemeInfo, Sends},
    parameters::{DSSD, Downlink, SchemeOptions, SchemeParameters},
};
use crate::{
    bits::{BitReader, BitWriter, index_bits},
    error::{DecodeError, ParameterError},
    lattice::check_vocabulary,
    probabilities::{DraftProbability, F16, SUM, put_count, take_count, take_id},
};

pub(super) const INFO: SchemeInfo = SchemeInfo {
    name: "dssd",
    label: "DSSD",
    travels: "the token and its own probability; after a rejection the server’s probabilities come down.",
    source: DSSD,
    options: &["downlink", "downlinkSamples"],
    sends: Sends::Probabilities,
    keeps: Keeps::All,
    number: 6,
    of: |SchemeOptions { downlink, .. }| SchemeParameters::Dssd { downlink },
    payload: |SchemeOptions { downlink, .. }, vocab_size| {
        if downlink == Downlink::Sampled(0) {
            return Err(ParameterError::NoSamples);
        }
        check_vocabulary(vocab_size)?;
        Ok(Payload::plain(Dssd { vocab_size }))
    },
};

/// The payload over a vocabulary of V.
#[derive(Debug)]
struct Dssd {
    vocab_size: u32,
}

impl Layout for Dssd {
    /// Bits of a draft: ⌈log2 V⌉ + 16 + 25.
    fn token_bits(&self, _: u32) -> u32 {
        index_bits(self.vocab_size) + F16 + SUM
    }

    fn encode(&self, draft: Draft<'_>, out: &mut BitWriter) -> Result<(), ParameterError> {
        let token = draft.probability()?;
        if token.id >= self.vocab_size {
            return Err(ParameterError::DoesNotFit { what: "an id is outside the vocabulary" });
        }
        if token.count == 0 || token.count > token.total || token.total >> SUM != 0 {
            return Err(ParameterError::DoesNotFit { what: "the drafted token's probability is not in (0, 1]" });
        }
        out.put(token.id.into(), index_bits(self.vocab_size));
        put_count(token.count, out)?;
        out.put(token.total.into(), SUM);
        Ok(())
    }

    fn decode(&self, input: &mut BitReader<'_>, count: u8) -> Result<Drafts, DecodeError> {
        Ok(Drafts::Probabilities((0..count).map(|_| self.decode_token(input)).collect::<Result<_, _>>()?))
    }
}

impl Dssd {
    fn decode_token(&self, input: &mut BitReader<'_>) -> Result<DraftProbability, DecodeError> {
        let id = take_id(input, self.vocab_size)?;
        let count = take_count(input)?;
        let total = input.take(SUM, "sum of probabilities")? as u32;
        if count == 0 || count > total {
            return Err(DecodeError::Value { field: "probability", value: count.into() });
        }
        Ok(DraftProbability { id, count, total })
    }
}
