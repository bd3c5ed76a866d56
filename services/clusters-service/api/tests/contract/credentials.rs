use pilothouse_clusters_service_api::{BreakGlassCredentialStatus, ListQuery, NewBreakGlassCredential};
use pilothouse_pki::{Certificate, KeyAlgorithm, PrivateKey, SigningRequest, Subject};
use serde_json::Value;

use crate::support::{asked_by, context, with_cluster};

const ADMINISTRATOR: &str = "system:customer-break-glass:system-admin";

fn asked(request: Option<String>, operation: &str) -> NewBreakGlassCredential {
    NewBreakGlassCredential {
        certificate_signing_request: request,
        properties: asked_by(operation),
        ..NewBreakGlassCredential::default()
    }
}

fn decoded(text: &Value) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text.as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn a_request_is_signed_and_the_key_stays_with_whoever_asked() {
    let (_service, client, cluster) = with_cluster().await;
    let key = PrivateKey::generate(KeyAlgorithm::EcdsaP256).unwrap();
    let subject = Subject::try_new(ADMINISTRATOR).unwrap().with_organizations(["system:masters"]).unwrap();
    let request = SigningRequest::write(&subject, [], &key).unwrap();
    let made =
        client.break_glass_create(&context(), &cluster.id, &asked(Some(request), "one")).await.unwrap();
    assert_eq!((made.status, made.kubeconfig), (BreakGlassCredentialStatus::Created, None));

    let issued = client.break_glass_get(&context(), &cluster.id, &made.id).await.unwrap();
    assert_eq!(issued.status, BreakGlassCredentialStatus::Issued);
    let kubeconfig: Value = serde_saphyr::from_str(issued.kubeconfig.unwrap().expose()).unwrap();
    let name = |list: &str| kubeconfig[list][0]["name"].as_str().unwrap().to_owned();
    assert_eq!([name("clusters"), name("users"), name("contexts")], ["cluster", "admin", "admin"]);
    let user = &kubeconfig["users"][0]["user"];
    assert_eq!(user.get("client-key-data"), None, "the caller adds the key");
    let leaf = Certificate::from_pem(&decoded(&user["client-certificate-data"])).unwrap();
    let authorities = decoded(&kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"]);
    assert!(leaf.is_signed_by(&Certificate::from_pem(&authorities).unwrap()));
    assert_eq!(
        (leaf.subject().common_name(), leaf.not_after()),
        (ADMINISTRATOR, issued.expiration_timestamp.unwrap())
    );

    let listed = client.break_glass_list(&context(), &cluster.id, &ListQuery::default()).await.unwrap();
    assert!(listed.items.iter().all(|credential| credential.kubeconfig.is_none()));
}

#[tokio::test]
async fn without_a_request_the_service_makes_the_key_and_all_are_revoked_together() {
    let (_service, client, cluster) = with_cluster().await;
    let made = client.break_glass_create(&context(), &cluster.id, &asked(None, "one")).await.unwrap();
    let again = client.break_glass_create(&context(), &cluster.id, &asked(None, "one")).await.unwrap();
    assert_eq!((&made.id, made.username.as_str()), (&again.id, ADMINISTRATOR));
    let other = client.break_glass_create(&context(), &cluster.id, &asked(None, "two")).await.unwrap();
    assert_ne!(made.id, other.id);
    let issued = client.break_glass_get(&context(), &cluster.id, &made.id).await.unwrap();
    let kubeconfig: Value = serde_saphyr::from_str(issued.kubeconfig.unwrap().expose()).unwrap();
    let key = decoded(&kubeconfig["users"][0]["user"]["client-key-data"]);
    assert!(PrivateKey::from_pem(&key).is_ok());

    let refused = asked(Some("no request".into()), "three");
    let error = client.break_glass_preflight(&context(), &cluster.id, &refused).await.unwrap_err();
    assert_eq!(error.details()[0].target, "certificate_signing_request");

    client.break_glass_revoke_all(&context(), &cluster.id).await.unwrap();
    for id in [&made.id, &other.id] {
        let revoked = client.break_glass_get(&context(), &cluster.id, id).await.unwrap();
        assert_eq!((revoked.status, revoked.kubeconfig), (BreakGlassCredentialStatus::Revoked, None));
        assert!(revoked.revocation_timestamp.is_some());
    }
}
