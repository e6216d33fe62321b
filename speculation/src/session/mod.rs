//! **Sessions.** The two state machines of a session, without a socket, a model or a clock.
//!
//! | file | what it is |
//! |---|---|
//! | [`edge`] | the edge's side |
//! | [`edge_driver`] | its driver, over any socket and clock |
//! | [`cloud`] | the cloud's side |
//! | `tree` | guesses at a text, at both ends |
//! | [`options`] | drafting options as users give them |

pub mod cloud;
pub mod edge;
pub mod edge_driver;
pub mod options;
mod tree;
