//! Credentials of administrators, step by step.

use pilothouse_clusters_service_api::{BreakGlassCredential, BreakGlassCredentialStatus as Status, Secret};

use super::*;
use crate::record::{CredentialRecord, Revocation, Signed};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn credential(model: &Model, id: &str, status: Status) -> CredentialRecord {
    let credential = BreakGlassCredential {
        kind: "BreakGlassCredential".to_owned(),
        id: id.parse().unwrap(),
        href: String::new(),
        cluster_id: model.cluster.cluster.id.clone(),
        username: "system:customer-break-glass:system-admin".to_owned(),
        expiration_timestamp: None,
        revocation_timestamp: None,
        kubeconfig: None,
        status,
        message: String::new(),
        properties: BTreeMap::new(),
    };
    let key = Some(Secret::new("key"));
    CredentialRecord::new(credential, Origin::default(), "request".to_owned(), key, model.now)
}

fn issued(model: &Model, id: &str) -> CredentialRecord {
    let mut record = credential(model, id, Status::Issued);
    record.credential.expiration_timestamp = Some(plus(model.now, DAY));
    record.signed = Some(Signed {
        certificate: "certificate".to_owned(),
        server: "https://127.0.0.1".to_owned(),
        tls_server_name: None,
        authorities: "authorities".to_owned(),
    });
    record.cleared = true;
    record
}

/// A cluster that is ready, and nothing was done about yet.
fn ready() -> Model {
    let mut model = Model::new();
    model.settle();
    model.done.clear();
    model
}

#[test]
fn one_that_is_good_asks_for_nothing_until_its_end_and_then_has_no_key() {
    let mut model = ready();
    model.credentials = vec![issued(&model, "a")];
    let plan = model.plan();
    assert_eq!(plan.actions, []);
    assert_eq!(plan.credentials, model.credentials);
    assert_eq!(plan.look_again, Some(plus(model.now, DAY)));

    model.now = plus(model.now, DAY);
    model.settle();
    let record = &model.credentials[0];
    assert_eq!(record.credential.status, Status::Expired);
    assert_eq!((record.key.is_none(), record.signed.is_none()), (true, true));
    assert_eq!(model.done, [""; 0]);
    assert_eq!(model.plan().look_again, Some(plus(model.now, DAY)));

    model.now = plus(model.now, DAY);
    model.settle();
    assert_eq!(model.done, ["forget credential"]);
}

#[test]
fn one_that_is_asked_for_is_posted_and_fails_at_its_deadline() {
    let mut model = ready();
    model.credentials = vec![credential(&model, "a", Status::Created)];
    model.settle();
    assert_eq!(model.done, ["post ID-credential-a"]);
    assert_eq!(model.credentials[0].credential.status, Status::Created);
    let deadline = plus(model.now, model.config.deadlines.credential.0);
    assert_eq!(model.plan().look_again, Some(deadline));

    model.now = deadline;
    model.settle();
    assert_eq!(model.credentials[0].credential.status, Status::Failed);
    assert!(model.credentials[0].key.is_none());
    assert_eq!(model.done, ["post ID-credential-a", "delete ID-credential-a"]);
}

#[test]
fn signers_are_replaced_after_requests_are_gone_and_believed_when_seen() {
    let mut model = ready();
    let mut waiting = credential(&model, "b", Status::Created);
    model.credentials = vec![issued(&model, "a"), waiting.clone()];
    model.settle();
    waiting.credential.status = Status::AwaitingRevocation;
    model.credentials[1] = waiting;
    model.credentials[0].credential.status = Status::AwaitingRevocation;
    let revocation = Revocation { id: "r".to_owned(), requested_at: model.now, done: false };
    model.cluster.revocations = vec![revocation];
    model.settle();
    assert_eq!(
        model.done,
        ["post ID-credential-b", "delete ID-credential-b", "post ID-revocation-r"],
        "nothing is revoked while something may still be signed"
    );
    assert!(model.cluster.is_revoking());
    assert!(model.credentials.iter().all(|one| one.credential.status == Status::AwaitingRevocation));

    let name = format!("{}-revocation-r", model.cluster.cluster.id);
    let text =
        |name: &str, value: &str| json!({"name": name, "fieldValue": {"type": "String", "string": value}});
    let inner = json!({"conditions": [{"type": "Applied", "status": "True", "reason": "", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}], "resourceStatus": {"manifests": [{
        "resourceMeta": {"kind": "CertificateRevocationRequest"}, "conditions": [], "statusFeedback": {"values": [
            text("PreviousCertificatesRevoked-Status", "True"), text("RevocationTimestamp", "2026-01-01T00:00:00Z")]}}]}});
    let status = json!({"conditions": [{"type": "Applied", "status": "True", "reason": "", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z"}], "resourceStatus": [{"resourceMeta": {}, "conditions": [],
        "statusFeedback": {"values": [{"name": "status", "fieldValue": {"type": "JsonRaw", "jsonRaw": inner.to_string()}}]}}]});
    model.bundles.get_mut(&name).unwrap().status = Some(serde_json::from_value(status).unwrap());
    model.settle();
    for record in &model.credentials {
        assert_eq!(record.credential.status, Status::Revoked);
        assert_eq!(record.credential.revocation_timestamp, Some("2026-01-01T00:00:00Z".parse().unwrap()));
    }
    assert_eq!(model.done.last().unwrap(), "delete ID-revocation-r");
    assert_eq!(model.cluster.revocations, []);
    assert_eq!(model.plan().actions, []);
}

#[test]
fn all_of_them_go_with_their_cluster() {
    let mut model = ready();
    model.node_pools.clear();
    model.credentials = vec![credential(&model, "a", Status::Created)];
    model.settle();
    model.done.clear();
    model.cluster.deletion = Some(Deletion { requested_at: model.now });
    for _ in 0..6 {
        let plan = model.plan();
        model.credentials = plan.credentials;
        for action in plan.actions {
            model.act(action);
        }
        if model.cluster.deletion.is_none() {
            break;
        }
    }
    let order = [
        "delete ID-credential-a",
        "forget credential",
        "delete ID-managed",
        "delete ID",
        "delete cloud",
        "forget cluster",
    ];
    assert_eq!(model.done, order);
}
