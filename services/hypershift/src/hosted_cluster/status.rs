//! What a hosted cluster's status says, given what was observed.
//!
//! A condition is `True` only if something observed it. What payload `light` does not have, such as an ignition server, is
//! `Unknown` with reason `NotApplicable`, so that nobody waits for it.

use jiff::Timestamp;
use pilothouse_crds::{
    Condition, ConditionStatus, ControlPlaneEndpoint, HostedClusterStatus, Reference, set_condition,
};

use super::authentication::Providers;
use super::blueprint::Blueprint;
use super::payload::Payload;
use super::publishing::Endpoint;
use super::refusal::Refusals;
use super::{encryption, history};
use crate::names;
use crate::versions::Processors;

/// What upstream's control plane has and payload `light` has not.
const NOT_APPLICABLE: [(&str, &str); 13] = [
    ("EtcdAvailable", "payload `light` keeps its state in the API server's own volume"),
    ("IgnitionEndpointAvailable", "nodes of payload `light` are configured by Secrets"),
    ("ExternalDNSReachable", "the API server is published by host name at the gateway"),
    ("PlatformCredentialsFound", "no cloud credentials are needed"),
    ("ClusterVersionSucceeding", "payload `light` has no cluster version operator"),
    ("ClusterVersionFailing", "payload `light` has no cluster version operator"),
    ("ClusterVersionProgressing", "payload `light` has no cluster version operator"),
    ("ClusterVersionAvailable", "payload `light` has no cluster version operator"),
    ("ClusterVersionReleaseAccepted", "payload `light` has no cluster version operator"),
    ("ClusterVersionRetrievedUpdates", "payload `light` has no cluster version operator"),
    ("ConfigOperatorReconciliationSucceeded", "payload `light` has no config operator"),
    ("DataPlaneConnectionAvailable", "payload `light` reaches nodes without a tunnel"),
    ("ControlPlaneConnectionAvailable", "payload `light` is reached from nodes without a tunnel"),
];

/// What is only known by looking at what runs.
const MEASURED: [&str; 5] =
    ["Available", "Degraded", "InfrastructureReady", "KubeAPIServerAvailable", VALID_OIDC];

/// About whose tokens are believed; only where somebody's are.
const VALID_OIDC: &str = "ValidOIDCConfiguration";

/// Where the state of encryption is kept in a status.
const SECRET_ENCRYPTION: &str = "secretEncryption";

/// What one pass saw.
#[derive(Clone, Debug)]
pub(crate) struct Observed<'a> {
    pub(crate) generation: Option<i64>,
    pub(crate) now: Timestamp,
    pub(crate) blueprint: Result<&'a Blueprint, &'a Refusals>,
    /// What was asked for and is not done, although the cluster goes on.
    pub(crate) complaints: &'a Refusals,
    /// What is wrong with `spec.pausedUntil`.
    pub(crate) pause: Option<String>,
    /// Why the cluster cannot go to the next minor version.
    pub(crate) not_upgradeable: Option<String>,
    /// Where clients go.
    pub(crate) endpoint: Option<Endpoint>,
    /// Service and Route are there and have what they need.
    pub(crate) infrastructure: Result<(), String>,
    /// The administrator's kubeconfig was written.
    pub(crate) kubeconfig: bool,
    /// Enough of every component runs, of the wanted release or the one before.
    pub(crate) workload: Result<(), String>,
    /// Enough of every component runs the wanted release.
    pub(crate) current: Result<(), String>,
    /// The API server answered through the published address.
    pub(crate) answer: Result<(), String>,
    /// Enough of etcd runs, where there is one.
    pub(crate) etcd: Option<Result<(), String>>,
    /// Every replica runs as it should.
    pub(crate) complete: Result<(), String>,
    /// Everything is encrypted with the key in use.
    pub(crate) encrypted: Result<(), String>,
    /// What went wrong in the pass, with its causes.
    pub(crate) error: Option<String>,
}

/// The status that follows.
pub(crate) fn observe(previous: &HostedClusterStatus, observed: &Observed<'_>) -> HostedClusterStatus {
    let mut status = previous.clone();
    if let Ok(blueprint) = observed.blueprint {
        let runs = observed.runs(history::has_run(&status));
        history::record(&mut status, blueprint, observed.generation.unwrap_or_default(), runs, observed.now);
        if observed.kubeconfig {
            let name = &blueprint.cluster.name;
            status.kubeconfig = Some(Reference::to(names::admin_kubeconfig(name)));
            let custom = blueprint.custom_name.as_ref();
            status.custom_kubeconfig = custom.map(|_| Reference::to(names::custom_admin_kubeconfig(name)));
        }
        if let Some(endpoint) = &observed.endpoint {
            status.control_plane_endpoint =
                Some(ControlPlaneEndpoint { host: endpoint.host.clone(), port: endpoint.port.into() });
        }
        status.payload = Some(blueprint.payload.name().to_owned());
        status.payload_arch = Some(payload_arch(blueprint).to_owned());
        let keys = status.other.remove(SECRET_ENCRYPTION);
        let seen = blueprint.encrypts_with.as_deref().map(|active| encryption::Seen {
            active,
            incoming: blueprint.incoming_key.as_deref(),
            deployed: observed.complete.is_ok(),
            encrypted: runs && observed.encrypted.is_ok(),
        });
        let keys = encryption::status(keys.as_ref(), seen, observed.now);
        status.other.extend(keys.map(|keys| (SECRET_ENCRYPTION.to_owned(), keys)));
    }
    if observed.blueprint.is_ok_and(|blueprint| blueprint.token_issuers.is_none()) {
        status.conditions.retain(|condition| condition.type_ != VALID_OIDC);
    }
    let has_run = history::has_run(&status);
    // Who has not looked cannot say that it is otherwise than before.
    let blind = observed.blueprint.is_err() || observed.error.is_some();
    for (type_, (holds, reason, message)) in conditions(&status, observed) {
        if has_run && blind && MEASURED.contains(&type_) {
            continue;
        }
        let condition = Condition::new(type_, holds, reason, message, observed.now);
        set_condition(&mut status.conditions, condition.of_generation(observed.generation));
    }
    status
}

/// Whether everything is encrypted with the key that the cluster names, as its status last said.
pub(crate) fn is_settled(status: Option<&HostedClusterStatus>, blueprint: &Blueprint) -> bool {
    let status = status.and_then(|status| status.other.get(SECRET_ENCRYPTION));
    encryption::is_settled(status, blueprint.encrypts_with.as_deref())
}

// === impl Observed ===

impl Observed<'_> {
    /// Whether what was asked for is what answers. Who has run before waits for all of it: nodes follow then.
    fn runs(&self, before: bool) -> bool {
        let of_now = if before { &self.complete } else { &self.current };
        self.infrastructure.is_ok() && of_now.is_ok() && self.answer.is_ok()
    }
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
        (
            "ReconciliationActive",
            match &observed.pause {
                None => holds("Reconciliation active on resource"),
                Some(complaint) => (ConditionStatus::True, "InvalidPausedUntilValue", complaint.clone()),
            },
        ),
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
    if let Ok(blueprint) = observed.blueprint {
        conditions.push((
            "ClusterVersionUpgradeable",
            match &observed.not_upgradeable {
                None => holds("The next minor version may be asked for"),
                Some(obstacle) => fails("NodePoolsBehind", obstacle),
            },
        ));
        conditions.push(("EtcdDataEncryptionUpToDate", encrypted(status, blueprint)));
    }
    if let Ok(blueprint) = observed.blueprint
        && let Some(issuers) = &blueprint.token_issuers
    {
        conditions.push((VALID_OIDC, believed(blueprint, issuers, observed)));
    }
    if let Ok(blueprint) = observed.blueprint
        && blueprint.highly_available
    {
        conditions.push(("ControlPlaneHighlyAvailable", highly_available(observed, blueprint)));
    }
    let payload = observed.blueprint.map(|blueprint| blueprint.payload).unwrap_or_default();
    let measured_elsewhere = |type_: &str| type_ == "EtcdAvailable" && payload == Payload::Upstream;
    let not_applicable = NOT_APPLICABLE.into_iter().filter(|(type_, _)| !measured_elsewhere(type_));
    conditions.extend(not_applicable.map(|(type_, message)| {
        let message = message.replace("`light`", &format!("`{}`", payload.name()));
        (type_, (ConditionStatus::Unknown, "NotApplicable", message))
    }));
    if let Some(etcd) = &observed.etcd {
        conditions.push(("EtcdAvailable", measured(observed, etcd, "EtcdWaitingForQuorum")));
    }
    conditions
}

/// Whether a replica may fail without anybody noticing.
fn highly_available(observed: &Observed<'_>, blueprint: &Blueprint) -> Verdict {
    match (blueprint.payload, &observed.complete) {
        (Payload::Light, _) => fails(
            "EmbeddedStore",
            "HighlyAvailable was asked for; on the embedded store the control plane runs one replica, restarted when it \
             fails. Use a PostgreSQL store for several.",
        ),
        (Payload::Upstream, Ok(())) => holds("Every replica of the control plane is ready"),
        (Payload::Upstream, Err(missing)) => fails("ReplicasMissing", missing),
    }
}

/// Whether everything is encrypted with the key that is asked for.
fn encrypted(status: &HostedClusterStatus, blueprint: &Blueprint) -> Verdict {
    match blueprint.encrypts_with.as_deref() {
        None => (
            ConditionStatus::Unknown,
            "NotApplicable",
            "no key vault is asked; payload `light` encrypts secrets with a key of its own".to_owned(),
        ),
        Some(active) if blueprint.incoming_key.is_none() && is_settled(Some(status), blueprint) => {
            holds(&format!("All secrets are encrypted with the key in Secret {active}"))
        }
        Some(active) => fails(
            "EncryptionInProgress",
            &match &blueprint.incoming_key {
                None => format!("secrets are being encrypted with the key in Secret {active}"),
                Some(incoming) => format!(
                    "every API server is to know the key in Secret {incoming} before one encrypts with it; until then that in \
                     Secret {active} encrypts"
                ),
            },
        ),
    }
}

/// Whether the API server that answers was told whose tokens to believe. Whether an issuer answers it is not known here.
fn believed(blueprint: &Blueprint, issuers: &Providers, observed: &Observed<'_>) -> Verdict {
    let unknown = |message: &str| (ConditionStatus::Unknown, "StatusUnknown", message.to_owned());
    match (&blueprint.authentication, observed.runs(false)) {
        (Some(_), true) => holds(&format!(
            "The API server that answers was told to believe tokens of {}; if it cannot read their keys, its log says so",
            issuers.urls()
        )),
        (Some(_), false) => unknown("no API server that was told of the issuers has answered yet"),
        (None, _) => unknown("the API server was not told of the issuers yet"),
    }
}

/// The first thing missing on the way from a client to the API server.
fn available(observed: &Observed<'_>) -> Verdict {
    if let Err(refusals) = observed.blueprint {
        let first = refusals.first();
        return first.map_or_else(unchecked, |refusal| fails(refusal.reason, &refusal.message));
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
    let blocked = match observed.blueprint {
        Err(refusals) => refusals.first(),
        Ok(_) => observed.complaints.of("ValidReleaseImage"),
    };
    if let Some(refusal) = blocked {
        return fails("Blocked", &refusal.message);
    }
    if history::is_current(status) {
        return fails("AsExpected", "HostedCluster is at expected version");
    }
    let message = "HostedCluster is deploying, upgrading, or reconfiguring";
    let message = match &observed.complete {
        Err(missing) if history::has_run(status) => format!("{message}: {missing}"),
        _ => message.to_owned(),
    };
    (ConditionStatus::True, "Progressing", message)
}

/// Before it has run once, a control plane that does not run is progressing, not degraded.
fn degraded(status: &HostedClusterStatus, observed: &Observed<'_>) -> Verdict {
    match &observed.workload {
        Err(missing) if history::has_run(status) && observed.blueprint.is_ok() => {
            (ConditionStatus::True, "UnavailableReplicas", missing.clone())
        }
        _ => fails("AsExpected", "The hosted cluster is not degraded"),
    }
}

fn gate(observed: &Observed<'_>, condition: &str, message: &str) -> Verdict {
    let refused = observed.blueprint.err().and_then(|refusals| refusals.of(condition));
    match refused.or_else(|| observed.complaints.of(condition)) {
        Some(refusal) => fails(refusal.reason, &refusal.message),
        // What a specification names is only looked at when it is right itself.
        None if observed.blueprint.is_err() && condition == "ValidConfiguration" => unchecked(),
        None => holds(message),
    }
}

fn unchecked() -> Verdict {
    (ConditionStatus::Unknown, "StatusUnknown", "not checked to the end".to_owned())
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

fn payload_arch(blueprint: &Blueprint) -> &'static str {
    match blueprint.release.processors {
        Some(Processors::Multi) => "Multi",
        Some(Processors::Amd64) => "AMD64",
        Some(Processors::Arm64) => "ARM64",
        None if cfg!(target_arch = "aarch64") => "ARM64",
        None => "AMD64",
    }
}
