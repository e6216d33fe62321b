//! The model that the address of a request names.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, Query},
    http::request::Parts,
};

use super::{models::UnknownModel, served::Served, state::Shared};

/// Model that the address of a request names with `?model=NAME`; the first one if it names none.
#[derive(Debug)]
pub(crate) struct AddressedModel(pub(crate) Arc<Served>);

impl FromRequestParts<Arc<Shared>> for AddressedModel {
    type Rejection = UnknownModel;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Self, UnknownModel> {
        // Any query is a list of names and texts.
        let query = Query::<Vec<(String, String)>>::try_from_uri(&parts.uri).map(|Query(pairs)| pairs);
        let name = query.unwrap_or_default().into_iter().find(|(key, _)| key == "model").map(|(_, name)| name);
        shared.state.models.find(name.as_deref()).map(|model| Self(Arc::clone(model)))
    }
}
