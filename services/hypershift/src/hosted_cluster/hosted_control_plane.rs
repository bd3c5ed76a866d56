//! The control plane as an object of its own, in the namespace where it runs: what Cluster API and people look at there.

use kube::Api;
use kube::api::{Patch, PatchParams};
use pilothouse_crds::{
    ClusterVersionStatus, ControlPlaneEndpoint, HistoryState, HostedCluster, HostedClusterStatus,
    HostedControlPlane, HostedControlPlaneSpec, HostedControlPlaneStatus, KeyReference, is_condition_true,
};
use pilothouse_informer::ObjectKey;
use serde_json::json;

use super::blueprint::Blueprint;
use super::{HostedClusters, history, manifests};
use crate::apply;
use crate::error::Error;

/// Conditions of a cluster that are about its control plane.
const SHARED: [&str; 11] = [
    "Available",
    "Degraded",
    "InfrastructureReady",
    "KubeAPIServerAvailable",
    "EtcdAvailable",
    "EtcdDataEncryptionUpToDate",
    "ValidHostedControlPlaneConfiguration",
    "ValidReleaseInfo",
    "ReconciliationActive",
    "ClusterVersionUpgradeable",
    "ControlPlaneHighlyAvailable",
];

impl HostedClusters {
    pub(super) async fn ensure_control_plane(
        &self,
        cluster: &HostedCluster,
        blueprint: &Blueprint,
    ) -> Result<(), Error> {
        let spec = HostedControlPlaneSpec::from(&cluster.spec);
        let mut desired = HostedControlPlane::new(&blueprint.cluster.name, spec);
        desired.metadata = manifests::in_namespace(blueprint, &blueprint.cluster.name);
        let api = self.control_planes(blueprint);
        apply::ensure(&api, self.caches.control_planes.get(&ObjectKey::of(&desired)), &desired).await?;
        Ok(())
    }

    /// Says of the control plane what the cluster says of it.
    pub(super) async fn write_control_plane(
        &self,
        blueprint: &Blueprint,
        status: &HostedClusterStatus,
    ) -> Result<(), Error> {
        let name = blueprint.cluster.name.as_str();
        let key = ObjectKey::namespaced(&blueprint.namespace, name);
        let cached = self.caches.control_planes.get(&key);
        let desired = of_cluster(status);
        if cached.is_some_and(|cached| cached.status.as_ref() == Some(&desired)) {
            return Ok(());
        }
        let patch = Patch::Merge(json!({ "status": desired }));
        match self.control_planes(blueprint).patch_status(name, &PatchParams::default(), &patch).await {
            Ok(_) => Ok(()),
            // The pass did not come as far as making it.
            Err(error) if crate::error::is_missing(&error) => Ok(()),
            Err(error) => {
                Err(Error::management("change the status of", format!("HostedControlPlane {key}"), error))
            }
        }
    }

    fn control_planes(&self, blueprint: &Blueprint) -> Api<HostedControlPlane> {
        Api::namespaced(self.client(), &blueprint.namespace)
    }
}

fn of_cluster(status: &HostedClusterStatus) -> HostedControlPlaneStatus {
    let runs = status.control_plane_version.iter().flat_map(|version| &version.history);
    let runs = runs.into_iter().find(|entry| entry.state == HistoryState::Completed);
    HostedControlPlaneStatus {
        ready: is_condition_true(&status.conditions, "Available"),
        initialized: history::has_run(status),
        external_managed_control_plane: Some(true),
        control_plane_endpoint: status
            .control_plane_endpoint
            .as_ref()
            .map(|endpoint| ControlPlaneEndpoint { host: endpoint.host.clone(), port: endpoint.port }),
        // Not `null`: a patch that says so takes the key away, and readers expect it.
        version_status: status.version.clone().map(|version| ClusterVersionStatus {
            available_updates: Some(version.available_updates.unwrap_or_default()),
            ..version
        }),
        control_plane_version: status.control_plane_version.clone(),
        version: runs.map(|entry| entry.version.clone()).unwrap_or_default(),
        release_image: runs.map(|entry| entry.image.clone()).unwrap_or_default(),
        last_release_image_transition_time: runs.and_then(|entry| entry.completion_time.clone()),
        kube_config: status
            .kubeconfig
            .as_ref()
            .map(|_| KeyReference { name: "admin-kubeconfig".to_owned(), key: "kubeconfig".to_owned() }),
        conditions: status
            .conditions
            .iter()
            .filter(|condition| SHARED.contains(&condition.type_.as_str()))
            .cloned()
            .map(|mut condition| {
                // Generations are counted for each object by itself.
                condition.observed_generation = None;
                condition
            })
            .collect(),
        ..HostedControlPlaneStatus::default()
    }
}
