//! Drafted tokens with probabilities in f16: the whole vocabulary (DSD), the K most likely (TK-SLT), or the drafted
//! token's alone (DSSD). Per token:
//!
//! ```text
//! dense    V probabilities, by ascending id       16·V bits
//!          the drafted id                         ⌈log2 V⌉
//! tk-slt   K ids, ascending                       K·⌈log2 V⌉
//!          their probabilities                    16·K
//!          which of them was drafted              ⌈log2 K⌉
//! dssd     the drafted id                         ⌈log2 V⌉
//!          its probability                        16
//!          the sum of all V probabilities         25, a multiple of 2⁻²⁴
//! ```
//!
//! A probability is a [count](crate::half) of 2⁻²⁴ and the distribution is the counts over their sum, so nothing is
//! lost that was drawn from. DSSD needs the sum because rounding V numbers to f16 makes it differ from 1.

use crate::{
    bits::{BitReader, BitWriter, index_bits},
    distribution::{DraftDist, DraftToken},
    error::{DecodeError, ParameterError},
    half,
    lattice::{check_support, check_vocabulary, pad, unpad},
};

/// Bits of an f16.
const F16: u32 = 16;
/// Bits of a sum of V rounded probabilities: at most 1 + 2⁻¹¹ by the rounding of normal numbers and V·2⁻²⁵ ≤ 1/2 by
/// that of subnormal ones, so below 2.
const SUM: u32 = 25;

/// The payload of DSD: the whole vocabulary.
#[derive(Debug, Clone)]
pub struct DensePayload {
    vocab_size: u32,
}

impl DensePayload {
    /// For a vocabulary of V.
    ///
    /// # Errors
    /// If V is out of range.
    pub fn new(vocab_size: u32) -> Result<Self, ParameterError> {
        check_vocabulary(vocab_size)?;
        Ok(Self { vocab_size })
    }

    /// V.
    pub fn vocab_size(&self) -> u32 {
        self.vocab_size
    }

    /// 16·V + ⌈log2 V⌉.
    pub fn token_bits(&self) -> u32 {
        F16 * self.vocab_size + index_bits(self.vocab_size)
    }

    /// Appends one token.
    ///
    /// # Errors
    /// If its counts are not f16 numbers of ids below V.
    pub fn encode(&self, token: &DraftToken, out: &mut BitWriter) -> Result<(), ParameterError> {
        check_token(token, self.vocab_size, self.vocab_size)?;
        let mut next = 0;
        for (&id, &count) in token.dist.ids().iter().zip(token.dist.counts()) {
            for _ in next..id {
                out.put(0, F16);
            }
            put_count(count, out)?;
            next = id + 1;
        }
        for _ in next..self.vocab_size {
            out.put(0, F16);
        }
        out.put(token.id.into(), index_bits(self.vocab_size));
        Ok(())
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// If the bits end early or are not what [`encode`](Self::encode) writes.
    pub fn decode(&self, input: &mut BitReader<'_>) -> Result<DraftToken, DecodeError> {
        let (mut ids, mut counts) = (Vec::new(), Vec::new());
        for id in 0..self.vocab_size {
            let count = take_count(input)?;
            if count > 0 {
                ids.push(id);
                counts.push(count);
            }
        }
        let dist = distribution(ids, counts)?;
        let id = take_id(input, self.vocab_size)?;
        if dist.count(id) == 0 {
            return Err(DecodeError::Value { field: "drafted id", value: id.into() });
        }
        Ok(DraftToken { id, dist, support_size: self.vocab_size })
    }
}

/// The payload of TK-SLT: the K most likely tokens.
#[derive(Debug, Clone)]
pub struct TopKPayload {
    vocab_size: u32,
    support_size: u32,
}

impl TopKPayload {
    /// For `support_size` = K tokens of a vocabulary of V.
    ///
    /// # Errors
    /// If K or V is out of range.
    pub fn new(vocab_size: u32, support_size: u32) -> Result<Self, ParameterError> {
        check_vocabulary(vocab_size)?;
        check_support(support_size, vocab_size)?;
        Ok(Self { vocab_size, support_size })
    }

    /// K.
    pub fn support_size(&self) -> u32 {
        self.support_size
    }

    /// K·(⌈log2 V⌉ + 16) + ⌈log2 K⌉.
    pub fn token_bits(&self) -> u32 {
        self.support_size * (index_bits(self.vocab_size) + F16) + index_bits(self.support_size)
    }

    /// Appends one token. Ids without mass are the smallest outside the distribution, as in the
    /// [lattice payload](crate::lattice).
    ///
    /// # Errors
    /// If it has more than K ids, or its counts are not f16 numbers of ids below V.
    pub fn encode(&self, token: &DraftToken, out: &mut BitWriter) -> Result<(), ParameterError> {
        check_token(token, self.vocab_size, self.support_size)?;
        let (support, counts) = pad(token.dist.ids(), token.dist.counts(), self.support_size as usize);
        for &id in &support {
            out.put(id.into(), index_bits(self.vocab_size));
        }
        for &count in &counts {
            put_count(count, out)?;
        }
        let index = support.binary_search(&token.id).unwrap_or_default();
        out.put(index as u64, index_bits(self.support_size));
        Ok(())
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// If the bits end early or are not what [`encode`](Self::encode) writes.
    pub fn decode(&self, input: &mut BitReader<'_>) -> Result<DraftToken, DecodeError> {
        // Everything is there before anything is allocated.
        input.require(self.token_bits(), "support")?;
        let mut support: Vec<u32> = Vec::with_capacity(self.support_size as usize);
        for _ in 0..self.support_size {
            let id = take_id(input, self.vocab_size)?;
            if support.last().is_some_and(|&last| last >= id) {
                return Err(DecodeError::Value { field: "support", value: id.into() });
            }
            support.push(id);
        }
        let counts = support.iter().map(|_| take_count(input)).collect::<Result<Vec<_>, _>>()?;
        // Checks that there is mass and that the sum is one of probabilities.
        let dist = unpad(&support, &counts)?;
        check_sum(&dist)?;
        let index = input.take(index_bits(self.support_size), "index")?;
        match support.get(index as usize) {
            Some(&id) if dist.count(id) > 0 => Ok(DraftToken { id, dist, support_size: self.support_size }),
            _ => Err(DecodeError::Value { field: "index", value: index }),
        }
    }
}

/// What DSSD says of a drafted token: its probability is `count / total`, both in multiples of 2⁻²⁴.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DraftProbability {
    /// The drafted id.
    pub id: u32,
    /// Its count, at least 1, an f16 number.
    pub count: u32,
    /// The sum of all counts, below 2²⁵.
    pub total: u32,
}

impl From<&DraftToken> for DraftProbability {
    fn from(token: &DraftToken) -> Self {
        Self { id: token.id, count: token.dist.count(token.id), total: token.dist.total() }
    }
}

/// The payload of DSSD.
#[derive(Debug, Clone)]
pub struct ProbabilityPayload {
    vocab_size: u32,
}

impl ProbabilityPayload {
    /// For a vocabulary of V.
    ///
    /// # Errors
    /// If V is out of range.
    pub fn new(vocab_size: u32) -> Result<Self, ParameterError> {
        check_vocabulary(vocab_size)?;
        Ok(Self { vocab_size })
    }

    /// ⌈log2 V⌉ + 16 + 25.
    pub fn token_bits(&self) -> u32 {
        index_bits(self.vocab_size) + F16 + SUM
    }

    /// Appends one token.
    ///
    /// # Errors
    /// If the count is no f16 number, or the numbers are out of their ranges.
    pub fn encode(&self, token: &DraftProbability, out: &mut BitWriter) -> Result<(), ParameterError> {
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

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// If the bits end early or are not what [`encode`](Self::encode) writes.
    pub fn decode(&self, input: &mut BitReader<'_>) -> Result<DraftProbability, DecodeError> {
        let id = take_id(input, self.vocab_size)?;
        let count = take_count(input)?;
        let total = input.take(SUM, "sum of probabilities")? as u32;
        if count == 0 || count > total {
            return Err(DecodeError::Value { field: "probability", value: count.into() });
        }
        Ok(DraftProbability { id, count, total })
    }
}

/// The payload of coupled drafting: nothing but the id.
#[derive(Debug, Clone)]
pub struct IdPayload {
    vocab_size: u32,
}

impl IdPayload {
    /// For a vocabulary of V.
    ///
    /// # Errors
    /// If V is out of range.
    pub fn new(vocab_size: u32) -> Result<Self, ParameterError> {
        check_vocabulary(vocab_size)?;
        Ok(Self { vocab_size })
    }

    /// ⌈log2 V⌉.
    pub fn token_bits(&self) -> u32 {
        index_bits(self.vocab_size)
    }

    /// Appends one id.
    ///
    /// # Errors
    /// If it is outside the vocabulary.
    pub fn encode(&self, id: u32, out: &mut BitWriter) -> Result<(), ParameterError> {
        if id >= self.vocab_size {
            return Err(ParameterError::DoesNotFit { what: "an id is outside the vocabulary" });
        }
        out.put(id.into(), index_bits(self.vocab_size));
        Ok(())
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// If the bits end early or name no id.
    pub fn decode(&self, input: &mut BitReader<'_>) -> Result<u32, DecodeError> {
        take_id(input, self.vocab_size)
    }
}

fn check_token(token: &DraftToken, vocab_size: u32, support_size: u32) -> Result<(), ParameterError> {
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

fn put_count(count: u32, out: &mut BitWriter) -> Result<(), ParameterError> {
    let bits = half::from_count(count).ok_or(ParameterError::DoesNotFit { what: "a count is no f16 number" })?;
    out.put(bits.into(), F16);
    Ok(())
}

fn take_count(input: &mut BitReader<'_>) -> Result<u32, DecodeError> {
    let bits = input.take(F16, "probability")?;
    half::to_count(bits as u16).ok_or(DecodeError::Value { field: "probability", value: bits })
}

fn take_id(input: &mut BitReader<'_>, vocab_size: u32) -> Result<u32, DecodeError> {
    let id = input.take(index_bits(vocab_size), "id")?;
    if id < u64::from(vocab_size) { Ok(id as u32) } else { Err(DecodeError::Value { field: "id", value: id }) }
}

fn distribution(ids: Vec<u32>, counts: Vec<u32>) -> Result<DraftDist, DecodeError> {
    let dist = DraftDist::new(ids, counts).map_err(|_| DecodeError::Value { field: "probability", value: 0 })?;
    check_sum(&dist)?;
    Ok(dist)
}

fn check_sum(dist: &DraftDist) -> Result<(), DecodeError> {
    match dist.total() >> SUM {
        0 => Ok(()),
        _ => Err(DecodeError::Value { field: "sum of probabilities", value: dist.total().into() }),
    }
}
