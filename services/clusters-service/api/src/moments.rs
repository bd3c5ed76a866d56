use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// When a cluster's creation came past the steps of the flow.
///
/// It begins with the cluster's `creation_timestamp`, and every moment is the end of what is between the one before it and
/// itself. One that was not seen apart from the next is left out: then the next one ends both. Nothing is written down for the
/// sake of a moment, so what a service noticed and had no reason to write before it was killed is left out as well.
///
/// Moments that others have seen are by their clocks, as long as those agree with the service's own: one that is before
/// the cluster's creation, or in the future, is replaced by when the service saw what came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Moments {
    /// Everything in the cloud was there: the end of step 5, by the service's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_prepared: Option<Timestamp>,
    /// Maestro took the last of the first manifests: the end of step 6, by Maestro's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifests_posted: Option<Timestamp>,
    /// The agent reported that it had applied the `ManifestWork` and the `ManagedCluster`: the end of step 7, and of the agent's
    /// own part of step 8, by the agent's clock, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifests_delivered: Option<Timestamp>,
    /// The agent reported that what is inside the `ManifestWork` was applied: the end of step 8, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifests_applied: Option<Timestamp>,
    /// The agent reported that the `HostedCluster` is available: the end of step 9, likewise. That report comes by way of the
    /// `ManifestWork`, and so may be later than the next one, which follows from the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_available: Option<Timestamp>,
    /// The agent reported that the `ManagedCluster` is available: the end of step 10, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_cluster_available: Option<Timestamp>,
    /// The service read the last of these reports: the end of step 11, by its own clock. What it then writes begins step 12.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reports_read: Option<Timestamp>,
}

impl Moments {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// These, and of others those that are left out here.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            cloud_prepared: self.cloud_prepared.or(others.cloud_prepared),
            manifests_posted: self.manifests_posted.or(others.manifests_posted),
            manifests_delivered: self.manifests_delivered.or(others.manifests_delivered),
            manifests_applied: self.manifests_applied.or(others.manifests_applied),
            control_plane_available: self.control_plane_available.or(others.control_plane_available),
            managed_cluster_available: self.managed_cluster_available.or(others.managed_cluster_available),
            reports_read: self.reports_read.or(others.reports_read),
        }
    }
}
