//! How to draft, as users say it: flat names and numbers, the same on the command line and in the page.

use core::str::FromStr;

use outrider_codec::scheme::{Code, Downlink, SchemeParameters};
use serde::{Deserialize, Serialize};

use crate::{comparison::ComparisonParameters, conformal::ThresholdParameters, edge::Speculation};

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
    /// γ: drafts per round.
    pub draft_length: u32,
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
            draft_length: 4,
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

    /// How the edge is to draft.
    pub fn speculation(&self) -> Speculation {
        Speculation {
            scheme: self.scheme(),
            threshold: self.threshold(),
            draft_length: self.draft_length,
            bit_budget: (self.bit_budget > 0).then_some(self.bit_budget),
            compare: None,
        }
    }

    /// The same, with a comparison to what other schemes would cost.
    pub fn compared_speculation(&self) -> Speculation {
        let compare = ComparisonParameters {
            support_size: self.support_size,
            lattice_resolution: self.lattice_resolution,
            threshold: self.threshold(),
        };
        Speculation { compare: Some(compare), ..self.speculation() }
    }

    fn threshold(&self) -> ThresholdParameters {
        ThresholdParameters { target: self.dropped_mass_target, step: self.step_size, initial: self.initial_threshold }
    }
}

/// Declares an enum whose variants have names for users.
macro_rules! names {
    ($(#[$meta:meta])* $type:ident { $($(#[$note:meta])* $variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $type {
            $($(#[$note])* #[serde(rename = $name)] $variant,)+
        }

        impl $type {
            /// Every name, in the order of the papers.
            pub const NAMES: &'static [&'static str] = &[$($name),+];
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
    fn names_are_those_of_the_schemes() {
        for &name in SchemeName::NAMES {
            let options = DraftingOptions { scheme: name.parse().unwrap(), ..Default::default() };
            assert_eq!(options.scheme().name(), name);
        }
        assert!("sqs".parse::<SchemeName>().unwrap_err().contains("k-sqs, c-sqs"));
    }
}
