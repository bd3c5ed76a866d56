use pilothouse_arm::ProvisioningState::{Accepted, Deleting, Failed, Provisioning, Succeeded};
use pilothouse_clusters_service_api::ClusterState;
use pilothouse_test_support::eventually;

use crate::{PATIENCE, Rig};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_followed_until_it_is_ready() {
    let rig = Rig::new().await;
    let backend = rig.backend().await;
    let operation = rig.put_cluster("First").await;
    let made = rig.until_made("First").await;
    assert_eq!(rig.clusters_service.correlations(), ["the-correlation"]);
    assert_eq!(rig.operation(&operation).await.state, Accepted);

    rig.clusters_service.change(&made.id, |cluster| {
        cluster.status.state = ClusterState::Installing;
        cluster.status.description = "step 9: waiting for the control plane".into();
    });
    let operation = rig.until_state(&operation, Provisioning).await;
    let waiting = operation.steps.last().unwrap();
    assert_eq!((waiting.number, waiting.component.as_str()), (9, "services/hypershift"));
    assert_eq!(rig.cluster("First").await.unwrap().resource.status.provisioning_state, Provisioning);

    rig.clusters_service.change(&made.id, |cluster| {
        cluster.status.state = ClusterState::Ready;
        cluster.api.url = Some("https://api.first.pilothouse.test:443".into());
    });
    let operation = rig.until_state(&operation, Succeeded).await;
    assert!(operation.steps.iter().all(|step| step.finished_at.is_some()), "{:?}", operation.steps);
    assert_eq!(operation.steps.last().unwrap().number, 14);
    let cluster = rig.cluster("first").await.unwrap();
    assert_eq!(cluster.active_operation, None);
    let hub = cluster.resource;
    assert_eq!(hub.status.provisioning_state, Succeeded);
    assert_eq!(hub.status.api_url.as_deref(), Some("https://api.first.pilothouse.test:443"));
    assert_eq!(hub.status.base_domain.as_deref(), Some("pilothouse.test"));
    assert_eq!(hub.status.active_versions, ["4.20"]);
    assert_eq!(
        (hub.spec.base_domain_prefix.as_deref(), hub.spec.version.id.as_deref()),
        (Some("first"), Some("4.20"))
    );
    backend.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_arrives_with_its_cause() {
    let rig = Rig::new().await;
    let backend = rig.backend().await;
    let operation = rig.put_cluster("First").await;
    let made = rig.until_made("First").await;
    rig.clusters_service.change(&made.id, |cluster| {
        cluster.status.state = ClusterState::Error;
        cluster.status.provision_error_code = Some("CloudResourcesFailed".into());
        cluster.status.provision_error_message = Some(
            "Step 5 (services/clusters-service) failed on cluster x: no quota. To do: ask for more.".into(),
        );
    });
    let operation = rig.until_state(&operation, Failed).await;
    let error = operation.error.unwrap();
    let failure = &error.additional_info[0].info;
    assert_eq!(error.code, "CloudResourcesFailed");
    assert_eq!(
        (failure.step, failure.observed.as_str(), failure.remedy.as_str()),
        (5, "no quota", "ask for more")
    );
    let cluster = rig.cluster("First").await.unwrap();
    assert_eq!((cluster.resource.status.provisioning_state, cluster.active_operation), (Failed, None));
    backend.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_that_clusters_service_refuses_fails_with_what_it_said() {
    let rig = Rig::new().await;
    rig.clusters_service.refuse_creations();
    let backend = rig.backend().await;
    let operation = rig.put_cluster("First").await;
    let operation = rig.until_state(&operation, Failed).await;
    let error = operation.error.unwrap();
    assert_eq!(error.code, "CLUSTERS-MGMT-400");
    assert!(error.message.contains("there is no room for it"), "{error}");
    backend.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_cluster_is_gone_when_nothing_of_it_is_left() {
    let rig = Rig::new().await;
    let backend = rig.backend().await;
    rig.put_cluster("First").await;
    let made = rig.until_made("First").await;
    let operation = rig.delete_cluster("First").await;
    eventually("deletion is asked for", PATIENCE, || async {
        match rig.clusters_service.clusters()[0].state {
            ClusterState::Uninstalling => Ok(()),
            state => Err(format!("{state:?}")),
        }
    })
    .await;
    assert_eq!(rig.cluster("First").await.unwrap().resource.status.provisioning_state, Deleting);
    rig.clusters_service.remove(&made.id);
    rig.until_state(&operation, Succeeded).await;
    assert_eq!(rig.cluster("First").await, None);
    backend.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_whose_creation_was_interrupted_is_found_and_deleted() {
    let rig = Rig::new().await;
    rig.put_cluster("First").await;
    // It was made, and then the backend died before writing down its id.
    let id = rig.clusters_service.make(&crate::new_cluster(&crate::cluster_id("First")));
    let operation = rig.delete_cluster("First").await;
    let backend = rig.backend().await;
    eventually("deletion is asked for", PATIENCE, || async {
        match rig.clusters_service.clusters()[0].state {
            ClusterState::Uninstalling => Ok(()),
            state => Err(format!("{state:?}")),
        }
    })
    .await;
    rig.clusters_service.remove(&id);
    rig.until_state(&operation, Succeeded).await;
    assert_eq!(rig.cluster("First").await, None);
    backend.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_too_long_fails_and_says_what_it_was_waiting_for() {
    let rig = Rig::new().await;
    let create_deadline = "0s".parse().unwrap();
    let backend =
        rig.backend_with(pilothouse_backend::Config { create_deadline, ..Default::default() }).await;
    let operation = rig.put_cluster("First").await;
    let operation = rig.until_state(&operation, Failed).await;
    let error = operation.error.unwrap();
    assert_eq!(error.code, "DeadlineExceeded");
    assert!(error.message.contains("last seen: accepted"), "{error}");
    backend.stop().await;
}
