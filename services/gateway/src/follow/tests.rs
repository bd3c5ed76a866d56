use std::convert::Infallible;
use std::future::pending;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{Method, Request, Response, Uri};
use kube::Client;
use kube::client::Body;
use pilothouse_runtime::{OnExit, Shutdown, Tasks};
use pilothouse_test_support::eventually;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::*;
use crate::config::Config;
use crate::dial::Direct;
use crate::metrics::Metrics;
use crate::watch::watch_all;

/// Time is not the system's.
const PATIENCE: Duration = Duration::from_secs(20);

/// A management cluster with one route, where nothing ever happens.
#[derive(Clone)]
struct Quiet {
    /// Whether it says which endpoints there are.
    lists_endpoints: watch::Sender<bool>,
    /// How often a status was written.
    written: Arc<AtomicUsize>,
}

impl Quiet {
    fn new(lists_endpoints: bool) -> Self {
        Self { lists_endpoints: watch::Sender::new(lists_endpoints), written: Arc::default() }
    }

    fn client(&self) -> Client {
        let api = self.clone();
        let answering = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            let (writes, uri) = (request.method() == Method::PATCH, request.uri().clone());
            async move {
                let answer = api.answer(writes, &uri).await;
                Ok::<_, Infallible>(Response::new(Body::from(answer.to_string().into_bytes())))
            }
        });
        Client::new(answering, "default")
    }

    async fn answer(&self, writes: bool, uri: &Uri) -> Value {
        let (path, query) = (uri.path(), uri.query().unwrap_or_default());
        let items = if writes {
            self.written.fetch_add(1, Ordering::Relaxed);
            return route();
        } else if query.contains("watch=") {
            pending().await
        } else if path.ends_with("/routes") {
            vec![route()]
        } else {
            let _ = self.lists_endpoints.subscribe().wait_for(|lists| *lists).await;
            Vec::new()
        };
        json!({ "metadata": { "resourceVersion": "1" }, "items": items })
    }
}

fn route() -> Value {
    json!({
        "apiVersion": "route.openshift.io/v1",
        "kind": "Route",
        "metadata": { "namespace": "hosted", "name": "api", "resourceVersion": "1" },
        "spec": {
            "host": "api.hosted.pilothouse.test",
            "to": { "kind": "Service", "name": "kube-apiserver" },
            "tls": { "termination": "passthrough" },
        },
    })
}

/// Following, as a gateway does it until the test is over.
fn following() -> Following {
    let shutdown = Shutdown::new();
    let parts = Parts {
        hosts: Arc::default(),
        clusters: Arc::new(Clusters::new(Metrics::new(&mut Registry::default()))),
        clock: Clock::system(),
        health: Health::new(shutdown.clone()),
        name: "pilothouse".to_owned(),
    };
    let (following, watches) = Following::new(parts);
    let config = Arc::new(ArcSwap::from_pointee(Config::default()));
    let watching = watch_all(watches, config, shutdown.clone());
    Tasks::new("test", shutdown).spawn("watch", OnExit::StopProcess, watching);
    following
}

/// Follows nobody but this one, by a kubeconfig of that name.
fn follow(following: &Following, west: Option<(&str, &Quiet)>) {
    let wanted = west.map(|(kubeconfig, api)| {
        let (name, kubeconfig) = ("west".to_owned(), PathBuf::from(kubeconfig));
        let origin = Origin::read(&ManagementCluster { name: name.clone(), kubeconfig, node_socket: None });
        let management = Management { name, client: api.client(), dialer: Arc::new(Direct) };
        Wanted::New(origin, management, Reachability::default())
    });
    let changing = following.0.changing.lock().unwrap();
    Change { following, _changing: changing, wanted: wanted.into_iter().collect() }.make();
}

async fn until_written(api: &Quiet) {
    eventually("a status is written", PATIENCE, || async {
        if api.written.load(Ordering::Relaxed) > 0 { Ok(()) } else { Err("none") }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn way_that_does_not_count_yet_says_nothing_in_the_status_of_routes() {
    let (following, former, next) = (following(), Quiet::new(true), Quiet::new(false));
    follow(&following, Some(("former", &former)));
    until_written(&former).await;
    follow(&following, Some(("next", &next)));
    // Longer than any controller goes without looking at everything.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(next.written.load(Ordering::Relaxed), 0);
    next.lists_endpoints.send_replace(true);
    until_written(&next).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_was_left_has_nothing_to_say_any_more() {
    let (following, api) = (following(), Quiet::new(true));
    follow(&following, Some(("west", &api)));
    until_written(&api).await;
    assert_eq!(following.parts().hosts.all().len(), 1);
    follow(&following, None);
    // A word of it that was under way.
    let route: Route = serde_json::from_value(route()).unwrap();
    following.changed(&"west".into(), 1, &route);
    following.heard(&"west".into(), 1);
    assert_eq!(following.parts().hosts.all(), []);
    assert!(following.sources().is_empty());
}
