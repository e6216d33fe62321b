//! Sums over the tokens whose p/q̂ lies on either side of a bound: what the rules of the form
//! π = max{min{q̂, p/a}, p/b} are made of.
//!
//! Sort q̂'s support by ρ = p/q̂. For a ≤ b, π is p/a on the tokens with ρ < a, q̂ on those between, and p/b on those
//! with ρ > b, which the tokens outside of the support belong to: ρ = ∞ there. So with sums of q̂, p and p·ln ρ from
//! either end of the order, and p's mass outside of the support, all that is asked takes a binary search:
//!
//! ```text
//! excess     Σ max(0, q̂ − p/a) = Q(ρ<a) − P(ρ<a)/a                                 what π takes from q̂
//! shortfall  Σ max(0, p/b − q̂) = P(ρ>b)/b − Q(ρ>b)                                 what π adds to q̂
//! KL(p‖π)    Σ p·ln(p/π)       = P(ρ<a)·ln a + Σ_{a≤ρ≤b} p·ln ρ + P(ρ>b)·ln b
//! ```
//!
//! O(V) additions at most for the mass outside and O(K log K) for the order, once; then O(log K).

use super::info::Position;

/// The largest b of a divergence. p/b is then below the rounding of 1: a larger one would change nothing but that
/// tokens lose all their mass where p has some.
const MOST: f64 = (1u64 << 60) as f64;

/// q̂ and p at one position.
#[derive(Debug)]
pub(super) struct Ratios {
    /// ρ of the K tokens of q̂'s support, ascending.
    ratios: Vec<f64>,
    /// K + 1 sums; the i-th is cut before the i-th ratio.
    sums: Vec<Sums>,
}

/// Sums on either side of a cut of the order.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    q_below: f64,
    p_below: f64,
    /// Σ p·ln ρ below the cut, in nats.
    divergence_below: f64,
    q_above: f64,
    /// Sum of p above the cut, with p's mass outside of q̂'s support.
    p_above: f64,
}

impl Ratios {
    pub(super) fn of(position: &Position<'_>) -> Self {
        let mut pairs: Vec<(f64, f64)> = position.pairs().collect();
        // q̂ is at least 2⁻³²: no ratio overflows.
        pairs.sort_unstable_by(|(q1, p1), (q2, p2)| (p1 / q1).total_cmp(&(p2 / q2)));
        let mut sums = vec![Sums::default(); pairs.len() + 1];
        for (i, &(q, p)) in pairs.iter().enumerate() {
            let below = sums[i];
            sums[i + 1].q_below = below.q_below + q;
            sums[i + 1].p_below = below.p_below + p;
            sums[i + 1].divergence_below = below.divergence_below + if p > 0.0 { p * (p / q).ln() } else { 0.0 };
        }
        sums[pairs.len()].p_above = position.p.without(position.q.ids()).mass();
        for (i, &(q, p)) in pairs.iter().enumerate().rev() {
            let above = sums[i + 1];
            sums[i].q_above = above.q_above + q;
            sums[i].p_above = above.p_above + p;
        }
        Self { ratios: pairs.iter().map(|(q, p)| p / q).collect(), sums }
    }

    /// Σ max(0, q̂ − p/a) for a > 0. Falls from the mass of q̂ where p = 0 (a → 0) as a rises; TV(p, q̂) at a = 1.
    pub(super) fn excess(&self, a: f64) -> f64 {
        let below = self.sums[self.ratios.partition_point(|&ratio| ratio < a)];
        (below.q_below - below.p_below / a).max(0.0)
    }

    /// Σ max(0, p/b − q̂) for b > 0. Falls as b rises, to 0 if b is at least every ratio.
    pub(super) fn shortfall(&self, b: f64) -> f64 {
        let above = self.sums[self.ratios.partition_point(|&ratio| ratio <= b)];
        (above.p_above / b - above.q_above).max(0.0)
    }

    /// The b whose shortfall is `mass`; ∞ where none is, as `mass` is 0 and p has mass outside of q̂'s support.
    pub(super) fn bound_of_shortfall(&self, mass: f64) -> f64 {
        // Between neighbouring ratios the shortfall is P/b − Q, with P and Q of the tokens above.
        let cut = self.first(|i| self.shortfall(self.ratios[i]) <= mass);
        let above = self.sums[cut];
        above.p_above / (mass + above.q_above)
    }

    /// KL(p‖π) in nats for π = max{min{q̂, p/a}, p/b}, 0 ≤ a ≤ b, with π > 0 wherever p > 0.
    pub(super) fn divergence(&self, a: f64, b: f64) -> f64 {
        let low = self.sums[self.ratios.partition_point(|&ratio| ratio < a)];
        let high = self.sums[self.ratios.partition_point(|&ratio| ratio <= b)];
        // 0·ln 0 and 0·ln ∞ count as 0.
        let term = |mass: f64, bound: f64| if mass > 0.0 { mass * bound.ln() } else { 0.0 };
        term(low.p_below, a) + (high.divergence_below - low.divergence_below) + term(high.p_above, b)
    }

    /// The b for which π = max{q̂, p/b} on p's support has KL(p‖π) = `divergence`, less than KL(p‖q̂); at most 2⁶⁰.
    pub(super) fn bound_of_divergence(&self, divergence: f64) -> f64 {
        let cut = self.first(|i| self.divergence(0.0, self.ratios[i]) > divergence);
        ((divergence - self.sums[cut].divergence_below) / self.sums[cut].p_above).exp().min(MOST)
    }

    /// KL(p‖q̂) in nats; infinite where p has mass outside of q̂'s support.
    pub(super) fn divergence_from_draft(&self) -> f64 {
        self.divergence(0.0, f64::INFINITY)
    }

    /// The smallest ratio above 0; `None` if p and q̂ share no token.
    pub(super) fn smallest(&self) -> Option<f64> {
        self.ratios.get(self.ratios.partition_point(|&ratio| ratio <= 0.0)).copied()
    }

    /// The mass of q̂ where p = 0.
    pub(super) fn vain(&self) -> f64 {
        self.sums[self.ratios.partition_point(|&ratio| ratio <= 0.0)].q_below
    }

    /// The first ratio's index from which on `holds`, or K.
    fn first(&self, holds: impl Fn(usize) -> bool) -> usize {
        let (mut low, mut high) = (0, self.ratios.len());
        while low < high {
            let middle = (low + high) / 2;
            if holds(middle) { high = middle } else { low = middle + 1 }
        }
        low
    }
}
