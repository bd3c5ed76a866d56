//! Clusters whose management cluster, or whose cloud, does not come back.

use std::time::Duration;

use pilothouse_clusters_service_api::{
    ClusterState, LeftBehind, NodePoolStateValue, ProvisionShardStatus, ProvisionShardUpdate,
};
use pilothouse_http::ClientBuilder;
use pilothouse_test_support::eventually;

use crate::support::{PATIENCE, Running, World, context, new_cluster, new_node_pool};

async fn put(service: &Running, status: ProvisionShardStatus) {
    let update = ProvisionShardUpdate { status: Some(status), capacity: None };
    service.client.provision_shard_update(&context(), "local", &update).await.unwrap();
}

fn names<'a>(left: &'a LeftBehind, kind: &str) -> Vec<&'a str> {
    left.items.iter().filter(|item| item.kind == kind).map(|item| item.name.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_goes_without_its_management_cluster_and_what_is_left_there_is_told() {
    let world = World::new().await;
    world.maestro.play_agent();
    let service = world.start().await;
    let cluster = service.create(&new_cluster("first")).await;
    let pool = new_node_pool("workers");
    let pool = service.client.node_pool_create(&context(), &cluster.id, &pool).await.unwrap();
    service.until(&cluster.id, ClusterState::Ready).await;
    service.until_node_pool(&pool, NodePoolStateValue::Ready).await;
    let posted: Vec<_> = world.maestro.names();
    let ids: Vec<_> = posted.iter().map(|name| world.maestro.bundle(name).unwrap().id).collect();

    let refusal = service.client.cluster_abandon(&context(), &cluster.id).await.unwrap_err();
    assert!(refusal.is_conflict(), "{refusal}");
    for part in
        ["its deletion was not asked for", "without `best_effort`", "put provision shard `local` `offline`"]
    {
        assert!(refusal.to_string().contains(part), "{refusal}");
    }
    assert_eq!(service.cluster(&cluster.id).await.state, ClusterState::Ready, "a refusal changes nothing");
    let http = ClientBuilder::new(PATIENCE).build().unwrap();
    let url = format!("http://{}{}?best_effort=maybe", service.address, cluster.href);
    let answer = http.call("DELETE".parse().unwrap(), url.parse().unwrap()).send().await.unwrap();
    assert_eq!(answer.status(), 400);

    world.maestro.lose("local-cluster");
    put(&service, ProvisionShardStatus::Offline).await;
    let left = service.client.cluster_abandon(&context(), &cluster.id).await.unwrap();
    assert!(left.reason.contains("was put offline"), "{left:?}");
    assert_eq!(names(&left, "HostedCluster"), ["first"]);
    assert_eq!(names(&left, "NodePool"), ["first-workers"]);
    assert_eq!(names(&left, "Namespace").len(), 2);
    let mut told = names(&left, "ResourceBundle");
    let mut there: Vec<_> = ids.iter().map(String::as_str).collect();
    told.sort_unstable();
    there.sort_unstable();
    assert_eq!(told, there);
    service.until_gone(&cluster.id).await;
    assert_eq!(world.cloud.paths(), Vec::<String>::new());
    let shard = service.client.provision_shard_get(&context(), "local").await.unwrap();
    assert_eq!(shard.clusters, 0);
    assert!(service.client.cluster_abandon(&context(), &cluster.id).await.unwrap_err().is_not_found());

    // Its names can be had again at once; and should it be back, it puts in order what it has.
    put(&service, ProvisionShardStatus::Active).await;
    let mut again = new_cluster("first");
    again.properties.clear();
    let again = service.create(&again).await;
    assert_eq!(again.domain_prefix, "first");
    world.maestro.find_again("local-cluster");
    service.until(&again.id, ClusterState::Ready).await;
    eventually("nothing of the former is left", PATIENCE, || async {
        let names = world.maestro.names();
        if names.iter().any(|name| name.starts_with(cluster.id.as_str())) {
            Err(format!("{names:?}"))
        } else {
            Ok(())
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_may_be_given_up_once_it_is_overdue_and_not_before() {
    let world = World::new().await;
    world.maestro.play_agent();
    let service = world.start().await;
    let cluster = service.create(&new_cluster("first")).await;
    service.until(&cluster.id, ClusterState::Ready).await;
    world.maestro.leave_agent();
    service.client.cluster_delete(&context(), &cluster.id).await.unwrap();
    service.until_it_says(&cluster.id, "waiting for the management cluster to remove").await;
    let refusal = service.client.cluster_abandon(&context(), &cluster.id).await.unwrap_err();
    assert!(refusal.to_string().contains("is not overdue before 2026-01-01T00:25:00Z"), "{refusal}");

    world.time.advance(Duration::from_secs(25 * 60));
    let left = service.client.cluster_abandon(&context(), &cluster.id).await.unwrap();
    assert_eq!(left.reason, "its deletion was due at 2026-01-01T00:25:00Z");
    service.until_gone(&cluster.id).await;
    assert_eq!(world.cloud.paths(), Vec::<String>::new());
    assert_eq!(world.maestro.names().len(), 2, "Maestro still has what it was asked to remove");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_was_never_handed_over_leaves_nothing_on_its_management_cluster() {
    let world = World::new().await;
    let service = world.start().await;
    world.cloud.set_down(true);
    let cluster = service.create(&new_cluster("first")).await;
    put(&service, ProvisionShardStatus::Offline).await;
    let left = service.client.cluster_abandon(&context(), &cluster.id).await.unwrap();
    let kinds: Vec<_> = left.items.iter().map(|item| item.kind.as_str()).collect();
    assert_eq!(kinds, ["ResourceGroup", "RecordSet"]);
    let again = service.client.cluster_abandon(&context(), &cluster.id).await.unwrap();
    assert_eq!(again, left, "asking again answers the same");
    service.until_it_says(&cluster.id, "come back tomorrow").await;
    world.time.advance(Duration::from_secs(5 * 60));
    service.until_gone(&cluster.id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cloud_that_is_only_late_is_waited_for() {
    let world = World::new().await;
    world.maestro.play_agent();
    let service = world.start().await;
    let cluster = service.create(&new_cluster("first")).await;
    service.until(&cluster.id, ClusterState::Ready).await;
    world.maestro.lose("local-cluster");
    put(&service, ProvisionShardStatus::Offline).await;
    world.cloud.set_down(true);
    service.client.cluster_abandon(&context(), &cluster.id).await.unwrap();
    service.until_it_says(&cluster.id, "come back tomorrow").await;
    world.cloud.set_down(false);
    service.until_gone(&cluster.id).await;
    assert_eq!(world.cloud.paths(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_goes_without_its_cloud_and_what_is_left_there_is_told() {
    let world = World::new().await;
    world.maestro.play_agent();
    let service = world.start().await;
    let cluster = service.create(&new_cluster("first")).await;
    service.until(&cluster.id, ClusterState::Ready).await;
    let there = world.cloud.paths();
    world.cloud.set_down(true);
    service.client.cluster_delete(&context(), &cluster.id).await.unwrap();
    service.until_it_says(&cluster.id, "come back tomorrow").await;

    world.time.advance(Duration::from_secs(25 * 60));
    let left = service.client.cluster_abandon(&context(), &cluster.id).await.unwrap();
    service.until_gone(&cluster.id).await;
    assert_eq!(world.cloud.paths(), there, "the cloud was never reached");
    for kind in ["ResourceGroup", "RecordSet"] {
        let names = names(&left, kind);
        assert_eq!(names.len(), 1, "{left:?}");
        assert!(there.contains(&names[0].to_lowercase()), "{names:?} in {there:?}");
    }
}
