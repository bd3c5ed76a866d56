//! The REST interface: what the server knows, for people and for sources that begin.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::header::HeaderMap;
use http::{StatusCode, Uri};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::warn;
use uuid::Uuid;

use crate::server::bundle::Bundles;
use crate::server::error::Refusal;

mod bundles;
mod consumers;

/// What handlers share.
#[derive(Clone, Debug)]
pub(super) struct Api {
    pub(super) bundles: Bundles,
}

/// The parameters of a list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListQuery {
    page: Option<usize>,
    size: Option<i64>,
    search: Option<String>,
    order_by: Option<String>,
}

/// A refusal on its way out, with the id of the operation it ends.
struct Refused(Refusal, String);

/// The most that is answered at once.
const LARGEST_PAGE: usize = 65_500;

pub(super) fn router(api: Api) -> Router {
    Router::new()
        .route("/api/maestro", get(index))
        .route("/api/maestro/v1", get(version))
        .route("/api/maestro/v1/consumers", get(consumers::list).post(consumers::create))
        .route(
            "/api/maestro/v1/consumers/{id}",
            get(consumers::get).patch(consumers::patch).delete(consumers::delete),
        )
        .route("/api/maestro/v1/resource-bundles", get(bundles::list))
        .route("/api/maestro/v1/resource-bundles/{id}", get(bundles::get).delete(bundles::delete))
        .fallback(unknown)
        .with_state(api)
}

async fn index(State(_): State<Api>) -> Json<Value> {
    Json(json!({"id": "maestro", "href": "/api/maestro", "kind": "API",
        "versions": [{"id": "v1", "href": "/api/maestro/v1", "kind": "", "collections": null}]}))
}

async fn version(State(_): State<Api>) -> Json<Value> {
    let href = "/api/maestro/v1";
    let collections = [("consumers", "ConsumerList"), ("resource-bundles", "ResourceBundleList")]
        .map(|(id, kind)| json!({"id": id, "href": format!("{href}/{id}"), "kind": kind}));
    Json(json!({"id": "v1", "href": href, "kind": "APIVersion", "collections": collections}))
}

async fn unknown(uri: Uri) -> Response {
    let body = json!({"type": "Error", "id": "404", "href": "/api/maestro/v1/errors/404", "code": "maestro-404",
        "reason": format!("The requested resource '{}' doesn't exist", uri.path())});
    (StatusCode::NOT_FOUND, Json(body)).into_response()
}

/// The caller's id for what it does, or a new one.
fn operation_id(headers: &HeaderMap) -> String {
    let sent = headers.get("x-operation-id").and_then(|value| value.to_str().ok());
    sent.filter(|id| !id.is_empty() && id.len() <= 128)
        .map_or_else(|| Uuid::new_v4().to_string(), str::to_owned)
}

/// The part of a list that was asked for, and what it is called.
fn page<T>(query: &ListQuery, kind: &str, mut items: Vec<T>) -> pilothouse_maestro_api::List<T> {
    let total = items.len();
    let number = query.page.unwrap_or(1).max(1);
    let size = match query.size.unwrap_or(100) {
        size if size < 0 => LARGEST_PAGE,
        size => usize::try_from(size).map_or(LARGEST_PAGE, |size| size.min(LARGEST_PAGE)),
    };
    let start = (number - 1).saturating_mul(size).min(total);
    let mut items = items.split_off(start);
    items.truncate(size);
    pilothouse_maestro_api::List { kind: kind.to_owned(), page: number, size: items.len(), total, items }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self(refusal, operation_id) = self;
        if let Refusal::Store(error) = &refusal {
            warn!(operation = operation_id, error = %pilothouse_runtime::Chain(error), "a request failed");
        }
        (refusal.status(), Json(refusal.body(&operation_id))).into_response()
    }
}
