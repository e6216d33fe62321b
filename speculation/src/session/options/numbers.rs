//! The options that are numbers: their names, sentences, defaults and ranges.

use crate::draft::conformal::ThresholdParameters;

/// The values of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// The least; minus infinity if there is none.
    pub min: f64,
    /// The most; infinity if there is none.
    pub max: f64,
    /// True for whole numbers only.
    pub integer: bool,
    /// True if the most itself is not allowed.
    pub below_max: bool,
}

impl Bounds {
    /// Bounds of whole numbers.
    const fn whole(min: u32, max: u32) -> Self {
        Self { min: min as f64, max: max as f64, integer: true, below_max: false }
    }

    /// Bounds of real numbers.
    const fn real(min: f64, max: f64) -> Self {
        Self { min, max, integer: false, below_max: false }
    }

    const fn below_max(self) -> Self {
        Self { below_max: true, ..self }
    }

    /// Checks a value of the option. The error is the end of a sentence that begins with the option's name. The error
    /// is the end of a sentence that begins with the option's name.
    ///
    /// # Errors
    /// If it is outside.
    pub fn check(&self, value: f64) -> Result<(), String> {
        let Self { min, max, integer, below_max } = *self;
        Err(if !value.is_finite() {
            "must be a number".to_owned()
        } else if integer && value.fract() != 0.0 {
            "must be a whole number".to_owned()
        } else if below_max && value >= max {
            format!("must be below {max}")
        } else if value < min {
            format!("must be at least {min}")
        } else if value > max {
            format!("must be at most {max}")
        } else {
            return Ok(());
        })
    }
}

impl core::fmt::Display for Bounds {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { min, max, below_max, .. } = self;
        match min.is_finite() {
            false => write!(f, "(-∞, "),
            true => write!(f, "[{min}, "),
        }?;
        match (max.is_finite(), below_max) {
            (false, _) => write!(f, "∞)"),
            (true, true) => write!(f, "{max})"),
            (true, false) => write!(f, "{max}]"),
        }
    }
}

/// The part of the page that an option stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Options of drawing tokens.
    Sampling,
    /// Options of what is sent of a draft.
    Drafting,
    /// Options of judging drafts.
    Verification,
    /// Options of the length of rounds.
    Rounds,
}

/// An option that is a number.
#[derive(Debug)]
pub struct NumberInfo {
    /// The name in options, JSON and addresses.
    pub name: &'static str,
    /// The name that people read.
    pub label: &'static str,
    /// The papers' letter; empty if it has none.
    pub symbol: &'static str,
    /// A phrase that explains it.
    pub explanation: &'static str,
    /// Further explanation in sentences; empty if there is none.
    pub details: &'static str,
    /// The value if none is given, unless that hangs on other options.
    pub default: f64,
    /// A phrase for the value if none is given, where that depends on other options; empty where it is the default.
    pub unset: &'static str,
    /// Values that are allowed before a model or a server narrows them.
    pub bounds: Bounds,
    /// The part of the page that it stands in.
    pub group: Group,
    /// Change of the value by an arrow key on the page.
    pub step: f64,
}

/// Values that most entries leave unchanged.
const BASE: NumberInfo = NumberInfo {
    name: "",
    label: "",
    symbol: "",
    explanation: "",
    details: "",
    default: 0.0,
    unset: "",
    bounds: Bounds::whole(0, u32::MAX),
    group: Group::Drafting,
    step: 1.0,
};

/// All options whose value is a number, in the order of the page.
pub const NUMBERS: &[&NumberInfo] = &[
    &TEMPERATURE,
    &TOP_P,
    &TOP_K,
    &SEED,
    &MAX_NEW_TOKENS,
    &DRAFT_TEMPERATURE,
    &SUPPORT_SIZE,
    &LATTICE_RESOLUTION,
    &DROPPED_MASS_TARGET,
    &STEP_SIZE,
    &INITIAL_THRESHOLD,
    &DOWNLINK_SAMPLES,
    &GROUP_SIZE,
    &PATIENCE,
    &LEAD,
    &CANDIDATES,
    &DRAFT_LENGTH,
    &MAX_IN_FLIGHT,
    &BIT_BUDGET,
];

/// The temperature T; 0 is greedy.
pub const TEMPERATURE: NumberInfo = NumberInfo {
    name: "temperature",
    label: "Temperature",
    explanation: "0 is greedy: always the most likely token",
    default: 0.7,
    bounds: Bounds::real(0.0, 5.0),
    group: Group::Sampling,
    step: 0.1,
    ..BASE
};
/// The probability p of top-p sampling.
pub const TOP_P: NumberInfo = NumberInfo {
    name: "topP",
    label: "Top-p",
    explanation: "Keeps the fewest most likely tokens whose probabilities reach this; 1 is off",
    default: 0.95,
    bounds: Bounds::real(0.01, 1.0),
    group: Group::Sampling,
    step: 0.05,
    ..BASE
};
/// The number k of top-k sampling.
pub const TOP_K: NumberInfo = NumberInfo {
    name: "topK",
    label: "Top-k",
    explanation: "Keeps the k most likely tokens; 0 is off",
    bounds: Bounds::whole(0, 1_000_000),
    group: Group::Sampling,
    ..BASE
};
/// The seed of both ends.
pub const SEED: NumberInfo = NumberInfo {
    name: "seed",
    label: "Seed",
    explanation: "Equal seeds and options repeat a generation, except where a session has learned",
    details: "Later generations of a session start with the state of earlier ones: C-SQS with its threshold, AdaEDL \
              with its λ. ODLD and AS² also depend on measured times. Where that changes the drafts, the text is \
              another draw, under the exact rule from the same distribution.",
    default: 1.0,
    unset: "a random one",
    group: Group::Sampling,
    ..BASE
};
/// The most tokens that a generation adds to the text.
pub const MAX_NEW_TOKENS: NumberInfo = NumberInfo {
    name: "maxNewTokens",
    label: "Max new tokens",
    explanation: "Most tokens to generate",
    default: 128.0,
    bounds: Bounds::whole(1, 65_536),
    group: Group::Sampling,
    ..BASE
};
/// Temperature T of the draft model.
pub(crate) const DRAFT_TEMPERATURE: NumberInfo = NumberInfo {
    name: "draftTemperature",
    label: "Draft temperature",
    explanation: "Temperature of the draft model alone; 0 always drafts its most likely token",
    details: "The target keeps its own temperature. Under the exact rule the text's distribution does not change, but \
              the acceptance rate does; coupled and ahead agree most often at the target's temperature. Other rules \
              mix in the distribution of the drafts, and tokens that skip verification are drawn from it.",
    default: TEMPERATURE.default,
    unset: "the target's",
    bounds: TEMPERATURE.bounds,
    step: TEMPERATURE.step,
    ..BASE
};
/// K, the number of tokens kept of each draft distribution. The codec bounds the work of a token: under the adaptive
/// code 2048 is within it for every vocabulary and resolution; under the enumerative code these count, too.
pub(crate) const SUPPORT_SIZE: NumberInfo = NumberInfo {
    name: "supportSize",
    label: "Support size",
    symbol: "K",
    explanation: "Tokens kept of each draft distribution",
    default: 32.0,
    bounds: Bounds::whole(1, 2048),
    ..BASE
};
/// ℓ, the total of a draft distribution's counts.
pub(crate) const LATTICE_RESOLUTION: NumberInfo = NumberInfo {
    name: "latticeResolution",
    label: "Lattice resolution",
    symbol: "ℓ",
    explanation: "Probabilities are sent in steps of 1/ℓ",
    default: 100.0,
    bounds: Bounds::whole(1, outrider_codec::lattice::MAX_LATTICE_RESOLUTION),
    ..BASE
};
/// α of C-SQS, the mean dropped mass that is aimed at.
pub(crate) const DROPPED_MASS_TARGET: NumberInfo = NumberInfo {
    name: "droppedMassTarget",
    label: "Dropped mass",
    symbol: "α",
    explanation: "Intended mean probability of the tokens left out",
    default: ThresholdParameters::DEFAULT.target,
    bounds: Bounds::real(0.0, 1.0).below_max(),
    step: 0.0005,
    ..BASE
};
/// η of C-SQS, the step size of the threshold.
pub(crate) const STEP_SIZE: NumberInfo = NumberInfo {
    name: "stepSize",
    label: "Step size",
    symbol: "η",
    explanation: "Step of the threshold per token; 0 keeps it fixed",
    default: ThresholdParameters::DEFAULT.step,
    bounds: Bounds::real(0.0, 10.0),
    step: 0.001,
    ..BASE
};
/// β₁ of C-SQS, a session's first threshold.
pub(crate) const INITIAL_THRESHOLD: NumberInfo = NumberInfo {
    name: "initialThreshold",
    label: "First threshold",
    symbol: "β₁",
    explanation: "First threshold of a session; less likely tokens are left out",
    default: ThresholdParameters::DEFAULT.initial,
    bounds: Bounds::real(0.0, 1.0),
    step: 0.001,
    ..BASE
};
/// m of DSSD, the samples that follow a rejection.
pub(crate) const DOWNLINK_SAMPLES: NumberInfo = NumberInfo {
    name: "downlinkSamples",
    label: "Samples",
    symbol: "m",
    explanation: "Samples that the server sends after a rejection",
    default: 4.0,
    bounds: Bounds::whole(1, 64),
    ..BASE
};
/// Number of guesses in a frame.
pub(crate) const GROUP_SIZE: NumberInfo = NumberInfo {
    name: "groupSize",
    label: "Group",
    explanation: "Guesses sent together; 0 chooses group, patience and lead by measurement",
    bounds: Bounds::whole(0, 64),
    ..BASE
};
/// Longest time that a pass waits for a guess, in milliseconds.
pub(crate) const PATIENCE: NumberInfo = NumberInfo {
    name: "patience",
    label: "Patience, ms",
    explanation: "Milliseconds that a pass of the server waits for a guess; 0 never waits",
    bounds: Bounds::real(0.0, 2000.0),
    step: 5.0,
    ..BASE
};
/// The most guesses that lie ahead of the text.
pub(crate) const LEAD: NumberInfo = NumberInfo {
    name: "lead",
    label: "Lead",
    explanation: "Most guesses ahead of the text; 0 takes as many as pay. A lead equal to the group, with patience, \
                  is a round",
    bounds: Bounds::whole(0, 64),
    ..BASE
};
/// Number of candidates that are guessed for a position.
pub(crate) const CANDIDATES: NumberInfo = NumberInfo {
    name: "candidates",
    label: "Candidates",
    explanation: "Guesses at the same token, the best and the second best; 0 takes as many as pay",
    bounds: Bounds::whole(0, 2),
    ..BASE
};
/// γ, the number of drafts in a round.
pub const DRAFT_LENGTH: NumberInfo = NumberInfo {
    name: "draftLength",
    label: "Draft length",
    symbol: "γ",
    explanation: "Tokens drafted in a round",
    default: 4.0,
    unset: "4, or 1 with the gate sprinter",
    bounds: Bounds::whole(1, 64),
    group: Group::Rounds,
    ..BASE
};
/// The most rounds that await their verdict at a time.
pub(crate) const MAX_IN_FLIGHT: NumberInfo = NumberInfo {
    name: "maxInFlight",
    label: "Rounds in flight",
    explanation: "Rounds that may await their verdict at a time; the server has a limit of its own",
    details: "With more than 1, the next rounds are drafted while the server verifies. That hides the round trip \
              where drafting or verifying takes about as long and most rounds are accepted whole. A rejection \
              discards the later rounds, with their bytes and drafting time, and no bonus token follows a round that \
              is accepted whole, so that a token takes more forward passes of the server. On a short link, or with a \
              draft that is often wrong, 1 is faster. A seed gives another text than with 1, of the same \
              distribution. With a gate it is 1.",
    default: 1.0,
    bounds: Bounds::whole(1, 255),
    group: Group::Rounds,
    ..BASE
};
/// B, the most payload bits in a round.
pub(crate) const BIT_BUDGET: NumberInfo = NumberInfo {
    name: "bitBudget",
    label: "Bit budget",
    symbol: "B",
    explanation: "Most payload bits in a round; 0 is no budget",
    details: "If not one draft fits, none is made.",
    default: 5000.0,
    bounds: Bounds::whole(0, 1_000_000),
    group: Group::Rounds,
    step: 100.0,
    ..BASE
};
