//! `outrider generate --scheme ahead --explain`: what the edge measured and chose, beside what came of it.

use std::fmt::Write;

use outrider_speculation::study::{AheadRecord, Statistics};
use serde::Serialize;

/// The edge's last measurements and choices, and the gain.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExplainedAhead {
    #[serde(flatten)]
    record: AheadRecord,
    /// Guesses that a pass found right, and how many of these were second candidates.
    in_time: usize,
    branched: usize,
    /// Tokens per second, as a multiple of the target's alone.
    speedup: f64,
}

impl ExplainedAhead {
    /// Compares a generation with one of the target `alone`; `None` if the edge did not draft ahead.
    pub fn new(statistics: &Statistics, alone: &Statistics) -> Option<Self> {
        let speedup = statistics.report().tokens_per_second / alone.report().tokens_per_second;
        let Statistics { in_time, branched, .. } = *statistics;
        Some(Self { record: statistics.ahead.clone()?, in_time, branched, speedup })
    }

    /// The comparison as a table, with the first columns of the other tables.
    pub fn text(&self) -> String {
        let AheadRecord {
            way,
            group,
            patience_ms,
            lead,
            pass_ms,
            draft_ms,
            round_trip_ms,
            acceptance_rate,
            branches,
            second_rate,
            ways,
        } = &self.record;
        let ExplainedAhead { in_time, branched, .. } = self;
        let branches = if *branches { "guessed, too" } else { "not guessed" };
        let known = |value: &Option<f64>, digits| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
        let mut text = format!(
            "way to write                   {way}: groups of {group}, a pass waits {patience_ms:.0} ms, {lead} guesses ahead\n\
             pass, draft, round trip        {}, {}, {} ms\n\
             guesses that are right         {acceptance_rate:.3} of those behind right ones, lately\n\
             second candidates              {branches}: {second_rate:.3} right; {branched} of {in_time} accepted\n\
             speed-up over the target alone {:.2}\n",
            known(pass_ms, 1),
            known(draft_ms, 2),
            known(round_trip_ms, 1),
            self.speedup,
        );
        if !ways.is_empty() {
            let _ = writeln!(text, "\n{:<30} {:<15} {:<10} over tokens", "", "promised", "tokens/s");
        }
        for way in ways {
            let (promised, speed) = (known(&way.promised, 2), known(&way.tokens_per_second, 1));
            let _ = writeln!(text, "{:<30} {promised:<15} {speed:<10} {}", way.name, way.measured);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use outrider_speculation::control::ahead::AheadController;

    use super::*;

    #[test]
    fn what_is_not_known_is_a_dash() {
        let ahead = Some((&AheadController::new(None)).into());
        let run = |seconds| Statistics { tokens: 40, elapsed: Duration::from_secs(seconds), ..Statistics::default() };
        let explained = ExplainedAhead::new(&Statistics { ahead, ..run(2) }, &run(4)).unwrap();
        let text = explained.text();
        assert!(text.contains("at once: groups of 1, a pass waits 0 ms") && text.contains("-, -, - ms"), "{text}");
        assert!(text.contains("speed-up over the target alone 2.00\n"), "{text}");
        assert_eq!(text.lines().count(), 5 + 2 + 4, "{text}");
        assert!(ExplainedAhead::new(&run(2), &run(4)).is_none(), "rounds are explained otherwise");
    }
}
