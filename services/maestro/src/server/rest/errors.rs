//! The numbers of refusals, explained.

use axum::Json;
use axum::extract::Path;
use http::HeaderMap;
use pilothouse_maestro_api::{ErrorBody, List};
use serde_json::Value;

use super::list::ListQuery;
use super::{Refused, operation_id};
use crate::server::error::{Refusal, error_body};

/// Those of all implementations; not all of them are given here.
const CATALOGUE: [(u16, &str); 13] = [
    (1, "the token is not valid"),
    (4, "this may not be done"),
    (6, "it is there already, or has changed in between"),
    (7, "there is no such thing"),
    (8, "what was sent is not valid"),
    (9, "something went wrong; try again"),
    (10, "this cannot be done with such a thing"),
    (11, "this may not be done by this account"),
    (15, "who asks could not be verified"),
    (17, "the request's body cannot be read"),
    (21, "a parameter of the request cannot be used"),
    (23, "the search cannot be read"),
    (26, "a lock of the database could not be had; try again"),
];

pub(super) async fn list(query: ListQuery) -> Json<List<Value>> {
    Json(query.page("ErrorList", &CATALOGUE, |(code, reason)| {
        serde_json::to_value(explained(*code, reason)).unwrap_or_default()
    }))
}

pub(super) async fn get(Path(id): Path<String>, headers: HeaderMap) -> Result<Json<ErrorBody>, Refused> {
    let known = CATALOGUE.iter().find(|(code, _)| code.to_string() == id);
    known
        .map(|(code, reason)| Json(explained(*code, reason)))
        .ok_or_else(|| Refused(Refusal::NotFound { kind: "Error", id }, operation_id(&headers)))
}

fn explained(code: u16, reason: &str) -> ErrorBody {
    error_body(code, reason.to_owned(), "")
}
