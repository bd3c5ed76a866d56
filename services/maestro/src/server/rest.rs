//! The REST interface: what the server knows, for people and for sources that begin.

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{Next, from_fn, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use axum::{Json, Router};
use http::header::HeaderMap;
use http::{StatusCode, Uri};
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::warn;
use uuid::Uuid;

use crate::server::bundle::Bundles;
use crate::server::error::Refusal;
use crate::server::metrics::Metrics;

pub(super) use self::find::Found;

mod bundles;
mod consumers;
mod errors;
mod find;
mod list;
mod packed;

/// What handlers share.
#[derive(Clone, Debug)]
pub(super) struct Api {
    pub(super) bundles: Bundles,
    pub(super) metrics: Metrics,
    pub(super) found: Found,
}

/// The document that describes this interface.
const OPENAPI: &str = include_str!("rest/openapi.json");

/// A refusal on its way out, with the id of the operation it ends.
struct Refused(Refusal, String);

pub(super) fn router(api: Api) -> Router {
    let router = routes().into_iter().fold(Router::new(), |router, (path, methods)| {
        // A slash at the end means nothing.
        let path = format!("/api/maestro{path}");
        router.route(&format!("{path}/"), methods.clone()).route(&path, methods)
    });
    router
        .fallback(unknown)
        .layer(from_fn(packed::pack))
        .layer(map_response(mark))
        .layer(from_fn_with_state(api.clone(), count))
        .with_state(api)
}

fn routes() -> [(&'static str, MethodRouter<Api>); 9] {
    let consumer = get(consumers::get).patch(consumers::patch).delete(consumers::delete);
    [
        ("", get(index)),
        ("/v1", get(version)),
        ("/v1/openapi", get(openapi)),
        ("/v1/errors", get(errors::list)),
        ("/v1/errors/{id}", get(errors::get)),
        ("/v1/consumers", get(consumers::list).post(consumers::create)),
        ("/v1/consumers/{id}", consumer),
        ("/v1/resource-bundles", get(bundles::list)),
        ("/v1/resource-bundles/{id}", get(bundles::get).delete(bundles::delete)),
    ]
}

/// Counts what is asked, by what it is about and not by whom.
async fn count(State(api): State<Api>, request: Request, next: Next) -> Response {
    let (begun, method) = (Instant::now(), request.method().clone());
    let matched = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let path =
        matched.map_or_else(|| "/-".to_owned(), |path| path.trim_end_matches('/').replace("{id}", "-"));
    let response = next.run(request).await;
    api.metrics.requested(&method, &path, response.status().as_u16(), begun.elapsed());
    response
}

async fn openapi(State(_): State<Api>) -> Response {
    ([(http::header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

/// What caches are told: who asks may make a difference.
async fn mark(mut response: Response) -> Response {
    response.headers_mut().insert(http::header::VARY, http::HeaderValue::from_static("Authorization"));
    response
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

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self(refusal, operation_id) = self;
        if let Refusal::Store(error) = &refusal {
            warn!(operation = operation_id, error = %pilothouse_runtime::Chain(error), "a request failed");
        }
        (refusal.status(), Json(refusal.body(&operation_id))).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_described() {
        let described: Value = serde_json::from_str(OPENAPI).unwrap();
        let mut described: Vec<_> = described["paths"].as_object().unwrap().keys().cloned().collect();
        let mut served: Vec<_> = routes().iter().map(|(path, _)| format!("/api/maestro{path}")).collect();
        described.sort();
        served.sort();
        assert_eq!(described, served);
    }
}
