//! Why a request is not carried out, and the one place that knows which status that is.

use axum::Json;
use axum::response::{AppendHeaders, IntoResponse as _, Response};
use http::StatusCode;
use http::header::RETRY_AFTER;
use jiff::Timestamp;
use pilothouse_clusters_service_api::{DOMAIN_PREFIX, Detail, ErrorBody, InvalidId, PROVISION_SHARD};
use pilothouse_http::Context;
use pilothouse_runtime::Chain;
use tracing::error;

use crate::error::Impossible;
use crate::links;
use crate::search::SyntaxError;

/// Why a request is not carried out. The texts are meant for whoever sent it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("{kind} with id='{id}' not found")]
    NotFound { kind: &'static str, id: String },
    #[error("there is nothing at `{0}`")]
    NoSuchPath(String),
    #[error("the method is not allowed here")]
    Method,
    #[error("the body is not valid at `{path}`: {problem}")]
    Body { path: String, problem: String },
    #[error("field `{field}` is not valid: {problem}")]
    Field { field: &'static str, problem: String },
    #[error("field `{field}` is not possible yet: {problem}")]
    NotYet { field: &'static str, problem: String },
    #[error(
        "domain prefix `{0}` is taken in this region; choose another one, or leave it out to get one that is free"
    )]
    PrefixTaken(String),
    #[error("the search is not valid {0}")]
    Search(#[from] SyntaxError),
    #[error("query parameter `{name}` is not valid: {problem}")]
    Query { name: &'static str, problem: String },
    #[error(
        "query parameter `{0}` is not known here, and a write does nothing that it was not asked for; leave it out"
    )]
    Parameter(String),
    #[error("{0}")]
    Conflict(String),
    #[error(
        "no management cluster of region `{region}` can take another cluster: {why}; add a management cluster or raise a \
         capacity at `/provision_shards`, or try again when clusters have gone"
    )]
    NoCapacity { region: String, why: String, is_full: bool },
    #[error("{0} changes too often just now; try again")]
    Busy(String),
    #[error("the cursor is too old to go on from; watch again without one")]
    CursorTooOld,
    #[error("the store is not available; try again")]
    StoreUnavailable(#[source] pilothouse_store::Error),
    #[error("the store failed")]
    Store(#[source] pilothouse_store::Error),
    #[error(transparent)]
    Impossible(#[from] Impossible),
}

impl Refusal {
    pub(crate) fn cluster_not_found(id: impl Into<String>) -> Self {
        Self::NotFound { kind: "Cluster", id: id.into() }
    }

    pub(crate) fn node_pool_not_found(id: impl Into<String>) -> Self {
        Self::NotFound { kind: "Node pool", id: id.into() }
    }

    pub(crate) fn shard_not_found(id: impl Into<String>) -> Self {
        Self::NotFound { kind: "Provision shard", id: id.into() }
    }

    pub(crate) fn field(field: &'static str, problem: impl Into<String>) -> Self {
        Self::Field { field, problem: problem.into() }
    }

    pub(crate) fn external_auth_not_found(id: impl Into<String>) -> Self {
        Self::NotFound { kind: "External auth", id: id.into() }
    }

    pub(crate) fn credential_not_found(id: impl Into<String>) -> Self {
        Self::NotFound { kind: "Break glass credential", id: id.into() }
    }

    /// Something of the contract that nobody below could act on. The text says what is possible instead.
    pub(crate) fn not_yet(field: &'static str, problem: impl Into<String>) -> Self {
        Self::NotYet { field, problem: problem.into() }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::NotFound { .. } | Self::NoSuchPath(_) => StatusCode::NOT_FOUND,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Body { .. }
            | Self::Field { .. }
            | Self::NotYet { .. }
            | Self::PrefixTaken(_)
            | Self::Search(_)
            | Self::Query { .. }
            | Self::Parameter(_) => StatusCode::BAD_REQUEST,
            Self::Conflict(_) => StatusCode::CONFLICT,
            Self::CursorTooOld => StatusCode::GONE,
            Self::StoreUnavailable(_) | Self::NoCapacity { .. } | Self::Busy(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Store(_) | Self::Impossible(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The fields that are wrong, for programs.
    fn details(&self) -> Vec<Detail> {
        let detail = |code: &str, target: &str| {
            vec![Detail { code: code.to_owned(), target: target.to_owned(), message: self.to_string() }]
        };
        match self {
            Self::PrefixTaken(_) => detail("DomainPrefixTaken", DOMAIN_PREFIX),
            // Without it whoever asks for a cluster asks again by itself.
            Self::NoCapacity { is_full: true, .. } => detail("NoCapacity", PROVISION_SHARD),
            Self::Field { field, .. } => detail("InvalidField", field),
            Self::NotYet { field, .. } => detail("NotPossibleYet", field),
            Self::Body { path, .. } => detail("InvalidField", path),
            _ => Vec::new(),
        }
    }

    /// The answer. What is nobody's business but ours is logged in full and answered with the request's id.
    pub(crate) fn answer(self, context: &Context, now: Timestamp) -> Response {
        let status = self.status();
        let later = match self {
            // Longer than anybody waits for an answer: nothing comes of asking again at once.
            Self::NoCapacity { .. } => Some([(RETRY_AFTER, "300")]),
            Self::Busy(_) => Some([(RETRY_AFTER, "1")]),
            _ => None,
        };
        let reason = if status == StatusCode::INTERNAL_SERVER_ERROR {
            error!(error = %Chain(&self), "a request failed");
            format!("the request failed for a reason that was recorded; its id is {}", context.request_id())
        } else {
            self.to_string()
        };
        let number = status.as_u16();
        let body = ErrorBody {
            kind: "Error".to_owned(),
            status: number,
            id: number.to_string(),
            href: format!("{}/errors/{number}", links::base()),
            code: format!("CLUSTERS-MGMT-{number}"),
            reason,
            operation_id: context.request_id().to_owned(),
            details: self.details(),
            timestamp: now,
        };
        (status, later.map(AppendHeaders), Json(body)).into_response()
    }
}

impl From<pilothouse_store::Error> for Refusal {
    fn from(error: pilothouse_store::Error) -> Self {
        if error.is_retryable() { Self::StoreUnavailable(error) } else { Self::Store(error) }
    }
}

/// An id that is none is the id of nothing.
pub(crate) fn cluster_id(text: &str) -> Result<pilothouse_clusters_service_api::ClusterId, Refusal> {
    text.parse().map_err(|_: InvalidId| Refusal::cluster_not_found(text))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_may_work_when_it_is_tried_again_says_so_and_when() {
        let context = Context::new(Duration::from_secs(1));
        for (refusal, status, later) in [
            (Refusal::Busy("cluster `x`".to_owned()), 503, Some("1")),
            (
                Refusal::NoCapacity { region: "here".to_owned(), why: "full".to_owned(), is_full: true },
                503,
                Some("300"),
            ),
            (Refusal::Conflict("it is there".to_owned()), 409, None),
        ] {
            let answer = refusal.answer(&context, Timestamp::UNIX_EPOCH);
            let found = answer.headers().get(RETRY_AFTER).map(|value| value.to_str().unwrap());
            assert_eq!((answer.status().as_u16(), found), (status, later));
        }
    }
}
