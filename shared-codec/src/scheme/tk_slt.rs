//! TK-SLT: the K most likely tokens in f16. Per token:
//!
//! ```text
//! K ids, ascending                       K·⌈log2 V⌉ bits
//! their probabilities                    16·K
//! which of them was drafted              ⌈log2 K⌉
//! ```
//!
//! Ids without mass are the smallest outside the distribution, as in the [lattice payload](crate::lattice).

use super::{
    layout::{Draft, Drafts, Keeps, Layout, Payload, SchemeInfo, Sends},
    parameters::{SchemeOptions, SchemeParameters},
};
use crate::{
    bits::{BitReader, BitWriter, index_bits},
    distribution::{DraftDist, DraftToken},
    error::{DecodeError, ParameterError},
    lattice::{check_support, check_vocabulary, pad, unpad},
    probabilities::{F16, check_sum, check_token, put_count, take_count, take_id},
};

pub(super) const INFO: SchemeInfo = SchemeInfo {
    name: "tk-slt",
    label: "TK-SLT",
    travels: "the token and the K most probable tokens with their probabilities, 16 bits each.",
    source: "Zheng and Yang, Communication-Efficient Collaborative LLM Inference via Distributed Speculative Decoding",
    options: &["supportSize", "verification"],
    sends: Sends::Distributions,
    keeps: Keeps::MostLikely,
    number: 5,
    of: |SchemeOptions { support_size, .. }| SchemeParameters::TkSlt { support_size },
    payload: |SchemeOptions { support_size, .. }, vocab_size| {
        check_vocabulary(vocab_size)?;
        check_support(support_size, vocab_size)?;
        Ok(Payload::plain(TkSlt { vocab_size, support_size }))
    },
};

/// The payload over a vocabulary of V.
#[derive(Debug)]
struct TkSlt {
    vocab_size: u32,
    /// Number of ids kept, K.
    support_size: u32,
}

impl Layout for TkSlt {
    /// K·(⌈log2 V⌉ + 16) + ⌈log2 K⌉.
    fn token_bits(&self, _: u32) -> u32 {
        self.support_size * (index_bits(self.vocab_size) + F16) + index_bits(self.support_size)
    }

    fn support_size(&self, _: u32, _: &DraftDist) -> u32 {
        self.support_size
    }

    fn encode(&self, draft: Draft<'_>, out: &mut BitWriter) -> Result<(), ParameterError> {
        let token = draft.token()?;
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

    fn decode(&self, input: &mut BitReader<'_>, count: u8) -> Result<Drafts, DecodeError> {
        Ok(Drafts::Distributions((0..count).map(|_| self.decode_token(input)).collect::<Result<_, _>>()?))
    }
}

impl TkSlt {
    fn decode_token(&self, input: &mut BitReader<'_>) -> Result<DraftToken, DecodeError> {
        // Everything is there before anything is allocated.
        input.require(self.token_bits(self.support_size), "support")?;
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
