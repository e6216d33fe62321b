//! Probabilities in f16: the part that all schemes share that send them.
//!
//! A probability is a [count](crate::half) of 2⁻²⁴ and the distribution is the counts over their sum, so nothing is
//! lost that was drawn from.

use crate::{
    bits::{BitReader, BitWriter, index_bits},
    distribution::{DraftDist, DraftToken},
    error::{DecodeError, ParameterError},
    half,
};

/// Bits of a number in f16.
pub(crate) const F16: u32 = 16;
/// Bits of a sum of V rounded probabilities: at most 1 + 2⁻¹¹ by the rounding of normal numbers and V·2⁻²⁵ ≤ 1/2 by
/// that of subnormal ones, so below 2.
pub(crate) const SUM: u32 = 25;

/// A drafted token's probability, as DSSD sends it: `count / total`, both in multiples of 2⁻²⁴.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftProbability {
    /// Id of the drafted token.
    pub id: u32,
    /// Count of the token: an f16 number, at least 1.
    pub count: u32,
    /// The sum of all counts, below 2²⁵.
    pub total: u32,
}

impl From<&DraftToken> for DraftProbability {
    fn from(token: &DraftToken) -> Self {
        Self { id: token.id, count: token.dist.count(token.id), total: token.dist.total() }
    }
}

pub(crate) fn check_token(token: &DraftToken, vocab_size: u32, support_size: u32) -> Result<(), ParameterError> {
    let dist = &token.dist;
    let what = if token.support_size != support_size || dist.ids().len() > support_size as usize {
        "its support is not of size K"
    } else if dist.ids().last().is_some_and(|&last| last >= vocab_size) {
        "an id is outside the vocabulary"
    } else if dist.count(token.id) == 0 {
        "the drafted token has no mass"
    } else if dist.total() >> SUM != 0 {
        "its probabilities add up to 2 or more"
    } else {
        return Ok(());
    };
    Err(ParameterError::DoesNotFit { what })
}

pub(crate) fn put_count(count: u32, out: &mut BitWriter) -> Result<(), ParameterError> {
    let bits = half::from_count(count).ok_or(ParameterError::DoesNotFit { what: "a count is no f16 number" })?;
    out.put(bits.into(), F16);
    Ok(())
}

pub(crate) fn take_count(input: &mut BitReader<'_>) -> Result<u32, DecodeError> {
    let bits = input.take(F16, "probability")?;
    half::to_count(bits as u16).ok_or(DecodeError::Value { field: "probability", value: bits })
}

pub(crate) fn take_id(input: &mut BitReader<'_>, vocab_size: u32) -> Result<u32, DecodeError> {
    let id = input.take(index_bits(vocab_size), "id")?;
    if id < u64::from(vocab_size) { Ok(id as u32) } else { Err(DecodeError::Value { field: "id", value: id }) }
}

pub(crate) fn distribution(ids: Vec<u32>, counts: Vec<u32>) -> Result<DraftDist, DecodeError> {
    let dist = DraftDist::new(ids, counts).map_err(|_| DecodeError::Value { field: "probability", value: 0 })?;
    check_sum(&dist)?;
    Ok(dist)
}

pub(crate) fn check_sum(dist: &DraftDist) -> Result<(), DecodeError> {
    match dist.total() >> SUM {
        0 => Ok(()),
        _ => Err(DecodeError::Value { field: "sum of probabilities", value: dist.total().into() }),
    }
}
