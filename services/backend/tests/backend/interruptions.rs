use pilothouse_arm::ProvisioningState::{Provisioning, Succeeded};
use pilothouse_clusters_service_api::ClusterState;
use pilothouse_test_support::eventually;

use crate::{PATIENCE, Rig};

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_killed_after_every_step_is_taken_over_by_the_next() {
    let rig = Rig::new().await;
    let operation = rig.put_cluster("First").await;
    let backend = rig.backend().await;
    let made = rig.until_made("First").await;
    backend.kill();
    rig.clusters_service.change(&made.id, |cluster| cluster.status.state = ClusterState::Installing);
    let backend = rig.backend().await;
    rig.until_state(&operation, Provisioning).await;
    backend.kill();
    rig.clusters_service.change(&made.id, |cluster| cluster.status.state = ClusterState::Ready);
    let backend = rig.backend().await;
    rig.until_state(&operation, Succeeded).await;
    backend.kill();

    let operation = rig.delete_cluster("First").await;
    let backend = rig.backend().await;
    eventually("deletion is asked for", PATIENCE, || async {
        match rig.clusters_service.clusters()[0].state {
            ClusterState::Uninstalling => Ok(()),
            state => Err(format!("{state:?}")),
        }
    })
    .await;
    backend.kill();
    rig.clusters_service.remove(&made.id);
    let backend = rig.backend().await;
    rig.until_state(&operation, Succeeded).await;
    assert_eq!(rig.cluster("First").await, None);
    assert_eq!(rig.clusters_service.asked(), [1]);
    backend.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_killed_at_any_moment_makes_no_second_cluster() {
    for pause in [0, 1, 2, 3, 5, 8] {
        let rig = Rig::new().await;
        let operation = rig.put_cluster("First").await;
        let backend = rig.backend().await;
        // A different point each time, and none in particular.
        for _ in 0..pause {
            rig.operation(&operation).await;
        }
        backend.kill();
        let backend = rig.backend().await;
        let made = rig.until_made("First").await;
        rig.clusters_service.change(&made.id, |cluster| cluster.status.state = ClusterState::Ready);
        rig.until_state(&operation, Succeeded).await;
        assert_eq!(rig.clusters_service.clusters().len(), 1);
        backend.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_asked_for_again() {
    let rig = Rig::new().await;
    // More than one call tries by itself.
    rig.clusters_service.lose_answers(7);
    let backend = rig.backend().await;
    let operation = rig.put_cluster("First").await;
    let made = rig.until_made("First").await;
    rig.clusters_service.change(&made.id, |cluster| cluster.status.state = ClusterState::Ready);
    let operation = rig.until_state(&operation, Succeeded).await;
    assert_eq!(rig.clusters_service.clusters().len(), 1);
    let asked = operation.steps.iter().find(|step| step.number == 4).unwrap();
    assert!(asked.message.starts_with("asked Clusters Service"), "{asked:?}");
    backend.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_backends_do_the_work_once() {
    const CLUSTERS: usize = 12;
    let rig = Rig::new().await;
    let (one, two) = (rig.backend().await, rig.backend().await);
    let mut operations = Vec::new();
    for number in 0..CLUSTERS {
        operations.push(rig.put_cluster(&format!("c{number}")).await);
    }
    for (number, operation) in operations.iter().enumerate() {
        let made = rig.until_made(&format!("c{number}")).await;
        rig.clusters_service.change(&made.id, |cluster| cluster.status.state = ClusterState::Ready);
        rig.until_state(operation, Succeeded).await;
    }
    assert_eq!(rig.clusters_service.asked(), [1; CLUSTERS]);
    one.stop().await;
    two.stop().await;
}
