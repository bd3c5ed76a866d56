//! What a hosted cluster's status says, given what was observed.
//!
//! A condition is `True` only if something observed it. What payload `light` does not have, such as an ignition server, is
//! `Unknown` with reason `NotApplicable`, so that nobody waits for it.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pilothouse_crds::{
    ClusterVersionStatus, Condition, ConditionStatus, ControlPlaneEndpoint, ControlPlaneVersionStatus,
    DesiredRelease, HistoryEntry, HistoryState, HostedClusterStatus, Reference, set_condition,
};

use super::blueprint::{Blueprint, Refusal};
use crate::names;

/// What upstream's control plane has and payload `light` has not.
const NOT_APPLICABLE: [(&str, &str); 14] = [
    ("EtcdAvailable", "payload `light` keeps its state in the API server's own volume"),
    ("IgnitionEndpointAvailable", "nodes of payload `light` are configured by Secrets"),
    ("ExternalDNSReachable", "the API server is published by host name at the gateway"),
    ("PlatformCredentialsFound", "no cloud credentials are needed"),
    ("ClusterVersionSucceeding", "payload `light` has no cluster version operator"),
    ("ClusterVersionFailing", "payload `light` has no cluster version operator"),
    ("ClusterVersionProgressing", "payload `light` has no cluster version operator"),
    ("ClusterVersionAvailable", "payload `light` has no cluster version operator"),
    ("ClusterVersionUpgradeable", "payload `light` has no cluster version operator"),
    ("ClusterVersionReleaseAccepted", "payload `light` has no cluster version operator"),
    ("ClusterVersionRetrievedUpdates", "payload `light` has no cluster version operator"),
    ("ConfigOperatorReconciliationSucceeded", "payload `light` has no config operator"),
    ("DataPlaneConnectionAvailable", "payload `light` reaches nodes without a tunnel"),
    ("ControlPlaneConnectionAvailable", "payload `light` is reached from nodes without a tunnel"),
];

/// What is only known by looking at what runs.
const MEASURED: [&str; 4] = ["Available", "Degraded", "InfrastructureReady", "KubeAPIServerAvailable"];

/// What one pass saw.
#[derive(Clone, Debug)]
pub(crate) struct Observed<'a> {
    pub(crate) generation: Option<i64>,
    pub(crate) now: Timestamp,
    pub(crate) blueprint: Result<&'a Blueprint, &'a Refusal>,
    pub(crate) publish_port: u16,
    /// Service and Route are there and have what they need.
    pub(crate) infrastructure: Result<(), String>,
    /// The administrator's kubeconfig was written.
    pub(crate) kubeconfig: bool,
    /// A pod of the wanted release runs.
    pub(crate) workload: Result<(), String>,
    /// The API server answered through the published address.
    pub(crate) answer: Result<(), String>,
    /// What went wrong in the pass, with its causes.
    pub(crate) error: Option<String>,
}

/// The status that follows.
pub(crate) fn observe(previous: &HostedClusterStatus, observed: &Observed<'_>) -> HostedClusterStatus {
    let mut status = previous.clone();
    if let Ok(blueprint) = observed.blueprint {
        record_version(&mut status, blueprint, observed);
        if observed.kubeconfig {
            status.kubeconfig = Some(Reference::to(names::admin_kubeconfig(&blueprint.cluster.name)));
        }
        if observed.infrastructure.is_ok() {
            status.control_plane_endpoint = Some(ControlPlaneEndpoint {
                host: blueprint.host.clone(),
                port: observed.publish_port.into(),
            });
        }
        status.payload_arch = Some(payload_arch().to_owned());
    }
    let has_run = has_run(&status);
    for (type_, (holds, reason, message)) in conditions(&status, observed) {
        // A release that cannot be served stops the upgrade, not the cluster.
        if has_run && observed.blueprint.is_err() && MEASURED.contains(&type_) {
            continue;
        }
        let condition = Condition::new(type_, holds, reason, message, observed.now);
        set_condition(&mut status.conditions, condition.of_generation(observed.generation));
    }
    status
}

/// Reconciliation is switched off: that is all that changes.
pub(crate) fn observe_pause(
    previous: &HostedClusterStatus,
    generation: Option<i64>,
    pause: &str,
    now: Timestamp,
) -> HostedClusterStatus {
    let mut status = previous.clone();
    let condition =
        Condition::new("ReconciliationActive", ConditionStatus::False, "ReconciliationPaused", pause, now);
    set_condition(&mut status.conditions, condition.of_generation(generation));
    status
}

type Verdict = (ConditionStatus, &'static str, String);

fn conditions(status: &HostedClusterStatus, observed: &Observed<'_>) -> Vec<(&'static str, Verdict)> {
    let mut conditions = vec![
        ("Available", available(observed)),
        ("Progressing", progressing(status, observed)),
        ("Degraded", degraded(status, observed)),
        ("ReconciliationActive", holds("Reconciliation active on resource")),
        (
            "ReconciliationSucceeded",
            match &observed.error {
                // Spelled as clients know it.
                None => (ConditionStatus::True, "ReconciliatonSucceeded", "All is well".to_owned()),
                Some(error) => fails("ReconciliationError", error),
            },
        ),
        (
            "SupportedHostedCluster",
            gate(observed, "SupportedHostedCluster", "The management cluster can host it"),
        ),
        ("ValidConfiguration", gate(observed, "ValidConfiguration", "Configuration passes validation")),
        ("ValidReleaseImage", gate(observed, "ValidReleaseImage", "Release image is valid")),
        ("ValidReleaseInfo", gate(observed, "ValidReleaseImage", "All is well")),
        (
            "ValidHostedControlPlaneConfiguration",
            gate(observed, "ValidConfiguration", "Configuration passes validation"),
        ),
        ("InfrastructureReady", measured(observed, &observed.infrastructure, "WaitingOnInfrastructureReady")),
        ("KubeAPIServerAvailable", measured(observed, &observed.workload, "NotReady")),
    ];
    if let Ok(blueprint) = observed.blueprint
        && blueprint.highly_available
    {
        let message = "HighlyAvailable was asked for; on the embedded store the control plane runs one replica, \
                       restarted when it fails. Use a PostgreSQL store for several.";
        conditions.push(("ControlPlaneHighlyAvailable", fails("EmbeddedStore", message)));
    }
    conditions
        .extend(NOT_APPLICABLE.map(|(type_, message)| {
            (type_, (ConditionStatus::Unknown, "NotApplicable", message.to_owned()))
        }));
    conditions
}

/// The first thing missing on the way from a client to the API server.
fn available(observed: &Observed<'_>) -> Verdict {
    if let Err(refusal) = observed.blueprint {
        return fails(refusal.reason, &refusal.message);
    }
    let waiting = |what: &str| format!("Waiting for hosted control plane to be healthy: {what}");
    match (&observed.infrastructure, &observed.workload, &observed.answer) {
        (Err(missing), _, _) => fails("WaitingOnInfrastructureReady", &waiting(missing)),
        _ if !observed.kubeconfig => {
            fails("KubeconfigWaitingForCreate", "Waiting for hosted control plane kubeconfig to be created")
        }
        (_, Err(missing), _) => fails("WaitingForAvailable", &waiting(missing)),
        (_, _, Err(seen)) => fails(
            "KASLoadBalancerNotReachable",
            &format!("The API server did not answer through the published address: {seen}"),
        ),
        (Ok(()), Ok(()), Ok(())) => holds("The hosted control plane is available"),
    }
}

fn progressing(status: &HostedClusterStatus, observed: &Observed<'_>) -> Verdict {
    if let Err(refusal) = observed.blueprint {
        return fails("Blocked", &refusal.message);
    }
    if newest(status).is_some_and(|entry| entry.state == HistoryState::Completed) {
        return fails("AsExpected", "HostedCluster is at expected version");
    }
    let message = "HostedCluster is deploying, upgrading, or reconfiguring";
    (ConditionStatus::True, "Progressing", message.to_owned())
}

/// Before it has run once, a control plane that does not run is progressing, not degraded.
fn degraded(status: &HostedClusterStatus, observed: &Observed<'_>) -> Verdict {
    match &observed.workload {
        Err(missing) if has_run(status) && observed.blueprint.is_ok() => {
            (ConditionStatus::True, "UnavailableReplicas", missing.clone())
        }
        _ => fails("AsExpected", "The hosted cluster is not degraded"),
    }
}

fn gate(observed: &Observed<'_>, condition: &str, message: &str) -> Verdict {
    match observed.blueprint {
        Err(refusal) if refusal.condition == condition => fails(refusal.reason, &refusal.message),
        // Whatever was refused first says nothing about what was not looked at.
        Err(_) => (ConditionStatus::Unknown, "StatusUnknown", "not checked".to_owned()),
        Ok(_) => holds(message),
    }
}

fn measured(observed: &Observed<'_>, seen: &Result<(), String>, reason: &'static str) -> Verdict {
    match (observed.blueprint, seen) {
        (Err(_), _) => (ConditionStatus::Unknown, "StatusUnknown", "nothing was made".to_owned()),
        (Ok(_), Ok(())) => holds("All is well"),
        (Ok(_), Err(missing)) => fails(reason, missing),
    }
}

fn holds(message: &str) -> Verdict {
    (ConditionStatus::True, "AsExpected", message.to_owned())
}

fn fails(reason: &'static str, message: &str) -> Verdict {
    (ConditionStatus::False, reason, message.to_owned())
}

/// Begins an entry for a new release, and completes it once that release answers.
fn record_version(status: &mut HostedClusterStatus, blueprint: &Blueprint, observed: &Observed<'_>) {
    let generation = observed.generation.unwrap_or_default();
    let desired = DesiredRelease {
        image: blueprint.release.image.clone(),
        version: blueprint.release.version.clone(),
        ..DesiredRelease::default()
    };
    let mut history = status.version.take().map(|version| version.history).unwrap_or_default();
    let now = Time(Timestamp::from_second(observed.now.as_second()).unwrap_or(observed.now));
    if history.first().is_none_or(|entry| entry.image != desired.image) {
        if let Some(superseded) = history.first_mut() {
            superseded.completion_time.get_or_insert_with(|| now.clone());
        }
        history.insert(
            0,
            HistoryEntry {
                state: HistoryState::Partial,
                started_time: now.clone(),
                completion_time: None,
                version: blueprint.release.version.clone(),
                image: desired.image.clone(),
                verified: false,
            },
        );
        prune(&mut history);
    }
    let runs = observed.infrastructure.is_ok() && observed.workload.is_ok() && observed.answer.is_ok();
    if let Some(entry) = history.first_mut()
        && runs
        && entry.state == HistoryState::Partial
    {
        entry.state = HistoryState::Completed;
        entry.completion_time = Some(now);
    }
    status.control_plane_version = Some(ControlPlaneVersionStatus {
        desired: desired.clone(),
        history: history.clone(),
        observed_generation: generation,
        ..ControlPlaneVersionStatus::default()
    });
    status.version = Some(ClusterVersionStatus {
        desired,
        history,
        observed_generation: generation,
        ..ClusterVersionStatus::default()
    });
}

/// A history is kept short, but never forgets where the cluster began nor what it last ran.
fn prune(history: &mut Vec<HistoryEntry>) {
    const LONGEST: usize = 100;
    while history.len() > LONGEST {
        let last_complete = history.iter().position(is_complete);
        let oldest = (1..history.len() - 1).rev().find(|index| Some(*index) != last_complete);
        let Some(oldest) = oldest else { return };
        history.remove(oldest);
    }
}

fn has_run(status: &HostedClusterStatus) -> bool {
    status.version.iter().flat_map(|version| &version.history).any(is_complete)
}

fn newest(status: &HostedClusterStatus) -> Option<&HistoryEntry> {
    status.version.as_ref()?.history.first()
}

fn is_complete(entry: &HistoryEntry) -> bool {
    entry.state == HistoryState::Completed
}

fn payload_arch() -> &'static str {
    if cfg!(target_arch = "aarch64") { "ARM64" } else { "AMD64" }
}
