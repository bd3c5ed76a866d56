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
use crate::record::{CredentialRecord, LONGEST_CREDENTIAL, Signed};

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
            Status::Issued | Status::AwaitingRevocation => guard(world, plan, index),
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
    // Whatever is signed now would be of the signer that goes.
    let limit = world.deadlines.credential.0;
    let is_early = world.cluster.is_revoking_in_time(limit, world.now);
    let posted = if is_early {
        None
    } else {
        let work = manifests::credential_work(world.cluster, record, world.shard, world.settings)?;
        world.ensure(plan, work)
    };
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
    let waiting = match is_early {
        true => "step 6: waiting for the cluster's signer to be replaced".to_owned(),
        false => waiting_for(posted, &request, &approval),
    };
    let waiting = world.waiting(waiting);
    let deadline = plus(record.created_at, limit);
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

/// What was signed is here, so the request goes: where nobody cleans up, requests would be signed over and over again. What is
/// to be revoked opens nothing after its time either, whether or not that was seen before.
fn guard(world: &World<'_>, plan: &mut Plan, index: usize) {
    clear(world, plan, index);
    let record = &world.credentials[index];
    // One that was not signed when its revocation was asked for may have been since, and nobody was told.
    let end = record.credential.expiration_timestamp;
    let end = end.unwrap_or_else(|| plus(record.created_at, LONGEST_CREDENTIAL));
    if world.now >= end {
        plan.credentials[index].end(Status::Expired, "its time is over; request another", end);
        plan.look_again_at(plus(end, SHOWN));
    } else {
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

/// Has the signer replaced, and believes that when it was seen. One that takes too long goes on, because what was issued may
/// still open the cluster; it says so, and others may be asked for meanwhile. It ends when all of that is over by itself.
fn revoke(world: &World<'_>, plan: &mut Plan) -> Result<(), NotWritten> {
    let id = &world.cluster.cluster.id;
    let awaiting = |record: &CredentialRecord| record.credential.status == Status::AwaitingRevocation;
    // Whatever was to be signed is not signed any more, or by the signer that goes.
    let cleared = plan.credentials.iter().filter(|record| awaiting(record)).all(|record| record.cleared);
    let awaited = plan.credentials.iter().any(awaiting);
    let mut left = Vec::new();
    for revocation in &world.cluster.revocations {
        let mut revocation = revocation.clone();
        let moot = plus(revocation.requested_at, LONGEST_CREDENTIAL);
        if revocation.done || (!awaited && world.now >= moot) {
            // What is done needs no work any more, nor does what comes too late for everything that it was about.
            if !world.removed(plan, &manifests::revocation_work_name(id, &revocation.id)) {
                left.push(revocation);
            }
            continue;
        }
        let deadline = plus(revocation.requested_at, world.deadlines.credential.0);
        let moments = [deadline, moot].into_iter().filter(|moment| world.now < *moment);
        moments.for_each(|moment| plan.look_again_at(moment));
        if !cleared {
            let waiting = "step 7: waiting for the management cluster to remove the requests".to_owned();
            await_revocation(world, plan, deadline, &waiting);
            left.push(revocation);
            continue;
        }
        let work = manifests::revocation_work(world.cluster, &revocation, world.shard, world.settings)?;
        let report =
            world.ensure(plan, work).map(|bundle| bundle.nested_report("CertificateRevocationRequest"));
        let report = report.unwrap_or_default();
        revocation.done = report.is_true(REVOKED);
        let seen = report.text(REVOCATION_FEEDBACK).and_then(|text| text.parse().ok());
        if revocation.done {
            let moment = seen.unwrap_or(world.now);
            // The signer that went has also signed what was asked for when this was overdue. What the new one signs, it signs
            // later, whenever that was asked for; certificates know seconds only.
            let is_old = |signed: Timestamp| signed.as_second() < moment.as_second();
            let issued = |record: &CredentialRecord| {
                record.credential.status == Status::Issued && record.signed_at().is_none_or(is_old)
            };
            let ended = plan.credentials.iter_mut().filter(|record| awaiting(record) || issued(record));
            for record in ended {
                record.credential.revocation_timestamp = Some(moment);
                record.end(Status::Revoked, "every API server was seen to refuse it", world.now);
            }
        } else {
            let words = report.problem.clone().or_else(|| report.words(REVOKED));
            let words = words.unwrap_or_else(|| "the signer has not been replaced yet".to_owned());
            let waiting = format!("step 9: waiting for the cluster's signer: {words}");
            await_revocation(world, plan, deadline, &waiting);
        }
        if revocation.done {
            world.removed(plan, &manifests::revocation_work_name(id, &revocation.id));
            plan.look_again_at(plus(world.now, SHOWN));
            // Whoever waited for the new signer need not wait for the next event.
            plan.again = true;
        }
        left.push(revocation);
    }
    plan.cluster.revocations = left;
    Ok(())
}

/// Says of everything that is to be revoked what that waits for.
fn await_revocation(world: &World<'_>, plan: &mut Plan, deadline: Timestamp, waiting: &str) {
    let message = world.waiting(waiting.to_owned());
    let message = match world.now >= deadline {
        false => message,
        true => format!(
            "overdue; not revoked by {deadline}, it may still open the cluster; {message}; look at the HostedCluster and its API \
             servers; it is tried until its time is over"
        ),
    };
    let awaiting = |record: &&mut CredentialRecord| record.credential.status == Status::AwaitingRevocation;
    for record in plan.credentials.iter_mut().filter(awaiting) {
        record.credential.message.clone_from(&message);
    }
}
