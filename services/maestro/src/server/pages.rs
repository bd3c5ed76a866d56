//! Health as the original shows it.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use pilothouse_http::Health;
use pilothouse_store::Store;
use serde_json::json;

#[derive(Clone)]
struct Pages {
    health: Health,
    store: Store,
}

pub(super) fn router(health: Health, store: Store) -> Router {
    Router::new()
        .route("/healthcheck", get(healthcheck))
        // Answering at all is what being alive means.
        .route("/livez", get(async || said(StatusCode::OK, "ok")))
        .with_state(Pages { health, store })
}

/// Whether this replica takes part: the store answers, and nothing that it needs fails.
async fn healthcheck(State(pages): State<Pages>) -> Response {
    match pages.store.revision().await {
        Err(_) => said(StatusCode::INTERNAL_SERVER_ERROR, "error"),
        Ok(_) if pages.health.is_ready() => said(StatusCode::OK, "ok"),
        Ok(_) => said(StatusCode::SERVICE_UNAVAILABLE, "not ready"),
    }
}

fn said(code: StatusCode, status: &str) -> Response {
    (code, Json(json!({ "status": status }))).into_response()
}
