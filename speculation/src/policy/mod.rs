//! **Whether to draft, and how much.** What the edge decides without the target.
//!
//! | file | what it decides |
//! |---|---|
//! | [`gate`], [`heads`] | which tokens the edge commits without asking |
//! | [`info`] | what users are told of them |
//! | [`ahead`], [`goodput`] | how guesses are sent ahead of a text that the target writes, and how many a pass judges |
//! | [`pass_times`] | what passes take by how many guesses they judge |
//! | [`control`] | when a round of drafts ends, and whether to draft at all |

pub mod ahead;
pub mod control;
pub mod gate;
pub mod goodput;
pub mod heads;
pub mod info;
pub mod pass_times;
