//! The choice of tokens that the edge commits without asking the cloud.
//!
//! Before a round's first draft the edge may skip verification: tokens are drawn from S(q), which no scheme has cut or
//! rounded since nothing of it travels, and committed at once. They go with the round that follows, so that one forward
//! pass of the target reads them all. They are distributed as the draft model's, not as the target's.
//!
//! A gate that sees the token is shown x ~ S(q). If it is in doubt what is drafted must be distributed as q̂, by which
//! the cloud judges. So both are drawn at once, equal as often as they can be: x̂ ~ q̂ in integers, and x from it by
//! the maximal coupling (`draft::couple`). Where q̂ is q they are one token, as in the paper's Algorithm 2. The drafts
//! that are sent are then those in doubt, and no fair sample of q̂: with V(x) what the gate says of x and q̂ = q the
//! text is off the target's by Σ V(x)·max(0, q(x) − p(x)), so that doubts about the right tokens cost nothing. A gate
//! that does not see the token is off by TV(q, p) wherever it lets tokens pass, and not at all elsewhere.

use outrider_codec::choices;

use super::heads::{Heads, TokenFeatures};
use crate::control::policy_info::PolicyInfo;

/// The most tokens that pass a token cascade before the target writes one (Narasimhan et al., App. F.1).
const LONGEST_CASCADE: usize = 10;
/// α of a cascade, if none is given.
const ALPHA: f64 = 0.5;

choices! {
    /// The names of the gates, which decide which tokens the edge commits without asking. All but `none` are lossy.
    GateName: PolicyInfo<Gate> {
        /// Name of [`Gate::Never`].
        None = PolicyInfo {
            name: "none",
            threshold: None,
            explanation: "Every token is verified.",
            source: "Leviathan et al. 2023",
            lossy: false,
            head: None,
            options: &["maxInFlight"],
            of: |_| Gate::Never,
        },
        /// Name of [`Gate::Sprinter`].
        Sprinter = PolicyInfo {
            name: "sprinter",
            threshold: Some(("τ", 0.5)),
            explanation: "A token skips verification while a trained head trusts the draft model by τ or more, by default \
                          its own τ; the first token below is verified.",
            source: "Zhong et al., Algorithm 2",
            lossy: true,
            head: Some("gate"),
            options: &[],
            of: |threshold| Gate::Sprinter { threshold },
        },
        /// Name of [`Gate::TokenCascade`].
        TokenCascade = PolicyInfo {
            name: "token-cascade",
            threshold: Some(("α", ALPHA)),
            explanation: "A token skips verification where the draft model is sure, its most likely token having at least \
                          1 − α; elsewhere, and after ten such tokens, the target writes it.",
            source: "Narasimhan et al., Algorithm 2 with eq. 2",
            lossy: true,
            head: None,
            options: &[],
            of: |alpha| Gate::TokenCascade { alpha: alpha.unwrap_or(ALPHA) },
        },
        /// Name of [`Gate::SequenceCascade`].
        SequenceCascade = PolicyInfo {
            name: "sequence-cascade",
            threshold: Some(("α", ALPHA)),
            explanation: "The draft model writes the whole text, which is kept if the geometric mean of its tokens’ \
                          probabilities is at least 1 − α; otherwise the target writes it again.",
            source: "Narasimhan et al., eq. 1",
            lossy: true,
            head: None,
            options: &[],
            of: |alpha| Gate::SequenceCascade { alpha: alpha.unwrap_or(ALPHA), confidence: Confidence::Mean },
        },
        /// Name of [`Gate::SequenceCascade`] with the paper's confidence.
        SequenceProduct = PolicyInfo {
            name: "sequence-product",
            threshold: Some(("α", ALPHA)),
            explanation: "As sequence-cascade, by the product of the probabilities, which falls with every token.",
            source: "Narasimhan et al., eq. 1",
            lossy: true,
            head: None,
            options: &[],
            of: |alpha| Gate::SequenceCascade { alpha: alpha.unwrap_or(ALPHA), confidence: Confidence::Product },
        },
    }
}

/// A policy that lets tokens skip verification.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Gate {
    /// Every token is verified.
    #[default]
    Never,
    /// SPRINTER (Zhong et al., Algorithm 2): a token passes while the trained gate trusts its hidden state; the first
    /// that it does not is drafted. With γ = 1, which is the default then, this is the
    /// paper's but for the bonus token that follows an accepted draft; a larger γ has more tokens after the one in
    /// doubt verified.
    Sprinter {
        /// Score τ from which on a token passes; `None` for the one that the gate was trained for.
        threshold: Option<f64>,
    },
    /// Token cascade with Chow's rule (Narasimhan et al., Algorithm 2, eq. 2): a token passes while max q ≥ 1 − α;
    /// where it is below, and after ten tokens that passed, the target writes the token. Nothing is drafted.
    TokenCascade {
        /// α of the rule: a token passes while max q ≥ 1 − α.
        alpha: f64,
    },
    /// Sequence cascade with Chow's rule (eq. 1): the edge writes the whole text and keeps it if its confidence, from
    /// its tokens' probabilities under the draft model's own q, before S(·), is at least 1 − α; otherwise the target
    /// writes the text instead.
    SequenceCascade {
        /// α of the rule: a text is kept if its confidence is at least 1 − α.
        alpha: f64,
        /// The confidence that is compared with 1 − α.
        confidence: Confidence,
    },
}

/// A draft model's confidence in a text, from the probabilities of its tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confidence {
    /// Geometric mean of the probabilities, by which texts of any length can be compared.
    Mean,
    /// Product of the probabilities, which is the text's own (eq. 1). 1). It falls with every token, whatever the text
    /// is worth: below 10⁻¹⁶ only α = 1 keeps a text.
    Product,
}

/// The decision on a token, made before the token is drawn unless the gate sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// It passes without verification.
    None,
    /// It is drafted, and verified.
    Verify,
    /// It is not drafted: the target writes it.
    Defer,
}

impl Gate {
    /// True if nothing is ever drafted: tokens pass or are the target's.
    pub(crate) fn is_cascade(&self) -> bool {
        matches!(self, Gate::TokenCascade { .. } | Gate::SequenceCascade { .. })
    }

    /// Draft length γ of the gate's paper, if it has one: SPRINTER verifies the token in doubt and no other.
    pub(crate) fn draft_length(&self) -> Option<u32> {
        matches!(self, Gate::Sprinter { .. }).then_some(1)
    }

    /// True if the gate decides by the token that is drawn, and not only by what comes before it.
    pub(crate) fn sees_token(&self, heads: Option<&Heads>) -> bool {
        matches!(self, Gate::Sprinter { .. }) && heads.is_some_and(Heads::gate_sees_token)
    }

    /// Decides on a token after `passed` others since the target's last pass: from its hidden state, from its features
    /// where the gate [sees it](Self::sees_token), and from `peak`, max q.
    pub(crate) fn doubt(
        &self,
        heads: Option<&Heads>,
        hidden: &[f32],
        token: Option<&TokenFeatures>,
        passed: usize,
        peak: impl FnOnce() -> f64,
    ) -> Doubt {
        match *self {
            Gate::Never => Doubt::Verify,
            Gate::Sprinter { threshold } => match heads {
                Some(heads) if heads.passes(hidden, token, threshold) => Doubt::None,
                _ => Doubt::Verify,
            },
            Gate::TokenCascade { alpha } if passed >= LONGEST_CASCADE || peak() < 1.0 - alpha => Doubt::Defer,
            Gate::TokenCascade { .. } | Gate::SequenceCascade { .. } => Doubt::None,
        }
    }
}

/// Text that a sequence cascade has written and not yet shown.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held {
    /// The number of its tokens.
    pub tokens: usize,
    log_probability: f64,
}

impl Held {
    /// A token was written, of which ln q(x) is this.
    pub(crate) fn add(&mut self, log_probability: f64) {
        self.tokens += 1;
        self.log_probability += log_probability;
    }

    /// The geometric mean of the probabilities or their product; 1 without tokens.
    pub(crate) fn confidence(&self, confidence: Confidence) -> f64 {
        match confidence {
            Confidence::Mean => (self.log_probability / self.tokens.max(1) as f64).exp(),
            Confidence::Product => self.log_probability.exp(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::heads::Head;

    #[test]
    fn each_policy_has_its_own_doubts() {
        let heads = Heads { gate: Some(Head::new(vec![1.0], 0.0, vec![]).unwrap()), stop: None, threshold: 0.5 };
        let doubt = |gate: Gate, hidden: f32, peak: f64| gate.doubt(Some(&heads), &[hidden], None, 9, || peak);
        assert_eq!(doubt(Gate::Never, 9.0, 1.0), Doubt::Verify);
        let sprinter = Gate::Sprinter { threshold: None };
        assert_eq!(doubt(sprinter, 0.1, 0.0), Doubt::None);
        assert_eq!(doubt(sprinter, -0.1, 1.0), Doubt::Verify);
        assert_eq!(doubt(Gate::TokenCascade { alpha: 0.4 }, 0.0, 0.6), Doubt::None);
        assert_eq!(doubt(Gate::TokenCascade { alpha: 0.4 }, 0.0, 0.59), Doubt::Defer);
        assert_eq!(doubt(Gate::SequenceCascade { alpha: 0.4, confidence: Confidence::Mean }, 0.0, 0.0), Doubt::None);
        assert_eq!(sprinter.doubt(None, &[], None, 9, || 1.0), Doubt::Verify);
        for gate in [Gate::TokenCascade { alpha: 1.0 }, sprinter] {
            let doubt = gate.doubt(Some(&heads), &[0.1], None, 10, || 1.0);
            assert_eq!(doubt == Doubt::Defer, gate != sprinter, "the eleventh of {gate:?}");
        }
    }

    #[test]
    fn confidence_is_the_geometric_mean_or_the_product() {
        let mut held = Held::default();
        assert_eq!([Confidence::Mean, Confidence::Product].map(|which| held.confidence(which)), [1.0, 1.0]);
        held.add(0.25f64.ln());
        held.add(0.0);
        assert!((held.confidence(Confidence::Mean) - 0.5).abs() < 1e-12);
        assert!((held.confidence(Confidence::Product) - 0.25).abs() < 1e-12);
    }
}
