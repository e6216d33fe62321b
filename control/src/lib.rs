//! **Tuning.** Measurements of acceptance, forward passes and links, and the choices that follow from them.
//!
//! An edge session hands every [`Observation`](observation::Observation) to its controller and follows the
//! [`Plan`](plan::Plan) that the controller gives.
//!
//! | module | what it decides |
//! |---|---|
//! | [`observation`], [`plan`] | the input and the output of an edge's controllers |
//! | [`rounds`] | when a round of drafts ends, and whether to draft at all |
//! | [`stop`] | the rules that end a round by the outlook of its next token |
//! | [`round_length`] | closed forms of TK-SLT: the best number of drafts, and whether drafting pays |
//! | [`ahead`] | the mode, group and patience of guesses that are sent ahead of a text that the target writes |
//! | [`lookup_rates`] | the chance that a looked-up guess is right, by the length of its match |
//! | [`calibration`] | the chance that a guess is right, by the clarity of its choice |
//! | [`depth`] | where a server's own drafts end, by their clarity |
//! | [`goodput`] | the number of drafts that are worth judging in a forward pass |
//! | [`pass_times`] | the time of a forward pass by its number of rows |
//! | [`engine_rates`] | prices of rows in an engine that sessions share |
//! | [`gathering`] | how long an engine waits for sessions that are about to ask again |
//! | [`link`] | the arrival of bytes over a simulated link of given rate and delay |
//! | [`measure`] | the estimates that all of them are made of |
//! | [`policy_info`] | the table entry of a gate or stop rule |
//!
//! Controllers hold no clock: times are arguments, as a [`Duration`] or as seconds. Nothing here sees a token's draw
//! before it is made, so that choices never change the distribution of the text.
//!
//! [`Duration`]: core::time::Duration
#![forbid(unsafe_code)]

pub mod ahead;
pub mod calibration;
pub mod depth;
pub mod engine_rates;
pub mod gathering;
pub mod goodput;
pub mod link;
pub mod lookup_rates;
pub mod measure;
pub mod observation;
pub mod pass_times;
pub mod plan;
pub mod policy_info;
pub mod round_length;
pub mod rounds;
pub mod stop;

#[cfg(test)]
mod tests;
