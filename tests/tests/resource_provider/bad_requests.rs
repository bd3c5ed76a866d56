//! A table of bad requests: each is refused with exactly this status, this code and this target, and changes nothing.

mod clusters;
mod content;
mod credentials;
mod external_auths;
mod names;
mod node_pools;
mod paths;
mod platform;
mod row;
mod states;
mod subscriptions;
mod updates;

use http::Method;
use pilothouse_clusters_service_api::simulated::Mode;
use pilothouse_test_support::eventually;
use rstest::rstest;

pub(crate) use self::credentials::right as right_credential_request;
use self::row::{Expected, Row};
use crate::bodies::{cluster, cluster_id, external_auth, node_pool, with};
use crate::provider::{DELETED, Engine, LIMIT, Provider, Reply, SUSPENDED, UNREGISTERED, WARNED, versioned};

/// Every subject, in the order in which a request is looked at.
fn table() -> Vec<Row> {
    [
        paths::rows(),
        subscriptions::rows(),
        content::rows(),
        names::rows(),
        clusters::rows(),
        platform::rows(),
        updates::rows(),
        node_pools::rows(),
        external_auths::rows(),
        states::rows(),
        credentials::rows(),
    ]
    .concat()
}

/// The resources that the table speaks of.
async fn furnish(provider: &Provider) {
    for (id, state) in
        [(UNREGISTERED, "Unregistered"), (WARNED, "Warned"), (SUSPENDED, "Suspended"), (DELETED, "Deleted")]
    {
        provider.subscription(id, state).await;
    }
    let ready = with(cluster("ready"), "properties.platform.managedResourceGroup", "ready-managed");
    provider.made(&cluster_id("ready"), &ready).await;
    provider.made(&cluster_id("bare"), &cluster("bare")).await;
    provider.made(&format!("{}/nodePools/workers", cluster_id("ready")), &node_pool()).await;
    provider.made(&format!("{}/externalAuths/entra", cluster_id("ready")), &external_auth()).await;
    provider.made(&cluster_id("leaving"), &cluster("leaving")).await;

    // From here on nothing comes true any more.
    provider.clusters_service.set_mode(Mode::Explicit);
    let gone = provider.send(Method::DELETE, &versioned(&cluster_id("leaving")), &[], Vec::new()).await;
    assert_eq!(gone.status, 202, "{gone:?}");
    provider.make(&cluster_id("making"), &cluster("making")).await;
    let making = eventually("the cluster is asked for", LIMIT, || async {
        let all = provider.clusters_service.clusters();
        all.into_iter().find(|cluster| cluster.name == "making").ok_or("not yet")
    })
    .await;
    // Up to where it is being installed.
    for _ in 0..2 {
        assert!(provider.clusters_service.advance(&making));
    }
    provider.reaches(&cluster_id("making"), "Provisioning").await;
}

fn seen(reply: &Reply) -> Expected {
    let error = &reply.body["error"];
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let mut targets: Vec<String> = match error["details"].as_array() {
        Some(details) => details.iter().map(|detail| text(&detail["target"])).collect(),
        None => error["target"].as_str().map(str::to_owned).into_iter().collect(),
    };
    targets.sort_unstable();
    Expected { status: reply.status, code: text(&error["code"]), targets }
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_are_refused_exactly_and_change_nothing(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(provider) = Provider::start(engine, Mode::Automatic).await else { return };
    furnish(&provider).await;
    let table = table();
    assert!(table.len() >= 150, "{} rows", table.len());
    let mut failures = Vec::new();
    for Row { what, method, path, headers, body, expected } in table {
        let before = provider.revision().await;
        let reply = provider.send(method.clone(), &path, &headers, body).await;
        let after = provider.revision().await;
        let seen = seen(&reply);
        if seen != expected {
            failures.push(format!(
                "{what}\n  {method} {path}\n  expected {expected:?}\n  answered {seen:?}\n  {}",
                reply.body
            ));
        }
        if before != after {
            failures
                .push(format!("{what}\n  {method} {path}\n  something was written: {before} then {after}"));
        }
        let code =
            reply.headers.get("x-ms-error-code").and_then(|code| code.to_str().ok()).unwrap_or_default();
        if code != seen.code {
            failures.push(format!(
                "{what}\n  {method} {path}\n  its header says {code:?}, its body {:?}",
                seen.code
            ));
        }
    }
    assert!(failures.is_empty(), "{} rows:\n{}", failures.len(), failures.join("\n"));
    provider.stop().await;
}
