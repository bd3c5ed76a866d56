//! The control plane as an object of its own, in the namespace where it runs: what Cluster API and people look at there.

use kube::Api;
use kube::api::PostParams;
use pilothouse_crds::{
    ClusterVersionStatus, ControlPlaneEndpoint, HistoryState, HostedCluster, HostedClusterStatus,
    HostedControlPlane, HostedControlPlaneSpec, HostedControlPlaneStatus, KeyReference, is_condition_true,
};
use pilothouse_informer::ObjectKey;

use super::blueprint::Blueprint;
use super::{HostedClusters, history, kubeconfigs, manifests};
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

/// Parts of a specification that may be taken back.
const OPTIONAL: [&str; 4] =
    ["/spec/kubeAPIServerDNSName", "/spec/configuration", "/spec/nodeSelector", "/spec/labels"];

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
        let cached = self.caches.control_planes.get(&ObjectKey::of(&desired));
        apply::ensure_whole(&api, cached, &desired, &OPTIONAL).await?;
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
        let api = self.control_planes(blueprint);
        let failed =
            |error| Error::management("change the status of", format!("HostedControlPlane {key}"), error);
        // The pass may not have come as far as making it.
        let Some(mut found) = api.get_opt(name).await.map_err(failed)? else { return Ok(()) };
        found.status = Some(desired);
        // Not by a patch: what is `null` in it, as the end of a version that is not complete, would be taken for absent.
        match api.replace_status(name, &PostParams::default(), &found).await {
            Ok(_) => Ok(()),
            Err(error) if crate::error::is_missing(&error) => Ok(()),
            Err(error) => Err(failed(error)),
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
        // Not `null`: readers expect a list.
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
        custom_kubeconfig: status
            .custom_kubeconfig
            .as_ref()
            .map(|_| KeyReference { name: kubeconfigs::CUSTOM.to_owned(), key: "kubeconfig".to_owned() }),
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
