//! Number of drafts that a forward pass judges: the number that gives the most tokens per second (TurboSpec calls them
//! goodput).
//!
//! A pass that judges n drafts costs 1 + c·n passes that judge none, and gives (1 − αⁿ⁺¹)/(1 − α) tokens where each
//! draft is accepted with probability α. Their ratio has one maximum: a further draft pays as long as what it adds for
//! its cost, αⁿ⁺¹/c, is above the ratio so far.
//!
//! Many sessions share a target. The n-th draft of one adds αⁿ tokens and a row of b seconds, in which all together
//! would have written λ·b tokens: its [price](Prices). It pays where αⁿ is above that, and the allocation that pays by
//! its own λ is the best of all (Dinkelbach 1967: a ratio is at its maximum where its parametric difference is zero).
//!
//! Rows differ in cost: kernels take some at a time, so that a ninth may cost as much as the four before it. Therefore
//! [costs](RowCosts) are given by the number of rows, and the number of drafts is the one that leaves the most tokens
//! above their price.

use crate::measure::Mean;

/// Usual time that a judged draft adds to a pass, as a share of a pass without drafts; used where it is not measured.
pub const ROW_COST: f64 = 0.06;

/// Weight of the last draft in the running acceptance rate.
const WEIGHT: f64 = 0.05;
/// Assumed acceptance rate before anything was judged.
pub(crate) const ACCEPTANCE_PRIOR: f64 = 0.7;
/// The same of second candidates: with the built-in pair 0.15 at temperatures 0 and 0.7.
const SECOND_PRIOR: f64 = 0.15;
/// Probability of acceptance below which a draft is not worth its bytes.
pub const LEAST: f64 = 0.02;

/// The largest number of guesses with a cost of its own; beyond it the mean cost per guess is used.
const PRICED: usize = 16;

/// Cost of judging guesses in a pass, by their number: in tokens, or as a share of a pass that judges none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowCosts {
    /// Total cost of 1, 2, … [`PRICED`] guesses.
    all: [f64; PRICED],
}

/// Prices of judging and drafting for those who share a target, in tokens that they would have written meanwhile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prices {
    /// Price of the guesses that a pass judges.
    pub rows: RowCosts,
    /// Price of a draft that the server makes itself; `None` if it has no draft model.
    pub own_draft: Option<f64>,
    /// True if the server looks guesses up in the text, which costs nothing.
    pub looks_up: bool,
}

impl Default for Prices {
    /// Prices of a single session with the usual [`ROW_COST`] and no draft model.
    fn default() -> Self {
        Self { rows: RowCosts::each(ROW_COST), own_draft: None, looks_up: false }
    }
}

impl RowCosts {
    /// Costs where every row costs the same.
    #[must_use]
    pub fn each(price: f64) -> Self {
        Self::of(|count| price * count as f64)
    }

    /// Costs from a function that gives the total cost of a number of guesses.
    #[must_use]
    pub fn of(all: impl Fn(usize) -> f64) -> Self {
        Self { all: core::array::from_fn(|index| all(index + 1)) }
    }

    /// Total cost of `count` guesses. Above 16 each costs the mean.
    pub fn all(&self, count: usize) -> f64 {
        let known = count.clamp(1, PRICED);
        self.all[known - 1] * (count as f64 / known as f64)
    }

    /// Number of guesses that leave the most tokens above their price. `paths` are the probabilities that guesses are
    /// accepted, the most probable first, and each costs `besides` more than its row. Guesses with a probability of at
    /// most [`LEAST`] are not worth their bytes.
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

    /// The number of drafts of a chain, at most `most`, that are [worth](Self::worth) their prices.
    pub fn paid(&self, acceptance: f64, besides: f64, most: usize) -> usize {
        self.worth(chain(acceptance).take(most), besides)
    }

    /// The number of drafts of a chain, at most `most`, whose judgement in one pass gives the most tokens per second;
    /// costs are shares of a pass without drafts.
    pub fn fastest(&self, acceptance: f64, most: usize) -> usize {
        let (mut tokens, mut worth, mut best) = (1.0, 0, 1.0);
        for (count, path) in (1..=most).zip(chain(acceptance).take_while(|path| *path > LEAST)) {
            tokens += path;
            let goodput = tokens / (1.0 + self.all(count));
            if goodput > best {
                (worth, best) = (count, goodput);
            }
        }
        worth
    }
}

/// Shares of guesses after right ones that were right, by their rank among the candidates for their position.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CandidateRates {
    /// The rate of first candidates.
    pub first: Mean,
    /// The rate of second candidates, whether the first was right or not.
    pub second: Mean,
}

impl Default for CandidateRates {
    fn default() -> Self {
        Self::new([ACCEPTANCE_PRIOR, SECOND_PRIOR])
    }
}

impl CandidateRates {
    /// Rates that are expected before any guess.
    pub(crate) const fn new([first, second]: [f64; 2]) -> Self {
        Self { first: Mean::exponential(first, WEIGHT), second: Mean::exponential(second, WEIGHT) }
    }

    /// Counts the candidates for a position; `right` is the rank of the right one, if any was.
    pub fn observe(&mut self, candidates: usize, right: Option<usize>) {
        for (rate, which) in [&mut self.first, &mut self.second].into_iter().zip(0..candidates) {
            rate.observe(f64::from(u8::from(right == Some(which))));
        }
    }

    /// Both rates, of which the second is at most what the first leaves.
    pub fn get(self) -> [f64; 2] {
        let first = self.first.get();
        [first, self.second.get().min(1.0 - first)]
    }
}

/// Probabilities that the first, second, … draft of a chain is accepted, where each is with probability α.
fn chain(acceptance: f64) -> impl Iterator<Item = f64> {
    core::iter::successors(Some(acceptance), move |path| Some(path * acceptance))
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
            assert_eq!(RowCosts::each(row_cost).fastest(alpha, 64), best, "α = {alpha}, c = {row_cost}");
            assert_eq!(RowCosts::each(row_cost).fastest(alpha, 1), best.min(1));
        }
    }

    /// The allocation that pays by its own λ. `seconds` is the time of a pass by the number of guesses that it judges.
    fn allocation(requests: usize, offers: &[(f64, usize)], seconds: impl Fn(usize) -> f64) -> (Vec<usize>, f64) {
        let (mut lambda, mut drafts) = (0.0, Vec::new());
        for _ in 0..20 {
            let prices = RowCosts::of(|count| lambda * (seconds(count) - seconds(0)));
            drafts = offers.iter().map(|&(rate, most)| prices.paid(rate, 0.0, most)).collect();
            let accepted: f64 =
                offers.iter().zip(&drafts).map(|(&(rate, _), &n)| chain(rate).take(n).sum::<f64>()).sum();
            lambda = (requests as f64 + accepted) / seconds(drafts.iter().sum());
        }
        (drafts, lambda)
    }

    /// The same choices as vLLM's proposer makes, which has these vectors too: sessions of different α in one pass,
    /// against all allocations.
    #[test]
    fn what_pays_is_the_best_of_all_allocations() {
        let vectors: serde_json::Value = serde_json::from_str(include_str!("../vectors/allocation.json")).unwrap();
        let number = |value: &serde_json::Value| value.as_f64().unwrap();
        let cases = vectors["cases"].as_array().unwrap();
        for case in cases {
            let offer = |offer: &serde_json::Value| (number(&offer[0]), number(&offer[1]) as usize);
            let offers: Vec<(f64, usize)> = case["offers"].as_array().unwrap().iter().map(offer).collect();
            let seconds = |count: usize| (number(&case["base"]) + number(&case["row"]) * count as f64) / 1e3;
            let (drafts, speed) = allocation(number(&case["requests"]) as usize, &offers, seconds);
            let expected: Vec<usize> = case["depths"].as_array().unwrap().iter().map(|n| number(n) as usize).collect();
            assert_eq!(drafts, expected, "{case}");
            assert!((speed / number(&case["tokensPerSecond"]) - 1.0).abs() < 1e-6, "{speed} in {case}");
        }
        assert!(cases.len() >= 40);
    }

    /// By trying all: a run of up to four rows costs the same, of up to eight half as much again, and so on, as with
    /// kernels that take four rows at a time. The best number is the end of a step, or near it, and not the first that
    /// does not pay.
    #[test]
    fn rows_that_kernels_take_together_are_judged_together() {
        let seconds = |guesses: usize| 1.0 + 0.5 * (guesses / 4) as f64;
        let mut found = std::collections::BTreeSet::new();
        for alpha in [0.3, 0.6, 0.75, 0.85, 0.9, 0.95] {
            let goodput = |n: usize| (1.0 + chain(alpha).take(n).sum::<f64>()) / seconds(n);
            let best = (0..=15).map(goodput).fold(0.0, f64::max);
            let (drafts, speed) = allocation(1, &[(alpha, 15)], seconds);
            let is_last = drafts[0] % 4 == 3 || f64::powi(alpha, drafts[0] as i32 + 1) <= LEAST;
            assert!(is_last && speed > 0.98 * best, "{drafts:?} at α = {alpha}: {speed} of {best}");
            found.insert(drafts[0]);
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

    /// A rate that has fallen to nothing makes no draft worth its row.
    #[test]
    fn drafts_that_are_never_right_are_not_judged() {
        let mut rates = CandidateRates::default();
        (0..400).for_each(|_| rates.observe(1, None));
        assert!(rates.first.get() < 1e-6 && RowCosts::each(0.06).fastest(rates.first.get(), 64) == 0);
    }
}
