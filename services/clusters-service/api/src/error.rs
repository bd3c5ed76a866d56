use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use pilothouse_http::CallError;
use serde::{Deserialize, Serialize};

/// The field that a [`Detail`] points at when a domain prefix is taken or not a label.
pub const DOMAIN_PREFIX: &str = "domain_prefix";

/// What a [`Detail`] points at when no management cluster can take another cluster.
pub const PROVISION_SHARD: &str = "provision_shard";

/// Why a call did not bring what was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The service answered and said no.
    #[error("Clusters Service refused: {}", .0.reason)]
    Refused(Box<ErrorBody>),
    /// The service knows who asks, and lets nobody of that name in.
    #[error("Clusters Service lets nobody in who shows this certificate: {0}")]
    NotAllowed(String),
    /// There was no answer, or half of one.
    #[error("Clusters Service could not be asked")]
    Unreachable(#[from] CallError),
    /// The answer is none that this client knows.
    #[error("Clusters Service answered {status} with something unreadable")]
    Unreadable {
        /// The status.
        status: StatusCode,
        /// What is wrong with the body.
        #[source]
        source: Option<serde_json::Error>,
    },
    /// Nothing came on a watch for so long that nobody can be there any more.
    #[error("Clusters Service has said nothing for {} s on a watch", .0.as_secs_f32())]
    Silent(Duration),
    /// The client was given an address that cannot be a base.
    #[error("`{0}` is not an address that Clusters Service could have")]
    Address(String),
}

/// An error as the service writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// Always `Error`.
    pub kind: String,
    /// The HTTP status as a number.
    pub status: u16,
    /// The status as text.
    pub id: String,
    /// Where the kind of error is described.
    pub href: String,
    /// `CLUSTERS-MGMT-<id>`.
    pub code: String,
    /// What is wrong and what to do, for people.
    pub reason: String,
    /// The id of the request, found again in the service's log.
    pub operation_id: String,
    /// Which fields are wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<Detail>,
    /// When.
    pub timestamp: Timestamp,
}

/// One field that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Detail {
    /// A code for programs, such as `DomainPrefixTaken`.
    pub code: String,
    /// The field's path in the request, such as `domain_prefix`.
    pub target: String,
    /// What is wrong with it, for people.
    pub message: String,
}

impl Error {
    /// The service's own answer, if it gave one.
    pub fn body(&self) -> Option<&ErrorBody> {
        match self {
            Self::Refused(body) => Some(body),
            Self::NotAllowed(_)
            | Self::Unreachable(_)
            | Self::Unreadable { .. }
            | Self::Silent(_)
            | Self::Address(_) => None,
        }
    }

    /// The fields that are wrong, as far as the service named any.
    pub fn details(&self) -> &[Detail] {
        self.body().map_or(&[], |body| &body.details)
    }

    /// Whether there is no such thing.
    pub fn is_not_found(&self) -> bool {
        self.has_status(StatusCode::NOT_FOUND)
    }

    /// Whether it clashes with what is there.
    pub fn is_conflict(&self) -> bool {
        self.has_status(StatusCode::CONFLICT)
    }

    /// Whether whoever asks shows the certificate of somebody who may not.
    pub fn is_not_allowed(&self) -> bool {
        matches!(self, Self::NotAllowed(_))
    }

    /// Whether a watch's cursor is too old to go on from: watch again without one.
    pub fn is_gone(&self) -> bool {
        self.has_status(StatusCode::GONE)
    }

    /// Whether the request can never succeed as it is.
    pub fn is_invalid(&self) -> bool {
        self.has_status(StatusCode::BAD_REQUEST)
    }

    /// Whether no management cluster of the region can take another cluster, and that will not pass: somebody has to make
    /// room.
    pub fn is_out_of_capacity(&self) -> bool {
        self.has_status(StatusCode::SERVICE_UNAVAILABLE)
            && self.details().iter().any(|detail| detail.target == PROVISION_SHARD)
    }

    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Refused(_) if self.is_out_of_capacity() => false,
            Self::Refused(body) => body.status == 429 || body.status >= 500,
            // Whoever stands between us and the service says nothing about the request, whatever the status.
            Self::Unreachable(_) | Self::Unreadable { .. } | Self::Silent(_) => true,
            // So does who may ask: that is the configuration of the service, or of us, and is put right by people.
            Self::NotAllowed(_) => true,
            Self::Address(_) => false,
        }
    }

    fn has_status(&self, status: StatusCode) -> bool {
        self.body().is_some_and(|body| body.status == status.as_u16())
    }
}
