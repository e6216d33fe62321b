//! The measurement kit of all controllers. Recent observations count more than old ones.
//!
//! | type | it estimates | users |
//! |---|---|---|
//! | [`Mean`] | a mean that starts from a prior | acceptance rates, seconds by mode and by rows |
//! | `Ratio` | the ratio of two sums that are forgotten together | seconds a draft, tokens a second, a slope |
//! | `Line` | a slope and a level | seconds of a pass by its rows |
//! | `Recent` | the last eight values, and the lowest of them | times that queues and other work add to |
//! | `Watch` | outliers and changes among times | round trips, draft times |

use core::time::Duration;
use std::collections::VecDeque;

/// Number of values that [`Recent`] keeps.
const KEPT: usize = 8;

/// The part of the mean deviation that each new one makes up.
const DEVIATION_STEP: f64 = 0.2;
/// The mean deviation before any is known, as the logarithm of a ratio.
const FIRST_DEVIATION: f64 = 0.15;
/// Number of mean deviations beyond which an observation is far off.
const FAR: f64 = 4.0;
/// A deviation that is never far off, as the logarithm of a ratio.
const NEVER_FAR: f64 = 0.05;
/// A drift: the mean deviation with its sign is this share of that without, and more than [`NEVER_DRIFT`].
const ONE_SIDED: f64 = 0.8;
const NEVER_DRIFT: f64 = 0.005;

/// A duration in seconds, from a microsecond to an hour, so that logarithms and squares stay finite.
pub(crate) fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64().clamp(1e-6, 3600.0)
}

/// A running mean that starts from a prior.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    value: f64,
    weight: f64,
    most: f64,
}

impl Mean {
    /// A mean whose prior counts as `weight` observations, and whose past never counts as more than `most`.
    pub const fn new(prior: f64, weight: f64, most: f64) -> Self {
        Self { value: prior, weight, most }
    }

    /// An exponential mean in which the last observation has this share.
    pub const fn exponential(prior: f64, share: f64) -> Self {
        Self::new(prior, 1.0 / share, 1.0 / share)
    }

    /// Counts an observation.
    pub fn observe(&mut self, value: f64) {
        self.observe_weighted(value, 1.0);
    }

    /// Counts a mean of `weight` observations.
    pub fn observe_weighted(&mut self, value: f64, weight: f64) {
        self.weight = (self.weight + weight).min(self.most);
        self.value += weight / self.weight * (value - self.value);
    }

    /// Forgets a part of what was observed; the value stays.
    pub(crate) fn fade(&mut self, memory: f64) {
        self.weight *= memory;
    }

    /// The mean of prior and observations.
    pub const fn get(&self) -> f64 {
        self.value
    }

    /// The number of observations that the mean counts for.
    pub const fn weight(&self) -> f64 {
        self.weight
    }
}

/// The ratio of two sums that are forgotten together.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Ratio {
    part: f64,
    pub(crate) whole: f64,
}

impl Ratio {
    /// Forgets a share of the past and adds to both sums.
    pub(crate) fn observe(&mut self, memory: f64, part: f64, whole: f64) {
        self.part = memory * self.part + part;
        self.whole = memory * self.whole + whole;
    }

    /// The ratio; `None` while the whole is zero.
    pub(crate) fn get(&self) -> Option<f64> {
        (self.whole > 0.0).then(|| self.part / self.whole)
    }
}

/// A line through points (x, y), by exponentially weighted moments.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Line {
    pub(crate) x: f64,
    pub(crate) y: f64,
    variance: f64,
    covariance: f64,
    is_begun: bool,
}

impl Line {
    /// Counts a point with this share.
    pub(crate) fn observe(&mut self, share: f64, x: f64, y: f64) {
        if !std::mem::replace(&mut self.is_begun, true) {
            (self.x, self.y) = (x, y);
        }
        let (x_off, y_off) = (x - self.x, y - self.y);
        self.x += share * x_off;
        self.y += share * y_off;
        self.variance = (1.0 - share) * (self.variance + share * x_off * x_off);
        self.covariance = (1.0 - share) * (self.covariance + share * x_off * y_off);
    }

    /// The slope, where a prior slope counts as points whose x have this variance.
    pub(crate) fn slope(&self, prior: f64, variance: f64) -> f64 {
        (self.covariance + variance * prior) / (self.variance + variance)
    }
}

/// The last few values of something.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recent<T>(VecDeque<T>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Recent<T> {
    pub(crate) fn observe(&mut self, value: T) {
        if self.is_full() {
            self.0.pop_front();
        }
        self.0.push_back(value);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The next value drops the oldest.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() == KEPT
    }

    /// Drops all but the last `count` values.
    pub(crate) fn keep(&mut self, count: usize) {
        self.0.drain(..self.0.len().saturating_sub(count));
    }
}

impl Recent<f64> {
    pub(crate) fn lowest(&self) -> Option<f64> {
        self.iter().copied().reduce(f64::min)
    }
}

/// Comparison of an observation with its expected range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sighting {
    /// The observation counts.
    InLine,
    /// The observation is put aside.
    Suspect,
    /// The second in a row that is far off to the same side: earlier observations no longer hold.
    Change,
}

/// Separates outliers from changes.
///
/// Times can be wrong without anything having changed: a tab in the background stalls, a packet is lost. A time that is
/// far off is put aside. If the next one is far off to the same side, the world has changed. "Far off" is four times
/// the mean deviation seen, and 5 % at least. A time that was put aside widens this a little, so that on a link that
/// leaps often its leaps become expected.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    /// Mean |ln(observed/expected)|.
    deviation: f64,
    /// Mean ln(observed/expected): off zero where the expectation lags.
    drift: f64,
    /// The last observation was put aside; `true` if it was above its range.
    suspect: Option<bool>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self { deviation: FIRST_DEVIATION, drift: 0.0, suspect: None }
    }

    /// Compares an observation with its expected range; all above zero.
    pub(crate) fn sight(&mut self, observed: f64, low: f64, high: f64) -> Sighting {
        let off = if observed > high { (observed / high).ln() } else { (observed / low).ln().min(0.0) };
        let limit = (FAR * self.deviation).max(NEVER_FAR);
        // A range does not show how far off its observations are.
        if low == high || off.abs() > limit {
            self.deviation += DEVIATION_STEP * (off.abs().min(limit) - self.deviation);
            self.drift += DEVIATION_STEP * (off.clamp(-limit, limit) - self.drift);
        }
        let above = off > 0.0;
        if off.abs() <= limit {
            self.suspect = None;
            Sighting::InLine
        } else if self.suspect == Some(above) {
            self.suspect = None;
            Sighting::Change
        } else {
            self.suspect = Some(above);
            Sighting::Suspect
        }
    }

    /// True if observations lie to one side of their expectation.
    pub(crate) fn drifts(&self) -> bool {
        self.drift.abs() > (ONE_SIDED * self.deviation).max(NEVER_DRIFT)
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "wasm32")]
    use wasm_bindgen_test::wasm_bindgen_test as test;

    use super::*;

    /// The prior counts for twenty guesses, and observations for the last hundred or so.
    #[test]
    fn a_mean_leans_on_its_prior_and_forgets() {
        let mut rate = Mean::new(0.7, 20.0, 100.0);
        (0..20).for_each(|_| rate.observe(1.0));
        assert!((rate.get() - (20.0 * 0.7 + 20.0) / 40.0).abs() < 0.01, "{rate:?}");
        for right in [0.9, 0.5] {
            (0..400).for_each(|n| rate.observe(f64::from(u8::from(f64::from(n % 10) < 10.0 * right))));
            assert!((rate.get() - right).abs() < 0.03, "{rate:?}, {right}");
        }
        (0..12).for_each(|_| rate.observe(0.0));
        assert!(rate.get() > 0.43, "a dozen says little: {rate:?}");
    }

    #[test]
    fn an_exponential_mean_follows_its_observations() {
        let mut rate = Mean::exponential(0.7, 0.05);
        rate.observe(1.0);
        assert!((rate.get() - 0.715).abs() < 1e-12);
        (0..1600).for_each(|n| rate.observe(f64::from(u8::from(n % 4 < 3))));
        assert!((rate.get() - 0.75).abs() < 0.1, "{rate:?}");
        (0..400).for_each(|_| rate.observe(0.0));
        assert!(rate.get() < 1e-6, "{rate:?}");
    }

    #[test]
    fn only_the_last_eight_values_count() {
        let mut recent = Recent::default();
        assert_eq!(recent.lowest(), None);
        (0..20).for_each(|n| recent.observe(f64::from(n)));
        assert!(recent.is_full() && recent.lowest() == Some(12.0));
        recent.keep(3);
        assert_eq!((recent.len(), recent.lowest()), (3, Some(17.0)));
    }
}
