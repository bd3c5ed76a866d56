use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use crate::health::{Health, Verdict};
use crate::problem::Problem;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The pages for operators: `/livez`, `/readyz`, `/readyz/<name>`, `/metrics` and `/debug/<page>`.
///
/// They show names, counts and errors of the inside. Serve them on a listener of their own.
pub struct Operations {
    health: Health,
    registry: Arc<Registry>,
    pages: BTreeMap<&'static str, Page>,
}

type Page = Box<dyn Fn() -> Value + Send + Sync>;

impl Operations {
    /// Pages over these checks and numbers. The registry is complete by now: components register while being built.
    pub fn new(health: Health, registry: Arc<Registry>) -> Self {
        Self { health, registry, pages: BTreeMap::new() }
    }

    /// Adds `/debug/<name>`, such as `tasks`. The value is made for every look at the page.
    pub fn with_page(mut self, name: &'static str, page: impl Fn() -> Value + Send + Sync + 'static) -> Self {
        self.pages.insert(name, Box::new(page));
        self
    }

    /// The pages as a router.
    pub fn router(self) -> Router {
        Router::new()
            // Answering at all is what being alive means: a runtime that is stuck does not get here.
            .route("/livez", get(async || "ok\n"))
            .route("/readyz", get(readyz))
            .route("/readyz/{name}", get(readyz_one))
            .route("/metrics", get(metrics))
            .route("/debug", get(debug_index))
            .route("/debug/{page}", get(debug_page))
            .with_state(Arc::new(self))
    }
}

impl fmt::Debug for Operations {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Operations")
            .field("health", &self.health)
            .field("pages", &self.pages.keys())
            .finish_non_exhaustive()
    }
}

/// JSON by default; `?verbose` gives one line per check, as `kubectl get --raw '/readyz?verbose'` shows it.
async fn readyz(State(operations): State<Arc<Operations>>, RawQuery(query): RawQuery) -> Response {
    let verdicts = operations.health.verdicts();
    let ready = verdicts.values().all(Verdict::is_ready);
    let verbose = query.is_some_and(|query| query.split('&').any(|part| part.starts_with("verbose")));
    if verbose {
        let mut text = String::new();
        for (name, verdict) in &verdicts {
            text.push_str(&format!("{name}: {verdict}\n"));
        }
        text.push_str(if ready { "ready\n" } else { "not ready\n" });
        return (status(ready), text).into_response();
    }
    (status(ready), Json(json!({ "ready": ready, "checks": verdicts }))).into_response()
}

async fn readyz_one(State(operations): State<Arc<Operations>>, Path(name): Path<String>) -> Response {
    match operations.health.verdict(&name) {
        Some(verdict) => (status(verdict.is_ready()), Json(verdict)).into_response(),
        None => Problem::new(StatusCode::NOT_FOUND, "CheckNotFound", "there is no check by this name")
            .into_response(),
    }
}

async fn metrics(State(operations): State<Arc<Operations>>) -> Response {
    let mut text = String::new();
    match encode(&mut text, &operations.registry) {
        Ok(()) => ([(CONTENT_TYPE, OPEN_METRICS)], text).into_response(),
        Err(_) => {
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "MetricsNotWritten", "a metric has no text form")
                .into_response()
        }
    }
}

async fn debug_index(State(operations): State<Arc<Operations>>) -> Response {
    Json(json!({ "pages": operations.pages.keys().collect::<Vec<_>>() })).into_response()
}

async fn debug_page(State(operations): State<Arc<Operations>>, Path(page): Path<String>) -> Response {
    match operations.pages.get(page.as_str()) {
        Some(value) => Json(value()).into_response(),
        None => Problem::new(StatusCode::NOT_FOUND, "PageNotFound", "there is no page by this name")
            .into_response(),
    }
}

fn status(ready: bool) -> StatusCode {
    if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }
}
