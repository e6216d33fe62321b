//! What an edge's pace goes by, to be told.

use super::{AT_ONCE, NAMES, PATIENT, Pace, ROUNDS};
use crate::{
    policy::ahead::Plan,
    study::statistics::{AheadRecord, WayRecord},
};

impl Pace {
    /// What it goes by, to be told.
    pub fn record(&self) -> AheadRecord {
        let ms = |seconds: f64| seconds * 1e3;
        let Plan { group, patience, .. } = self.plan();
        let ways = self.ways.iter().zip(NAMES).map(|(way, name)| WayRecord {
            name,
            promised: way.promised.map(|promised| promised.speed),
            tokens_per_second: (way.measured > 0.0).then(|| 1.0 / way.seconds),
            measured: way.measured as usize,
        });
        let way = match self.fixed {
            Some(plan) if plan.is_rounds() => ROUNDS,
            Some(plan) if plan.patience > 0.0 => PATIENT,
            Some(_) => AT_ONCE,
            None => self.current,
        };
        AheadRecord {
            way: NAMES[way],
            group,
            patience_ms: ms(patience),
            lead: self.lead(),
            pass_ms: self.passes.get().map(ms),
            draft_ms: self.drafts.get().map(|(draft, further)| ms(draft + further * (group - 1) as f64) / group as f64),
            round_trip_ms: self.round_trip().map(ms),
            acceptance_rate: self.rates.first.get(),
            branches: self.branches(),
            second_rate: self.rates.second.get(),
            ways: if self.fixed.is_none() { ways.collect() } else { Vec::new() },
        }
    }
}
