//! DSD, the baseline of TK-SLT and DSSD: the whole vocabulary in f16. Per token:
//!
//! ```text
//! V probabilities, by ascending id       16·V bits
//! the drafted id                         ⌈log2 V⌉
//! ```

use super::{
    layout::{Draft, Drafts, Keeps, Layout, Payload, SchemeInfo, Sends},
    parameters::SchemeParameters,
};
use crate::{
    bits::{BitReader, BitWriter, index_bits},
    distribution::{DraftDist, DraftToken},
    error::{DecodeError, ParameterError},
    lattice::check_vocabulary,
    probabilities::{F16, check_token, distribution, put_count, take_count, take_id},
};

pub(super) const INFO: SchemeInfo = SchemeInfo {
    name: "dense",
    label: "Dense",
    travels: "the token and the probabilities of the whole vocabulary, 16 bits each.",
    source: "the baseline of Zheng and Yang, Communication-Efficient Collaborative LLM Inference via Distributed \
             Speculative Decoding",
    options: &["verification"],
    sends: Sends::Distributions,
    keeps: Keeps::All,
    number: 4,
    of: |_| SchemeParameters::Dense,
    payload: |_, vocab_size| {
        check_vocabulary(vocab_size)?;
        Ok(Payload::plain(Dense { vocab_size }))
    },
};

/// The payload over a vocabulary of V.
#[derive(Debug)]
struct Dense {
    vocab_size: u32,
}

impl Layout for Dense {
    /// Bits of a draft: 16·V + ⌈log2 V⌉.
    fn token_bits(&self, _: u32) -> u32 {
        F16 * self.vocab_size + index_bits(self.vocab_size)
    }

    fn support_size(&self, _: u32, _: &DraftDist) -> u32 {
        self.vocab_size
    }

    fn encode(&self, draft: Draft<'_>, out: &mut BitWriter) -> Result<(), ParameterError> {
        let token = draft.token()?;
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

    fn decode(&self, input: &mut BitReader<'_>, count: u8) -> Result<Drafts, DecodeError> {
        Ok(Drafts::Distributions((0..count).map(|_| self.decode_token(input)).collect::<Result<_, _>>()?))
    }
}

impl Dense {
    fn decode_token(&self, input: &mut BitReader<'_>) -> Result<DraftToken, DecodeError> {
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
