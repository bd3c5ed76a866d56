use pilothouse_arm::ProvisioningState::{Failed, Succeeded, Updating};
use pilothouse_backend::Config;
use pilothouse_clusters_service_api::NodePoolStateValue;
use pilothouse_clusters_service_api::simulated::{Fault, Mode};
use pilothouse_records::{Operation, Request};
use pilothouse_test_support::eventually;
use rstest::rstest;
use serde_json::json;

use crate::rig::{Engine, PATIENCE, Rig, cluster_id};

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_node_pool_is_made_changed_and_deleted(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    let backend = rig.mortal().await;
    rig.ready_cluster("First").await;
    let created = rig.put_node_pool("First", "workers").await;
    rig.until_state(&created, Succeeded).await;
    let id = cluster_id("First").child("nodePools", "WORKERS");
    let pool = rig.records.node_pool_get(&id).await.unwrap().unwrap();
    assert_eq!((pool.resource.status.provisioning_state, pool.active_operation), (Succeeded, None));
    assert_eq!(pool.resource.status.active_versions, ["4.20.8"]);

    rig.service.set_mode(Mode::Explicit);
    let update = json!({"autoscaling": {"min_replica": 1, "max_replica": 4}, "labels": {"a": "b"},
                        "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]});
    let changed = rig.change_node_pool("First", "workers", Request::Update, Some(update)).await;
    eventually("the change is asked for", PATIENCE, || async {
        let steps = rig.stored(&changed).await.steps.clone();
        let asked = steps.iter().any(|step| step.message.starts_with("asked Clusters Service to change"));
        if asked { Ok(()) } else { Err(format!("{steps:?}")) }
    })
    .await;
    // Whoever takes over goes on where the first one was.
    backend.kill();
    let backend = rig.backend().await;
    let pool = rig.service.node_pools().remove(0);
    rig.service.change_node_pool(&pool.cluster_id, &pool.id, |pool| {
        pool.status.state.value = NodePoolStateValue::Updating;
        pool.status.message = "step 9: 2 of 3 nodes are ready".into();
    });
    let updating = rig.until_state(&changed, Updating).await;
    let waiting = updating.steps.last().unwrap();
    assert_eq!((waiting.number, waiting.message.as_str()), (9, "2 of 3 nodes are ready"));
    rig.service.finish(&pool);
    rig.until_state(&changed, Succeeded).await;
    assert_eq!(rig.service.asked()[&changed.id.to_string()], 1);

    rig.service.set_mode(Mode::Automatic);
    let deleted = rig.change_node_pool("First", "workers", Request::Delete, None).await;
    rig.until_state(&deleted, Succeeded).await;
    assert!(rig.records.node_pool_get(&id).await.unwrap().is_none());
    assert!(rig.service.node_pools().is_empty());
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_node_pool_waits_for_its_cluster_to_be_made(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    rig.service.inject(Fault::Unavailable, |call| call.is_creation() && call.path == "/clusters");
    let backend = rig.backend().await;
    let cluster = rig.put_cluster("First").await;
    let pool = rig.put_node_pool("First", "workers").await;
    let waiting = rig.until("it waits", &pool, |pool| pool.waiting.is_some()).await.waiting.unwrap();
    assert_eq!(waiting.reason, "the cluster of node pool workers is still being made");
    // However often the cluster is tried meanwhile, nothing is written about the node pool.
    let attempts = |operation: &Operation| operation.waiting.as_ref().map_or(0, |waiting| waiting.attempts);
    rig.until("the cluster was tried some more", &cluster, |now| attempts(now) >= 4).await;
    let now = rig.stored(&pool).await;
    assert_eq!((now.requeued_at, now.waiting.clone()), (None, Some(waiting)));
    rig.service.clear_faults();
    rig.until_state(&cluster, Succeeded).await;
    let ended = rig.until_state(&pool, Succeeded).await;
    assert!(ended.requeued_at.is_some(), "its time begins with the end of the wait");
    backend.stop().await;
}

/// The end of a cluster's creation is all that a node pool is told: nothing is looked at without an event.
#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_node_pool_whose_cluster_is_never_made_does_not_wait_for_it(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    rig.service.inject(Fault::Unavailable, |call| call.is_creation() && call.path == "/clusters");
    let backend = rig.backend_with(Config { resync: "1h".parse().unwrap(), ..Rig::config() }).await;
    let cluster = rig.put_cluster("First").await;
    let pools = [rig.put_node_pool("First", "a").await, rig.put_node_pool("First", "b").await];
    for pool in &pools {
        rig.until("it waits", pool, |pool| pool.waiting.is_some()).await;
    }
    rig.service.clear_faults();
    let refused = Fault::Refuse { status: 400, target: None, message: "no" };
    rig.service.inject(refused, |call| call.is_creation());
    rig.until_state(&cluster, Failed).await;
    for pool in &pools {
        assert_eq!(rig.until_state(pool, Failed).await.error.unwrap().code, "ClusterMissing");
    }
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_node_pool_of_a_cluster_that_was_never_made_fails_and_can_be_deleted(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    let refused = Fault::Refuse { status: 400, target: None, message: "no" };
    rig.service.inject(refused, |call| call.is_creation() && call.path == "/clusters");
    let backend = rig.backend().await;
    let cluster = rig.put_cluster("First").await;
    rig.until_state(&cluster, Failed).await;
    let pool = rig.put_node_pool("First", "workers").await;
    let error = rig.until_state(&pool, Failed).await.error.unwrap();
    assert_eq!(error.code, "ClusterMissing");
    assert_eq!(error.additional_info[0].info.remedy, "delete the cluster and make it anew");
    let deleted = rig.change_node_pool("First", "workers", Request::Delete, None).await;
    rig.until_state(&deleted, Succeeded).await;
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_refused_or_fails_says_why_and_what_to_do(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    let backend = rig.backend().await;
    rig.ready_cluster("First").await;
    let created = rig.put_node_pool("First", "workers").await;
    rig.until_state(&created, Succeeded).await;
    rig.service.set_mode(Mode::Explicit);
    let change = || rig.change_node_pool("First", "workers", Request::Update, Some(json!({"replicas": 3})));
    let scaling = change().await;
    let pool = rig.service.node_pools().remove(0);
    // A call that has begun may still be under way; what it has changed is there to be failed.
    eventually("the change is accepted", PATIENCE, || async {
        let replicas = rig.service.node_pools().remove(0).replicas;
        if replicas == Some(3) { Ok(()) } else { Err(format!("{replicas:?}")) }
    })
    .await;
    let message = "Step 9 (services/hypershift) failed on node pool workers: no room. To do: make some.";
    rig.service.change_node_pool(&pool.cluster_id, &pool.id, |pool| {
        pool.status.state.value = NodePoolStateValue::RecoverableError;
        pool.status.message = message.into();
    });
    let failed = rig.until_state(&scaling, Failed).await;
    let failure = &failed.error.unwrap().additional_info[0].info;
    assert_eq!((failure.step, failure.observed.as_str()), (9, "no room"));

    let refused = Fault::Refuse { status: 400, target: Some("replicas"), message: "too many" };
    rig.service.inject(refused, |call| call.is_update());
    let scaling = change().await;
    let error = rig.until_state(&scaling, Failed).await.error.unwrap();
    assert_eq!(error.code, "CLUSTERS-MGMT-400");
    assert_eq!(error.additional_info[0].info.remedy, "ask for the change again, with what is accepted");

    rig.service.clear_faults();
    rig.service.remove(&pool);
    let scaling = change().await;
    assert_eq!(rig.until_state(&scaling, Failed).await.error.unwrap().code, "ResourceLost");
    backend.stop().await;
}
