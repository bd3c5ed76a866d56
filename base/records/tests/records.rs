//! Resource and operation are written together or not at all, and are found by what they are looked for by.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use camino::Utf8PathBuf;
use jiff::Timestamp;
use pilothouse_api::{Rules, Target, Version, hub};
use pilothouse_arm::{OperationId, ProvisioningState, ResourceId, SubscriptionId};
use pilothouse_records::{
    AdminAction, Cluster, Error, Followed, Hold, Holds, NodePool, Notification, Operation, OperationFilter,
    Records, Request, catalog,
};
use pilothouse_runtime::Shutdown;
use pilothouse_store::{Container, DocumentId, Location, Options, Partition, Precondition, Store};
use pilothouse_test_support::postgres;
use rstest::rstest;
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
    let target = Target { id, location: "here".to_owned(), existing: None, rules: Rules::default() };
    Version::V20240610Preview.cluster_put(body.to_string().as_bytes(), &target).unwrap()
}

fn operation(number: u128, request: Request, resource: &ResourceId) -> Operation {
    let id = OperationId::new(uuid::Uuid::from_u128(number));
    let operation = Operation::new(id, request, resource.clone(), "here", Timestamp::UNIX_EPOCH);
    Operation { state: ProvisioningState::Accepted, ..operation }
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Memory,
    Sqlite,
    Postgres,
}

/// Records in a store of each kind. None, after saying so, if the machine lacks the engine.
struct Rig {
    records: Records,
    _folder: tempfile::TempDir,
}

impl Rig {
    async fn new(kind: Kind) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let location = match kind {
            Kind::Memory => Location::memory(),
            Kind::Sqlite => {
                Location::sqlite(Utf8PathBuf::from_path_buf(folder.path().join("store.db")).unwrap())
            }
            Kind::Postgres => {
                format!("{}?schema=documents", postgres::shared()?.fresh_database()).parse().unwrap()
            }
        };
        let options = Options::new(location, catalog().unwrap(), Shutdown::new());
        Some(Self { records: Records::new(Store::open(options).await.unwrap()), _folder: folder })
    }
}

async fn create(records: &Records, number: u128, id: ResourceId) -> Result<(), Error> {
    let operation = operation(number, Request::Create, &id);
    let cluster = Cluster::new(hub_cluster(id), operation.id);
    let mut change = records.change(subscription())?;
    change.cluster_create(&cluster)?.operation_create(&operation)?;
    change.commit().await.map(drop)
}

#[rstest]
#[tokio::test]
async fn a_second_creation_writes_neither_resource_nor_operation(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(Rig { records, _folder }) = Rig::new(kind).await else { return };
    create(&records, 1, cluster_id("Team", "First")).await.unwrap();
    let refused = create(&records, 2, cluster_id("TEAM", "FIRST")).await.unwrap_err();
    assert!(matches!(refused, Error::Conflict(_)), "{refused:?}");
    assert_eq!(records.operation_active().await.unwrap().len(), 1);
    let found = records.cluster_get(&cluster_id("team", "first")).await.unwrap().unwrap();
    assert_eq!(found.resource.id.name(), "First");
}

#[rstest]
#[tokio::test]
async fn lists_are_by_group_and_in_parts_of_one_moment(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(Rig { records, _folder }) = Rig::new(kind).await else { return };
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

#[rstest]
#[tokio::test]
async fn operations_are_found_by_their_cluster_until_they_end(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(Rig { records, _folder }) = Rig::new(kind).await else { return };
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

#[rstest]
#[tokio::test]
async fn a_stale_write_is_refused_as_a_whole(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(Rig { records, _folder }) = Rig::new(kind).await else { return };
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

#[rstest]
#[tokio::test]
async fn node_pools_are_those_of_their_cluster_alone(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(Rig { records, _folder }) = Rig::new(kind).await else { return };
    let (first, other) = (cluster_id("Team", "a"), cluster_id("Team", "ab"));
    for (number, cluster) in [&first, &other].into_iter().enumerate() {
        let target = Target {
            id: cluster.child("nodePools", "workers"),
            location: "here".to_owned(),
            existing: None,
            rules: Rules::default(),
        };
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

#[rstest]
#[tokio::test]
async fn operations_are_listed_across_subscriptions_by_what_is_asked_for(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(Rig { records, _folder }) = Rig::new(kind).await else { return };
    let mine = cluster_id("Team", "First");
    let other: SubscriptionId = "1b1f6471-1bf0-4dda-aec3-cb9272f09590".parse().unwrap();
    let theirs = ResourceId::subscription(other).resource_group("Team").provider(
        pilothouse_arm::PROVIDER,
        "hcpOpenShiftClusters",
        "First",
    );
    let pool = mine.child("nodePools", "workers");
    for (number, resource, ended) in
        [(1, &mine, false), (2, &mine, true), (3, &pool, false), (4, &theirs, false)]
    {
        let mut operation = operation(number, Request::Update, resource);
        if ended {
            operation.cancel("enough", Timestamp::UNIX_EPOCH);
        }
        let mut change = records.change(resource.subscription_id().unwrap()).unwrap();
        change.operation_create(&operation).unwrap().commit().await.unwrap();
    }
    let ids = async |filter: OperationFilter| {
        let (mut found, mut token) = (Vec::new(), None);
        loop {
            let page = records.operation_list(&filter, 1, token.as_deref()).await.unwrap();
            found.extend(
                page.items
                    .iter()
                    .map(|operation| operation.id.to_string().parse::<uuid::Uuid>().unwrap().as_u128()),
            );
            token = page.next;
            if token.is_none() {
                return found;
            }
        }
    };
    let all = OperationFilter::default();
    assert_eq!(ids(all.clone()).await, [1, 2, 3, 4]);
    assert_eq!(ids(OperationFilter { active_only: true, ..all.clone() }).await, [1, 3, 4]);
    assert_eq!(ids(OperationFilter { subscription: Some(other), ..all.clone() }).await, [4]);
    let upper = Some(mine.to_string().to_uppercase().parse().unwrap());
    assert_eq!(ids(OperationFilter { resource: upper.clone(), ..all.clone() }).await, [1, 2]);
    assert_eq!(ids(OperationFilter { resource: upper, active_only: true, ..all }).await, [1]);
}

#[rstest]
#[tokio::test]
async fn an_end_that_somebody_wants_to_hear_of_is_found_until_it_is_told(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(Rig { records, _folder }) = Rig::new(kind).await else { return };
    let mut told = operation(1, Request::Create, &cluster_id("Team", "First"));
    told.notification = Some(Notification::new("https://arm.test/told"));
    records.change(subscription()).unwrap().operation_create(&told).unwrap().commit().await.unwrap();
    assert!(records.operation_awaiting_notification().await.unwrap().is_empty());
    let mut stored = records.operation_get(subscription(), told.id).await.unwrap().unwrap();
    stored.enter(ProvisioningState::Succeeded, Timestamp::UNIX_EPOCH);
    records.change(subscription()).unwrap().operation_replace(&stored).unwrap().commit().await.unwrap();
    let mut awaiting = records.operation_awaiting_notification().await.unwrap();
    assert_eq!(awaiting.len(), 1);
    awaiting[0].notification.as_mut().unwrap().delivered_at = Some(Timestamp::UNIX_EPOCH);
    records.change(subscription()).unwrap().operation_replace(&awaiting[0]).unwrap().commit().await.unwrap();
    assert!(records.operation_awaiting_notification().await.unwrap().is_empty());
}

#[rstest]
#[tokio::test]
async fn clusters_are_found_by_what_they_use_whatever_its_case(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(Rig { records, _folder }) = Rig::new(kind).await else { return };
    let id = cluster_id("Team", "First");
    let mut hub = hub_cluster(id.clone());
    hub.spec.platform.managed_resource_group = Some("Managed".to_owned());
    let platform = hub.spec.platform.clone();
    let cluster = Cluster::new(hub, OperationId::new(uuid::Uuid::nil()));
    let mut change = records.change(subscription()).unwrap();
    let committed = change.cluster_create(&cluster).unwrap().commit().await.unwrap();
    let upper = |id: &ResourceId| id.to_string().to_uppercase().parse::<ResourceId>().unwrap();
    let (subnet, group) = (platform.subnet_id.unwrap(), platform.network_security_group_id.unwrap());
    let found = [
        records.cluster_by_managed_resource_group(subscription(), "MANAGED").await.unwrap(),
        records.cluster_by_subnet(subscription(), &upper(&subnet)).await.unwrap(),
        records.cluster_by_security_group(subscription(), &upper(&group)).await.unwrap(),
    ];
    for found in found {
        assert_eq!(found.len(), 1);
        assert_eq!(Some(found[0].etag()), committed.etag_of(&upper(&id)));
    }
    assert!(records.cluster_by_managed_resource_group(subscription(), "manage").await.unwrap().is_empty());
    assert!(records.cluster_by_subnet(subscription(), &group).await.unwrap().is_empty());
}

#[rstest]
#[tokio::test]
async fn a_hold_is_announced_and_other_writes_are_not(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(Rig { records, _folder }) = Rig::new(kind).await else { return };
    let (first, second) = (cluster_id("Team", "first"), cluster_id("Team", "second"));
    let mut feed = records.hold_feed().await.unwrap();
    for (number, id) in [&first, &second].into_iter().enumerate() {
        create(&records, number as u128, id.clone()).await.unwrap();
    }
    let mut changed = records.cluster_get(&first).await.unwrap().unwrap();
    changed.clusters_service_id = Some("2a".to_owned());
    records.change(subscription()).unwrap().cluster_replace(&changed).unwrap().commit().await.unwrap();
    let mut held = records.cluster_get(&second).await.unwrap().unwrap();
    let (reason, by) = ("an investigation".to_owned(), "ada".to_owned());
    held.hold = Some(Hold { reason, by, since: Timestamp::UNIX_EPOCH });
    records.change(subscription()).unwrap().cluster_replace(&held).unwrap().commit().await.unwrap();
    let Holds::Changed(seen) = feed.next().await.unwrap() else { panic!("nothing was missed") };
    assert_eq!(seen, [second]);
}

#[rstest]
#[tokio::test]
async fn what_administrators_did_is_listed_newest_first(
    #[values(Kind::Memory, Kind::Sqlite, Kind::Postgres)] kind: Kind,
) {
    let Some(Rig { records, _folder }) = Rig::new(kind).await else { return };
    for second in [5, 1, 9] {
        let action = AdminAction {
            id: uuid::Uuid::from_u128(second as u128),
            at: Timestamp::from_second(second).unwrap(),
            by: "ada".to_owned(),
            action: "cancel".to_owned(),
            resource: cluster_id("Team", "First"),
            operation: None,
            reason: "it is stuck".to_owned(),
            request_id: "r".to_owned(),
        };
        records.change(subscription()).unwrap().action_create(&action).unwrap().commit().await.unwrap();
    }
    let listed = records.action_list(10, None).await.unwrap().items;
    let seconds: Vec<_> = listed.iter().map(|action| action.at.as_second()).collect();
    assert_eq!(seconds, [9, 5, 1]);
}

/// As the first version wrote them, word for word.
#[tokio::test]
async fn documents_from_before_are_still_read() {
    let Some(Rig { records, _folder }) = Rig::new(Kind::Memory).await else { return };
    let id = cluster_id("Team", "First");
    let mut document =
        serde_json::to_value(Cluster::new(hub_cluster(id.clone()), OperationId::new(uuid::Uuid::nil())))
            .unwrap();
    let members = document.as_object_mut().unwrap();
    members.retain(|name, _| {
        ["schema", "resource", "activeOperation", "clustersServiceId"].contains(&name.as_str())
    });
    let operation = json!({
        "phase": "active", "activeOn": id.key(), "schema": 1,
        "id": "00000000-0000-0000-0000-000000000001", "location": "here", "request": "Create",
        "resource": id, "state": "Accepted", "error": null, "startedAt": "2026-01-01T00:00:00Z",
        "changedAt": "2026-01-01T00:00:00Z", "correlationId": "c", "clientRequestId": null, "tenantId": null,
        "clientId": null, "clustersServiceRequest": null,
        "steps": [{"number": 4, "component": "services/backend", "state": "Provisioning",
                   "startedAt": "2026-01-01T00:00:00Z", "finishedAt": null, "message": "asking"}],
    });
    let partition = Partition::try_new(SUBSCRIPTION).unwrap();
    let put = async |container: &str, id: &str, document: &serde_json::Value| {
        let id = DocumentId::try_new(id).unwrap();
        let container = Container::new(container);
        records.store().put(&container, &partition, id, Precondition::Absent, document).await.unwrap();
    };
    put("clusters", &id.key(), &document).await;
    put("operations", "00000000-0000-0000-0000-000000000001", &operation).await;
    let cluster = records.cluster_get(&id).await.unwrap().unwrap();
    assert_eq!((&cluster.hold, &cluster.revocation, &cluster.identity_url), (&None, &None, &None));
    let active = records.operation_active_on(&id).await.unwrap();
    assert_eq!((active.len(), active[0].steps[0].attempt), (1, 1));
    assert!(active[0].waiting.is_none() && active[0].notification.is_none());
}

#[test]
fn a_step_that_is_tried_again_counts_its_attempts() {
    let mut operation = operation(1, Request::Create, &cluster_id("Team", "First"));
    let at = |second| Timestamp::from_second(second).unwrap();
    operation.step_begin(4, "services/backend", "asking", at(1));
    operation.step_again(4, "services/backend", "no answer", at(2));
    operation.step_begin(4, "services/backend", "asking", at(3));
    assert_eq!(operation.steps[0].attempt, 2);
    operation.step_end(4, "services/backend", ProvisioningState::Failed, "no", at(4));
    operation.step_begin(4, "services/backend", "asking anew", at(5));
    let step = &operation.steps[0];
    assert_eq!((step.attempt, step.started_at, step.finished_at), (3, at(1), None));
    operation.step_end(4, "services/backend", ProvisioningState::Succeeded, "asked", at(6));
    operation.step_begin(4, "services/backend", "again?", at(7));
    assert_eq!((operation.steps.len(), operation.steps[0].message.as_str()), (1, "asked"));
    assert_eq!(operation.status(subscription()).operations[0].attempt, 3);
}
