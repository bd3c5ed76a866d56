//! How many clusters there are in which state is known at every moment, without looking at all of them.

use pilothouse_clusters_service_api::ClusterState;
use pilothouse_test_support::eventually;

use crate::support::{PATIENCE, Running, World, context, new_cluster};

/// Until just these are counted.
async fn counts(service: &Running, expected: &[(&str, i64)]) {
    eventually("the clusters are counted", PATIENCE, || async {
        let found = service.counts();
        let right = found.iter().map(|(state, count)| (state.as_str(), *count)).eq(expected.iter().copied());
        if right { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_are_counted_as_they_come_change_and_go() {
    let world = World::new().await;
    // All clusters are looked at when it starts, and in five minutes again.
    let service = world.start().await;
    counts(&service, &[]).await;
    let first = service.create(&new_cluster("first")).await;
    let second = service.create(&new_cluster("second")).await;
    for cluster in [&first, &second] {
        service.until(&cluster.id, ClusterState::Installing).await;
    }
    counts(&service, &[("Installing", 2)]).await;
    world.maestro.play_agent();
    for cluster in [&first, &second] {
        service.until(&cluster.id, ClusterState::Ready).await;
    }
    counts(&service, &[("Ready", 2)]).await;

    // Another replica, which hears of the next ones as well.
    let other = world.start().await;
    counts(&other, &[("Ready", 2)]).await;
    let third = service.create(&new_cluster("third")).await;
    service.until(&third.id, ClusterState::Ready).await;
    for replica in [&service, &other] {
        counts(replica, &[("Ready", 3)]).await;
    }
    service.client.cluster_delete(&context(), &first.id).await.unwrap();
    service.until_gone(&first.id).await;
    for replica in [&service, &other] {
        counts(replica, &[("Ready", 2)]).await;
    }
}
