//! The uplink schemes: what a round of drafts tells the cloud, and in which bits.
//!
//! | scheme | what travels per drafted token | payload | source |
//! |---|---|---|---|
//! | `dense` | the whole distribution in f16 | [`DensePayload`] | DSD, the baseline of TK-SLT and DSSD |
//! | `qs` | the whole distribution on a lattice | [`LatticePayload`], K = V | Bhattacharjee et al., §2 |
//! | `k-sqs` | the K most likely tokens on a lattice | [`LatticePayload`], K fixed | the same, §2 |
//! | `c-sqs` | the tokens above a threshold on a lattice | [`LatticePayload`], K varies | the same, §3 |
//! | `tk-slt` | the K most likely tokens in f16 | [`TopKPayload`] | Zheng et al. |
//! | `dssd` | the drafted token's probability in f16 | [`ProbabilityPayload`] | Ning et al. |
//! | `coupled` | the drafted id | [`IdPayload`] | Daliri, Musco, Suresh 2024 |
//!
//! The three on a lattice can be coded in the papers' bits or by the [adaptive code](crate::adaptive), which learns.

use crate::{
    adaptive::{self, AdaptiveCode},
    bits::{BitReader, BitWriter},
    distribution::{DraftDist, DraftToken},
    error::{DecodeError, ParameterError},
    frame::MAX_FRAME_BYTES,
    lattice::{LatticePayload, SupportSize},
    probabilities::{DensePayload, DraftProbability, IdPayload, ProbabilityPayload, TopKPayload},
};

/// The most bits a round's payload may have, so that its frame fits.
pub const MAX_PAYLOAD_BITS: usize = (MAX_FRAME_BYTES - 64) * 8;

/// An uplink scheme and those of its parameters that the cloud must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemeParameters {
    /// The whole distribution in f16.
    Dense,
    /// The whole distribution on a lattice.
    Qs {
        /// ℓ.
        lattice_resolution: u32,
        /// Its code.
        code: Code,
    },
    /// The K most likely tokens on a lattice.
    KSqs {
        /// K.
        support_size: u32,
        /// ℓ.
        lattice_resolution: u32,
        /// Its code.
        code: Code,
    },
    /// The tokens above a threshold, which concerns the edge alone, on a lattice.
    CSqs {
        /// ℓ.
        lattice_resolution: u32,
        /// Its code.
        code: Code,
    },
    /// The K most likely tokens in f16.
    TkSlt {
        /// K.
        support_size: u32,
    },
    /// The drafted token's probability.
    Dssd {
        /// What follows a rejection.
        downlink: Downlink,
    },
    /// Ids alone; both ends choose with the same noise.
    Coupled,
}

/// How distributions on a lattice are coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Code {
    /// The papers' code: ranks, in ⌈log2 of their number⌉ bits.
    #[default]
    Enumerative,
    /// An arithmetic code whose model learns from the committed text.
    Adaptive,
}

/// What the cloud sends after a rejection under DSSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Downlink {
    /// The target's distribution.
    Full,
    /// So many samples of it with their probabilities; the distribution only if it is asked for.
    Sampled(u8),
}

impl SchemeParameters {
    /// The scheme's name in options, JSON and the papers.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Qs { .. } => "qs",
            Self::KSqs { .. } => "k-sqs",
            Self::CSqs { .. } => "c-sqs",
            Self::TkSlt { .. } => "tk-slt",
            Self::Dssd { .. } => "dssd",
            Self::Coupled => "coupled",
        }
    }

    /// What the cloud reads of each draft.
    pub fn sends(&self) -> Sends {
        match self {
            Self::Dense | Self::Qs { .. } | Self::KSqs { .. } | Self::CSqs { .. } | Self::TkSlt { .. } => {
                Sends::Distributions
            }
            Self::Dssd { .. } => Sends::Probabilities,
            Self::Coupled => Sends::Ids,
        }
    }

    /// Whether what is kept of a distribution hangs on a threshold that the edge adapts.
    pub fn has_threshold(&self) -> bool {
        matches!(self, Self::CSqs { .. })
    }

    /// ℓ, where distributions are quantized to a lattice.
    pub fn lattice_resolution(&self) -> Option<u32> {
        match *self {
            Self::Qs { lattice_resolution, .. }
            | Self::KSqs { lattice_resolution, .. }
            | Self::CSqs { lattice_resolution, .. } => Some(lattice_resolution),
            Self::Dense | Self::TkSlt { .. } | Self::Dssd { .. } | Self::Coupled => None,
        }
    }

    /// The number of samples that follow a rejection, where the edge resamples from samples.
    pub fn samples(&self) -> Option<u8> {
        match *self {
            Self::Dssd { downlink: Downlink::Sampled(count) } => Some(count),
            _ => None,
        }
    }
}

/// What the cloud reads of each draft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sends {
    /// The id and its distribution q̂.
    Distributions,
    /// The id and its probability; after a rejection the edge resamples.
    Probabilities,
    /// The id alone; both ends choose with the same noise.
    Ids,
}

/// A round of drafts, as the cloud sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drafts {
    /// With their distributions.
    Distributions(Vec<DraftToken>),
    /// With their probabilities.
    Probabilities(Vec<DraftProbability>),
    /// Ids alone.
    Ids(Vec<u32>),
}

impl Drafts {
    /// Number of drafts.
    pub fn len(&self) -> usize {
        match self {
            Self::Distributions(tokens) => tokens.len(),
            Self::Probabilities(tokens) => tokens.len(),
            Self::Ids(ids) => ids.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The drafted ids.
    pub fn ids(&self) -> Vec<u32> {
        match self {
            Self::Distributions(tokens) => tokens.iter().map(|token| token.id).collect(),
            Self::Probabilities(tokens) => tokens.iter().map(|token| token.id).collect(),
            Self::Ids(ids) => ids.clone(),
        }
    }
}

/// A scheme for one vocabulary, with the state that its code has learned. Both ends have one; given the same prompt,
/// payloads and verdicts, theirs are equal.
#[derive(Debug, Clone)]
pub struct Scheme(Payload);

#[derive(Debug, Clone)]
enum Payload {
    Dense(DensePayload),
    Lattice(LatticePayload),
    Adaptive(Box<AdaptiveCode>),
    TopK(TopKPayload),
    Probability(ProbabilityPayload),
    Id(IdPayload),
}

impl Payload {
    fn lattice(
        vocab_size: u32,
        support_size: SupportSize,
        lattice_resolution: u32,
        code: Code,
    ) -> Result<Self, ParameterError> {
        let largest = match support_size {
            SupportSize::Fixed(k) => k,
            SupportSize::Varying => vocab_size,
        };
        Ok(match code {
            Code::Enumerative => Self::Lattice(LatticePayload::new(vocab_size, support_size, lattice_resolution)?),
            Code::Adaptive => Self::Adaptive(Box::new(AdaptiveCode::new(vocab_size, largest, lattice_resolution)?)),
        })
    }
}

impl Scheme {
    /// The scheme for a vocabulary of V, at the start of a generation.
    ///
    /// # Errors
    /// If a parameter is out of its range, or a single token would not fit into a frame.
    pub fn new(parameters: SchemeParameters, vocab_size: u32) -> Result<Self, ParameterError> {
        let lattice = |support_size, lattice_resolution, code| {
            Payload::lattice(vocab_size, support_size, lattice_resolution, code)
        };
        let payload = match parameters {
            SchemeParameters::Dense => Payload::Dense(DensePayload::new(vocab_size)?),
            SchemeParameters::Qs { lattice_resolution, code } => {
                lattice(SupportSize::Fixed(vocab_size), lattice_resolution, code)?
            }
            SchemeParameters::KSqs { support_size, lattice_resolution, code } => {
                lattice(SupportSize::Fixed(support_size), lattice_resolution, code)?
            }
            SchemeParameters::CSqs { lattice_resolution, code } => {
                lattice(SupportSize::Varying, lattice_resolution, code)?
            }
            SchemeParameters::TkSlt { support_size } => Payload::TopK(TopKPayload::new(vocab_size, support_size)?),
            SchemeParameters::Dssd { downlink: Downlink::Sampled(0) } => return Err(ParameterError::NoSamples),
            SchemeParameters::Dssd { .. } => Payload::Probability(ProbabilityPayload::new(vocab_size)?),
            SchemeParameters::Coupled => Payload::Id(IdPayload::new(vocab_size)?),
        };
        let scheme = Self(payload);
        match scheme.fixed_token_bits() {
            Some(bits) if bits as usize > MAX_PAYLOAD_BITS => {
                Err(ParameterError::TokenTooLong { bits, limit: MAX_PAYLOAD_BITS })
            }
            _ => Ok(scheme),
        }
    }

    /// Tells the code the prompt, which both ends know.
    pub fn prime(&mut self, prompt: &[u32]) {
        if let Payload::Adaptive(code) = &mut self.0 {
            code.prime(prompt);
        }
    }

    /// Tells the code what a verdict committed: the first `accepted` of a round's drafts and the token after them.
    /// Rejected drafts leave no trace.
    pub fn commit(&mut self, drafts: &Drafts, accepted: usize, token: Option<u32>) {
        if let (Payload::Adaptive(code), Drafts::Distributions(tokens)) = (&mut self.0, drafts) {
            code.commit(&tokens[..accepted], token);
        }
    }

    /// Bits of a drafted token where all have the same.
    pub fn fixed_token_bits(&self) -> Option<u32> {
        Some(match &self.0 {
            Payload::Dense(payload) => payload.token_bits(),
            Payload::Lattice(payload) => payload.token_bits(payload.support_size()?),
            Payload::Adaptive(_) => return None,
            Payload::TopK(payload) => payload.token_bits(),
            Payload::Probability(payload) => payload.token_bits(),
            Payload::Id(payload) => payload.token_bits(),
        })
    }

    /// Whether a support of `k` ids takes too long to code, so that the whole vocabulary has to be kept instead.
    pub fn is_widened(&self, k: u32) -> bool {
        match &self.0 {
            Payload::Lattice(payload) => payload.support_size().is_none() && payload.codable_support_size(k) != k,
            _ => false,
        }
    }

    /// The K that a distribution quantized from `k` ids is coded with.
    pub fn support_size(&self, k: u32, dist: &DraftDist) -> u32 {
        match &self.0 {
            Payload::Dense(payload) => payload.vocab_size(),
            Payload::Lattice(payload) => payload.support_size().unwrap_or_else(|| payload.codable_support_size(k)),
            Payload::TopK(payload) => payload.support_size(),
            Payload::Adaptive(_) | Payload::Probability(_) | Payload::Id(_) => dist.ids().len() as u32,
        }
    }

    /// An empty round.
    pub fn round(&self) -> RoundEncoder {
        RoundEncoder(match &self.0 {
            Payload::Adaptive(code) => Bits::Adaptive(Box::new(code.round())),
            _ => Bits::Plain(BitWriter::new()),
        })
    }

    /// The payload of a round.
    ///
    /// # Errors
    /// If the drafts are not of this scheme or do not fit its parameters.
    pub fn encode_round(&self, drafts: &Drafts) -> Result<Vec<u8>, ParameterError> {
        let mut round = self.round();
        match drafts {
            Drafts::Distributions(tokens) => tokens.iter().try_for_each(|token| round.push(self, token))?,
            Drafts::Probabilities(tokens) => {
                tokens.iter().try_for_each(|token| round.push_probability(self, token))?;
            }
            Drafts::Ids(ids) => ids.iter().try_for_each(|&id| round.push_id(self, id))?,
        }
        Ok(round.finish().0)
    }

    /// Reads what [`encode_round`](Self::encode_round) wrote for `count` drafts.
    ///
    /// # Errors
    /// If the payload is not one of this scheme.
    pub fn decode_round(&self, payload: &[u8], count: u8) -> Result<Drafts, DecodeError> {
        let mut input = BitReader::new(payload);
        let tokens = 0..count;
        let drafts = match &self.0 {
            Payload::Adaptive(code) => return Ok(Drafts::Distributions(code.decode_round(payload, count)?)),
            Payload::Dense(scheme) => {
                Drafts::Distributions(tokens.map(|_| scheme.decode(&mut input)).collect::<Result<_, _>>()?)
            }
            Payload::Lattice(scheme) => {
                Drafts::Distributions(tokens.map(|_| scheme.decode(&mut input)).collect::<Result<_, _>>()?)
            }
            Payload::TopK(scheme) => {
                Drafts::Distributions(tokens.map(|_| scheme.decode(&mut input)).collect::<Result<_, _>>()?)
            }
            Payload::Probability(scheme) => {
                Drafts::Probabilities(tokens.map(|_| scheme.decode(&mut input)).collect::<Result<_, _>>()?)
            }
            Payload::Id(scheme) => Drafts::Ids(tokens.map(|_| scheme.decode(&mut input)).collect::<Result<_, _>>()?),
        };
        input.finish()?;
        Ok(drafts)
    }
}

/// A round that is being written. Every call takes the [`Scheme`] that began it.
#[derive(Debug, Clone)]
pub struct RoundEncoder(Bits);

#[derive(Debug, Clone)]
enum Bits {
    Plain(BitWriter),
    Adaptive(Box<adaptive::RoundEncoder>),
}

/// Drafts of another scheme.
const FOREIGN: ParameterError = ParameterError::DoesNotFit { what: "the drafts are of another scheme" };

impl RoundEncoder {
    /// Bits so far.
    pub fn bits(&self) -> usize {
        match &self.0 {
            Bits::Plain(bits) => bits.len(),
            Bits::Adaptive(round) => round.bits(),
        }
    }

    /// The most bits the round will have with a token more that is drawn from `dist`, whichever it will be. Known
    /// before the draw, so that a budget can end the round without a say in what is drawn.
    ///
    /// # Errors
    /// If the distribution does not fit the scheme.
    pub fn bound(&self, scheme: &Scheme, dist: &DraftDist, support_size: u32) -> Result<usize, ParameterError> {
        match (&self.0, &scheme.0) {
            (Bits::Adaptive(round), Payload::Adaptive(code)) => round.bound(code, dist),
            (Bits::Plain(bits), Payload::Lattice(payload)) => {
                Ok(bits.len() + payload.token_bits(support_size) as usize)
            }
            (Bits::Plain(bits), _) => Ok(bits.len() + scheme.fixed_token_bits().unwrap_or(0) as usize),
            (Bits::Adaptive(_), _) => Err(FOREIGN),
        }
    }

    /// Appends a token: with its distribution, or with its probability where the scheme sends no more (DSSD).
    ///
    /// # Errors
    /// If the token does not fit the scheme.
    pub fn push(&mut self, scheme: &Scheme, token: &DraftToken) -> Result<(), ParameterError> {
        match (&mut self.0, &scheme.0) {
            (Bits::Plain(out), Payload::Dense(payload)) => payload.encode(token, out),
            (Bits::Plain(out), Payload::Lattice(payload)) => payload.encode(token, out),
            (Bits::Plain(out), Payload::TopK(payload)) => payload.encode(token, out),
            (Bits::Plain(out), Payload::Probability(payload)) => payload.encode(&token.into(), out),
            (Bits::Adaptive(round), Payload::Adaptive(code)) => round.push(code, token),
            _ => Err(FOREIGN),
        }
    }

    /// Appends a token with its probability (DSSD).
    ///
    /// # Errors
    /// If the scheme is another, or the token does not fit it.
    pub fn push_probability(&mut self, scheme: &Scheme, token: &DraftProbability) -> Result<(), ParameterError> {
        match (&mut self.0, &scheme.0) {
            (Bits::Plain(out), Payload::Probability(payload)) => payload.encode(token, out),
            _ => Err(FOREIGN),
        }
    }

    /// Appends an id (coupled drafting).
    ///
    /// # Errors
    /// If the scheme is another, or the id is outside the vocabulary.
    pub fn push_id(&mut self, scheme: &Scheme, id: u32) -> Result<(), ParameterError> {
        match (&mut self.0, &scheme.0) {
            (Bits::Plain(out), Payload::Id(payload)) => payload.encode(id, out),
            _ => Err(FOREIGN),
        }
    }

    /// The payload and the bits it needed, without the filling of the last byte. The adaptive code has no bits of
    /// its own below the byte.
    pub fn finish(self) -> (Vec<u8>, usize) {
        match self.0 {
            Bits::Plain(out) => {
                let bits = out.len();
                (out.into_bytes(), bits)
            }
            Bits::Adaptive(round) => {
                let bytes = round.finish();
                let bits = bytes.len() * 8;
                (bytes, bits)
            }
        }
    }
}

#[cfg(test)]
mod tests;
