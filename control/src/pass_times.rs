//! Times of forward passes by their number of rows.
//!
//! A line through all that was timed, and steps where there are any: kernels take some rows at a time, so that one more
//! costs nothing or much. One core with weights of eight bits takes 10.3, 10.7, 14.3 and 20.2 ms for 1, 4, 8 and 9 rows
//! of a model of 135 million parameters.

use crate::measure::{Line, Mean};

/// Number of sizes of which times are kept apart: passes of 1 to 17 rows.
const SIZES: usize = 17;
/// Weight of the last pass in the line.
const WEIGHT: f64 = 0.03;
/// Weight of the assumed cost of a row against that measured from passes of different sizes, as a variance of rows.
const PRIOR: f64 = 0.5;
/// Three weights: of the line's value, in passes of a size; the most that passes of a size count for; and the part of
/// that which is kept after each pass, so that a size that came out slow once is tried again.
const LINE: f64 = 4.0;
const MOST: f64 = 32.0;
const KEPT: f64 = 0.998;

/// Recent times of passes, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PassTimes {
    /// Assumed time that a row adds before it is measured, as a share of a pass of one row.
    assumed: f64,
    /// Seconds of a pass by its rows.
    line: Line,
    /// Mean seconds by the number of rows, less one.
    by_size: [Mean; SIZES],
}

impl PassTimes {
    /// No measurements yet; a row is assumed to add the share `assumed` of a pass of one row.
    pub fn new(assumed: f64) -> Self {
        Self { assumed, line: Line::default(), by_size: [Mean::new(0.0, 0.0, MOST); SIZES] }
    }

    /// Counts a pass of `rows` rows that began with the first row of a session, in seconds.
    pub fn observe(&mut self, rows: usize, seconds: f64) {
        self.observe_shared(rows, seconds);
        self.by_size.iter_mut().for_each(|timed| timed.fade(KEPT));
        if let Some(timed) = rows.checked_sub(1).and_then(|more| self.by_size.get_mut(more)) {
            timed.observe(seconds);
        }
    }

    /// Counts a pass of `rows` rows shared by several sessions, where the rows of each begin anywhere.
    pub fn observe_shared(&mut self, rows: usize, seconds: f64) {
        self.line.observe(WEIGHT, rows as f64, seconds);
    }

    /// Seconds that one row more adds to a pass, by the line.
    pub fn row(&self) -> f64 {
        let one = self.line.y / (1.0 + self.assumed * (self.line.x - 1.0).max(0.0));
        self.line.slope(self.assumed * one, PRIOR).clamp(0.0, one)
    }

    /// Seconds of a pass of one row, by the line.
    pub fn one(&self) -> f64 {
        let row = self.row();
        (self.line.y - row * (self.line.x - 1.0)).max(row)
    }

    /// Seconds that a number of guesses adds to a pass that judges none, for 0 to `SIZES − 1`.
    pub fn added(&self) -> impl Fn(usize) -> f64 + use<> {
        let (one, row, mut longest) = (self.one(), self.row(), 0.0);
        let steps = self.by_size.map({
            let mut line = one - row;
            move |timed: Mean| {
                line += row;
                longest = f64::max(longest, (LINE * line + timed.weight() * timed.get()) / (LINE + timed.weight()));
                longest
            }
        });
        move |guesses| steps[guesses.min(SIZES - 1)] - steps[0]
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    /// Passes that cost 40 ms and 5 ms a further row.
    #[test]
    fn a_row_costs_what_passes_of_different_sizes_say() {
        let mut times = PassTimes::new(0.06);
        assert_eq!((times.row(), times.one(), times.added()(5)), (0.0, 0.0, 0.0));
        (0..50).for_each(|_| times.observe(1, 0.040));
        // Nothing else is known: it is taken to be 6 %.
        assert!((times.row() - 0.0024).abs() < 1e-6 && (times.one() - 0.04).abs() < 1e-6, "{times:?}");
        for rows in (1..=8).cycle().take(400) {
            times.observe(rows, 0.040 + 0.005 * (rows - 1) as f64);
        }
        assert!((times.row() / 0.005 - 1.0).abs() < 0.1 && (times.one() / 0.04 - 1.0).abs() < 0.05, "{times:?}");
        let added = times.added();
        assert!((added(3) / 0.015 - 1.0).abs() < 0.1 && (added(12) / 0.06 - 1.0).abs() < 0.1);
    }

    /// Kernels that take four rows at a time: 10 ms up to four rows, 14 up to eight, 22 above. The steps give the cost
    /// of further rows; for passes that sessions share, where they begin anywhere, the line through them gives it.
    #[test]
    fn steps_are_seen_where_one_session_makes_them() {
        let took = |rows: usize| [0.010, 0.014, 0.022][(rows - 1) / 4];
        let (mut apart, mut shared) = (PassTimes::new(0.06), PassTimes::new(0.06));
        for pass in 0..1200 {
            let rows = 1 + pass * 7 % 12;
            apart.observe(rows, took(rows));
            shared.observe_shared(rows, took(rows));
        }
        let found = [1, 3, 4, 7, 8, 11].map(apart.added());
        let off = [0.0, 0.0, 0.004, 0.004, 0.012, 0.012].into_iter().zip(found).map(|(right, s)| f64::abs(right - s));
        assert!(off.fold(0.0, f64::max) < 0.0007, "{found:?}");
        let (added, row) = (shared.added(), shared.row());
        assert!((added(1) - row).abs() < 1e-9 && (added(11) - 11.0 * row).abs() < 1e-9 && row > 0.0008, "{row}");
    }

    #[test]
    fn one_slow_pass_of_a_size_is_one_of_many() {
        let mut times = PassTimes::new(0.06);
        (1..=4).cycle().take(60).for_each(|rows| times.observe(rows, 0.010));
        times.observe(5, 0.030);
        let once = times.added()(4);
        (1..=4).cycle().take(2000).for_each(|rows| times.observe(rows, 0.010));
        let later = times.added()(4);
        assert!(once < 0.01 && later < 0.001, "{once} and {later}");
    }
}
