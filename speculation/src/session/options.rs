//! Drafting options as users give them: flat names and numbers, the same on the command line and in the page.

mod choice;
pub(crate) mod entries;
pub mod numbers;

use outrider_codec::{
    choice::Choice,
    scheme::{Downlink, SchemeOptions, SchemeParameters},
};
use serde::{Deserialize, Serialize};

pub use choice::SchemeChoice;
pub use entries::{Entry, NAMES, NameInfo, Parameter};

pub use crate::{
    control::{ahead::Goal, stop::StopName},
    draft::gate::GateName,
};
pub use outrider_codec::scheme::{Code, DownlinkName, SchemeName};

use crate::{
    control::plan::Schedule,
    draft::conformal::ThresholdParameters,
    judge::{
        Verification,
        rules::{Rule, RuleError},
    },
    session::edge::{Ahead, Mode, Speculation},
    study::comparison::ComparisonParameters,
};

/// All options of drafting. Schemes ignore what they do not use; what is not said has its default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DraftingOptions {
    /// The scheme: who waits for whom, and the content of a draft.
    #[serde(with = "by_name")]
    pub scheme: SchemeChoice,
    /// The code of distributions on a lattice.
    #[serde(with = "by_name")]
    pub code: Code,
    /// The temperature of the draft model; `None` for the target's.
    pub draft_temperature: Option<f32>,
    /// K: tokens kept of each draft distribution (k-sqs, tk-slt).
    pub support_size: u32,
    /// Lattice resolution ℓ: the sum of the integer counts of a draft distribution (qs, k-sqs, c-sqs).
    pub lattice_resolution: u32,
    /// α: the mean dropped mass that is aimed at (c-sqs).
    pub dropped_mass_target: f64,
    /// η: how far a token moves the threshold; 0 keeps it where it is (c-sqs).
    pub step_size: f64,
    /// β₁: a session's first threshold (c-sqs).
    pub initial_threshold: f64,
    /// The downlink after a rejection (dssd).
    #[serde(with = "by_name")]
    pub downlink: DownlinkName,
    /// m: samples that follow a rejection (dssd with the sampled downlink).
    pub downlink_samples: u8,
    /// Guesses sent together (ahead); 0 leaves all three to what is measured.
    pub group_size: u32,
    /// Milliseconds that a pass waits for a guess (ahead).
    pub patience: f64,
    /// The most guesses ahead of the text (ahead); 0 for as many as pay.
    pub lead: u32,
    /// The aim of drafting ahead (ahead, auto).
    #[serde(with = "by_name")]
    pub goal: Goal,
    /// Candidates that are guessed for a position (ahead); 0 for as many as pay.
    pub candidates: u8,
    /// The acceptance rule's name.
    pub rule: String,
    /// The rule's parameter; `None` for its default.
    pub rule_parameter: Option<f64>,
    /// The way that the accepted drafts of a round are chosen.
    #[serde(with = "by_name")]
    pub verification: Verification,
    /// The gate, which decides on tokens that are committed without asking the cloud.
    #[serde(with = "by_name")]
    pub gate: GateName,
    /// τ of SPRINTER, α of the cascades.
    pub gate_threshold: Option<f64>,
    /// γ: drafts per round; `None` for the gate's own, or the default.
    pub draft_length: Option<u32>,
    /// The most rounds that await their verdict at a time.
    pub max_in_flight: u8,
    /// The rule that ends a round early.
    #[serde(with = "by_name")]
    pub stop_rule: StopName,
    /// λ of AdaEDL, h of SpecDec++, α of BiLD's fallback.
    pub stop_threshold: Option<f64>,
    /// True if the target writes alone where that is faster (AS²).
    pub adaptive_mode: bool,
    /// B: the most payload bits of a round (qs, k-sqs, c-sqs); 0 is no budget.
    pub bit_budget: u32,
}

impl Default for DraftingOptions {
    fn default() -> Self {
        let named = |index: usize| NAMES[index].default;
        Self {
            scheme: choice(named(0)),
            code: choice(named(1)),
            downlink: choice(named(2)),
            rule: named(3).to_owned(),
            gate: choice(named(4)),
            stop_rule: choice(named(5)),
            goal: choice(named(6)),
            verification: choice(named(7)),
            draft_temperature: None,
            support_size: numbers::SUPPORT_SIZE.default as u32,
            lattice_resolution: numbers::LATTICE_RESOLUTION.default as u32,
            dropped_mass_target: numbers::DROPPED_MASS_TARGET.default,
            step_size: numbers::STEP_SIZE.default,
            initial_threshold: numbers::INITIAL_THRESHOLD.default,
            downlink_samples: numbers::DOWNLINK_SAMPLES.default as u8,
            group_size: numbers::GROUP_SIZE.default as u32,
            patience: numbers::PATIENCE.default,
            lead: numbers::LEAD.default as u32,
            candidates: numbers::CANDIDATES.default as u8,
            rule_parameter: None,
            gate_threshold: None,
            stop_threshold: None,
            draft_length: None,
            max_in_flight: numbers::MAX_IN_FLIGHT.default as u8,
            adaptive_mode: false,
            bit_budget: numbers::BIT_BUDGET.default as u32,
        }
    }
}

/// The choice of a name in the table; the first if there is none.
fn choice<C: Choice>(name: &str) -> C {
    C::named(name).unwrap_or(C::ALL[0])
}

impl DraftingOptions {
    /// The mode of drafting, where `speculation` has the settings of rounds.
    pub fn mode(&self, speculation: Speculation) -> Mode {
        match self.scheme {
            SchemeChoice::Auto => Mode::Auto(speculation),
            SchemeChoice::Ahead => Mode::Ahead(Ahead {
                fixed: self.plan(),
                goal: self.goal,
                draft_temperature: self.draft_temperature,
                branches: (self.candidates > 0).then_some(self.candidates > 1),
                ..Ahead::default()
            }),
            SchemeChoice::Rounds(_) => Mode::Speculative(speculation),
        }
    }

    /// The schedule of guesses; `None` if it is left to measurements.
    fn plan(&self) -> Option<Schedule> {
        let count = |number: u32| if number == 0 { usize::MAX } else { number as usize };
        let plan = Schedule { group: self.group_size as usize, patience: self.patience / 1e3, lead: count(self.lead) };
        (self.group_size > 0).then_some(plan)
    }

    /// The scheme with its parameters, where there are rounds.
    pub(crate) fn scheme(&self) -> SchemeParameters {
        self.scheme.rounds().with(SchemeOptions {
            support_size: self.support_size,
            lattice_resolution: self.lattice_resolution,
            code: self.code,
            downlink: match self.downlink {
                DownlinkName::Full => Downlink::Full,
                DownlinkName::Sampled => Downlink::Sampled(self.downlink_samples),
            },
        })
    }

    /// The acceptance rule.
    ///
    /// # Errors
    /// If there is none of that name, or its parameter is out of its range.
    pub(crate) fn rule(&self) -> Result<Rule, RuleError> {
        let info = Rule::known().find(|info| info.name == self.rule);
        Rule::new(&self.rule, self.rule_parameter.or(info.map(|info| info.default)).unwrap_or(0.0))
    }

    /// The settings of the edge for rounds.
    ///
    /// # Errors
    /// If there is no such rule, or its parameter is out of its range.
    pub fn speculation(&self) -> Result<Speculation, RuleError> {
        let scheme = self.scheme.rounds().info();
        let gate = (self.gate.info().of)(self.gate_threshold);
        let draft_length = self.draft_length.or(gate.draft_length());
        let draft_length = draft_length.unwrap_or(numbers::DRAFT_LENGTH.default as u32);
        Ok(Speculation {
            draft_temperature: self.draft_temperature,
            threshold: self.threshold(),
            rule: self.rule()?,
            verification: self.verification,
            gate,
            stop: (self.stop_rule.info().of)(self.stop_threshold),
            adaptive_mode: self.adaptive_mode,
            bit_budget: (self.bit_budget > 0 && scheme.reads("bitBudget")).then_some(self.bit_budget),
            max_in_flight: self.max_in_flight,
            goal: self.goal,
            ..Speculation::new(self.scheme(), draft_length)
        })
    }

    /// The settings of the edge for rounds, with a comparison to the costs of other schemes.
    ///
    /// # Errors
    /// If there is no such rule, or its parameter is out of its range.
    pub fn compared_speculation(&self) -> Result<Speculation, RuleError> {
        let compare = ComparisonParameters {
            support_size: self.support_size,
            lattice_resolution: self.lattice_resolution,
            threshold: self.threshold(),
        };
        Ok(Speculation { compare: Some(compare), ..self.speculation()? })
    }

    fn threshold(&self) -> ThresholdParameters {
        ThresholdParameters { target: self.dropped_mass_target, step: self.step_size, initial: self.initial_threshold }
    }
}

/// Reads and writes a choice by its name.
mod by_name {
    use super::Choice;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<C: Choice, S: Serializer>(choice: &C, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(choice.name())
    }

    pub(super) fn deserialize<'de, C: Choice, D: Deserializer<'de>>(deserializer: D) -> Result<C, D::Error> {
        let name = String::deserialize(deserializer)?;
        C::named(&name).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{entries::NAMES, numbers::NUMBERS, *};
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn entries_are_complete_and_read_options_that_there_are() {
        let mut options: BTreeSet<&str> = NUMBERS.iter().map(|number| number.name).collect();
        options.extend(NAMES.iter().map(|name| name.name));
        for kind in NAMES {
            let entries = (kind.entries)();
            assert!(entries.iter().any(|entry| entry.name == kind.default), "{kind:?}");
            for entry in entries {
                let sentence = entry.explanation;
                assert!(sentence.ends_with('.') && !sentence.contains("  "), "{sentence:?}");
                assert!(!entry.label.is_empty() && !entry.source.is_empty(), "{entry:?}");
                assert!(entry.options.iter().all(|option| options.contains(option)), "{entry:?}");
                if let Some(parameter) = entry.parameter {
                    assert_eq!(parameter.bounds.check(parameter.default), Ok(()), "{entry:?}");
                }
            }
        }
        for number in NUMBERS {
            assert_eq!(number.bounds.check(number.default), Ok(()), "{number:?}");
        }
    }

    #[test]
    fn auto_reads_what_its_rounds_read() {
        let schemes = (NAMES[0].entries)();
        let read = |name| schemes.iter().find(|entry| entry.name == name).unwrap().options;
        assert!(read("k-sqs").iter().all(|option| read("auto").contains(option)) && read("auto").contains(&"goal"));
    }

    /// The largest number that an option may be is one that its scheme can be used with, and the next is not.
    #[test]
    fn ranges_are_those_of_the_schemes() {
        let bounds = numbers::LATTICE_RESOLUTION.bounds;
        let fits = |lattice_resolution: f64| {
            let options = DraftingOptions { lattice_resolution: lattice_resolution as u32, ..Default::default() };
            outrider_codec::scheme::Scheme::new(options.scheme(), 4096).is_ok()
        };
        assert!(fits(bounds.min) && fits(bounds.max) && !fits(bounds.min - 1.0) && !fits(bounds.max + 1.0));
        // What the enumerative code allows depends on V and ℓ.
        let bounds = numbers::SUPPORT_SIZE.bounds;
        let fits = |support_size: f64| {
            let options = DraftingOptions {
                code: Code::Adaptive,
                support_size: support_size as u32,
                lattice_resolution: outrider_codec::lattice::MAX_LATTICE_RESOLUTION,
                ..Default::default()
            };
            outrider_codec::scheme::Scheme::new(options.scheme(), 1 << 17).is_ok()
        };
        assert!(fits(bounds.min) && fits(bounds.max) && !fits(bounds.min - 1.0) && !fits(bounds.max + 1.0));
        let fits = |downlink_samples| {
            let options = DraftingOptions {
                scheme: SchemeChoice::Rounds(SchemeName::Dssd),
                downlink_samples,
                ..Default::default()
            };
            outrider_codec::scheme::Scheme::new(options.scheme(), 8).is_ok()
        };
        assert!(fits(numbers::DOWNLINK_SAMPLES.bounds.min as u8) && !fits(0));
    }

    #[test]
    fn bounds_say_why() {
        let check = |number: &numbers::NumberInfo, value| number.bounds.check(value).unwrap_err();
        assert_eq!(check(&numbers::STEP_SIZE, -0.1), "must be at least 0");
        // Theorem 2 of Bhattacharjee et al. fails for η > 1/(1 − 2α): such a step can be asked for.
        assert!(numbers::STEP_SIZE.bounds.check(1.0 / (1.0 - 2.0 * 0.0005) + 0.5).is_ok());
        assert_eq!(check(&numbers::DROPPED_MASS_TARGET, 1.0), "must be below 1");
        assert_eq!(check(&numbers::SUPPORT_SIZE, 0.0), "must be at least 1");
        assert_eq!(check(&numbers::SUPPORT_SIZE, 2049.0), "must be at most 2048");
        assert_eq!(check(&numbers::SUPPORT_SIZE, 1.5), "must be a whole number");
        assert_eq!(check(&numbers::SUPPORT_SIZE, f64::NAN), "must be a number");
    }

    #[test]
    fn defaults_are_those_of_the_tables() {
        let options = DraftingOptions::default();
        let names = [
            options.scheme.name(),
            options.code.name(),
            options.downlink.name(),
            &options.rule,
            options.gate.name(),
            options.stop_rule.name(),
            options.goal.name(),
            options.verification.name(),
        ];
        assert_eq!(names.to_vec(), NAMES.iter().map(|kind| kind.default).collect::<Vec<_>>());
        assert_eq!(SchemeName::ALL.iter().find(|name| options_of(**name).scheme().info().name != name.name()), None);
    }

    /// 5000 bits are the budget of the SQS paper's rounds; a dense draft is larger than that.
    #[test]
    fn the_budget_is_of_the_schemes_that_it_was_made_for() {
        let has_budget = |scheme: &SchemeName| options_of(*scheme).speculation().unwrap().bit_budget.is_some();
        let names: Vec<&str> = SchemeName::ALL.iter().filter(|scheme| has_budget(scheme)).map(|s| s.name()).collect();
        assert_eq!(names, ["qs", "k-sqs", "c-sqs"]);
    }

    /// SPRINTER drafts one token (Zhong et al., Algorithm 2), unless more are asked for.
    #[test]
    fn sprinter_verifies_the_token_in_doubt_alone() {
        let of = |gate, draft_length| {
            let options = DraftingOptions { gate, draft_length, ..Default::default() };
            options.speculation().unwrap().draft_length
        };
        assert_eq!((of(GateName::Sprinter, None), of(GateName::Sprinter, Some(4))), (1, 4));
        assert_eq!(
            (of(GateName::None, None), of(GateName::None, Some(1)), of(GateName::TokenCascade, None)),
            (4, 1, 4)
        );
    }

    fn options_of(scheme: SchemeName) -> DraftingOptions {
        DraftingOptions { scheme: SchemeChoice::Rounds(scheme), ..Default::default() }
    }
}
