//! Bit strings: most significant bit first, the last byte filled with zero bits.

use num_bigint::BigUint;

use crate::error::DecodeError;

/// ⌈log2 n⌉: the bits of an index below `n` ≥ 1.
pub fn index_bits(n: u32) -> u32 {
    (n - 1).checked_ilog2().map_or(0, |bits| bits + 1)
}

/// Appends bits to a growing byte string.
#[derive(Debug, Default, Clone)]
pub struct BitWriter {
    bytes: Vec<u8>,
    /// Bits used so far; the bytes hold ⌈len/8⌉ of them, unused low bits of the last byte are zero.
    len: usize,
}

impl BitWriter {
    /// An empty bit string.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of bits written.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if no bit was written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends the low `width` bits of `value` (`width` ≤ 64), the highest of them first.
    pub fn put(&mut self, value: u64, width: u32) {
        debug_assert!(width <= 64 && (width == 64 || value >> width == 0));
        let mut left = width;
        while left > 0 {
            let used = (self.len % 8) as u32;
            if used == 0 {
                self.bytes.push(0);
            }
            let take = left.min(8 - used);
            let chunk = ((value >> (left - take)) & ((1 << take) - 1)) as u8;
            if let Some(last) = self.bytes.last_mut() {
                *last |= chunk << (8 - used - take);
            }
            self.len += take as usize;
            left -= take;
        }
    }

    /// Appends `value` in `width` bits, the highest first. `value` must be below 2^`width`.
    pub fn put_big(&mut self, value: &BigUint, width: u32) {
        debug_assert!(value.bits() <= u64::from(width));
        let mut digits = value.to_u32_digits();
        digits.resize(width.div_ceil(32) as usize, 0);
        for (i, digit) in digits.iter().enumerate().rev() {
            let start = 32 * i as u32;
            self.put(u64::from(*digit), (width - start).min(32));
        }
    }

    /// The bytes, the last one filled with zero bits.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads bits from a byte string.
#[derive(Debug, Clone)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> BitReader<'a> {
    /// Reads from the first bit of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// Number of bits read.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The next `width` ≤ 64 bits as an integer; `field` names them in the error.
    pub fn take(&mut self, width: u32, field: &'static str) -> Result<u64, DecodeError> {
        debug_assert!(width <= 64);
        self.require(width, field)?;
        let mut value = 0u64;
        let mut left = width;
        while left > 0 {
            let used = (self.position % 8) as u32;
            let take = left.min(8 - used);
            let byte = self.bytes[self.position / 8];
            let chunk = (byte >> (8 - used - take)) & (((1u16 << take) - 1) as u8);
            value = (value << take) | u64::from(chunk);
            self.position += take as usize;
            left -= take;
        }
        Ok(value)
    }

    /// The next `width` bits as a big integer; `field` names them in the error.
    pub fn take_big(&mut self, width: u32, field: &'static str) -> Result<BigUint, DecodeError> {
        // Checked before anything is allocated.
        self.require(width, field)?;
        let mut digits = vec![0u32; width.div_ceil(32) as usize];
        for (i, digit) in digits.iter_mut().enumerate().rev() {
            let start = 32 * i as u32;
            *digit = self.take((width - start).min(32), field)? as u32;
        }
        Ok(BigUint::new(digits))
    }

    /// Ends the reading: the rest must be fewer than eight bits, all zero.
    pub fn finish(mut self) -> Result<(), DecodeError> {
        let left = self.bytes.len() * 8 - self.position;
        if left >= 8 {
            return Err(DecodeError::TrailingBytes { count: left / 8 });
        }
        match self.take(left as u32, "padding")? {
            0 => Ok(()),
            value => Err(DecodeError::Value { field: "padding", value }),
        }
    }

    /// Fails unless `width` more bits are there; `field` names them in the error.
    pub fn require(&self, width: u32, field: &'static str) -> Result<(), DecodeError> {
        if self.bytes.len() * 8 - self.position < width as usize {
            return Err(DecodeError::Truncated { field });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn the_first_bit_is_the_highest_of_the_first_byte() {
        let mut w = BitWriter::new();
        w.put(1, 1);
        w.put(0b0110, 4);
        w.put(0x3ff, 10);
        assert_eq!(w.len(), 15);
        assert_eq!(w.into_bytes(), [0b1011_0111, 0b1111_1110]);
    }

    #[test]
    fn big_values_are_written_like_small_ones() {
        for width in [1, 31, 32, 33, 64] {
            let value = 0x1234_5678_9abc_def1u64 >> (64 - width);
            let (mut small, mut big) = (BitWriter::new(), BitWriter::new());
            small.put(5, 3);
            big.put(5, 3);
            small.put(value, width);
            big.put_big(&value.into(), width);
            let bytes = small.into_bytes();
            assert_eq!(bytes, big.into_bytes());
            let mut r = BitReader::new(&bytes);
            assert_eq!(r.take(3, "prefix"), Ok(5));
            assert_eq!(r.clone().take(width, "value"), Ok(value));
            assert_eq!(r.take_big(width, "value"), Ok(value.into()));
            r.finish().expect("only padding is left");
        }
    }

    #[test]
    fn the_end_is_strict() {
        let mut r = BitReader::new(&[0xff, 0x01]);
        assert_eq!(r.take(9, "x"), Ok(0x1fe));
        assert_eq!(r.take(8, "y"), Err(DecodeError::Truncated { field: "y" }));
        assert_eq!(r.clone().finish(), Err(DecodeError::Value { field: "padding", value: 1 }));
        assert_eq!(BitReader::new(&[0]).finish(), Err(DecodeError::TrailingBytes { count: 1 }));
    }
}
