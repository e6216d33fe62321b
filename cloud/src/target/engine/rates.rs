//! What runs of a model cost, and what they gave, lately: the prices by which sessions share it.

use std::{
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use outrider_speculation::policy::goodput::ROW_COST;

/// Weight of the last run.
const WEIGHT: f64 = 0.03;
/// How much the [usual](ROW_COST) cost of a row counts beside what runs of different sizes say, as a variance of rows.
const PRIOR: f64 = 0.5;

/// Running means over the runs of a model.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    measured: Mutex<Measured>,
    /// Those of the target that this model drafts for: its tokens wait for both.
    target: OnceLock<Arc<Rates>>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Measured {
    /// Of rows and seconds of a run: means, variance and covariance.
    rows: f64,
    seconds: f64,
    variance: f64,
    covariance: f64,
    /// Seconds in which the machine was busy with tokens to come, and the tokens that came; old ones count less.
    busy: f64,
    tokens: f64,
    /// From a short pass being asked for to its judgement: what one session waits.
    wait: f64,
}

impl Rates {
    fn measured(&self) -> MutexGuard<'_, Measured> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The model drafts for a target: its runs, which all its sessions share, count once.
    pub(crate) fn draft_for(&self, target: Arc<Rates>) {
        // A model drafts for one target from its start.
        let _ = self.target.set(target);
    }

    /// A run of so many rows, `silent` of which have no logits that anybody waits for.
    pub(crate) fn ran(&self, rows: usize, silent: usize, took: Duration) {
        let (count, seconds) = (rows as f64, took.as_secs_f64());
        let wanted = rows.saturating_sub(silent) as f64 / count.max(1.0);
        if let Some(target) = self.target.get() {
            target.measured().busy += seconds * wanted;
        }
        let mut measured = self.measured();
        (measured.busy, measured.tokens) = (measured.busy * (1.0 - WEIGHT), measured.tokens * (1.0 - WEIGHT));
        measured.busy += seconds * wanted;
        // A prompt says little of what a row more or less costs.
        if silent > 0 {
            return;
        }
        if measured.seconds == 0.0 {
            (measured.rows, measured.seconds) = (count, seconds);
        }
        let (rows_off, seconds_off) = (count - measured.rows, seconds - measured.seconds);
        measured.rows += WEIGHT * rows_off;
        measured.seconds += WEIGHT * seconds_off;
        measured.variance = (1.0 - WEIGHT) * (measured.variance + WEIGHT * rows_off * rows_off);
        measured.covariance = (1.0 - WEIGHT) * (measured.covariance + WEIGHT * rows_off * seconds_off);
    }

    /// Runs gave so many tokens.
    pub(crate) fn wrote(&self, tokens: usize) {
        self.measured().tokens += tokens as f64;
    }

    /// So long a pass of one row took, from when it was asked for.
    pub(crate) fn answered(&self, after: Duration) {
        let mut measured = self.measured();
        let before = if measured.wait == 0.0 { after.as_secs_f64() } else { measured.wait };
        measured.wait = before + WEIGHT * (after.as_secs_f64() - before);
    }

    /// Seconds of such a pass, or of a run if that is longer.
    pub(crate) fn wait(&self) -> f64 {
        let wait = self.measured().wait;
        wait.max(self.run())
    }

    /// Seconds that one row more adds to a run.
    pub(crate) fn row(&self) -> f64 {
        let measured = *self.measured();
        let one = measured.seconds / (1.0 + ROW_COST * (measured.rows - 1.0).max(0.0));
        let slope = (measured.covariance + PRIOR * ROW_COST * one) / (measured.variance + PRIOR);
        slope.clamp(0.0, one)
    }

    /// Seconds of a run of one row.
    pub(crate) fn run(&self) -> f64 {
        let row = self.row();
        let measured = *self.measured();
        (measured.seconds - row * (measured.rows - 1.0)).max(row)
    }

    /// λ: tokens per second of busy time; 0 if nothing is known.
    pub(crate) fn goodput(&self) -> f64 {
        let Measured { busy, tokens, .. } = *self.measured();
        if busy > 0.0 { tokens / busy } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Runs that cost 40 ms and 5 ms a further row.
    #[test]
    fn a_row_costs_what_runs_of_different_sizes_say() {
        let rates = Rates::default();
        assert_eq!((rates.row(), rates.run(), rates.goodput()), (0.0, 0.0, 0.0));
        for _ in 0..50 {
            rates.ran(1, 0, MS * 40);
            rates.wrote(1);
        }
        // Nothing else is known: it is taken to be 6 %.
        assert!((rates.row() - 0.0024).abs() < 1e-6 && (rates.run() - 0.04).abs() < 1e-6, "{rates:?}");
        assert!((rates.goodput() - 25.0).abs() < 1e-6);
        for run in 0..400 {
            let rows = 1 + run % 8;
            rates.ran(rows as usize, 0, MS * (40 + 5 * (rows - 1)));
            rates.wrote(2);
            // What reads a prompt changes neither.
            rates.ran(64, 64, MS * 100);
        }
        assert!((rates.row() / 0.005 - 1.0).abs() < 0.1 && (rates.run() / 0.04 - 1.0).abs() < 0.05, "{rates:?}");
        let mean = 2.0 / (0.04 + 3.5 * 0.005);
        assert!((rates.goodput() / mean - 1.0).abs() < 0.1, "{} in place of {mean}", rates.goodput());
    }

    /// A target that gives two tokens in 40 ms, behind drafts of 10 ms: 40 tokens per second.
    #[test]
    fn runs_of_the_draft_model_count_once() {
        let (target, draft) = (Arc::new(Rates::default()), Rates::default());
        draft.draft_for(Arc::clone(&target));
        for _ in 0..400 {
            draft.ran(1, 0, MS * 10);
            // However many sessions waited for it, and for their place in it.
            (0..8).for_each(|_| draft.answered(MS * 30));
            target.ran(1, 0, MS * 40);
            target.wrote(2);
        }
        assert!((target.goodput() / 40.0 - 1.0).abs() < 0.02 && draft.wait() > 0.029, "{target:?}");
        // A prompt is nothing that tokens wait for again.
        draft.ran(64, 64, MS * 500);
        assert!((target.goodput() / 40.0 - 1.0).abs() < 0.02, "{target:?}");
    }
}
