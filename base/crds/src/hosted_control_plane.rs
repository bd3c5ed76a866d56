//! `HostedControlPlane`: a hosted cluster's control plane, in the namespace where it runs.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    AvailabilityPolicy, Capabilities, ClusterAutoscaling, ClusterConfiguration, ClusterVersionStatus,
    Condition, ControlPlaneEndpoint, ControlPlaneVersionStatus, Dns, Etcd, HostedClusterSpec, KeyReference,
    Networking, OlmCatalogPlacement, Platform, Reference, SecretEncryption, ServicePublishing, schema,
};

/// What a control plane should be: what its cluster says, as far as the control plane must know it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "hypershift.openshift.io",
    version = "v1beta1",
    kind = "HostedControlPlane",
    plural = "hostedcontrolplanes",
    shortname = "hcp",
    shortname = "hcps",
    category = "cluster-api",
    namespaced,
    status = "HostedControlPlaneStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "The control plane of a hosted cluster, in the namespace where it runs."
)]
#[serde(rename_all = "camelCase")]
pub struct HostedControlPlaneSpec {
    /// The image of the release.
    pub release_image: String,
    /// Another one for what runs on the management side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_release_image: Option<String>,
    /// A UUID that names the cluster.
    #[serde(rename = "clusterID", skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// What the cluster's infrastructure is named after.
    #[serde(rename = "infraID", skip_serializing_if = "Option::is_none")]
    pub infra_id: Option<String>,
    /// Who signs service account tokens, as a URL.
    #[serde(rename = "issuerURL", default)]
    pub issuer_url: String,
    /// Where the cluster's nodes come from.
    pub platform: Platform,
    /// Another name of the API server.
    #[serde(rename = "kubeAPIServerDNSName", skip_serializing_if = "Option::is_none")]
    pub kube_api_server_dns_name: Option<String>,
    /// How many replicas the control plane has.
    #[serde(default)]
    pub controller_availability_policy: AvailabilityPolicy,
    /// How many replicas infrastructure inside the cluster has.
    #[serde(default)]
    pub infrastructure_availability_policy: AvailabilityPolicy,
    /// Names the cluster is reachable by.
    #[serde(default)]
    pub dns: Dns,
    /// Address ranges.
    #[serde(default)]
    pub networking: Networking,
    /// How the number of nodes follows the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<ClusterAutoscaling>,
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
    /// The Secret with the key that signs service account tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_signing_key: Option<Reference>,
    /// What OpenShift's configuration objects would hold inside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<ClusterConfiguration>,
    /// The Secret that says where audit records go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit_webhook: Option<Reference>,
    /// The ConfigMap with further authorities to trust.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub additional_trust_bundle: Option<Reference>,
    /// How secrets are encrypted where they are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_encryption: Option<SecretEncryption>,
    /// Whether only certified cryptography is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fips: Option<bool>,
    /// Nothing is reconciled until this time, or for as long as it is `true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<String>,
    /// Where the catalogues of operators run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub olm_catalog_placement: Option<OlmCatalogPlacement>,
    /// Which nodes the control plane's pods may run on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Which taints the control plane's pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::tolerations")]
    pub tolerations: Vec<Toleration>,
    /// Labels of the control plane's pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Which optional parts the cluster has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

/// What was observed of a control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostedControlPlaneStatus {
    /// Whether it can be used.
    #[serde(default)]
    pub ready: bool,
    /// Whether it could ever be used.
    #[serde(default)]
    pub initialized: bool,
    /// Whether somebody else than Cluster API looks after it: yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_managed_control_plane: Option<bool>,
    /// Where the API server is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ControlPlaneEndpoint>,
    /// Which versions the cluster ran and runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_status: Option<ClusterVersionStatus>,
    /// Which versions the control plane ran and runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_version: Option<ControlPlaneVersionStatus>,
    /// The version that it runs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The image of the release that it runs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub release_image: String,
    /// Since when it runs that release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::optional_time")]
    pub last_release_image_transition_time: Option<Time>,
    /// The Secret with the administrator's kubeconfig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_config: Option<KeyReference>,
    /// The Secret with the kubeconfig for the further name of the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub custom_kubeconfig: Option<KeyReference>,
    /// The Secret with the password of user `kubeadmin`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeadmin_password: Option<Reference>,
    /// How many nodes the cluster has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_count: Option<i32>,
    /// What holds and what does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Everything else.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

// === impl HostedControlPlaneSpec ===

/// What a control plane must know of its cluster. What is not modelled goes along.
impl From<&HostedClusterSpec> for HostedControlPlaneSpec {
    fn from(cluster: &HostedClusterSpec) -> Self {
        let cluster = cluster.clone();
        Self {
            release_image: cluster.release.image,
            control_plane_release_image: cluster.control_plane_release.map(|release| release.image),
            cluster_id: cluster.cluster_id,
            infra_id: cluster.infra_id,
            issuer_url: cluster.issuer_url,
            platform: cluster.platform,
            kube_api_server_dns_name: cluster.kube_api_server_dns_name,
            controller_availability_policy: cluster.controller_availability_policy,
            infrastructure_availability_policy: cluster.infrastructure_availability_policy,
            dns: cluster.dns,
            networking: cluster.networking,
            autoscaling: cluster.autoscaling,
            etcd: cluster.etcd,
            services: cluster.services,
            pull_secret: cluster.pull_secret,
            ssh_key: cluster.ssh_key,
            service_account_signing_key: cluster.service_account_signing_key,
            configuration: cluster.configuration,
            audit_webhook: cluster.audit_webhook,
            additional_trust_bundle: cluster.additional_trust_bundle,
            secret_encryption: cluster.secret_encryption,
            fips: cluster.fips,
            paused_until: cluster.paused_until,
            olm_catalog_placement: cluster.olm_catalog_placement,
            node_selector: cluster.node_selector,
            tolerations: cluster.tolerations,
            labels: cluster.labels,
            capabilities: cluster.capabilities,
            other: cluster.other,
        }
    }
}
