use std::fmt;

use serde::{Deserialize, Serialize};

/// What programs tell errors apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorCode {
    /// The service failed in a way the caller can do nothing about.
    InternalServerError,
    /// The service, or what it needs, cannot answer now.
    ServiceUnavailable,
    /// A parameter of the query is missing or malformed.
    InvalidParameter,
    /// One field of the request's body is wrong; the target says which.
    InvalidRequestContent,
    /// The body as a whole cannot be used.
    InvalidResource,
    /// This api-version does not have the resource type.
    InvalidResourceType,
    /// Several fields are wrong; the details say which.
    MultipleErrorsOccurred,
    /// The body is not JSON.
    UnsupportedMediaType,
    /// It is not known who calls: the token or the certificate is missing or wrong.
    AuthenticationFailed,
    /// It is known who calls, and that they may not do this.
    AuthorizationFailed,
    /// The resource is busy or was changed meanwhile.
    Conflict,
    /// The caller's condition on the etag does not hold.
    PreconditionFailed,
    /// There is nothing at this path.
    NotFound,
    /// The resource does not exist.
    ResourceNotFound,
    /// The subscription is not known here.
    SubscriptionNotFound,
    /// The resource group is not known here.
    ResourceGroupNotFound,
    /// Too much was asked for in too short a time.
    TooManyRequests,
    /// The subscription is not registered, or is suspended.
    InvalidSubscriptionState,
    /// The operation was given up for a later one.
    Canceled,
}

impl ErrorCode {
    /// The code as it is sent.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InternalServerError => "InternalServerError",
            Self::ServiceUnavailable => "ServiceUnavailable",
            Self::InvalidParameter => "InvalidParameter",
            Self::InvalidRequestContent => "InvalidRequestContent",
            Self::InvalidResource => "InvalidResource",
            Self::InvalidResourceType => "InvalidResourceType",
            Self::MultipleErrorsOccurred => "MultipleErrorsOccurred",
            Self::UnsupportedMediaType => "UnsupportedMediaType",
            Self::AuthenticationFailed => "AuthenticationFailed",
            Self::AuthorizationFailed => "AuthorizationFailed",
            Self::Conflict => "Conflict",
            Self::PreconditionFailed => "PreconditionFailed",
            Self::NotFound => "NotFound",
            Self::ResourceNotFound => "ResourceNotFound",
            Self::SubscriptionNotFound => "SubscriptionNotFound",
            Self::ResourceGroupNotFound => "ResourceGroupNotFound",
            Self::TooManyRequests => "TooManyRequests",
            Self::InvalidSubscriptionState => "InvalidSubscriptionState",
            Self::Canceled => "Canceled",
        }
    }

    /// The status an answer with this code has, unless its maker says otherwise.
    pub const fn status(self) -> u16 {
        match self {
            Self::InternalServerError => 500,
            Self::ServiceUnavailable => 503,
            Self::InvalidParameter
            | Self::InvalidRequestContent
            | Self::InvalidResource
            | Self::InvalidResourceType
            | Self::MultipleErrorsOccurred
            | Self::InvalidSubscriptionState => 400,
            Self::AuthenticationFailed => 401,
            Self::AuthorizationFailed => 403,
            Self::UnsupportedMediaType => 415,
            Self::TooManyRequests => 429,
            Self::Conflict | Self::Canceled => 409,
            Self::PreconditionFailed => 412,
            Self::NotFound
            | Self::ResourceNotFound
            | Self::SubscriptionNotFound
            | Self::ResourceGroupNotFound => 404,
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
