//! What administrators see and do.

use http::Method;
use pilothouse_arm::{ProvisioningState, ResourceId};
use pilothouse_records::{Operation, Stored, Waiting};
use pilothouse_runtime::Clock;
use rstest::rstest;
use serde_json::{Value, json};

use crate::gated::{Gated, Who};
use crate::support::{Engine, SUBSCRIPTION, cluster, cluster_body, cluster_url, subscription};

/// Asks for a cluster, and gives back the operation that makes it.
async fn asked(gated: &Gated, name: &str) -> Stored<Operation> {
    let body = cluster_body(name);
    let reply = gated.send(Who::User, Method::PUT, &cluster_url(name), Some(&body)).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    let id: ResourceId = cluster(name).parse().unwrap();
    gated.records.operation_active_on(&id).await.unwrap().remove(0)
}

fn path_of(operation: &Operation) -> String {
    format!("/admin/v1/operations/{SUBSCRIPTION}/{}", operation.id)
}

async fn actions(gated: &Gated) -> Vec<Value> {
    let reply = gated.administer(Method::GET, "/admin/v1/actions", None).await;
    reply.body["value"].as_array().unwrap().clone()
}

#[rstest]
#[tokio::test]
async fn operations_are_listed_across_subscriptions_and_by_page(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(gated) = Gated::new(engine).await else { return };
    let (first, second) = (asked(&gated, "first").await, asked(&gated, "second").await);
    let list = async |query: &str| {
        gated.administer(Method::GET, &format!("/admin/v1/operations{query}"), None).await
    };
    let ids = |reply: &crate::support::Reply| {
        let mut ids: Vec<_> = reply.body["value"]
            .as_array()
            .unwrap()
            .iter()
            .map(|operation| operation["id"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        ids
    };
    let mut both = [first.id.to_string(), second.id.to_string()];
    both.sort();
    assert_eq!(ids(&list("").await), both);
    assert_eq!(ids(&list("?active=true").await), both);
    assert_eq!(ids(&list(&format!("?subscription={SUBSCRIPTION}&active=true")).await), both);
    assert!(ids(&list("?subscription=0b1f6471-1bf0-4dda-aec3-000000000000").await).is_empty());
    assert_eq!(ids(&list(&format!("?resource={}", cluster("FIRST"))).await), [first.id.to_string()]);

    let mut seen = Vec::new();
    let mut next = Some("/admin/v1/operations?active=true&limit=1".to_owned());
    while let Some(path) = next.take() {
        let page = gated.administer(Method::GET, &path, None).await;
        assert!(ids(&page).len() <= 1);
        seen.extend(ids(&page));
        next = page.body["nextLink"].as_str().map(str::to_owned);
    }
    seen.sort();
    assert_eq!(seen, both);

    let shown = gated.administer(Method::GET, &path_of(&first), None).await;
    assert_eq!(shown.body["resource"], cluster("first").as_str());
    assert_eq!((&shown.body["request"], &shown.body["state"]), (&json!("Create"), &json!("Accepted")));
    let steps = shown.body["steps"].as_array().unwrap();
    assert!(!steps.is_empty() && steps.iter().all(|step| step["component"].is_string()), "{}", shown.text);

    for (query, target) in [
        ("?limit=0", "limit"),
        ("?limit=1001", "limit"),
        ("?limt=1", ""),
        ("?active=maybe", ""),
        ("?subscription=x", ""),
    ] {
        let refused = list(query).await;
        assert_eq!((refused.status, refused.code()), (400, "InvalidParameter"), "{query}: {}", refused.text);
        assert_eq!(refused.body["error"]["target"].as_str().unwrap_or_default(), target, "{query}");
    }
    gated.stop().await;
}

#[rstest]
#[tokio::test]
async fn a_cancelled_operation_is_over_and_its_resource_free(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(gated) = Gated::new(engine).await else { return };
    let operation = asked(&gated, "first").await;
    let cancel = format!("{}/cancel", path_of(&operation));
    for body in [
        None,
        Some(json!({})),
        Some(json!({"reason": "  "})),
        Some(json!({"reason": 1})),
        Some(json!({"reason": "x".repeat(1001)})),
    ] {
        let refused = gated.administer(Method::POST, &cancel, body.clone()).await;
        assert_eq!((refused.status, refused.code()), (400, "InvalidRequestContent"), "{body:?}");
        assert_eq!(refused.body["error"]["target"], "reason");
    }
    assert!(actions(&gated).await.is_empty());

    let reason = Some(json!({"reason": "the customer asked"}));
    let done = gated.administer(Method::POST, &cancel, reason.clone()).await;
    assert_eq!((done.status, &done.body["state"]), (200, &json!("Canceled")), "{}", done.text);
    assert!(done.body["endedAt"].is_string());
    let id: ResourceId = cluster("first").parse().unwrap();
    let stored = gated.records.cluster_get(&id).await.unwrap().unwrap();
    assert_eq!(stored.active_operation, None);
    assert_eq!(stored.resource.status.provisioning_state, ProvisioningState::Canceled);
    let ended = gated.records.operation_get(subscription(), operation.id).await.unwrap().unwrap();
    let error = ended.error.clone().unwrap();
    assert_eq!(error.code, "Canceled");
    assert!(error.message.contains("the customer asked"), "{}", error.message);
    assert!(ended.steps.iter().all(|step| step.finished_at.is_some()));

    // Again is no other.
    assert_eq!(gated.administer(Method::POST, &cancel, reason.clone()).await.status, 200);
    let recorded = actions(&gated).await;
    assert_eq!(recorded.len(), 1, "{recorded:?}");
    assert_eq!(recorded[0]["action"], "cancel");
    assert_eq!(recorded[0]["by"], "administrator");
    assert_eq!(recorded[0]["reason"], "the customer asked");
    assert_eq!(recorded[0]["operation"], operation.id.to_string());
    let requeue = format!("{}/requeue", path_of(&operation));
    let refused = gated.administer(Method::POST, &requeue, reason.clone()).await;
    assert_eq!((refused.status, refused.code()), (409, "Conflict"), "{}", refused.text);

    // What is left can be deleted, which cannot be cancelled.
    assert_eq!(gated.send(Who::User, Method::DELETE, &cluster_url("first"), None).await.status, 202);
    let deletion = gated.records.operation_active_on(&id).await.unwrap().remove(0);
    let refused =
        gated.administer(Method::POST, &format!("{}/cancel", path_of(&deletion)), reason.clone()).await;
    assert_eq!((refused.status, refused.code()), (409, "Conflict"));
    assert!(refused.text.contains("A deletion cannot be cancelled"), "{}", refused.text);

    for unknown in ["aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa", "no-id"] {
        let path = format!("/admin/v1/operations/{SUBSCRIPTION}/{unknown}/cancel");
        let refused = gated.administer(Method::POST, &path, reason.clone()).await;
        assert_eq!((refused.status, refused.code()), (404, "NotFound"));
    }
    let records = gated.stop().await;
    let cancelled = |record: &&Value| record["resource"].as_str().unwrap().ends_with("/cancel");
    assert_eq!(records.iter().filter(cancelled).count(), 10, "refusals are recorded too");
}

#[rstest]
#[tokio::test]
async fn a_stuck_operation_begins_anew(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(gated) = Gated::new(engine).await else { return };
    let mut operation = asked(&gated, "first").await;
    let now = Clock::system().now();
    operation.waiting =
        Some(Waiting { reason: "the cloud is away".into(), since: now, attempts: 9, next_at: None });
    let mut change = gated.records.change(subscription()).unwrap();
    change.operation_replace(&operation).unwrap().commit().await.unwrap();
    let shown = gated.administer(Method::GET, &path_of(&operation), None).await;
    assert_eq!(shown.body["waiting"]["reason"], "the cloud is away");

    let mut feed = gated.records.operation_feed().await.unwrap();
    let path = format!("{}/requeue", path_of(&operation));
    let done = gated.administer(Method::POST, &path, Some(json!({"reason": "it is back"}))).await;
    assert_eq!(done.status, 200, "{}", done.text);
    assert_eq!((&done.body["waiting"], &done.body["state"]), (&Value::Null, &json!("Accepted")));
    let stored = gated.records.operation_get(subscription(), operation.id).await.unwrap().unwrap();
    assert!(stored.requeued_at.is_some() && stored.waiting.is_none());
    assert!(
        format!("{:?}", feed.next().await.unwrap()).contains(&operation.id.to_string()),
        "the backend hears"
    );
    assert_eq!(actions(&gated).await[0]["action"], "requeue");
    gated.stop().await;
}

#[rstest]
#[tokio::test]
async fn a_hold_is_set_once_and_released_once(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(gated) = Gated::new(engine).await else { return };
    asked(&gated, "hold").await;
    let path = format!("/admin/v1/hcp{}/hold", cluster("hold"));
    let (reason, other) = (Some(json!({"reason": "maintenance"})), Some(json!({"reason": "more of it"})));
    assert_eq!(gated.administer(Method::PUT, &path, None).await.status, 400);
    for _ in 0..2 {
        let held = gated.administer(Method::PUT, &path, reason.clone()).await;
        assert_eq!(held.status, 200, "{}", held.text);
        assert_eq!(
            (&held.body["hold"]["reason"], &held.body["hold"]["by"]),
            (&json!("maintenance"), &json!("administrator"))
        );
    }
    assert_eq!(gated.administer(Method::GET, &path, None).await.body["hold"]["reason"], "maintenance");
    gated.administer(Method::PUT, &path, other.clone()).await;
    for _ in 0..2 {
        let released = gated.administer(Method::DELETE, &path, reason.clone()).await;
        assert_eq!((released.status, &released.body["hold"]), (200, &Value::Null), "{}", released.text);
    }
    let done: Vec<_> = actions(&gated).await.iter().map(|action| action["action"].clone()).collect();
    assert_eq!(done, ["release", "hold", "hold"], "newest first, and nothing twice");

    let pool = format!("/admin/v1/hcp{}/nodePools/n/hold", cluster("hold"));
    let refused = gated.administer(Method::PUT, &pool, reason.clone()).await;
    assert_eq!((refused.status, refused.code()), (400, "InvalidResourceType"));
    let missing = format!("/admin/v1/hcp{}/hold", cluster("missing"));
    let refused = gated.administer(Method::PUT, &missing, reason.clone()).await;
    assert_eq!((refused.status, refused.code()), (404, "ResourceNotFound"));
    let itself = format!("/admin/v1/hcp{}", cluster("hold"));
    assert_eq!(gated.administer(Method::PUT, &itself, reason).await.status, 404);
    gated.stop().await;
}

#[rstest]
#[tokio::test]
async fn resources_are_shown_in_short_and_as_they_are_stored(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(gated) = Gated::open(engine).await else { return };
    let operation = asked(&gated, "first").await;
    let listed = gated.administer(Method::GET, "/admin/v1/resources?type=hcpopenshiftclusters", None).await;
    let found = &listed.body["value"][0];
    assert_eq!((&found["id"], &found["provisioningState"]), (&json!(cluster("first")), &json!("Accepted")));
    for kind in ["nodePools", "externalAuths"] {
        let listed = gated.administer(Method::GET, &format!("/admin/v1/resources?type={kind}"), None).await;
        assert_eq!(listed.body["value"], json!([]), "{kind}");
    }
    let refused = gated.administer(Method::GET, "/admin/v1/resources?type=boats", None).await;
    assert_eq!((refused.status, refused.code()), (400, "InvalidParameter"));

    let path = format!("/admin/v1/hcp{}", cluster("first"));
    let shown = gated.administer(Method::GET, &path, None).await;
    assert_eq!(shown.body["activeOperation"], operation.id.to_string());
    assert_eq!(shown.body["operations"][0]["id"], operation.id.to_string());
    let document = gated.administer(Method::GET, &format!("{path}/document"), None).await;
    assert_eq!(document.body["document"]["activeOperation"], operation.id.to_string());
    assert!(document.body["etag"].is_string() && document.body["document"]["resource"].is_object());
    let missing = gated.administer(Method::GET, &format!("{path}s/document"), None).await;
    assert_eq!((missing.status, missing.code()), (404, "ResourceNotFound"));

    // Where nobody is asked, they may at least say who they are.
    let url = format!("{}{path}/hold", gated.admin);
    let said = [("x-ms-client-principal-name", "ada")];
    let held = gated.send_with(Who::Nobody, Method::PUT, &url, Some(&json!({"reason": "r"})), &said).await;
    assert_eq!(held.body["hold"]["by"], "ada");
    gated.stop().await;
}
