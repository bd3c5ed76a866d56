use http::Method;
use pilothouse_arm::{ProvisioningState, ResourceId, SubscriptionId};
use pilothouse_records::{Cluster, Operation, Records, Request, SubscriptionState};
use pilothouse_runtime::Clock;
use pilothouse_store::{Container, DocumentId, Partition, Precondition};
use rstest::rstest;
use serde_json::json;

use crate::support::{
    Engine, Rig, SUBSCRIPTION, VERSION, cluster, cluster_body, cluster_url, pool, pool_body, subscription,
    subscription_url,
};

#[rstest]
#[tokio::test]
async fn the_state_of_a_subscription_decides_what_can_be_done_in_it(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::unregistered(engine).await else { return };
    let tags = json!({"tags": {"a": "b"}});
    let resources = json!({"resources": []});
    let preflight = cluster_url("x").replace("hcpOpenShiftClusters/x", "deployments/x/preflight");
    // State, what looking and deleting give, what making and changing give.
    for (state, looks, makes) in [
        (None, 400, 400),
        (Some("Unregistered"), 400, 400),
        (Some("Registered"), 0, 0),
        (Some("Warned"), 0, 409),
        (Some("Suspended"), 0, 409),
        (Some("Deleted"), 400, 400),
    ] {
        if let Some(state) = state {
            let told =
                rig.put(&subscription_url(), &json!({"state": state, "registrationDate": "now"})).await;
            assert_eq!(told.status, 200, "{}", told.text);
        }
        for (method, url, body, refused) in [
            (Method::GET, cluster_url("First"), None, looks),
            (Method::GET, format!("{}/nodePools?{VERSION}", cluster("First")), None, looks),
            (Method::DELETE, cluster_url("First"), None, looks),
            (Method::PATCH, cluster_url("First"), Some(&tags), makes),
            (Method::PUT, pool("one"), Some(&tags), makes),
            (Method::POST, format!("{}/revokeCredentials?{VERSION}", cluster("First")), None, makes),
            (Method::POST, preflight.clone(), Some(&resources), makes),
        ] {
            let reply = rig.send(method.clone(), &url, body).await;
            if refused == 0 {
                assert_ne!(reply.code(), "InvalidSubscriptionState", "{method} {url} while {state:?}");
            } else {
                assert_eq!(
                    (reply.status, reply.code()),
                    (refused, "InvalidSubscriptionState"),
                    "{method} {url} while {state:?}"
                );
            }
        }
    }
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn a_subscription_is_shown_as_it_was_told_and_not_as_it_is_kept(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::unregistered(engine).await else { return };
    let url = format!("/SUBSCRIPTIONS/{}?api-version=2.0", SUBSCRIPTION.to_uppercase());
    let missing = rig.get(&url).await;
    assert_eq!((missing.status, missing.code()), (404, "SubscriptionNotFound"));
    let body = json!({"state": "Registered", "registrationDate": "now", "properties": {
        "tenantId": "t", "accountOwner": {"puid": "p", "email": "ada@example.com"},
        "registeredFeatures": [{"name": "x", "state": "Registered"}]}});
    let told = rig.put(&url, &body).await;
    let mut shown = body.clone();
    shown["properties"]["accountOwner"] = json!({"puid": "p"});
    assert_eq!((told.status, &told.body), (200, &shown));
    assert_eq!(rig.get(&url).await.body, shown);
    for state in ["Warned", "Suspended", "Unregistered", "Deleted", "Registered", "Deleted"] {
        let body = json!({"state": state, "registrationDate": "now"});
        assert_eq!(rig.put(&url, &body).await.body, body, "any state may follow any");
        assert_eq!(rig.get(&url).await.body, body);
    }
    for (body, status, code) in [
        (json!({"state": "registered"}), 400, "MultipleErrorsOccurred"),
        (json!({"state": "Registered"}), 400, "InvalidRequestContent"),
        (json!([]), 400, "InvalidRequestContent"),
    ] {
        let refused = rig.put(&url, &body).await;
        assert_eq!((refused.status, refused.code()), (status, code), "{body}");
    }
    let odd = rig.put("/subscriptions/x?api-version=2.0", &body).await;
    assert_eq!((odd.status, odd.code()), (404, "SubscriptionNotFound"));
    rig.stop().await;
}

/// Clusters that are there, as if they had been made some time ago.
async fn filled(rig: &Rig, count: usize) {
    let created = rig.put(&cluster_url("model"), &cluster_body("model")).await;
    assert_eq!(created.status, 201, "{}", created.text);
    let model = rig.records.cluster_get(&cluster("model").parse().unwrap()).await.unwrap().unwrap();
    for number in 0..count {
        let mut resource = model.resource.clone();
        resource.id = cluster(&format!("c{number:04}")).parse().unwrap();
        resource.status.provisioning_state = ProvisioningState::Updating;
        let id = pilothouse_arm::OperationId::new(uuid::Uuid::new_v4());
        let now = Clock::system().now();
        let operation = Operation::new(id, Request::Update, resource.id.clone(), "here", now);
        let mut change = rig.records.change(subscription()).unwrap();
        change.cluster_create(&Cluster::new(resource, id)).unwrap().operation_create(&operation).unwrap();
        change.commit().await.unwrap();
    }
}

#[rstest]
#[tokio::test]
async fn a_deleted_subscription_takes_everything_along_however_much_it_is(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::unregistered(engine).await else { return };
    let registered = json!({"state": "Registered", "registrationDate": "now"});
    rig.put(&subscription_url(), &registered).await;
    filled(&rig, 300).await;
    let deleted = json!({"state": "Deleted", "registrationDate": "now"});
    let told = rig.put(&subscription_url(), &deleted).await;
    assert_eq!((told.status, &told.body), (200, &deleted));
    // What the request had no time for is done by itself.
    let done = async || {
        let active = rig.records.operation_active().await.unwrap();
        // That nothing is left to do is noted after the last of it was done.
        let noted = rig.records.subscription_deletion_pending().await.unwrap().is_empty();
        noted && active.len() == 301 && active.iter().all(|operation| operation.request == Request::Delete)
    };
    let deadline = tokio::time::Instant::now() + crate::support::PATIENCE;
    while !done().await {
        assert!(tokio::time::Instant::now() < deadline, "{:?}", crate::support::under_way(&rig).await);
        tokio::task::yield_now().await;
    }
    let nobodys = rig.records.operation_active().await.unwrap();
    assert!(nobodys.iter().all(|operation| operation.tenant_id.is_none() && operation.client_id.is_none()));
    let before = rig.records.store().revision().await.unwrap();
    assert_eq!(rig.put(&subscription_url(), &deleted).await.status, 200);
    assert_eq!(rig.records.store().revision().await.unwrap(), before, "telling it again does nothing");
    assert_eq!(rig.records.operation_active().await.unwrap().len(), 301);
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn a_deletion_that_failed_in_a_deleted_subscription_is_asked_for_again_when_that_is_told_again(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    let deleted = json!({"state": "Deleted", "registrationDate": "now"});
    assert_eq!(rig.put(&subscription_url(), &deleted).await.status, 200);
    let id = cluster("First").parse().unwrap();
    let [mut first] = rig.records.operation_active_on(&id).await.unwrap().try_into().unwrap();
    assert_eq!(first.request, Request::Delete);
    // What the backend does when the deadline has passed.
    first.enter(ProvisioningState::Failed, Clock::system().now());
    let mut change = rig.records.change(subscription()).unwrap();
    change.operation_replace(&first).unwrap().commit().await.unwrap();
    rig.set_state("First", ProvisioningState::Failed).await;

    assert_eq!(rig.put(&subscription_url(), &deleted).await.status, 200);
    assert_eq!(crate::support::under_way(&rig).await, [("Delete".to_owned(), 1)].into());
    assert!(rig.records.subscription_deletion_pending().await.unwrap().is_empty());
    rig.stop().await;
}

/// Something among the documents that cannot be read.
async fn spoil(records: &Records, container: &str, id: &ResourceId) {
    let partition = Partition::try_new(id.subscription_id().unwrap().to_string()).unwrap();
    let document = DocumentId::try_new(id.key()).unwrap();
    let (container, odd) = (Container::new(container), json!({"odd": true}));
    records.store().put(&container, &partition, document, Precondition::Any, &odd).await.unwrap();
}

#[rstest]
#[tokio::test]
async fn a_cluster_that_cannot_be_given_up_keeps_no_other_one(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    for name in ["Bad", "Good"] {
        rig.made(name).await;
    }
    let bad: ResourceId = cluster("Bad").parse().unwrap();
    spoil(&rig.records, "node-pools", &bad.child("nodePools", "odd")).await;
    let deleted = json!({"state": "Deleted", "registrationDate": "now"});
    let told = rig.put(&subscription_url(), &deleted).await;
    assert_eq!(told.status, 200, "{}", told.text);
    let state = async |name: &str| {
        let id = cluster(name).parse().unwrap();
        rig.records.cluster_get(&id).await.unwrap().unwrap().resource.status.provisioning_state
    };
    assert_eq!(state("Good").await, ProvisioningState::Deleting);
    assert_eq!(state("Bad").await, ProvisioningState::Succeeded);
    let pending = rig.records.subscription_deletion_pending().await.unwrap();
    assert_eq!(pending, [subscription()], "somebody tries again");
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn a_subscription_that_cannot_be_given_up_keeps_no_other_one(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    let bad: SubscriptionId = "00000000-0000-0000-0000-000000000001".parse().unwrap();
    let next = rig
        .restarted_after(async |records| {
            let mut told = records.subscription_get(subscription()).await.unwrap().unwrap();
            told.state = SubscriptionState::Deleted;
            told.deletion_pending = true;
            records.subscription_replace(subscription(), &told).await.unwrap();
            records.subscription_put(bad, &told).await.unwrap();
            let odd = cluster("Odd").replace(SUBSCRIPTION, &bad.to_string()).parse().unwrap();
            spoil(records, "clusters", &odd).await;
            let pending = records.subscription_deletion_pending().await.unwrap();
            assert_eq!(pending, [bad, subscription()], "the bad one comes first");
        })
        .await;
    let deadline = tokio::time::Instant::now() + crate::support::PATIENCE;
    while next.records.subscription_deletion_pending().await.unwrap() != [bad] {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
    assert_eq!(crate::support::under_way(&next).await, [("Delete".to_owned(), 1)].into());
    next.stop().await;
}

#[rstest]
#[tokio::test]
async fn what_a_frontend_left_of_a_deleted_subscription_the_next_one_does(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    rig.put(&pool("one"), &pool_body(1)).await;
    let next = rig
        .restarted_after(async |records| {
            let mut told = records.subscription_get(subscription()).await.unwrap().unwrap();
            told.state = SubscriptionState::Deleted;
            told.deletion_pending = true;
            records.subscription_replace(subscription(), &told).await.unwrap();
        })
        .await;
    let records = &next.records;
    let deadline = tokio::time::Instant::now() + crate::support::PATIENCE;
    while !records.subscription_deletion_pending().await.unwrap().is_empty() {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::task::yield_now().await;
    }
    let pools = records.node_pool_all(&cluster("First").parse().unwrap()).await.unwrap();
    assert_eq!(pools[0].resource.status.provisioning_state, ProvisioningState::Deleting);
    assert_eq!(crate::support::under_way(&next).await, [("Delete".to_owned(), 1)].into());
    next.stop().await;
}
