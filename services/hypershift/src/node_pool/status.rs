//! What a node pool's status says, given what was observed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pilothouse_crds::{
    AutoScaling, ConditionStatus, NodePoolCondition, NodePoolStatus, NodeVersion, NodesInfo,
};

use super::fingerprint::Fingerprint;
use super::machine_facts::MachineFacts;
use super::plan::Worker;
use crate::versions::Release;

/// What one pass saw.
#[derive(Clone, Debug)]
pub(crate) struct Observed<'a> {
    pub(crate) generation: Option<i64>,
    pub(crate) now: Timestamp,
    /// The release, or why there is none.
    pub(crate) release: Result<&'a Release, Obstacle>,
    /// What else keeps workers from being made, if anything does.
    pub(crate) obstacle: Option<Obstacle>,
    pub(crate) desired: usize,
    /// What workers should be made of.
    pub(crate) made_of: Option<&'a Fingerprint>,
    pub(crate) workers: &'a [Worker],
    /// What else is measured on them, if they were looked at.
    pub(crate) facts: Option<MachineFacts>,
    /// The Secret that workers read, once it is there.
    pub(crate) user_data: Option<String>,
    /// How a person makes a node of this pool, where nobody else does.
    pub(crate) join: Option<Join>,
    /// What the kubelets of ready and other nodes say they are, counted: version → (ready, not ready).
    pub(crate) versions: BTreeMap<String, (i32, i32)>,
    pub(crate) auto_scaling: Option<AutoScaling>,
    pub(crate) auto_repair: bool,
    /// So many nodes are sick that none is replaced.
    pub(crate) too_many_sick: usize,
    pub(crate) paused: Option<String>,
    pub(crate) error: Option<String>,
}

/// How a person makes a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Join {
    pub(crate) command: String,
}

/// Why nothing is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Obstacle {
    /// The condition that says so; `Ready` follows.
    pub(crate) condition: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

pub(super) type Verdict = (ConditionStatus, &'static str, String);

/// The status that follows.
pub(crate) fn observe(previous: &NodePoolStatus, observed: &Observed<'_>) -> NodePoolStatus {
    let mut status = previous.clone();
    for (type_, (holds, reason, message)) in conditions(observed) {
        let condition = NodePoolCondition {
            observed_generation: observed.generation,
            ..NodePoolCondition::new(type_, holds, reason, message, observed.now)
        };
        set_condition(&mut status.conditions, condition);
    }
    if observed.paused.is_some() {
        return status;
    }
    status.replicas = match observed.join {
        None => i32::try_from(ready_workers(observed)).unwrap_or(i32::MAX),
        Some(_) => observed.versions.values().map(|(ready, _)| ready).sum(),
    };
    if let Ok(release) = &observed.release {
        if is_rolled_out(observed) {
            status.version.clone_from(&release.version);
        }
        let node_versions = observed.versions.iter().map(|(kubelet, (ready, unready))| NodeVersion {
            ocp_version: if *kubelet == format!("v{}", release.kubernetes) {
                release.version.clone()
            } else {
                String::new()
            },
            kubelet_version: kubelet.clone(),
            ready_node_count: *ready,
            unready_node_count: *unready,
        });
        status.nodes_info = Some(NodesInfo { node_versions: node_versions.collect() });
    }
    status
}

fn conditions(observed: &Observed<'_>) -> Vec<(&'static str, Verdict)> {
    if let Some(pause) = &observed.paused {
        return vec![("ReconciliationActive", fails("ReconciliationPaused", pause))];
    }
    let obstacle = observed.release.as_ref().err().or(observed.obstacle.as_ref());
    let gate = |condition: &'static str| match obstacle {
        Some(obstacle) if obstacle.condition == condition => fails(obstacle.reason, &obstacle.message),
        _ => holds("All is well"),
    };
    let not_applicable = |message: &str| (ConditionStatus::Unknown, "NotApplicable", message.to_owned());
    let payload = match &observed.user_data {
        Some(secret) => holds(&format!("nodes are configured by Secret {secret}")),
        None => fails("WaitingForAvailable", "the Secret that nodes are configured by is not made yet"),
    };
    let mut conditions = vec![
        ("Ready", ready(observed, obstacle)),
        ("ValidReleaseImage", gate("ValidReleaseImage")),
        ("SupportedVersionSkew", gate("SupportedVersionSkew")),
        ("ValidArchPlatform", gate("ValidArchPlatform")),
        ("ValidPlatformConfig", gate("ValidPlatformConfig")),
        ("ValidMachineTemplate", gate("ValidMachineTemplate")),
        ("ValidMachineConfig", gate("ValidMachineConfig")),
        ("ValidTuningConfig", gate("ValidTuningConfig")),
        ("ValidGeneratedPayload", payload),
        ("UpdatingVersion", updating(observed, |made_of| &made_of.version)),
        ("UpdatingConfig", updating(observed, |made_of| &made_of.config)),
        ("UpdatingPlatformMachineTemplate", updating(observed, |made_of| &made_of.template)),
        ("UpdateManagementEnabled", holds("Nodes are changed as spec.management says")),
        ("AutoscalingEnabled", auto_scaling(observed)),
        ("AutorepairEnabled", auto_repair(observed)),
        ("ReconciliationActive", holds("Reconciliation active on resource")),
        (
            "ReachedIgnitionEndpoint",
            not_applicable("nodes of payload `light` are configured by Secrets and ask no endpoint"),
        ),
        ("ValidPlatformImage", not_applicable("nodes of payload `light` have no image of their own")),
    ];
    if observed.join.is_none() {
        conditions.push(("AllMachinesReady", all(observed, |worker| worker.running, "machines")));
        conditions.push(("AllNodesHealthy", all(observed, |worker| worker.ready == Some(true), "nodes")));
        conditions.extend(observed.facts.iter().flat_map(MachineFacts::conditions));
    }
    conditions
}

fn ready(observed: &Observed<'_>, obstacle: Option<&Obstacle>) -> Verdict {
    if let Some(obstacle) = obstacle {
        return fails(obstacle.reason, &obstacle.message);
    }
    if let Some(error) = &observed.error {
        return fails("ReconciliationError", error);
    }
    if let Some(join) = &observed.join {
        return holds(&format!("No machines are made on platform None. To join a node: {}", join.command));
    }
    if observed.too_many_sick > 0 {
        return fails("TooManyUnhealthy", &too_many(observed));
    }
    if is_rolled_out(observed) {
        holds("All is well")
    } else {
        fails("WaitingForNodes", &shortfall(observed))
    }
}

/// Whether workers still differ in this part of what they are made of.
fn updating(observed: &Observed<'_>, part: fn(&Fingerprint) -> &String) -> Verdict {
    let Some(wanted) = observed.made_of else { return fails("AsExpected", "There is nothing to change") };
    let behind: Vec<_> = observed
        .workers
        .iter()
        .filter(|worker| worker.is_alive() && part(&worker.made_of) != part(wanted))
        .map(|worker| worker.name.as_str())
        .collect();
    match behind.is_empty() {
        true => fails("AsExpected", "All nodes are as they should be"),
        false => (ConditionStatus::True, "AsExpected", format!("still to be changed: {}", behind.join(", "))),
    }
}

fn auto_scaling(observed: &Observed<'_>) -> Verdict {
    match &observed.auto_scaling {
        None => fails("AsExpected", "The number of nodes is spec.replicas"),
        Some(bounds) => holds(&format!("Maximum nodes: {}, Minimum nodes: {}", bounds.max, bounds.min)),
    }
}

fn auto_repair(observed: &Observed<'_>) -> Verdict {
    match (observed.auto_repair, observed.too_many_sick) {
        (false, _) => {
            fails("AsExpected", "Workers that end are replaced; nodes that are merely sick are not")
        }
        (true, 0) => holds("Nodes that are sick for too long are replaced"),
        (true, _) => (ConditionStatus::True, "TooManyUnhealthy", too_many(observed)),
    }
}

fn too_many(observed: &Observed<'_>) -> String {
    format!("{} nodes are sick at once, so none is replaced: {}", observed.too_many_sick, shortfall(observed))
}

/// Whether all that were asked for satisfy `test`.
fn all(observed: &Observed<'_>, test: impl Fn(&Worker) -> bool, what: &str) -> Verdict {
    let alive = observed.workers.iter().filter(|worker| worker.is_alive());
    let good = alive.filter(|worker| test(worker)).count();
    match good >= observed.desired {
        true => holds("All is well"),
        false => fails(
            "WaitingForNodes",
            &format!("{good} of {} {what}; {}", observed.desired, shortfall(observed)),
        ),
    }
}

fn is_rolled_out(observed: &Observed<'_>) -> bool {
    let Some(made_of) = observed.made_of else { return false };
    let good = observed
        .workers
        .iter()
        .filter(|worker| worker.is_ready() && !worker.updating && worker.made_of == *made_of);
    good.count() == observed.desired && observed.workers.len() == observed.desired
}

fn ready_workers(observed: &Observed<'_>) -> usize {
    observed.workers.iter().filter(|worker| worker.is_ready()).count()
}

fn shortfall(observed: &Observed<'_>) -> String {
    let late = observed.workers.iter().filter(|worker| !worker.is_ready());
    let late: Vec<_> = late.map(|worker| format!("{}: {}", worker.name, worker.state)).collect();
    let ready = ready_workers(observed);
    let late = match (late.is_empty(), observed.workers.len() < observed.desired) {
        (false, _) => late.join("; "),
        (true, true) => "the others are not made yet".to_owned(),
        (true, false) => "some are still to be changed".to_owned(),
    };
    format!("{ready} of {} nodes are ready; {late}", observed.desired)
}

fn holds(message: &str) -> Verdict {
    (ConditionStatus::True, "AsExpected", message.to_owned())
}

fn fails(reason: &'static str, message: &str) -> Verdict {
    (ConditionStatus::False, reason, message.to_owned())
}

/// Keeps the transition time while the status is the same, so that repeating an observation changes nothing.
pub(super) fn set_condition(conditions: &mut Vec<NodePoolCondition>, mut condition: NodePoolCondition) {
    match conditions.iter_mut().find(|known| known.type_ == condition.type_) {
        Some(known) => {
            if known.status == condition.status {
                condition.last_transition_time = known.last_transition_time.clone();
            }
            *known = condition;
        }
        None => conditions.push(condition),
    }
}
