//! How many drafts a forward pass is to judge: as many as raise the tokens per second.
//!
//! A pass that judges n drafts costs 1 + c·n passes that judge none, and gives (1 − αⁿ⁺¹)/(1 − α) tokens where each
//! draft is accepted with probability α. Their ratio has one maximum: a further draft pays as long as what it adds for
//! its cost, αⁿ⁺¹/c, is above the ratio so far (TurboSpec calls the ratio goodput).

/// Weight of the last draft in the running acceptance rate.
const WEIGHT: f64 = 0.05;
/// What is assumed before anything was judged.
const PRIOR: f64 = 0.7;

/// The share of drafts that are accepted, lately.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AcceptanceRate(f64);

impl Default for AcceptanceRate {
    fn default() -> Self {
        Self(PRIOR)
    }
}

impl AcceptanceRate {
    /// So many drafts were accepted one after the other, and perhaps one rejected behind them.
    pub fn observe(&mut self, accepted: usize, rejected: bool) {
        for outcome in core::iter::repeat_n(1.0, accepted).chain(rejected.then_some(0.0)) {
            self.0 += WEIGHT * (outcome - self.0);
        }
    }

    /// α.
    pub fn get(self) -> f64 {
        self.0
    }

    /// The number of drafts, at most `most`, whose judgement in one pass gives the most tokens per second, where each
    /// adds `row_cost` of a pass without drafts to it.
    pub fn drafts_worth(self, row_cost: f64, most: usize) -> usize {
        let (mut tokens, mut cost, mut path) = (1.0, 1.0, 1.0);
        (0..most)
            .take_while(|_| {
                path *= self.0;
                let pays = path * cost > row_cost * tokens;
                (tokens, cost) = (tokens + path, cost + row_cost);
                pays
            })
            .count()
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    /// By trying all: the closed form's maximum.
    #[test]
    fn as_many_drafts_as_pay() {
        for (alpha, row_cost) in [(0.7, 0.06), (0.8, 0.06), (0.95, 0.06), (0.7, 0.3), (0.3, 0.5), (0.02, 0.06)] {
            let goodput = |n: usize| {
                let tokens: f64 = (0..=n).map(|i| f64::powi(alpha, i as i32)).sum();
                tokens / (1.0 + row_cost * n as f64)
            };
            let best = (0..=64).max_by(|&a, &b| goodput(a).total_cmp(&goodput(b))).unwrap();
            assert_eq!(AcceptanceRate(alpha).drafts_worth(row_cost, 64), best, "α = {alpha}, c = {row_cost}");
            assert_eq!(AcceptanceRate(alpha).drafts_worth(row_cost, 1), best.min(1));
        }
    }

    #[test]
    fn the_rate_follows_what_is_judged() {
        let mut rate = AcceptanceRate::default();
        (0..400).for_each(|_| rate.observe(3, true));
        assert!((rate.get() - 0.75).abs() < 0.1, "{rate:?}");
        (0..400).for_each(|_| rate.observe(0, true));
        assert!(rate.get() < 1e-6 && rate.drafts_worth(0.06, 64) == 0);
    }
}
