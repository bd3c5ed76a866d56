//! How the simulated service says no.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use jiff::Timestamp;

use crate::{BASES, Detail, ErrorBody};

/// Why something is not done.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) reason: String,
    pub(super) details: Vec<Detail>,
}

impl Refusal {
    fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self { status, reason: reason.into(), details: Vec::new() }
    }

    pub(super) fn not_found(kind: &str, id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("{kind} with id='{id}' not found"))
    }

    pub(super) fn conflict(reason: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, reason)
    }

    pub(super) fn gone() -> Self {
        Self::new(StatusCode::GONE, "the cursor is too old to go on from; watch again without one")
    }

    pub(super) fn query(name: &str, problem: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, format!("query parameter `{name}` is not valid: {problem}"))
    }

    /// A field is wrong.
    pub(super) fn field(code: &str, target: &str, problem: &str) -> Self {
        let message = format!("field `{target}` is not valid: {problem}");
        let detail = Detail { code: code.to_owned(), target: target.to_owned(), message: message.clone() };
        Self { details: vec![detail], ..Self::new(StatusCode::BAD_REQUEST, message) }
    }

    pub(super) fn with_status(status: StatusCode, reason: &str, target: Option<&str>) -> Self {
        let details = target.map(|target| Detail {
            code: "InvalidField".to_owned(),
            target: target.to_owned(),
            message: reason.to_owned(),
        });
        Self { details: details.into_iter().collect(), ..Self::new(status, reason) }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let number = self.status.as_u16();
        let body = ErrorBody {
            kind: "Error".to_owned(),
            status: number,
            id: number.to_string(),
            href: format!("{}/errors/{number}", BASES[0]),
            code: format!("CLUSTERS-MGMT-{number}"),
            reason: self.reason,
            operation_id: "simulated".to_owned(),
            details: self.details,
            timestamp: Timestamp::UNIX_EPOCH,
        };
        (self.status, Json(body)).into_response()
    }
}
