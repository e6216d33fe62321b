//! Observers of the draft model's distributions besides the drafts: C-SQS's threshold, and the cost under other
//! schemes.
//!
//! Both see every token that the draft model has a distribution of, and return to the committed text with each verdict.

use super::{learned::Thresholds, settings::Speculation};
use crate::{
    draft::{DraftError, conformal::Conformal},
    sample::Distribution,
    study::comparison::Comparison,
};

/// The observers of one generation.
#[derive(Debug, Clone)]
pub(super) struct Observers {
    /// The threshold of C-SQS.
    pub(super) threshold: Option<Conformal>,
    pub(super) comparison: Option<Comparison>,
}

impl Observers {
    /// Observers at the start of a generation, with what earlier ones left.
    pub(super) fn new(speculation: &Speculation, vocab_size: u32, prompt: &[u32], earlier: &Thresholds) -> Self {
        let Speculation { scheme, threshold, compare, .. } = *speculation;
        let compared = |with| Comparison::new(with, vocab_size, prompt, earlier.compared.as_ref());
        Self {
            threshold: scheme.has_threshold().then(|| Conformal::after(earlier.sent.as_ref(), threshold)),
            comparison: compare.map(compared),
        }
    }

    /// Passes on what the next generation goes on from; unchanged where this one had nothing of the kind.
    pub(super) fn teach(self, thresholds: &mut Thresholds) {
        let compared = self.comparison.map(Comparison::into_threshold);
        for (known, learned) in [(&mut thresholds.sent, self.threshold), (&mut thresholds.compared, compared)] {
            if let Some(mut threshold) = learned {
                threshold.end_generation();
                *known = Some(threshold);
            }
        }
    }

    /// The threshold β; 0 where the scheme has no threshold.
    pub(super) fn beta(&self) -> f64 {
        self.threshold.as_ref().map_or(0.0, Conformal::threshold)
    }

    /// True if the distribution of the last verdict's bonus token is wanted.
    pub(super) fn owe(&self) -> bool {
        self.threshold.as_ref().is_some_and(Conformal::owes) || self.comparison.as_ref().is_some_and(Comparison::owes)
    }

    /// The distribution of the last verdict's bonus token; `dropped` gives the mass that its support drops.
    pub(super) fn bonus(
        &mut self,
        q: &Distribution<'_>,
        dropped: impl FnOnce(f64) -> Result<f64, DraftError>,
    ) -> Result<(), DraftError> {
        if let Some(threshold) = self.threshold.as_mut().filter(|threshold| threshold.owes()) {
            threshold.bonus(dropped(threshold.threshold())?);
        }
        if let Some(comparison) = &mut self.comparison {
            comparison.bonus(q)?;
        }
        Ok(())
    }

    /// Counts a token that was drafted from `q`, whose support dropped the mass `dropped`.
    pub(super) fn drafted(&mut self, q: &Distribution<'_>, id: u32, dropped: f64) -> Result<(), DraftError> {
        if let Some(threshold) = &mut self.threshold {
            threshold.drafted(dropped);
        }
        if let Some(comparison) = &mut self.comparison {
            comparison.drafted(q, id)?;
        }
        Ok(())
    }

    /// The round ended before a token from `q`.
    pub(super) fn declined(&mut self, q: &Distribution<'_>, dropped: f64) -> Result<(), DraftError> {
        if let Some(threshold) = &mut self.threshold {
            threshold.declined(dropped);
        }
        if let Some(comparison) = &mut self.comparison {
            comparison.declined(q)?;
        }
        Ok(())
    }

    /// A token from `q` was committed without being sent.
    pub(super) fn passed(&mut self, q: &Distribution<'_>, id: u32, dropped: f64) -> Result<(), DraftError> {
        if let Some(threshold) = &mut self.threshold {
            threshold.passed(dropped);
        }
        if let Some(comparison) = &mut self.comparison {
            comparison.passed(q, id)?;
        }
        Ok(())
    }

    /// The target wrote a token alone.
    pub(super) fn streamed(&mut self, id: u32) {
        if let Some(threshold) = &mut self.threshold {
            threshold.forgive();
        }
        if let Some(comparison) = &mut self.comparison {
            comparison.streamed(id);
        }
    }

    /// Counts a verdict: `accepted` drafts are accepted, then comes `token`. Gives what the drafts would have cost
    /// under other schemes.
    pub(super) fn settle(&mut self, accepted: usize, token: Option<u32>) -> Vec<(&'static str, usize)> {
        if let Some(threshold) = &mut self.threshold {
            threshold.verdict(accepted, token.is_some());
        }
        self.comparison.as_mut().map(|comparison| comparison.settle(accepted, token)).unwrap_or_default()
    }
}
