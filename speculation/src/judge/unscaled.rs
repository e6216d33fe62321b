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
#[error("{rule} needs the draft distribution, which {scheme} does not send; there, only the exact rule can be used")]
pub struct Incompatible {
    /// The name of the acceptance rule.
    pub rule: &'static str,
    /// The name of the uplink scheme.
    pub scheme: &'static str,
}

/// Checks that the scheme sends what the rule needs.
///
/// # Errors
/// If it does not: all rules but the exact one need q̂.
pub fn check(rule: &Rule, scheme: SchemeParameters) -> Result<(), Incompatible> {
    if rule.is_exact() || scheme.sends() == Sends::Distributions {
        Ok(())
    } else {
        Err(Incompatible { rule: rule.name(), scheme: scheme.name() })
    }
}

/// True if S(·) leaves every distribution unchanged.
pub fn is_neutral(sampling: &SamplingParameters) -> bool {
    *sampling == SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 }
}

/// Encoding of a generation's statistics on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transport {
    need: Need,
    /// The kind of the statistics that are sent; `None` if none are.
    kind: Option<StatisticKind>,
}

impl Transport {
    /// The encoding that both ends derive from the rule, the sampling parameters and the scheme.
    pub fn new(rule: &Rule, sampling: &SamplingParameters, scheme: SchemeParameters) -> Self {
        let need = rule.need();
        let kind = match need {
            Need::Nothing => None,
            Need::Peak | Need::Entropy => Some(StatisticKind::Scalar),
            Need::Support => Some(StatisticKind::Support),
        };
        Self { need, kind: kind.filter(|_| !(is_neutral(sampling) && scheme == SchemeParameters::Dense)) }
    }

    /// True if statistics travel. Where they do not q̂ stands for q, which must then have been made at T = 1.
    pub fn sends(&self) -> bool {
        self.kind.is_some()
    }

    /// Bits that a draft's statistic adds to the payload.
    pub fn bits(&self, dist: &DraftDist) -> usize {
        self.kind.map_or(0, |kind| 8 * kind.length(dist.ids().len()))
    }

    /// Appends the statistic of a draft from q̂ = `dist`; `q` is the distribution that q̂ was made of.
    pub(crate) fn put(&self, out: &mut Vec<u8>, q: &Distribution<'_>, dist: &DraftDist) {
        let Some(kind) = self.kind else { return };
        let bits = |number: &f64| f16::from_f64(*number).to_bits();
        match self.need.of_unscaled(q, dist.ids()) {
            Statistic::Nothing => {}
            Statistic::Scalar(number) => kind.put(out, &[bits(&number)]),
            Statistic::Support(numbers) => kind.put(out, &numbers.iter().map(bits).collect::<Vec<_>>()),
        }
    }

    /// Splits a payload into the statistics before its drafts and the rest.
    ///
    /// # Errors
    /// If the payload is too short, or a number is none that a distribution has.
    pub fn decode<'a>(&self, payload: &'a [u8], count: u8) -> Result<(Vec<Vec<u16>>, &'a [u8]), DecodeError> {
        match self.kind {
            None => Ok((Vec::new(), payload)),
            Some(kind) => kind.take(payload, count),
        }
    }

    /// One statistic for every draft: the one that was `sent`, or the one that follows from q̂.
    ///
    /// # Errors
    /// If there is not one number for every id of q̂ where the rule needs one for each.
    pub fn complete(&self, sent: Vec<Vec<u16>>, drafts: &Drafts) -> Result<Vec<Statistic>, DecodeError> {
        let Drafts::Distributions(tokens) = drafts else { return Ok(Vec::new()) };
        let Some(kind) = self.kind else {
            return Ok(tokens.iter().map(|token| self.need.of_dist(&token.dist)).collect());
        };
        let statistics = tokens.iter().zip(sent).map(|(token, bits)| {
            let mut numbers = bits.iter().map(|&bits| f16::from_bits(bits).to_f64());
            match kind {
                StatisticKind::Scalar => Ok(Statistic::Scalar(numbers.next().unwrap_or(0.0))),
                StatisticKind::Support if bits.len() == token.dist.ids().len() => {
                    Ok(Statistic::Support(numbers.collect()))
                }
                StatisticKind::Support => Err(DecodeError::Value { field: "statistics", value: bits.len() as u64 }),
            }
        });
        statistics.collect()
    }
}
