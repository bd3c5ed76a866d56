//! What is refused because of what something is at.

use http::Method;
use pilothouse_arm::ProvisioningState::{
    self, Accepted, AwaitingSecret, Canceled, Deleting, Failed, Provisioning, Succeeded, Updating,
};
use rstest::rstest;
use serde_json::json;

use crate::support::{
    Engine, Rig, VERSION, auth, auth_body, cluster, cluster_body, cluster_url, pool, pool_body, subscription,
};

const ALL: [ProvisioningState; 8] =
    [Succeeded, Failed, Canceled, Accepted, Provisioning, Updating, Deleting, AwaitingSecret];

/// A fresh rig with a cluster that has a node pool and an external authentication, all of them ready.
async fn rig(engine: Engine) -> Option<Rig> {
    let rig = Rig::new(engine).await?;
    rig.made("First").await;
    assert_eq!(rig.put(&pool("one"), &pool_body(1)).await.status, 201);
    assert_eq!(rig.put(&pool("two"), &pool_body(1)).await.status, 201);
    assert_eq!(rig.put(&auth("idp"), &auth_body("https://idp.example")).await.status, 201);
    rig.succeed("First").await;
    Some(rig)
}

/// Undoes what a request did, so that the next one finds everything as it was.
async fn settle(rig: &Rig) {
    let id = cluster("First").parse().unwrap();
    let mut change = rig.records.change(subscription()).unwrap();
    for mut operation in rig.records.operation_active_on(&id).await.unwrap() {
        operation.enter(Succeeded, pilothouse_runtime::Clock::system().now());
        change.operation_replace(&operation).unwrap();
    }
    for mut pool in rig.records.node_pool_all(&id).await.unwrap() {
        pool.active_operation = None;
        pool.resource.status.provisioning_state = Succeeded;
        if pool.resource.id.name() == "new" {
            change.node_pool_delete(&pool).unwrap();
        } else {
            change.node_pool_replace(&pool).unwrap();
        }
    }
    for mut auth in rig.records.external_auth_all(&id).await.unwrap() {
        auth.active_operation = None;
        auth.resource.status.provisioning_state = Succeeded;
        change.external_auth_replace(&auth).unwrap();
    }
    let mut stored = rig.records.cluster_get(&id).await.unwrap().unwrap();
    stored.revocation = None;
    change.cluster_replace(&stored).unwrap().commit().await.unwrap();
}

async fn set_children(rig: &Rig, state: ProvisioningState) {
    let id = cluster("First").parse().unwrap();
    let mut change = rig.records.change(subscription()).unwrap();
    for mut pool in rig.records.node_pool_all(&id).await.unwrap() {
        if pool.resource.id.name() == "one" {
            pool.resource.status.provisioning_state = state;
            change.node_pool_replace(&pool).unwrap();
        }
    }
    for mut auth in rig.records.external_auth_all(&id).await.unwrap() {
        auth.resource.status.provisioning_state = state;
        change.external_auth_replace(&auth).unwrap();
    }
    change.commit().await.unwrap();
}

#[rstest]
#[tokio::test]
async fn what_a_cluster_is_at_decides_what_can_be_done_to_it(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = rig(engine).await else { return };
    let tags = json!({"tags": {"a": "b"}});
    let action = |name: &str| format!("{}/{name}?{VERSION}", cluster("First"));
    let mut changed = cluster_body("First");
    changed["tags"] = json!({"c": "d"});
    for state in ALL {
        let terminal = matches!(state, Succeeded | Failed | Canceled);
        let request = json!({"certificateSigningRequest": crate::credentials::request()});
        for (method, url, body, done) in [
            (Method::PATCH, cluster_url("First"), Some(&tags), if terminal { 202 } else { 409 }),
            (Method::PUT, cluster_url("First"), Some(&changed), if terminal { 200 } else { 409 }),
            (Method::DELETE, cluster_url("First"), None, if state == Deleting { 409 } else { 202 }),
            (
                Method::POST,
                action("requestAdminCredential"),
                Some(&request),
                if terminal { 202 } else { 409 },
            ),
            (Method::POST, action("revokeCredentials"), None, if terminal { 202 } else { 409 }),
        ] {
            rig.set_state("First", state).await;
            let reply = rig.send(method.clone(), &url, body).await;
            assert_eq!(reply.status, done, "{method} {url} while {state}: {}", reply.text);
            if reply.status == 409 {
                assert_eq!((reply.code(), reply.target()), ("Conflict", cluster("First").as_str()));
                assert!(
                    reply.text.contains(&format!("\\\"{state}\\\"")) || state == Deleting,
                    "{}",
                    reply.text
                );
            }
            settle(&rig).await;
        }
    }
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn what_a_cluster_is_at_decides_what_can_be_done_below_it(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = rig(engine).await else { return };
    for state in ALL {
        let settled = !matches!(state, Provisioning | Deleting);
        for (method, url, body, done) in [
            (Method::PUT, pool("new"), Some(pool_body(1)), 201),
            (Method::PATCH, pool("one"), Some(json!({"tags": {"a": state.to_string()}})), 202),
            (Method::DELETE, pool("one"), None, 202),
            (Method::PATCH, auth("idp"), Some(json!({"properties": {"issuer": {"audiences": ["x"]}}})), 202),
            (Method::DELETE, auth("idp"), None, 202),
        ] {
            rig.set_state("First", state).await;
            let reply = rig.send(method.clone(), &url, body.as_ref()).await;
            let expected = if settled { done } else { 409 };
            assert_eq!(reply.status, expected, "{method} {url} while the cluster is {state}: {}", reply.text);
            if reply.status == 409 {
                assert_eq!((reply.code(), reply.target()), ("Conflict", cluster("First").as_str()));
            }
            settle(&rig).await;
        }
    }
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn what_something_below_a_cluster_is_at_decides_what_can_be_done_to_it(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = rig(engine).await else { return };
    for state in ALL {
        let terminal = matches!(state, Succeeded | Failed | Canceled);
        for (url, body) in [
            (pool("one"), json!({"tags": {"a": state.to_string()}})),
            (auth("idp"), json!({"properties": {"issuer": {"audiences": [state.to_string()]}}})),
        ] {
            set_children(&rig, state).await;
            let reply = rig.patch(&url, &body).await;
            assert_eq!(reply.status, if terminal { 202 } else { 409 }, "{url} while {state}: {}", reply.text);
            settle(&rig).await;
            set_children(&rig, state).await;
            let reply = rig.delete(&url).await;
            assert_eq!(
                reply.status,
                if state == Deleting { 409 } else { 202 },
                "{url} while {state}: {}",
                reply.text
            );
            settle(&rig).await;
        }
    }
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn nothing_can_be_put_below_a_cluster_that_is_not_made_yet(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    for (url, body) in [(pool("one"), pool_body(1)), (auth("idp"), auth_body("https://idp.example"))] {
        let missing = rig.put(&url, &body).await;
        assert_eq!(
            (missing.status, missing.code(), missing.target()),
            (404, "ResourceNotFound", cluster("First").as_str())
        );
    }
    rig.put(&cluster_url("First"), &cluster_body("First")).await;
    for (url, body) in [(pool("one"), pool_body(1)), (auth("idp"), auth_body("https://idp.example"))] {
        let early = rig.put(&url, &body).await;
        assert_eq!((early.status, early.code()), (409, "Conflict"), "{}", early.text);
        assert_eq!(
            early.body["error"]["message"],
            "Cannot create resource while parent resource is \"Accepted\""
        );
    }
    // Its making failed before Clusters Service knew of it.
    rig.set_state("First", Failed).await;
    let never = rig.put(&pool("one"), &pool_body(1)).await;
    assert_eq!((never.status, never.target()), (409, cluster("First").as_str()), "{}", never.text);
    let again = rig.put(&cluster_url("First"), &cluster_body("First")).await;
    assert_eq!((again.status, again.code()), (409, "Conflict"), "{}", again.text);
    rig.stop().await;
}
