use serde_json::json;

use super::*;

fn cluster(status: serde_json::Value) -> HostedCluster {
    serde_json::from_value(json!({
        "metadata": { "name": "guest", "namespace": "hcp" },
        "spec": { "release": { "image": "a:4.20.0" }, "platform": { "type": "None" } },
        "status": status,
    }))
    .unwrap()
}

fn pool(cluster: &str, replicas: i32) -> NodePool {
    serde_json::from_value(json!({
        "metadata": { "name": format!("of-{cluster}"), "namespace": "hcp" },
        "spec": {
            "clusterName": cluster, "release": { "image": "a:4.20.0" }, "platform": { "type": "None" }, "replicas": 2,
        },
        "status": { "replicas": replicas },
    }))
    .unwrap()
}

fn condition(type_: &str, status: &str, message: &str) -> serde_json::Value {
    json!({
        "type": type_, "status": status, "reason": "Because", "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

fn finished() -> serde_json::Value {
    let conditions: Vec<_> = STEPS.iter().map(|(type_, _)| condition(type_, "True", "yes")).collect();
    let entry = json!({
        "state": "Completed", "startedTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:01Z",
        "version": "4.20.0", "image": "a:4.20.0",
    });
    let version = json!({ "desired": { "image": "a:4.20.0" }, "history": [entry], "availableUpdates": null });
    json!({ "conditions": conditions, "version": version })
}

#[test]
fn a_cluster_is_complete_with_its_version_and_its_own_nodes() {
    let mut seen = Seen { cluster: Some(cluster(finished())), pools: vec![pool("other", 0)] };
    assert!(!seen.is_complete("guest"), "there is no pool of this cluster yet");
    seen.put(pool("guest", 1));
    assert!(!seen.is_complete("guest"), "one node is missing");
    seen.put(pool("guest", 2));
    assert!(seen.is_complete("guest"));
    assert_eq!(seen.note(), None);

    let mut status = finished();
    status["conditions"][3] = condition("EtcdAvailable", "Unknown", "there is none");
    seen.cluster = Some(cluster(status.clone()));
    assert!(!seen.is_complete("guest"), "nobody knows yet whether state can be stored");
    status["conditions"][3]["reason"] = json!("NotApplicable");
    seen.cluster = Some(cluster(status));
    assert!(seen.is_complete("guest"), "what a cluster does not have is not waited for");

    let mut status = finished();
    status["version"]["history"][0]["state"] = json!("Partial");
    seen.cluster = Some(cluster(status));
    assert!(!seen.is_complete("guest"), "the version is not rolled out");
}

#[test]
fn a_pool_without_its_nodes_says_why() {
    let mut lonely = pool("guest", 0);
    lonely.status.as_mut().unwrap().conditions =
        serde_json::from_value(json!([condition("Ready", "False", "no machine yet")])).unwrap();
    let seen = Seen { cluster: None, pools: vec![lonely] };
    let text = seen.aspects("guest").pop().unwrap().text;
    assert_eq!(text, "0 of 2 nodes are ready: no machine yet");
}

#[test]
fn what_is_wrong_is_told_in_the_words_of_the_condition() {
    let conditions = [
        condition("ValidConfiguration", "False", "networking.serviceNetwork: nonsense"),
        condition("ControlPlaneHighlyAvailable", "False", "one replica"),
    ];
    let seen = Seen { cluster: Some(cluster(json!({ "conditions": conditions }))), pools: Vec::new() };
    let aspects = seen.aspects("guest");
    assert_eq!(aspects[0].state, State::Refused);
    assert_eq!(aspects[0].line(), "refused  ValidConfiguration       networking.serviceNetwork: nonsense\n");
    assert_eq!(aspects[1].state, State::Waiting);
    assert_eq!(seen.note().as_deref(), Some("one replica"));
}
