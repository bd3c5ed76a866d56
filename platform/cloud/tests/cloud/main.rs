//! The resource manager over HTTP, as a client sees it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::time::Duration;

use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{HeaderName, Method, StatusCode};
use pilothouse_cloud::{Config, Deps, NameFeed, Service, catalog};
use pilothouse_http::{Client, ClientBuilder, Health};
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use pilothouse_store::{Keyring, Location, Options, Store};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

mod lists;
mod vaults;

const GROUP: &str = "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/Managed";
const ZONE: &str = "providers/Microsoft.Network/dnsZones/first.pilothouse.test";
const IDENTITY: &str = "providers/Microsoft.ManagedIdentity/userAssignedIdentities/first-control-plane";
const VERSION: &str = "?api-version=2024-05-01";

struct Cloud {
    store: Store,
    address: String,
    client: Client,
    health: Health,
    shutdown: Shutdown,
    tasks: Tasks,
}

impl Cloud {
    async fn start(location: Location) -> Self {
        Self::start_with(location, Keyring::ephemeral().unwrap(), Config::default()).await
    }

    async fn start_with(location: Location, keyring: Keyring, config: Config) -> Self {
        let shutdown = Shutdown::new();
        let options =
            Options { keyring: Some(keyring), ..Options::new(location, catalog(), shutdown.clone()) };
        let store = Store::open(options).await.unwrap();
        let mut registry = Registry::default();
        let health = Health::new(shutdown.clone());
        let deps = Deps {
            store: store.clone(),
            clock: Clock::system(),
            health: health.clone(),
            registry: &mut registry,
        };
        let scheme = if config.listener.tls.is_some() { "https" } else { "http" };
        let service = Service::build(config, deps).await.unwrap();
        assert!(!health.is_ready(), "nobody is answered yet");
        let address = format!("{scheme}://{}", service.local_address());
        let tasks = Tasks::new("test", shutdown.clone());
        let own = shutdown.clone();
        tasks.spawn("cloud", OnExit::StopProcess, async move { Ok(service.run(own).await?) });
        let client = ClientBuilder::new(Duration::from_secs(20)).build().unwrap();
        Self { store, address, client, health, shutdown, tasks }
    }

    async fn stop(self) {
        self.shutdown.request(Reason::Asked("the test is over".into()));
        self.tasks.drain(Duration::from_secs(20)).await.unwrap();
        self.store.close().await;
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> (StatusCode, Value) {
        self.conditional(method, path, body, None).await
    }

    async fn conditional(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        condition: Option<(HeaderName, &str)>,
    ) -> (StatusCode, Value) {
        let mut call = self.client.call(method, format!("{}{path}", self.address).parse().unwrap());
        if let Some((name, value)) = condition {
            call = call.header(name, value);
        }
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

    /// Makes something that must not be there yet.
    async fn make(&self, path: &str, body: Value) -> (StatusCode, Value) {
        self.conditional(Method::PUT, &format!("{path}{VERSION}"), Some(body), Some((IF_NONE_MATCH, "*")))
            .await
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
        (
            Method::GET,
            format!("{GROUP}{}{VERSION}", "x".repeat(512)),
            StatusCode::BAD_REQUEST,
            "InvalidParameter",
        ),
        (Method::GET, format!("/elsewhere{VERSION}"), StatusCode::NOT_FOUND, "NotFound"),
        (Method::POST, format!("{GROUP}{VERSION}"), StatusCode::METHOD_NOT_ALLOWED, "NotFound"),
    ] {
        let body = (method == Method::PUT).then(|| json!({"tags": {}}));
        let (found, refusal) = cloud.call(method, &path, body).await;
        assert_eq!((found, &refusal["error"]["code"]), (status, &json!(code)), "{path}");
    }
    for properties in [json!([]), json!("text"), json!(1)] {
        let body = json!({"location": "local", "properties": properties});
        let (status, refusal) = cloud.put(&format!("{GROUP}/{IDENTITY}"), body).await;
        let message = refusal["error"]["message"].as_str().unwrap();
        assert!(
            status == StatusCode::BAD_REQUEST && message.contains("`properties` is not an object"),
            "{message}"
        );
    }
    let (status, made) =
        cloud.put(&format!("{GROUP}/{IDENTITY}"), json!({"location": "local", "properties": null})).await;
    assert_eq!((status, made["properties"]["clientId"].is_string()), (StatusCode::CREATED, true));
    assert!(cloud.health.is_ready(), "{:?}", cloud.health.verdicts());
    cloud.stop().await;
}

#[tokio::test]
async fn groups_may_be_called_as_people_write() {
    let cloud = Cloud::start(Location::memory()).await;
    let (subscription, _) = GROUP.rsplit_once('/').unwrap();
    let group = format!("{subscription}/Gr%C3%B6%C3%9Fe%20(1)");
    let (status, made) = cloud.make(&group, json!({"location": "local"})).await;
    assert_eq!((status, &made["name"]), (StatusCode::CREATED, &json!("Größe (1)")));
    cloud.put(&format!("{group}/{ZONE}"), json!({"location": "global"})).await;
    let (_, content) = cloud.get(&format!("{group}/resources")).await;
    assert_eq!(content["value"][0]["id"], format!("{subscription}/Größe (1)/{ZONE}"));
    assert_eq!(cloud.delete(&group).await, StatusCode::OK);
    assert_eq!(cloud.get(&format!("{group}/{ZONE}")).await.0, StatusCode::NOT_FOUND);
    cloud.stop().await;
}

#[tokio::test]
async fn a_restart_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cloud.db").to_str().unwrap().to_owned();
    let keyring = Keyring::open_or_create(format!("{path}.key")).unwrap();
    let start = || Cloud::start_with(Location::sqlite(path.as_str()), keyring.clone(), Config::default());
    let cloud = start().await;
    cloud.put(GROUP, json!({"location": "local"})).await;
    let (_, zone) = cloud.put(&format!("{GROUP}/{ZONE}"), json!({"location": "global"})).await;
    cloud.stop().await;

    let cloud = start().await;
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

fn addresses(addresses: &[&str]) -> Value {
    let addresses: Vec<_> = addresses.iter().map(|address| json!({"ipv4Address": address})).collect();
    json!({"properties": {"TTL": 60, "ARecords": addresses, "metadata": {"owner": "first"}}})
}

#[tokio::test]
async fn what_somebody_else_made_is_refused_and_not_overwritten() {
    let cloud = Cloud::start(Location::memory()).await;
    cloud.put(GROUP, json!({"location": "local", "managedBy": "one"})).await;
    cloud.put(&format!("{GROUP}/{ZONE}"), json!({"location": "global"})).await;
    let record = format!("{GROUP}/{ZONE}/A/api");
    let (status, made) = cloud.make(&record, addresses(&["127.0.0.1"])).await;
    assert_eq!(
        (status, &made["properties"]["fqdn"]),
        (StatusCode::CREATED, &json!("api.first.pilothouse.test."))
    );

    // Whoever says that it is new, or that it is what it was, touches nothing else.
    for (path, body) in [
        (GROUP.to_owned(), json!({"location": "local", "managedBy": "another"})),
        (format!("{GROUP}/{ZONE}"), json!({"location": "global"})),
        (record.clone(), addresses(&["203.0.113.6"])),
    ] {
        let (status, refusal) = cloud.make(&path, body).await;
        assert_eq!(
            (status, &refusal["error"]["code"]),
            (StatusCode::PRECONDITION_FAILED, &json!("PreconditionFailed"))
        );
        let message = refusal["error"]["message"].as_str().unwrap();
        assert!(message.contains(&path) && message.contains("exists already"), "{message}");
    }
    assert_eq!(cloud.get(&record).await.1, made);

    let path = format!("{record}{VERSION}");
    let etag = made["etag"].as_str().unwrap();
    let changed = addresses(&["127.0.0.2"]);
    let put = |etag| cloud.conditional(Method::PUT, &path, Some(changed.clone()), Some((IF_MATCH, etag)));
    assert_eq!(put("0-0").await.0, StatusCode::PRECONDITION_FAILED);
    assert_eq!(put(etag).await.0, StatusCode::OK);
    assert_eq!(put(etag).await.0, StatusCode::PRECONDITION_FAILED, "it is another by now");
    let delete = |etag| cloud.conditional(Method::DELETE, &path, None, Some((IF_MATCH, etag)));
    assert_eq!(delete(etag).await.0, StatusCode::PRECONDITION_FAILED);
    assert_eq!(delete("*").await.0, StatusCode::OK);
    let (status, refusal) = delete("*").await;
    assert_eq!(status, StatusCode::PRECONDITION_FAILED, "{refusal}");
    cloud.stop().await;
}

#[tokio::test]
async fn record_sets_are_in_zones_and_go_with_them() {
    let cloud = Cloud::start(Location::memory()).await;
    cloud.put(GROUP, json!({"location": "local"})).await;
    let zone = format!("{GROUP}/{ZONE}");
    let (status, refusal) = cloud.put(&format!("{zone}/A/api"), addresses(&["127.0.0.1"])).await;
    assert_eq!((status, &refusal["error"]["code"]), (StatusCode::NOT_FOUND, &json!("ResourceNotFound")));
    let (_, made) = cloud.put(&zone, json!({"location": "global"})).await;
    let (_, again) = cloud.put(&zone, json!({"location": "global", "tags": {"a": "b"}})).await;
    let servers = &made["properties"]["nameServers"];
    assert!(servers[0].as_str().unwrap().ends_with(".pilothouse.test."), "{servers}");
    assert_eq!(servers, &again["properties"]["nameServers"], "for as long as it exists");

    cloud.put(&format!("{zone}/A/api"), addresses(&["127.0.0.1"])).await;
    cloud
        .put(&format!("{zone}/TXT/api"), json!({"properties": {"TTL": 5, "TXTRecords": [{"value": ["a"]}]}}))
        .await;
    for (list, count) in [("recordsets", 2), ("all", 2), ("A", 1), ("txt", 1), ("NS", 0)] {
        let (status, found) = cloud.get(&format!("{zone}/{list}")).await;
        assert_eq!((status, found["value"].as_array().unwrap().len()), (StatusCode::OK, count), "{list}");
    }
    // By itself it is a name, in this zone it is too long for one.
    let too_long = format!("A/{}", vec!["x".repeat(60); 4].join("."));
    let alias = json!({"properties": {"TTL": 5, "CNAMERecord": {"cname": "a.example"}}});
    let servers = json!({"properties": {"TTL": 5, "NSRecords": [{"nsdname": "a.example"}]}});
    for (set, body, status, says) in [
        ("CNAME/api", alias.clone(), StatusCode::CONFLICT, "delete one"),
        ("CNAME/@", alias.clone(), StatusCode::BAD_REQUEST, "the cloud's to say"),
        ("NS/@", servers, StatusCode::BAD_REQUEST, "the cloud's to say"),
        ("A/-", addresses(&["127.0.0.1"]), StatusCode::BAD_REQUEST, "not a name"),
        ("A/api.", addresses(&["127.0.0.1"]), StatusCode::BAD_REQUEST, "not a name"),
        (&too_long, addresses(&["127.0.0.1"]), StatusCode::BAD_REQUEST, "not a name"),
        ("A/b", addresses(&["somewhere"]), StatusCode::BAD_REQUEST, "properties"),
        ("A/b", alias.clone(), StatusCode::BAD_REQUEST, "properties.ARecords"),
        ("MX/b", alias.clone(), StatusCode::BAD_REQUEST, "Microsoft.Network/dnsZones/TXT"),
    ] {
        let (found, refusal) = cloud.put(&format!("{zone}/{set}"), body).await;
        let message = refusal["error"]["message"].as_str().unwrap();
        assert!(found == status && message.contains(says), "{set}: {found} {message}");
    }
    assert_eq!(cloud.put(&format!("{zone}/CNAME/console"), alias).await.0, StatusCode::CREATED);
    let (status, _) = cloud.put(&format!("{zone}/A/console"), addresses(&["127.0.0.1"])).await;
    assert_eq!(status, StatusCode::CONFLICT);

    assert_eq!(cloud.delete(&zone).await, StatusCode::OK);
    assert_eq!(cloud.get(&format!("{zone}/A/api")).await.0, StatusCode::NOT_FOUND);
    let (_, content) = cloud.get(&format!("{GROUP}/resources")).await;
    assert_eq!(content["value"], json!([]));
    cloud.stop().await;
}

#[tokio::test]
async fn the_zone_of_the_region_is_there_from_the_beginning_and_stays() {
    let cloud = Cloud::start(Location::memory()).await;
    let zone = pilothouse_arm::dns::region_zone("pilothouse.test");
    let (status, shown) = cloud.get(zone.as_str()).await;
    assert_eq!((status, &shown["name"]), (StatusCode::OK, &json!("pilothouse.test")));
    let body = json!({"properties": {"TTL": 5, "NSRecords": [{"nsdname": "ns-1.pilothouse.test"}]}});
    let made = (0..40).map(|index| {
        let (path, cloud, body) = (format!("{zone}/NS/c{index}"), &cloud, body.clone());
        async move { cloud.make(&path, body).await.0 }
    });
    let made = futures::future::join_all(made).await;
    assert!(made.iter().all(|status| *status == StatusCode::CREATED), "many at once: {made:?}");
    assert_eq!(cloud.delete(&format!("{zone}/NS/c1")).await, StatusCode::OK);
    let group = zone.parent().unwrap();
    for own in [zone.as_str(), group.as_str()] {
        assert_eq!(cloud.delete(own).await, StatusCode::CONFLICT);
    }
    cloud.stop().await;
}

#[tokio::test]
async fn zones_and_record_sets_are_followed_as_they_are_stored() {
    let cloud = Cloud::start(Location::memory()).await;
    let mut feed = NameFeed::new(cloud.store.clone());
    let first = feed.next().await.unwrap();
    assert!(first.is_everything && first.resources.len() == 1, "the region's own: {first:?}");
    cloud.put(GROUP, json!({"location": "local"})).await;
    cloud.put(&format!("{GROUP}/{IDENTITY}"), json!({"location": "local"})).await;
    let (_, zone) = cloud.put(&format!("{GROUP}/{ZONE}"), json!({"location": "global"})).await;
    let (_, record) = cloud.put(&format!("{GROUP}/{ZONE}/A/api"), addresses(&["127.0.0.1"])).await;
    let mut seen = Vec::new();
    let mut serial = first.serial;
    while seen.len() < 2 {
        let news = feed.next().await.unwrap();
        assert!(!news.is_everything && news.serial > serial);
        serial = news.serial;
        seen.extend(news.resources.into_iter().map(|(_, shown)| shown.unwrap()));
    }
    assert_eq!(seen, [zone, record], "nothing else, and in this order");
    // Who comes later is told the same.
    assert_eq!(NameFeed::new(cloud.store.clone()).next().await.unwrap().resources.len(), 3);
    cloud.delete(GROUP).await;
    let gone = feed.next().await.unwrap();
    assert_eq!(gone.resources.iter().filter(|(_, shown)| shown.is_none()).count(), 2, "{gone:?}");
    cloud.stop().await;
}

#[tokio::test]
async fn addresses_are_those_of_the_gateway() {
    let cloud = Cloud::start(Location::memory()).await;
    cloud.put(GROUP, json!({"location": "local"})).await;
    let address = format!("{GROUP}/providers/Microsoft.Network/publicIPAddresses/first-api");
    let (_, address) = cloud.put(&address, json!({"location": "local", "sku": {"name": "Standard"}})).await;
    assert_eq!(address["properties"]["ipAddress"], "127.0.0.1");
    cloud.stop().await;
}
