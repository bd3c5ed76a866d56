use jiff::Timestamp;
use pilothouse_clusters_service_api::{
    Azure, BreakGlassCredential, BreakGlassCredentialStatus, NewCluster, NewNodePool, ProvisionShardStatus,
    Version,
};
use pilothouse_runtime::Shutdown;
use pilothouse_store::{Keyring, Location, Options};

use super::*;
use crate::admission;
use crate::config::{Config, Shard};
use crate::record::Origin;

fn record(config: &Config, shard: &str) -> ClusterRecord {
    let new = NewCluster {
        name: "first".into(),
        domain_prefix: Some("first".into()),
        version: Version::of_number("4.20.3"),
        azure: Azure {
            subscription_id: "11111111-2222-3333-4444-555555555555".into(),
            resource_group_name: "group".into(),
            resource_name: "first".into(),
            managed_resource_group_name: "managed".into(),
            ..Azure::default()
        },
        ..NewCluster::default()
    };
    let id = "0123456789abcdefghijklmnopqrstuv".parse().unwrap();
    let cluster = admission::cluster(new, id, config, Timestamp::UNIX_EPOCH).unwrap();
    let mut record = ClusterRecord::new(cluster, Origin::default());
    shard.clone_into(&mut record.shard);
    record
}

async fn records() -> Records {
    let mut options = Options::new(Location::memory(), catalog(), Shutdown::new());
    options.keyring = Some(Keyring::ephemeral().unwrap());
    Records::try_new(Store::open(options).await.unwrap()).unwrap()
}

#[tokio::test]
async fn a_cluster_is_not_given_to_a_management_cluster_that_is_not_as_it_was_chosen() {
    let records = records().await;
    let config = Config::default();
    let shard = Shard { id: "a".into(), consumer: "a".into(), ..Shard::default() };
    let known = ShardRecord::new(shard, Timestamp::UNIX_EPOCH);
    records.shard_create(&known).await.unwrap();
    let chosen = records.seats_get("a").await.unwrap().unwrap();

    let maintained = records.shard_update("a", |record| {
        record.status = ProvisionShardStatus::Maintenance;
        Decision::Write
    });
    maintained.await.unwrap();
    let outcome = records.cluster_create(&record(&config, "a"), &chosen).await;
    assert!(matches!(outcome, Err(NotCreated::SeatTaken)), "{outcome:?}");
    let now = records.seats_get("a").await.unwrap().unwrap();
    records.shard_remove(&now).await.unwrap();
    let outcome = records.cluster_create(&record(&config, "a"), &now).await;
    assert!(matches!(outcome, Err(NotCreated::SeatTaken)), "{outcome:?}");
    assert_eq!(records.cluster_list(None).await.unwrap().0.len(), 0);

    records.shard_create(&known).await.unwrap();
    let again = records.seats_get("a").await.unwrap().unwrap();
    records.cluster_create(&record(&config, "a"), &again).await.unwrap();
}

#[tokio::test]
async fn what_is_decided_by_what_a_cluster_had_is_not_written_once_it_has_more() {
    let records = records().await;
    let config = Config::default();
    let shard = Shard { id: "a".into(), consumer: "a".into(), ..Shard::default() };
    records.shard_create(&ShardRecord::new(shard, Timestamp::UNIX_EPOCH)).await.unwrap();
    let seats = records.seats_get("a").await.unwrap().unwrap();
    records.cluster_create(&record(&config, "a"), &seats).await.unwrap();
    let id = record(&config, "a").cluster.id;

    // An upgrade is allowed by the node pools that there are; all credentials that there are are revoked.
    let judged = records.cluster_get(&id).await.unwrap().unwrap();
    let new = NewNodePool::new("workers".parse().unwrap());
    let pool = admission::node_pool(new, &judged.value.cluster, &config, Timestamp::UNIX_EPOCH).unwrap();
    records.node_pool_create(&judged, &NodePoolRecord::new(pool, Origin::default())).await.unwrap();
    let outcome = records.save(Some((&judged.value, &judged.etag)), &[], &[]).await;
    assert!(matches!(outcome, Err(Error::Conflict(_))), "a node pool was made: {outcome:?}");

    let judged = records.cluster_get(&id).await.unwrap().unwrap();
    let credential = BreakGlassCredential {
        kind: "BreakGlassCredential".into(),
        id: "0123456789abcdef".parse().unwrap(),
        href: String::new(),
        cluster_id: id.clone(),
        username: String::new(),
        expiration_timestamp: None,
        revocation_timestamp: None,
        kubeconfig: None,
        status: BreakGlassCredentialStatus::Created,
        message: String::new(),
        properties: std::collections::BTreeMap::new(),
    };
    let made =
        CredentialRecord::new(credential, Origin::default(), String::new(), None, Timestamp::UNIX_EPOCH);
    records.credential_create(&judged, &made).await.unwrap();
    let outcome = records.save(Some((&judged.value, &judged.etag)), &[], &[]).await;
    assert!(matches!(outcome, Err(Error::Conflict(_))), "a credential was made: {outcome:?}");
}

#[tokio::test]
async fn a_node_pool_is_changed_only_if_its_cluster_is_as_it_was_when_that_was_allowed() {
    let records = records().await;
    let config = Config::default();
    let shard = Shard { id: "a".into(), consumer: "a".into(), ..Shard::default() };
    records.shard_create(&ShardRecord::new(shard, Timestamp::UNIX_EPOCH)).await.unwrap();
    let seats = records.seats_get("a").await.unwrap().unwrap();
    records.cluster_create(&record(&config, "a"), &seats).await.unwrap();
    let id = record(&config, "a").cluster.id;
    let judged = records.cluster_get(&id).await.unwrap().unwrap();
    let new = NewNodePool::new("workers".parse().unwrap());
    let pool = admission::node_pool(new, &judged.value.cluster, &config, Timestamp::UNIX_EPOCH).unwrap();
    let made = NodePoolRecord::new(pool, Origin::default());
    records.node_pool_create(&judged, &made).await.unwrap();
    let pool = records.node_pool_get(&id, &made.node_pool.id).await.unwrap().unwrap();
    let mut after = pool.value.clone();
    after.node_pool.replicas = Some(3);

    let changed = records.cluster_update(&id, |record| {
        record.describe("something else");
        Decision::Write
    });
    changed.await.unwrap();
    let outcome = records.node_pool_change(&judged, &after, &pool.etag).await;
    assert!(matches!(outcome, Err(Error::Conflict(_))), "{outcome:?}");
    let judged = records.cluster_get(&id).await.unwrap().unwrap();
    records.node_pool_change(&judged, &after, &pool.etag).await.unwrap();
    let outcome = records.node_pool_change(&judged, &after, &pool.etag).await;
    assert!(matches!(outcome, Err(Error::Conflict(_))), "the pool itself has changed: {outcome:?}");
}
