//! A region with two management clusters, one of which fills up, is drained, and lost.

use pilothouse_test_support::eventually;
use serde_json::{Value, json};

use crate::first_light::cluster_body;
use crate::provider::curl;
use crate::region::{LIMIT, Region};
use crate::spread::{CONSUMER, SECOND, Spread};

/// A request about the management clusters that Clusters Service knows.
fn shard(spread: &Spread, method: &str, id: &str, body: &Value) -> (u16, Value) {
    let url = format!("{}/api/aro_hcp/v1alpha1/provision_shards/{id}", spread.provider.clusters_service);
    let body = body.to_string();
    let mut arguments: Vec<_> = spread.provider.as_backend.iter().map(String::as_str).collect();
    if method != "GET" {
        arguments.extend(["-X", method, "-d", &body]);
    }
    arguments.push(&url);
    curl(&arguments).unwrap()
}

fn change(spread: &Spread, id: &str, body: &Value) {
    let (status, answer) = shard(spread, "PATCH", id, body);
    assert_eq!(status, 200, "{answer}");
}

async fn is(spread: &Spread, id: &str, health: &str) {
    eventually(&format!("{id} is {health}"), LIMIT, || {
        let (_, found) = shard(spread, "GET", id, &Value::Null);
        let right = found["health"]["state"] == health;
        async move { if right { Ok(()) } else { Err(found.to_string()) } }
    })
    .await;
}

async fn description(spread: &Spread, name: &str, words: &str) {
    eventually(&format!("{name} says {words}"), LIMIT, || {
        let all = spread.provider.clusters();
        let found = all.into_iter().find(|cluster| cluster["name"] == name).unwrap_or_default();
        let description = found["status"]["description"].as_str().unwrap_or_default().to_owned();
        async move { if description.contains(words) { Ok(()) } else { Err(description) } }
    })
    .await;
}

/// A cluster in a network of its own.
fn body(id: &str) -> Value {
    let name = id.rsplit('/').next().unwrap_or_default();
    let mut text = cluster_body().to_string();
    for shared in ["subnets/nodes", "subnets/control", "networkSecurityGroups/rules"] {
        text = text.replace(shared, &format!("{shared}-{name}"));
    }
    serde_json::from_str(&text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_go_to_the_management_cluster_that_has_room_and_answers() {
    let Some(spread) = Spread::start().await else { return };
    let Some(mut second) = spread.add_management().await else { return };
    is(&spread, CONSUMER, "healthy").await;
    is(&spread, SECOND, "healthy").await;
    let [one, two, three] = ["one", "two", "three"].map(Region::cluster_id);
    let put = |id: &str| spread.provider.arm("PUT", id, Some(&body(id)));
    let hosted = ["get", "hostedclusters", "-A", "-o", "jsonpath={.items[*].metadata.name}"];

    // The first is drained, so the second gets it.
    change(&spread, CONSUMER, &json!({ "status": "maintenance" }));
    let (status, answer) = put(&one);
    assert_eq!(status, 201, "{answer}");
    spread.provider.reaches(&one, "Succeeded").await;
    assert_eq!(second.kubectl(&hosted).unwrap(), "one");
    assert_eq!(spread.management.kubectl(&hosted).unwrap(), "");

    // The second is lost, so the first gets the next one; and what the second has says so.
    second.kill("maestro-agent");
    is(&spread, SECOND, "unresponsive").await;
    description(&spread, "one", "its management cluster `management-2` has not answered since").await;
    change(&spread, CONSUMER, &json!({ "status": "active", "capacity": 1 }));
    let (status, answer) = put(&two);
    assert_eq!(status, 201, "{answer}");
    spread.provider.reaches(&two, "Succeeded").await;
    assert_eq!(spread.management.kubectl(&hosted).unwrap(), "two");

    // Now nobody has room.
    let (status, answer) = put(&three);
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert_eq!(status, 503, "{answer}");
    assert!(message.contains("`management-1` is full (1 of 1)"), "{answer}");
    assert!(message.contains("`management-2` has not answered since"), "{answer}");
    let (status, _) = spread.provider.arm("GET", &three, None);
    assert_eq!(status, 404, "nothing of it was kept");

    second.start("maestro-agent");
    is(&spread, SECOND, "healthy").await;
    description(&spread, "one", "the control plane answers").await;
    for id in [&one, &two] {
        let (status, answer) = spread.provider.arm("DELETE", id, None);
        assert_eq!(status, 202, "{answer}");
    }
    spread.provider.is_gone(&one).await;
    spread.provider.is_gone(&two).await;
    assert_eq!(second.kubectl(&hosted).unwrap(), "");
    // What is asked of them goes with the choice.
    let (status, _) = shard(&spread, "DELETE", SECOND, &Value::Null);
    assert_eq!(status, 204);
    eventually("nothing is left at Maestro", LIMIT, || {
        let left = spread.provider.bundles();
        async move { if left == Ok(0) { Ok(()) } else { Err(format!("{left:?} bundles")) } }
    })
    .await;
}
