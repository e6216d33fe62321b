//! How many drafts a forward pass is to judge: as many as raise the tokens per second (TurboSpec calls them goodput).
//!
//! A pass that judges n drafts costs 1 + c·n passes that judge none, and gives (1 − αⁿ⁺¹)/(1 − α) tokens where each
//! draft is accepted with probability α. Their ratio has one maximum: a further draft pays as long as what it adds for
//! its cost, αⁿ⁺¹/c, is above the ratio so far.
//!
//! Many sessions share a target. The n-th draft of one adds αⁿ tokens and a row of b seconds, in which all together
//! would have written λ·b tokens: its [price](Prices). It pays where αⁿ is above that, and the allocation that pays by
//! its own λ is the best of all (Dinkelbach 1967: a ratio is at its maximum where its parametric difference is zero).
//!
//! Rows are not all as dear: kernels take some at a time, so that a ninth may cost what four before it did. Therefore
//! [costs](RowCosts) are of so many rows, and so many are judged as leave the most tokens above their price.

/// What a judged draft commonly adds to a pass, as a share of a pass without any; where it is not measured.
pub const ROW_COST: f64 = 0.06;

/// Weight of the last draft in the running acceptance rate.
const WEIGHT: f64 = 0.05;
/// What is assumed before anything was judged.
const PRIOR: f64 = 0.7;
/// The same of second candidates: with the built-in pair 0.15 at temperatures 0 and 0.7.
const SECOND_PRIOR: f64 = 0.15;
/// What almost no draft reaches is not worth its bytes.
pub(crate) const LEAST: f64 = 0.02;

/// So many guesses have costs of their own.
const PRICED: usize = 16;

/// What it costs that a pass judges so many guesses: in tokens, or as a share of a pass that judges none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowCosts {
    /// Of one, of two and so on, all together.
    all: [f64; PRICED],
}

/// What judging and drafting cost those who share a target, in tokens that they would have written meanwhile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// Of the guesses that a pass judges.
    pub rows: RowCosts,
    /// Of a draft that the server makes itself; `None` if it has no draft model.
    pub own_draft: Option<f64>,
}

impl Default for Prices {
    /// Of one session whose rows cost what they commonly do, and no draft model.
    fn default() -> Self {
        Self { rows: RowCosts::each(ROW_COST), own_draft: None }
    }
}

impl RowCosts {
    /// Every row costs the same.
    #[must_use]
    pub fn each(price: f64) -> Self {
        Self::of(|count| price * count as f64)
    }

    /// So many cost that, all together.
    #[must_use]
    pub fn of(all: impl Fn(usize) -> f64) -> Self {
        Self { all: core::array::from_fn(|index| all(index + 1)) }
    }

    /// What so many cost all together. Of more than have costs of their own each costs the mean.
    pub fn all(&self, count: usize) -> f64 {
        let known = count.clamp(1, PRICED);
        self.all[known - 1] * (count as f64 / known as f64)
    }

    /// How many guesses leave the most tokens above their price. `paths` are the probabilities that guesses are
    /// accepted, the most probable first, and each costs `besides` more than its row. What almost none reaches, a
    /// fiftieth, is not worth its bytes.
    pub fn worth(&self, paths: impl IntoIterator<Item = f64>, besides: f64) -> usize {
        let (mut worth, mut most, mut tokens) = (0, 0.0, 0.0);
        for (count, path) in (1..).zip(paths.into_iter().take_while(|path| *path > LEAST)) {
            tokens += path - besides;
            let left = tokens - self.all(count);
            if left > most {
                (worth, most) = (count, left);
            }
        }
        worth
    }
}

/// The share of drafts that are accepted, lately.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AcceptanceRate(f64);

impl Default for AcceptanceRate {
    fn default() -> Self {
        Self(PRIOR)
    }
}

/// How often guesses behind right ones were right lately, by which candidate for their position they were.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CandidateRates {
    /// Of the first.
    pub first: AcceptanceRate,
    /// Of the second, whatever became of the first.
    pub second: AcceptanceRate,
}

impl Default for CandidateRates {
    fn default() -> Self {
        Self { first: AcceptanceRate::default(), second: AcceptanceRate(SECOND_PRIOR) }
    }
}

impl CandidateRates {
    /// Of so many candidates for a position this one was right, if any was.
    pub fn observe(&mut self, candidates: usize, right: Option<usize>) {
        for (rate, which) in [&mut self.first, &mut self.second].into_iter().zip(0..candidates) {
            let is_right = right == Some(which);
            rate.observe(usize::from(is_right), !is_right);
        }
    }

    /// Both rates, of which the second is at most what the first leaves.
    pub fn get(self) -> [f64; 2] {
        let first = self.first.get();
        [first, self.second.get().min(1.0 - first)]
    }
}

impl AcceptanceRate {
    /// A rate from 0 to 1 that was measured otherwise.
    pub fn of(rate: f64) -> Self {
        Self(rate.clamp(0.0, 1.0))
    }

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

    /// The number of drafts, at most `most`, whose judgement in one pass gives the most tokens per second, where so
    /// many add that share of a pass without drafts to it.
    /// What almost none reaches is not, as under [prices](RowCosts::worth).
    pub fn drafts_worth(self, costs: &RowCosts, most: usize) -> usize {
        let (mut tokens, mut path) = (1.0, 1.0);
        let (mut worth, mut best) = (0, 1.0);
        for count in 1..=most {
            path *= self.0;
            if path <= LEAST {
                break;
            }
            tokens += path;
            let goodput = tokens / (1.0 + costs.all(count));
            if goodput > best {
                (worth, best) = (count, goodput);
            }
        }
        worth
    }

    /// The number of drafts, at most `most`, that are [worth](RowCosts::worth) their prices.
    pub fn drafts_paid(self, rows: &RowCosts, besides: f64, most: usize) -> usize {
        rows.worth(core::iter::successors(Some(self.0), |path| Some(path * self.0)).take(most), besides)
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
            assert_eq!(
                AcceptanceRate(alpha).drafts_worth(&RowCosts::each(row_cost), 64),
                best,
                "α = {alpha}, c = {row_cost}"
            );
            assert_eq!(AcceptanceRate(alpha).drafts_worth(&RowCosts::each(row_cost), 1), best.min(1));
        }
    }

    /// Where λ is what the allocation gives, drafts that pay are those of the best allocation: sessions of different α
    /// in one run, against all allocations.
    #[test]
    fn what_pays_is_the_best_of_all_allocations() {
        let (fixed, row, most) = (1.0, 0.15, 6);
        let tokens = |alpha: f64, n: usize| (0..=n).map(|i| f64::powi(alpha, i as i32)).sum::<f64>();
        for rates in [[0.9, 0.4], [0.7, 0.7], [0.99, 0.05]] {
            let goodput = |drafts: [usize; 2]| {
                let written: f64 = rates.iter().zip(drafts).map(|(&alpha, n)| tokens(alpha, n)).sum();
                written / (fixed + row * (drafts[0] + drafts[1] + 2) as f64)
            };
            let all = (0..=most).flat_map(|a| (0..=most).map(move |b| [a, b]));
            let best = all.map(goodput).fold(0.0, f64::max);
            let (mut lambda, mut drafts) = (0.0, [0; 2]);
            for _ in 0..20 {
                drafts = rates.map(|alpha| AcceptanceRate(alpha).drafts_paid(&RowCosts::each(lambda * row), 0.0, most));
                lambda = goodput(drafts);
            }
            assert!((lambda / best - 1.0).abs() < 1e-9, "{lambda} in place of {best} with {drafts:?}");
        }
    }

    /// By trying all: a run of up to four rows costs the same, of up to eight half as much again, and so on, as with
    /// kernels that take four rows at a time. The best number is the end of a step, or near it, and not the first that
    /// does not pay.
    #[test]
    fn rows_that_kernels_take_together_are_judged_together() {
        let seconds = |rows: usize| 1.0 + 0.5 * ((rows - 1) / 4) as f64;
        let mut found = std::collections::BTreeSet::new();
        for alpha in [0.3, 0.6, 0.75, 0.85, 0.9, 0.95] {
            let tokens = |n: usize| (0..=n).map(|i| f64::powi(alpha, i as i32)).sum::<f64>();
            let goodput = |n: usize| tokens(n) / seconds(n + 1);
            let best = (0..=15).map(goodput).fold(0.0, f64::max);
            let mut lambda = 1.0;
            let mut drafts = 0;
            for _ in 0..20 {
                let prices = RowCosts::of(|count| lambda * (seconds(count + 1) - seconds(1)));
                drafts = AcceptanceRate(alpha).drafts_paid(&prices, 0.0, 15);
                lambda = goodput(drafts);
            }
            let is_last = drafts % 4 == 3 || f64::powi(alpha, drafts as i32 + 1) <= LEAST;
            assert!(is_last && lambda > 0.98 * best, "{drafts} at α = {alpha}: {lambda} of {best}");
            found.insert(drafts);
        }
        assert!(found.len() > 2, "{found:?}");
    }

    #[test]
    fn more_rows_than_have_prices_cost_what_these_do_in_the_mean() {
        let prices = RowCosts::of(|count| if count < 16 { 0.1 } else { 1.6 });
        assert_eq!((prices.all(1), prices.all(15), prices.all(32)), (0.1, 0.1, 3.2));
        assert_eq!(prices.worth([0.99; 32], 0.0), 32);
        assert_eq!(prices.worth([0.99; 32], 0.99), 0, "drafting costs all that they give");
        assert_eq!(prices.worth([0.05, 0.04, 0.02, 0.9], 0.0), 0);
    }

    #[test]
    fn the_rate_follows_what_is_judged() {
        let mut rate = AcceptanceRate::default();
        (0..400).for_each(|_| rate.observe(3, true));
        assert!((rate.get() - 0.75).abs() < 0.1, "{rate:?}");
        (0..400).for_each(|_| rate.observe(0, true));
        assert!(rate.get() < 1e-6 && rate.drafts_worth(&RowCosts::each(0.06), 64) == 0);
    }
}
