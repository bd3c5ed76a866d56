use rstest::rstest;
use serde_json::json;

use crate::support::{
    Engine, Rig, VERSION, cluster, cluster_body, cluster_url, of, pool, pool_body, under_way,
};

#[rstest]
#[tokio::test]
async fn a_node_pool_lives_below_its_cluster(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    let created = rig.put(&pool("Workers"), &pool_body(2)).await;
    assert_eq!(created.status, 201, "{}", created.text);
    assert_eq!(created.body["type"], "Microsoft.RedHatOpenShift/hcpOpenShiftClusters/nodePools");
    let subnet = created.body["properties"]["platform"]["subnetId"].as_str().unwrap();
    assert!(subnet.ends_with("/subnets/first"), "{subnet}");
    let again = rig.put(&pool("workers"), &pool_body(2)).await;
    assert_eq!(again.header("azure-asyncoperation"), created.header("azure-asyncoperation"));
    rig.succeed("First").await;
    assert_eq!(rig.get(&created.result()).await.body["properties"]["replicas"], 2);
    assert_eq!(rig.get(&pool("WORKERS")).await.body["name"], "Workers");
    assert_eq!(rig.clusters_service.node_pools()[0].replicas, Some(2));
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn the_last_node_pool_stays_until_the_cluster_goes(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    rig.put(&pool("one"), &pool_body(1)).await;
    rig.put(&pool("two"), &pool_body(1)).await;
    rig.succeed("First").await;
    assert_eq!(rig.delete(&pool("absent")).await.status, 204);
    assert_eq!(rig.delete(&pool("one")).await.status, 202);
    let last = rig.delete(&pool("two")).await;
    assert_eq!((last.status, last.code(), last.target()), (400, "InvalidRequestContent", "name"));
    assert_eq!(rig.delete(&cluster_url("First")).await.status, 202);
    assert_eq!(rig.get(&pool("two")).await.state(), "Deleting");
    assert_eq!(under_way(&rig).await, [("Delete".to_owned(), 1)].into());
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn pools_share_subnets_with_their_own_cluster_only(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    let mut body = pool_body(1);
    body["properties"]["platform"]["subnetId"] = json!(of("Network", "virtualNetworks/net/subnets/extra"));
    for name in ["one", "two"] {
        let created = rig.put(&pool(name), &body).await;
        assert_eq!(created.status, 201, "{}", created.text);
    }
    // Nobody else may have it: neither a cluster nor the pool of another.
    let mut second = cluster_body("Second");
    second["properties"]["platform"]["subnetId"] = body["properties"]["platform"]["subnetId"].clone();
    let refused = rig.put(&cluster_url("Second"), &second).await;
    assert_eq!((refused.status, refused.target()), (400, "properties.platform.subnetId"), "{}", refused.text);
    rig.made("Second").await;
    let other = format!("{}/nodePools/one?{VERSION}", cluster("Second"));
    let refused = rig.put(&other, &body).await;
    assert_eq!((refused.status, refused.target()), (400, "properties.platform.subnetId"), "{}", refused.text);
    body["properties"]["platform"]["subnetId"] = json!(of("Network", "virtualNetworks/net/subnets/first"));
    let refused = rig.put(&other, &body).await;
    assert_eq!((refused.status, refused.target()), (400, "properties.platform.subnetId"), "{}", refused.text);
    rig.stop().await;
}
