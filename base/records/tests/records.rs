//! Resource and operation are written together or not at all, and are found by what they are looked for by.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use jiff::Timestamp;
use pilothouse_api::{Target, Version, hub};
use pilothouse_arm::{OperationId, ProvisioningState, ResourceId, SubscriptionId};
use pilothouse_records::{Cluster, Error, Followed, NodePool, Operation, Records, Request, catalog};
use pilothouse_runtime::Shutdown;
use pilothouse_store::{Location, Options, Store};
use serde_json::json;

const SUBSCRIPTION: &str = "0b1f6471-1bf0-4dda-aec3-cb9272f09590";

fn subscription() -> SubscriptionId {
    SUBSCRIPTION.parse().unwrap()
}

fn cluster_id(group: &str, name: &str) -> ResourceId {
    ResourceId::subscription(subscription()).resource_group(group).provider(
        pilothouse_arm::PROVIDER,
        "hcpOpenShiftClusters",
        name,
    )
}

fn hub_cluster(id: ResourceId) -> hub::Cluster {
    let scope = id.parent().unwrap();
    let of = |provider, kind, name| scope.provider(provider, kind, name).to_string();
    let identity = of("Microsoft.ManagedIdentity", "userAssignedIdentities", "service");
    let body = json!({
        "identity": {"type": "UserAssigned", "userAssignedIdentities": {(identity.as_str()): {}}},
        "properties": {"platform": {
            "subnetId": format!("{}/subnets/s", of("Microsoft.Network", "virtualNetworks", "n")),
            "networkSecurityGroupId": of("Microsoft.Network", "networkSecurityGroups", "g"),
            "operatorsAuthentication": {"userAssignedIdentities": {
                "controlPlaneOperators": {}, "dataPlaneOperators": {}, "serviceManagedIdentity": identity}},
        }},
    });
    let target = Target { id, location: "here".to_owned(), existing: None };
    Version::V20240610Preview.cluster_put(body.to_string().as_bytes(), &target).unwrap()
}

fn operation(number: u128, request: Request, resource: &ResourceId) -> Operation {
    let now = Timestamp::UNIX_EPOCH;
    Operation {
        schema: Operation::SCHEMA,
        id: OperationId::new(uuid::Uuid::from_u128(number)),
        location: "here".to_owned(),
        request,
        resource: resource.clone(),
        state: ProvisioningState::Accepted,
        error: None,
        started_at: now,
        changed_at: now,
        correlation_id: "c".to_owned(),
        client_request_id: None,
        tenant_id: None,
        client_id: None,
        clusters_service_request: None,
        steps: Vec::new(),
    }
}

async fn records() -> Records {
    let options = Options::new(Location::memory(), catalog().unwrap(), Shutdown::new());
    Records::new(Store::open(options).await.unwrap())
}

async fn create(records: &Records, number: u128, id: ResourceId) -> Result<(), Error> {
    let operation = operation(number, Request::Create, &id);
    let cluster = Cluster::new(hub_cluster(id), operation.id);
    let mut change = records.change(subscription())?;
    change.cluster_create(&cluster)?.operation_create(&operation)?;
    change.commit().await
}

#[tokio::test]
async fn a_second_creation_writes_neither_resource_nor_operation() {
    let records = records().await;
    create(&records, 1, cluster_id("Team", "First")).await.unwrap();
    let refused = create(&records, 2, cluster_id("TEAM", "FIRST")).await.unwrap_err();
    assert!(matches!(refused, Error::Conflict(_)), "{refused:?}");
    assert_eq!(records.operation_active().await.unwrap().len(), 1);
    let found = records.cluster_get(&cluster_id("team", "first")).await.unwrap().unwrap();
    assert_eq!(found.resource.id.name(), "First");
}

#[tokio::test]
async fn lists_are_by_group_and_in_parts_of_one_moment() {
    let records = records().await;
    for (number, (group, name)) in [("a", "x"), ("A", "y"), ("a", "z"), ("ab", "x")].into_iter().enumerate() {
        create(&records, number as u128, cluster_id(group, name)).await.unwrap();
    }
    let all = records.cluster_list(subscription(), None, 10, None).await.unwrap();
    assert_eq!(all.items.len(), 4);
    let first = records.cluster_list(subscription(), Some("a"), 2, None).await.unwrap();
    assert_eq!(first.items.len(), 2);
    create(&records, 9, cluster_id("a", "zz")).await.unwrap();
    let second = records.cluster_list(subscription(), Some("a"), 2, first.next.as_deref()).await.unwrap();
    assert_eq!((second.items.len(), second.next), (1, None));
    let odd = records.cluster_list(subscription(), None, 2, Some("nonsense")).await.unwrap_err();
    assert!(matches!(odd, Error::Continuation(_)));
}

#[tokio::test]
async fn operations_are_found_by_their_cluster_until_they_end() {
    let records = records().await;
    let cluster = cluster_id("Team", "First");
    let pool = cluster.child("nodePools", "workers");
    let mut feed = records.operation_feed().await.unwrap();
    create(&records, 1, cluster.clone()).await.unwrap();
    let second = operation(2, Request::Create, &pool);
    let mut change = records.change(subscription()).unwrap();
    change.operation_create(&second).unwrap().commit().await.unwrap();
    let Followed::Changed(seen) = feed.next().await.unwrap() else { panic!("nothing was missed") };
    assert_eq!(seen[0].cluster(), cluster);

    let mut active = records.operation_active_on(&cluster).await.unwrap();
    assert_eq!(active.len(), 2);
    let mut ended = active.remove(1);
    assert_eq!(ended.resource, pool);
    ended.enter(ProvisioningState::Succeeded, Timestamp::UNIX_EPOCH);
    let mut change = records.change(subscription()).unwrap();
    change.operation_replace(&ended).unwrap().commit().await.unwrap();
    assert_eq!(records.operation_active_on(&cluster).await.unwrap().len(), 1);
    let kept = records.operation_get(subscription(), second.id).await.unwrap().unwrap();
    assert_eq!(kept.state, ProvisioningState::Succeeded);
}

#[tokio::test]
async fn a_stale_write_is_refused_as_a_whole() {
    let records = records().await;
    let id = cluster_id("Team", "First");
    create(&records, 1, id.clone()).await.unwrap();
    let stale = records.cluster_get(&id).await.unwrap().unwrap();
    let mut newer = stale.clone();
    newer.clusters_service_id = Some("2a".to_owned());
    records.change(subscription()).unwrap().cluster_replace(&newer).unwrap().commit().await.unwrap();

    let mut change = records.change(subscription()).unwrap();
    change.cluster_check(&stale).unwrap().operation_create(&operation(2, Request::Delete, &id)).unwrap();
    assert!(matches!(change.commit().await, Err(Error::Conflict(_))));
    assert_eq!(records.operation_active().await.unwrap().len(), 1);
    let found = records.cluster_by_clusters_service_id("2a").await.unwrap().unwrap();
    assert_eq!(found.resource.id, id);
}

#[tokio::test]
async fn node_pools_are_those_of_their_cluster_alone() {
    let records = records().await;
    let (first, other) = (cluster_id("Team", "a"), cluster_id("Team", "ab"));
    for (number, cluster) in [&first, &other].into_iter().enumerate() {
        let target =
            Target { id: cluster.child("nodePools", "workers"), location: "here".to_owned(), existing: None };
        let body = json!({"properties": {"platform": {"vmSize": "Standard_D8s_v3"}}}).to_string();
        let pool = Version::V20240610Preview
            .node_pool_put(body.as_bytes(), &target, &hub_cluster(cluster.clone()))
            .unwrap();
        let operation = operation(number as u128, Request::Create, &pool.id);
        let mut change = records.change(subscription()).unwrap();
        change.node_pool_create(&NodePool::new(pool, operation.id)).unwrap().commit().await.unwrap();
    }
    let found = records.node_pool_all(&first).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].resource.id.parent().unwrap(), first);
    assert_eq!(records.node_pool_list(&other, 5, None).await.unwrap().items.len(), 1);
}
