//! The statistics of the draft model's own distribution that rules decide by, on their way to the cloud.
//!
//! Rules of cascades compare q and p as the models have them: before temperature, top-k and top-p (Narasimhan et al.,
//! Appendix C). Where S(·) leaves a distribution as it is and the scheme sends all of it, q̂ stands for q and nothing
//! has to be sent. Otherwise, and under every scheme that cuts or rounds, what a rule needs travels as f16 before the
//! drafts.

use half::f16;
use outrider_codec::{
    distribution::DraftDist,
    error::DecodeError,
    frame::SamplingParameters,
    rule::StatisticKind,
    scheme::{Drafts, SchemeParameters, Sends},
};

use crate::{
    judge::rules::{Need, Rule, Statistic},
    sample::Distribution,
};

/// Error of a rule that cannot be used with a scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Incompatible {
    /// The rule needs q̂, and the scheme sends tokens or single probabilities.
    #[error(
        "{rule} needs the draft distribution, which {scheme} does not send; there, only the exact rule can be used"
    )]
    NoDistribution {
        /// The name of the acceptance rule.
        rule: &'static str,
        /// The name of the uplink scheme.
        scheme: &'static str,
    },
    /// The rule needs all of the draft model's distribution, and the scheme sends a part of it.
    #[error(
        "{rule} needs the draft model's distribution over the whole vocabulary, which {scheme} does not send; use the \
         scheme dense, or temperature 0"
    )]
    PartOfDistribution {
        /// The name of the acceptance rule.
        rule: &'static str,
        /// The name of the uplink scheme.
        scheme: &'static str,
    },
}

/// Checks that the scheme sends what the rule needs.
///
/// # Errors
/// If it does not: all rules but the exact one need q̂, and at T > 0 bild and bild-star need all of q.
pub(crate) fn check(rule: &Rule, scheme: SchemeParameters, sampling: &SamplingParameters) -> Result<(), Incompatible> {
    let names = (rule.info().name, scheme.name());
    if need(rule, sampling) == Need::Whole && scheme != SchemeParameters::Dense {
        let (rule, scheme) = names;
        Err(Incompatible::PartOfDistribution { rule, scheme })
    } else if *rule == Rule::EXACT || scheme.sends() == Sends::Distributions {
        Ok(())
    } else {
        let (rule, scheme) = names;
        Err(Incompatible::NoDistribution { rule, scheme })
    }
}

/// The part of q that the rule needs under S(·). At T = 0 that of q̂'s support shows which token is the likeliest.
fn need(rule: &Rule, sampling: &SamplingParameters) -> Need {
    match rule.info().need {
        Need::Whole if sampling.temperature == 0.0 => Need::Support,
        need => need,
    }
}

/// True if S(·) leaves every distribution unchanged.
pub(crate) fn is_neutral(sampling: &SamplingParameters) -> bool {
    *sampling == SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 }
}

/// Encoding of a generation's statistics on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transport {
    need: Need,
    /// V, the size of the vocabulary.
    vocab_size: u32,
    /// The kind of the statistics that are sent; `None` if none are.
    kind: Option<StatisticKind>,
}

impl Transport {
    /// The encoding that both ends derive from the rule, the sampling parameters, the scheme and V.
    pub(crate) fn new(rule: &Rule, sampling: &SamplingParameters, scheme: SchemeParameters, vocab_size: u32) -> Self {
        let need = need(rule, sampling);
        let kind = match need {
            Need::Nothing => None,
            Need::Peak | Need::Entropy => Some(StatisticKind::Scalar),
            Need::Support | Need::Whole => Some(StatisticKind::Support),
        };
        let kind = kind.filter(|_| !(is_neutral(sampling) && scheme == SchemeParameters::Dense));
        Self { need, vocab_size, kind }
    }

    /// True if statistics travel. Where they do not q̂ stands for q, which must then have been made at T = 1.
    pub(crate) fn sends(&self) -> bool {
        self.kind.is_some()
    }

    /// Bits that a draft's statistic adds to the payload.
    pub(crate) fn bits(&self, dist: &DraftDist) -> usize {
        self.kind.map_or(0, |kind| 8 * kind.length(self.numbers(dist)))
    }

    /// Number of probabilities of a draft from q̂ = `dist`.
    fn numbers(&self, dist: &DraftDist) -> usize {
        if self.need == Need::Whole { self.vocab_size as usize } else { dist.ids().len() }
    }

    /// Appends the statistic of a draft from q̂ = `dist`; `q` is the distribution that q̂ was made of.
    pub(crate) fn put(&self, out: &mut Vec<u8>, q: &Distribution<'_>, dist: &DraftDist) {
        let Some(kind) = self.kind else { return };
        let bits = |number: &f64| f16::from_f64(*number).to_bits();
        match self.need.of_unscaled(q, dist.ids()) {
            Statistic::Nothing => {}
            Statistic::Scalar(number) => kind.put(out, &[bits(&number)]),
            Statistic::Support(numbers) | Statistic::Whole(numbers) => {
                kind.put(out, &numbers.iter().map(bits).collect::<Vec<_>>());
            }
        }
    }

    /// Splits a payload into the statistics before its drafts and the rest.
    ///
    /// # Errors
    /// If the payload is too short, or a number is none that a distribution has.
    pub(crate) fn decode<'a>(&self, payload: &'a [u8], count: u8) -> Result<(Vec<Vec<u16>>, &'a [u8]), DecodeError> {
        match self.kind {
            None => Ok((Vec::new(), payload)),
            Some(kind) => kind.take(payload, count),
        }
    }

    /// One statistic for every draft: the one that was `sent`, or the one that follows from q̂.
    ///
    /// # Errors
    /// If there is not one number for every id of q̂, or of the vocabulary, where the rule needs one for each.
    pub(crate) fn complete(&self, sent: Vec<Vec<u16>>, drafts: &Drafts) -> Result<Vec<Statistic>, DecodeError> {
        let Drafts::Distributions(tokens) = drafts else { return Ok(Vec::new()) };
        let Some(kind) = self.kind else {
            return Ok(tokens.iter().map(|token| self.need.of_dist(&token.dist)).collect());
        };
        let statistics = tokens.iter().zip(sent).map(|(token, bits)| {
            let mut numbers = bits.iter().map(|&bits| f16::from_bits(bits).to_f64());
            match kind {
                StatisticKind::Scalar => Ok(Statistic::Scalar(numbers.next().unwrap_or(0.0))),
                StatisticKind::Support if bits.len() == self.numbers(&token.dist) => match self.need {
                    Need::Whole => Ok(Statistic::Whole(numbers.collect())),
                    _ => Ok(Statistic::Support(numbers.collect())),
                },
                StatisticKind::Support => Err(DecodeError::Value { field: "statistics", value: bits.len() as u64 }),
            }
        });
        statistics.collect()
    }
}
