//! A range coder: symbols of given frequencies as one byte string of nearly their ideal length.
//!
//! # The code
//!
//! A sequence of symbols is an interval inside [0, 1). At first it is all of it; a symbol that occupies
//! `start .. start + frequency` of `total` narrows it to that part of itself. The interval is held as bytes that are
//! already out, and a register of 56 bits after them:
//!
//! ```text
//! interval = [low, low + range) · 256^−(n + 7)      n bytes are out, 2^48 < range ≤ 2^56, low < 2^56
//! symbol     r = ⌊range / total⌋;  low += r · start;  range = r · frequency
//! carry      low ≥ 2^56: add one to the bytes that are out, low −= 2^56
//! shift      while range ≤ 2^48: put out ⌊low / 2^48⌋;  low = (low mod 2^48) · 2^8;  range = range · 2^8
//! ```
//!
//! # The end
//!
//! The code word is the shortest byte string s, then the smallest, with [s, s + 256^−|s|) inside the final interval.
//! Since range > 2^48, at most two bytes follow those that are out; a word has at most ⌈(1 − log2 R) / 8⌉ bytes for an
//! interval of width R.
//!
//! **Code words are prefix-free** (Shannon, Fano, Elias): call [s, s + 256^−|s|) the cell of s. Sequences of which
//! neither begins the other have disjoint intervals, and so disjoint cells; if s began t, the cell of t would lie in
//! the cell of s. So no proper prefix of a code word is one, and none with bytes after it. The decoder reads zeros
//! after the end, encodes again what it decodes, and accepts its input if that gives the same bytes, which is to say if
//! it is a code word.
//!
//! # Example
//!
//! Two symbols of frequencies 3 and 1 in 4, the second three times: [63/64, 1), and the word is `fc`.
//! The first three times: [0, 27/64), and the word is `00`.
//!
//! # Cost
//!
//! A division and two multiplications a symbol. The floor in r loses at most `total` / `range` of the interval: below
//! 2^−16 for the largest totals, below 2^−32 for totals below 2^16.
//!
//! The crate `constriction` was considered: its words of 16 or 32 bits make the end of a round of 100 to 400 bits
//! expensive, and its code words are not prefix-free.
//!
//! Martin, "Range encoding: an algorithm for removing redundancy from a digitised message", 1979; Cover and Thomas,
//! "Elements of Information Theory", §5.9.

use crate::error::DecodeError;

const WIDTH: u32 = 56;
const WHOLE: u64 = 1 << WIDTH;
const LOWEST: u64 = 1 << (WIDTH - 8);

/// Encodes symbols by narrowing an interval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeEncoder {
    bytes: Vec<u8>,
    /// Low end of the interval; below 2^56 between calls.
    low: u64,
    /// Width of the interval; in 2^48 + 1 ..= 2^56 between calls, and `bytes`, `low` and `range` never exceed 1
    /// together: a carry out of the register therefore stops within `bytes`.
    range: u64,
}

impl Default for RangeEncoder {
    fn default() -> Self {
        Self { bytes: Vec::new(), low: 0, range: WHOLE }
    }
}

impl RangeEncoder {
    /// An encoder of the empty sequence, whose word is empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// Codes the symbol that occupies `start .. start + frequency` of `total`, which is in 1 ..= 2^32; `frequency` is
    /// at least 1 and the symbol within `total`.
    pub fn push(&mut self, start: u64, frequency: u64, total: u64) {
        debug_assert!(frequency >= 1 && start + frequency <= total && total <= 1 << 32);
        let unit = self.range / total;
        self.narrow(unit * start, unit * frequency);
    }

    /// Codes `value`, below `total`, all of whose values are equally likely.
    pub fn push_uniform(&mut self, value: u64, total: u64) {
        self.push(value, 1, total);
    }

    /// Bits used so far: −log2 of the interval's width, rounded up (or one more, if it is a whole number).
    /// [`finish`](Self::finish) gives at most ⌈(bits + 1) / 8⌉ bytes.
    pub fn bits(&self) -> usize {
        8 * self.bytes.len() + (WIDTH - self.range.ilog2()) as usize
    }

    /// Ends the code and returns the code word.
    pub fn finish(mut self) -> Vec<u8> {
        if self.range == WHOLE && self.low == 0 {
            return self.bytes;
        }
        // One byte more, if a cell of that size fits; two always do, since the interval is wider than 2^48 = 256 cells.
        let (first, end) = (self.low.next_multiple_of(LOWEST), self.low + self.range);
        let (mut word, count) =
            if first + LOWEST <= end { (first, 1) } else { (self.low.next_multiple_of(LOWEST >> 8), 2) };
        if word >= WHOLE {
            word -= WHOLE;
            self.carry();
        }
        for _ in 0..count {
            self.bytes.push((word / LOWEST) as u8);
            word = (word % LOWEST) << 8;
        }
        self.bytes
    }

    /// Sets `low` and `range` after a symbol, then carries and shifts. Returns the number of bytes shifted out.
    fn narrow(&mut self, offset: u64, range: u64) -> u32 {
        self.low += offset;
        self.range = range;
        if self.low >= WHOLE {
            self.low -= WHOLE;
            self.carry();
        }
        let mut shifts = 0;
        while self.range <= LOWEST {
            self.bytes.push((self.low / LOWEST) as u8);
            self.low = (self.low % LOWEST) << 8;
            self.range <<= 8;
            shifts += 1;
        }
        shifts
    }

    fn carry(&mut self) {
        for byte in self.bytes.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
    }
}

/// Decodes the symbols of a code word.
#[derive(Debug, Clone)]
pub struct RangeDecoder<'a> {
    input: &'a [u8],
    /// Bytes of `input`, and zeros after it, that have entered `offset`.
    read: usize,
    /// The input minus `again.low`, in units of the register. Below `again.range`: [`take`](Self::take) refuses symbols
    /// that do not hold it.
    offset: u64,
    /// An encoder that repeats the decoded symbols.
    again: RangeEncoder,
}

impl<'a> RangeDecoder<'a> {
    /// Reads the whole of `input` as one code word.
    pub fn new(input: &'a [u8]) -> Self {
        let mut decoder = Self { input, read: 0, offset: 0, again: RangeEncoder::new() };
        for _ in 0..WIDTH / 8 {
            decoder.shift();
        }
        decoder
    }

    /// Position of the next symbol in 0 .. `total`; the symbol then has to be [taken](Self::take).
    ///
    /// # Errors
    /// [`DecodeError::Value`] with the name `field` if the position is `total` or more, which no encoder writes.
    pub fn peek(&self, total: u64, field: &'static str) -> Result<u64, DecodeError> {
        debug_assert!((1..=1 << 32).contains(&total));
        let value = self.offset / (self.again.range / total);
        if value < total { Ok(value) } else { Err(DecodeError::Value { field, value }) }
    }

    /// Removes the symbol that was found; arguments as in [`RangeEncoder::push`], and it holds what
    /// [`peek`](Self::peek) gave for `total`.
    pub fn take(&mut self, start: u64, frequency: u64, total: u64) {
        let unit = self.again.range / total;
        debug_assert!((start..start + frequency).contains(&(self.offset / unit)));
        self.offset -= unit * start;
        for _ in 0..self.again.narrow(unit * start, unit * frequency) {
            self.shift();
        }
    }

    /// Reads a value below `total`, all equally likely.
    pub fn take_uniform(&mut self, total: u64, field: &'static str) -> Result<u64, DecodeError> {
        let value = self.peek(total, field)?;
        self.take(value, 1, total);
        Ok(value)
    }

    /// Ends the reading: the input must be the code word of the symbols that were taken.
    pub fn finish(self) -> Result<(), DecodeError> {
        let word = self.again.finish();
        if word == self.input {
            return Ok(());
        }
        match self.input.len().checked_sub(word.len()) {
            None => Err(DecodeError::Truncated { field: "code word" }),
            Some(count) if count > 0 && self.input.starts_with(&word) => Err(DecodeError::TrailingBytes { count }),
            Some(_) => {
                let last = self.input.last().copied().unwrap_or(0);
                Err(DecodeError::Value { field: "end of the code word", value: last.into() })
            }
        }
    }

    fn shift(&mut self) {
        let byte = self.input.get(self.read).copied().unwrap_or(0);
        self.read += 1;
        self.offset = (self.offset << 8) | u64::from(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    fn encode(symbols: &[(u64, u64, u64)]) -> Vec<u8> {
        let mut encoder = RangeEncoder::new();
        for &(start, frequency, total) in symbols {
            encoder.push(start, frequency, total);
        }
        encoder.finish()
    }

    fn decode(symbols: &[(u64, u64, u64)], word: &[u8]) -> Result<(), DecodeError> {
        let mut decoder = RangeDecoder::new(word);
        for &(start, frequency, total) in symbols {
            let value = decoder.peek(total, "symbol")?;
            if !(start..start + frequency).contains(&value) {
                return Err(DecodeError::Value { field: "symbol", value });
            }
            decoder.take(start, frequency, total);
        }
        decoder.finish()
    }

    #[test]
    fn exact_bytes() {
        assert_eq!(encode(&[]), [0u8; 0]);
        assert_eq!(encode(&[(3, 1, 4); 3]), [0xfc]);
        assert_eq!(encode(&[(0, 3, 4); 3]), [0x00]);
        assert_eq!(encode(&[(0, 1, 1)]), [0u8; 0]);
        assert_eq!(encode(&[(1, 1, 3)]), [0x56]);
        assert_eq!(encode(&[(255, 1, 256)]), [0xff]);
        assert_eq!(encode(&[(0x1234_5678, 1, 1 << 32)]), [0x12, 0x34, 0x56, 0x78]);
    }

    #[test]
    fn carries_run_through_bytes_that_are_out() {
        // The upper half of a third, again and again, puts out 0.5555… and more; then the top.
        let symbols: Vec<_> = std::iter::repeat_n((1, 1, 2), 31).chain([(0, 1, 3), (2, 1, 3), (2, 1, 3)]).collect();
        let word = encode(&symbols);
        assert_eq!(decode(&symbols, &word), Ok(()));
        // 1 − 2^−40, then in that rest: bytes of 0xff are out, and the sum carries into none of them.
        let symbols = [(255, 1, 256); 9];
        assert_eq!(encode(&symbols), [0xff; 9]);
        // An interval across 1/2: its lower end is 0x7fff…, its word above it.
        let symbols = [(0x7fff_ffff, 2, 1 << 32), (0x7fff_ffff, 2, 1 << 32), (0x8000_0000, 0x7000_0000, 1 << 32)];
        let word = encode(&symbols);
        assert_eq!(word[..4], [0x80, 0, 0, 0]);
        assert_eq!(decode(&symbols, &word), Ok(()));
    }

    #[test]
    fn all_words_of_three_symbols_are_prefix_free() {
        let alphabet = [(0, 1, 7), (1, 4, 7), (5, 2, 7)];
        let mut words = Vec::new();
        for a in alphabet {
            for b in alphabet {
                for c in alphabet {
                    let word = encode(&[a, b, c]);
                    assert_eq!(decode(&[a, b, c], &word), Ok(()));
                    words.push(word);
                }
            }
        }
        for (i, a) in words.iter().enumerate() {
            for (j, b) in words.iter().enumerate() {
                assert!(i == j || !b.starts_with(a), "{a:?} begins {b:?}");
            }
        }
    }

    fn symbol() -> impl Strategy<Value = (u64, u64, u64)> {
        (1u64..=1 << 32, any::<u64>(), any::<u64>(), 0u32..32).prop_map(|(total, a, b, shift)| {
            let total = (total >> shift).max(1);
            let start = a % total;
            (start, 1 + (b >> shift) % (total - start), total)
        })
    }

    proptest! {
        #[test]
        fn words_round_trip_and_are_short(symbols in proptest::collection::vec(symbol(), 0..60)) {
            let mut encoder = RangeEncoder::new();
            let mut ideal = 0.0;
            for &(start, frequency, total) in &symbols {
                encoder.push(start, frequency, total);
                ideal += (total as f64 / frequency as f64).log2();
                prop_assert!(encoder.bits() as f64 >= ideal - 1e-6);
                prop_assert!(encoder.bits() as f64 <= ideal + 1.01 + 1e-3 * symbols.len() as f64);
            }
            let bits = encoder.bits();
            let word = encoder.finish();
            prop_assert!(word.len() <= (bits + 1).div_ceil(8));
            prop_assert_eq!(decode(&symbols, &word), Ok(()));
            for end in 0..word.len() {
                prop_assert!(decode(&symbols, &word[..end]).is_err());
            }
            for extra in [0u8, 1, 0x80, 0xff] {
                let mut longer = word.clone();
                longer.push(extra);
                prop_assert!(decode(&symbols, &longer).is_err());
            }
        }

        #[test]
        fn a_word_is_accepted_if_and_only_if_it_is_encoded_so(
            word in proptest::collection::vec(any::<u8>(), 0..12),
            totals in proptest::collection::vec(1u64..=1 << 32, 0..8),
        ) {
            let (mut decoder, mut encoder) = (RangeDecoder::new(&word), RangeEncoder::new());
            for total in totals {
                let Ok(value) = decoder.take_uniform(total, "symbol") else { return Ok(()) };
                encoder.push_uniform(value, total);
            }
            prop_assert_eq!(decoder.finish().is_ok(), encoder.finish() == word);
        }
    }
}
