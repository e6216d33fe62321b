//! C-SQS: the threshold of the support, by online conformal control (Bhattacharjee et al., §3, eqs 6–8, Algorithm 1).
//!
//! After every token the threshold moves by β ← β − η(dropped − α), where `dropped` is the mass that the support left
//! out. So the mean of the dropped mass approaches α from any start (Theorem 2):
//!
//! ```text
//! (1/T)·Σ dropped ≤ α + (|β₁| + 1 + ηα)/(ηT)
//! ```
//!
//! The sum runs over *committed* tokens. Tokens that are drafted and rejected must leave no trace: after the verdict
//! the threshold returns to its value after the last accepted token, and one update follows for the token that the
//! cloud put after it (checkpoint and backtrack). Where all drafts were accepted, that token's distribution is not
//! known before the draft model has read them: the update is owed, and made when the model has.
//!
//! The threshold goes on from one generation of a session to the next: T counts the tokens of all of them. With the
//! paper's numbers the bound is above 1, and so says nothing, until T = 1011; few generations are as long.
//!
//! Errata. The proof's upper bound (Lemma 4) assumes that a threshold above every probability drops everything; the
//! support then still holds the most likely token, so β could rise on where that token is certain. It is clamped
//! at 1, which only lowers it. The theorem needs β ≥ −η(1−α) alone, and that holds: only a positive β drops anything.
//! Where that is below the proof's −(1 + ηα), for steps η > 1/(1 − 2α), the theorem as printed does not hold; η(1−α)
//! then stands in place of 1 + ηα.

/// The parameters of C-SQS that concern the edge alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThresholdParameters {
    /// Target α of the mean dropped mass; in [0, 1).
    pub target: f64,
    /// Step size η, by which a token moves the threshold; at least 0. At 0 it stays β₁, and nothing bounds what is
    /// dropped.
    pub step: f64,
    /// β₁, the first threshold; in [0, 1].
    pub initial: f64,
}

impl ThresholdParameters {
    /// The paper's α and η (§4). It varies β₁; 0.01 keeps most of the mass from the first token.
    pub(crate) const DEFAULT: Self = Self { target: 0.0005, step: 0.001, initial: 0.01 };
}

impl Default for ThresholdParameters {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The threshold of a session's generations, one after another.
#[derive(Debug, Clone)]
pub(crate) struct Conformal {
    parameters: ThresholdParameters,
    /// β after the drafts of the round so far.
    threshold: f64,
    /// Threshold β before each draft of the round, and the mass that the draft dropped.
    checkpoints: Vec<(f64, f64)>,
    /// The mass that the next token would have dropped, had it been drafted.
    undrafted: Option<f64>,
    /// True while the update of a bonus token is owed.
    owes: bool,
    dropped_sum: f64,
    updates: usize,
}

impl Conformal {
    /// A threshold at the start of a session.
    pub(crate) fn new(parameters: ThresholdParameters) -> Self {
        Self {
            parameters,
            threshold: parameters.initial,
            checkpoints: Vec::new(),
            undrafted: None,
            owes: false,
            dropped_sum: 0.0,
            updates: 0,
        }
    }

    /// A threshold at the start of a generation: as an `earlier` one left it, if that had the same parameters.
    pub(crate) fn after(earlier: Option<&Self>, parameters: ThresholdParameters) -> Self {
        let earlier = earlier.filter(|earlier| earlier.parameters == parameters);
        earlier.cloned().unwrap_or_else(|| Self::new(parameters))
    }

    /// The generation has ended. Drafts that await a verdict will not be committed; the distribution of a bonus token
    /// that was not read will not be known.
    pub(crate) fn end_generation(&mut self) {
        self.verdict(0, false);
        self.forgive();
    }

    /// β, the current threshold.
    pub(crate) fn threshold(&self) -> f64 {
        self.threshold
    }

    /// True while the last verdict's bonus token waits for [`bonus`](Self::bonus).
    pub(crate) fn owes(&self) -> bool {
        self.owes
    }

    /// Counts a drafted token whose support dropped the mass `dropped`.
    pub(crate) fn drafted(&mut self, dropped: f64) {
        self.checkpoints.push((self.threshold, dropped));
        self.threshold = self.updated(self.threshold, dropped);
    }

    /// Notes that the round ended before a token that would have dropped the mass `dropped`.
    pub(crate) fn declined(&mut self, dropped: f64) {
        self.undrafted = Some(dropped);
    }

    /// Counts a token that was committed without being sent. Its support would have dropped the mass `dropped`.
    pub(crate) fn passed(&mut self, dropped: f64) {
        self.bonus(dropped);
    }

    /// Drops the update of a bonus token, if one is owed: the target has written on alone, so the token's distribution
    /// will not be known.
    pub(crate) fn forgive(&mut self) {
        self.owes = false;
    }

    /// Counts a verdict: `accepted` drafts are accepted, and a token was `added` after them, or none.
    pub(crate) fn verdict(&mut self, accepted: usize, added: bool) {
        let drafted = self.checkpoints.len();
        // The distribution of the token that replaces a rejected draft is that draft's.
        let counted = if accepted < drafted { accepted + usize::from(added) } else { drafted };
        if let Some(&(before, _)) = self.checkpoints.get(counted) {
            self.threshold = before;
        }
        self.dropped_sum += self.checkpoints.iter().take(counted).map(|&(_, dropped)| dropped).sum::<f64>();
        self.updates += counted;
        self.checkpoints.clear();
        let undrafted = self.undrafted.take();
        if accepted == drafted && added {
            self.owes = true;
            if let Some(dropped) = undrafted {
                self.bonus(dropped);
            }
        }
    }

    /// Counts the bonus token, whose distribution is now known. Its support drops the mass `dropped`.
    pub(crate) fn bonus(&mut self, dropped: f64) {
        self.owes = false;
        self.dropped_sum += dropped;
        self.updates += 1;
        self.threshold = self.updated(self.threshold, dropped);
    }

    /// Mean dropped mass of the committed tokens of the session so far; `None` before the first.
    pub(crate) fn mean_dropped_mass(&self) -> Option<f64> {
        (self.updates > 0).then(|| self.dropped_sum / self.updates as f64)
    }

    /// Committed tokens that it was updated for: Theorem 2's T.
    pub(crate) fn updates(&self) -> usize {
        self.updates
    }

    /// The parameters α, η and β₁.
    pub(crate) fn parameters(&self) -> &ThresholdParameters {
        &self.parameters
    }

    fn updated(&self, threshold: f64, dropped: f64) -> f64 {
        (threshold - self.parameters.step * (dropped - self.parameters.target)).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        draft::sparsify,
        sample::{
            Distribution,
            tests::{PLAIN, logits},
        },
        theory::dropped_mass_bound,
    };
    use proptest::prelude::*;
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    const PARAMETERS: ThresholdParameters = ThresholdParameters { target: 0.1, step: 0.5, initial: 0.3 };

    fn bound(control: &Conformal) -> f64 {
        dropped_mass_bound(control.parameters(), control.updates())
    }

    #[test]
    fn rejected_drafts_leave_no_trace() {
        let mut control = Conformal::new(PARAMETERS);
        for dropped in [0.2, 0.4, 0.6] {
            control.drafted(dropped);
        }
        control.verdict(1, true);
        // 0.3 − 0.5·(0.2 − 0.1), and the resampled token has the second draft's distribution: − 0.5·(0.4 − 0.1).
        assert!((control.threshold() - 0.1).abs() < 1e-12);
        assert!((control.mean_dropped_mass().unwrap() - 0.3).abs() < 1e-12);
        assert!(!control.owes());
    }

    #[test]
    fn generations_go_on_with_the_threshold_of_the_committed_text() {
        let mut control = Conformal::new(PARAMETERS);
        control.drafted(0.2);
        control.verdict(1, true);
        assert!(control.owes());
        control.end_generation();
        let mut next = Conformal::after(Some(&control), PARAMETERS);
        assert!(!next.owes() && (next.threshold() - 0.25).abs() < 1e-12 && next.updates() == 1);
        // A generation may be cancelled while drafts are under way.
        next.drafted(0.9);
        next.drafted(0.9);
        next.declined(0.9);
        next.end_generation();
        assert_eq!((next.threshold(), next.updates()), (control.threshold(), 1));
        next.verdict(0, true);
        assert!(next.owes(), "what was declined is forgotten");
        for other in [
            ThresholdParameters { target: 0.2, ..PARAMETERS },
            ThresholdParameters { step: 0.2, ..PARAMETERS },
            ThresholdParameters { initial: 0.2, ..PARAMETERS },
        ] {
            let anew = Conformal::after(Some(&control), other);
            assert_eq!((anew.threshold(), anew.updates()), (other.initial, 0));
        }
    }

    #[test]
    fn a_bonus_token_is_updated_for_when_its_distribution_is_known() {
        let mut control = Conformal::new(PARAMETERS);
        control.drafted(0.1);
        control.verdict(1, true);
        assert!(control.owes() && control.threshold() == 0.3);
        control.bonus(0.5);
        assert!(!control.owes() && (control.threshold() - 0.1).abs() < 1e-12);
        // Already known, because the budget declined it.
        control.declined(0.1);
        control.verdict(0, true);
        assert!(!control.owes());
        // An accepted end-of-text token: nothing after it was committed.
        control.drafted(0.9);
        control.drafted(0.9);
        let before = control.updates;
        control.verdict(1, false);
        assert_eq!(control.updates, before + 1);
    }

    /// Found by the fuzz target `edge`: one token may drop nearly everything, and a large step then falls far.
    #[test]
    fn the_bound_holds_for_steps_above_one() {
        let mut control = Conformal::new(ThresholdParameters { target: 0.03, step: 2.0, initial: 0.6 });
        control.drafted(0.91);
        control.verdict(1, false);
        let (mean, bound) = (control.mean_dropped_mass().unwrap(), bound(&control));
        assert!(mean <= bound, "{mean} exceeds {bound}");
        let as_printed = 0.03 + (0.6 + 1.0 + 2.0 * 0.03) / 2.0;
        assert!(mean > as_printed);
    }

    /// A distribution over six tokens from weights.
    fn normalised(weights: &[f64]) -> Vec<f64> {
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|w| w / sum).collect()
    }

    /// Distributions of any peakedness, certainty included.
    fn distribution() -> impl Strategy<Value = Vec<f64>> {
        (prop::collection::vec(0.0f64..1.0, 6), 0.1f64..30.0).prop_map(|(weights, power)| {
            let weights: Vec<f64> = weights.iter().map(|w| w.powf(power) + f64::MIN_POSITIVE).collect();
            normalised(&weights)
        })
    }

    proptest! {
        /// Theorem 2, and the erratum's lower bound, under any distributions and any verdicts, over generations that
        /// end anyhow; and the threshold is what a run over the committed tokens alone gives.
        #[test]
        fn the_mean_dropped_mass_is_bounded(
            rounds in prop::collection::vec(
                (
                    prop::collection::vec(distribution(), 0..5),
                    any::<prop::sample::Index>(),
                    any::<bool>(),
                    distribution(),
                    prop::option::weighted(0.2, prop::collection::vec(distribution(), 0..5)),
                ),
                1..60,
            ),
            target in 0.0f64..0.5, step in 1e-3f64..4.0, initial in 0.0f64..1.0,
        ) {
            let parameters = ThresholdParameters { target, step, initial };
            let mut control = Conformal::new(parameters);
            let (mut straight, mut dropped_sum, mut committed) = (initial, 0.0, 0usize);
            for (drafts, accepted, declines, bonus, ends) in rounds {
                let dropped = |q: &[f64], threshold| {
                    let row = logits(q);
                    sparsify::above(&Distribution::new(&row, &PLAIN).unwrap(), threshold).dropped_mass()
                };
                for q in &drafts {
                    control.drafted(dropped(q, control.threshold()));
                }
                let ahead = dropped(&bonus, control.threshold());
                if declines {
                    control.declined(ahead);
                }
                let accepted = accepted.index(drafts.len() + 1);
                control.verdict(accepted, true);
                let unread = control.owes() && ends.is_some();
                if control.owes() && !unread {
                    control.bonus(dropped(&bonus, control.threshold()));
                }
                if let Some(unjudged) = ends {
                    for q in unjudged.iter().filter(|_| !unread) {
                        control.drafted(dropped(q, control.threshold()));
                    }
                    control.end_generation();
                    control = Conformal::after(Some(&control), parameters);
                }
                // The committed tokens, one after the other, with no drafting at all.
                let last = drafts.get(accepted).unwrap_or(&bonus);
                for q in drafts[..accepted].iter().chain((!unread).then_some(last)) {
                    let dropped = dropped(q, straight);
                    straight = (straight - step * (dropped - target)).min(1.0);
                    dropped_sum += dropped;
                    committed += 1;
                }
                prop_assert_eq!(control.threshold(), straight);
                prop_assert!(control.threshold() >= -step * (1.0 - target) - 1e-12);
                prop_assert_eq!(control.updates(), committed);
                if let Some(mean) = control.mean_dropped_mass() {
                    prop_assert!(mean <= bound(&control) + 1e-12);
                    prop_assert!((mean - dropped_sum / committed as f64).abs() < 1e-9);
                }
            }
        }
    }
}
