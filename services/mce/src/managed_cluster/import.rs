//! Managed clusters that are made here.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use kube::api::ObjectMeta;
use pilothouse_crds::{ClientConfig, HostedCluster, ManagedCluster, ManagedClusterSpec};
use pilothouse_informer::ObjectKey;

use super::LOCAL_CLUSTER;

/// Who made a managed cluster.
const CREATED_VIA: &str = "open-cluster-management/created-via";
const HYPERSHIFT: &str = "hypershift";
/// The hosted cluster that an object belongs to, as `namespace/name`.
const HOSTED_CLUSTER: &str = "hypershift.openshift.io/cluster";

/// The managed cluster of a hosted cluster.
pub(super) fn managed_cluster(hosted: &HostedCluster) -> ManagedCluster {
    let name = hosted.name_any();
    // What a hosted cluster says itself goes before what is usual.
    let mut labels = usual_labels(&name);
    labels.extend(hosted.labels().clone());
    let annotations = [
        ("import.open-cluster-management.io/klusterlet-deploy-mode", "Hosted".to_owned()),
        ("import.open-cluster-management.io/hosting-cluster-name", LOCAL_CLUSTER.to_owned()),
        (CREATED_VIA, HYPERSHIFT.to_owned()),
        (HOSTED_CLUSTER, ObjectKey::of(hosted).to_string()),
    ];
    let spec = ManagedClusterSpec {
        hub_accepts_client: true,
        managed_cluster_client_configs: client_configs(hosted),
        ..ManagedClusterSpec::default()
    };
    let mut cluster = ManagedCluster::new(&name, spec);
    cluster.metadata.labels = Some(labels);
    cluster.metadata.annotations =
        Some(annotations.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
    cluster
}

/// The managed cluster that is the cluster itself. It goes with the engine that wants it.
pub(super) fn local_cluster(engine: &OwnerReference, url: Option<&str>) -> ManagedCluster {
    let mut labels = usual_labels(LOCAL_CLUSTER);
    labels.insert(LOCAL_CLUSTER.to_owned(), "true".to_owned());
    let client_config = |url: &str| ClientConfig { url: url.to_owned(), ca_bundle: None };
    ManagedCluster {
        metadata: ObjectMeta {
            name: Some(LOCAL_CLUSTER.to_owned()),
            labels: Some(labels),
            owner_references: Some(vec![engine.clone()]),
            ..ObjectMeta::default()
        },
        spec: ManagedClusterSpec {
            hub_accepts_client: true,
            managed_cluster_client_configs: url.map(client_config).into_iter().collect(),
            ..ManagedClusterSpec::default()
        },
        status: None,
    }
}

/// The hosted cluster that a managed cluster was made for here. Others' managed clusters have none.
pub(super) fn source(cluster: &ManagedCluster) -> Option<ObjectKey> {
    let annotations = cluster.annotations();
    if annotations.get(CREATED_VIA).map(String::as_str) != Some(HYPERSHIFT) {
        return None;
    }
    let (namespace, name) = annotations.get(HOSTED_CLUSTER)?.split_once('/')?;
    Some(ObjectKey::namespaced(namespace, name))
}

/// Where a hosted cluster's API server is, once that is known.
pub(super) fn client_configs(hosted: &HostedCluster) -> Vec<ClientConfig> {
    let endpoint = hosted.status.as_ref().and_then(|status| status.control_plane_endpoint.as_ref());
    let endpoint = endpoint.filter(|endpoint| !endpoint.host.is_empty());
    endpoint
        .map(|endpoint| ClientConfig {
            url: format!("https://{}:{}", endpoint.host, endpoint.port),
            ca_bundle: None,
        })
        .into_iter()
        .collect()
}

fn usual_labels(name: &str) -> BTreeMap<String, String> {
    [
        ("name", name),
        ("cloud", "auto-detect"),
        ("vendor", "auto-detect"),
        ("cluster.open-cluster-management.io/clusterset", "default"),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}
