//! **Server.** The target model served over a WebSocket, the `outrider` command line, and a native edge.
//!
//! | module | contents |
//! |---|---|
//! | [`hub`] | models by their names on Hugging Face's hub |
//! | [`pair`] | the draft, the target and their tokenizer: given files or the built-in pair |
//! | [`chat`] | the chat template of a model |
//! | [`target`] | the judges of rounds: the engine on the CPU or a device, or the gateway to an engine elsewhere |
//! | [`metrics`] | metrics for `/metrics` |
//! | [`session`] | drives one session: state machine, target, time limits |
//! | [`sessions`] | the open sessions, by id and by address; which of them give way |
//! | [`wire`] | a connection as two streams of bytes |
//! | [`http`] | state, errors, admission and access, shared by the routes |
//! | [`keys`] | named keys of clients, with rights, limits and usage |
//! | `address_limits` | limits on the sessions and connections of one address |
//! | `blocking` | work that would block the runtime, in turns of the clients |
//! | [`app`] | the axum routes: page, draft model, WebSocket, probes |
//! | [`openai`] | the target alone, through OpenAI's API |
//! | [`api_drafting`] | drafts for texts of the API |
//! | [`edge`] | drafts natively and speaks to a server, or to a session in the same process |
//! | [`rules_file`] | acceptance rules from a file of expressions |
//! | `both_ends` | sessions in this process for the experiments of `outrider-papers`, with the feature `papers` |
//! | `version` | version of the program and its commit |
//! | [`cli`] | the `outrider` command: `serve`, `generate`, `check`, `bench`, and those of researchers |
//!
//! A round on the server: [`app`] turns WebSocket messages into bytes, and [`session`] gives them to the state machine
//! of `outrider-speculation`. The state machine asks for a pass, which the [`target`] runs in one batch with the passes
//! of other sessions. The session sends the frames that the state machine makes of the judgement.

mod address_limits;
pub mod api_drafting;
pub mod app;
mod blocking;
#[cfg(feature = "papers")]
pub mod both_ends;
pub mod chat;
pub mod cli;
pub mod edge;
pub mod http;
pub mod hub;
pub mod keys;
mod log_filter;
mod log_limits;
mod log_writer;
pub mod metrics;
pub mod openai;
#[cfg(feature = "otel")]
mod otel;
pub mod pair;
mod rotation;
pub mod rules_file;
pub mod sampling;
pub mod session;
pub mod sessions;
pub mod shaping;
pub mod target;
mod version;
pub mod wire;
