//! State, errors and admission shared by all HTTP routes. The routes are in [`app`](crate::app) and
//! [`openai`](crate::openai), which build on this module.
//!
//! | module | contents |
//! |---|---|
//! | `state` | settings and handles that all routes read |
//! | `error` | errors in the shape of OpenAI's API |
//! | `admission` | the checks before a request reaches its route |
//! | `host` | the check of the `Host` header |
//! | `access_log`, `request_id` | request ids, and a line of the log for each request |
//! | `access` | the policy of these checks: origins, tokens, proxies, evidence |
//! | `origin` | sites whose pages may use the server |
//! | `token` | bearer tokens |
//! | `quota` | rights and limits of a request's key |
//! | `client_address` | the client's address, through trusted proxies |
//! | `models`, `served` | the served models by name; what each of them has |
//! | `addressed_model` | the model that a request's address names |
//! | `pair_file` | files for browsers, with ranges and compressed forms |
//!
//! Limits per address are in `address_limits`, beside this module, since they also count sessions and connections.

use std::sync::Arc;

use futures_util::{Stream, stream};

mod access;
pub(crate) mod access_log;
mod addressed_model;
pub(crate) mod admission;
mod client_address;
mod error;
pub(crate) mod host;
mod models;
mod origin;
mod pair_file;
mod quota;
mod request_id;
mod served;
mod state;
pub(crate) mod token;

pub(crate) use self::{
    access::Caller, addressed_model::AddressedModel, error::sentence, models::UnknownModel, state::Shared,
};
pub use self::{
    access::{Access, EvidencePolicy},
    client_address::Proxies,
    error::ApiError,
    models::Models,
    origin::{Origin, OriginError, Origins},
    pair_file::PairFile,
    served::{Elsewhere, Served},
    state::{AppState, Caps},
    token::{Tokens, TokensError},
};

/// Makes the items of a stream with the id of the current request, as its route does.
pub(crate) fn within_request<S: Stream>(stream: S) -> impl Stream<Item = S::Item> {
    let id = request_id::current();
    let mut stream = Box::pin(stream);
    stream::poll_fn(move |context| {
        let mut poll = || stream.as_mut().poll_next(context);
        match &id {
            Some(id) => request_id::SCOPE.sync_scope(Arc::clone(id), poll),
            None => poll(),
        }
    })
}
