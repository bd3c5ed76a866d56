//! What a node pool's status says, given what was observed.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pilothouse_crds::{ConditionStatus, NodePoolCondition, NodePoolStatus, NodeVersion, NodesInfo};

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
    pub(crate) config_hash: String,
    pub(crate) workers: &'a [Worker],
    /// What the kubelets of ready and other nodes say they are, counted: version → (ready, not ready).
    pub(crate) versions: BTreeMap<String, (i32, i32)>,
    pub(crate) auto_scaling: bool,
    pub(crate) auto_repair: bool,
    pub(crate) paused: Option<String>,
    pub(crate) error: Option<String>,
}

/// Why nothing is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Obstacle {
    /// The condition that says so; `Ready` follows.
    pub(crate) condition: &'static str,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

type Verdict = (ConditionStatus, &'static str, String);

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
    let ready = observed.workers.iter().filter(|worker| is_ready(worker)).count();
    status.replicas = i32::try_from(ready).unwrap_or(i32::MAX);
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
    let behind: Vec<_> = observed
        .workers
        .iter()
        .filter(|worker| !worker.going && worker.config_hash != observed.config_hash)
        .map(|worker| worker.name.as_str())
        .collect();
    let updating = match behind.is_empty() {
        true => fails("AsExpected", "All nodes are at the expected version"),
        false => (ConditionStatus::True, "AsExpected", format!("being replaced: {}", behind.join(", "))),
    };
    let not_applicable = |message: &str| (ConditionStatus::Unknown, "NotApplicable", message.to_owned());
    vec![
        ("Ready", ready(observed, obstacle)),
        ("AllMachinesReady", all(observed, |worker| worker.ready.is_some(), "machines")),
        ("AllNodesHealthy", all(observed, |worker| worker.ready == Some(true), "nodes")),
        ("ValidReleaseImage", gate("ValidReleaseImage")),
        ("SupportedVersionSkew", gate("SupportedVersionSkew")),
        ("ValidPlatformConfig", gate("ValidPlatformConfig")),
        ("UpdatingVersion", updating),
        ("UpdatingConfig", fails("AsExpected", "Labels and taints are given to new nodes only")),
        ("UpdateManagementEnabled", holds("Nodes are replaced one by one")),
        (
            "AutoscalingEnabled",
            match observed.auto_scaling {
                false => fails("AsExpected", "The number of nodes is spec.replicas"),
                true => fails(
                    "NoAutoscaler",
                    "There is no autoscaler here; the pool keeps spec.autoScaling.min nodes",
                ),
            },
        ),
        (
            "AutorepairEnabled",
            match observed.auto_repair {
                false => fails("AsExpected", "Sick nodes are left alone"),
                true => fails(
                    "NoHealthCheck",
                    "Workers that end are replaced; nodes that are merely sick are not",
                ),
            },
        ),
        ("ReconciliationActive", holds("Reconciliation active on resource")),
        ("ReachedIgnitionEndpoint", not_applicable("nodes of payload `light` are configured by Secrets")),
        ("ValidGeneratedPayload", not_applicable("nodes of payload `light` are configured by Secrets")),
        ("ValidMachineConfig", not_applicable("nodes of payload `light` have no machine configuration")),
        ("ValidTuningConfig", not_applicable("nodes of payload `light` are not tuned")),
    ]
}

fn ready(observed: &Observed<'_>, obstacle: Option<&Obstacle>) -> Verdict {
    if let Some(obstacle) = obstacle {
        return fails(obstacle.reason, &obstacle.message);
    }
    if let Some(error) = &observed.error {
        return fails("ReconciliationError", error);
    }
    if is_rolled_out(observed) {
        holds("All is well")
    } else {
        fails("WaitingForNodes", &shortfall(observed))
    }
}

/// Whether all that were asked for satisfy `test`.
fn all(observed: &Observed<'_>, test: impl Fn(&Worker) -> bool, what: &str) -> Verdict {
    let alive = observed.workers.iter().filter(|worker| !worker.going);
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
    let good = observed
        .workers
        .iter()
        .filter(|worker| is_ready(worker) && worker.config_hash == observed.config_hash);
    good.count() == observed.desired && observed.workers.len() == observed.desired
}

fn is_ready(worker: &Worker) -> bool {
    !worker.going && !worker.ended && worker.ready == Some(true)
}

fn shortfall(observed: &Observed<'_>) -> String {
    let ready = observed.workers.iter().filter(|worker| is_ready(worker)).count();
    let late = observed.workers.iter().filter(|worker| !is_ready(worker));
    let late: Vec<_> = late.map(|worker| format!("{}: {}", worker.name, worker.state)).collect();
    let late = if late.is_empty() { "the others are not made yet".to_owned() } else { late.join("; ") };
    format!("{ready} of {} nodes are ready; {late}", observed.desired)
}

fn holds(message: &str) -> Verdict {
    (ConditionStatus::True, "AsExpected", message.to_owned())
}

fn fails(reason: &'static str, message: &str) -> Verdict {
    (ConditionStatus::False, reason, message.to_owned())
}

/// Keeps the transition time while the status is the same, so that repeating an observation changes nothing.
fn set_condition(conditions: &mut Vec<NodePoolCondition>, mut condition: NodePoolCondition) {
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
