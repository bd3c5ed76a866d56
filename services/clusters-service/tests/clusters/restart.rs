//! A kill at any point is the ordinary path: whatever was being done is done again, and only once.

use pilothouse_clusters_service_api::{ClusterState, NodePoolStateValue};
use pilothouse_test_support::eventually;

use crate::support::{PATIENCE, World, context, new_cluster, new_node_pool};
use crate::vaults::has_one_key;

/// Runs a whole life, with the service killed once it waits for the answer to a request that was carried out. Answers
/// how many requests the undisturbed life makes before it is ready, and after.
async fn life(kill_creation_after: Option<usize>, kill_deletion_after: Option<usize>) -> (usize, usize) {
    let world = World::new().await;
    world.maestro.play_agent();
    let mut service = world.start().await;
    if let Some(requests) = kill_creation_after {
        world.switch.limit(requests);
    }
    let cluster = service.create(&new_cluster("first")).await;
    let pool =
        service.client.node_pool_create(&context(), &cluster.id, &new_node_pool("workers")).await.unwrap();
    if kill_creation_after.is_some() {
        until_held(&world).await;
        service.kill();
        world.switch.release();
        service = world.start().await;
    }
    service.until(&cluster.id, ClusterState::Ready).await;
    service.until_node_pool(&pool, NodePoolStateValue::Ready).await;
    let created = world.switch.seen();
    has_one_key(&world, &cluster);
    assert_eq!(world.maestro.names().len(), 3, "{:?}", world.maestro.names());

    if let Some(requests) = kill_deletion_after {
        world.switch.limit(requests);
    }
    service.client.cluster_delete(&context(), &cluster.id).await.unwrap();
    if kill_deletion_after.is_some() {
        until_held(&world).await;
        service.kill();
        world.switch.release();
        service = world.start().await;
    }
    service.until_gone(&cluster.id).await;
    assert_eq!(world.maestro.names(), Vec::<String>::new());
    assert_eq!(world.cloud.paths(), Vec::<String>::new());
    assert!(world.maestro.created().values().all(|times| *times == 1), "{:?}", world.maestro.created());
    (created, world.switch.seen() - created)
}

async fn until_held(world: &World) {
    eventually("somebody waits for an answer", PATIENCE, || async {
        if world.switch.holds() { Ok(()) } else { Err(format!("{} requests", world.switch.seen())) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_request_of_a_creation_ends_in_one_ready_cluster() {
    // Fewer requests than any creation makes: thirteen puts, two looks at bundles, two posts.
    for requests in 0..17 {
        life(Some(requests), None).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_request_of_a_deletion_leaves_nothing_behind() {
    let (created, deleted) = life(None, None).await;
    assert!(created >= 10 && deleted >= 6, "{created} and {deleted}");
    for requests in 0..6 {
        life(None, Some(requests)).await;
    }
}
