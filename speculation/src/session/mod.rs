//! **Who says what when.** The two state machines of a session, without a socket, a model or a clock.
//!
//! | file | what it is |
//! |---|---|
//! | [`edge`] | the edge's side |
//! | [`cloud`] | the cloud's side |
//! | [`options`] | how to draft, as users say it |

pub mod cloud;
pub mod edge;
pub mod options;
