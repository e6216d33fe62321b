//! Every table and figure of the papers that shows a number, and its state here.

use super::{cascades, dssd, laboratory::Laboratory, sessions::Failure, sprinter, sqs, tk_slt};
use crate::report::files::Report;

/// A table or figure of a paper.
#[derive(Debug, Clone, Copy)]
pub struct Item {
    /// The paper, as commands name it: `sqs`, `tk-slt`, `dssd`, `sprinter` or `cascades`.
    pub paper: &'static str,
    /// Name of the item: `table-1`, `figure-2`, ….
    pub name: &'static str,
    /// Description of the content, in a few words.
    pub shows: &'static str,
    /// State of the item's reproduction here.
    pub state: State,
}

/// A way to reproduce an item.
#[derive(Debug, Clone, Copy)]
pub enum State {
    /// Computed: it follows from a formula.
    Exact(fn() -> Report),
    /// Measured on a pair of ours, or on another that is given.
    Measured(fn(&mut Laboratory) -> Result<Report, Failure>),
    /// Not reproducible offline, with the reason.
    Absent(&'static str),
}

impl State {
    /// Name of the state, in a word or two.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Exact(_) => "exact",
            Self::Measured(_) => "on our models",
            Self::Absent(_) => "not offline",
        }
    }
}

const fn item(paper: &'static str, name: &'static str, shows: &'static str, state: State) -> Item {
    Item { paper, name, shows, state }
}

const HEADS: &str = "Medusa and Eagle-2 are heads beside the target, and no systems of edge and cloud";

const GEMMA: &str = "it is Figure 11 with Gemma 9B in place of 27B, and the task pair has one target";

/// All tables and figures, by paper.
pub const ITEMS: &[Item] = &[
    item(
        "sqs",
        "figure-2",
        "latency and resampling rate by temperature, K-SQS and C-SQS",
        State::Measured(sqs::figure2),
    ),
    item("sqs", "figure-4", "latency by temperature for several K and beta", State::Measured(sqs::figure4)),
    item("sqs", "figure-5", "C-SQS with an adaptive threshold and with a fixed one", State::Measured(sqs::figure5)),
    item("sqs", "figure-6", "the same as Figure 2 for several K and beta", State::Measured(sqs::figure6)),
    item("tk-slt", "figure-2", "speed-up by draft length for several L and alpha", State::Exact(tk_slt::figure2)),
    item("tk-slt", "table-1", "the best draft length by alpha and L", State::Exact(tk_slt::table1)),
    item("tk-slt", "figure-3", "alpha by K, for targets at T = 0 and 1", State::Measured(tk_slt::figure3)),
    item("tk-slt", "table-2", "L and the best draft length by K", State::Measured(tk_slt::table2)),
    item("tk-slt", "figure-4", "speed-up by K", State::Measured(tk_slt::figure4)),
    item("dssd", "table-1", "probability of a rejection and time on the link", State::Exact(dssd::table1)),
    item(
        "dssd",
        "table-2",
        "time on the link and speed-up of DSD and DSSD, equal devices",
        State::Measured(dssd::table2),
    ),
    item("dssd", "table-3", "the same with a slower device at the edge", State::Measured(dssd::table3)),
    item("sprinter", "figure-1", "quality, latency and operations, GPT-Neo", State::Measured(sprinter::figure1)),
    item("sprinter", "figure-3", "what gates tell apart, on two kinds of text", State::Measured(sprinter::figure3)),
    item("sprinter", "figure-5", "tokens until the target is asked", State::Exact(sprinter::figure5)),
    item("sprinter", "figure-6", "time until the target is asked", State::Exact(sprinter::figure6)),
    item("sprinter", "figure-7", "ROUGE by method", State::Measured(sprinter::figure7)),
    item("sprinter", "figure-9", "quality, latency and operations, GPT2", State::Measured(sprinter::figure9)),
    item("sprinter", "figure-10", "operations for 20 tokens", State::Exact(sprinter::figure10)),
    item("sprinter", "figure-12", "what gates tell apart, by lambda", State::Measured(sprinter::figure12)),
    item("sprinter", "figure-13", "the same on another kind of text", State::Measured(sprinter::figure13)),
    item("sprinter", "table-1", "which text the target finds likelier", State::Measured(sprinter::table1)),
    item("sprinter", "table-2", "latency and accepted tokens of five methods", State::Measured(sprinter::table2)),
    item("sprinter", "table-3", "Medusa and Eagle-2", State::Absent(HEADS)),
    item("sprinter", "table-4", "gates trained on another kind of text", State::Measured(sprinter::table4)),
    item("cascades", "figure-2", "quality by deferrals, Chow's rule and an oracle", State::Measured(cascades::figure2)),
    item("cascades", "figure-3", "quality by rejections, gamma = 1, by task", State::Measured(cascades::figure3)),
    item(
        "cascades",
        "figure-4",
        "quality by latency of seven methods, T = 0.5 and 1",
        State::Measured(cascades::figure4),
    ),
    item("cascades", "figure-5", "quality by latency, T = 0", State::Measured(cascades::figure5)),
    item("cascades", "figure-6", "quality by latency, T = 0.1, 0.5 and 1", State::Measured(cascades::figure6)),
    item("cascades", "figure-7", "quality by latency, top-P 0.1, 0.5 and 0.8", State::Measured(cascades::figure7)),
    item("cascades", "figure-8", "quality by latency, gamma = 3, 5 and 7", State::Measured(cascades::figure8)),
    item(
        "cascades",
        "figure-9",
        "BiLD and its variant; lossy decoding, beta tuned",
        State::Measured(cascades::figure9),
    ),
    item("cascades", "figure-10", "token-v1, v2 and v3 by latency", State::Measured(cascades::figure10)),
    item("cascades", "figure-11", "token-v1, v2 and v3 by rejections, gamma = 1", State::Measured(cascades::figure11)),
    item("cascades", "figure-12", "the same with a smaller target", State::Absent(GEMMA)),
    item(
        "cascades",
        "table-2",
        "latency at equal quality, quality at equal latency",
        State::Measured(cascades::table2),
    ),
    item("cascades", "table-5", "the same by top-P", State::Measured(cascades::table5)),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_item_is_there_once() {
        let names: BTreeSet<_> = ITEMS.iter().map(|item| (item.paper, item.name)).collect();
        assert_eq!(names.len(), ITEMS.len());
    }
}
