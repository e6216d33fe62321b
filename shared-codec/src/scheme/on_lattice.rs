//! Codes of the three schemes on a lattice: [the papers' code](crate::lattice) or [the adaptive one](crate::adaptive).

use super::{
    layout::{Draft, Drafts, Layout, Payload},
    parameters::{Code, SchemeOptions},
};
use crate::{
    adaptive::AdaptiveCode,
    bits::{BitReader, BitWriter},
    distribution::DraftDist,
    error::{DecodeError, ParameterError},
    lattice::{LatticePayload, SupportSize},
};

/// The payload of counts that add up to ℓ, in the chosen code.
pub(super) fn payload(
    SchemeOptions { lattice_resolution, code, .. }: SchemeOptions,
    support_size: SupportSize,
    vocab_size: u32,
) -> Result<Payload, ParameterError> {
    let largest = match support_size {
        SupportSize::Fixed(k) => k,
        SupportSize::Varying => vocab_size,
    };
    Ok(match code {
        Code::Enumerative => Payload::plain(LatticePayload::new(vocab_size, support_size, lattice_resolution)?),
        Code::Adaptive => Payload::Adaptive(Box::new(AdaptiveCode::new(vocab_size, largest, lattice_resolution)?)),
    })
}

impl Layout for LatticePayload {
    fn token_bits(&self, support_size: u32) -> u32 {
        self.token_bits(support_size)
    }

    fn is_fixed(&self) -> bool {
        self.support_size().is_some()
    }

    fn is_widened(&self, k: u32) -> bool {
        !self.is_fixed() && self.codable_support_size(k) != k
    }

    fn support_size(&self, k: u32, _: &DraftDist) -> u32 {
        self.support_size().unwrap_or_else(|| self.codable_support_size(k))
    }

    fn encode(&self, draft: Draft<'_>, out: &mut BitWriter) -> Result<(), ParameterError> {
        self.encode(draft.token()?, out)
    }

    fn decode(&self, input: &mut BitReader<'_>, count: u8) -> Result<Drafts, DecodeError> {
        Ok(Drafts::Distributions((0..count).map(|_| self.decode(input)).collect::<Result<_, _>>()?))
    }
}
