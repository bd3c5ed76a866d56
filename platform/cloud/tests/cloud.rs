//! The resource manager over HTTP, as a client sees it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::time::Duration;

use http::{Method, StatusCode};
use pilothouse_cloud::{Config, Deps, Service, catalog};
use pilothouse_http::{Client, ClientBuilder};
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use pilothouse_store::{Location, Options, Store};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

const GROUP: &str = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/Managed";
const ZONE: &str = "providers/Microsoft.Network/dnsZones/first.pilothouse.test";
const IDENTITY: &str = "providers/Microsoft.ManagedIdentity/userAssignedIdentities/first-control-plane";
const VERSION: &str = "?api-version=2024-05-01";

struct Cloud {
    store: Store,
    address: String,
    client: Client,
    shutdown: Shutdown,
    tasks: Tasks,
}

impl Cloud {
    async fn start(location: Location) -> Self {
        let shutdown = Shutdown::new();
        let store = Store::open(Options::new(location, catalog(), shutdown.clone())).await.unwrap();
        let mut registry = Registry::default();
        let deps = Deps { store: store.clone(), clock: Clock::system(), registry: &mut registry };
        let service = Service::build(Config::default(), deps).await.unwrap();
        let address = format!("http://{}", service.local_address());
        let tasks = Tasks::new("test", shutdown.clone());
        let own = shutdown.clone();
        tasks.spawn("cloud", OnExit::StopProcess, async move { Ok(service.run(own).await?) });
        let client = ClientBuilder::new(Duration::from_secs(20)).build().unwrap();
        Self { store, address, client, shutdown, tasks }
    }

    async fn stop(self) {
        self.shutdown.request(Reason::Asked("the test is over".into()));
        self.tasks.drain(Duration::from_secs(20)).await.unwrap();
        self.store.close().await;
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        let mut call = self.client.call(method, format!("{}{path}", self.address).parse().unwrap());
        if let Some(body) = body {
            call = call.json(&body);
        }
        let response = call.send().await.unwrap();
        let status = response.status();
        let bytes = response.bytes().await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn put(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.call(Method::PUT, &format!("{path}{VERSION}"), Some(body)).await
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        self.call(Method::GET, &format!("{path}{VERSION}"), None).await
    }

    async fn delete(&self, path: &str) -> StatusCode {
        self.call(Method::DELETE, &format!("{path}{VERSION}"), None).await.0
    }
}

#[tokio::test]
async fn what_was_put_is_there_in_any_spelling_until_its_group_is_deleted() {
    let cloud = Cloud::start(Location::memory()).await;
    let (status, refusal) = cloud.put(&format!("{GROUP}/{ZONE}"), json!({"location": "global"})).await;
    assert_eq!((status, &refusal["error"]["code"]), (StatusCode::NOT_FOUND, &json!("ResourceNotFound")));

    let (status, group) = cloud.put(GROUP, json!({"location": "local", "managedBy": "a cluster"})).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!((&group["name"], &group["managedBy"]), (&json!("Managed"), &json!("a cluster")));
    assert_eq!(cloud.put(GROUP, json!({"location": "local"})).await.0, StatusCode::OK);
    assert_eq!(cloud.put(GROUP, json!({"location": "elsewhere"})).await.0, StatusCode::CONFLICT);

    let (status, zone) = cloud.put(&format!("{GROUP}/{ZONE}"), json!({"location": "global"})).await;
    assert_eq!(status, StatusCode::CREATED);
    assert_eq!(zone["type"], "Microsoft.Network/dnsZones");
    assert_eq!(zone["properties"]["provisioningState"], "Succeeded");
    let (_, identity) = cloud.put(&format!("{GROUP}/{IDENTITY}"), json!({"location": "local"})).await;
    let (_, again) = cloud.put(&format!("{GROUP}/{IDENTITY}"), json!({"location": "local"})).await;
    assert_eq!(identity["properties"]["clientId"], again["properties"]["clientId"]);

    let lower = format!("{GROUP}/{ZONE}").to_lowercase();
    assert_eq!(cloud.get(&lower).await, (StatusCode::OK, zone));
    let (_, content) = cloud.get(&format!("{GROUP}/resources")).await;
    assert_eq!(content["value"].as_array().unwrap().len(), 2);
    let (_, zones) = cloud.get(&format!("{GROUP}/providers/microsoft.network/dnszones")).await;
    assert_eq!(zones["value"].as_array().unwrap().len(), 1);

    assert_eq!(cloud.delete(GROUP).await, StatusCode::OK);
    assert_eq!(cloud.get(&lower).await.0, StatusCode::NOT_FOUND);
    assert_eq!(cloud.get(&format!("{GROUP}/{IDENTITY}")).await.0, StatusCode::NOT_FOUND);
    assert_eq!(cloud.delete(GROUP).await, StatusCode::NO_CONTENT);
    cloud.put(GROUP, json!({"location": "local"})).await;
    let (_, content) = cloud.get(&format!("{GROUP}/resources")).await;
    assert_eq!(content["value"], json!([]), "a new group of the same name begins empty");
    cloud.stop().await;
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused_in_the_shape_of_arm() {
    let cloud = Cloud::start(Location::memory()).await;
    cloud.put(GROUP, json!({"location": "local"})).await;
    let unknown = format!("{GROUP}/providers/Microsoft.Compute/virtualMachines/a{VERSION}");
    for (method, path, status, code) in [
        (Method::GET, GROUP.to_owned(), StatusCode::BAD_REQUEST, "InvalidParameter"),
        (Method::GET, format!("{GROUP}?api-version=soon"), StatusCode::BAD_REQUEST, "InvalidParameter"),
        (Method::PUT, unknown, StatusCode::BAD_REQUEST, "InvalidResourceType"),
        (Method::PUT, format!("{GROUP}{VERSION}"), StatusCode::BAD_REQUEST, "InvalidRequestContent"),
        (Method::GET, format!("/elsewhere{VERSION}"), StatusCode::NOT_FOUND, "NotFound"),
        (Method::POST, format!("{GROUP}{VERSION}"), StatusCode::METHOD_NOT_ALLOWED, "NotFound"),
    ] {
        let body = (method == Method::PUT).then(|| json!({"tags": {}}));
        let (found, refusal) = cloud.call(method, &path, body).await;
        assert_eq!((found, &refusal["error"]["code"]), (status, &json!(code)), "{path}");
    }
    cloud.stop().await;
}

#[tokio::test]
async fn a_restart_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cloud.db").to_str().unwrap().to_owned();
    let cloud = Cloud::start(Location::sqlite(path.as_str())).await;
    cloud.put(GROUP, json!({"location": "local"})).await;
    let (_, zone) = cloud.put(&format!("{GROUP}/{ZONE}"), json!({"location": "global"})).await;
    cloud.stop().await;

    let cloud = Cloud::start(Location::sqlite(path.as_str())).await;
    assert_eq!(cloud.get(&format!("{GROUP}/{ZONE}")).await, (StatusCode::OK, zone));
    let subscription = GROUP.rsplit_once('/').unwrap().0;
    let (_, groups) = cloud.get(subscription).await;
    assert_eq!(groups["value"].as_array().unwrap().len(), 1);
    cloud.stop().await;
}

#[tokio::test]
async fn a_group_deleted_while_it_is_filled_leaves_nothing_behind() {
    let cloud = Cloud::start(Location::memory()).await;
    for _ in 0..5 {
        cloud.put(GROUP, json!({"location": "local"})).await;
        let puts = (0..8).map(|index| {
            let path = format!("{GROUP}/providers/Microsoft.Network/dnsZones/z{index}.test");
            let cloud = &cloud;
            async move { cloud.put(&path, json!({"location": "global"})).await.0 }
        });
        let (_, deleted) = tokio::join!(futures::future::join_all(puts), cloud.delete(GROUP));
        assert_eq!(deleted, StatusCode::OK);
        cloud.put(GROUP, json!({"location": "local"})).await;
        let (_, content) = cloud.get(&format!("{GROUP}/resources")).await;
        assert_eq!(content["value"], json!([]));
        cloud.delete(GROUP).await;
    }
    cloud.stop().await;
}
