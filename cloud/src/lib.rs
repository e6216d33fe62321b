//! **Server.** The target model behind a WebSocket, the `outrider` command line, and a native edge.
//!
//! | module | what it does |
//! |---|---|
//! | [`hub`] | models by their names on Hugging Face's hub |
//! | [`pair`] | where the draft, the target and their tokenizer come from |
//! | [`chat`] | where a model's chat template comes from |
//! | [`target`] | who judges rounds: the engine on the CPU or a device, or the gateway to an engine elsewhere |
//! | [`metrics`] | what is counted, for `/metrics` |
//! | [`session`] | drives one session: state machine, target, time limits |
//! | [`sessions`] | the sessions, by name and by address; which of them give way |
//! | [`wire`] | a connection as two streams of bytes |
//! | [`app`] | the axum routes: page, draft model, WebSocket, probes; who may use them, and how much |
//! | [`openai`] | the target alone, as OpenAI's API |
//! | [`edge`] | drafts natively and speaks to a server, or to a session in the same process |
//! | `both_ends` | sessions in this process for the experiments of `outrider-papers`, with the feature `papers` |
//! | [`cli`] | the `outrider` command: `serve`, `generate`, `check`, `bench`, and those of researchers |
//!
//! A round on the server: [`app`] turns WebSocket messages into bytes, [`session`] gives them to the state machine of
//! `outrider-speculation`, takes the pass it asks for to the [`target`], where it waits for the passes of other
//! sessions to share one run of the target, and sends what the state machine makes of the judgement.

pub mod app;
#[cfg(feature = "papers")]
pub mod both_ends;
pub mod chat;
pub mod cli;
pub mod edge;
mod heavy;
pub mod hub;
mod log_limits;
mod log_writer;
pub mod metrics;
pub mod openai;
pub mod pair;
mod places;
mod rotation;
pub mod session;
pub mod sessions;
pub mod target;
pub mod wire;
