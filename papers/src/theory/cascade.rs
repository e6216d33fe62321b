//! Speculative cascades (Narasimhan et al., "Faster Cascades via Speculative Decoding"): what deferring to the large
//! model costs, when it pays, and what is lost by deciding from the models' own confidence.
//!
//! At one position the data give a token v ~ P, the small model q, the large one p. A deferral rule r, 0 or 1, takes q
//! or p, and risks
//!
//! ```text
//! L(r) = (1 − r)·E ℓ(v, q) + r·(E ℓ(v, p) + cost)
//! ```
//!
//! The cost is α for a token-level cascade (eq. 3) and α·TV(p, q) for a speculative one, which pays for rejections only
//! (eq. 8). Chow's rule is judged as if p had no loss (eq. 24). As P is not known, a rule puts each model in its place:
//! it takes 1 − max q for E ℓ₀₁(v, q), the entropy of q for its log loss, and the same of p. All of it holds for α < 0.

/// ℓ(v, m): what a model m loses on a token v of the data (§3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// 1 where v is not m's most likely token; of equally likely ones, the one with the smallest id.
    ZeroOne,
    /// Log loss −ln m(v), in nats.
    Log,
}

impl Loss {
    /// E ℓ(v, m) for v ~ `data`. From 0 to 1 for the 0-1 loss; the log loss is infinite if m lacks one of the tokens.
    pub fn expected(self, data: &[f64], model: &[f64]) -> f64 {
        let losses = match self {
            Self::ZeroOne => return 1.0 - data[likeliest(model)],
            Self::Log => model.iter().map(|m| -m.ln()),
        };
        data.iter().zip(losses).filter(|(data, _)| **data > 0.0).map(|(data, loss)| data * loss).sum()
    }

    /// The plug-in estimate of [`expected`](Self::expected), which takes the model for the data: 1 − max m, or the
    /// entropy of m.
    pub fn estimate(self, model: &[f64]) -> f64 {
        self.expected(model, model)
    }

    /// Bound of the estimate's error: max|P − m| (Lemma 5, eqs 21 and 22), or B·Σ|P − m| with
    /// B = max|ln m| (Lemma 9). 0 where m is P; infinite for the log loss where m differs from P and lacks a token.
    pub fn estimate_error(self, data: &[f64], model: &[f64]) -> f64 {
        let distances = data.iter().zip(model).map(|(data, model)| (data - model).abs());
        match self {
            Self::ZeroOne => distances.fold(0.0, f64::max),
            Self::Log => weighted(distances.sum(), model.iter().map(|m| m.ln().abs()).fold(0.0, f64::max)),
        }
    }
}

/// Losses and cost of deferral at one position. Losses may be infinite, the cost may not.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deferral {
    /// E ℓ(v, q), or its estimate.
    pub draft_loss: f64,
    /// E ℓ(v, p), or its estimate; 0 for Chow's rule.
    pub target_loss: f64,
    /// Cost of deferral: α, or α·TV(p, q).
    pub cost: f64,
}

impl Deferral {
    /// L(r) for `deferral` r, 0 or 1 or any number between (eqs 3, 8, 24).
    pub fn risk(&self, deferral: f64) -> f64 {
        weighted(1.0 - deferral, self.draft_loss) + weighted(deferral, self.target_loss + self.cost)
    }

    /// Returns true if L(1) < L(0): the optimal rule (Lemmas 1, 4, 8); from estimates Diff, OPT or Chow, or its -log
    /// (eqs 5, 10, 2, 26 to 28).
    pub fn pays(&self) -> bool {
        self.draft_loss > self.target_loss + self.cost
    }

    /// L(r) − min L, where r is whether to defer. At least 0; 0 if the other choice is no better.
    pub fn regret(&self, deferred: bool) -> f64 {
        let (taken, other) = (self.risk(f64::from(deferred)), self.risk(f64::from(!deferred)));
        if taken <= other { 0.0 } else { taken - other }
    }
}

/// Bound of a rule's regret from estimates: the sum of the error bounds of those of q and p (Lemmas 5, 9).
///
/// The same for every cost. Lemma 5's is reached. Half of Lemma 9's suffices: Σ(P − m) = 0, and ln m spans at most B.
pub fn regret_bound(loss: Loss, data: &[f64], q: &[f64], p: &[f64]) -> f64 {
    loss.estimate_error(data, q) + loss.estimate_error(data, p)
}

/// The likeliest token; the first of equally likely ones.
fn likeliest(model: &[f64]) -> usize {
    model.iter().enumerate().fold(0, |best, (id, m)| if *m > model[best] { id } else { best })
}

/// A weighted loss; 0 at weight 0, of an infinite loss too.
fn weighted(weight: f64, loss: f64) -> f64 {
    if weight == 0.0 { 0.0 } else { weight * loss }
}

#[cfg(test)]
mod tests;
