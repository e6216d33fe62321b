//! The papers' tables and figures, each by its own experiment: `outrider reproduce`.
//!
//! What follows from a formula is computed. What was measured on models is measured on ours: acceptance and bits are
//! those of real sessions of a trained pair with real codes. Seconds are those of a [virtual clock](clock) that knows
//! the times of passes of models of the papers' shapes here, and the papers' links. Items without an experiment say
//! why.
//!
//! | module | what it has |
//! |---|---|
//! | [`items`] | every table and figure, and where it stands |
//! | `sqs`, `tk_slt`, `dssd`, `sprinter`, `cascades` | the experiments, by paper |
//! | [`sessions`] | a pair with both ends in this process |
//! | [`laboratory`] | what the experiments share: the pair, its prompts, times of passes |
//! | [`data`] | prompts and references of a user's own |
//! | [`metric`] | quality of answers beside references |
//! | [`grid`] | any settings on any prompts: `outrider sweep` |
//! | [`records`] | every text that was written, for a CSV file |
//! | `timing` | times of forward passes on this machine |
//! | [`clock`] | what rounds take over a link, by what is known of its parts |

pub(crate) mod cascades;
pub mod clock;
pub mod data;
pub mod dssd;
pub mod grid;
pub mod items;
pub mod laboratory;
pub mod metric;
pub mod records;
pub mod sessions;
mod sprinter;
mod sqs;
mod table;
mod timing;
mod tk_slt;
