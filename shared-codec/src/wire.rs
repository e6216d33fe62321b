//! Byte strings: fixed-width integers are little-endian, lengths and ids are variable-length integers.
//!
//! A variable-length integer (`varint`) has seven bits a byte, the lowest first, the top bit set on every byte
//! but the last (LEB128). Only the shortest form is allowed, so a value has one encoding.

use crate::error::DecodeError;

/// The longest frame in bytes. Six dense distributions over 151 936 tokens fit, or a prompt of half a million tokens.
pub const MAX_FRAME_BYTES: usize = 2 * 1024 * 1024;
/// The longest text of an [`ErrorFrame`](crate::frame::ErrorFrame) in bytes; longer ones are cut.
pub const MAX_ERROR_TEXT: usize = 512;
/// The most tokens of a [`Draft`](crate::frame::Draft), and of a frame of [`Guesses`](crate::frame::Guesses).
pub const MAX_DRAFT_TOKENS: u8 = 64;

/// Appends `value` as a varint of one to five bytes.
pub fn put_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads fields from a byte string; every read names what it lacked.
#[derive(Debug, Clone)]
pub struct ByteReader<'a> {
    rest: &'a [u8],
}

impl<'a> ByteReader<'a> {
    /// Reads from the first byte of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Number of bytes that have not been read.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Reads the next `N` bytes.
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(DecodeError::Truncated { field })?;
        self.rest = rest;
        Ok(*head)
    }

    /// Reads a single byte.
    pub fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        Ok(u8::from_le_bytes(self.array(field)?))
    }

    /// Two bytes, little-endian.
    pub fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        Ok(u16::from_le_bytes(self.array(field)?))
    }

    /// Four bytes, little-endian.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        Ok(u32::from_le_bytes(self.array(field)?))
    }

    /// Eight bytes, little-endian.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    /// A varint in its shortest form, at most 2³² − 1.
    pub fn varint(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        let mut value = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.u8(field)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                let overlong = byte == 0 && shift > 0;
                return match u32::try_from(value) {
                    Ok(value) if !overlong => Ok(value),
                    _ => Err(DecodeError::Value { field, value }),
                };
            }
        }
        Err(DecodeError::Value { field, value })
    }

    /// A varint count of items of at least one byte each; more than the input can hold is refused before any
    /// item is read, so that the count is safe to allocate for.
    pub fn count(&mut self, field: &'static str) -> Result<usize, DecodeError> {
        let count = self.varint(field)? as usize;
        if count > self.remaining() {
            return Err(DecodeError::Truncated { field });
        }
        Ok(count)
    }

    /// The next `length` bytes.
    pub fn bytes(&mut self, length: usize, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or(DecodeError::Truncated { field })?;
        self.rest = rest;
        Ok(head)
    }

    /// Reads all bytes that are left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Ends the reading: nothing may be left.
    pub fn finish(self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            count => Err(DecodeError::TrailingBytes { count }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_have_one_form() {
        for value in [0, 1, 127, 128, 300, 16383, 16384, u32::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut r = ByteReader::new(&bytes);
            assert_eq!(r.varint("v"), Ok(value));
            r.finish().unwrap();
            for end in 0..bytes.len() {
                assert_eq!(ByteReader::new(&bytes[..end]).varint("v"), Err(DecodeError::Truncated { field: "v" }));
            }
        }
        for bad in [&[0x80, 0x00][..], &[0xff, 0xff, 0xff, 0xff, 0x1f], &[0xff, 0xff, 0xff, 0xff, 0xff, 0x01]] {
            assert!(matches!(ByteReader::new(bad).varint("v"), Err(DecodeError::Value { field: "v", .. })));
        }
    }

    #[test]
    fn counts_never_exceed_the_input() {
        assert_eq!(ByteReader::new(&[2, 0]).count("n"), Err(DecodeError::Truncated { field: "n" }));
        assert_eq!(ByteReader::new(&[2, 0, 0]).count("n"), Ok(2));
    }
}
