//! Rules that end a round by the draft model's outlook on the next token.
//!
//! - **AdaEDL** (Agrawal, Jeon, Lee 2024): with H the entropy of what drafts are drawn from, 1 − √(γH) approximates a
//!   lower bound on the probability that such a draft is accepted. The round ends after the first draft for which it
//!   is below λ. λ follows the acceptance seen, in the manner of Zhang et al. 2023 ("Draft & Verify"): up by ε while
//!   too little is accepted, down by ε while enough is, both smoothed.
//! - **SpecDec++** (Huang, Guo, Wang 2024): a trained head gives P(accept) of each draft. The round ends after the
//!   draft with which the probability 1 − Π P(accept) that any is rejected exceeds a threshold.
//! - **BiLD** (Kim et al. 2023; Narasimhan et al., appendix F.5): the round ends before the first token of which the
//!   draft model is not sure, max q < 1 − α_f, or with ten drafts.
//!
//! Here are the table and the formulas; where they are asked, draft by draft, is `rounds.rs` (`wants`, `consider`).

use outrider_codec::choices;

use crate::policy_info::PolicyInfo;

/// The rule that ends a round. A bit budget is apart from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StopRule {
    /// A fixed number of drafts, γ.
    Fixed,
    /// The best number of drafts γ* by the current estimates; γ until there are any (Zheng & Yang, Algorithm 1).
    Odld,
    /// Ends after the first draft whose acceptance is bounded by less than λ (Agrawal, Jeon, Lee 2024).
    AdaEdl {
        /// Factor γ of the paper, 0.2 there; at least 0.
        scale: f64,
        /// First value of λ, in [0, 1]. It follows the acceptance seen.
        threshold: f64,
    },
    /// Ends after the draft with which a rejection is likelier than the threshold (SpecDec++, Huang, Guo, Wang 2024).
    SpecDec {
        /// Probability in [0, 1] that the round has a rejected draft.
        threshold: f64,
    },
    /// Ends before a token of which the draft model is not sure, or with ten drafts: the target writes it (BiLD,
    /// Kim et al. 2023).
    Bild {
        /// Threshold α_f in [0, 1]: the draft model is not sure where max q < 1 − α_f.
        fallback: f64,
    },
}

/// AdaEDL's γ and its first λ, SpecDec++'s h, and α of BiLD's fallback.
const ENTROPY_SCALE: f64 = 0.2;
const FIRST_LAMBDA: f64 = 0.2;
const LIKELY_REJECTED: f64 = 0.5;
const FALLBACK: f64 = 0.8;

choices! {
    /// The names of the rules that end a round.
    StopName: PolicyInfo<StopRule> {
        /// Name of [`StopRule::Fixed`].
        Fixed = PolicyInfo {
            name: "fixed",
            threshold: None,
            explanation: "A round has γ drafts.",
            source: "Leviathan et al. 2023",
            lossy: false,
            head: None,
            options: &["draftLength"],
            of: |_| StopRule::Fixed,
        },
        /// Name of [`StopRule::Odld`].
        Odld = PolicyInfo {
            name: "odld",
            threshold: None,
            explanation: "A round has γ* drafts, the best length for the measured acceptance rate and times.",
            source: "Zheng and Yang, Algorithm 1",
            lossy: false,
            head: None,
            options: &["draftLength"],
            of: |_| StopRule::Odld,
        },
        /// Name of [`StopRule::AdaEdl`].
        AdaEdl = PolicyInfo {
            name: "adaedl",
            threshold: Some(("λ", FIRST_LAMBDA)),
            explanation: "A round ends with a draft whose acceptance bound, from the draft model’s entropy, is below \
                          λ.",
            source: "Agrawal, Jeon, Lee 2024",
            lossy: false,
            head: None,
            options: &[],
            of: |threshold| {
                StopRule::AdaEdl { scale: ENTROPY_SCALE, threshold: threshold.unwrap_or(FIRST_LAMBDA) }
            },
        },
        /// Name of [`StopRule::SpecDec`].
        SpecDec = PolicyInfo {
            name: "specdec",
            threshold: Some(("h", LIKELY_REJECTED)),
            explanation: "A round ends when a trained head predicts a rejection with a probability above h.",
            source: "Huang, Guo, Wang 2024",
            lossy: false,
            head: Some("stop"),
            options: &[],
            of: |threshold| StopRule::SpecDec { threshold: threshold.unwrap_or(LIKELY_REJECTED) },
        },
        /// Name of [`StopRule::Bild`].
        Bild = PolicyInfo {
            name: "bild",
            threshold: Some(("α", FALLBACK)),
            explanation: "A round ends before a token of which the draft model is unsure, its most likely token having \
                          less than 1 − α; the target writes it.",
            source: "Kim et al. 2023",
            lossy: false,
            head: None,
            options: &[],
            of: |fallback| StopRule::Bild { fallback: fallback.unwrap_or(FALLBACK) },
        },
    }
}

/// ε, β₁, β₂ and the acceptance that λ aims at, of Zhang et al.
const STEP: f64 = 0.01;
const RATE_MEMORY: f64 = 0.5;
const THRESHOLD_MEMORY: f64 = 0.9;
const ACCEPTANCE_TARGET: f64 = 0.9;

/// The most drafts of a BiLD round (Narasimhan et al., appendix F.5).
pub(crate) const LONGEST_BILD: u32 = 10;

/// 1 − √(scale·H), AdaEDL's bound on the acceptance of a draft, for H ≥ 0 in nats.
///
/// From 1 (H = 0) down; below zero for H > 1/scale, where it says nothing. `scale` is the paper's γ, 0.2 there.
pub fn acceptance_bound(scale: f64, entropy: f64) -> f64 {
    1.0 - (scale * entropy).max(0.0).sqrt()
}

/// AdaEDL's threshold λ, which follows the acceptance seen.
#[derive(Debug, Clone)]
pub(crate) struct Threshold {
    /// The threshold λ, in [0, 1].
    value: f64,
    /// The running acceptance rate; `None` before the first round.
    rate: Option<f64>,
}

impl Threshold {
    pub(crate) fn new(initial: f64) -> Self {
        Self { value: initial.clamp(0.0, 1.0), rate: None }
    }

    pub(crate) fn value(&self) -> f64 {
        self.value
    }

    /// Counts a settled round. Here the rate is of drafted tokens, not of judged ones: it must fall as rounds grow too
    /// long, or λ could not shorten them.
    pub(crate) fn round_done(&mut self, drafted: usize, accepted: usize) {
        if drafted == 0 {
            return;
        }
        let seen = accepted as f64 / drafted as f64;
        let rate = self.rate.map_or(seen, |rate| RATE_MEMORY * rate + (1.0 - RATE_MEMORY) * seen);
        self.rate = Some(rate);
        let aim = if rate <= ACCEPTANCE_TARGET { self.value + STEP } else { self.value - STEP };
        self.value = (THRESHOLD_MEMORY * self.value + (1.0 - THRESHOLD_MEMORY) * aim).clamp(0.0, 1.0);
    }
}

/// SpecDec++'s Π P(accept) over the drafts of a round.
#[derive(Debug, Clone)]
pub(crate) struct Survival(f64);

impl Survival {
    pub(crate) fn new() -> Self {
        Self(1.0)
    }

    /// Counts a draft that is accepted with probability `stop_score`; without a score it counts as accepted.
    pub(crate) fn add(&mut self, stop_score: Option<f64>) {
        self.0 *= stop_score.filter(|score| !score.is_nan()).unwrap_or(1.0).clamp(0.0, 1.0);
    }

    /// The probability that any of the drafts is rejected.
    pub(crate) fn any_rejected(&self) -> f64 {
        1.0 - self.0
    }
}

/// True if the target should write a token of which the draft model is this sure (BiLD's fallback).
pub(crate) fn falls_back(peak: f64, fallback: f64) -> bool {
    peak < 1.0 - fallback
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Randomness;
    use proptest::prelude::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    #[test]
    fn the_bound_is_one_without_entropy_and_zero_at_one_over_its_scale() {
        assert_eq!(acceptance_bound(0.2, 0.0), 1.0);
        assert_eq!(acceptance_bound(0.2, 5.0), 0.0);
        // Two tokens alike: H = ln 2.
        assert!((acceptance_bound(0.2, 2f64.ln()) - 0.627_67).abs() < 1e-5);
    }

    #[test]
    fn lambda_takes_the_paper_s_steps() {
        let mut threshold = Threshold::new(0.4);
        // Nothing was drafted, nothing is learnt.
        threshold.round_done(0, 0);
        assert_eq!(threshold.value(), 0.4);
        // Rates 1, 0.5·1 + 0.5·0.5 = 0.75, 0.875, 0.9375: down, up, up, down; 0.1·0.01 each.
        for (accepted, expected) in [(4, 0.399), (2, 0.4), (4, 0.401), (4, 0.4)] {
            threshold.round_done(4, accepted);
            assert!((threshold.value() - expected).abs() < 1e-12, "{threshold:?}");
        }
    }

    /// Drafts are accepted with their bound's probability. Wherever λ starts, it comes to where the running rate is
    /// above its target as often as below: that is what steps of one size hold, not its mean.
    #[test]
    fn lambda_holds_the_running_rate_at_its_target() {
        for initial in [0.0, 1.0] {
            let mut randomness = Randomness::edge(3);
            let mut threshold = Threshold::new(initial);
            let mut above = 0;
            for round in 0..20_000 {
                let (mut drafted, mut accepted, mut rejected) = (0, 0, false);
                while drafted < 16 {
                    // Entropies from 0 to 2, most of them small.
                    let bound = acceptance_bound(0.2, 2.0 * randomness.unit().powi(24));
                    drafted += 1;
                    rejected |= randomness.unit() >= bound;
                    accepted += usize::from(!rejected);
                    if bound < threshold.value() {
                        break;
                    }
                }
                threshold.round_done(drafted, accepted);
                above += usize::from(round >= 5_000 && threshold.rate > Some(ACCEPTANCE_TARGET));
            }
            assert!((above as f64 / 15_000.0 - 0.5).abs() < 0.01, "{above} at {threshold:?}");
            assert!(threshold.value() > 0.1 && threshold.value() < 0.99, "{threshold:?}");
        }
    }

    #[test]
    fn survival_is_a_product() {
        let mut survival = Survival::new();
        for (score, rejected) in
            [(Some(0.9), 0.1), (None, 0.1), (Some(0.5), 0.55), (Some(f64::NAN), 0.55), (Some(-1.0), 1.0)]
        {
            survival.add(score);
            assert!((survival.any_rejected() - rejected).abs() < 1e-12);
        }
    }

    #[test]
    fn bild_falls_back_below_its_confidence() {
        assert!(falls_back(0.39, 0.6) && !falls_back(0.41, 0.6) && !falls_back(0.0, 1.0) && falls_back(0.99, 0.0));
    }

    proptest! {
        #[test]
        fn the_bound_falls_with_entropy_and_scale(
            scale in 0.0f64..2.0, entropy in 0.0f64..12.0, more in 0.0f64..3.0,
        ) {
            let bound = acceptance_bound(scale, entropy);
            prop_assert!(bound <= 1.0);
            prop_assert!(acceptance_bound(scale, entropy + more) <= bound);
            prop_assert!(acceptance_bound(scale + more, entropy) <= bound);
        }

        /// A round that went better never gives a higher λ.
        #[test]
        fn lambda_falls_with_acceptance_and_stays_a_probability(
            initial in 0.0f64..=1.0,
            rounds in prop::collection::vec((1usize..20, 0.0f64..=1.0, 0.0f64..=1.0), 1..50),
        ) {
            let (mut better, mut worse) = (Threshold::new(initial), Threshold::new(initial));
            for (drafted, one, other) in rounds {
                let accepted = |share: f64| (share * drafted as f64) as usize;
                better.round_done(drafted, accepted(one.max(other)));
                worse.round_done(drafted, accepted(one.min(other)));
                prop_assert!(better.value() <= worse.value() + 1e-12);
                prop_assert!((0.0..=1.0).contains(&better.value()) && (0.0..=1.0).contains(&worse.value()));
            }
        }

        #[test]
        fn every_draft_makes_a_rejection_likelier(
            scores in prop::collection::vec(prop::option::of(0.0f64..=1.0), 0..40),
        ) {
            let mut survival = Survival::new();
            for score in scores {
                let before = survival.any_rejected();
                survival.add(score);
                prop_assert!(survival.any_rejected() >= before && survival.any_rejected() <= 1.0);
            }
        }
    }
}
