//! Why a request is not carried out, and the one place that knows ARM's shape of it.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, StatusCode};
use pilothouse_arm::dns::MalformedRecordSet;
use pilothouse_arm::{CloudError, ErrorCode, ResourceId, header};
use pilothouse_http::Context;
use pilothouse_runtime::Chain;
use tracing::error;

use crate::provider::Kind;

/// Why a request is not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("there is nothing at this path")]
    NoSuchPath,
    #[error("this path names nothing that could be kept: {0}; use shorter names")]
    Path(String),
    #[error("the method is not allowed here")]
    Method,
    #[error("the query parameter `api-version` is missing or not a date")]
    ApiVersion,
    #[error("the query parameter `$top` is a number from 1 to {0}")]
    Top(usize),
    #[error("the query parameter `$skipToken` leads nowhere any more; begin the list again without it")]
    SkipToken,
    #[error(
        "what a secret says is told to some only: whom `secret_readers` of the cloud names, by a certificate"
    )]
    NotForYou,
    #[error("the body cannot be used: {0}")]
    Body(String),
    #[error("`{0}` is not a type of resource that exists here")]
    UnknownType(String),
    #[error("`{0}` does not exist")]
    NotFound(ResourceId),
    #[error("`{id}` is in `{location}`; it cannot be moved")]
    Moved { id: ResourceId, location: String },
    #[error("`{0}` exists already, and was to be made; use another name, or name its etag in If-Match")]
    Exists(ResourceId),
    #[error("`{0}` does not exist, and was to be there; leave out If-Match to make it")]
    Gone(ResourceId),
    #[error("`{0}` is not what it was when it was read; read it again")]
    Changed(ResourceId),
    #[error("the header `{0}` is not one that is understood; If-None-Match is `*`, If-Match `*` or an etag")]
    Condition(&'static str),
    #[error(
        "`{0}` is not a name of a zone or a record set; parts are letters, digits, hyphens, at most 63 each"
    )]
    Name(String),
    #[error(
        "`{0}` is not a name of a vault or a secret; those are letters, digits, hyphens, a vault's 3 to 24 of them that begin with a letter"
    )]
    VaultName(String),
    #[error("`{0}` is the zone's own name, whose name servers and real name are the cloud's to say")]
    Apex(ResourceId),
    #[error("`{id}` cannot be beside the {other} of that name: an alias has no other records; delete one")]
    Alias { id: ResourceId, other: &'static str },
    #[error(transparent)]
    RecordSet(#[from] MalformedRecordSet),
    #[error("`{0}` is the region's own: every cluster's name is in it, and nobody may delete it")]
    Regional(ResourceId),
    #[error("`{0}` changes too often; try again")]
    Busy(ResourceId),
    #[error("the store failed")]
    Store(#[from] pilothouse_store::Error),
}

impl Refusal {
    pub(crate) fn answer(self, context: &Context) -> Response {
        let text = self.to_string();
        let cloud_error = match &self {
            Self::NoSuchPath => CloudError::path_not_found(),
            Self::Method => CloudError::new(ErrorCode::NotFound, text).with_status(405),
            Self::ApiVersion => CloudError::new(ErrorCode::InvalidParameter, text).with_target("api-version"),
            Self::Path(_) => CloudError::new(ErrorCode::InvalidParameter, text),
            Self::Top(_) => CloudError::new(ErrorCode::InvalidParameter, text).with_target("$top"),
            Self::SkipToken => CloudError::new(ErrorCode::InvalidParameter, text).with_target("$skipToken"),
            Self::NotForYou => CloudError::new(ErrorCode::AuthorizationFailed, text),
            Self::Body(_) | Self::RecordSet(_) => CloudError::new(ErrorCode::InvalidRequestContent, text),
            Self::Condition(header) => CloudError::new(ErrorCode::InvalidParameter, text).with_target(header),
            Self::Name(_) | Self::VaultName(_) => CloudError::new(ErrorCode::InvalidResource, text),
            Self::Apex(id) => CloudError::new(ErrorCode::InvalidResource, text).with_target(id),
            Self::UnknownType(_) => {
                let message = format!("{text}; the types are {}", Kind::names());
                CloudError::new(ErrorCode::InvalidResourceType, message)
            }
            Self::NotFound(id) => CloudError::resource_not_found(id),
            Self::Exists(id) | Self::Gone(id) | Self::Changed(id) => {
                CloudError::new(ErrorCode::PreconditionFailed, text).with_target(id)
            }
            Self::Moved { id, .. } | Self::Alias { id, .. } | Self::Regional(id) | Self::Busy(id) => {
                CloudError::conflict(id, text)
            }
            Self::Store(store) => {
                error!(error = %Chain(&self), "a request failed");
                if store.is_retryable() {
                    CloudError::unavailable("the store is not available; try again")
                } else {
                    CloudError::internal(context.request_id())
                }
            }
        };
        let status = StatusCode::from_u16(cloud_error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(&cloud_error)).into_response();
        let headers = response.headers_mut();
        for (name, value) in [
            (header::ERROR_CODE, cloud_error.details().code.as_str()),
            (header::REQUEST_ID, context.request_id()),
        ] {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(name, value);
            }
        }
        response
    }
}
