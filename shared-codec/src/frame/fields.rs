//! Fields that several frames have.

use crate::{
    error::DecodeError,
    wire::{ByteReader, MAX_DRAFT_TOKENS, put_varint},
};

pub(super) fn put_ids(out: &mut Vec<u8>, ids: &[u32]) {
    put_varint(out, ids.len() as u32);
    for &id in ids {
        put_varint(out, id);
    }
}

pub(super) fn take_ids(input: &mut ByteReader<'_>, field: &'static str) -> Result<Vec<u32>, DecodeError> {
    let count = input.count(field)?;
    (0..count).map(|_| input.varint(field)).collect()
}

/// A varint that is at least 1, such as the number of a generation.
pub(super) fn take_positive(input: &mut ByteReader<'_>, field: &'static str) -> Result<u32, DecodeError> {
    match input.varint(field)? {
        0 => Err(DecodeError::Value { field, value: 0 }),
        number => Ok(number),
    }
}

pub(super) fn take_generation(input: &mut ByteReader<'_>) -> Result<u32, DecodeError> {
    take_positive(input, "generation")
}

/// The number of rounds that may be in flight.
pub(super) fn take_window(input: &mut ByteReader<'_>) -> Result<u8, DecodeError> {
    match input.u8("rounds in flight")? {
        0 => Err(DecodeError::Value { field: "rounds in flight", value: 0 }),
        rounds => Ok(rounds),
    }
}

pub(super) fn draft_count(count: u8, field: &'static str) -> Result<u8, DecodeError> {
    if count > MAX_DRAFT_TOKENS { Err(DecodeError::Value { field, value: count.into() }) } else { Ok(count) }
}

pub(super) fn take_float(
    input: &mut ByteReader<'_>,
    field: &'static str,
    allowed: impl Fn(f32) -> bool,
) -> Result<f32, DecodeError> {
    let bits = input.u32(field)?;
    let value = f32::from_bits(bits);
    if allowed(value) { Ok(value) } else { Err(DecodeError::Value { field, value: bits.into() }) }
}

/// True for an f32 that a distribution may have as a probability; +0 is one, −0 is not.
pub(super) fn is_probability(p: f32) -> bool {
    (0.0..=1.0).contains(&p) && p.is_sign_positive()
}

/// A probability above zero.
pub(super) fn take_probability(input: &mut ByteReader<'_>) -> Result<f32, DecodeError> {
    take_float(input, "probability", |p| p > 0.0 && is_probability(p))
}
