//! What an operation is at, given what Clusters Service says. Pure: no clock, no calls.

use jiff::Timestamp;
use pilothouse_arm::{ErrorDetails, Failure, ProvisioningState};
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_clusters_service_api::{
    BreakGlassCredentialStatus, ClusterState, ExternalAuthStateValue, NodePoolStateValue,
};
use pilothouse_records::{Operation, Request};

mod creation;
#[cfg(test)]
mod tests;

pub(crate) use creation::Creation;

pub(crate) const BACKEND: &str = "services/backend";
pub(crate) const CLUSTERS_SERVICE: &str = "services/clusters-service";
const FRONTEND: &str = "services/frontend";

/// What Clusters Service says about a resource, in the few words that matter here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) phase: Phase,
    /// What it waits for, in words. May begin with the number of the step, `step 9: …`.
    pub(crate) description: String,
    /// Code and message of what went wrong.
    pub(crate) error: Option<(String, String)>,
    /// What it is called there.
    pub(crate) object: String,
    /// How its creation went, if that is kept.
    pub(crate) creation: Option<Creation>,
}

/// Which part of its life a resource is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Before anything was handed to a management cluster.
    Preparing,
    /// On its way to what was asked for.
    Installing,
    /// Done.
    Ready,
    /// Failed.
    Failed,
    /// On its way out.
    Removing,
    /// Nothing that this build knows: wait.
    Unknown,
}

impl From<&clusters_service::Cluster> for Observed {
    fn from(cluster: &clusters_service::Cluster) -> Self {
        let status = &cluster.status;
        let phase = match cluster.state {
            ClusterState::Validating | ClusterState::Pending => Phase::Preparing,
            ClusterState::Installing | ClusterState::Updating => Phase::Installing,
            ClusterState::Ready => Phase::Ready,
            ClusterState::Error => Phase::Failed,
            ClusterState::Uninstalling => Phase::Removing,
            // Hibernating and the like, which nobody asked for.
            _ => Phase::Unknown,
        };
        let error = (phase == Phase::Failed).then(|| {
            let code = status.provision_error_code.clone();
            let message = status.provision_error_message.clone();
            (
                code.unwrap_or_else(|| "ProvisioningFailed".to_owned()),
                message.unwrap_or_else(|| status.description.clone()),
            )
        });
        Self {
            phase,
            description: status.description.clone(),
            error,
            object: format!("cluster {}", cluster.id),
            creation: (!status.moments.is_empty())
                .then_some(Creation { began: cluster.creation_timestamp, moments: status.moments }),
        }
    }
}

impl From<&clusters_service::NodePool> for Observed {
    fn from(node_pool: &clusters_service::NodePool) -> Self {
        let status = &node_pool.status;
        let phase = match status.state.value {
            NodePoolStateValue::Validating
            | NodePoolStateValue::Pending
            | NodePoolStateValue::ValidatingUpdate
            | NodePoolStateValue::PendingUpdate => Phase::Preparing,
            NodePoolStateValue::Installing | NodePoolStateValue::Updating => Phase::Installing,
            NodePoolStateValue::Ready => Phase::Ready,
            NodePoolStateValue::RecoverableError | NodePoolStateValue::Error => Phase::Failed,
            NodePoolStateValue::Uninstalling => Phase::Removing,
            _ => Phase::Unknown,
        };
        let error =
            (phase == Phase::Failed).then(|| ("ProvisioningFailed".to_owned(), status.message.clone()));
        Self {
            phase,
            description: status.message.clone(),
            error,
            object: format!("node pool {} of cluster {}", node_pool.id, node_pool.cluster_id),
            creation: None,
        }
    }
}

impl From<&clusters_service::ExternalAuth> for Observed {
    fn from(external_auth: &clusters_service::ExternalAuth) -> Self {
        let status = &external_auth.status;
        let phase = match status.state.value {
            ExternalAuthStateValue::Validating => Phase::Preparing,
            ExternalAuthStateValue::Installing | ExternalAuthStateValue::Updating => Phase::Installing,
            ExternalAuthStateValue::Ready => Phase::Ready,
            ExternalAuthStateValue::Error => Phase::Failed,
            ExternalAuthStateValue::Uninstalling => Phase::Removing,
            _ => Phase::Unknown,
        };
        let error =
            (phase == Phase::Failed).then(|| ("ProvisioningFailed".to_owned(), status.message.clone()));
        let object =
            format!("external authentication {} of cluster {}", external_auth.id, external_auth.cluster_id);
        Self { phase, description: status.message.clone(), error, object, creation: None }
    }
}

impl From<&clusters_service::BreakGlassCredential> for Observed {
    fn from(credential: &clusters_service::BreakGlassCredential) -> Self {
        let phase = match credential.status {
            BreakGlassCredentialStatus::Created => Phase::Installing,
            BreakGlassCredentialStatus::Issued => Phase::Ready,
            BreakGlassCredentialStatus::Failed
            | BreakGlassCredentialStatus::AwaitingRevocation
            | BreakGlassCredentialStatus::Revoked
            | BreakGlassCredentialStatus::Expired => Phase::Failed,
            _ => Phase::Unknown,
        };
        let error = match credential.status {
            BreakGlassCredentialStatus::Failed => Some(("CredentialFailed", credential.message.clone())),
            BreakGlassCredentialStatus::AwaitingRevocation | BreakGlassCredentialStatus::Revoked => {
                Some(("CredentialRevoked", "it was revoked before it could be handed over".to_owned()))
            }
            BreakGlassCredentialStatus::Expired => {
                Some(("CredentialExpired", "it expired before it could be handed over".to_owned()))
            }
            _ => None,
        };
        let object = format!("credential {} of cluster {}", credential.id, credential.cluster_id);
        let error = error.map(|(code, message)| (code.to_owned(), message));
        Self { phase, description: credential.message.clone(), error, object, creation: None }
    }
}

/// The operation that makes something, after a look at it.
pub(crate) fn creating(operation: &mut Operation, observed: &Observed, now: Timestamp, deadline: Timestamp) {
    let asked = format!("asked Clusters Service; it is {} there", observed.object);
    let before = operation.clone();
    operation.step_end(4, BACKEND, ProvisioningState::Succeeded, asked, now);
    follow(operation, observed, (5, ProvisioningState::Provisioning), now, deadline);
    // When exactly steps were over is worth telling, but no write of its own.
    if *operation != before {
        creation::note(operation, observed, now);
    }
}

/// The operation that changes something, after a look at it.
pub(crate) fn updating(operation: &mut Operation, observed: &Observed, now: Timestamp, deadline: Timestamp) {
    let asked = format!("asked Clusters Service to change {}", observed.object);
    operation.step_end(4, BACKEND, ProvisioningState::Succeeded, asked, now);
    follow(operation, observed, (6, ProvisioningState::Updating), now, deadline);
}

/// The operation that has a credential issued, after a look at it.
pub(crate) fn crediting(operation: &mut Operation, observed: &Observed, now: Timestamp, deadline: Timestamp) {
    creating(operation, observed, now, deadline);
}

/// The operation that revokes all credentials, when none is left.
pub(crate) fn revoked(operation: &mut Operation, message: &str, now: Timestamp) {
    operation.steps_abandon(ProvisioningState::Succeeded, now);
    operation.step_end(12, CLUSTERS_SERVICE, ProvisioningState::Succeeded, message, now);
    succeed(operation, "wrote down that they are revoked", now);
}

/// Whether Clusters Service has been asked, and that was written down.
pub(crate) fn is_asked(operation: &Operation) -> bool {
    let asked = operation.steps.iter().find(|step| step.number == 4 && step.component == BACKEND);
    asked.is_some_and(|step| step.finished_at.is_some() && step.state == ProvisioningState::Succeeded)
}

/// Follows something to where it is ready. `first` is the step that it begins with at Clusters Service, and what it is at
/// from then on.
fn follow(
    operation: &mut Operation,
    observed: &Observed,
    first: (u8, ProvisioningState),
    now: Timestamp,
    deadline: Timestamp,
) {
    match observed.phase {
        Phase::Preparing => waiting(operation, observed, first.0, now),
        Phase::Installing | Phase::Removing => {
            operation.enter(first.1, now);
            waiting(operation, observed, 12, now);
        }
        Phase::Unknown => {}
        Phase::Ready => {
            operation.steps_abandon(ProvisioningState::Succeeded, now);
            let message = format!("reported ready: {}", observed.description);
            operation.step_end(12, CLUSTERS_SERVICE, ProvisioningState::Succeeded, message, now);
            return succeed(operation, "wrote down that it is ready", now);
        }
        Phase::Failed => {
            let (code, message) = observed.error.clone().unwrap_or_default();
            return fail(operation, code, cause(operation, observed, message), now);
        }
    }
    expire(operation, observed, now, deadline);
}

/// The operation that deletes something that is still there.
pub(crate) fn deleting(operation: &mut Operation, observed: &Observed, now: Timestamp, deadline: Timestamp) {
    let asked = format!("asked Clusters Service to delete {}", observed.object);
    operation.step_end(4, BACKEND, ProvisioningState::Succeeded, asked, now);
    operation.step_begin(12, CLUSTERS_SERVICE, observed.description.clone(), now);
    expire(operation, observed, now, deadline);
}

/// The operation that deletes something that is gone.
pub(crate) fn deleted(operation: &mut Operation, now: Timestamp) {
    operation.steps_abandon(ProvisioningState::Succeeded, now);
    operation.step_end(12, CLUSTERS_SERVICE, ProvisioningState::Succeeded, "nothing of it is left", now);
    operation.step_end(13, BACKEND, ProvisioningState::Succeeded, "removed its records", now);
    operation.waiting = None;
    operation.enter(ProvisioningState::Succeeded, now);
}

/// The operation that changed nothing but what is stored.
pub(crate) fn updated(operation: &mut Operation, now: Timestamp) {
    succeed(operation, "nothing had to be changed beyond what is stored", now);
}

fn succeed(operation: &mut Operation, message: &str, now: Timestamp) {
    operation.step_end(13, BACKEND, ProvisioningState::Succeeded, message, now);
    operation.step_end(14, FRONTEND, ProvisioningState::Succeeded, "shown as Succeeded", now);
    operation.waiting = None;
    operation.enter(ProvisioningState::Succeeded, now);
}

/// Ends an operation with a cause.
pub(crate) fn fail(operation: &mut Operation, code: impl Into<String>, failure: Failure, now: Timestamp) {
    operation.step_end(
        failure.step,
        &failure.component,
        ProvisioningState::Failed,
        failure.observed.clone(),
        now,
    );
    operation.steps_abandon(ProvisioningState::Failed, now);
    operation.error = Some(ErrorDetails::failure(code, failure));
    operation.waiting = None;
    operation.enter(ProvisioningState::Failed, now);
}

/// Ends an operation whose resource is no longer its own.
pub(crate) fn superseded(operation: &mut Operation, now: Timestamp) {
    operation.cancel("The resource is gone, or another operation has taken it over.", now);
}

/// Notes what is waited for, under the step that the description names. Earlier steps are over then.
fn waiting(operation: &mut Operation, observed: &Observed, otherwise: u8, now: Timestamp) {
    let (number, message) = step_of(&observed.description).unwrap_or((otherwise, &observed.description));
    for step in &mut operation.steps {
        if step.number < number && step.finished_at.is_none() {
            step.state = ProvisioningState::Succeeded;
            step.finished_at = Some(now);
        }
    }
    operation.step_begin(number, component(number), message, now);
}

/// `step 9: waiting for …`
fn step_of(description: &str) -> Option<(u8, &str)> {
    let (number, message) = description.strip_prefix("step ")?.split_once(": ")?;
    Some((number.parse().ok().filter(|number| (5..=12).contains(number))?, message))
}

/// Who owns a step.
fn component(step: u8) -> &'static str {
    match step {
        7 | 8 | 11 => "services/maestro",
        9 => "services/hypershift",
        10 => "services/mce",
        _ => CLUSTERS_SERVICE,
    }
}

/// What is known about why something did not come to be.
fn cause(operation: &Operation, observed: &Observed, message: String) -> Failure {
    Failure::of_sentence(&message).unwrap_or_else(|| {
        let under_way = operation.steps.iter().rev().find(|step| step.finished_at.is_none());
        let step = under_way.map_or(12, |step| step.number);
        Failure {
            step,
            component: component(step).to_owned(),
            object: observed.object.clone(),
            observed: message,
            remedy: format!("remove the cause, {}", start_over(operation.request)),
        }
    })
}

/// What is left to do for whoever asked, once an operation has failed.
pub(crate) fn start_over(request: Request) -> &'static str {
    match request {
        Request::Create => "delete the resource and make it anew",
        Request::Update => "ask for the change again",
        Request::Delete => "delete the resource again",
        Request::RequestCredential => "request a credential again",
        Request::RevokeCredentials => "revoke the credentials again",
    }
}

fn expire(operation: &mut Operation, observed: &Observed, now: Timestamp, deadline: Timestamp) {
    if now >= deadline {
        let message = format!("not done by {deadline}; last seen: {}", observed.description);
        let failure = Failure { observed: message.clone(), ..cause(operation, observed, message) };
        fail(operation, "DeadlineExceeded", failure, now);
    }
}
