//! The frames that start a generation.

use super::fields::{put_ids, take_float, take_generation, take_ids, take_positive, take_window};
use crate::{
    error::DecodeError,
    rule::RuleParameters,
    scheme::SchemeParameters,
    wire::{ByteReader, put_varint},
};

/// Flags in the byte of a rule: the edge asks for evidence, or for block verification.
const WANTS_EVIDENCE: u8 = 0x80;
const WANTS_BLOCKS: u8 = 0x40;

/// The part that both kinds of generation need.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Number of the generation within this connection: 1, 2, ….
    pub generation: u32,
    /// The sampling transform S(·), applied by both ends.
    pub sampling: SamplingParameters,
    /// The seed of the cloud's choices.
    pub seed: u64,
    /// The most tokens to commit, at least 1.
    pub max_new_tokens: u32,
    /// The prompt's token ids, at least one.
    pub tokens: Vec<u32>,
}

/// Parameters of the sampling transform S(·).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SamplingParameters {
    /// Temperature T, finite and not negative; 0 is greedy.
    pub temperature: f32,
    /// Number of most likely tokens that are kept; 0 keeps all.
    pub top_k: u32,
    /// Probability mass that the fewest most likely tokens must reach; in (0, 1].
    pub top_p: f32,
}

/// A generation that the edge drafts for.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// Prompt, sampling and length of the generation.
    pub request: Request,
    /// The scheme that codes the drafts.
    pub scheme: SchemeParameters,
    /// The rule that judges them.
    pub rule: RuleParameters,
    /// True if the cloud is to send [`Evidence`](super::Evidence).
    pub evidence: bool,
    /// True if the cloud is to verify each round as a block, where scheme and rule allow it.
    pub blocks: bool,
    /// The most rounds that await their verdict at a time, at least 1 and no more than the
    /// [`Welcome`](super::Welcome) allows.
    pub max_in_flight: u8,
}

impl Prompt {
    /// A generation under the exact rule, verified token by token, without evidence, one round at a time.
    pub fn exact(scheme: SchemeParameters, request: Request) -> Self {
        Self { request, scheme, rule: RuleParameters::EXACT, evidence: false, blocks: false, max_in_flight: 1 }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.scheme.put(out);
        let RuleParameters { number, parameter } = self.rule;
        let evidence = if self.evidence { WANTS_EVIDENCE } else { 0 };
        out.push(number | evidence | if self.blocks { WANTS_BLOCKS } else { 0 });
        if number != RuleParameters::EXACT.number {
            out.extend(parameter.to_le_bytes());
        }
        out.push(self.max_in_flight);
        self.request.encode(out);
    }

    pub(super) fn decode(input: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        let scheme = SchemeParameters::take(input)?;
        let byte = input.u8("rule")?;
        let number = byte & !(WANTS_EVIDENCE | WANTS_BLOCKS);
        let (evidence, blocks) = (byte & WANTS_EVIDENCE != 0, byte & WANTS_BLOCKS != 0);
        let is_allowed = |value: f32| value.is_finite() && value.to_bits() != (-0f32).to_bits();
        let rule = if number == RuleParameters::EXACT.number {
            RuleParameters::EXACT
        } else {
            RuleParameters { number, parameter: take_float(input, "rule's parameter", is_allowed)? }
        };
        let max_in_flight = take_window(input)?;
        Ok(Self { scheme, rule, evidence, blocks, max_in_flight, request: Request::decode(input)? })
    }
}

impl Request {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.generation);
        out.extend(self.sampling.temperature.to_le_bytes());
        put_varint(out, self.sampling.top_k);
        out.extend(self.sampling.top_p.to_le_bytes());
        out.extend(self.seed.to_le_bytes());
        put_varint(out, self.max_new_tokens);
        put_ids(out, &self.tokens);
    }

    pub(super) fn decode(input: &mut ByteReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            generation: take_generation(input)?,
            sampling: SamplingParameters {
                temperature: take_float(input, "temperature", |t| t.is_finite() && t.is_sign_positive())?,
                top_k: input.varint("top-k")?,
                top_p: take_float(input, "top-p", |p| p > 0.0 && p <= 1.0)?,
            },
            seed: input.u64("seed")?,
            max_new_tokens: take_positive(input, "maximum new tokens")?,
            tokens: match take_ids(input, "prompt tokens")? {
                empty if empty.is_empty() => return Err(DecodeError::Value { field: "prompt tokens", value: 0 }),
                tokens => tokens,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{
        Frame, PROMPT,
        tests::{refused, request},
    };
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    /// The number of the dense scheme, and the bit of the adaptive code.
    const DENSE: u8 = 4;
    const ADAPTIVE: u8 = 0x80;

    #[test]
    fn forbidden_values_are_named() {
        assert_eq!(refused(&[PROMPT, 9]), "scheme");
        assert_eq!(refused(&[PROMPT, DENSE | ADAPTIVE]), "scheme");
        assert_eq!(refused(&[PROMPT, DENSE, 0, 0]), "rounds in flight");
        assert_eq!(refused(&[PROMPT, DENSE, 1, 0, 0, 0x80, 0x7f]), "rule's parameter");
        assert_eq!(refused(&[PROMPT, DENSE, 1, 0, 0, 0, 0x80]), "rule's parameter");
        assert_eq!(refused(&[PROMPT, DENSE, 1, 0, 0, 0x80, 0xff]), "rule's parameter");
        for (change, name) in [
            ((|r: &mut Request| r.sampling.temperature = f32::NAN) as fn(&mut Request), "temperature"),
            (|r| r.sampling.temperature = -1.0, "temperature"),
            (|r| r.sampling.top_p = 0.0, "top-p"),
            (|r| r.sampling.top_p = 1.5, "top-p"),
            (|r| r.max_new_tokens = 0, "maximum new tokens"),
            (|r| r.tokens.clear(), "prompt tokens"),
            (|r| r.generation = 0, "generation"),
        ] {
            let mut bad = request();
            change(&mut bad);
            assert_eq!(refused(&Frame::Generate(bad).encode()), name);
        }
    }
}
