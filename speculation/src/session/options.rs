//! How to draft, as users say it: flat names and numbers, the same on the command line and in the page.

use core::str::FromStr;

use outrider_codec::scheme::{Code, Downlink, SchemeParameters};
use serde::{Deserialize, Serialize};

use crate::{
    draft::conformal::ThresholdParameters,
    judge::rules::{Rule, RuleError},
    policy::{control::StopRule, passing::Passing},
    session::edge::Speculation,
    study::comparison::ComparisonParameters,
};

/// Everything that can be said of drafting. Schemes ignore what they do not use; what is not said has its default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DraftingOptions {
    /// What is sent of a draft.
    pub scheme: SchemeName,
    /// How distributions on a lattice are coded.
    pub code: CodeName,
    /// K: tokens kept of each draft distribution (k-sqs, tk-slt).
    pub support_size: u32,
    /// ℓ: what the integer counts of a draft distribution add up to (qs, k-sqs, c-sqs).
    pub lattice_resolution: u32,
    /// α: the mean dropped mass that is aimed at (c-sqs).
    pub dropped_mass_target: f64,
    /// η: how far a token moves the threshold (c-sqs).
    pub step_size: f64,
    /// β₁ (c-sqs).
    pub initial_threshold: f64,
    /// What follows a rejection (dssd).
    pub downlink: DownlinkName,
    /// m: samples that follow a rejection (dssd with the sampled downlink).
    pub downlink_samples: u8,
    /// The acceptance rule's name.
    pub rule: String,
    /// Its parameter; `None` for its default.
    pub rule_parameter: Option<f64>,
    /// Which tokens are committed without asking the cloud.
    pub gate: GateName,
    /// τ of SPRINTER, α of the cascades.
    pub gate_threshold: Option<f64>,
    /// γ: drafts per round.
    pub draft_length: u32,
    /// How many rounds may await their verdict at a time.
    pub max_in_flight: u8,
    /// What else ends a round.
    pub stop_rule: StopName,
    /// λ of AdaEDL, h of SpecDec++, α of BiLD's fallback.
    pub stop_threshold: Option<f64>,
    /// Whether the target writes alone where that is faster (AS²).
    pub adaptive_mode: bool,
    /// B: the most payload bits of a round; 0 is no budget.
    pub bit_budget: u32,
}

impl Default for DraftingOptions {
    fn default() -> Self {
        let threshold = ThresholdParameters::default();
        Self {
            scheme: SchemeName::KSqs,
            code: CodeName::Enumerative,
            support_size: 32,
            lattice_resolution: 100,
            dropped_mass_target: threshold.target,
            step_size: threshold.step,
            initial_threshold: threshold.initial,
            downlink: DownlinkName::Sampled,
            downlink_samples: 4,
            rule: Rule::EXACT.name().to_owned(),
            rule_parameter: None,
            gate: GateName::None,
            gate_threshold: None,
            draft_length: 4,
            max_in_flight: 1,
            stop_rule: StopName::Fixed,
            stop_threshold: None,
            adaptive_mode: false,
            bit_budget: 5000,
        }
    }
}

impl DraftingOptions {
    /// The scheme with its parameters.
    pub fn scheme(&self) -> SchemeParameters {
        let (support_size, lattice_resolution) = (self.support_size, self.lattice_resolution);
        let code = match self.code {
            CodeName::Enumerative => Code::Enumerative,
            CodeName::Adaptive => Code::Adaptive,
        };
        match self.scheme {
            SchemeName::Dense => SchemeParameters::Dense,
            SchemeName::Qs => SchemeParameters::Qs { lattice_resolution, code },
            SchemeName::KSqs => SchemeParameters::KSqs { support_size, lattice_resolution, code },
            SchemeName::CSqs => SchemeParameters::CSqs { lattice_resolution, code },
            SchemeName::TkSlt => SchemeParameters::TkSlt { support_size },
            SchemeName::Dssd => SchemeParameters::Dssd {
                downlink: match self.downlink {
                    DownlinkName::Full => Downlink::Full,
                    DownlinkName::Sampled => Downlink::Sampled(self.downlink_samples),
                },
            },
            SchemeName::Coupled => SchemeParameters::Coupled,
        }
    }

    /// The acceptance rule.
    ///
    /// # Errors
    /// If there is none of that name, or its parameter is out of its range.
    pub fn rule(&self) -> Result<Rule, RuleError> {
        let info = Rule::all().iter().find(|info| info.name == self.rule);
        Rule::new(&self.rule, self.rule_parameter.or(info.map(|info| info.default)).unwrap_or(0.0))
    }

    /// How the edge is to draft.
    ///
    /// # Errors
    /// Those of [`rule`](Self::rule).
    pub fn speculation(&self) -> Result<Speculation, RuleError> {
        Ok(Speculation {
            threshold: self.threshold(),
            rule: self.rule()?,
            passing: self.passing(),
            stop: self.stop(),
            adaptive_mode: self.adaptive_mode,
            bit_budget: (self.bit_budget > 0).then_some(self.bit_budget),
            max_in_flight: self.max_in_flight,
            ..Speculation::new(self.scheme(), self.draft_length)
        })
    }

    /// The same, with a comparison to what other schemes would cost.
    ///
    /// # Errors
    /// Those of [`rule`](Self::rule).
    pub fn compared_speculation(&self) -> Result<Speculation, RuleError> {
        let compare = ComparisonParameters {
            support_size: self.support_size,
            lattice_resolution: self.lattice_resolution,
            threshold: self.threshold(),
        };
        Ok(Speculation { compare: Some(compare), ..self.speculation()? })
    }

    fn passing(&self) -> Passing {
        let alpha = self.gate_threshold.unwrap_or(0.5);
        match self.gate {
            GateName::None => Passing::Never,
            GateName::Sprinter => Passing::Sprinter { threshold: self.gate_threshold },
            GateName::TokenCascade => Passing::TokenCascade { alpha },
            GateName::SequenceCascade => Passing::SequenceCascade { alpha },
        }
    }

    fn stop(&self) -> StopRule {
        let threshold = |default| self.stop_threshold.unwrap_or(default);
        match self.stop_rule {
            StopName::Fixed => StopRule::Fixed,
            StopName::Odld => StopRule::Odld,
            StopName::AdaEdl => StopRule::AdaEdl { scale: 0.2, threshold: threshold(0.2) },
            StopName::SpecDec => StopRule::SpecDec { threshold: threshold(0.5) },
            StopName::Bild => StopRule::Bild { fallback: threshold(0.8) },
        }
    }

    fn threshold(&self) -> ThresholdParameters {
        ThresholdParameters { target: self.dropped_mass_target, step: self.step_size, initial: self.initial_threshold }
    }
}

/// Declares an enum whose variants have names for users. What documents a variant explains it to users, too.
macro_rules! names {
    ($(#[$meta:meta])* $type:ident { $($(#[doc = $line:literal])+ $variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $type {
            $($(#[doc = $line])+ #[serde(rename = $name)] $variant,)+
        }

        impl $type {
            /// Every name, in the order of the papers.
            pub const NAMES: &'static [&'static str] = &[$($name),+];
            /// What each name stands for, in a sentence; in the same order.
            pub const EXPLANATIONS: &'static [&'static str] = &[$(concat!($($line),+).trim_ascii_start()),+];
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(name: &str) -> Result<Self, String> {
                match name {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(format!("it must be one of {}", Self::NAMES.join(", "))),
                }
            }
        }
    };
}

names! {
    /// The uplink schemes; see [`outrider_codec::scheme`].
    SchemeName {
        /// The whole distribution in f16.
        Dense = "dense",
        /// The whole distribution on a lattice.
        Qs = "qs",
        /// The K most likely tokens on a lattice.
        KSqs = "k-sqs",
        /// The tokens above a threshold on a lattice.
        CSqs = "c-sqs",
        /// The K most likely tokens in f16.
        TkSlt = "tk-slt",
        /// The drafted token's probability; the edge resamples.
        Dssd = "dssd",
        /// Ids alone; both ends choose with the same noise.
        Coupled = "coupled",
    }
}

names! {
    /// What decides which tokens the edge commits without asking; see [`Passing`]. All but `none` are lossy.
    GateName {
        /// Every token is verified.
        None = "none",
        /// A token passes while a trained head trusts the draft model by τ or more; the first that it does not is verified
        /// (Zhong et al., SPRINTER).
        Sprinter = "sprinter",
        /// A token passes where the draft model is sure, its most likely token having at least 1 − α; elsewhere the target
        /// writes it (Chow's rule).
        TokenCascade = "token-cascade",
        /// The draft model writes the whole text, which stands if the geometric mean of its tokens' probabilities is at
        /// least 1 − α; or else the target writes it anew.
        SequenceCascade = "sequence-cascade",
    }
}

names! {
    /// What ends a round; see [`StopRule`].
    StopName {
        /// A round has γ drafts.
        Fixed = "fixed",
        /// A round has γ* drafts, the best length for the acceptance and the times as they are measured (Zheng & Yang,
        /// TK-SLT).
        Odld = "odld",
        /// A round ends with a draft whose acceptance is bounded by less than λ, by the draft model's entropy (Agrawal et
        /// al. 2024, AdaEDL).
        AdaEdl = "adaedl",
        /// A round ends when, as a trained head says, some draft falls with a probability above h (Huang et al. 2024,
        /// SpecDec++).
        SpecDec = "specdec",
        /// A round ends before a token of which the draft model is unsure, its most likely token having less than 1 − α; the
        /// target writes it (Kim et al. 2023, BiLD).
        Bild = "bild",
    }
}

names! {
    /// The codes of distributions on a lattice.
    CodeName {
        /// The papers' ranks.
        Enumerative = "enumerative",
        /// An arithmetic code that learns.
        Adaptive = "adaptive",
    }
}

names! {
    /// What the cloud sends after a rejection under DSSD.
    DownlinkName {
        /// The target's distribution.
        Full = "full",
        /// Samples of it.
        Sampled = "sampled",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_schemes_and_have_a_sentence() {
        for &name in SchemeName::NAMES {
            let options = DraftingOptions { scheme: name.parse().unwrap(), ..Default::default() };
            assert_eq!(options.scheme().name(), name);
        }
        for (names, explanations) in
            [(GateName::NAMES, GateName::EXPLANATIONS), (StopName::NAMES, StopName::EXPLANATIONS)]
        {
            assert_eq!(names.len(), explanations.len());
            for sentence in explanations {
                let runs_on = sentence.contains("  ") || sentence.starts_with(' ');
                assert!(sentence.ends_with('.') && !runs_on, "{sentence:?}");
            }
        }
        assert!("sqs".parse::<SchemeName>().unwrap_err().contains("k-sqs, c-sqs"));
    }
}
