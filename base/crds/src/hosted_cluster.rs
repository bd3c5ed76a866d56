//! `HostedCluster`: a cluster whose control plane runs here.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::schema;

mod autoscaling;
mod configuration;
mod encryption;
mod etcd;
mod networking;
mod platform;
mod publishing;
mod reference;
mod status;

pub use self::autoscaling::{ClusterAutoscaling, Expander, ScaleDown, Scaling};
pub use self::configuration::{
    Capabilities, ClusterConfiguration, ImageContentSource, OlmCatalogPlacement, OptionalCapability,
};
pub use self::encryption::{
    Aescbc, AzureKms, AzureKmsKey, Kms, KmsProvider, SecretEncryption, SecretEncryptionType,
};
pub use self::etcd::{
    Etcd, EtcdManagementType, EtcdStorage, EtcdStorageType, EtcdTls, ManagedEtcd, PersistentVolumeStorage,
    UnmanagedEtcd,
};
pub use self::networking::{
    AdvertisedAddress, ClusterNetworkEntry, Dns, Networking, ServiceNetworkEntry, Switch,
};
pub use self::platform::{
    AgentPlatform, InfraCredentials, KubeVirtPlatform, Platform, PlatformType, StorageClassMapping,
    StorageDriver, StorageDriverType, StorageMappings, VolumeSnapshotClassMapping,
};
pub use self::publishing::{
    LoadBalancerPublishing, NodePortPublishing, PublishedService, PublishingStrategy, PublishingType,
    RoutePublishing, ServicePublishing,
};
pub use self::reference::{KeyReference, Reference, Release};
pub use self::status::{
    ClusterVersionStatus, ControlPlaneEndpoint, ControlPlaneVersionStatus, DesiredRelease, HistoryEntry,
    HistoryState, HostedClusterStatus,
};

/// What a hosted cluster should be.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    printcolumn = r#"{"name": "Payload", "type": "string", "jsonPath": ".status.payload", "description": "The programs of the control plane", "priority": 1}"#,
    printcolumn = r#"{"name": "CP Progress", "type": "string", "jsonPath": ".status.controlPlaneVersion.history[0].state", "description": "Progress of the control plane", "priority": 1}"#,
    printcolumn = r#"{"name": "DP Progress", "type": "string", "jsonPath": ".status.version.history[0].state", "description": "Progress of the whole cluster", "priority": 1}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(
    transform = schema::required(&["services", "pullSecret"]),
    extend("x-kubernetes-validations" = [
        schema::irremovable("clusterID"),
        schema::irremovable("infraID"),
        schema::irremovable("secretEncryption"),
        schema::rule(
            "self.services.size() >= (self.platform.type == 'IBMCloud' ? 3 : 4)",
            "services has at least 4 entries, or 3 on IBMCloud",
        ),
        schema::rule(
            "self.platform.type == 'IBMCloud' || self.services == oldSelf.services",
            "services is immutable",
        ),
        schema::rule(
            "self.platform.type != 'Azure' || self.services.all(s, \
             !(s.service in ['Konnectivity', 'Ignition']) || s.servicePublishingStrategy.type == 'Route')",
            "Konnectivity and Ignition are published by Route on Azure",
        ),
        schema::rule(
            "self.platform.type != 'Azure' || self.services.all(s, s.service != 'OAuthServer' || \
             s.servicePublishingStrategy.type in ['Route', 'LoadBalancer'])",
            "OAuthServer is published by Route or LoadBalancer on Azure",
        ),
        schema::rule(
            "!has(self.serviceAccountSigningKey) || (has(self.issuerURL) && self.issuerURL != '')",
            "serviceAccountSigningKey requires issuerURL",
        ),
    ])
)]
pub struct HostedClusterSpec {
    /// The release the cluster runs. Changing it upgrades the cluster.
    pub release: Release,
    /// Another release for what runs on the management side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_release: Option<Release>,
    /// A UUID that names the cluster; made up if absent.
    #[serde(rename = "clusterID", skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 36),
        regex(pattern = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"),
        extend("x-kubernetes-validations" = schema::immutable("clusterID"))
    )]
    pub cluster_id: Option<String>,
    /// What the cluster's infrastructure is named after; made up if absent.
    #[serde(rename = "infraID", skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 253),
        regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
        extend("x-kubernetes-validations" = schema::immutable("infraID"))
    )]
    pub infra_id: Option<String>,
    /// Where the graph of possible updates is found, as a URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_service: Option<String>,
    /// The update channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 100))]
    pub channel: Option<String>,
    /// Where the cluster's nodes come from.
    pub platform: Platform,
    /// Another name of the API server, for which there is a kubeconfig of its own.
    #[serde(rename = "kubeAPIServerDNSName", skip_serializing_if = "Option::is_none")]
    #[schemars(
        length(max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub kube_api_server_dns_name: Option<String>,
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
    /// How the number of nodes follows the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<ClusterAutoscaling>,
    /// Nodes that come and go by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::open_object")]
    pub auto_node: Option<Value>,
    /// Where the cluster's state is kept.
    #[serde(default)]
    pub etcd: Etcd,
    /// How the control plane's services are published.
    #[serde(default)]
    #[schemars(length(max = 6), extend("x-kubernetes-validations" = publishing::distinct_hosts()))]
    pub services: Vec<ServicePublishing>,
    /// The Secret with credentials for image registries, in key `.dockerconfigjson`.
    #[serde(default)]
    pub pull_secret: Reference,
    /// The Secret with the public key of administrators, in key `id_rsa.pub`.
    #[serde(default, skip_serializing_if = "Reference::is_empty")]
    pub ssh_key: Reference,
    /// Who signs service account tokens, as a URL.
    #[serde(rename = "issuerURL", default = "default_issuer")]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("issuerURL")))]
    pub issuer_url: String,
    /// The Secret with the key that signs service account tokens, in key `key`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_signing_key: Option<Reference>,
    /// What OpenShift's configuration objects would hold inside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<ClusterConfiguration>,
    /// Settings of the operators that belong to the control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "configuration::of_operators")]
    pub operator_configuration: Option<Value>,
    /// The Secret that says where audit records go, in key `webhook-kubeconfig`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("auditWebhook")))]
    pub audit_webhook: Option<Reference>,
    /// Where images are found besides where their names say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 255))]
    pub image_content_sources: Vec<ImageContentSource>,
    /// The ConfigMap with further authorities to trust, in key `ca-bundle.crt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_trust_bundle: Option<Reference>,
    /// How secrets are encrypted where they are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_encryption: Option<SecretEncryption>,
    /// Whether only certified cryptography is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-kubernetes-validations" = schema::immutable("fips")))]
    pub fips: Option<bool>,
    /// Nothing is reconciled until this time, or for as long as it is `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 4, max = 35), extend("x-kubernetes-validations" = [schema::pause()]))]
    pub paused_until: Option<String>,
    /// Where the catalogues of operators run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend(
        "default" = "management",
        "x-kubernetes-validations" = schema::immutable("olmCatalogPlacement")
    ))]
    pub olm_catalog_placement: Option<OlmCatalogPlacement>,
    /// Which nodes the control plane's pods may run on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20))]
    pub node_selector: BTreeMap<String, String>,
    /// Which taints the control plane's pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tolerations")]
    pub tolerations: Vec<Toleration>,
    /// Labels of the control plane's pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 20))]
    pub labels: BTreeMap<String, String>,
    /// Which optional parts the cluster has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// What of the control plane's metrics goes where.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "configuration::of_monitoring")]
    pub monitoring: Option<Value>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
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

// === impl HostedClusterSpec ===

/// What the API server would make of a spec with nothing but its services.
impl Default for HostedClusterSpec {
    fn default() -> Self {
        Self {
            release: Release::default(),
            control_plane_release: None,
            cluster_id: None,
            infra_id: None,
            update_service: None,
            channel: None,
            platform: Platform::default(),
            kube_api_server_dns_name: None,
            controller_availability_policy: AvailabilityPolicy::default(),
            infrastructure_availability_policy: AvailabilityPolicy::single(),
            dns: Dns::default(),
            networking: Networking::default(),
            autoscaling: None,
            auto_node: None,
            etcd: Etcd::default(),
            services: ServicePublishing::by_routes(),
            pull_secret: Reference::default(),
            ssh_key: Reference::default(),
            issuer_url: default_issuer(),
            service_account_signing_key: None,
            configuration: None,
            operator_configuration: None,
            audit_webhook: None,
            image_content_sources: Vec::new(),
            additional_trust_bundle: None,
            secret_encryption: None,
            fips: None,
            paused_until: None,
            olm_catalog_placement: None,
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            labels: BTreeMap::new(),
            capabilities: None,
            monitoring: None,
            other: BTreeMap::new(),
        }
    }
}

// === impl AvailabilityPolicy ===

impl AvailabilityPolicy {
    fn single() -> Self {
        Self::SingleReplica
    }
}

fn default_issuer() -> String {
    "https://kubernetes.default.svc".to_owned()
}
