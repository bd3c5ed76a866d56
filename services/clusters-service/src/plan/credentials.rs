//! The credentials of a cluster's administrators: each from a request to a certificate to its end, and the end of all.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use pilothouse_clusters_service_api::BreakGlassCredentialStatus as Status;
use pilothouse_pki::{Bundle, Certificate};
use serde_json::Value;

use super::{Action, Plan, World, plus};
use crate::manifests::{
    self, AUTHORITIES_FEEDBACK, CERTIFICATE_FEEDBACK, NotWritten, REVOCATION_FEEDBACK, SERVER_FEEDBACK,
    SERVER_NAME_FEEDBACK,
};
use crate::observed::{Bundle as Posted, Report};
use crate::record::{CredentialRecord, Signed};

/// For how long one that is over is still shown.
const SHOWN: Duration = Duration::from_secs(24 * 60 * 60);

/// Says of a revocation that it is done.
const REVOKED: &str = "PreviousCertificatesRevoked";

pub(super) fn plan(world: &World<'_>, plan: &mut Plan) -> Result<(), NotWritten> {
    for (index, record) in world.credentials.iter().enumerate() {
        match record.credential.status {
            Status::Created => {
                issue(world, plan, index)?;
                if plan.credentials[index].credential.status != Status::Created {
                    // What came of it is written down before anything is done.
                    clear(world, plan, index);
                }
            }
            Status::Issued => guard(world, plan, index),
            Status::AwaitingRevocation => clear(world, plan, index),
            _ => sweep(world, plan, index),
        }
    }
    revoke(world, plan)
}

/// Away with all of them, with their cluster. True once nothing of them is left.
pub(super) fn remove(world: &World<'_>, plan: &mut Plan) -> bool {
    for index in 0..world.credentials.len() {
        clear(world, plan, index);
        if plan.credentials[index].cleared {
            plan.actions.push(Action::RemoveCredential(index));
        }
    }
    let id = &world.cluster.cluster.id;
    let works = world.cluster.revocations.iter();
    let left =
        works.filter(|one| !world.removed(plan, &manifests::revocation_work_name(id, &one.id))).count();
    world.credentials.is_empty() && left == 0
}

/// Has a request signed.
fn issue(world: &World<'_>, plan: &mut Plan, index: usize) -> Result<(), NotWritten> {
    let record = &world.credentials[index];
    let work = manifests::credential_work(world.cluster, record, world.shard, world.settings)?;
    let posted = world.ensure(plan, work);
    let request = posted.map(|bundle| bundle.nested_report("CertificateSigningRequest")).unwrap_or_default();
    let approval = posted.map(|bundle| bundle.nested_report("CertificateSigningRequestApproval"));
    let approval = approval.unwrap_or_default();
    let after = &mut plan.credentials[index];
    for refused in ["Denied", "Failed"] {
        if request.is_true(refused) {
            let why = request.words(refused).unwrap_or_default();
            after.end(Status::Failed, format!("the management cluster refuses to sign it: {why}"), world.now);
            return Ok(());
        }
    }
    match signed(&request, &approval) {
        Some(Ok((signed, until))) => {
            after.credential.status = Status::Issued;
            after.credential.message = String::new();
            after.credential.expiration_timestamp = Some(until);
            after.signed = Some(signed);
            plan.look_again_at(until);
            return Ok(());
        }
        Some(Err(problem)) => {
            after.end(Status::Failed, problem, world.now);
            return Ok(());
        }
        None => {}
    }
    let waiting = waiting_for(posted, &request, &approval);
    let deadline = plus(record.created_at, world.deadlines.credential.0);
    if world.now >= deadline {
        let remedy = "look at the HostedCluster and its API servers, and request another";
        after.end(Status::Failed, format!("not issued by {deadline}; {waiting}; {remedy}"), world.now);
    } else {
        after.credential.message = waiting;
        plan.look_again_at(deadline);
    }
    Ok(())
}

/// What was signed and until when it is good, once all of it has come back; or what is wrong with it.
fn signed(request: &Report, approval: &Report) -> Option<Result<(Signed, Timestamp), String>> {
    let text = request.text(CERTIFICATE_FEEDBACK).filter(|text| !text.is_empty())?;
    let server = approval.text(SERVER_FEEDBACK)?.to_owned();
    let authorities = approval.text(AUTHORITIES_FEEDBACK)?.to_owned();
    let read = || {
        let bytes =
            serde_json::from_value::<ByteString>(Value::String(text.to_owned())).map_err(|_| NOT_ONE)?;
        let certificate = String::from_utf8(bytes.0).map_err(|_| NOT_ONE)?;
        let until = Certificate::from_pem(certificate.as_bytes()).map_err(|_| NOT_ONE)?.not_after();
        Bundle::from_pem(authorities.as_bytes()).map_err(|_| "the authorities that came back are none")?;
        let tls_server_name = approval.text(SERVER_NAME_FEEDBACK).map(str::to_owned);
        Ok((Signed { certificate, server, tls_server_name, authorities: authorities.clone() }, until))
    };
    Some(read().map_err(|problem: &str| format!("{problem}; request another")))
}

const NOT_ONE: &str = "the certificate that came back is none";

fn waiting_for(posted: Option<&Posted>, request: &Report, approval: &Report) -> String {
    if posted.is_none() {
        return "step 6: posting the request to Maestro".to_owned();
    }
    if let Some(problem) = request.problem.as_ref().or(approval.problem.as_ref()) {
        return format!("step 8: the request cannot be applied: {problem}");
    }
    if !request.applied {
        return "step 7: waiting for the management cluster to take the request".to_owned();
    }
    let words = approval.words("Issued").unwrap_or_else(|| "it has not been looked at yet".to_owned());
    format!("step 9: waiting for the cluster's signer: {words}")
}

/// What was signed is here, so the request goes: where nobody cleans up, requests would be signed over and over again.
fn guard(world: &World<'_>, plan: &mut Plan, index: usize) {
    clear(world, plan, index);
    let record = &world.credentials[index];
    if record.has_expired(world.now) {
        let end = record.credential.expiration_timestamp.unwrap_or(world.now);
        plan.credentials[index].end(Status::Expired, "its time is over; request another", end);
        plan.look_again_at(plus(end, SHOWN));
    } else if let Some(end) = record.credential.expiration_timestamp {
        plan.look_again_at(end);
    }
}

/// Takes the request away.
fn clear(world: &World<'_>, plan: &mut Plan, index: usize) {
    let record = &world.credentials[index];
    if record.cleared {
        return;
    }
    let name = manifests::credential_work_name(&world.cluster.cluster.id, &record.credential.id);
    plan.credentials[index].cleared = world.removed(plan, &name);
}

/// Forgets one that is over, some time later.
fn sweep(world: &World<'_>, plan: &mut Plan, index: usize) {
    clear(world, plan, index);
    let record: &CredentialRecord = &plan.credentials[index];
    let forget_at = plus(record.over_since.unwrap_or(record.created_at), SHOWN);
    if !record.cleared {
        return;
    }
    if world.now >= forget_at {
        plan.actions.push(Action::RemoveCredential(index));
    } else {
        plan.look_again_at(forget_at);
    }
}

/// Has the signer replaced, and believes that when it was seen.
fn revoke(world: &World<'_>, plan: &mut Plan) -> Result<(), NotWritten> {
    let id = &world.cluster.cluster.id;
    let awaiting = |record: &CredentialRecord| record.credential.status == Status::AwaitingRevocation;
    // Whatever was to be signed is not signed any more, or by the signer that goes.
    let cleared = plan.credentials.iter().filter(|record| awaiting(record)).all(|record| record.cleared);
    let mut left = Vec::new();
    for revocation in &world.cluster.revocations {
        let mut revocation = revocation.clone();
        if revocation.done {
            // What is done needs no work any more.
            if !world.removed(plan, &manifests::revocation_work_name(id, &revocation.id)) {
                left.push(revocation);
            }
            continue;
        }
        if !cleared {
            left.push(revocation);
            continue;
        }
        let work = manifests::revocation_work(world.cluster, &revocation, world.shard, world.settings)?;
        let report =
            world.ensure(plan, work).map(|bundle| bundle.nested_report("CertificateRevocationRequest"));
        let report = report.unwrap_or_default();
        revocation.done = report.is_true(REVOKED);
        let seen = report.text(REVOCATION_FEEDBACK).and_then(|text| text.parse().ok());
        for record in plan.credentials.iter_mut().filter(|record| awaiting(record)) {
            if revocation.done {
                let moment = seen.unwrap_or(world.now);
                record.credential.revocation_timestamp = Some(moment);
                record.end(Status::Revoked, "every API server was seen to refuse it", world.now);
            } else {
                let words = report.problem.clone().or_else(|| report.words(REVOKED));
                let words = words.unwrap_or_else(|| "the signer has not been replaced yet".to_owned());
                record.credential.message = format!("step 9: waiting for the cluster's signer: {words}");
            }
        }
        if revocation.done {
            world.removed(plan, &manifests::revocation_work_name(id, &revocation.id));
            plan.look_again_at(plus(world.now, SHOWN));
        }
        left.push(revocation);
    }
    plan.cluster.revocations = left;
    Ok(())
}
