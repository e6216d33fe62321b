//! Rows of logits, as the state machine of a session is handed them.
//!
//! A model of one's own computes them. Who decides what becomes of a round by itself (an engine elsewhere, a device that keeps its
//! logits) hands in rows that leave no other outcome: all mass on the draft where one stands (p(x) = 1 ≥ q̂(x)), all on the
//! replacement where the first falls (p(x) = 0, and the residual is that token), all on the token that follows if none falls. So
//! frames, schemes and edges are the same for all.

use outrider_models::Logits;
use outrider_speculation::judge::acceptance::Outcome;

/// The rows of a pass.
#[derive(Debug, Clone, PartialEq)]
pub enum Rows {
    /// As a model computed them.
    Computed(Logits),
    /// What somebody made of them.
    Decided(Decided),
}

/// Rows of V logits that decide a round, or a part of it. Behind what is decided the last repeats: nobody looks at it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Decided {
    rows: Vec<Vec<f32>>,
    count: usize,
}

impl Rows {
    /// The rows in order.
    pub fn to_slices(&self) -> Vec<&[f32]> {
        match self {
            Self::Computed(logits) => logits.iter().collect(),
            Self::Decided(rows) => rows.iter().collect(),
        }
    }
}

impl Decided {
    /// The rows in order.
    pub fn iter(&self) -> impl Iterator<Item = &[f32]> {
        let last = self.rows.len().saturating_sub(1);
        (0..self.count).filter_map(move |index| self.rows.get(index.min(last))).map(Vec::as_slice)
    }

    /// The first `count` of them.
    pub(crate) fn first(self, count: usize) -> Self {
        Self { count, ..self }
    }

    /// These rows.
    pub(crate) fn of(rows: Vec<Vec<f32>>) -> Self {
        Self { count: rows.len(), rows }
    }

    /// `count` rows that leave no other outcome than this of these drafts.
    pub(crate) fn forcing(outcome: Outcome, drafts: &[u32], vocab_size: u32, count: usize) -> Self {
        let decided = drafts[..outcome.accepted].iter().copied().chain(outcome.token);
        Self { rows: decided.map(|id| certain(id, vocab_size)).collect(), count }
    }

    /// Rows by which these drafts stand, and behind them `rows` to judge by.
    #[cfg(feature = "device")]
    pub(crate) fn standing(drafts: &[u32], rows: Vec<Vec<f32>>, vocab_size: u32) -> Self {
        Self::of(drafts.iter().map(|&id| certain(id, vocab_size)).chain(rows).collect())
    }
}

/// All mass on one token.
pub(crate) fn certain(id: u32, vocab_size: u32) -> Vec<f32> {
    row(&[(id, 1.0)], vocab_size)
}

/// ln p of the tokens that are named, −∞ of all others.
pub(crate) fn row(probabilities: &[(u32, f64)], vocab_size: u32) -> Vec<f32> {
    let mut row = vec![f32::NEG_INFINITY; vocab_size as usize];
    for &(id, p) in probabilities {
        if let Some(logit) = row.get_mut(id as usize) {
            *logit = p.ln() as f32;
        }
    }
    row
}
