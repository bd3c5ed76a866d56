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
fn one_whose_management_cluster_is_lost_says_so() {
    let mut model = ready();
    model.credentials = vec![credential(&model, "a", Status::Created)];
    model.lost = Some("shard `a` has not answered since noon");
    model.settle();
    let message = &model.credentials[0].credential.message;
    assert!(message.starts_with("step 9: shard `a` has not answered since noon; waiting"), "{message}");
    model.now = plus(model.now, model.config.deadlines.credential.0);
    model.settle();
    let message = &model.credentials[0].credential.message;
    assert!(message.starts_with("not issued by") && message.contains("since noon"), "{message}");
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
    assert_eq!(model.cluster.revocations.len(), 1);
    assert!(model.credentials.iter().all(|one| one.credential.status == Status::AwaitingRevocation));

    report_revoked(&mut model);
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
    model.bundles.retain(|name, _| !name.contains("-pool-"));
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

#[test]
fn a_revocation_that_takes_too_long_says_so_and_takes_along_what_was_signed_meanwhile() {
    let mut model = ready();
    model.credentials = vec![issued(&model, "a")];
    model.credentials[0].credential.status = Status::AwaitingRevocation;
    let revocation = Revocation { id: "r".to_owned(), requested_at: model.now, done: false };
    model.cluster.revocations = vec![revocation];
    model.settle();
    let limit = model.config.deadlines.credential.0;
    let deadline = plus(model.now, limit);
    assert_eq!(model.plan().look_again, Some(deadline));
    assert!(model.cluster.is_revoking_in_time(limit, model.now));

    model.now = deadline;
    model.settle();
    let shown = &model.credentials[0].credential;
    // It may still open the cluster, so it is not over.
    assert_eq!(shown.status, Status::AwaitingRevocation);
    assert!(shown.message.starts_with("overdue; not revoked by 1970-01-01T00:10:00Z"), "{}", shown.message);
    assert_eq!(model.cluster.revocations.len(), 1);
    assert!(!model.cluster.is_revoking_in_time(limit, model.now));

    // Signed by the one that is to be replaced.
    model.credentials.push(issued(&model, "b"));
    report_revoked(&mut model);
    model.settle();
    assert!(model.credentials.iter().all(|record| record.credential.status == Status::Revoked));
    assert_eq!(model.cluster.revocations, []);
}

#[test]
fn what_is_to_be_revoked_ends_with_its_time_and_the_revocation_when_nothing_is_left_to_revoke() {
    let mut model = ready();
    let (signed, asked) = (issued(&model, "a"), credential(&model, "b", Status::Created));
    model.credentials = vec![signed, asked];
    model.credentials[0].credential.expiration_timestamp = Some(plus(model.now, DAY / 2));
    for record in &mut model.credentials {
        record.credential.status = Status::AwaitingRevocation;
    }
    let revocation = Revocation { id: "r".to_owned(), requested_at: model.now, done: false };
    model.cluster.revocations = vec![revocation];
    let (began, limit) = (model.now, model.config.deadlines.credential.0);
    model.now = plus(began, limit);
    model.settle();
    let statuses = |model: &Model| -> Vec<_> {
        model.credentials.iter().map(|record| record.credential.status).collect()
    };
    assert_eq!(statuses(&model), [Status::AwaitingRevocation; 2]);
    assert_eq!(model.plan().look_again, Some(plus(began, DAY / 2)));

    model.now = plus(began, DAY / 2);
    model.settle();
    assert_eq!(statuses(&model), [Status::Expired, Status::AwaitingRevocation]);
    assert_eq!(model.credentials[0].over_since, Some(model.now));
    assert_eq!((model.cluster.revocations.len(), model.plan().look_again), (1, Some(plus(began, DAY))));

    // Nobody knows of a certificate for this one, but whatever was signed is over by now.
    model.now = plus(began, DAY);
    model.settle();
    assert_eq!(statuses(&model), [Status::Expired; 2]);
    assert_eq!(model.done.last().unwrap(), "delete ID-revocation-r");
    assert_eq!(model.cluster.revocations, []);
}

#[test]
fn what_the_new_signer_has_signed_is_good_though_it_was_asked_for_before() {
    let mut model = ready();
    model.credentials = vec![issued(&model, "a")];
    model.credentials[0].credential.status = Status::AwaitingRevocation;
    let revocation = Revocation { id: "r".to_owned(), requested_at: model.now, done: false };
    model.cluster.revocations = vec![revocation];
    model.now = plus(model.now, model.config.deadlines.credential.0);
    model.settle();
    // Both were asked for while it was overdue; one certificate is of the second in which the signer was replaced.
    let replaced: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let (mut old, mut new) = (issued(&model, "b"), issued(&model, "c"));
    old.credential.expiration_timestamp = Some(plus(replaced, DAY - Duration::from_secs(1)));
    new.credential.expiration_timestamp = Some(plus(replaced, DAY));
    // So is this one, which was asked for for an hour.
    let hour = Duration::from_secs(60 * 60);
    let mut short = issued(&model, "d");
    short.good_until = Some(plus(short.created_at, hour));
    short.credential.expiration_timestamp = Some(plus(replaced, hour));
    model.credentials.extend([old, new, short]);
    report_revoked(&mut model);
    model.settle();
    let statuses: Vec<_> = model.credentials.iter().map(|record| record.credential.status).collect();
    assert_eq!(statuses, [Status::Revoked, Status::Revoked, Status::Issued, Status::Issued]);
    assert!(model.credentials[2].key.is_some());
}

/// The management cluster has replaced the signer.
fn report_revoked(model: &mut Model) {
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
}
