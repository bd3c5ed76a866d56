//! The controller of managed clusters.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt as _};
use pilothouse_crds::{
    ClusterClaim, Condition, ConditionStatus, HistoryState, HostedCluster, ManagedCluster,
    ManagedClusterStatus, find_condition, set_condition,
};
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use tracing::info;

use crate::error::Error;

/// On a hosted cluster: the name of its managed cluster.
pub(crate) const CLUSTER_ID: &str = "api.openshift.com/id";

const ACCEPTED: &str = "HubAcceptedManagedCluster";
const JOINED: &str = "ManagedClusterJoined";
const AVAILABLE: &str = "ManagedClusterConditionAvailable";

/// How soon to look again when somebody else wrote in between.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

pub(crate) struct ManagedClusters {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) clusters: Informer<ManagedCluster>,
    pub(crate) hosted: Informer<HostedCluster>,
    pub(crate) index: Arc<Index>,
}

/// Which hosted cluster has which id. Kept by whoever hears of hosted clusters, so that a pass does not search all.
#[derive(Debug, Default)]
pub(crate) struct Index {
    keys: Mutex<HashMap<String, ObjectKey>>,
}

// === impl ManagedClusters ===

impl Reconcile for ManagedClusters {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        Ok(self.clusters.keys())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        match self.pass(key).await {
            Ok(()) => Ok(Next::Done),
            Err(error) if error.is_missing() => Ok(Next::Done),
            Err(error) if error.is_conflict() => Ok(Next::After(LOOK_AGAIN)),
            Err(error) => Err(error.into()),
        }
    }
}

impl ManagedClusters {
    async fn pass(&self, key: &ObjectKey) -> Result<(), Error> {
        let Some(cluster) = self.clusters.get(key) else { return Ok(()) };
        let hosted = self.index.key(&key.name).and_then(|key| self.hosted.get(&key));
        let status = observe(&cluster, hosted.as_deref(), self.clock.now());
        if cluster.status.as_ref() == Some(&status) {
            return Ok(());
        }
        if let Some(available) = find_condition(&status.conditions, AVAILABLE) {
            info!(
                cluster = key.name,
                available = available.status.as_str(),
                reason = available.reason,
                "observed"
            );
        }
        let changed = ManagedCluster { status: Some(status), ..cluster.as_ref().clone() };
        Api::<ManagedCluster>::all(self.client.clone())
            .replace_status(&key.name, &PostParams::default(), &changed)
            .await
            .map_err(|error| {
                Error::cluster("change the status of", format!("ManagedCluster {key}"), error)
            })?;
        Ok(())
    }
}

/// What a managed cluster's status says, given its hosted cluster.
fn observe(cluster: &ManagedCluster, hosted: Option<&HostedCluster>, now: Timestamp) -> ManagedClusterStatus {
    let mut status = cluster.status.clone().unwrap_or_default();
    let accepted = cluster.spec.hub_accepts_client;
    let (holds, reason, message) = available(accepted, hosted);
    let has_joined = pilothouse_crds::is_condition_true(&status.conditions, JOINED);
    let joins = has_joined || holds == ConditionStatus::True;
    let conditions = [
        match accepted {
            true => (
                ACCEPTED,
                ConditionStatus::True,
                "HubClusterAdminAccepted",
                "Accepted by hub cluster admin".to_owned(),
            ),
            false => (
                ACCEPTED,
                ConditionStatus::False,
                "HubClusterAdminDenied",
                "spec.hubAcceptsClient is false".to_owned(),
            ),
        },
        match joins {
            true => {
                (JOINED, ConditionStatus::True, "ManagedClusterJoined", "Managed cluster joined".to_owned())
            }
            false => (
                JOINED,
                ConditionStatus::False,
                "ManagedClusterNotJoined",
                "It has not been available yet".to_owned(),
            ),
        },
        (AVAILABLE, holds, reason, message),
    ];
    for (type_, holds, reason, message) in conditions {
        let condition = Condition::new(type_, holds, reason, message, now);
        set_condition(&mut status.conditions, condition.of_generation(cluster.metadata.generation));
    }
    if let Some(hosted) = hosted {
        status.cluster_claims = claims(hosted);
    }
    status
}

fn available(accepted: bool, hosted: Option<&HostedCluster>) -> (ConditionStatus, &'static str, String) {
    let unknown = |reason, message: &str| (ConditionStatus::Unknown, reason, message.to_owned());
    if !accepted {
        return unknown(
            "ManagedClusterNotAccepted",
            "the hub has not accepted it; set spec.hubAcceptsClient",
        );
    }
    let Some(hosted) = hosted else {
        return unknown(
            "HostedClusterNotFound",
            &format!("no HostedCluster is labelled {CLUSTER_ID} with its name"),
        );
    };
    let observed = hosted.status.as_ref().and_then(|status| find_condition(&status.conditions, "Available"));
    match observed {
        None => unknown("HostedClusterNotObserved", "its HostedCluster has not been looked at yet"),
        Some(seen) => match seen.status {
            ConditionStatus::True => {
                (ConditionStatus::True, "ManagedClusterAvailable", "Managed cluster is available".to_owned())
            }
            ConditionStatus::False => (
                ConditionStatus::False,
                "HostedClusterNotAvailable",
                format!("its HostedCluster is not available: {}: {}", seen.reason, seen.message),
            ),
            ConditionStatus::Unknown => unknown("HostedClusterUnknown", &seen.message),
        },
    }
}

/// What a hosted cluster says of itself.
fn claims(hosted: &HostedCluster) -> Vec<ClusterClaim> {
    let completed = hosted
        .status
        .iter()
        .filter_map(|status| status.version.as_ref())
        .flat_map(|version| &version.history)
        .find(|entry| entry.state == HistoryState::Completed);
    let claims = [
        ("id.openshift.io", hosted.spec.cluster_id.clone()),
        ("version.openshift.io", completed.map(|entry| entry.version.clone())),
        ("hostedcluster.hypershift.openshift.io", Some(ObjectKey::of(hosted).to_string())),
    ];
    let known = claims.into_iter().filter_map(|(name, value)| Some((name, value?)));
    known.map(|(name, value)| ClusterClaim { name: name.to_owned(), value }).collect()
}

// === impl Index ===

impl Index {
    /// Takes in a hosted cluster that was made, changed or deleted. The managed cluster that this concerns.
    pub(crate) fn hear(&self, hosted: &HostedCluster) -> Option<ObjectKey> {
        let id = hosted.labels().get(CLUSTER_ID)?;
        // One that was deleted is no longer found by this key, and that is how it should be.
        self.lock().insert(id.clone(), ObjectKey::of(hosted));
        Some(ObjectKey::cluster(id))
    }

    fn key(&self, id: &str) -> Option<ObjectKey> {
        self.lock().get(id).cloned()
    }

    /// Forgets the hosted cluster of a managed cluster that is gone.
    pub(crate) fn forget(&self, id: &str) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, ObjectKey>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use pilothouse_crds::{HostedClusterSpec, HostedClusterStatus, ManagedClusterSpec};
    use rstest::rstest;

    use super::*;

    fn hosted(available: Option<ConditionStatus>) -> HostedCluster {
        let mut cluster = HostedCluster::new("first", HostedClusterSpec::default());
        cluster.metadata.namespace = Some("ocm-local-1".into());
        cluster.metadata.labels = Some([(CLUSTER_ID.to_owned(), "1".to_owned())].into());
        cluster.status = available.map(|status| HostedClusterStatus {
            conditions: vec![Condition::new("Available", status, "r", "m", Timestamp::UNIX_EPOCH)],
            ..HostedClusterStatus::default()
        });
        cluster
    }

    fn managed(accepted: bool) -> ManagedCluster {
        ManagedCluster::new(
            "1",
            ManagedClusterSpec { hub_accepts_client: accepted, ..ManagedClusterSpec::default() },
        )
    }

    #[rstest]
    #[case(true, None, "Unknown", "False")]
    #[case(true, Some(hosted(None)), "Unknown", "False")]
    #[case(true, Some(hosted(Some(ConditionStatus::False))), "False", "False")]
    #[case(true, Some(hosted(Some(ConditionStatus::True))), "True", "True")]
    #[case(false, Some(hosted(Some(ConditionStatus::True))), "Unknown", "False")]
    fn a_managed_cluster_is_available_when_its_hosted_cluster_is(
        #[case] accepted: bool,
        #[case] hosted: Option<HostedCluster>,
        #[case] available: &str,
        #[case] joined: &str,
    ) {
        let status = observe(&managed(accepted), hosted.as_ref(), Timestamp::UNIX_EPOCH);
        let of = |type_| find_condition(&status.conditions, type_).unwrap().status.as_str();
        assert_eq!((of(AVAILABLE), of(JOINED)), (available, joined));
    }

    #[test]
    fn a_cluster_that_fails_has_still_joined_and_a_second_look_changes_nothing() {
        let mut cluster = managed(true);
        let at = |second| Timestamp::from_second(second).unwrap();
        cluster.status = Some(observe(&cluster, Some(&hosted(Some(ConditionStatus::True))), at(0)));
        assert_eq!(
            cluster.status,
            Some(observe(&cluster, Some(&hosted(Some(ConditionStatus::True))), at(9)))
        );
        let failed = observe(&cluster, Some(&hosted(Some(ConditionStatus::False))), at(9));
        assert!(pilothouse_crds::is_condition_true(&failed.conditions, JOINED));
        assert!(!pilothouse_crds::is_condition_true(&failed.conditions, AVAILABLE));
    }

    #[test]
    fn hosted_clusters_are_found_by_their_label() {
        let index = Index::default();
        assert_eq!(index.hear(&HostedCluster::new("other", HostedClusterSpec::default())), None);
        assert_eq!(index.hear(&hosted(None)), Some(ObjectKey::cluster("1")));
        assert_eq!(index.key("1"), Some(ObjectKey::namespaced("ocm-local-1", "first")));
        index.forget("1");
        assert_eq!(index.key("1"), None);
    }
}
