//! The steps of a creation, as Clusters Service saw them.
//!
//! Seen from here, what happens there is one sentence after another, of which some are never read. The moments that a cluster
//! keeps say more exactly when a step was over. A step that they leave out is a part of the next one.

use jiff::Timestamp;
use pilothouse_arm::ProvisioningState;
use pilothouse_clusters_service_api::Moments;
use pilothouse_records::{Operation, Step};

use super::{BACKEND, FRONTEND, Observed, component};

/// When Clusters Service began, and when it came past which step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Creation {
    pub(crate) began: Timestamp,
    pub(crate) moments: Moments,
}

/// Notes on an operation what is known of its steps. What Clusters Service does not say, as an older one says nothing, stays as
/// it was seen from here.
pub(super) fn note(operation: &mut Operation, observed: &Observed, now: Timestamp) {
    let Some(Creation { began, moments }) = observed.creation else { return };
    // The multicluster engine saw the control plane before it said so of the ManagedCluster; the report on the former has the
    // longer way back, and that is another step.
    let managed = moments.managed_cluster_available;
    let available = moments.control_plane_available.map(|it| managed.map_or(it, |managed| it.min(managed)));
    let ends = [
        (5, moments.cloud_prepared, "prepared the cloud resources"),
        (6, moments.manifests_posted, "posted the manifests to Maestro"),
        (7, moments.manifests_delivered, "brought the manifests to the management cluster"),
        (8, moments.manifests_applied, "applied the manifests"),
        (9, available, "made the control plane"),
        (10, managed, "marked the ManagedCluster available"),
        (11, moments.reports_read, "sent the statuses back"),
    ];
    // Clocks of several machines may disagree a little; no step ends before the one that it follows.
    let mut reached = began.max(operation.started_at).min(now);
    // It was asked for as soon as it was stored, and has been since it is there; this side only saw the answer.
    let of_step_4 = |step: &&mut Step| step.number == 4;
    let stored = operation.steps.iter_mut().filter(of_step_4).find(|step| step.component == FRONTEND);
    let stored = stored.and_then(|step| step.finished_at).unwrap_or(operation.started_at).min(reached);
    let asked = operation.steps.iter_mut().filter(of_step_4).find(|step| step.component == BACKEND);
    if let Some(asked) = asked.filter(|asked| asked.attempt == 1) {
        asked.started_at = stored;
        asked.finished_at = Some(reached);
    }
    for (number, end, message) in ends {
        let Some(end) = end.map(|end| end.min(now).max(reached)) else { continue };
        set(operation, number, (reached, end), message);
        reached = end;
    }
    if moments.reports_read.is_some() {
        // From there on it is being written down, and told.
        let recorded = operation.steps.iter_mut().find(|step| step.number == 12);
        recorded.into_iter().for_each(|step| step.started_at = reached);
    }
    operation.steps.sort_by_key(|step| step.number);
}

/// A step is over, and took so long.
fn set(operation: &mut Operation, number: u8, (from, to): (Timestamp, Timestamp), message: &str) {
    let owner = component(number);
    let known = operation.steps.iter_mut().find(|step| step.number == number && step.component == owner);
    let Some(step) = known else {
        operation.steps.push(Step {
            number,
            component: owner.to_owned(),
            state: ProvisioningState::Succeeded,
            attempt: 1,
            started_at: from,
            finished_at: Some(to),
            message: message.to_owned(),
        });
        return;
    };
    // One that has failed did so after all that was seen to succeed.
    if step.state != ProvisioningState::Failed {
        step.state = ProvisioningState::Succeeded;
        step.started_at = from;
        step.finished_at = Some(to);
    }
}
