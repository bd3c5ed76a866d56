//! What Clusters Service is asked for when something is changed.

use pilothouse_arm::ProvisioningState;
use pilothouse_clusters_service_api::simulated::{Call, Fault};
use rstest::rstest;
use serde_json::{Value, json};

use crate::support::{Engine, Rig, cluster, cluster_body, cluster_url, pool, pool_body, subscription};

/// What was asked for last, without what ties it to the work.
fn asked(rig: &Rig) -> Value {
    let mut body = rig.asked().pop().unwrap().body;
    body.as_object_mut().unwrap().remove("properties");
    body
}

#[rstest]
#[tokio::test]
async fn of_a_cluster_only_what_differs_is_asked_for(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    for (patch, expected) in [
        (
            json!({"properties": {"nodeDrainTimeoutMinutes": 5}}),
            json!({"node_drain_grace_period": {"value": 5, "unit": "minutes"}}),
        ),
        (
            json!({"properties": {"api": {"authorizedCidrs": ["203.0.113.0/24"]}}}),
            json!({"api": {"cidr_block_access": {"allow": {"mode": "allow_list", "values": ["203.0.113.0/24"]}}}}),
        ),
        (
            json!({"properties": {"api": {"authorizedCidrs": null}}}),
            json!({"api": {"cidr_block_access": {"allow": {"mode": "allow_all", "values": []}}}}),
        ),
        (
            json!({"properties": {"imageDigestMirrors": [{"source": "a.example", "mirrors": ["b.example"]}]}}),
            json!({"registry_config": {"image_digest_mirrors": [{"source": "a.example", "mirrors": ["b.example"]}]}}),
        ),
        (
            json!({"properties": {"autoscaling": {"maxNodesTotal": 9, "maxNodeProvisionTimeSeconds": 90}}}),
            json!({"autoscaler": {"max_node_provision_time": "90s", "max_pod_grace_period": 600,
                   "pod_priority_threshold": -10, "resource_limits": {"max_nodes_total": 9}}}),
        ),
        (
            json!({"properties": {"version": {"id": "4.21"}}}),
            json!({"version": {"id": "openshift-v4.21.2", "channel_group": "stable"}}),
        ),
    ] {
        let patched = rig.patch(&cluster_url("First"), &patch).await;
        assert_eq!((patched.status, patched.state()), (202, "Accepted"), "{patch}: {}", patched.text);
        assert!(patched.header("location").contains("/hcpOperationResults/"));
        assert_eq!(asked(&rig), expected, "{patch}");
        let operation = rig.records.operation_active().await.unwrap().remove(0);
        let kept = operation.clusters_service_request.clone().unwrap();
        assert_eq!(kept["properties"]["rp_operation_id"], operation.id.to_string());
        rig.succeed("First").await;
    }
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn what_nobody_acts_on_is_asked_of_nobody_unless_the_last_change_did_not_come_to_be(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    rig.put(&pool("one"), &pool_body(1)).await;
    rig.succeed("First").await;
    let before = rig.asked().len();
    for url in [cluster_url("First"), pool("one")] {
        let tagged = rig.patch(&url, &json!({"tags": {"a": "b"}})).await;
        assert_eq!((tagged.status, &tagged.body["tags"]), (202, &json!({"a": "b"})), "{}", tagged.text);
        rig.succeed("First").await;
    }
    assert_eq!(rig.asked().len(), before);

    rig.set_state("First", ProvisioningState::Failed).await;
    let again = rig.put(&cluster_url("First"), &cluster_body("First")).await;
    assert_eq!(again.status, 200, "{}", again.text);
    let all = asked(&rig);
    for member in ["node_drain_grace_period", "api", "registry_config", "autoscaler", "version"] {
        assert!(all.get(member).is_some(), "{member} is missing in {all}");
    }
    rig.succeed("First").await;
    // What the control plane runs by now did come to be.
    let mut stored = rig.records.cluster_get(&cluster("First").parse().unwrap()).await.unwrap().unwrap();
    stored.resource.status.provisioning_state = ProvisioningState::Failed;
    stored.resource.status.active_versions = vec!["4.20.8".to_owned()];
    let mut change = rig.records.change(subscription()).unwrap();
    change.cluster_replace(&stored).unwrap().commit().await.unwrap();
    assert_eq!(rig.put(&cluster_url("First"), &cluster_body("First")).await.status, 200);
    let all = asked(&rig);
    assert_eq!((all.get("version"), all.get("api").is_some()), (None, true), "{all}");
    rig.succeed("First").await;
    let mut stored = rig.records.node_pool_get(&pool_id()).await.unwrap().unwrap();
    stored.resource.status.provisioning_state = ProvisioningState::Failed;
    let mut change = rig.records.change(subscription()).unwrap();
    change.node_pool_replace(&stored).unwrap().commit().await.unwrap();
    assert_eq!(rig.put(&pool("one"), &pool_body(1)).await.status, 200);
    assert_eq!(asked(&rig)["replicas"], 1);
    rig.stop().await;
}

fn pool_id() -> pilothouse_arm::ResourceId {
    format!("{}/nodePools/one", cluster("First")).parse().unwrap()
}

#[rstest]
#[tokio::test]
async fn of_a_node_pool_only_what_differs_is_asked_for(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    rig.put(&pool("one"), &pool_body(1)).await;
    rig.succeed("First").await;
    for (patch, expected) in [
        (json!({"replicas": 2}), json!({"replicas": 2})),
        (
            json!({"replicas": 0, "autoScaling": {"min": 1, "max": 3}}),
            json!({"autoscaling": {"min_replica": 1, "max_replica": 3}}),
        ),
        (json!({"replicas": 4, "autoScaling": null}), json!({"replicas": 4})),
        (json!({"labels": [{"key": "tier", "value": "web"}]}), json!({"labels": {"tier": "web"}})),
        (
            json!({"taints": [{"key": "a", "effect": "NoSchedule"}]}),
            json!({"taints": [{"key": "a", "value": "", "effect": "NoSchedule"}]}),
        ),
        (
            json!({"nodeDrainTimeoutMinutes": 7}),
            json!({"node_drain_grace_period": {"value": 7, "unit": "minutes"}}),
        ),
        (json!({"nodeDrainTimeoutMinutes": null}), json!({"node_drain_grace_period": null})),
    ] {
        let patched = rig.patch(&pool("one"), &json!({"properties": patch})).await;
        assert_eq!(patched.status, 202, "{patch}: {}", patched.text);
        assert_eq!(asked(&rig), expected, "{patch}");
        rig.succeed("First").await;
    }
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn a_change_that_is_refused_is_told_with_its_field_and_leaves_everything_as_it_was(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    rig.put(&pool("one"), &pool_body(1)).await;
    rig.succeed("First").await;
    for (url, patch, theirs, ours) in [
        (cluster_url("First"), json!({"version": {"id": "4.21"}}), "version.id", "properties.version.id"),
        (
            cluster_url("First"),
            json!({"api": {"authorizedCidrs": ["10.0.0.1"]}}),
            "api.cidr_block_access.allow.values[0]",
            "properties.api.authorizedCidrs",
        ),
        (pool("one"), json!({"replicas": 3}), "replicas", "properties.replicas"),
        (pool("one"), json!({"labels": [{"key": "a", "value": "b"}]}), "labels", "properties.labels"),
    ] {
        let fault = Fault::Refuse { status: 400, target: Some(theirs), message: "it cannot be changed yet" };
        rig.clusters_service.inject_times(1, fault, Call::is_preflight);
        let refused = rig.patch(&url, &json!({"properties": patch})).await;
        assert_eq!(
            (refused.status, refused.code(), refused.target()),
            (400, "InvalidRequestContent", ours),
            "{}",
            refused.text
        );
        let gone = Fault::Refuse { status: 404, target: None, message: "no such thing" };
        rig.clusters_service.inject_times(1, gone, Call::is_preflight);
        let refused = rig.patch(&url, &json!({"properties": patch})).await;
        assert_eq!((refused.status, refused.code()), (409, "Conflict"), "{}", refused.text);
        rig.clusters_service.inject(Fault::Unavailable, Call::is_preflight);
        assert_eq!(rig.patch(&url, &json!({"properties": patch})).await.status, 503);
        rig.clusters_service.clear_faults();
        assert_eq!(rig.get(&url).await.state(), "Succeeded");
    }
    assert!(rig.records.operation_active().await.unwrap().is_empty());
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn a_cluster_does_not_leave_its_node_pools_behind(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    rig.put(&pool("one"), &pool_body(1)).await;
    rig.succeed("First").await;
    let mut stored = rig.records.node_pool_get(&pool_id()).await.unwrap().unwrap();
    stored.resource.status.active_versions = vec!["4.18.3".to_owned()];
    let mut change = rig.records.change(subscription()).unwrap();
    change.node_pool_replace(&stored).unwrap().commit().await.unwrap();
    let refused = rig.patch(&cluster_url("First"), &json!({"properties": {"version": {"id": "4.21"}}})).await;
    assert_eq!((refused.status, refused.target()), (400, "properties.version.id"), "{}", refused.text);
    assert!(refused.text.contains("node pool 'one' is at 4.18"), "{}", refused.text);
    rig.stop().await;
}
