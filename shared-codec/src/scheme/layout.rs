//! Parts of a scheme: its entry in the table, and the bits of a draft.

use std::{fmt::Debug, sync::Arc};

use crate::{
    adaptive::AdaptiveCode,
    bits::{BitReader, BitWriter},
    distribution::{DraftDist, DraftToken},
    error::{DecodeError, ParameterError},
    probabilities::DraftProbability,
    scheme::parameters::{SchemeOptions, SchemeParameters},
};

/// An entry of the table of schemes, one for each scheme.
#[derive(Debug)]
pub struct SchemeInfo {
    /// The name in options, JSON and the papers.
    pub name: &'static str,
    /// The name that is shown to people.
    pub label: &'static str,
    /// Description of the content of each draft: a sentence that follows a colon.
    pub travels: &'static str,
    /// Citation of the paper that describes it first.
    pub source: &'static str,
    /// The names of the options that it reads, apart from those that all schemes read.
    pub options: &'static [&'static str],
    /// The part of each draft that the cloud reads.
    pub sends: Sends,
    /// The part of a distribution that is kept.
    pub keeps: Keeps,
    /// Number of the scheme on the wire.
    pub(crate) number: u8,
    /// Makes the scheme with those of the options that it reads.
    pub(super) of: fn(SchemeOptions) -> SchemeParameters,
    /// Makes the payload's code for a vocabulary of V.
    pub(super) payload: fn(SchemeOptions, u32) -> Result<Payload, ParameterError>,
}

/// The part of each draft that the cloud reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sends {
    /// The id and its distribution q̂.
    Distributions,
    /// The id and its probability; after a rejection the edge resamples.
    Probabilities,
    /// The id alone; both ends choose with the same noise.
    Ids,
}

/// The tokens that q̂ is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// The whole vocabulary.
    All,
    /// The K most likely tokens.
    MostLikely,
    /// The tokens above a threshold that the edge adapts.
    AboveThreshold,
}

/// A round of drafts, as the cloud sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Drafts {
    /// Drafts with their distributions.
    Distributions(Vec<DraftToken>),
    /// Drafts with their probabilities.
    Probabilities(Vec<DraftProbability>),
    /// The drafted ids alone.
    Ids(Vec<u32>),
}

impl Drafts {
    /// Number of drafts in the round.
    pub fn len(&self) -> usize {
        match self {
            Self::Distributions(tokens) => tokens.len(),
            Self::Probabilities(tokens) => tokens.len(),
            Self::Ids(ids) => ids.len(),
        }
    }

    /// Returns true if the round has no drafts.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Ids of the drafts, in their order.
    pub fn ids(&self) -> Vec<u32> {
        match self {
            Self::Distributions(tokens) => tokens.iter().map(|token| token.id).collect(),
            Self::Probabilities(tokens) => tokens.iter().map(|token| token.id).collect(),
            Self::Ids(ids) => ids.clone(),
        }
    }
}

/// The error for drafts of another scheme.
pub(super) const FOREIGN: ParameterError = ParameterError::DoesNotFit { what: "the drafts are of another scheme" };

/// A draft that is to be encoded.
#[derive(Debug, Clone, Copy)]
pub(super) enum Draft<'a> {
    Token(&'a DraftToken),
    Probability(&'a DraftProbability),
    Id(u32),
}

impl<'a> Draft<'a> {
    pub(super) fn token(self) -> Result<&'a DraftToken, ParameterError> {
        if let Self::Token(token) = self { Ok(token) } else { Err(FOREIGN) }
    }

    pub(super) fn probability(self) -> Result<DraftProbability, ParameterError> {
        match self {
            Self::Token(token) => Ok(token.into()),
            Self::Probability(token) => Ok(*token),
            Self::Id(_) => Err(FOREIGN),
        }
    }

    pub(super) fn id(self) -> Result<u32, ParameterError> {
        if let Self::Id(id) = self { Ok(id) } else { Err(FOREIGN) }
    }
}

/// The bits of a draft, coded independently of all other drafts.
pub(super) trait Layout: Debug + Send + Sync {
    /// Bits of a draft whose K is `support_size`.
    fn token_bits(&self, support_size: u32) -> u32;

    /// Returns true if every draft has the same number of bits, for any K.
    fn is_fixed(&self) -> bool {
        true
    }

    /// Returns true if a support of `k` ids takes too long to code, so that the whole vocabulary has to be kept
    /// instead.
    fn is_widened(&self, _k: u32) -> bool {
        false
    }

    /// The K that a distribution quantized from `k` ids is coded with.
    fn support_size(&self, _k: u32, dist: &DraftDist) -> u32 {
        dist.ids().len() as u32
    }

    /// Appends the bits of a draft.
    fn encode(&self, draft: Draft<'_>, out: &mut BitWriter) -> Result<(), ParameterError>;

    /// Reads `count` drafts that [`encode`](Self::encode) wrote, to the end of the input.
    fn decode(&self, input: &mut BitReader<'_>, count: u8) -> Result<Drafts, DecodeError>;
}

/// Form in which a round becomes bits.
#[derive(Debug, Clone)]
pub(super) enum Payload {
    /// Bits of one draft after another.
    Plain(Arc<dyn Layout>),
    /// One code word for the round, by a code that learns.
    Adaptive(Box<AdaptiveCode>),
}

impl Payload {
    pub(super) fn plain(layout: impl Layout + 'static) -> Self {
        Self::Plain(Arc::new(layout))
    }
}
