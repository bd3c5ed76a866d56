use std::sync::LazyLock;

use http::Method;
use pilothouse_clusters_service_api::simulated::{Call, Fault};
use pilothouse_pki::{KeyAlgorithm, PrivateKey, SigningRequest, Subject};
use pilothouse_runtime::Clock;
use rstest::rstest;
use serde_json::json;

use crate::support::{Engine, Reply, Rig, VERSION, cluster, cluster_url, subscription, under_way};

/// A request to be signed, as it has to be.
pub(crate) fn request() -> String {
    static REQUEST: LazyLock<String> = LazyLock::new(|| {
        let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
        let subject = Subject::try_new("system:customer-break-glass:system-admin").unwrap();
        let subject = subject.with_organizations(["system:masters"]).unwrap();
        SigningRequest::write(&subject, [], &key).unwrap()
    });
    REQUEST.clone()
}

fn action(name: &str) -> String {
    format!("{}/{name}?{VERSION}", cluster("First"))
}

async fn ask(rig: &Rig) -> Reply {
    let body = json!({"certificateSigningRequest": request()});
    rig.send(Method::POST, &action("requestAdminCredential"), Some(&body)).await
}

#[rstest]
#[tokio::test]
async fn a_credential_is_read_when_its_result_is_asked_for_and_kept_nowhere(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    let asked = ask(&rig).await;
    assert_eq!((asked.status, asked.text.as_str(), asked.header("retry-after")), (202, "", "1"));
    assert_eq!(asked.header("location"), asked.result());
    assert_eq!(rig.get(&cluster_url("First")).await.state(), "Succeeded", "the cluster itself is left alone");
    assert_eq!(rig.get(&asked.result()).await.status, 202);
    rig.succeed("First").await;
    let result = rig.get(&asked.result()).await;
    assert_eq!(result.status, 200, "{}", result.text);
    let kubeconfig = result.body["kubeconfig"].as_str().unwrap();
    assert!(kubeconfig.contains("client-certificate-data") && !kubeconfig.contains("client-key-data"));
    assert!(result.body["expirationTimestamp"].as_str().unwrap().ends_with('Z'));
    let id = asked.result().split('/').next_back().unwrap().split('?').next().unwrap().parse().unwrap();
    let kept = rig.records.operation_get(subscription(), id).await.unwrap().unwrap();
    assert!(!serde_json::to_string(&kept.record).unwrap().contains("client-certificate-data"));

    let revoked = rig.post(&action("revokeCredentials")).await;
    assert_eq!((revoked.status, revoked.text.as_str()), (202, ""));
    rig.succeed("First").await;
    assert_eq!(rig.get(&revoked.result()).await.status, 204);
    let gone = rig.get(&asked.result()).await;
    assert_eq!((gone.status, gone.code()), (404, "ResourceNotFound"), "{}", gone.text);
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn a_credential_that_has_expired_is_not_shown_any_more(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    let asked = ask(&rig).await;
    rig.succeed("First").await;
    assert_eq!(rig.get(&asked.result()).await.status, 200);
    let known = rig.clusters_service.credentials().remove(0);
    rig.clusters_service.change_credential(&known.cluster_id, &known.id, |credential| {
        credential.expiration_timestamp = Some(Clock::system().now());
    });
    let gone = rig.get(&asked.result()).await;
    assert_eq!((gone.status, gone.code()), (404, "ResourceNotFound"), "{}", gone.text);
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn older_versions_ask_without_a_body_and_get_the_key_too(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    let url = format!("{}/RequestAdminCredential?api-version=2024-06-10-preview", cluster("First"));
    let asked = rig.post(&url).await;
    assert_eq!(asked.status, 202, "{}", asked.text);
    rig.succeed("First").await;
    let result = rig.get(&asked.result()).await;
    assert!(result.body["kubeconfig"].as_str().unwrap().contains("client-key-data"));
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn a_revocation_gives_up_what_was_asked_for_and_lets_nothing_in_meanwhile(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    rig.made("First").await;
    let (one, two) = (ask(&rig).await, ask(&rig).await);
    assert_eq!(under_way(&rig).await, [("RequestCredential".to_owned(), 2)].into());
    let revoking = rig.post(&action("revokeCredentials")).await;
    assert_eq!(revoking.status, 202, "{}", revoking.text);
    assert_eq!(under_way(&rig).await, [("RevokeCredentials".to_owned(), 1)].into());
    for asked in [one, two] {
        let status = rig.get(asked.header("azure-asyncoperation")).await.body;
        assert_eq!(
            (status["status"].as_str(), status["error"]["code"].as_str()),
            (Some("Canceled"), Some("Canceled"))
        );
        assert_eq!(rig.get(&asked.result()).await.status, 500);
    }
    for refused in [ask(&rig).await, rig.post(&action("revokeCredentials")).await] {
        assert_eq!((refused.status, refused.code(), refused.header("retry-after")), (409, "Conflict", "10"));
        assert_eq!(refused.target(), cluster("First"));
    }
    rig.succeed("First").await;
    assert_eq!(ask(&rig).await.status, 202);
    rig.stop().await;
}

#[rstest]
#[tokio::test]
async fn what_cannot_be_asked_for_is_refused_in_advance(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine).await else { return };
    let missing = ask(&rig).await;
    assert_eq!((missing.status, missing.target()), (404, cluster("First").as_str()));
    rig.made("First").await;
    let fault = Fault::Refuse { status: 400, target: Some("certificate_signing_request"), message: "no" };
    rig.clusters_service.inject_times(1, fault, Call::is_preflight);
    let refused = ask(&rig).await;
    assert_eq!((refused.status, refused.target()), (400, "certificateSigningRequest"), "{}", refused.text);
    rig.clusters_service.inject(Fault::Unavailable, Call::is_preflight);
    let refused = ask(&rig).await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, "59"));
    assert!(rig.records.operation_active().await.unwrap().is_empty());
    rig.stop().await;
}
