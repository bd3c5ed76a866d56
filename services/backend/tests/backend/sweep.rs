use pilothouse_arm::ProvisioningState::Succeeded;
use pilothouse_backend::Config;
use pilothouse_clusters_service_api::simulated::Mode;
use pilothouse_clusters_service_api::{NewExternalAuth, NewNodePool, properties};
use pilothouse_http::Context;
use pilothouse_test_support::eventually;
use rstest::rstest;

use crate::rig::{Engine, PATIENCE, Rig, cluster_id, new_cluster};

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn what_an_interrupted_creation_left_behind_is_found_and_removed(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    let orphan = |name: &str| {
        let mut new = new_cluster(&cluster_id(name));
        new.properties.insert(properties::OPERATION_ID.to_owned(), uuid::Uuid::new_v4().to_string());
        new
    };
    // One whose record is gone, one whose record is about another, and one that the provider did not ask for.
    rig.service.make_cluster(orphan("gone"));
    rig.service.make_cluster(new_cluster(&cluster_id("foreign")));
    let backend = rig.backend().await;
    rig.ready_cluster("First").await;
    rig.alter_cluster("First", |cluster| cluster.clusters_service_id = None).await;
    rig.ready_cluster("Second").await;
    backend.stop().await;

    let backend = rig.backend_with(Config { sweep: "50ms".parse().unwrap(), ..Rig::config() }).await;
    eventually("only what belongs to somebody is left", PATIENCE, || async {
        let left: Vec<_> = rig.service.clusters().iter().map(|cluster| cluster.name.clone()).collect();
        if left == ["foreign", "second"] { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    let operation = rig.put_cluster("Third").await;
    rig.until_state(&operation, Succeeded).await;
    eventually("it is counted", PATIENCE, || async {
        let numbers = backend.numbers();
        if numbers.contains("orphans_deleted_total 2") { Ok(()) } else { Err(numbers) }
    })
    .await;
    assert_eq!(rig.service.clusters().len(), 3);
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_under_way_is_no_orphan_before_its_id_is_written_down(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    let backend = rig.backend().await;
    let operation = rig.put_cluster("First").await;
    rig.until_state(&operation, Succeeded).await;
    backend.stop().await;
    rig.alter_cluster("First", |cluster| {
        cluster.clusters_service_id = None;
        cluster.active_operation = Some(operation.id);
    })
    .await;

    let backend = rig.backend_with(Config { sweep: "50ms".parse().unwrap(), ..Rig::config() }).await;
    // Once the second of them is found, everything has been looked at.
    for name in ["gone", "gone-too"] {
        let mut orphan = new_cluster(&cluster_id(name));
        orphan.properties.insert(properties::OPERATION_ID.to_owned(), uuid::Uuid::new_v4().to_string());
        rig.service.make_cluster(orphan);
        eventually("only what is under way is left", PATIENCE, || async {
            let left: Vec<_> = rig.service.clusters().iter().map(|cluster| cluster.name.clone()).collect();
            if left == ["first"] { Ok(()) } else { Err(format!("{left:?}")) }
        })
        .await;
    }
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_to_a_cluster_and_to_no_record_is_removed(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    let backend = rig.backend_with(Config { sweep: "50ms".parse().unwrap(), ..Rig::config() }).await;
    let cluster = rig.ready_cluster("First").await;
    let pool = rig.put_node_pool("First", "Kept").await;
    rig.until_state(&pool, Succeeded).await;
    let auth = rig.put_external_auth("First", "Kept").await;
    rig.until_state(&auth, Succeeded).await;

    // What comes late, after everything was given up here, and what the provider never asked for.
    let (client, context) = (rig.service.client(), Context::new(PATIENCE));
    let asked = properties::OPERATION_ID;
    let late = serde_json::json!({"id": "late", "replicas": 1, "properties": {asked: "1"}});
    let late: NewNodePool = serde_json::from_value(late).unwrap();
    client.node_pool_create(&context, &cluster.id, &late).await.unwrap();
    let foreign = NewNodePool { id: "foreign".parse().unwrap(), properties: Default::default(), ..late };
    client.node_pool_create(&context, &cluster.id, &foreign).await.unwrap();
    let issuer = serde_json::json!({"url": "https://issuer.test", "audiences": ["clusters"]});
    let claim = serde_json::json!({"mappings": {"username": {"claim": "sub"}}});
    let late =
        serde_json::json!({"id": "late", "issuer": issuer, "claim": claim, "properties": {asked: "2"}});
    let late: NewExternalAuth = serde_json::from_value(late).unwrap();
    client.external_auth_create(&context, &cluster.id, &late).await.unwrap();

    eventually("only what belongs to somebody is left", PATIENCE, || async {
        let pools: Vec<_> = rig.service.node_pools().iter().map(|pool| pool.id.to_string()).collect();
        let auths: Vec<_> = rig.service.external_auths().iter().map(|auth| auth.id.to_string()).collect();
        let is_left = pools == ["foreign", "kept"] && auths == ["kept"];
        if is_left { Ok(()) } else { Err(format!("{pools:?} {auths:?}")) }
    })
    .await;
    eventually("both are counted", PATIENCE, || async {
        let numbers = backend.numbers();
        if numbers.contains("orphans_deleted_total 2") { Ok(()) } else { Err(numbers) }
    })
    .await;
    backend.stop().await;
}
