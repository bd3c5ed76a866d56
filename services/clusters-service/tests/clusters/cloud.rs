//! A stand-in for the cloud's resource manager: keeps what is put, says what a cloud decides, holds to conditions, deletes
//! groups with what is in them.

use std::collections::BTreeMap;
use std::future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use axum::{Json, Router};
use http::{HeaderMap, Method, StatusCode, Uri};
use serde_json::Value;
use tokio::sync::Notify;

use crate::support::base_zone;
use crate::switch::Switch;

pub(crate) struct Cloud {
    resources: Mutex<BTreeMap<String, Value>>,
    /// Everything that secrets were ever made to say, by their paths.
    said: Mutex<BTreeMap<String, Vec<String>>>,
    correlations: Mutex<Vec<String>>,
    /// How many identities there were at a path, one after the other.
    identities: Mutex<BTreeMap<String, u32>>,
    /// A property that lists do not show.
    hidden: Mutex<Option<&'static str>>,
    /// What was deleted, each with the state of it that was named.
    deleted: Mutex<Vec<(String, String)>>,
    log: Mutex<Vec<String>>,
    pub(crate) switch: Arc<Switch>,
    down: Mutex<bool>,
    /// Part of a path; the next request to put there is carried out when the test says so.
    hold: Mutex<Option<String>>,
    held: AtomicUsize,
    released: Notify,
    /// Part of a path; requests there are never answered.
    hung: Mutex<Option<String>>,
}

impl Cloud {
    pub(crate) fn new(switch: Arc<Switch>) -> Arc<Self> {
        Arc::new(Self {
            resources: Mutex::default(),
            said: Mutex::default(),
            correlations: Mutex::default(),
            identities: Mutex::default(),
            hidden: Mutex::default(),
            deleted: Mutex::default(),
            log: Mutex::default(),
            switch,
            down: Mutex::new(false),
            hold: Mutex::default(),
            held: AtomicUsize::new(0),
            hung: Mutex::default(),
            released: Notify::new(),
        })
    }

    pub(crate) fn router(self: &Arc<Self>) -> Router {
        Router::new().route("/{*path}", any(handle)).with_state(self.clone())
    }

    pub(crate) fn set_down(&self, down: bool) {
        *self.down.lock().unwrap() = down;
    }

    /// The next request to put something below such a path is carried out only when it is released.
    pub(crate) fn hold(&self, path: &str) {
        *self.hold.lock().unwrap() = Some(path.to_owned());
    }

    /// Whatever is asked of something below such a path from now on hangs.
    pub(crate) fn hang(&self, path: &str) {
        *self.hung.lock().unwrap() = Some(path.to_owned());
    }

    pub(crate) fn is_holding(&self) -> bool {
        self.held.load(Ordering::SeqCst) > 0
    }

    pub(crate) fn release(&self) {
        self.released.notify_one();
    }

    async fn wait_for_release(&self, method: &Method, path: &str) {
        if self.hung.lock().unwrap().as_ref().is_some_and(|hung| path.contains(hung.as_str())) {
            self.held.fetch_add(1, Ordering::SeqCst);
            future::pending::<()>().await;
        }
        let is_held = method == Method::PUT
            && self.hold.lock().unwrap().take_if(|held| path.contains(held.as_str())).is_some();
        if is_held {
            self.held.fetch_add(1, Ordering::SeqCst);
            self.released.notified().await;
        }
    }

    fn carried_out(&self, method: &Method, path: &str) {
        self.log.lock().unwrap().push(format!("{method} {path}"));
    }

    /// Every request that was carried out, in order.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
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

    /// Everything that a secret was ever made to say.
    pub(crate) fn said(&self, path: &str) -> Vec<String> {
        self.said.lock().unwrap().get(&path.to_lowercase()).cloned().unwrap_or_default()
    }

    /// Somebody makes a secret say something else.
    pub(crate) fn say(&self, path: &str, value: &str) {
        self.said.lock().unwrap().get_mut(&path.to_lowercase()).unwrap().push(value.to_owned());
    }

    /// Somebody changes something.
    pub(crate) fn change(&self, path: &str, change: impl FnOnce(&mut Value)) {
        change(self.resources.lock().unwrap().get_mut(&path.to_lowercase()).unwrap());
    }

    /// Lists show a property no more.
    pub(crate) fn hide(&self, property: &'static str) {
        *self.hidden.lock().unwrap() = Some(property);
    }

    /// Somebody removes something.
    pub(crate) fn remove(&self, path: &str) {
        self.resources.lock().unwrap().remove(path).unwrap_or_else(|| panic!("no {path}"));
    }

    pub(crate) fn correlations(&self) -> Vec<String> {
        self.correlations.lock().unwrap().clone()
    }

    pub(crate) fn deleted(&self) -> Vec<(String, String)> {
        self.deleted.lock().unwrap().clone()
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.resources.lock().unwrap().get(&path.to_lowercase()).cloned()
    }

    /// The first identity at a path is known by its name, and each that takes the place of another by a number as well.
    fn new_client_id(&self, path: &str) -> Value {
        let mut identities = self.identities.lock().unwrap();
        let count = identities.entry(path.to_owned()).and_modify(|count| *count += 1).or_insert(1);
        let (_, name) = path.rsplit_once('/').unwrap();
        if *count == 1 { name.into() } else { format!("{name}-{count}").into() }
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
            || expected.as_ref().is_some_and(|expected| former.as_ref() != Some(expected))
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
                if path.contains("/userassignedidentities/") {
                    let before = resources.get(&path).map(|former| former["properties"]["clientId"].clone());
                    body["properties"]["clientId"] = before.unwrap_or_else(|| self.new_client_id(&path));
                }
                if let Some(value) = body["properties"].as_object_mut().and_then(|it| it.remove("value")) {
                    let said = value.as_str().unwrap().to_owned();
                    self.said.lock().unwrap().entry(path.clone()).or_default().push(said);
                } else if path.contains("/vaults/") {
                    let host = headers["host"].to_str().unwrap();
                    body["properties"]["vaultUri"] = format!("http://{host}/keyvault{path}/").into();
                }
                resources.insert(path, body.clone());
                (StatusCode::CREATED, Json(body)).into_response()
            }
            Method::GET if path.starts_with("/keyvault/") => {
                let path = path.trim_start_matches("/keyvault");
                match self.said(path).pop().filter(|_| resources.contains_key(path)) {
                    Some(value) => Json(serde_json::json!({"value": value})).into_response(),
                    None => StatusCode::NOT_FOUND.into_response(),
                }
            }
            Method::GET if path.ends_with("/resources") || path.ends_with("/secrets") => {
                let (above, _) = path.rsplit_once('/').unwrap();
                if !resources.contains_key(above) {
                    return StatusCode::NOT_FOUND.into_response();
                }
                let hidden = *self.hidden.lock().unwrap();
                // What is inside of resources is not listed with their group.
                let depth = if path.ends_with("/secrets") { 11 } else { 9 };
                let inside = resources
                    .iter()
                    .filter(|(id, _)| id.starts_with(above) && id.split('/').count() == depth)
                    .map(|(id, body)| {
                        let mut shown = body.clone();
                        if let (Some(hidden), Some(shown)) = (hidden, shown["properties"].as_object_mut()) {
                            shown.remove(hidden);
                        }
                        shown["id"] = id.as_str().into();
                        shown["name"] = id.rsplit_once('/').unwrap().1.into();
                        shown
                    });
                Json(serde_json::json!({"value": inside.collect::<Vec<_>>()})).into_response()
            }
            Method::GET => match resources.get(&path) {
                Some(body) => Json(body.clone()).into_response(),
                None => StatusCode::NOT_FOUND.into_response(),
            },
            Method::DELETE => {
                let expected = expected.unwrap_or_else(|| "any".to_owned());
                self.deleted.lock().unwrap().push((path.clone(), expected));
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
    let path = uri.path().to_lowercase();
    cloud.wait_for_release(&method, &path).await;
    let response = cloud.answer(&method, path.clone(), &headers, &body);
    cloud.carried_out(&method, &path);
    cloud.switch.pass().await;
    response
}
