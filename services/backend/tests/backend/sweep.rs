use jiff::Timestamp;
use pilothouse_arm::ProvisioningState::Succeeded;
use pilothouse_arm::ResourceId;
use pilothouse_backend::Config;
use pilothouse_clusters_service_api::simulated::{Fault, Mode};
use pilothouse_clusters_service_api::{Cluster as Made, NewExternalAuth, NewNodePool, properties};
use pilothouse_http::Context;
use pilothouse_records::{Subscription, SubscriptionState};
use pilothouse_test_support::eventually;
use rstest::rstest;

use crate::rig::{
    Backend, Engine, PATIENCE, Rig, cluster_id, cluster_id_of, new_cluster, numbered, subscription,
};

/// What ARM tells of a subscription before anything is made in it.
async fn register(rig: &Rig) {
    let told = Subscription {
        state: SubscriptionState::Registered,
        registration_date: "now".to_owned(),
        properties: None,
        deletion_pending: false,
    };
    rig.records.subscription_put(subscription(), &told).await.unwrap();
}

/// One that an operation asked for, and that no record names.
fn orphan(rig: &Rig, id: &ResourceId) -> Made {
    let mut new = new_cluster(id);
    new.properties.insert(properties::OPERATION_ID.to_owned(), uuid::Uuid::new_v4().to_string());
    rig.service.make_cluster(new)
}

/// From now on it was made long ago.
fn age(rig: &Rig, made: &Made) {
    rig.service.change_cluster(&made.id, |cluster| cluster.creation_timestamp = Timestamp::UNIX_EPOCH);
}

fn names(rig: &Rig) -> Vec<String> {
    rig.service.clusters().into_iter().map(|cluster| cluster.name).collect()
}

/// How many were spared so far.
fn spared(backend: &Backend) -> u64 {
    let numbers = backend.numbers();
    let line = numbers.lines().find_map(|line| line.strip_prefix("orphans_spared_total "));
    line.unwrap().parse().unwrap()
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn what_an_interrupted_creation_left_behind_is_found_and_removed(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    register(&rig).await;
    // One whose record is gone, one whose record is about another, and one that the provider did not ask for.
    age(&rig, &orphan(&rig, &cluster_id("gone")));
    rig.service.make_cluster(new_cluster(&cluster_id("foreign")));
    let backend = rig.backend().await;
    age(&rig, &rig.ready_cluster("First").await);
    rig.alter_cluster("First", |cluster| cluster.clusters_service_id = None).await;
    rig.ready_cluster("Second").await;
    backend.stop().await;

    let backend = rig.backend_with(Config { sweep: "50ms".parse().unwrap(), ..Rig::config() }).await;
    eventually("only what belongs to somebody is left", PATIENCE, || async {
        let left = names(&rig);
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
    register(&rig).await;
    age(&rig, &rig.until_made("First").await);
    rig.alter_cluster("First", |cluster| {
        cluster.clusters_service_id = None;
        cluster.active_operation = Some(operation.id);
    })
    .await;

    let backend = rig.backend_with(Config { sweep: "50ms".parse().unwrap(), ..Rig::config() }).await;
    // Once the second of them is found, everything has been looked at.
    for name in ["gone", "gone-too"] {
        age(&rig, &orphan(&rig, &cluster_id(name)));
        eventually("only what is under way is left", PATIENCE, || async {
            let left = names(&rig);
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

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn one_that_cannot_be_looked_at_or_removed_keeps_no_other_one(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
    #[values(404, 500)] status: u16,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    let backend = rig.backend_with(Config { sweep: "50ms".parse().unwrap(), ..Rig::config() }).await;
    let (first, second) = (rig.ready_cluster("First").await, rig.ready_cluster("Second").await);
    assert!(first.id < second.id, "they are looked at in this order");
    let refused = Fault::Refuse { status, target: None, message: "no" };
    let pools = format!("/clusters/{}/node_pools", first.id);
    rig.service.inject(refused, move |call| call.is_read() && call.path == pools);
    let refused = Fault::Refuse { status: 500, target: None, message: "no" };
    rig.service.inject(refused, |call| call.is_deletion() && call.path.ends_with("/a"));

    let (client, context) = (rig.service.client(), Context::new(PATIENCE));
    for name in ["a", "b"] {
        let late =
            serde_json::json!({"id": name, "replicas": 1, "properties": {properties::OPERATION_ID: "1"}});
        let late: NewNodePool = serde_json::from_value(late).unwrap();
        client.node_pool_create(&context, &second.id, &late).await.unwrap();
    }
    eventually("what can be removed is", PATIENCE, || async {
        let pools: Vec<_> = rig.service.node_pools().iter().map(|pool| pool.id.to_string()).collect();
        if pools == ["a"] { Ok(()) } else { Err(format!("{pools:?}")) }
    })
    .await;
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn what_is_young_or_of_an_unknown_subscription_is_left_alone_and_counted(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    register(&rig).await;
    orphan(&rig, &cluster_id("young"));
    age(&rig, &orphan(&rig, &cluster_id_of(numbered(7), "stranger")));
    age(&rig, &orphan(&rig, &cluster_id("old")));
    let backend = rig.backend_with(Config { sweep: "50ms".parse().unwrap(), ..Rig::config() }).await;
    eventually("both are spared, and more than once", PATIENCE, || async {
        let (left, spared) = (names(&rig), spared(&backend));
        if left == ["young", "stranger"] && spared >= 4 { Ok(()) } else { Err(format!("{left:?} {spared}")) }
    })
    .await;
    assert!(backend.numbers().contains("orphans_deleted_total 1"));
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn where_many_records_are_missing_at_once_nothing_is_removed(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    register(&rig).await;
    for number in 0..6 {
        age(&rig, &orphan(&rig, &cluster_id(&format!("c{number}"))));
    }
    let backend = rig.backend_with(Config { sweep: "50ms".parse().unwrap(), ..Rig::config() }).await;
    eventually("they are spared, and more than once", PATIENCE, || async {
        let spared = spared(&backend);
        if spared >= 12 { Ok(()) } else { Err(spared) }
    })
    .await;
    assert_eq!(names(&rig).len(), 6);
    backend.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn few_questions_reach_the_last_of_very_many() {
    let Some(rig) = Rig::new(Engine::Sqlite, Mode::Automatic).await else { return };
    register(&rig).await;
    for number in 0..2_100 {
        rig.service.make_cluster(new_cluster(&cluster_id(&format!("c{number}"))));
    }
    let last = orphan(&rig, &cluster_id("last"));
    age(&rig, &last);
    let backend = rig.backend_with(Config { sweep: "50ms".parse().unwrap(), ..Rig::config() }).await;
    eventually("the last one is reached", PATIENCE, || async {
        let left = names(&rig).len();
        if left == 2_100 { Ok(()) } else { Err(left) }
    })
    .await;
    let calls = rig.service.calls();
    let questions = calls.iter().take_while(|call| !call.is_deletion()).filter(|call| call.is_read()).count();
    assert_eq!(questions, 2);
    backend.stop().await;
}
