//! Choice of an exact way to judge a round; [`crate::target::gateway`] has the table.

use outrider_codec::{
    distribution::DraftToken,
    frame::SamplingParameters,
    scheme::{Drafts, Sends},
};
use outrider_speculation::judge::{Round, Rule};

use super::error::GatewayError;

/// Sampling that changes no distribution.
const NEUTRAL: SamplingParameters = SamplingParameters { temperature: 1.0, top_k: 0, top_p: 1.0 };

/// Way to judge a round.
#[derive(Debug, PartialEq)]
pub(super) enum Plan<'a> {
    /// By S(p) itself: all that S(·) keeps is among this number of most likely tokens.
    Listed(u32),
    /// By p of the drafts, and samples of p.
    Thinned(&'a [DraftToken]),
    /// By samples of S(p) at each position.
    Matched,
    /// By the text that the engine streams.
    Streamed,
}

impl<'a> Plan<'a> {
    /// Chooses the way for a round, if the engine lists the `listed` most likely tokens of each position. If it
    /// `streams`, rounds that need ids only are judged by its text.
    pub(super) fn of(round: &'a Round, listed: u32, streams: bool) -> Result<Self, GatewayError> {
        if round.rule != Rule::EXACT {
            return Err(GatewayError::Rule { rule: round.rule.info().name });
        }
        let needs_ids = round.scheme.is_none_or(|scheme| scheme.sends() == Sends::Ids);
        if streams && needs_ids && !round.evidence {
            return Ok(Self::Streamed);
        }
        if round.scheme.is_none() {
            return Ok(Self::Matched);
        }
        if let Some(count) = kept(&round.sampling).filter(|&count| count <= listed) {
            return Ok(Self::Listed(count));
        }
        if round.evidence {
            return Err(GatewayError::Evidence { listed });
        }
        match &round.drafts {
            Drafts::Distributions(drafts) if listed > 0 && round.sampling == NEUTRAL => Ok(Self::Thinned(drafts)),
            _ => Ok(Self::Matched),
        }
    }
}

/// Limit on the tokens that S(·) keeps, whatever p is, if they are the most likely ones of p.
fn kept(sampling: &SamplingParameters) -> Option<u32> {
    if sampling.temperature == 0.0 { Some(1) } else { Some(sampling.top_k).filter(|&count| count > 0) }
}

#[cfg(test)]
mod tests {
    use outrider_codec::{distribution::DraftDist, scheme::SchemeParameters};

    use super::*;

    fn round(temperature: f32, top_k: u32, top_p: f32) -> Round {
        let dist = DraftDist::new(vec![0, 1], vec![3, 1]).unwrap();
        Round {
            scheme: Some(SchemeParameters::Dense),
            drafts: Drafts::Distributions(vec![DraftToken { id: 0, dist, support_size: 2 }]),
            ..Round::alone(SamplingParameters { temperature, top_k, top_p }, 1, 3)
        }
    }

    #[test]
    fn every_sampling_has_its_way() {
        for (sampling, plan) in [
            (round(0.0, 0, 0.5), Plan::Listed(1)),
            (round(0.7, 20, 0.95), Plan::Listed(20)),
            (round(0.7, 21, 0.95), Plan::Matched),
            (round(0.7, 0, 1.0), Plan::Matched),
            (round(1.0, 0, 0.9), Plan::Matched),
        ] {
            assert_eq!(Plan::of(&sampling, 20, false), Ok(plan), "{sampling:?}");
        }
        let neutral = round(1.0, 0, 1.0);
        assert!(matches!(Plan::of(&neutral, 20, true), Ok(Plan::Thinned([_]))));
        assert_eq!(Plan::of(&neutral, 0, true), Ok(Plan::Matched));
        assert_eq!(Plan::of(&round(0.0, 0, 1.0), 0, false), Ok(Plan::Matched));
        let coupled = Round { scheme: Some(SchemeParameters::Coupled), drafts: Drafts::Ids(vec![1]), ..neutral };
        assert_eq!(Plan::of(&coupled, 20, false), Ok(Plan::Matched));
        assert_eq!(Plan::of(&coupled, 20, true), Ok(Plan::Streamed));
        let alone = Round::alone(coupled.sampling, 1, 3);
        assert_eq!((Plan::of(&alone, 20, true), Plan::of(&alone, 20, false)), (Ok(Plan::Streamed), Ok(Plan::Matched)));
    }

    #[test]
    fn what_cannot_be_exact_is_refused() {
        let lossy = Round { rule: Rule::new("lossy", 0.3).unwrap(), ..round(0.0, 0, 1.0) };
        assert_eq!(Plan::of(&lossy, 20, true), Err(GatewayError::Rule { rule: "lossy" }));
        let explain = |temperature| Round { evidence: true, ..round(temperature, 0, 1.0) };
        assert_eq!(Plan::of(&explain(1.0), 20, false), Err(GatewayError::Evidence { listed: 20 }));
        assert_eq!(Plan::of(&explain(0.0), 20, false), Ok(Plan::Listed(1)));
        // A streamed text has no probabilities.
        let explain = |temperature| Round {
            scheme: Some(SchemeParameters::Coupled),
            drafts: Drafts::Ids(vec![1]),
            ..explain(temperature)
        };
        assert_eq!(Plan::of(&explain(1.0), 20, true), Err(GatewayError::Evidence { listed: 20 }));
        assert_eq!(Plan::of(&explain(0.0), 20, true), Ok(Plan::Listed(1)));
    }
}
