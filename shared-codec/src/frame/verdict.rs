//! The verdict on a round of drafts.

use super::{
    fields::{draft_count, take_generation, take_probability},
    target::TargetDist,
    tokens::Finish,
};
use crate::{
    error::DecodeError,
    wire::{ByteReader, put_varint},
};

/// The cloud's answer to a round of drafts.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The generation it belongs to.
    pub generation: u32,
    /// The round it answers.
    pub round: u32,
    /// Number of drafted tokens accepted, from the first on.
    pub accepted: u8,
    /// The continuation of the text after them.
    pub next: Next,
    /// The reason why the generation is over, if it is.
    pub finish: Option<Finish>,
}

/// The continuation after the accepted drafts of a round.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Nothing: an accepted token ended the text, or all drafts are accepted and no bonus token follows, by the rule or
    /// because the round is continued.
    Nothing,
    /// The cloud's token: resampled if a draft was rejected, else the bonus token.
    Token(u32),
    /// Independent samples y of the target's distribution P at the rejected draft, each with P(y); the edge
    /// resamples from them (DSSD). At least one.
    Samples(Vec<(u32, f32)>),
    /// The target's distribution at the rejected draft; the edge resamples from it (DSSD).
    Distribution(TargetDist),
}

impl Verdict {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.generation);
        put_varint(out, self.round);
        out.push(self.accepted);
        let finish = Finish::bits(self.finish);
        match &self.next {
            Next::Nothing => out.push(finish),
            Next::Token(token) => {
                out.push(1 << 4 | finish);
                put_varint(out, *token);
            }
            Next::Samples(samples) => {
                out.push(2 << 4 | finish);
                put_varint(out, samples.len() as u32);
                for &(id, p) in samples {
                    put_varint(out, id);
                    out.extend(p.to_le_bytes());
                }
            }
            Next::Distribution(target) => {
                out.push(3 << 4 | finish);
                target.encode(out);
            }
        }
    }

    pub(super) fn decode(input: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        let (generation, round) = (take_generation(input)?, input.varint("round")?);
        let accepted = draft_count(input.u8("accepted")?, "accepted")?;
        let flags = input.u8("verdict flags")?;
        let finish = Finish::from_bits(flags & 0x0f)?;
        let next = match flags >> 4 {
            0 => Next::Nothing,
            1 => Next::Token(input.varint("token")?),
            2 => Next::Samples(take_samples(input)?),
            3 => Next::Distribution(TargetDist::decode(input)?),
            _ => return Err(DecodeError::Value { field: "verdict flags", value: flags.into() }),
        };
        // A verdict moves the text on, and the cloud cannot end a text by a token that the edge resamples.
        let allowed = match next {
            Next::Nothing => finish.is_some() || accepted > 0,
            Next::Token(_) => true,
            Next::Samples(_) | Next::Distribution(_) => finish.is_none(),
        };
        if !allowed {
            return Err(DecodeError::Value { field: "verdict flags", value: flags.into() });
        }
        Ok(Self { generation, round, accepted, next, finish })
    }
}

fn take_samples(input: &mut ByteReader<'_>) -> Result<Vec<(u32, f32)>, DecodeError> {
    match input.count("samples")? {
        0 => Err(DecodeError::Value { field: "samples", value: 0 }),
        count => (0..count).map(|_| Ok((input.varint("sample")?, take_probability(input)?))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use crate::frame::{VERDICT, tests::refused};
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn forbidden_values_are_named() {
        assert_eq!(refused(&[VERDICT, 1, 0, 0, 0]), "verdict flags");
        assert_eq!(refused(&[VERDICT, 1, 0, 0, 0x40]), "verdict flags");
        assert_eq!(refused(&[VERDICT, 1, 0, 0, 0x20, 0]), "samples");
        assert_eq!(refused(&[VERDICT, 1, 0, 0, 0x20, 1, 9, 0, 0, 0, 0]), "probability");
        assert_eq!(refused(&[VERDICT, 1, 0, 0, 0x21, 1, 9, 0, 0, 0x80, 0x3f]), "verdict flags");
    }
}
