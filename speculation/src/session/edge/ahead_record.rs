//! The record of an [`AheadController`]: its measurements and its choice, in the units of reports.

use crate::{
    control::ahead::AheadController,
    study::statistics::{AheadRecord, WayRecord},
};

impl From<&AheadController> for AheadRecord {
    fn from(controller: &AheadController) -> Self {
        let ms = |seconds: f64| seconds * 1e3;
        let plan = controller.plan();
        let group = plan.group;
        let ways = controller.scores().map(|(mode, score)| WayRecord {
            name: mode.name(),
            promised: score.promised.map(|promised| promised.speed),
            tokens_per_second: score.tokens_per_second(),
            measured: score.measured() as usize,
        });
        let [first, second] = controller.shares();
        let of_a_group = |(draft, further): (f64, f64)| ms(draft + further * (group - 1) as f64) / group as f64;
        Self {
            way: plan.mode.name(),
            group,
            patience_ms: ms(plan.patience),
            lead: plan.lead,
            pass_ms: controller.pass().map(ms),
            draft_ms: controller.draft().map(of_a_group),
            round_trip_ms: controller.round_trip().map(ms),
            acceptance_rate: first,
            branches: plan.branches,
            second_rate: second,
            ways: ways.collect(),
        }
    }
}
