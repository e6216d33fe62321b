//! **Whether to draft, and how much.** What the edge decides without the target.
//!
//! | file | what it decides |
//! |---|---|
//! | [`gate`], [`passing`] | which tokens the edge commits without asking |
//! | [`info`] | what users are told of them |
//! | [`control`] | when a round of drafts ends, and whether to draft at all |

pub mod control;
pub mod gate;
pub mod info;
pub mod passing;
