//! The target's distribution, and the two frames that carry it.

use super::fields::{is_probability, take_float, take_generation, take_probability};
use crate::{
    error::DecodeError,
    wire::{ByteReader, MAX_DRAFT_TOKENS, put_varint},
};

/// Layouts of a [`TargetDist`].
const SPARSE: u8 = 0;
const DENSE: u8 = 1;

/// The target's distribution, sparse: ids ascending, each with its probability above zero; the sum is not normalised.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetDist(pub Vec<(u32, f32)>);

/// The target's distribution at the rejected draft of a round.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// The generation it belongs to.
    pub generation: u32,
    /// The round that the distribution belongs to.
    pub round: u32,
    /// The distribution P of the target.
    pub target: TargetDist,
}

/// The basis of a draft's judgement, for edges that ask: comes before the Verdict, once for each accepted draft and
/// once for the first rejected one.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// The generation it belongs to.
    pub generation: u32,
    /// The round of the draft.
    pub round: u32,
    /// Place of the draft in the round.
    pub index: u8,
    /// The probability that a draft is rejected here, before it is drawn; in [0, 1].
    pub rejection: f32,
    /// Total variation between the distribution of the token committed here and the target's; in [0, 1].
    pub divergence: f32,
    /// The target's distribution.
    pub target: TargetDist,
}

impl TargetDist {
    /// The shorter of two layouts: gaps between ids and probabilities, or all ids' probabilities up to the last that
    /// has any.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let mut sparse = vec![SPARSE];
        put_varint(&mut sparse, self.0.len() as u32);
        let mut next = 0;
        for &(id, p) in &self.0 {
            put_varint(&mut sparse, id - next);
            sparse.extend(p.to_le_bytes());
            next = id + 1;
        }
        let mut dense = vec![DENSE];
        put_varint(&mut dense, next);
        if sparse.len() <= dense.len() + 4 * next as usize {
            out.extend(sparse);
            return;
        }
        next = 0;
        for &(id, p) in &self.0 {
            dense.extend((next..id).flat_map(|_| 0f32.to_le_bytes()));
            dense.extend(p.to_le_bytes());
            next = id + 1;
        }
        out.extend(dense);
    }

    pub(super) fn decode(input: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        let mut start = input.clone();
        let mut target = Vec::new();
        match input.u8("distribution layout")? {
            SPARSE => {
                let mut next = 0u32;
                for _ in 0..input.count("probabilities")? {
                    let gap = input.varint("gap")?;
                    let id = next.checked_add(gap).filter(|&id| id < u32::MAX);
                    let id = id.ok_or(DecodeError::Value { field: "gap", value: gap.into() })?;
                    target.push((id, take_probability(input)?));
                    next = id + 1;
                }
            }
            DENSE => {
                for id in 0..input.count("probabilities")? as u32 {
                    let p = take_float(input, "probability", is_probability)?;
                    if p > 0.0 {
                        target.push((id, p));
                    }
                }
            }
            layout => return Err(DecodeError::Value { field: "distribution layout", value: layout.into() }),
        }
        if target.is_empty() {
            return Err(DecodeError::Value { field: "probabilities", value: 0 });
        }
        let target = Self(target);
        let mut canonical = Vec::new();
        target.encode(&mut canonical);
        let used = start.remaining() - input.remaining();
        if start.bytes(used, "distribution")? != canonical {
            return Err(DecodeError::Value { field: "distribution layout", value: u64::from(canonical[0] ^ 1) });
        }
        Ok(target)
    }
}

impl Distribution {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.generation);
        put_varint(out, self.round);
        self.target.encode(out);
    }

    pub(super) fn decode(input: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        let (generation, round) = (take_generation(input)?, input.varint("round")?);
        Ok(Self { generation, round, target: TargetDist::decode(input)? })
    }
}

impl Evidence {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.generation);
        put_varint(out, self.round);
        out.push(self.index);
        out.extend(self.rejection.to_le_bytes());
        out.extend(self.divergence.to_le_bytes());
        self.target.encode(out);
    }

    pub(super) fn decode(input: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            generation: take_generation(input)?,
            round: input.varint("round")?,
            index: match input.u8("index")? {
                index if index < MAX_DRAFT_TOKENS => index,
                index => return Err(DecodeError::Value { field: "index", value: index.into() }),
            },
            rejection: take_float(input, "rejection", is_probability)?,
            divergence: take_float(input, "divergence", is_probability)?,
            target: TargetDist::decode(input)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::frame::{DISTRIBUTION, EVIDENCE, tests::refused};
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn forbidden_values_are_named() {
        assert_eq!(refused(&[EVIDENCE, 1, 0, 64]), "index");
        assert_eq!(refused(&[EVIDENCE, 1, 0, 0, 0, 0, 0, 0x40]), "rejection");
        assert_eq!(refused(&[DISTRIBUTION, 1, 0, 0, 0]), "probabilities");
        assert_eq!(refused(&[DISTRIBUTION, 1, 0, 2]), "distribution layout");
        // Probability 1 of id 0: five bytes with a gap, four without, one more for the layout and one for the count
        // each.
        assert_eq!(refused(&[DISTRIBUTION, 1, 0, 0, 1, 0, 0, 0, 0x80, 0x3f]), "distribution layout");
        assert_eq!(refused(&[DISTRIBUTION, 1, 0, 1, 1, 0, 0, 0, 0x80]), "probability");
    }
}
