//! Checks before a request reaches its route: the page's origin and the client's token.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use axum::{
    extract::{ConnectInfo, Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::{access::Caller, error::ApiError, origin::Relation, quota, state::Shared, token::bearer};
use crate::log_limits::client_event;

/// Bytes of a refused origin that are logged.
const SHOWN_ORIGIN: usize = 256;

/// Refuses pages of origins that are not allowed, and gives the route the [`Caller`].
pub(crate) async fn admit(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let address = client_address(&shared, &request);
    let relation = shared.state.access.origins.relation(request.headers());
    if relation == Relation::Foreign {
        let origin = request.headers().get(header::ORIGIN).map_or(&[][..], HeaderValue::as_bytes);
        let origin = String::from_utf8_lossy(&origin[..origin.len().min(SHOWN_ORIGIN)]);
        client_event!(WARN, address, "refused a page of another site", %address, ?origin);
        let text = "Pages of this origin may not use this server; its operator can allow them with --allow-origin.";
        return ApiError::new(StatusCode::FORBIDDEN, "permission_error", text)
            .code("origin_not_allowed")
            .into_response();
    }
    request.extensions_mut().insert(Caller { address, relation });
    next.run(request).await
}

/// Address of the client that sent a request.
pub(crate) fn client_address(shared: &Shared, request: &Request) -> IpAddr {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    // In tests without a socket there is no address.
    let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(peer)| peer.ip());
    shared.state.access.proxies.client(peer, request.headers())
}

/// Refuses requests without a known token or key, if the server has any, and those beyond the key's rights and limits.
pub(crate) async fn demand_token(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let shown = bearer(request.headers());
    match shared.state.access.identify(shown) {
        Ok(None) => next.run(request).await,
        Ok(Some(key)) => {
            tracing::Span::current().record("key", key.name());
            let path = request.uri().path();
            let generates = request.method() == Method::POST && quota::TEXTS.contains(&path);
            let checked = quota::check(&key, generates, path);
            request.extensions_mut().insert(Arc::clone(&key));
            let mut response = match checked {
                Ok(()) => next.run(request).await,
                Err(error) => error.into_response(),
            };
            if generates {
                quota::report(&key, &mut response);
            }
            response
        }
        Err(refusal) => {
            let error = ApiError::new(StatusCode::UNAUTHORIZED, "authentication_error", refusal.to_string());
            let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
            (challenge, error.code("invalid_api_key").into_response()).into_response()
        }
    }
}
