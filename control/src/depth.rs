//! The number of drafts before a pass, decided draft by draft: another one as long as what the chances of the line so
//! far leave for it is worth its price.
//!
//! Of a draft that is not made only the [usual rate](Depth::rate) is known; of one that is made, its
//! [clarity](crate::calibration). After an unclear choice the line ends early, and after clear ones it goes on.

use crate::{
    calibration::{Calibration, Clarity},
    goodput::Prices,
};

/// Facts by which a server's own drafts end.
#[derive(Debug, Clone, PartialEq)]
pub struct Depth {
    /// The chances of guesses by their clarity.
    pub calibration: Calibration,
    /// The usual rate at which guesses are right.
    pub rate: f64,
    /// Prices of rows and of drafts.
    pub prices: Prices,
    /// The most drafts before a pass.
    pub most: usize,
}

impl Depth {
    /// Returns true if another draft is worth its price after drafts of these clarities, which are paid for.
    pub fn goes_on(&self, drafts: impl IntoIterator<Item = Option<Clarity>>) -> bool {
        let price = self.prices.own_draft.unwrap_or(0.0);
        let made = self.paths(drafts);
        let last = made.last().copied().unwrap_or(1.0);
        let to_come = core::iter::successors(Some(last * self.rate), |path| Some(path * self.rate));
        let all = made.iter().copied().chain(to_come.map(|path| path - price));
        self.prices.rows.worth(all.take(self.most), 0.0) > made.len()
    }

    /// The chances that a draft and all before it are right; drafts of unknown clarity have the usual rate.
    fn paths(&self, drafts: impl IntoIterator<Item = Option<Clarity>>) -> Vec<f64> {
        let mut path = 1.0;
        let chance = |clarity| if Option::is_none(&clarity) { self.rate } else { self.calibration.chance(clarity) };
        drafts
            .into_iter()
            .map(|clarity| {
                path *= chance(clarity);
                path
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{goodput::RowCosts, tests::Randomness};
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    fn worth(depth: &Depth, line: &[Option<Clarity>]) -> usize {
        depth.prices.rows.worth(depth.paths(line.iter().copied()), 0.0)
    }

    fn clarity(margin: f64) -> Option<Clarity> {
        Some(Clarity { margin, probability: 0.2, run: 0 })
    }

    fn depth(row: f64, draft: f64) -> Depth {
        let prices = Prices { rows: RowCosts::each(row), own_draft: Some(draft), ..Prices::default() };
        Depth { calibration: Calibration::default(), rate: 0.7, prices, most: 16 }
    }

    #[test]
    fn a_line_of_unknown_clarity_is_as_long_as_the_usual_rate_pays() {
        let depth = depth(0.1, 0.1);
        let length = (0..).find(|&made| !depth.goes_on(vec![None; made])).unwrap();
        // 0.7⁴ = 0.24 pays for 0.2, and 0.7⁵ = 0.17 does not.
        assert_eq!((length, depth.prices.rows.paid(0.7, 0.1, 16)), (4, 4));
        assert!(!Depth { most: 3, ..depth }.goes_on([None; 3]));
    }

    #[test]
    fn a_line_ends_after_an_unclear_choice_and_goes_on_after_clear_ones() {
        let depth = depth(0.1, 0.1);
        assert!(!depth.goes_on([clarity(0.01)]) && depth.goes_on([clarity(4.0); 6]));
        assert_eq!(worth(&depth, &[clarity(4.0), clarity(4.0), clarity(0.0), clarity(0.0), clarity(0.0)]), 3);
    }

    /// Lines that end by their clarity give more tokens for their price than lines of any fixed length. The planted
    /// error, clarities of other tokens, gives no more.
    #[test]
    fn clarity_gains_over_the_best_fixed_length() {
        let (row, draft) = (0.1, 0.05);
        let goodput = |shuffles: bool, fixed: Option<usize>| {
            let (mut random, mut depth) = (Randomness::edge(5), depth(row, draft));
            let (mut tokens, mut cost) = (0.0, 0.0);
            let mut guess = || {
                let margin = -1.5 * (1.0 - random.unit()).ln();
                let u = random.unit();
                (margin, (u / (1.0 - u)).ln() < 2.0 * margin - 1.0)
            };
            for _ in 0..4000 {
                let (mut line, mut right) = (Vec::new(), Vec::new());
                while line.len() < 16
                    && fixed.map_or_else(|| depth.goes_on(line.iter().copied()), |length| line.len() < length)
                {
                    let (margin, is_right) = guess();
                    line.push(clarity(if shuffles { guess().0 } else { margin }));
                    right.push(is_right);
                }
                let judged = fixed.unwrap_or_else(|| worth(&depth, &line));
                let accepted = right.iter().take(judged).take_while(|right| **right).count();
                for (clarity, is_right) in line.iter().zip(&right).take(accepted + 1) {
                    depth.calibration.observe(*clarity, *is_right);
                }
                tokens += 1.0 + accepted as f64;
                cost += 1.0 + row * judged as f64 + draft * line.len() as f64;
                // What a pass gives is what a price is in.
                let goodput = tokens / cost;
                depth.prices = Prices {
                    rows: RowCosts::each(row * goodput),
                    own_draft: Some(draft * goodput),
                    ..Prices::default()
                };
            }
            tokens / cost
        };
        let best = (0..12).map(|length| goodput(false, Some(length))).fold(0.0, f64::max);
        let (clear, planted) = (goodput(false, None), goodput(true, None));
        assert!(clear > 1.04 * best && planted < 1.02 * best, "{clear} and {planted}, fixed {best}");
    }
}
