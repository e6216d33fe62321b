//! **Who says what when.** The two state machines of a session, without a socket, a model or a clock.
//!
//! | file | what it is |
//! |---|---|
//! | [`edge`] | the edge's side |
//! | [`edge_driver`] | what runs it over any socket and clock |
//! | [`cloud`] | the cloud's side |
//! | `tree` | guesses at a text, at both ends |
//! | [`options`] | how to draft, as users say it |

pub mod cloud;
pub mod edge;
pub mod edge_driver;
pub mod options;
mod tree;
