//! What goes wrong, for those who run the server and for those who ask it something.

use http::StatusCode;
use pilothouse_http::BindError;
use pilothouse_maestro_api::{ErrorBody, InvalidEvent};
use pilothouse_runtime::StillRunning;
use pilothouse_store as store;

use crate::link::LinkSetupError;
use crate::server::access::AccessError;
use crate::server::search::InvalidSearch;

/// Why the server does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A port cannot be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The connection to the broker cannot be set up.
    #[error(transparent)]
    Broker(#[from] LinkSetupError),
    /// The store cannot be read or written.
    #[error("Maestro's store cannot be used")]
    Store(#[from] store::Error),
    /// Callers cannot be told apart as configured.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// A name that cannot be part of a topic.
    #[error("`{0}` cannot be the name of a source or consumer; use lower-case letters, digits and hyphens")]
    Name(String),
    /// Something did not end in time.
    #[error("the Maestro server was stopped before everything had ended")]
    Drain(#[from] StillRunning),
}

/// Why a request is refused. Both interfaces answer with the same numbers.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("{0}")]
    Conflict(String),
    #[error("{kind} with id='{id}' not found")]
    NotFound { kind: &'static str, id: String },
    #[error("{0}")]
    Invalid(String),
    /// A parameter that cannot be.
    #[error("{0}")]
    BadRequest(String),
    /// A body that cannot be read.
    #[error("{0}")]
    Malformed(String),
    #[error("{0}")]
    Forbidden(String),
    #[error(transparent)]
    Search(#[from] InvalidSearch),
    #[error("the request cannot be carried out at the moment; try again")]
    Store(#[source] store::Error),
}

impl Refusal {
    pub(super) fn code(&self) -> u16 {
        match self {
            Self::Forbidden(_) => 4,
            Self::Conflict(_) => 6,
            Self::NotFound { .. } => 7,
            Self::Invalid(_) => 8,
            Self::Store(_) => 9,
            Self::Malformed(_) => 17,
            Self::Search(_) | Self::BadRequest(_) => 21,
        }
    }

    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::Conflict(_) => StatusCode::CONFLICT,
            Self::NotFound { .. } => StatusCode::NOT_FOUND,
            Self::Invalid(_) | Self::Search(_) | Self::BadRequest(_) | Self::Malformed(_) => {
                StatusCode::BAD_REQUEST
            }
            Self::Store(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub(super) fn body(&self, operation_id: &str) -> ErrorBody {
        error_body(self.code(), self.to_string(), operation_id)
    }
}

/// An error as REST shows it.
pub(super) fn error_body(code: u16, reason: String, operation_id: &str) -> ErrorBody {
    ErrorBody {
        kind: "Error".to_owned(),
        id: code.to_string(),
        href: format!("/api/maestro/v1/errors/{code}"),
        code: format!("maestro-{code}"),
        reason,
        operation_id: operation_id.to_owned(),
    }
}

impl From<store::Error> for Refusal {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::Conflict(conflict) => Self::Conflict(conflict.to_string()),
            store::Error::Invalid { .. } => Self::Invalid(error.to_string()),
            other => Self::Store(other),
        }
    }
}

impl From<InvalidEvent> for Refusal {
    fn from(error: InvalidEvent) -> Self {
        Self::Invalid(pilothouse_runtime::Chain(&error).to_string())
    }
}
