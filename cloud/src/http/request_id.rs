//! Id of the request that the current task answers.

use std::sync::Arc;

use axum::http::HeaderName;

/// Header of requests and responses with the id.
pub(super) static HEADER: HeaderName = HeaderName::from_static("x-request-id");

tokio::task_local! {
    /// Id of the request, while its route runs.
    pub(super) static SCOPE: Arc<str>;
}

/// Id of the current request; `None` outside of a route.
pub(super) fn current() -> Option<Arc<str>> {
    SCOPE.try_with(Arc::clone).ok()
}
