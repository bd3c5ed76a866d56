//! A region with two management clusters, one of which fills up, is drained, and lost.

use pilothouse_test_support::eventually;
use serde_json::{Value, json};

use crate::first_light::cluster_body;
use crate::names::dig;
use crate::provider::{SUBSCRIPTION, curl};
use crate::region::{LIMIT, Region};
use crate::spread::{CONSUMER, SECOND, Spread};

/// A request to Clusters Service.
fn ask(spread: &Spread, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let url = format!("{}/api/aro_hcp/v1alpha1/{path}", spread.provider.clusters_service);
    let body = body.to_string();
    let mut arguments: Vec<_> = spread.provider.as_backend.iter().map(String::as_str).collect();
    if method != "GET" {
        arguments.extend(["-X", method, "-H", "Content-Type: application/json", "-d", &body]);
    }
    arguments.push(&url);
    curl(&arguments).unwrap()
}

/// A request about the management clusters that Clusters Service knows.
fn shard(spread: &Spread, method: &str, id: &str, body: &Value) -> (u16, Value) {
    ask(spread, method, &format!("provision_shards/{id}"), body)
}

fn change(spread: &Spread, id: &str, body: &Value) {
    let (status, answer) = shard(spread, "PATCH", id, body);
    assert_eq!(status, 200, "{answer}");
}

/// What Clusters Service says of a cluster that nobody asks for in earnest.
fn refusal(spread: &Spread, name: &str) -> (u16, Value) {
    let body = json!({
        "name": name, "version": { "id": "openshift-v4.20.0" },
        "azure": {
            "subscription_id": SUBSCRIPTION, "resource_group_name": name, "resource_name": name,
            "managed_resource_group_name": format!("{name}-managed"),
        },
    });
    ask(spread, "POST", "clusters?dryRun=true", &body)
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

    // All of them answer, and still nobody has room: that will not pass by itself.
    change(&spread, SECOND, &json!({ "capacity": 1 }));
    let (status, answer) = put(&three);
    assert_eq!((status, &answer["error"]["code"]), (503, &json!("ServiceUnavailable")), "{answer}");
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    for full in ["`management-1` is full (1 of 1)", "`management-2` is full (1 of 1)"] {
        assert!(message.contains(full), "{answer}");
    }
    let (status, answer) = refusal(&spread, "three");
    assert_eq!((status, &answer["details"][0]["code"]), (503, &json!("NoCapacity")), "{answer}");
    let (status, _) = spread.provider.arm("GET", &three, None);
    assert_eq!(status, 404, "nothing of it was kept");
    assert_eq!(spread.provider.resource_groups().unwrap().len(), 2);
    let mut known: Vec<_> = spread.provider.clusters().iter().map(|known| known["name"].clone()).collect();
    known.sort_by_key(Value::to_string);
    assert_eq!(known, ["one", "two"]);

    // Somebody makes room, and the same request is a cluster.
    change(&spread, SECOND, &json!({ "capacity": 2 }));
    let (status, answer) = put(&three);
    assert_eq!(status, 201, "{answer}");
    spread.provider.reaches(&three, "Succeeded").await;
    assert_eq!(spread.management.kubectl(&hosted).unwrap(), "two");

    for id in [&one, &two, &three] {
        let (status, answer) = spread.provider.arm("DELETE", id, None);
        assert_eq!(status, 202, "{answer}");
    }
    for id in [&one, &two, &three] {
        spread.provider.is_gone(id).await;
    }
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

#[tokio::test(flavor = "multi_thread")]
async fn clusters_of_a_management_cluster_that_is_lost_for_good_are_deleted_without_it() {
    let Some(spread) = Spread::start().await else { return };
    let Some(mut second) = spread.add_management().await else { return };
    is(&spread, CONSUMER, "healthy").await;
    is(&spread, SECOND, "healthy").await;
    let [gone, kept, next] = ["gone", "kept", "next"].map(Region::cluster_id);
    let make = async |id: &str| {
        let (status, answer) = spread.provider.arm("PUT", id, Some(&body(id)));
        assert_eq!(status, 201, "{answer}");
        spread.provider.reaches(id, "Succeeded").await;
    };
    change(&spread, CONSUMER, &json!({ "status": "maintenance" }));
    make(&gone).await;
    change(&spread, CONSUMER, &json!({ "status": "active" }));
    change(&spread, SECOND, &json!({ "status": "maintenance" }));
    make(&kept).await;
    let hosted = ["get", "hostedclusters", "-A", "-o", "jsonpath={.items[*].metadata.name}"];
    assert_eq!([&second, &spread.management].map(|one| one.kubectl(&hosted).unwrap()), ["gone", "kept"]);
    let names =
        |id: &str| dig(&spread.names_port.to_string(), &format!("api.{id}.{}", spread.provider.domain));
    assert!(names("gone").contains(" IN A "));

    // Whoever uses the other one notices nothing, whenever somebody looks.
    spread.kubectl_in("kept", &["get", "namespaces"]).unwrap();
    let kubeconfig = spread.management.path("kept.kubeconfig");
    let answers = || {
        let answer = spread.management.kubectl_on(&kubeconfig, &["get", "--raw", "/readyz"]);
        assert_eq!(answer.as_deref(), Ok("ok"));
    };
    second.lose();
    eventually("somebody notices", LIMIT, || {
        answers();
        let (_, found) = shard(&spread, "GET", SECOND, &Value::Null);
        async move {
            if found["health"]["state"] == "unresponsive" { Ok(()) } else { Err(found.to_string()) }
        }
    })
    .await;
    let all = spread.provider.clusters();
    let id = all.iter().find(|cluster| cluster["name"] == "gone").unwrap()["id"].clone();
    let path = format!("clusters/{}?best_effort=true", id.as_str().unwrap());
    change(&spread, SECOND, &json!({ "status": "offline" }));
    // Whoever has it wants it gone, and would wait for ever.
    let (status, answer) = spread.provider.arm("DELETE", &gone, None);
    assert_eq!(status, 202, "{answer}");
    let (status, left) = ask(&spread, "DELETE", &path, &Value::Null);
    assert_eq!(status, 200, "{left}");
    let kinds: Vec<_> =
        left["items"].as_array().unwrap().iter().filter_map(|item| item["kind"].as_str()).collect();
    for kind in ["Namespace", "HostedCluster", "ManagedCluster", "ManifestWork"] {
        assert!(kinds.contains(&kind), "{left}");
    }
    eventually("only the other is left", LIMIT, || {
        answers();
        let (status, body) = spread.provider.arm("GET", &gone, None);
        let once = spread.provider.only_once("kept", |arguments| spread.management.kubectl(arguments));
        let found = names("gone");
        async move {
            once?;
            let is_gone = status == 404 && found.contains("status: NXDOMAIN");
            if is_gone { Ok(()) } else { Err(format!("{status} {body} {found}")) }
        }
    })
    .await;
    make(&next).await;
    answers();
    let found = spread.management.kubectl(&hosted).unwrap();
    let mut found: Vec<_> = found.split(' ').collect();
    found.sort_unstable();
    assert_eq!(found, ["kept", "next"]);
    for id in [&kept, &next] {
        let (status, answer) = spread.provider.arm("DELETE", id, None);
        assert_eq!(status, 202, "{answer}");
    }
    spread.provider.is_gone(&kept).await;
    spread.provider.is_gone(&next).await;
}
