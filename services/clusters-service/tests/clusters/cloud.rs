//! A stand-in for the cloud's resource manager: keeps what is put, says what a cloud decides, holds to conditions, deletes
//! groups with what is in them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Json, Router};
use http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::Value;

use crate::support::base_zone;
use crate::switch::Switch;

pub(crate) struct Cloud {
    resources: Mutex<BTreeMap<String, Value>>,
    correlations: Mutex<Vec<String>>,
    pub(crate) switch: Arc<Switch>,
    down: Mutex<bool>,
}

impl Cloud {
    pub(crate) fn new(switch: Arc<Switch>) -> Arc<Self> {
        Arc::new(Self {
            resources: Mutex::default(),
            correlations: Mutex::default(),
            switch,
            down: Mutex::new(false),
        })
    }

    pub(crate) fn router(self: &Arc<Self>) -> Router {
        Router::new().route("/{*path}", any(handle)).with_state(self.clone())
    }

    pub(crate) fn set_down(&self, down: bool) {
        *self.down.lock().unwrap() = down;
    }

    /// What there is beside the region's own zone, by path in lower case.
    pub(crate) fn paths(&self) -> Vec<String> {
        let regional = base_zone().key();
        let resources = self.resources.lock().unwrap();
        resources.keys().filter(|path| !regional.starts_with(path.as_str())).cloned().collect()
    }

    pub(crate) fn put(&self, path: &str, body: Value) {
        self.resources.lock().unwrap().insert(path.to_lowercase(), body);
    }

    pub(crate) fn correlations(&self) -> Vec<String> {
        self.correlations.lock().unwrap().clone()
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.resources.lock().unwrap().get(&path.to_lowercase()).cloned()
    }

    fn answer(&self, method: &Method, path: String, headers: &HeaderMap, body: &str) -> Response {
        if *self.down.lock().unwrap() {
            let body = serde_json::json!({"error": {"code": "OutOfOrder", "message": "come back tomorrow"}});
            return (StatusCode::BAD_REQUEST, Json(body)).into_response();
        }
        let mut resources = self.resources.lock().unwrap();
        let former =
            resources.get(&path).map(|former| former["etag"].as_str().unwrap_or_default().to_owned());
        let expected = headers.get("if-match").map(|etag| etag.to_str().unwrap().to_owned());
        if (headers.contains_key("if-none-match") && former.is_some())
            || expected.is_some_and(|expected| former.as_ref() != Some(&expected))
        {
            return StatusCode::PRECONDITION_FAILED.into_response();
        }
        match *method {
            Method::PUT => {
                let group: String = path.split('/').take(5).collect::<Vec<_>>().join("/");
                assert!(path == group || resources.contains_key(&group), "{path} has no group");
                let mut body: Value = serde_json::from_str(body).unwrap();
                let count = former.and_then(|etag| etag.parse::<u32>().ok()).unwrap_or_default();
                body["etag"] = (count + 1).to_string().into();
                if path.contains("/dnszones/") && !path.contains("/a/") && !path.contains("/ns/") {
                    body["properties"]["nameServers"] = serde_json::json!(["ns-1.pilothouse.test."]);
                }
                if path.contains("/publicipaddresses/") {
                    body["properties"]["ipAddress"] = "127.0.0.1".into();
                }
                resources.insert(path, body.clone());
                (StatusCode::CREATED, Json(body)).into_response()
            }
            Method::GET => match resources.get(&path) {
                Some(body) => Json(body.clone()).into_response(),
                None => StatusCode::NOT_FOUND.into_response(),
            },
            Method::DELETE => {
                resources.retain(|known, _| !known.starts_with(&path));
                StatusCode::OK.into_response()
            }
            _ => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        }
    }
}

async fn handle(
    State(cloud): State<Arc<Cloud>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: String,
) -> Response {
    assert!(uri.query().is_some_and(|query| query.contains("api-version=")), "{uri} has no api-version");
    if let Some(id) = headers.get("x-ms-correlation-request-id") {
        cloud.correlations.lock().unwrap().push(id.to_str().unwrap().to_owned());
    }
    let response = cloud.answer(&method, uri.path().to_lowercase(), &headers, &body);
    cloud.switch.pass().await;
    response
}
