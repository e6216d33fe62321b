//! The number of ids and the counts: adaptive binary decisions.

use crate::{
    error::DecodeError,
    range_coder::{RangeDecoder, RangeEncoder},
};

/// Adaptive binary decisions, for numbers of which small ones are the likeliest.
#[derive(Debug, Clone)]
pub(super) struct Numbers {
    /// Frequencies of no and of yes for each decision, in 1/[`Numbers::STEP`].
    pub(super) decisions: Vec<[u16; 2]>,
}

impl Numbers {
    /// Decisions of one context: a number's length, then the second and the third bit for each length.
    pub(super) const LENGTHS: usize = 17;
    pub(super) const CONTEXT: usize = 4 * Self::LENGTHS;
    /// Context of the number of ids, m.
    pub(super) const SIZE: usize = 0;
    /// Contexts of counts other than the first, by the length of the number of values they can have.
    pub(super) const SPANS: usize = 8;
    pub(super) const STEP: u16 = 32;
    pub(super) const START: u16 = 16;
    pub(super) const LIMIT: u16 = 1 << 12;

    pub(super) fn new() -> Self {
        let contexts = 2 + Self::SPANS;
        Self { decisions: vec![[Self::START; 2]; contexts * Self::CONTEXT] }
    }

    /// The context of count i ≥ 0 that can have `values` values.
    pub(super) fn count_context(i: usize, values: u32) -> usize {
        if i == 0 { 1 } else { 2 + (values.ilog2() as usize).min(Self::SPANS - 1) }
    }

    pub(super) fn learn(&mut self, decision: usize, yes: bool) {
        let counts = &mut self.decisions[decision];
        counts[usize::from(yes)] += Self::STEP;
        if counts[0] + counts[1] > Self::LIMIT {
            *counts = counts.map(|count| count / 2 + 1);
        }
    }
}

/// A sequence of decisions that is coded, learned or decoded.
pub(super) trait CodesNumbers {
    /// Codes one decision; a decoder ignores `yes`. With `None` both outcomes are equally likely, always.
    fn toss(&mut self, decision: Option<usize>, yes: bool) -> Result<bool, DecodeError>;

    /// Codes `value` in 0 ..= `limit` as value + 1: the length of its binary form in unary, then the bits after its
    /// leading one. Decisions that the limit leaves no choice in are passed over.
    fn number(&mut self, context: usize, limit: u32, value: u32) -> Result<u32, DecodeError> {
        let base = context * Numbers::CONTEXT;
        let (limit, value) = (limit + 1, value.wrapping_add(1));
        let mut length = 0;
        while limit >> (length + 1) > 0 && self.toss(Some(base + length), value >> (length + 1) > 0)? {
            length += 1;
        }
        let mut found = 1u32 << length;
        for bit in (0..length).rev() {
            if found | 1 << bit > limit {
                continue;
            }
            let decision = match length - 1 - bit {
                0 => Some(base + Numbers::LENGTHS + length),
                1 => Some(base + (2 + (found >> (bit + 1) & 1) as usize) * Numbers::LENGTHS + length),
                _ => None,
            };
            if self.toss(decision, value >> bit & 1 == 1)? {
                found |= 1 << bit;
            }
        }
        Ok(found - 1)
    }
}

pub(super) struct NumberEncoder<'a> {
    pub(super) numbers: &'a Numbers,
    pub(super) out: &'a mut RangeEncoder,
}

impl CodesNumbers for NumberEncoder<'_> {
    fn toss(&mut self, decision: Option<usize>, yes: bool) -> Result<bool, DecodeError> {
        let [no, sure] = decision.map_or([1; 2], |decision| self.numbers.decisions[decision]).map(u64::from);
        let (start, frequency) = if yes { (no, sure) } else { (0, no) };
        self.out.push(start, frequency, no + sure);
        Ok(yes)
    }
}

pub(super) struct NumberDecoder<'a, 'b> {
    pub(super) numbers: &'a Numbers,
    pub(super) input: &'a mut RangeDecoder<'b>,
}

impl CodesNumbers for NumberDecoder<'_, '_> {
    fn toss(&mut self, decision: Option<usize>, _: bool) -> Result<bool, DecodeError> {
        let [no, sure] = decision.map_or([1; 2], |decision| self.numbers.decisions[decision]).map(u64::from);
        let yes = self.input.peek(no + sure, "number")? >= no;
        let (start, frequency) = if yes { (no, sure) } else { (0, no) };
        self.input.take(start, frequency, no + sure);
        Ok(yes)
    }
}

pub(super) struct Learner<'a>(pub(super) &'a mut Numbers);

impl CodesNumbers for Learner<'_> {
    fn toss(&mut self, decision: Option<usize>, yes: bool) -> Result<bool, DecodeError> {
        if let Some(decision) = decision {
            self.0.learn(decision, yes);
        }
        Ok(yes)
    }
}
