//! Several replicas of the service, and what arrives when nobody waits for it any more.

use pilothouse_clusters_service_api::{ClusterState, NodePoolStateValue};
use pilothouse_test_support::eventually;

use crate::maestro::Bundle;
use crate::support::{PATIENCE, Running, World, context, new_cluster, new_node_pool};

#[tokio::test(flavor = "multi_thread")]
async fn what_one_replica_is_making_no_other_takes_away_under_its_hands() {
    let world = World::new().await;
    world.maestro.play_agent();
    // The last request of a creation; its answer comes when the other has had its turn.
    world.cloud.hold("/ns/first");
    // Not lost because the machine is busy for a moment.
    let lease = pilothouse_runtime::config::Duration::from_secs(6);
    let first = world.start_with(|config| config.lease = lease).await;
    let cluster = first.create(&new_cluster("first")).await;
    eventually("the delegation is on its way", PATIENCE, || async {
        if world.cloud.is_holding() { Ok(()) } else { Err(format!("{:?}", world.cloud.log())) }
    })
    .await;
    let second = world.start().await;
    second.client.cluster_delete(&context(), &cluster.id).await.unwrap();
    // Whoever makes this one has looked at the other before.
    let other = second.create(&new_cluster("other")).await;
    second.until(&other.id, ClusterState::Ready).await;
    second.client.cluster_delete(&context(), &other.id).await.unwrap();
    second.until_gone(&other.id).await;

    world.cloud.release();
    second.until_gone(&cluster.id).await;
    eventually("what was on its way has arrived", PATIENCE, || async {
        let log = world.cloud.log();
        let arrived = log.iter().any(|line| line.starts_with("PUT") && line.ends_with("/ns/first"));
        if arrived { Ok(()) } else { Err(format!("{log:?}")) }
    })
    .await;
    assert_eq!((world.maestro.names(), world.cloud.paths()), (Vec::new(), Vec::new()));
    // So the name can be had again.
    let mut again = new_cluster("first");
    again.properties.clear();
    let again = first.create(&again).await;
    first.until(&again.id, ClusterState::Ready).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_a_dead_replica_held_is_taken_over() {
    let world = World::new().await;
    world.maestro.play_agent();
    world.cloud.hold("/ns/first");
    let first = world.start().await;
    let cluster = first.create(&new_cluster("first")).await;
    eventually("the delegation is on its way", PATIENCE, || async {
        if world.cloud.is_holding() { Ok(()) } else { Err(format!("{:?}", world.cloud.log())) }
    })
    .await;
    let second = world.start().await;
    first.kill();
    second.until(&cluster.id, ClusterState::Ready).await;
}

/// A service, and everything that it had posted for a cluster that is gone.
async fn after_a_life(world: &World) -> (Running, Vec<(String, Bundle)>) {
    world.maestro.play_agent();
    let service = world.start().await;
    let cluster = service.create(&new_cluster("first")).await;
    service.until(&cluster.id, ClusterState::Ready).await;
    let names = world.maestro.names().into_iter();
    let posted = names.map(|name| (name.clone(), world.maestro.bundle(&name).unwrap())).collect();
    service.client.cluster_delete(&context(), &cluster.id).await.unwrap();
    service.until_gone(&cluster.id).await;
    (service, posted)
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_that_were_taken_while_nobody_listened_are_removed() {
    let world = World::new().await;
    let (service, posted) = after_a_life(&world).await;
    service.kill();
    // Nothing is ever reported of them.
    world.maestro.leave_agent();
    for (name, bundle) in &posted {
        world.maestro.take_late(name, bundle);
    }
    world.maestro.play_agent();
    let _service = world.start().await;
    eventually("what nobody heard of is gone", PATIENCE, || async {
        let names = world.maestro.names();
        if names.is_empty() { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_of_clusters_that_were_never_deleted_here_are_left_alone() {
    let before = World::new().await;
    let (_service, posted) = after_a_life(&before).await;
    // Another database, as after a mistake of whoever put one back.
    let world = World::new().await;
    world.maestro.play_agent();
    for (name, bundle) in &posted {
        world.maestro.take_late(name, bundle);
    }
    let service = world.start().await;
    let cluster = service.create(&new_cluster("second")).await;
    service.until(&cluster.id, ClusterState::Ready).await;
    for (name, bundle) in &posted {
        // Also if they are heard of.
        world.maestro.take_late(name, bundle);
    }
    service.client.cluster_delete(&context(), &cluster.id).await.unwrap();
    service.until_gone(&cluster.id).await;
    for (name, _) in &posted {
        assert!(world.maestro.bundle(name).is_some_and(|bundle| !bundle.deleting), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_that_arrive_when_their_cluster_is_gone_are_removed() {
    let world = World::new().await;
    let (_service, posted) = after_a_life(&world).await;

    // Somebody else's, marked likewise.
    let mut foreign = posted[0].1.clone();
    foreign.id = "11111111-2222-3333-4444-555555555555".into();
    world.maestro.take_late("foreign", &foreign);
    for (name, bundle) in &posted {
        world.maestro.take_late(name, bundle);
    }
    eventually("what came late is gone", PATIENCE, || async {
        let names = world.maestro.names();
        if names == ["foreign"] { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;
    assert!(!world.maestro.bundle("foreign").unwrap().deleting);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_also_removes_what_no_record_names_any_more() {
    let world = World::new().await;
    world.maestro.play_agent();
    let service = world.start().await;
    let cluster = service.create(&new_cluster("first")).await;
    let pool = new_node_pool("workers");
    let pool = service.client.node_pool_create(&context(), &cluster.id, &pool).await.unwrap();
    service.until_node_pool(&pool, NodePoolStateValue::Ready).await;
    service.until(&cluster.id, ClusterState::Ready).await;
    let name = world.maestro.names().into_iter().find(|name| name.contains("workers")).unwrap();
    let posted = world.maestro.bundle(&name).unwrap();
    service.client.node_pool_delete(&context(), &cluster.id, &pool.id).await.unwrap();
    eventually("the pool is gone", PATIENCE, || async {
        match service.client.node_pool_get(&context(), &cluster.id, &pool.id).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    world.maestro.leave_agent();
    world.maestro.take_late(&name, &posted);
    service.client.cluster_delete(&context(), &cluster.id).await.unwrap();
    service.until_it_says(&cluster.id, "posted late").await;
    world.maestro.play_agent();
    service.until_gone(&cluster.id).await;
    assert_eq!((world.maestro.names(), world.cloud.paths()), (Vec::new(), Vec::new()));
}
