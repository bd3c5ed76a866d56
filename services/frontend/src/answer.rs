//! What goes back: the one place that knows statuses and headers.

use std::sync::Arc;

use axum::Json;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use pilothouse_api::Invalid;
use pilothouse_arm::{CloudError, ErrorCode, OperationLinks, ResourceId, header};
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_http::Context;
use pilothouse_records as records;
use pilothouse_runtime::Chain;
use serde_json::Value;
use tracing::{error, warn};

use crate::condition::quoted;
use crate::refused;

/// Why a request was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// Said deliberately, for the caller to read.
    #[error("{0}")]
    Said(Box<CloudError>),
    /// The resource does not exist.
    #[error("`{0}` does not exist")]
    Missing(ResourceId),
    /// The body is wrong.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The records could not be read or written.
    #[error("the records could not be used")]
    Records(#[from] records::Error),
    /// Clusters Service said no, or nothing.
    #[error("Clusters Service did not agree")]
    ClustersService(#[from] clusters_service::Error),
}

/// A refusal on its way to where the request's id is known.
#[derive(Clone)]
struct Refused(Arc<Refusal>);

/// How an accepted request is answered.
pub(crate) enum Accepted {
    /// A PUT that made the resource.
    Created(Shown),
    /// A PUT that changed it.
    Replaced(Shown),
    /// A PATCH.
    Patched(Shown),
    /// A DELETE, or an action: there is nothing to show yet.
    Begun,
}

/// A resource as it is shown, and which version of it that is.
pub(crate) struct Shown {
    pub(crate) body: Value,
    pub(crate) etag: Option<String>,
}

/// The way to an operation.
pub(crate) struct Way {
    pub(crate) links: OperationLinks,
    pub(crate) retry_after: u32,
    /// Whether the caller will be told of the end.
    pub(crate) notifies: bool,
}

// === impl Refusal ===

impl Refusal {
    /// What the caller may read of it.
    pub(crate) fn shown(&self, request_id: &str) -> CloudError {
        match self {
            Self::Said(error) => error.as_ref().clone(),
            Self::Missing(id) => CloudError::resource_not_found(id),
            Self::Invalid(invalid) => invalid.clone().into(),
            Self::Records(records::Error::Conflict(_)) => CloudError::new(
                ErrorCode::Conflict,
                "The resource was modified by another request; try again.",
            )
            .with_status(429)
            .with_retry_after(1),
            Self::Records(records::Error::Continuation(_)) => CloudError::new(
                ErrorCode::InvalidParameter,
                "The list cannot be continued from this '$skipToken'; list again without it.",
            )
            .with_target("$skipToken"),
            Self::Records(error @ records::Error::Store(_)) => {
                error!(error = %Chain(error), "the records' store failed");
                if error.is_retryable() {
                    CloudError::unavailable("The service's store cannot be reached at the moment; try again later.")
                } else {
                    CloudError::internal(request_id)
                }
            }
            Self::ClustersService(error) => {
                refused::shown(error).unwrap_or_else(|| {
                    warn!(error = %Chain(error), "Clusters Service could not be asked");
                    if error.is_retryable() {
                        CloudError::unavailable(
                            "The request could not be checked with Clusters Service and was not accepted; try again later.",
                        )
                    } else {
                        CloudError::internal(request_id)
                    }
                })
            }
        }
    }
}

impl From<CloudError> for Refusal {
    fn from(error: CloudError) -> Self {
        Self::Said(Box::new(error))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = StatusCode::INTERNAL_SERVER_ERROR.into_response();
        response.extensions_mut().insert(Refused(Arc::new(self)));
        response
    }
}

/// Gives every answer the ids of its request, and refusals their form.
pub(crate) async fn identify(request: Request, next: Next) -> Response {
    let context = request.extensions().get::<Context>().cloned();
    let wanted = request
        .headers()
        .get(header::RETURN_CLIENT_REQUEST_ID)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"true"));
    let mut response = next.run(request).await;
    let request_id = context.as_ref().map(Context::request_id).unwrap_or_default();
    if let Some(Refused(refusal)) = response.extensions_mut().remove::<Refused>() {
        response = cloud_error(&refusal.shown(request_id));
    }
    let headers = response.headers_mut();
    insert(headers, header::REQUEST_ID, request_id);
    if let Some(context) = &context {
        if let Some(id) = context.correlation_id() {
            insert(headers, header::CORRELATION_REQUEST_ID, id);
        }
        if let Some(id) = context.client_request_id().filter(|_| wanted) {
            insert(headers, header::CLIENT_REQUEST_ID, id);
        }
    }
    response
}

pub(crate) fn cloud_error(error: &CloudError) -> Response {
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(error)).into_response();
    let headers = response.headers_mut();
    insert(headers, header::ERROR_CODE, &error.details().code);
    if let Some(seconds) = error.retry_after() {
        insert(headers, header::RETRY_AFTER, &seconds.to_string());
    }
    response
}

// === impl Accepted ===

impl Accepted {
    /// The answer, with the way to the operation.
    pub(crate) fn with(self, way: &Way) -> Response {
        let (status, shown, location) = match self {
            Self::Created(shown) => (StatusCode::CREATED, Some(shown), false),
            Self::Replaced(shown) => (StatusCode::OK, Some(shown), false),
            Self::Patched(shown) => (StatusCode::ACCEPTED, Some(shown), true),
            Self::Begun => (StatusCode::ACCEPTED, None, true),
        };
        let mut response = match shown {
            Some(shown) => shown.with(status),
            None => status.into_response(),
        };
        let headers = response.headers_mut();
        insert(headers, header::AZURE_ASYNC_OPERATION, &way.links.status);
        if location {
            insert(headers, header::LOCATION, &way.links.result);
        }
        insert(headers, header::RETRY_AFTER, &way.retry_after.to_string());
        if way.notifies {
            insert(headers, header::ASYNC_NOTIFICATION, "Enabled");
        }
        response
    }
}

// === impl Shown ===

impl Shown {
    pub(crate) fn with(self, status: StatusCode) -> Response {
        let mut response = (status, Json(self.body)).into_response();
        if let Some(etag) = self.etag {
            insert(response.headers_mut(), header::ETAG, &quoted(&etag));
        }
        response
    }
}

pub(crate) fn insert(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}
