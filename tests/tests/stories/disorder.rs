//! Requests that come too early, too late, twice, against each other or all at once: each has one outcome, whatever the rest of the
//! chain was doing just then.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use pilothouse_test_support::{environment, eventually};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::first_light::{SUBSCRIPTION, cluster_body, node_pool_body};
use crate::region::{LIMIT, Region};

/// Where the moments come from. Another seed finds other moments; this one makes a failure repeatable.
const SEED: u64 = 20_261_118;
/// A creation takes about this long, so moments up to it hit every step.
const LONGEST: Duration = Duration::from_millis(2500);

/// A cluster that shares nothing with another one.
fn body_of(name: &str) -> Value {
    let mut body = cluster_body();
    let provider = format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/first/providers/Microsoft.Network");
    for (field, id) in [
        ("subnetId", format!("virtualNetworks/{name}/subnets/nodes")),
        ("vnetIntegrationSubnetId", format!("virtualNetworks/{name}/subnets/control")),
        ("networkSecurityGroupId", format!("networkSecurityGroups/{name}")),
    ] {
        body["properties"]["platform"][field] = json!(format!("{provider}/{id}"));
    }
    body
}

impl Region {
    async fn nothing_left(&self) {
        eventually("nothing is left", LIMIT, || {
            let left = self.provider().nothing_left(|arguments| self.kubectl(arguments));
            let files = self.pod_files();
            async move { if files.is_empty() { left } else { Err(format!("{left:?}, {files:?}")) } }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_is_deleted_at_any_moment_of_its_creation_and_made_again_at_once() {
    let Some(mut region) = Region::start(&[]).await else { return };
    region.provider().register();
    let (id, body) = (Region::cluster_id("fickle"), body_of("fickle"));
    let mut moments = StdRng::seed_from_u64(SEED);

    // Nothing to delete, and nothing to hang nodes on.
    let workers = format!("{id}/nodePools/workers");
    let mut pool = node_pool_body(1);
    pool["properties"]["version"] = json!({ "id": "4.20.8" });
    assert_eq!(region.arm("DELETE", &id, None).0, 204);
    assert_eq!(region.arm("PUT", &workers, Some(&pool)).0, 404);

    for round in 0..environment::rounds(6, 40) {
        // Again as soon as its name is free.
        let (status, answer) = region.arm("PUT", &id, Some(&body));
        assert_eq!(status, 201, "round {round}: {answer}");
        // Whoever heard no answer says it again; a node pool need not wait for its cluster.
        let (status, answer) = region.arm("PUT", &id, Some(&body));
        assert_eq!(status, 200, "round {round}: {answer}");
        if round % 2 == 0 {
            let (status, answer) = region.arm("PUT", &workers, Some(&pool));
            assert!([201, 409].contains(&status), "round {round}: {status} {answer}");
        }
        sleep(moments.random_range(Duration::ZERO..LONGEST)).await;
        let (status, answer) = region.arm("DELETE", &id, None);
        assert_eq!(status, 202, "round {round}: {answer}");
        // It is on its way out: nothing else is begun, not even a second deletion.
        let (again, _) = region.arm("DELETE", &id, None);
        assert!([409, 204].contains(&again), "round {round}: {again}");
        let (status, answer) = region.arm("PUT", &id, Some(&body));
        if status != 201 {
            assert_eq!(
                (status, &answer["error"]["code"]),
                (409, &json!("Conflict")),
                "round {round}: {answer}"
            );
            region.is_gone(&id).await;
            region.nothing_left().await;
        } else {
            // It was gone already, and this is the next one.
            assert_eq!(region.arm("DELETE", &id, None).0, 202);
            region.is_gone(&id).await;
        }
    }

    let (status, answer) = region.arm("PUT", &id, Some(&body));
    assert_eq!(status, 201, "{answer}");
    region.reaches(&id, "Succeeded").await;
    region.provider().only_once("fickle", |arguments| region.kubectl(arguments)).unwrap();
    let kubeconfig = region.kubeconfig("fickle").unwrap();
    assert_eq!(region.kubectl_on(&kubeconfig, &["get", "--raw", "/readyz"]).unwrap(), "ok");
    region.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_clusters_at_once_are_made_once_each_and_go_at_once() {
    let Some(mut region) = Region::start(&[]).await else { return };
    region.provider().register();
    let names: Vec<_> = (0..environment::rounds(20, 100)).map(|number| format!("crowd-{number}")).collect();
    let at_once = |method: &str, expected: u16| {
        thread::scope(|scope| {
            let asked: Vec<_> = names
                .iter()
                .map(|name| {
                    let body = (method == "PUT").then(|| body_of(name));
                    let provider = region.provider();
                    let id = Region::cluster_id(name);
                    scope.spawn(move || provider.arm_within(LIMIT, method, &id, body.as_ref()))
                })
                .collect();
            for asked in asked {
                let (status, answer) = asked.join().unwrap();
                assert_eq!(status, expected, "{answer}");
            }
        });
    };
    at_once("PUT", 201);
    for name in &names {
        region.reaches(&Region::cluster_id(name), "Succeeded").await;
    }
    // Each is met by its name at the gateway, and no two are the same.
    let met: BTreeSet<_> = names
        .iter()
        .map(|name| {
            let kubeconfig = region.kubeconfig(name).unwrap();
            let ask = |arguments: &[&str]| region.kubectl_on(&kubeconfig, arguments);
            assert_eq!(ask(&["get", "--raw", "/readyz"]).as_deref(), Ok("ok"), "{name}");
            ask(&["get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}"]).unwrap()
        })
        .collect();
    assert_eq!(met.len(), names.len());
    let mut known: Vec<_> =
        region.clusters_service_clusters().iter().map(|known| known["name"].clone()).collect();
    known.sort_by_key(Value::to_string);
    let mut wanted: Vec<_> = names.iter().map(|name| json!(name)).collect();
    wanted.sort_by_key(Value::to_string);
    assert_eq!(known, wanted);
    let hosted = region.kubectl(&["get", "hostedclusters", "-A", "-o", "name"]).unwrap();
    assert_eq!(hosted.lines().count(), names.len(), "{hosted}");
    at_once("DELETE", 202);
    for name in &names {
        region.is_gone(&Region::cluster_id(name)).await;
    }
    region.nothing_left().await;
    region.stop();
    assert_eq!(region.processes(), [""; 0]);
}
