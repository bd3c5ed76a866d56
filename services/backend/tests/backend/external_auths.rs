use pilothouse_arm::ProvisioningState::{Failed, Succeeded, Updating};
use pilothouse_clusters_service_api::simulated::Mode;
use pilothouse_records::Request;
use pilothouse_test_support::eventually;
use rstest::rstest;
use serde_json::json;

use crate::rig::{Engine, PATIENCE, Rig, cluster_id};

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn an_external_authentication_is_made_changed_and_deleted(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    let backend = rig.backend().await;
    rig.ready_cluster("First").await;
    let created = rig.put_external_auth("First", "entra").await;
    rig.until_state(&created, Succeeded).await;
    let id = cluster_id("First").child("externalAuths", "entra");
    let stored = rig.records.external_auth_get(&id).await.unwrap().unwrap();
    assert_eq!((stored.resource.status.provisioning_state, stored.active_operation), (Succeeded, None));

    rig.service.set_mode(Mode::Explicit);
    let update = json!({"issuer": {"url": "https://other.test", "audiences": ["clusters"]}});
    let changed = rig.change_external_auth("First", "entra", Request::Update, Some(update)).await;
    rig.until_state(&changed, Updating).await;
    let made = rig.service.external_auths().remove(0);
    assert_eq!(made.issuer.url, "https://other.test");
    rig.service.finish(&made);
    rig.until_state(&changed, Succeeded).await;

    rig.service.fail(&made, "", "the issuer does not answer");
    let again = json!({"issuer": {"url": "https://third.test", "audiences": ["clusters"]}});
    let changed = rig.change_external_auth("First", "entra", Request::Update, Some(again)).await;
    // A call that has begun may still be under way; what it has changed is there to be failed.
    eventually("the change is accepted", PATIENCE, || async {
        let url = rig.service.external_auths().remove(0).issuer.url;
        if url == "https://third.test" { Ok(()) } else { Err(url) }
    })
    .await;
    rig.service.fail(&made, "", "the issuer does not answer");
    let error = rig.until_state(&changed, Failed).await.error.unwrap();
    assert_eq!(error.additional_info[0].info.observed, "the issuer does not answer");

    rig.service.set_mode(Mode::Automatic);
    let deleted = rig.change_external_auth("First", "entra", Request::Delete, None).await;
    rig.until_state(&deleted, Succeeded).await;
    assert!(rig.records.external_auth_get(&id).await.unwrap().is_none());
    assert!(rig.service.external_auths().is_empty());
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_takes_along_what_belongs_to_it(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    let backend = rig.backend().await;
    rig.ready_cluster("First").await;
    let pool = rig.put_node_pool("First", "workers").await;
    let auth = rig.put_external_auth("First", "entra").await;
    rig.until_state(&pool, Succeeded).await;
    rig.until_state(&auth, Succeeded).await;
    let deletion = rig.delete_cluster("First").await;
    rig.until_state(&deletion, Succeeded).await;
    let id = cluster_id("First");
    assert!(rig.is_gone("First").await);
    assert!(rig.records.node_pool_all(&id).await.unwrap().is_empty());
    assert!(rig.records.external_auth_all(&id).await.unwrap().is_empty());
    assert!(rig.records.operation_active().await.unwrap().is_empty());
    backend.stop().await;
}
