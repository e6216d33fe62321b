//! Check of the `Host` header: a request of HTTP/1.1 has exactly one (RFC 9112, section 3.2).

use axum::{
    extract::Request,
    http::{Version, header::HOST},
    middleware::Next,
    response::{IntoResponse, Response},
};

use super::ApiError;

/// Refuses a request of HTTP/1.1 without a `Host` header, or with several.
pub(crate) async fn check(request: Request, next: Next) -> Response {
    if request.version() == Version::HTTP_11 && request.headers().get_all(HOST).iter().count() != 1 {
        return ApiError::invalid("A request of HTTP/1.1 needs exactly one Host header.").into_response();
    }
    next.run(request).await
}
