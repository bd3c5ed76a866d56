use pilothouse_arm::ProvisioningState::{Accepted, Deleting, Failed, Succeeded, Updating};
use pilothouse_clusters_service_api::{ClusterState, NodePoolStateValue};
use pilothouse_records::Request;
use pilothouse_test_support::eventually;

use crate::{PATIENCE, Rig, cluster_id, operation, subscription};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_pool_is_made_and_deleted() {
    let rig = Rig::new().await;
    let backend = rig.backend().await;
    let made_by = rig.put_cluster("First").await;
    let made = rig.until_made("First").await;
    rig.clusters_service.change(&made.id, |cluster| cluster.status.state = ClusterState::Ready);
    rig.until_state(&made_by, Succeeded).await;

    let created = rig.put_node_pool("First", "workers").await;
    eventually("the node pool is made", PATIENCE, || async {
        if rig.clusters_service.node_pools().len() == 1 { Ok(()) } else { Err("not yet") }
    })
    .await;
    rig.clusters_service.change_pool(|pool| pool.status.state.value = NodePoolStateValue::Ready);
    rig.until_state(&created, Succeeded).await;
    let id = cluster_id("First").child("nodePools", "WORKERS");
    let mut pool = rig.records.node_pool_get(&id).await.unwrap().unwrap();
    assert_eq!(pool.resource.status.provisioning_state, Succeeded);
    assert_eq!(pool.resource.status.active_versions, ["4.20.8"]);

    let mut deletion = operation(Request::Delete, &id, None);
    deletion.state = Deleting;
    pool.active_operation = Some(deletion.id);
    let mut change = rig.records.change(subscription()).unwrap();
    change.node_pool_replace(&pool).unwrap().operation_create(&deletion).unwrap().commit().await.unwrap();
    eventually("deletion is asked for", PATIENCE, || async {
        match rig.clusters_service.node_pools()[0].status.state.value {
            NodePoolStateValue::Uninstalling => Ok(()),
            state => Err(format!("{state:?}")),
        }
    })
    .await;
    rig.clusters_service.remove_pool(&made.id, &"workers".parse().unwrap());
    rig.until_state(&deletion, Succeeded).await;
    assert!(rig.records.node_pool_get(&id).await.unwrap().is_none());
    backend.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_takes_its_node_pools_along() {
    let rig = Rig::new().await;
    let backend = rig.backend().await;
    let made_by = rig.put_cluster("First").await;
    let made = rig.until_made("First").await;
    rig.clusters_service.change(&made.id, |cluster| cluster.status.state = ClusterState::Ready);
    rig.until_state(&made_by, Succeeded).await;
    rig.put_node_pool("First", "workers").await;
    let deletion = rig.delete_cluster("First").await;
    eventually("deletion is asked for", PATIENCE, || async {
        match rig.clusters_service.clusters()[0].state {
            ClusterState::Uninstalling => Ok(()),
            state => Err(format!("{state:?}")),
        }
    })
    .await;
    rig.clusters_service.remove(&made.id);
    rig.until_state(&deletion, Succeeded).await;
    assert!(rig.records.node_pool_all(&cluster_id("First")).await.unwrap().is_empty());
    assert!(rig.records.operation_active().await.unwrap().is_empty());
    backend.stop().await;
}

/// A cluster with a node pool of two, both ready.
async fn ready(rig: &Rig) -> pilothouse_clusters_service_api::Cluster {
    let made_by = rig.put_cluster("First").await;
    let made = rig.until_made("First").await;
    rig.clusters_service.change(&made.id, |cluster| cluster.status.state = ClusterState::Ready);
    rig.until_state(&made_by, Succeeded).await;
    let created = rig.put_node_pool("First", "workers").await;
    eventually("the node pool is made", PATIENCE, || async {
        if rig.clusters_service.node_pools().len() == 1 { Ok(()) } else { Err("not yet") }
    })
    .await;
    rig.clusters_service.change_pool(|pool| pool.status.state.value = NodePoolStateValue::Ready);
    rig.until_state(&created, Succeeded).await;
    made
}

async fn until_asked(rig: &Rig, scaling: &pilothouse_records::Operation) {
    eventually("the change is asked for", PATIENCE, || async {
        let steps = rig.operation(scaling).await.steps;
        let asked = steps.iter().any(|step| step.message.starts_with("asked Clusters Service to change"));
        if asked { Ok(()) } else { Err(format!("{steps:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_is_asked_for_once_and_followed_until_the_node_pool_is_ready_again() {
    let rig = Rig::new().await;
    let backend = rig.backend().await;
    ready(&rig).await;
    let scaling = rig.scale_node_pool("First", "workers", 3).await;
    until_asked(&rig, &scaling).await;
    assert_eq!(rig.operation(&scaling).await.state, Accepted);
    // Whoever takes over goes on where the first one was.
    backend.kill();
    let backend = rig.backend().await;
    rig.clusters_service.change_pool(|pool| {
        pool.status.state.value = NodePoolStateValue::Updating;
        pool.status.message = "step 9: 2 of 3 nodes are ready".into();
    });
    let updating = rig.until_state(&scaling, Updating).await;
    let waiting = updating.steps.last().unwrap();
    assert_eq!((waiting.number, waiting.message.as_str()), (9, "2 of 3 nodes are ready"));
    let id = cluster_id("First").child("nodePools", "workers");
    let pool = rig.records.node_pool_get(&id).await.unwrap().unwrap();
    assert_eq!(pool.resource.status.provisioning_state, Updating);

    rig.clusters_service.change_pool(|pool| pool.status.state.value = NodePoolStateValue::Ready);
    rig.until_state(&scaling, Succeeded).await;
    let pool = rig.records.node_pool_get(&id).await.unwrap().unwrap();
    assert_eq!((pool.resource.status.provisioning_state, pool.active_operation), (Succeeded, None));
    let updates = rig.clusters_service.updates();
    assert_eq!(updates.len(), 1, "{updates:?}");
    assert_eq!((&updates[0].0, updates[0].1.replicas), (&scaling.id.to_string(), Some(3)));
    backend.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_answer_is_lost_is_asked_for_again_by_the_same_operation() {
    let rig = Rig::new().await;
    let backend = rig.backend().await;
    ready(&rig).await;
    // More than one call tries by itself.
    rig.clusters_service.lose_answers(7);
    let scaling = rig.scale_node_pool("First", "workers", 0).await;
    until_asked(&rig, &scaling).await;
    rig.clusters_service.change_pool(|pool| pool.status.state.value = NodePoolStateValue::Ready);
    rig.until_state(&scaling, Succeeded).await;
    assert_eq!(rig.clusters_service.node_pools()[0].replicas, 0);
    assert!(rig.clusters_service.updates().iter().all(|(operation, _)| *operation == scaling.id.to_string()));
    backend.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_refused_or_fails_says_why_and_what_to_do() {
    let rig = Rig::new().await;
    let backend = rig.backend().await;
    let made = ready(&rig).await;
    let scaling = rig.scale_node_pool("First", "workers", 3).await;
    until_asked(&rig, &scaling).await;
    let message = "Step 9 (services/hypershift) failed on node pool workers: no room. To do: make some.";
    rig.clusters_service.change_pool(|pool| {
        pool.status.state.value = NodePoolStateValue::Error;
        pool.status.message = message.into();
    });
    let failed = rig.until_state(&scaling, Failed).await;
    let failure = &failed.error.unwrap().additional_info[0].info;
    assert_eq!((failure.step, failure.observed.as_str()), (9, "no room"));

    rig.clusters_service.refuse_creations();
    let scaling = rig.scale_node_pool("First", "workers", 4).await;
    let failed = rig.until_state(&scaling, Failed).await;
    let error = failed.error.unwrap();
    assert_eq!(error.code, "CLUSTERS-MGMT-400");
    assert_eq!(error.additional_info[0].info.remedy, "ask for the change again, with what is accepted");

    rig.clusters_service.allow_everything();
    rig.clusters_service.remove_pool(&made.id, &"workers".parse().unwrap());
    let scaling = rig.scale_node_pool("First", "workers", 5).await;
    assert_eq!(rig.until_state(&scaling, Failed).await.error.unwrap().code, "ResourceLost");
    backend.stop().await;
}
