//! `HostedCluster`: a cluster whose control plane runs here.

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

mod etcd;
mod networking;
mod publishing;
mod status;

pub use self::etcd::{
    Etcd, EtcdManagementType, EtcdStorage, EtcdStorageType, ManagedEtcd, PersistentVolumeStorage,
};
pub use self::networking::{AdvertisedAddress, ClusterNetworkEntry, Dns, Networking, ServiceNetworkEntry};
pub use self::publishing::{
    LoadBalancerPublishing, NodePortPublishing, PublishedService, PublishingStrategy, PublishingType,
    RoutePublishing, ServicePublishing,
};
pub use self::status::{
    ClusterVersionStatus, ControlPlaneEndpoint, ControlPlaneVersionStatus, HistoryEntry, HistoryState,
    HostedClusterStatus,
};

/// What a hosted cluster should be.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "hypershift.openshift.io",
    version = "v1beta1",
    kind = "HostedCluster",
    plural = "hostedclusters",
    shortname = "hc",
    shortname = "hcs",
    namespaced,
    status = "HostedClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A cluster whose control plane is hosted on this management cluster.",
    printcolumn = r#"{"name": "Version", "type": "string", "jsonPath": ".status.version.history[?(@.state==\"Completed\")].version", "description": "Version"}"#,
    printcolumn = r#"{"name": "CP Version", "type": "string", "jsonPath": ".status.controlPlaneVersion.history[?(@.state==\"Completed\")].version", "description": "Version of the control plane"}"#,
    printcolumn = r#"{"name": "KubeConfig", "type": "string", "jsonPath": ".status.kubeconfig.name", "description": "Secret with the administrator's kubeconfig"}"#,
    printcolumn = r#"{"name": "Progress", "type": "string", "jsonPath": ".status.version.history[?(@.state!=\"\")].state", "description": "Progress"}"#,
    printcolumn = r#"{"name": "Available", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Available\")].status", "description": "Available"}"#,
    printcolumn = r#"{"name": "Progressing", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Progressing\")].status", "description": "Progressing"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Available\")].message", "description": "Message"}"#,
    printcolumn = r#"{"name": "CP Progress", "type": "string", "jsonPath": ".status.controlPlaneVersion.history[0].state", "description": "Progress of the control plane", "priority": 1}"#,
    printcolumn = r#"{"name": "DP Progress", "type": "string", "jsonPath": ".status.version.history[0].state", "description": "Progress of the whole cluster", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
pub struct HostedClusterSpec {
    /// The release the cluster runs. Changing it upgrades the cluster.
    pub release: Release,
    /// Another release for what runs on the management side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_release: Option<Release>,
    /// A UUID that names the cluster; made up if absent.
    #[serde(rename = "clusterID", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("clusterID")))]
    pub cluster_id: Option<String>,
    /// What the cluster's infrastructure is named after; made up if absent.
    #[serde(rename = "infraID", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("infraID")))]
    pub infra_id: Option<String>,
    /// The update channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Where the cluster's nodes come from.
    pub platform: Platform,
    /// How many replicas the control plane has.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("controllerAvailabilityPolicy")))]
    pub controller_availability_policy: AvailabilityPolicy,
    /// How many replicas infrastructure inside the cluster has.
    #[serde(default = "AvailabilityPolicy::single")]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("infrastructureAvailabilityPolicy")))]
    pub infrastructure_availability_policy: AvailabilityPolicy,
    /// Names the cluster is reachable by.
    #[serde(default, skip_serializing_if = "Dns::is_empty")]
    pub dns: Dns,
    /// Address ranges.
    #[serde(default)]
    pub networking: Networking,
    /// Where the cluster's state is kept.
    #[serde(default)]
    pub etcd: Etcd,
    /// How the control plane's services are published.
    #[serde(default)]
    pub services: Vec<ServicePublishing>,
    /// The Secret with credentials for image registries.
    #[serde(default)]
    pub pull_secret: Reference,
    /// The Secret with the public key of administrators.
    #[serde(default, skip_serializing_if = "Reference::is_empty")]
    pub ssh_key: Reference,
    /// Who signs service account tokens, as a URL.
    #[serde(rename = "issuerURL", default = "default_issuer")]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("issuerURL")))]
    pub issuer_url: String,
    /// The Secret with the key that signs service account tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_signing_key: Option<Reference>,
    /// Nothing is reconciled until this time, or for as long as it is `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// An image that stands for a release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Release {
    /// The image.
    #[schemars(length(min = 1, max = 253), regex(pattern = r"^(\w+\S+)$"))]
    pub image: String,
}

/// A Secret or ConfigMap in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reference {
    /// Its name.
    #[serde(default)]
    pub name: String,
}

/// Where nodes come from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Platform {
    /// Which platform it is.
    #[serde(rename = "type")]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("platform.type")))]
    pub type_: PlatformType,
    /// What that platform needs to know.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// The platforms there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PlatformType {
    /// Amazon Web Services.
    #[serde(rename = "AWS")]
    Aws,
    /// Microsoft Azure.
    Azure,
    /// IBM Cloud.
    #[serde(rename = "IBMCloud")]
    IbmCloud,
    /// Virtual machines of KubeVirt.
    KubeVirt,
    /// Machines that report themselves.
    Agent,
    /// IBM Power Virtual Server.
    #[serde(rename = "PowerVS")]
    PowerVs,
    /// No platform.
    #[default]
    None,
    /// OpenStack.
    OpenStack,
    /// Google Cloud.
    #[serde(rename = "GCP")]
    Gcp,
}

/// Whether something survives the loss of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AvailabilityPolicy {
    /// Several replicas.
    #[default]
    HighlyAvailable,
    /// One replica.
    SingleReplica,
}

// === impl AvailabilityPolicy ===

impl AvailabilityPolicy {
    fn single() -> Self {
        Self::SingleReplica
    }
}

// === impl Reference ===

impl Reference {
    /// A reference to the object of this name.
    pub fn to(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }

    fn is_empty(&self) -> bool {
        self.name.is_empty()
    }
}

fn default_issuer() -> String {
    "https://kubernetes.default.svc".to_owned()
}
