//! What a deployment reports.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pilothouse_runtime::Next;

use super::{Sets, desired, name, rollout};

/// How long a rollout may stand still, unless the deployment says otherwise.
const DEADLINE_SECONDS: i32 = 600;

/// The deployment's status as measured now, and when a deadline would change it.
pub(super) fn measure(deployment: &Deployment, sets: &Sets<'_>, now: Timestamp) -> (DeploymentStatus, Next) {
    let before = deployment.status.clone().unwrap_or_default();
    let sum = |value: fn(&ReplicaSet) -> i32| sets.all().map(|set| value(set)).sum::<i32>();
    let replicas = sum(|set| set.status.as_ref().map_or(0, |status| status.replicas));
    let of = |set: &ReplicaSet, field: fn(&k8s_openapi::api::apps::v1::ReplicaSetStatus) -> Option<i32>| {
        set.status.as_ref().and_then(field).unwrap_or(0)
    };
    let ready: i32 = sets.all().map(|set| of(set, |status| status.ready_replicas)).sum();
    let available: i32 = sets.all().map(|set| of(set, |status| status.available_replicas)).sum();
    let terminating: i32 = sets.all().map(|set| of(set, |status| status.terminating_replicas)).sum();
    let updated = sets.new.map_or(0, |set| of(set, |status| Some(status.replicas)));
    let wanted = sum(crate::replica_set::desired);
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: Some(replicas),
        updated_replicas: Some(updated),
        ready_replicas: Some(ready),
        available_replicas: Some(available),
        unavailable_replicas: Some((wanted - available).max(0)),
        terminating_replicas: Some(terminating),
        collision_count: before.collision_count,
        conditions: None,
    };
    let earlier = before.conditions.clone().unwrap_or_default();
    let available_now = available_condition(deployment, available, &earlier, now);
    let (progressing, next) = progressing_condition(deployment, sets, &status, &before, &earlier, now);
    let failure = failure_condition(sets, &earlier, now);
    let ours = ["Available", "Progressing", "ReplicaFailure"];
    let mut conditions: Vec<_> =
        earlier.into_iter().filter(|condition| !ours.contains(&condition.type_.as_str())).collect();
    conditions.push(available_now);
    conditions.extend(progressing);
    conditions.extend(failure);
    status.conditions = Some(conditions);
    (status, next)
}

fn available_condition(
    deployment: &Deployment,
    available: i32,
    earlier: &[DeploymentCondition],
    now: Timestamp,
) -> DeploymentCondition {
    let least = desired(deployment) - rollout::bounds(deployment).unavailable;
    if available >= least {
        let reason = ("MinimumReplicasAvailable", "Deployment has minimum availability.".to_owned());
        condition("Available", true, reason, earlier, now)
    } else {
        let message = "Deployment does not have minimum availability.";
        let reason = ("MinimumReplicasUnavailable", message.to_owned());
        condition("Available", false, reason, earlier, now)
    }
}

fn progressing_condition(
    deployment: &Deployment,
    sets: &Sets<'_>,
    status: &DeploymentStatus,
    before: &DeploymentStatus,
    earlier: &[DeploymentCondition],
    now: Timestamp,
) -> (Option<DeploymentCondition>, Next) {
    let spec = deployment.spec.as_ref();
    let previous = earlier.iter().find(|condition| condition.type_ == "Progressing");
    let reason_before = previous.and_then(|previous| previous.reason.as_deref());
    if spec.and_then(|spec| spec.progress_deadline_seconds) == Some(i32::MAX) {
        // Nobody wants to know how it is getting on.
        return (None, Next::Done);
    }
    let failed = reason_before == Some("ProgressDeadlineExceeded");
    if spec.and_then(|spec| spec.paused).unwrap_or(false) {
        if reason_before == Some("DeploymentPaused") || failed {
            return (previous.cloned(), Next::Done);
        }
        let reason = ("DeploymentPaused", "Deployment is paused".to_owned());
        return (Some(unknown(reason, earlier, now)), Next::Done);
    }
    if reason_before == Some("DeploymentPaused") {
        let reason = ("DeploymentResumed", "Deployment is resumed".to_owned());
        // Time stood still meanwhile; the next look goes on from here.
        return (Some(unknown(reason, earlier, now)), Next::After(Duration::from_millis(1)));
    }
    let Some(new) = sets.new else { return (previous.cloned(), Next::Done) };
    let set = name(&new.metadata);
    let wanted = Some(desired(deployment));
    let complete =
        status.updated_replicas == wanted && status.replicas == wanted && status.available_replicas == wanted;
    if complete {
        let reason = ("NewReplicaSetAvailable", format!("ReplicaSet \"{set}\" has successfully progressed."));
        return (Some(condition("Progressing", true, reason, earlier, now)), Next::Done);
    }
    if previous.is_none() {
        let reason = ("NewReplicaSetCreated", format!("Created new replica set \"{set}\""));
        let created = condition("Progressing", true, reason, earlier, now);
        return (Some(created), Next::After(deadline_of(deployment)));
    }
    let progressed = status.updated_replicas > before.updated_replicas
        || status.ready_replicas > before.ready_replicas
        || status.available_replicas > before.available_replicas
        || old_replicas(status) < old_replicas(before)
        || previous.is_none_or(|previous| previous.reason.as_deref() == Some("NewReplicaSetAvailable"));
    let deadline = deadline_of(deployment);
    if progressed {
        let reason = ("ReplicaSetUpdated", format!("ReplicaSet \"{set}\" is progressing."));
        let mut condition = condition("Progressing", true, reason, earlier, now);
        condition.last_update_time = Some(Time(now));
        return (Some(condition), Next::After(deadline));
    }
    let since = previous.and_then(|previous| previous.last_update_time.as_ref()).map_or(now, |time| time.0);
    let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
    match deadline.checked_sub(elapsed) {
        Some(rest) if !rest.is_zero() => (previous.cloned(), Next::After(rest)),
        _ => {
            let reason =
                ("ProgressDeadlineExceeded", format!("ReplicaSet \"{set}\" has timed out progressing."));
            (Some(condition("Progressing", false, reason, earlier, now)), Next::Done)
        }
    }
}

fn deadline_of(deployment: &Deployment) -> Duration {
    let spec = deployment.spec.as_ref();
    let seconds = spec.and_then(|spec| spec.progress_deadline_seconds).unwrap_or(DEADLINE_SECONDS);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// Pods that cannot even be created: what the sets say of it.
fn failure_condition(
    sets: &Sets<'_>,
    earlier: &[DeploymentCondition],
    now: Timestamp,
) -> Option<DeploymentCondition> {
    let all =
        sets.all().flat_map(|set| set.status.iter().flat_map(|status| status.conditions.iter().flatten()));
    let failure = all.into_iter().find(|found| found.type_ == "ReplicaFailure" && found.status == "True")?;
    let reason = failure.reason.as_deref().unwrap_or("FailedCreate");
    let message = failure.message.clone().unwrap_or_default();
    Some(condition("ReplicaFailure", true, (reason, message), earlier, now))
}

fn unknown(reason: (&str, String), earlier: &[DeploymentCondition], now: Timestamp) -> DeploymentCondition {
    let made = condition("Progressing", true, reason, earlier, now);
    let same = earlier.iter().find(|other| other.type_ == "Progressing" && other.status == "Unknown");
    let since = same.and_then(|same| same.last_transition_time.clone()).or(Some(Time(now)));
    DeploymentCondition {
        status: "Unknown".to_owned(),
        last_transition_time: since,
        last_update_time: Some(Time(now)),
        ..made
    }
}

fn old_replicas(status: &DeploymentStatus) -> i32 {
    status.replicas.unwrap_or(0) - status.updated_replicas.unwrap_or(0)
}

/// A condition that keeps its times while it says the same.
fn condition(
    type_: &str,
    holds: bool,
    (reason, message): (&str, String),
    earlier: &[DeploymentCondition],
    now: Timestamp,
) -> DeploymentCondition {
    let status = if holds { "True" } else { "False" };
    let earlier = earlier.iter().find(|condition| condition.type_ == type_ && condition.status == status);
    let same = earlier.filter(|earlier| earlier.reason.as_deref() == Some(reason));
    DeploymentCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: earlier
            .and_then(|earlier| earlier.last_transition_time.clone())
            .or(Some(Time(now))),
        last_update_time: same.and_then(|same| same.last_update_time.clone()).or(Some(Time(now))),
    }
}
