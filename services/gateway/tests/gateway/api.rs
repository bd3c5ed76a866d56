//! As much of a Kubernetes API as the gateway uses: lists and watches of routes and endpoints, and status patches.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch};
use axum::{Json, Router};
use futures::stream;
use kube::Client;
use pilothouse_runtime::{OnExit, Shutdown, Tasks};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

type Callback = Box<dyn Fn(&Value) + Send>;

/// What the cluster holds. A cheap handle.
#[derive(Clone)]
pub(crate) struct Api {
    log: Arc<Mutex<Log>>,
    changed: watch::Sender<usize>,
    before_status: Arc<Mutex<Option<Callback>>>,
    /// What gets no answer for now.
    held_back: watch::Sender<Option<&'static str>>,
    /// How often it was asked for anything.
    pub(crate) requests: Arc<AtomicUsize>,
    /// How often it was asked what there is.
    pub(crate) lists: Arc<AtomicUsize>,
}

/// Every change there was; its length is the resource version.
#[derive(Default)]
struct Log {
    objects: BTreeMap<(&'static str, String, String), Value>,
    events: Vec<(&'static str, Value)>,
}

impl Api {
    pub(crate) fn new() -> Self {
        Self {
            log: Arc::default(),
            changed: watch::Sender::new(0),
            before_status: Arc::default(),
            held_back: watch::Sender::new(None),
            requests: Arc::default(),
            lists: Arc::default(),
        }
    }

    /// Calls back when a status comes in, before it is written.
    pub(crate) fn before_status(&self, callback: impl Fn(&Value) + Send + 'static) {
        *self.before_status.lock().unwrap() = Some(Box::new(callback));
    }

    /// Gives no answer to lists of that resource, or to writes of a `status`, until they are released.
    pub(crate) fn hold_back(&self, what: &'static str) {
        self.held_back.send_replace(Some(what));
    }

    pub(crate) fn release(&self) {
        self.held_back.send_replace(None);
    }

    /// How many requests have no answer yet.
    pub(crate) fn waiting(&self) -> usize {
        self.held_back.receiver_count()
    }

    async fn pass(&self, what: &str) {
        let mut held_back = self.held_back.subscribe();
        // Cannot fail: `self` keeps the sender alive.
        let _ = held_back.wait_for(|held_back| *held_back != Some(what)).await;
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.router(), "default")
    }

    /// Serves on a free port, to whoever has a kubeconfig.
    pub(crate) async fn serve(&self) -> SocketAddr {
        self.serve_at(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    /// The same there, as long as the test goes on.
    pub(crate) fn serve_at(&self, listener: TcpListener) -> SocketAddr {
        let (address, router) = (listener.local_addr().unwrap(), self.router());
        let tasks = Tasks::new("test", Shutdown::new());
        tasks.spawn("api", OnExit::Expendable, async move { Ok(axum::serve(listener, router).await?) });
        address
    }

    /// How many watches there are.
    pub(crate) fn watching(&self) -> usize {
        self.changed.receiver_count()
    }

    fn router(&self) -> Router {
        let routes = "/apis/route.openshift.io/v1";
        Router::new()
            .route(&format!("{routes}/routes"), get(|state, query| look(state, "routes", query)))
            .route("/api/v1/endpoints", get(|state, query| look(state, "endpoints", query)))
            .route(&format!("{routes}/namespaces/{{namespace}}/routes/{{name}}/status"), patch(write_status))
            .with_state(self.clone())
    }

    pub(crate) fn apply(&self, resource: &'static str, mut object: Value) {
        let mut log = self.log.lock().unwrap();
        let version = log.events.len() + 1;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let event = json!({ "type": "MODIFIED", "object": object });
        log.objects.insert(key(resource, &object), object);
        log.events.push((resource, event));
        self.changed.send_replace(version);
    }

    /// Applies a route to the service `kube-apiserver` of a namespace.
    pub(crate) fn route(&self, namespace: &str, name: &str, host: &str, created: &str) {
        self.apply(
            "routes",
            json!({
                "apiVersion": "route.openshift.io/v1",
                "kind": "Route",
                "metadata": { "namespace": namespace, "name": name, "creationTimestamp": created },
                "spec": {
                    "host": host,
                    "to": { "kind": "Service", "name": "kube-apiserver" },
                    "tls": { "termination": "passthrough" },
                },
            }),
        );
    }

    /// Applies the endpoint of that service.
    pub(crate) fn endpoints(&self, namespace: &str, address: SocketAddr) {
        self.apply(
            "endpoints",
            json!({
                "apiVersion": "v1",
                "kind": "Endpoints",
                "metadata": { "namespace": namespace, "name": "kube-apiserver" },
                "subsets": [{ "addresses": [{ "ip": address.ip() }], "ports": [{ "port": address.port() }] }],
            }),
        );
    }

    pub(crate) fn delete(&self, resource: &'static str, namespace: &str, name: &str) {
        let mut log = self.log.lock().unwrap();
        let mut object = log.objects.remove(&(resource, namespace.to_owned(), name.to_owned())).unwrap();
        let version = log.events.len() + 1;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        log.events.push((resource, json!({ "type": "DELETED", "object": object })));
        self.changed.send_replace(version);
    }

    pub(crate) fn get(&self, resource: &'static str, namespace: &str, name: &str) -> Value {
        let key = (resource, namespace.to_owned(), name.to_owned());
        self.log.lock().unwrap().objects.get(&key).cloned().unwrap_or_default()
    }
}

fn key(resource: &'static str, object: &Value) -> (&'static str, String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
    (resource, text("namespace"), text("name"))
}

async fn look(
    State(api): State<Api>,
    resource: &'static str,
    Query(query): Query<BTreeMap<String, String>>,
) -> Response {
    api.requests.fetch_add(1, Ordering::Relaxed);
    if !query.contains_key("watch") {
        api.lists.fetch_add(1, Ordering::Relaxed);
        api.pass(resource).await;
        let log = api.log.lock().unwrap();
        let items: Vec<_> = log
            .objects
            .iter()
            .filter(|((of, ..), _)| *of == resource)
            .map(|(_, object)| object.clone())
            .collect();
        let version = log.events.len().to_string();
        return Json(json!({ "metadata": { "resourceVersion": version }, "items": items })).into_response();
    }
    let from: usize = query["resourceVersion"].parse().unwrap();
    let changed = api.changed.subscribe();
    let lines = stream::unfold((api, changed, from), move |(api, mut changed, mut at)| async move {
        loop {
            let next = api.log.lock().unwrap().events.get(at).cloned();
            match next {
                None => changed.wait_for(|version| *version > at).await.ok()?,
                Some((of, event)) => {
                    at += 1;
                    if of == resource {
                        return Some((Ok::<_, Infallible>(format!("{event}\n")), (api, changed, at)));
                    }
                    continue;
                }
            };
        }
    });
    Body::from_stream(lines).into_response()
}

async fn write_status(
    State(api): State<Api>,
    Path((namespace, name)): Path<(String, String)>,
    Json(patch): Json<Value>,
) -> Json<Value> {
    api.requests.fetch_add(1, Ordering::Relaxed);
    api.pass("status").await;
    let mut object = api.get("routes", &namespace, &name);
    if let Some(callback) = &*api.before_status.lock().unwrap() {
        callback(&object);
    }
    object["status"] = patch["status"].clone();
    api.apply("routes", object.clone());
    Json(object)
}
