//! Wire form of an acceptance rule: its number and parameter once, and with each draft the statistic that it needs.
//!
//! The rules themselves are in `outrider_speculation::judge`. Some decide by the draft model's own distribution,
//! before temperature, top-k and top-p; the cloud has only q̂, of the distribution that was sampled. Where those
//! differ, what such a rule needs of the former comes before the drafts in the payload, as f16.

use crate::{
    error::DecodeError,
    wire::{ByteReader, put_varint},
};

/// An acceptance rule and its parameter, as Prompt names them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RuleParameters {
    /// Number of the rule, below 64; 0 is the exact rule.
    pub number: u8,
    /// The only parameter of the rule: finite and not −0; 0 for the exact rule, which has none.
    pub parameter: f32,
}

impl RuleParameters {
    /// Parameters of the exact rule.
    pub const EXACT: Self = Self { number: 0, parameter: 0.0 };
}

/// The kind of a draft's statistic, by its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatisticKind {
    /// One number for the draft.
    Scalar,
    /// One number for each id of q̂ that has mass, ascending.
    Support,
}

impl StatisticKind {
    /// Length in bytes of a draft's statistic that has `numbers` numbers.
    pub fn length(self, numbers: usize) -> usize {
        match self {
            StatisticKind::Scalar => 2,
            StatisticKind::Support => {
                let mut count = Vec::new();
                put_varint(&mut count, numbers as u32);
                count.len() + 2 * numbers
            }
        }
    }

    /// Appends a draft's statistic: the bits of f16 numbers.
    pub fn put(self, out: &mut Vec<u8>, numbers: &[u16]) {
        if self == StatisticKind::Support {
            put_varint(out, numbers.len() as u32);
        }
        out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    }

    /// Reads the statistics of `count` drafts from the beginning of a payload; gives them and the rest of it.
    ///
    /// # Errors
    /// If there are fewer, or a number is negative or not finite.
    pub fn take(self, payload: &[u8], count: u8) -> Result<(Vec<Vec<u16>>, &[u8]), DecodeError> {
        let mut input = ByteReader::new(payload);
        let statistics = (0..count).map(|_| {
            let numbers = match self {
                StatisticKind::Scalar => 1,
                StatisticKind::Support => input.count("statistics")?,
            };
            (0..numbers).map(|_| take_number(&mut input)).collect()
        });
        let statistics = statistics.collect::<Result<_, _>>()?;
        Ok((statistics, input.rest()))
    }
}

/// The bits of f16's +∞: below are the finite numbers that are not negative, above NaN and what has a sign.
const INFINITY: u16 = 0x7c00;

fn take_number(input: &mut ByteReader<'_>) -> Result<u16, DecodeError> {
    let bits = input.u16("statistic")?;
    if bits < INFINITY { Ok(bits) } else { Err(DecodeError::Value { field: "statistic", value: bits.into() }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    #[test]
    fn what_no_distribution_has_is_refused() {
        for bits in [0x8000u16, 0xbc00, 0x7c00, 0x7e00] {
            let bytes = bits.to_le_bytes();
            assert_eq!(
                StatisticKind::Scalar.take(&bytes, 1),
                Err(DecodeError::Value { field: "statistic", value: bits.into() })
            );
        }
        assert!(matches!(StatisticKind::Support.take(&[200, 1, 0, 0], 1), Err(DecodeError::Truncated { .. })));
    }

    proptest! {
        #[test]
        fn statistics_round_trip_and_no_prefix_does(
            drafts in vec(vec(0u16..0x7c00, 1..9), 0..5), tail in vec(any::<u8>(), 0..4), scalar: bool,
        ) {
            let kind = if scalar { StatisticKind::Scalar } else { StatisticKind::Support };
            let numbers = if scalar { 1 } else { 9 };
            let drafts: Vec<Vec<u16>> =
                drafts.iter().map(|draft| draft.iter().take(numbers).copied().collect()).collect();
            let mut bytes = Vec::new();
            for draft in &drafts {
                let before = bytes.len();
                kind.put(&mut bytes, draft);
                prop_assert_eq!(bytes.len() - before, kind.length(draft.len()));
            }
            let count = drafts.len() as u8;
            for end in 0..bytes.len() {
                let truncated = matches!(kind.take(&bytes[..end], count), Err(DecodeError::Truncated { .. }));
                prop_assert!(truncated);
            }
            bytes.extend(&tail);
            prop_assert_eq!(kind.take(&bytes, count), Ok((drafts, &tail[..])));
        }
    }
}
