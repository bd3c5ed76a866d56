//! What a managed cluster's status says.

use jiff::Timestamp;
use pilothouse_crds::{
    ClusterClaim, Condition, ConditionStatus, HostedCluster, ManagedCluster, ManagedClusterStatus,
    find_condition, is_condition_true, set_condition,
};
use pilothouse_informer::ObjectKey;

use super::version::completed_release;
use super::{CLUSTER_ID, import};

pub(super) const ACCEPTED: &str = "HubAcceptedManagedCluster";
pub(super) const JOINED: &str = "ManagedClusterJoined";
pub(super) const AVAILABLE: &str = "ManagedClusterConditionAvailable";
pub(super) const IMPORTED: &str = "ManagedClusterImportSucceeded";

/// What a managed cluster is about.
#[derive(Clone, Debug)]
pub(super) enum Subject<'a> {
    /// A hosted cluster, and the version of Kubernetes that it said it runs.
    Hosted { hosted: &'a HostedCluster, kubernetes: Option<String> },
    /// Nothing that is known here.
    Missing,
    /// The cluster that this runs on, which has just answered.
    Here { kubernetes: String, id: String },
}

type Verdict = (ConditionStatus, &'static str, String);

/// What is said of a managed cluster, given what it is about.
pub(super) fn observe(
    cluster: &ManagedCluster,
    subject: &Subject<'_>,
    now: Timestamp,
) -> ManagedClusterStatus {
    let mut status = cluster.status.clone().unwrap_or_default();
    let accepted = cluster.spec.hub_accepts_client;
    let available = available(accepted, subject);
    let has_joined = is_condition_true(&status.conditions, JOINED);
    let joins = has_joined || available.0 == ConditionStatus::True;
    let mut conditions =
        vec![(ACCEPTED, acceptance(accepted)), (JOINED, joining(joins)), (AVAILABLE, available)];
    if import::source(cluster).is_some() {
        conditions.push((IMPORTED, importing(subject)));
    }
    for (type_, (holds, reason, message)) in conditions {
        let condition = Condition::new(type_, holds, reason, message, now);
        set_condition(&mut status.conditions, condition.of_generation(cluster.metadata.generation));
    }
    match subject {
        Subject::Hosted { hosted, kubernetes } => {
            if let Some(kubernetes) = kubernetes {
                status.version.kubernetes.clone_from(kubernetes);
            }
            status.cluster_claims = hosted_claims(hosted, kubernetes.as_deref());
        }
        Subject::Here { kubernetes, id } => {
            status.version.kubernetes.clone_from(kubernetes);
            status.cluster_claims = known([
                ("id.k8s.io", Some(id.clone())),
                ("kubeversion.open-cluster-management.io", Some(kubernetes.clone())),
                ("platform.open-cluster-management.io", Some("Other".to_owned())),
                ("product.open-cluster-management.io", Some("Other".to_owned())),
            ]);
        }
        Subject::Missing => {}
    }
    status
}

fn acceptance(accepted: bool) -> Verdict {
    match accepted {
        true => {
            (ConditionStatus::True, "HubClusterAdminAccepted", "Accepted by hub cluster admin".to_owned())
        }
        false => {
            (ConditionStatus::False, "HubClusterAdminDenied", "spec.hubAcceptsClient is false".to_owned())
        }
    }
}

fn joining(joined: bool) -> Verdict {
    match joined {
        true => (ConditionStatus::True, "ManagedClusterJoined", "Managed cluster joined".to_owned()),
        false => {
            (ConditionStatus::False, "ManagedClusterNotJoined", "It has not been available yet".to_owned())
        }
    }
}

/// It is imported once its API server has answered to the credentials that were found for it.
fn importing(subject: &Subject<'_>) -> Verdict {
    match subject {
        Subject::Hosted { kubernetes: Some(_), .. } | Subject::Here { .. } => {
            (ConditionStatus::True, "ManagedClusterImported", "Import succeeded".to_owned())
        }
        Subject::Hosted { kubernetes: None, .. } | Subject::Missing => (
            ConditionStatus::False,
            "ManagedClusterWaitForImporting",
            "Waiting for an answer of its API server".to_owned(),
        ),
    }
}

fn available(accepted: bool, subject: &Subject<'_>) -> Verdict {
    let unknown = |reason, message: &str| (ConditionStatus::Unknown, reason, message.to_owned());
    let holds =
        || (ConditionStatus::True, "ManagedClusterAvailable", "Managed cluster is available".to_owned());
    if !accepted {
        return unknown(
            "ManagedClusterNotAccepted",
            "the hub has not accepted it; set spec.hubAcceptsClient",
        );
    }
    let hosted = match subject {
        Subject::Here { .. } => return holds(),
        Subject::Hosted { hosted, .. } => hosted,
        Subject::Missing => {
            return unknown(
                "HostedClusterNotFound",
                &format!("no HostedCluster has its name, or its name in the label {CLUSTER_ID}"),
            );
        }
    };
    let observed = hosted.status.as_ref().and_then(|status| find_condition(&status.conditions, "Available"));
    match observed {
        None => unknown("HostedClusterNotObserved", "its HostedCluster has not been looked at yet"),
        Some(seen) => match seen.status {
            ConditionStatus::True => holds(),
            ConditionStatus::False => (
                ConditionStatus::False,
                "HostedClusterNotAvailable",
                format!("its HostedCluster is not available: {}: {}", seen.reason, seen.message),
            ),
            ConditionStatus::Unknown => unknown("HostedClusterUnknown", &seen.message),
        },
    }
}

/// What a hosted cluster says of itself. Those that every cluster has come first.
fn hosted_claims(hosted: &HostedCluster, kubernetes: Option<&str>) -> Vec<ClusterClaim> {
    known([
        ("id.k8s.io", hosted.spec.cluster_id.clone()),
        ("kubeversion.open-cluster-management.io", kubernetes.map(str::to_owned)),
        ("platform.open-cluster-management.io", Some(platform(hosted))),
        ("product.open-cluster-management.io", Some("Other".to_owned())),
        ("id.openshift.io", hosted.spec.cluster_id.clone()),
        ("version.openshift.io", completed_release(hosted)),
        ("hostedcluster.hypershift.openshift.io", Some(ObjectKey::of(hosted).to_string())),
    ])
}

/// Clouds are claimed by their name; what is no cloud is something else.
fn platform(hosted: &HostedCluster) -> String {
    match hosted.spec.platform.type_ {
        pilothouse_crds::PlatformType::Azure => "Azure".to_owned(),
        _ => "Other".to_owned(),
    }
}

fn known<const N: usize>(claims: [(&str, Option<String>); N]) -> Vec<ClusterClaim> {
    let known = claims.into_iter().filter_map(|(name, value)| Some((name, value?)));
    known.map(|(name, value)| ClusterClaim { name: name.to_owned(), value }).collect()
}
