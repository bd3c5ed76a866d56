//! What is refused before anybody looks at the resource.

use std::net::SocketAddr;

use http::Method;
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_frontend::{Config, Deps, Service};
use pilothouse_http::{ClientBuilder, Health, ListenerConfig};
use pilothouse_records::catalog;
use pilothouse_runtime::{Clock, Shutdown};
use pilothouse_store::{Location, Options, Store};
use prometheus_client::registry::Registry;
use rstest::rstest;
use serde_json::json;

use crate::support::{
    Engine, PATIENCE, Rig, SUBSCRIPTION, VERSION, cluster, cluster_body, cluster_url, pool,
};

#[rstest]
#[tokio::test]
async fn paths_and_methods_that_are_not_served_are_not_found(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    let below = format!("/subscriptions/{SUBSCRIPTION}/providers/Microsoft.RedHatOpenShift");
    for (method, url) in [
        (Method::GET, "/nothing".to_owned()),
        (Method::GET, "/".to_owned()),
        (Method::POST, cluster_url("First")),
        (Method::DELETE, format!("/subscriptions/{SUBSCRIPTION}?api-version=2.0")),
        (Method::POST, "/healthz".to_owned()),
        (Method::PUT, format!("{below}/hcpOpenShiftClusters?{VERSION}")),
        (Method::GET, format!("{}/requestAdminCredential?{VERSION}", cluster("First"))),
        (Method::GET, format!("{}/other?{VERSION}", cluster("First"))),
        (Method::DELETE, format!("{below}/locations/x/hcpOpenShiftVersions/4.20.8?{VERSION}")),
        (Method::GET, format!("{below}/locations/x?{VERSION}")),
        (Method::GET, cluster_url("First").replace("RedHatOpenShift", "Compute")),
        (Method::GET, format!("{}%2f?{VERSION}", cluster("First"))),
        (Method::GET, cluster_url("Fi%00rst")),
        (Method::GET, cluster_url("Fi%25rst")),
        (Method::OPTIONS, cluster_url("First")),
    ] {
        let refused = rig.send(method.clone(), &url, None).await;
        assert_eq!((refused.status, refused.code()), (404, "NotFound"), "{method} {url}");
        assert_eq!(refused.body["error"]["message"], "The requested path could not be found.");
        assert_eq!(refused.header("x-ms-error-code"), "NotFound");
        assert!(!refused.header("x-ms-request-id").is_empty());
    }
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn what_needs_no_subscription_is_answered_without_one(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::unregistered(engine).await else { return };
    let health = rig.get("/healthz").await;
    assert_eq!((health.status, health.text.as_str()), (200, ""));
    assert_eq!(rig.get("/location").await.text, "here");
    let operations = rig.get("/providers/microsoft.redhatOpenShift/operations").await;
    assert_eq!(operations.status, 200);
    let names: Vec<_> = operations.body["value"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    for name in [
        "register/action",
        "hcpOpenShiftClusters/write",
        "hcpOpenShiftClusters/requestadmincredential/action",
        "hcpOpenShiftClusters/nodePools/delete",
        "hcpOpenShiftClusters/externalAuths/read",
        "locations/hcpOperationStatuses/read",
    ] {
        assert!(names.contains(&format!("Microsoft.RedHatOpenShift/{name}").as_str()), "{name}");
    }
    assert!(!names.iter().any(|name| name.contains("/openShiftClusters")), "another service's are not ours");
    assert_eq!(operations.body["value"][0]["display"]["provider"], "Azure Red Hat OpenShift");
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn versions_are_asked_for_by_name(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(rig) = Rig::new(engine).await else { return };
    let path = cluster("First");
    for (url, status, code) in [
        (path.clone(), 400, "InvalidParameter"),
        (format!("{path}?Api-Version=2026-10-01"), 400, "InvalidParameter"),
        (format!("{path}?api-version=2020-01-01"), 400, "InvalidResourceType"),
        (format!("{path}?api-version=2024-06-10-preview"), 404, "ResourceNotFound"),
        (format!("{path}?api-version=2025-12-23-preview"), 404, "ResourceNotFound"),
        (format!("{path}?api-version=2026-06-30-preview"), 404, "ResourceNotFound"),
        (format!("{path}?api-version=2026-09-01-preview"), 404, "ResourceNotFound"),
        (format!("{path}?api-version=2026-10-01"), 404, "ResourceNotFound"),
        (
            "/subscriptions/odd/providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters".to_owned(),
            404,
            "SubscriptionNotFound",
        ),
    ] {
        let refused = rig.get(&url).await;
        assert_eq!((refused.status, refused.code()), (status, code), "{url}");
    }
    assert_eq!(rig.get(&cluster_url("First")).await.target(), path);
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn bodies_are_json_of_limited_size(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(rig) = Rig::new(engine).await else { return };
    let url = cluster_url("First");
    let json = ("content-type", "application/json");
    let text = ("content-type", "text/plain");
    let large = |size: usize| format!("{{\"a\": \"{}\"}}", "x".repeat(size)).into_bytes();
    for (headers, body, status, code) in [
        (vec![text], Some(b"{}".to_vec()), 415, "UnsupportedMediaType"),
        (vec![], Some(b"{}".to_vec()), 415, "UnsupportedMediaType"),
        (vec![text], None, 415, "UnsupportedMediaType"),
        (vec![], None, 400, "InvalidRequestContent"),
        (vec![json], Some(Vec::new()), 400, "InvalidRequestContent"),
        (vec![json], Some(b"{".to_vec()), 400, "InvalidRequestContent"),
        (vec![json], Some(b"\xff\xfe{\0}\0".to_vec()), 400, "InvalidRequestContent"),
        (vec![json], Some(br#"{"tags": {"a": "1", "a": "2"}}"#.to_vec()), 400, "InvalidRequestContent"),
        (vec![json], Some(large(4 << 20)), 400, "InvalidResource"),
    ] {
        for method in [Method::PUT, Method::PATCH] {
            if method == Method::PATCH && code == "InvalidRequestContent" {
                continue;
            }
            let refused = rig.call(method.clone(), &url, &headers, body.clone()).await;
            assert_eq!(
                (refused.status, refused.code()),
                (status, code),
                "{method} {headers:?}: {}",
                refused.text
            );
        }
    }
    let twice = br#"{"tags": {"a": "1", "a": "2"}}"#.to_vec();
    assert_eq!(rig.call(Method::PUT, &url, &[json], Some(twice)).await.target(), "tags.a");
    // As large as it may be: what is wrong with it is another matter.
    let refused = rig.call(Method::PUT, &url, &[json], Some(large((4 << 20) - 100))).await;
    assert_ne!(refused.code(), "InvalidResource", "{}", refused.text);
    rig.assert_nothing_stored().await;
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn names_that_nothing_can_have_lead_nowhere(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    let long = "x".repeat(1500);
    for name in [long.as_str(), "a%F4%8F%BF%BFb"] {
        for url in [cluster_url(name), pool(name)] {
            let missing = rig.get(&url).await;
            assert_eq!((missing.status, missing.code()), (404, "ResourceNotFound"), "{url}");
            assert_eq!(rig.delete(&url).await.status, 404, "{url}");
            let refused = rig.put(&url, &cluster_body("x")).await;
            assert_eq!((refused.status, refused.target()), (400, "id"), "{url}: {}", refused.text);
        }
        assert_eq!(rig.get(&format!("{}/nodePools?{VERSION}", cluster(name))).await.status, 404);
    }
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn answers_carry_the_ids_of_their_requests(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(rig) = Rig::new(engine).await else { return };
    let headers = [
        ("x-ms-client-request-id", "mine"),
        ("x-ms-correlation-request-id", "theirs"),
        ("x-ms-return-client-request-id", "true"),
    ];
    for url in [cluster_url("First"), "/nothing".to_owned()] {
        let reply = rig.send_with(Method::GET, &url, &headers, None).await;
        assert_eq!(reply.header("x-ms-client-request-id"), "mine");
        assert_eq!(reply.header("x-ms-correlation-request-id"), "theirs");
        let silent = rig.send_with(Method::GET, &url, &headers[..2], None).await;
        assert_eq!(silent.header("x-ms-client-request-id"), "");
        assert_ne!(reply.header("x-ms-request-id"), silent.header("x-ms-request-id"));
    }
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn who_made_and_changed_a_resource_is_kept(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(rig) = Rig::new(engine).await else { return };
    let by = |name: &str| {
        json!({"createdBy": name, "createdByType": "User", "lastModifiedBy": name,
        "lastModifiedByType": "User", "createdAt": "2026-01-01T00:00:00Z", "lastModifiedAt": "2026-01-02T00:00:00Z"})
    };
    let ada = by("ada").to_string();
    let header = [("x-ms-arm-resource-system-data", ada.as_str())];
    let created =
        rig.send_with(Method::PUT, &cluster_url("First"), &header, Some(&cluster_body("First"))).await;
    assert_eq!(created.body["systemData"], by("ada"), "{}", created.text);
    rig.succeed("First").await;
    let bob = by("bob").to_string();
    let header = [("x-ms-arm-resource-system-data", bob.as_str())];
    let tags = json!({"tags": {"a": "b"}});
    let changed = rig.send_with(Method::PATCH, &cluster_url("First"), &header, Some(&tags)).await;
    assert_eq!(changed.body["systemData"]["createdBy"], "ada");
    assert_eq!(changed.body["systemData"]["lastModifiedBy"], "bob");
    // Only ARM has to say it; without it, it is whoever calls.
    let own = rig.put(&cluster_url("Second"), &cluster_body("Second")).await;
    let data = &own.body["systemData"];
    assert_eq!((own.status, &data["createdBy"]), (201, &data["lastModifiedBy"]));
    assert_eq!(data["createdByType"], "Application");
    assert!(data["createdAt"].is_string(), "{data}");
    for odd in ["odd", "[]", r#"{"createdByType": "Nobody"}"#] {
        let header = [("x-ms-arm-resource-system-data", odd)];
        let refused =
            rig.send_with(Method::PUT, &cluster_url("Third"), &header, Some(&cluster_body("Third"))).await;
        assert_eq!((refused.status, refused.target()), (400, "x-ms-arm-resource-system-data"), "{odd}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn without_authentication_only_the_loopback_is_served() {
    let options = Options::new(Location::memory(), catalog().unwrap(), Shutdown::new());
    let http = ClientBuilder::new(PATIENCE).build().unwrap();
    let address = "http://127.0.0.1:1".parse().unwrap();
    let deps = Deps {
        store: Store::open(options).await.unwrap(),
        clusters_service: clusters_service::Client::try_new(http, &address).unwrap(),
        clock: Clock::system(),
        health: Health::new(Shutdown::new()),
        registry: &mut Registry::default(),
    };
    let address: SocketAddr = "0.0.0.0:0".parse().unwrap();
    let listener = ListenerConfig { address, ..ListenerConfig::loopback(0) };
    let error = Service::build(Config { listener, ..Config::default() }, deps).await.unwrap_err();
    assert!(error.to_string().contains("may only listen on the loopback"), "{error}");
}
