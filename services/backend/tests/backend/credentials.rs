use pilothouse_arm::ProvisioningState::{Deleting, Failed, Provisioning, Succeeded};
use pilothouse_clusters_service_api::BreakGlassCredentialStatus;
use pilothouse_clusters_service_api::simulated::{Fault, Mode};
use pilothouse_records::{CredentialWork, Operation, Request};
use pilothouse_test_support::eventually;
use rstest::rstest;

use crate::rig::{Engine, PATIENCE, Rig, cluster_id};

/// What the frontend stores for a credential.
async fn request(rig: &Rig) -> Operation {
    let mut operation = rig.operation(Request::RequestCredential, &cluster_id("First"), None);
    operation.credential = Some(CredentialWork::default());
    rig.store_operation(&operation).await;
    operation
}

/// What the frontend stores for a revocation.
async fn revoke(rig: &Rig) -> Operation {
    let operation = rig.operation(Request::RevokeCredentials, &cluster_id("First"), None);
    let mut cluster = rig.stored_cluster("First").await;
    cluster.revocation = Some(operation.id);
    let mut change = rig.records.change(crate::rig::subscription()).unwrap();
    change.cluster_replace(&cluster).unwrap().operation_create(&operation).unwrap().commit().await.unwrap();
    operation
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_credential_is_issued_once_and_nothing_secret_is_stored(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    let backend = rig.backend().await;
    rig.ready_cluster("First").await;
    rig.service.set_mode(Mode::Explicit);
    // Its answer is lost, and lost again.
    rig.service.inject_times(3, Fault::LoseAnswer, |call| call.is_creation());
    let operation = request(&rig).await;
    rig.until_state(&operation, Provisioning).await;
    let credential = rig.service.credentials().remove(0);
    rig.service.finish(&credential);
    let ended = rig.until_state(&operation, Succeeded).await;
    assert_eq!(rig.service.credentials().len(), 1);
    let kept = ended.credential.clone().unwrap().clusters_service_id;
    assert_eq!(kept.as_deref(), Some(credential.id.as_str()));
    let text = serde_json::to_string(&ended).unwrap();
    assert!(!text.contains("kubeconfig") && !text.contains("PRIVATE KEY"), "{text}");

    let operation = request(&rig).await;
    rig.until_state(&operation, Provisioning).await;
    let mut created = rig.service.credentials();
    created.retain(|credential| credential.status == BreakGlassCredentialStatus::Created);
    rig.service.fail(&created[0], "", "the signer is away");
    let error = rig.until_state(&operation, Failed).await.error.unwrap();
    assert_eq!(error.code, "CredentialFailed");
    assert_eq!(error.additional_info[0].info.observed, "the signer is away");
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn a_revocation_ends_when_the_last_credential_opens_nothing(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    let backend = rig.backend().await;
    rig.ready_cluster("First").await;
    for _ in 0..2 {
        let operation = request(&rig).await;
        rig.until_state(&operation, Succeeded).await;
    }
    rig.service.set_mode(Mode::Explicit);
    let revocation = revoke(&rig).await;
    rig.until_state(&revocation, Deleting).await;
    let [first, second] = rig.service.credentials().try_into().unwrap();
    rig.service.finish(&first);
    rig.until("one is left", &revocation, |now| {
        now.steps.iter().any(|step| step.message == "waiting for 1 of them to be revoked")
    })
    .await;
    assert_eq!(rig.stored_cluster("First").await.revocation, Some(revocation.id));
    rig.service.finish(&second);
    rig.until_state(&revocation, Succeeded).await;
    assert_eq!(rig.stored_cluster("First").await.revocation, None);
    eventually("nothing is under way", PATIENCE, || async {
        let active = rig.records.operation_active().await.unwrap();
        if active.is_empty() { Ok(()) } else { Err(format!("{active:?}")) }
    })
    .await;
    backend.stop().await;
}
