//! Options of `outrider generate --explain`, in programs with the feature `papers`.

use clap::Args;
use outrider_models::HeadsFile;
use outrider_speculation::{
    session::edge::Mode,
    study::{RoundRecord, Statistics},
};
use serde_json::Value;

/// A comparison with the papers' formulas, for people and for programs.
#[derive(Debug)]
pub(super) struct Explained {
    pub(super) text: String,
    pub(super) json: Value,
}

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    /// Compare the generation with the papers' predictions
    ///
    /// The server then sends its distribution for every judged draft: far more bytes than all else, and some time.
    /// Afterwards the target generates once more, alone, to compare speeds. For --scheme ahead it lists the
    /// measurements of link and models, and the expected and measured speed of each mode.
    #[cfg(feature = "papers")]
    #[arg(long, conflicts_with_all = ["cloud_only", "chat"])]
    explain: bool,
}

#[cfg(feature = "papers")]
impl ExplainArgs {
    pub(super) fn is_wanted(&self) -> bool {
        self.explain
    }

    /// Compares a generation with its prediction and with the target's own one, `alone`; `None` if a text that the
    /// target wrote has no record.
    pub(super) fn explained(
        mode: &Mode,
        heads: Option<&HeadsFile>,
        statistics: &Statistics,
        rounds: &[RoundRecord],
        alone: &Statistics,
    ) -> Result<Option<Explained>, serde_json::Error> {
        use outrider_papers::explain::{self, ExplainedAhead, gate_rates};
        let (text, json) = match mode {
            Mode::Speculative(speculation) | Mode::Auto(speculation) => {
                let gate = gate_rates(speculation, heads);
                let explained = explain::Explained::new(speculation, gate, statistics, rounds, alone);
                (explained.text(), serde_json::to_value(&explained)?)
            }
            _ => {
                let Some(explained) = ExplainedAhead::new(statistics, alone) else { return Ok(None) };
                (explained.text(), serde_json::to_value(&explained)?)
            }
        };
        Ok(Some(Explained { text, json }))
    }
}

#[cfg(not(feature = "papers"))]
impl ExplainArgs {
    pub(super) fn is_wanted(&self) -> bool {
        false
    }

    pub(super) fn explained(
        _: &Mode,
        _: Option<&HeadsFile>,
        _: &Statistics,
        _: &[RoundRecord],
        _: &Statistics,
    ) -> Result<Option<Explained>, serde_json::Error> {
        Ok(None)
    }
}
