//! Coupled drafting: the drafted id in ⌈log2 V⌉ bits and nothing else; both ends choose with the same noise.

use super::{
    layout::{Draft, Drafts, Keeps, Layout, Payload, SchemeInfo, Sends},
    parameters::SchemeParameters,
};
use crate::{
    bits::{BitReader, BitWriter, index_bits},
    error::{DecodeError, ParameterError},
    lattice::check_vocabulary,
    probabilities::take_id,
};

pub(super) const INFO: SchemeInfo = SchemeInfo {
    name: "coupled",
    label: "Coupled",
    travels: "the token alone; page and server sample with the same noise, so that they mostly agree.",
    source: "Daliri, Musco, Suresh, Coupling without Communication and Drafter-Invariant Speculative Decoding",
    options: &[],
    sends: Sends::Ids,
    keeps: Keeps::All,
    number: 7,
    of: |_| SchemeParameters::Coupled,
    payload: |_, vocab_size| {
        check_vocabulary(vocab_size)?;
        Ok(Payload::plain(Coupled { vocab_size }))
    },
};

/// The payload over a vocabulary of V.
#[derive(Debug)]
struct Coupled {
    vocab_size: u32,
}

impl Layout for Coupled {
    /// Bits of a draft: ⌈log2 V⌉.
    fn token_bits(&self, _: u32) -> u32 {
        index_bits(self.vocab_size)
    }

    fn encode(&self, draft: Draft<'_>, out: &mut BitWriter) -> Result<(), ParameterError> {
        let id = draft.id()?;
        if id >= self.vocab_size {
            return Err(ParameterError::DoesNotFit { what: "an id is outside the vocabulary" });
        }
        out.put(id.into(), index_bits(self.vocab_size));
        Ok(())
    }

    fn decode(&self, input: &mut BitReader<'_>, count: u8) -> Result<Drafts, DecodeError> {
        Ok(Drafts::Ids((0..count).map(|_| take_id(input, self.vocab_size)).collect::<Result<_, _>>()?))
    }
}
