//! Recent costs and yields of a model's runs: the prices by which sessions share it.

use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::{
    goodput::{ROW_COST, RowCosts},
    measure::{Mean, Ratio},
    pass_times::PassTimes,
};

/// Weight of the last run.
const WEIGHT: f64 = 0.03;
/// Sessions of a run, in the mean, above which the rows of one begin anywhere, so that each costs the same.
const SHARED: f64 = 1.5;

/// Running means over the runs of a model.
#[derive(Debug, Default)]
pub struct EngineRates {
    measured: Mutex<Measured>,
    /// Rates of the target that this model drafts for: its tokens wait for both.
    target: OnceLock<Arc<EngineRates>>,
}

#[derive(Debug, Clone, Copy)]
struct Measured {
    /// Seconds of runs by their number of rows.
    times: PassTimes,
    /// Mean number of sessions of a run.
    sessions: Mean,
    /// λ, the tokens per second of the time in which the machine was busy with tokens to come.
    goodput: Ratio,
    /// Seconds from a request for a short pass to its judgement: the wait of one session.
    wait: Option<Mean>,
}

impl Default for Measured {
    fn default() -> Self {
        Self {
            times: PassTimes::new(ROW_COST),
            sessions: Mean::exponential(1.0, WEIGHT),
            goodput: Ratio::default(),
            wait: None,
        }
    }
}

impl EngineRates {
    fn measured(&self) -> MutexGuard<'_, Measured> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The model drafts for a target: its runs, which all its sessions share, count once.
    pub fn draft_for(&self, target: Arc<EngineRates>) {
        // A model drafts for one target from its start.
        let _ = self.target.set(target);
    }

    /// Counts a run of rows of several sessions; `silent` rows have no logits that a session waits for.
    pub fn ran(&self, sessions: usize, rows: usize, silent: usize, took: Duration) {
        let seconds = took.as_secs_f64();
        let wanted = rows.saturating_sub(silent) as f64 / rows.max(1) as f64;
        if let Some(target) = self.target.get() {
            target.measured().goodput.observe(1.0, 0.0, seconds * wanted);
        }
        let mut measured = self.measured();
        measured.goodput.observe(1.0 - WEIGHT, 0.0, seconds * wanted);
        // A prompt says little of what a row more or less costs.
        if silent > 0 {
            return;
        }
        measured.sessions.observe(sessions as f64);
        match sessions {
            1 => measured.times.observe(rows, seconds),
            _ => measured.times.observe_shared(rows, seconds),
        }
    }

    /// Counts the time of a pass that wrote no text, as that of a session alone.
    pub fn timed(&self, rows: usize, took: Duration) {
        self.measured().times.observe(rows, took.as_secs_f64());
    }

    /// Counts tokens that runs gave.
    pub fn wrote(&self, tokens: usize) {
        self.measured().goodput.observe(1.0, tokens as f64, 0.0);
    }

    /// Counts the time of a pass of one row, from its request.
    pub fn answered(&self, after: Duration) {
        let seconds = after.as_secs_f64();
        self.measured().wait.get_or_insert(Mean::exponential(seconds, WEIGHT)).observe(seconds);
    }

    /// Seconds of such a pass, or of a run if that is longer.
    pub fn wait(&self) -> f64 {
        let Measured { wait, times, .. } = *self.measured();
        wait.map_or(0.0, |wait| wait.get()).max(times.one())
    }

    /// Seconds that a number of guesses of a session add to a run.
    fn added(&self) -> impl Fn(usize) -> f64 + use<> {
        let Measured { times, sessions, .. } = *self.measured();
        let (row, added) = (times.row(), times.added());
        move |guesses| if sessions.get() > SHARED { row * guesses as f64 } else { added(guesses) }
    }

    /// Seconds of a run of a session alone, by its number of rows; 0 if nothing is known.
    pub fn run(&self) -> impl Fn(usize) -> f64 + use<> {
        let Measured { times, .. } = *self.measured();
        let (one, added) = (times.one(), times.added());
        move |rows| one + added(rows.saturating_sub(1))
    }

    /// λ, the tokens per second of busy time; 0 if nothing is known.
    pub fn goodput(&self) -> f64 {
        self.measured().goodput.get().unwrap_or(0.0)
    }

    /// Prices of a session's guesses in a run: the tokens that all sessions would write meanwhile.
    pub fn row_prices(&self) -> RowCosts {
        let (goodput, added) = (self.goodput(), self.added());
        RowCosts::of(|guesses| goodput * added(guesses))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Runs that cost 40 ms up to four rows and 60 above, of one session or of three: where sessions share them each
    /// row costs the same.
    #[test]
    fn rows_are_priced_by_who_makes_the_runs() {
        let took = |rows: usize| MS * if rows > 4 { 60 } else { 40 };
        for sessions in [1, 3] {
            let rates = EngineRates::default();
            assert_eq!((rates.added()(3), rates.wait(), rates.goodput()), (0.0, 0.0, 0.0));
            // A pass in advance says what rows take, and nothing of tokens.
            rates.timed(1, MS * 40);
            assert_eq!((rates.wait(), rates.goodput()), (0.040, 0.0));
            for rows in (1..=8).cycle().take(800) {
                rates.ran(sessions, rows, 0, took(rows));
                rates.wrote(2);
                // What reads a prompt changes nothing.
                rates.ran(1, 64, 64, MS * 100);
            }
            let [three, four, six] = [3, 4, 6].map(rates.added());
            if sessions == 1 {
                assert!(three < 0.002 && four > 0.018 && six < 0.022, "{three}, {four}, {six}");
            } else {
                assert!((six - 2.0 * three).abs() < 1e-9 && six > 0.01, "{three}, {four}, {six}");
            }
            assert!((rates.goodput() - 40.0).abs() < 4.0, "{}", rates.goodput());
        }
    }

    /// A target that gives two tokens in 40 ms, after drafts of 10 ms: 40 tokens per second.
    #[test]
    fn runs_of_the_draft_model_count_once() {
        let (target, draft) = (Arc::new(EngineRates::default()), EngineRates::default());
        draft.draft_for(Arc::clone(&target));
        for _ in 0..400 {
            draft.ran(1, 1, 0, MS * 10);
            // However many sessions waited for it, and for their place in it.
            (0..8).for_each(|_| draft.answered(MS * 30));
            target.ran(1, 1, 0, MS * 40);
            target.wrote(2);
        }
        assert!((target.goodput() / 40.0 - 1.0).abs() < 0.02 && draft.wait() > 0.029, "{target:?}");
        // A prompt is nothing that tokens wait for again.
        draft.ran(1, 64, 64, MS * 500);
        assert!((target.goodput() / 40.0 - 1.0).abs() < 0.02, "{target:?}");
    }
}
