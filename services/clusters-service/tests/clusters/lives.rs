//! Everything in the wrong order: twice, too early, too late, at once.

use std::io::Write as _;
use std::net::TcpStream;

use pilothouse_clusters_service_api::{ClusterState, ListQuery, NodePoolStateValue, properties};
use pilothouse_test_support::eventually;

use crate::support::{PATIENCE, World, context, new_cluster, new_node_pool};

#[tokio::test(flavor = "multi_thread")]
async fn many_who_ask_for_one_cluster_at_once_get_the_same() {
    let world = World::new().await;
    world.maestro.play_agent();
    let replicas = [world.start().await, world.start().await];
    let asked = (0..20).map(|index| {
        let client = &replicas[index % 2].client;
        async move { client.cluster_create(&context(), &new_cluster("first")).await.unwrap().id }
    });
    let ids = futures::future::join_all(asked).await;
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    replicas[0].until(&ids[0], ClusterState::Ready).await;
    let shard = replicas[0].client.provision_shard(&context(), &ids[0]).await.unwrap();
    assert_eq!(shard.clusters, 1, "it is counted once");
    assert!(world.maestro.created().values().all(|times| *times == 1), "{:?}", world.maestro.created());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_stored_and_never_answered_is_found_by_whoever_asks_again() {
    let world = World::new().await;
    world.maestro.play_agent();
    let service = world.start().await;
    let new = new_cluster("first");
    let body = serde_json::to_string(&new).unwrap();
    let request = format!(
        "POST /api/clusters_mgmt/v1/clusters HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    // The answer is never read; the connection goes with the service.
    let mut connection = TcpStream::connect(service.address).unwrap();
    connection.write_all(request.as_bytes()).unwrap();
    let stored = eventually("it is stored", PATIENCE, || async {
        let list = service.client.cluster_list(&context(), &ListQuery::default()).await.unwrap();
        list.items.into_iter().next().ok_or("nothing is stored")
    })
    .await;
    service.kill();
    drop(connection);
    let service = world.start().await;
    assert_eq!(service.create(&new).await.id, stored.id);
    service.until(&stored.id, ClusterState::Ready).await;
    assert_eq!(service.client.provision_shard(&context(), &stored.id).await.unwrap().clusters, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_wins_over_a_creation_at_whatever_point_it_comes() {
    // Fewer than a creation makes: it is held at each of them, and goes on once its deletion was asked for.
    for requests in 0..10 {
        let world = World::new().await;
        world.maestro.play_agent();
        let service = world.start().await;
        world.switch.limit(requests);
        let cluster = service.create(&new_cluster("first")).await;
        let pool = new_node_pool("workers");
        service.client.node_pool_create(&context(), &cluster.id, &pool).await.unwrap();
        eventually("somebody waits for an answer", PATIENCE, || async {
            if world.switch.holds() { Ok(()) } else { Err(format!("{} requests", world.switch.seen())) }
        })
        .await;
        service.client.cluster_delete(&context(), &cluster.id).await.unwrap();
        service.client.cluster_delete(&context(), &cluster.id).await.unwrap();
        let again = service.client.cluster_create(&context(), &new_cluster("first")).await.unwrap();
        assert_eq!((&again.id, again.state), (&cluster.id, ClusterState::Uninstalling), "its own operation");
        let mut other = new_cluster("first");
        other.properties.insert(properties::OPERATION_ID.into(), "another".into());
        let refusal = service.client.cluster_create(&context(), &other).await.unwrap_err();
        assert!(refusal.is_conflict() && refusal.to_string().contains("is being deleted"), "{refusal}");

        service.kill();
        world.switch.release();
        let service = world.start().await;
        service.until_gone(&cluster.id).await;
        assert_eq!((world.maestro.names(), world.cloud.paths()), (Vec::new(), Vec::new()), "{requests}");
        // The same name at once, by another operation, is another cluster.
        let made = service.create(&other).await;
        assert!(made.id != cluster.id && made.domain_prefix == "first");
        service.until(&made.id, ClusterState::Ready).await;
        assert_eq!(service.client.provision_shard(&context(), &made.id).await.unwrap().clusters, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_before_its_time_is_refused_or_waits() {
    let world = World::new().await;
    let service = world.start().await;
    let missing = format!("{:032}", 0).parse().unwrap();
    let early = service.client.node_pool_create(&context(), &missing, &new_node_pool("workers")).await;
    assert!(early.unwrap_err().is_not_found());
    assert!(service.client.cluster_delete(&context(), &missing).await.unwrap_err().is_not_found());

    // A pool of a cluster that nobody has carried out yet waits for it, and may go again before anything was done.
    world.cloud.set_down(true);
    let cluster = service.create(&new_cluster("first")).await;
    let pool = new_node_pool("workers");
    let pool = service.client.node_pool_create(&context(), &cluster.id, &pool).await.unwrap();
    service.until_node_pool(&pool, NodePoolStateValue::Pending).await;
    service.client.node_pool_delete(&context(), &cluster.id, &pool.id).await.unwrap();
    eventually("the pool is gone", PATIENCE, || async {
        match service.client.node_pool_get(&context(), &cluster.id, &pool.id).await {
            Err(error) if error.is_not_found() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    world.cloud.set_down(false);
    world.maestro.play_agent();
    service.until(&cluster.id, ClusterState::Ready).await;
    assert_eq!(
        world.maestro.names().len(),
        2,
        "nothing was posted for the pool: {:?}",
        world.maestro.names()
    );
}
