use std::collections::BTreeMap;

use pilothouse_arm::{ProvisioningState, ResourceId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::etcd::{DataEncryption, Etcd, Key};
use super::{CustomerManaged, Kms};
use crate::hub;
use crate::invalid::Problems;
use crate::schema::{CREATED, IdentityId, SecurityGroupId, SubnetId};
use crate::wire::Properties;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterProperties {
    #[serde(flatten)]
    common: ClusterCommon,
    /// What the control plane runs.
    version: Option<VersionProfile>,
    /// Where the cluster stands in the cloud.
    #[schemars(required)]
    platform: Option<Platform>,
    /// How the cluster's state is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    etcd: Option<Etcd<DataEncryption<Kms<Key>>>>,
}

/// What is the same in every version.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterCommon {
    /// What the cluster is at.
    #[serde(skip_deserializing)]
    provisioning_state: Option<ProvisioningState>,
    /// The cluster's host names.
    dns: Option<Dns>,
    /// The cluster's address ranges.
    #[schemars(extend("x-ms-mutability" = CREATED))]
    network: Option<Network>,
    /// The cluster's web console, once there is one.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    console: Option<Console>,
    /// The cluster's API server.
    api: Option<Api>,
    /// How node pools may grow together.
    autoscaling: Option<Autoscaling>,
    /// How long a node may take to be emptied; 0 for as long as it takes.
    #[schemars(range(min = 0, max = 10080), extend("default" = 0))]
    node_drain_timeout_minutes: Option<i32>,
    /// Whether the cluster has an image registry of its own.
    #[schemars(extend("x-ms-mutability" = CREATED))]
    cluster_image_registry: Option<Registry>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct VersionProfile {
    /// The minor version, such as 4.20; chosen by the service if absent.
    #[schemars(extend("x-ms-mutability" = CREATED))]
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// The channel it comes from.
    #[schemars(extend("default" = "stable"))]
    channel_group: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Dns {
    /// The zone of the host names.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    base_domain: Option<String>,
    /// The first label of the host names; chosen by the service if absent.
    #[schemars(extend("x-ms-mutability" = CREATED), length(max = 15), regex(pattern = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    base_domain_prefix: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Network {
    /// The network plug-in.
    #[schemars(extend("default" = "OVNKubernetes"))]
    network_type: Option<hub::NetworkType>,
    /// The addresses of pods.
    #[schemars(extend("default" = "10.128.0.0/14"))]
    pod_cidr: Option<String>,
    /// The addresses of services.
    #[schemars(extend("default" = "172.30.0.0/16"))]
    service_cidr: Option<String>,
    /// The addresses of machines.
    #[schemars(extend("default" = "10.0.0.0/16"))]
    machine_cidr: Option<String>,
    /// The size of one node's part of the pods' addresses.
    #[schemars(range(min = 23, max = 26), extend("default" = 23))]
    host_prefix: Option<i32>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Console {
    /// Where it answers.
    url: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Api {
    /// Where it answers.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Who may reach it.
    #[schemars(extend("x-ms-mutability" = CREATED, "default" = "Public"))]
    visibility: Option<hub::Visibility>,
    /// From where it may be called; from everywhere if absent.
    #[schemars(length(min = 1, max = 500))]
    #[serde(skip_serializing_if = "Option::is_none")]
    authorized_cidrs: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Platform {
    /// The resource group of the cluster's own cloud resources; named by the service if absent.
    #[schemars(extend("x-ms-mutability" = CREATED), length(min = 1, max = 90))]
    #[serde(skip_serializing_if = "Option::is_none")]
    managed_resource_group: Option<String>,
    /// The subnet of the nodes.
    #[schemars(required, with = "Option<SubnetId>", extend("x-ms-mutability" = CREATED))]
    #[serde(skip_serializing_if = "Option::is_none")]
    subnet_id: Option<ResourceId>,
    /// How traffic leaves the cluster.
    #[schemars(extend("x-ms-mutability" = CREATED, "default" = "LoadBalancer"))]
    outbound_type: Option<hub::OutboundType>,
    /// The security group of the subnet.
    #[schemars(required, with = "Option<SecurityGroupId>", extend("x-ms-mutability" = CREATED))]
    #[serde(skip_serializing_if = "Option::is_none")]
    network_security_group_id: Option<ResourceId>,
    /// Under which identities the operators act.
    #[schemars(required, extend("x-ms-mutability" = CREATED))]
    #[serde(skip_serializing_if = "Option::is_none")]
    operators_authentication: Option<OperatorsAuthentication>,
    /// Who issues the tokens of the cluster's service accounts.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    issuer_url: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct OperatorsAuthentication {
    /// Identities that the owner looks after.
    #[schemars(required)]
    user_assigned_identities: Option<UserAssignedIdentities>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct UserAssignedIdentities {
    /// Of the operators in the control plane, by operator.
    #[schemars(required, with = "Option<BTreeMap<String, IdentityId>>")]
    control_plane_operators: Option<BTreeMap<String, ResourceId>>,
    /// Of the operators in the cluster, by operator.
    #[schemars(required, with = "Option<BTreeMap<String, IdentityId>>")]
    data_plane_operators: Option<BTreeMap<String, ResourceId>>,
    /// Of the service itself.
    #[schemars(required, with = "Option<IdentityId>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    service_managed_identity: Option<ResourceId>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Autoscaling {
    /// Nodes of all pools; 0 for the usual limit.
    #[schemars(range(min = 0, max = 500), extend("default" = 0))]
    max_nodes_total: Option<i32>,
    /// What pods are granted when a node is given up.
    #[schemars(range(min = 1), extend("default" = 600))]
    max_pod_grace_period_seconds: Option<i32>,
    /// How long a node may take to come.
    #[schemars(range(min = 1), extend("default" = 900))]
    max_node_provision_time_seconds: Option<i32>,
    /// Pods below this priority do not cause growth.
    #[schemars(extend("default" = -10))]
    pod_priority_threshold: Option<i32>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Registry {
    /// Whether there is one.
    #[schemars(extend("default" = "Enabled"))]
    state: Option<hub::RegistryState>,
}

// === impl ClusterProperties ===

impl Properties for ClusterProperties {
    type Hub = hub::Cluster;

    fn read(self, existing: Option<&hub::ClusterSpec>, problems: &mut Problems) -> hub::ClusterSpec {
        let Self { common, version, platform, etcd } = self;
        let VersionProfile { id, channel_group } = version.unwrap_or_default();
        let kept = existing.map(|spec| &spec.version);
        let version = hub::VersionProfile {
            // Absent keeps what was chosen, by the owner or by the service.
            id: id.or_else(|| kept?.id.clone()),
            channel_group: channel_group.unwrap_or_else(|| hub::VersionProfile::default().channel_group),
        };
        hub::ClusterSpec {
            version,
            platform: platform.unwrap_or_default().read(existing.map(|spec| &spec.platform)),
            etcd: Etcd::read(etcd, existing.map(|spec| &spec.etcd), problems),
            ..common.read(existing)
        }
    }

    fn write(spec: &hub::ClusterSpec, status: &hub::ClusterStatus) -> Self {
        let hub::ClusterSpec {
            version,
            platform,
            etcd,
            // In the common part.
            base_domain_prefix: _,
            network: _,
            api: _,
            autoscaling: _,
            node_drain_timeout_minutes: _,
            image_registry: _,
            // Not in this version.
            ingress: _,
            image_digest_mirrors: _,
            crypto_restrictions: _,
        } = spec;
        let hub::VersionProfile { id, channel_group } = version.clone();
        Self {
            common: ClusterCommon::write(spec, status),
            version: Some(VersionProfile { id, channel_group: Some(channel_group) }),
            platform: Some(Platform::write(platform, status)),
            etcd: Some(Etcd {
                data_encryption: Some(DataEncryption::write(etcd.customer_key.as_ref(), |key| {
                    CustomerManaged::write(key)
                })),
            }),
        }
    }
}

// === impl parts ===

impl ClusterCommon {
    /// What is said in every version; everything else is as it was.
    pub(crate) fn read(self, existing: Option<&hub::ClusterSpec>) -> hub::ClusterSpec {
        let Self {
            provisioning_state: _,
            dns,
            network,
            console: _,
            api,
            autoscaling,
            node_drain_timeout_minutes,
            cluster_image_registry,
        } = self;
        let Dns { base_domain: _, base_domain_prefix } = dns.unwrap_or_default();
        let Api { url: _, visibility, authorized_cidrs } = api.unwrap_or_default();
        hub::ClusterSpec {
            base_domain_prefix: base_domain_prefix.or_else(|| existing?.base_domain_prefix.clone()),
            network: network.unwrap_or_default().read(),
            api: hub::Api { visibility: visibility.unwrap_or_default(), authorized_cidrs },
            autoscaling: autoscaling.unwrap_or_default().read(),
            node_drain_timeout_minutes: node_drain_timeout_minutes.unwrap_or(0),
            image_registry: cluster_image_registry.unwrap_or_default().state.unwrap_or_default(),
            ..existing.cloned().unwrap_or_default()
        }
    }

    pub(crate) fn write(spec: &hub::ClusterSpec, status: &hub::ClusterStatus) -> Self {
        let hub::ClusterStatus {
            provisioning_state,
            base_domain,
            api_url,
            console_url,
            // In the platform.
            issuer_url: _,
            // Where a version has a status.
            active_versions: _,
            conditions: _,
        } = status.clone();
        let hub::Api { visibility, authorized_cidrs } = spec.api.clone();
        Self {
            provisioning_state: Some(provisioning_state),
            dns: Some(Dns { base_domain, base_domain_prefix: spec.base_domain_prefix.clone() }),
            network: Some(Network::write(&spec.network)),
            console: console_url.map(|url| Console { url }),
            api: Some(Api { url: api_url, visibility: Some(visibility), authorized_cidrs }),
            autoscaling: Some(Autoscaling::write(&spec.autoscaling)),
            node_drain_timeout_minutes: Some(spec.node_drain_timeout_minutes),
            cluster_image_registry: Some(Registry { state: Some(spec.image_registry) }),
        }
    }
}

impl Network {
    fn read(self) -> hub::Network {
        let Self { network_type, pod_cidr, service_cidr, machine_cidr, host_prefix } = self;
        let default = hub::Network::default();
        hub::Network {
            network_type: network_type.unwrap_or_default(),
            pod_cidr: pod_cidr.unwrap_or(default.pod_cidr),
            service_cidr: service_cidr.unwrap_or(default.service_cidr),
            machine_cidr: machine_cidr.unwrap_or(default.machine_cidr),
            host_prefix: host_prefix.unwrap_or(default.host_prefix),
        }
    }

    fn write(network: &hub::Network) -> Self {
        let hub::Network { network_type, pod_cidr, service_cidr, machine_cidr, host_prefix } =
            network.clone();
        Self {
            network_type: Some(network_type),
            pod_cidr: Some(pod_cidr),
            service_cidr: Some(service_cidr),
            machine_cidr: Some(machine_cidr),
            host_prefix: Some(host_prefix),
        }
    }
}

impl Platform {
    pub(crate) fn read(self, existing: Option<&hub::Platform>) -> hub::Platform {
        let Self {
            managed_resource_group,
            subnet_id,
            outbound_type,
            network_security_group_id,
            operators_authentication,
            issuer_url: _,
        } = self;
        let UserAssignedIdentities {
            control_plane_operators,
            data_plane_operators,
            service_managed_identity,
        } = operators_authentication
            .and_then(|operators| operators.user_assigned_identities)
            .unwrap_or_default();
        let kept = existing.cloned().unwrap_or_default();
        hub::Platform {
            managed_resource_group: managed_resource_group.or(kept.managed_resource_group),
            subnet_id,
            outbound_type: outbound_type.unwrap_or_default(),
            network_security_group_id,
            operators: hub::OperatorIdentities {
                control_plane: control_plane_operators.unwrap_or_default(),
                data_plane: data_plane_operators.unwrap_or_default(),
                service: service_managed_identity,
            },
            ..kept
        }
    }

    pub(crate) fn write(platform: &hub::Platform, status: &hub::ClusterStatus) -> Self {
        let hub::Platform {
            managed_resource_group,
            subnet_id,
            outbound_type,
            network_security_group_id,
            operators,
            // Later versions have these.
            vnet_integration_subnet_id: _,
            container_registry_identity: _,
        } = platform.clone();
        // A region with a cloud of its own asks for no identities, and then there is nothing to show.
        let said = operators != hub::OperatorIdentities::default();
        let hub::OperatorIdentities { control_plane, data_plane, service } = operators;
        Self {
            managed_resource_group,
            subnet_id,
            outbound_type: Some(outbound_type),
            network_security_group_id,
            operators_authentication: said.then_some(OperatorsAuthentication {
                user_assigned_identities: Some(UserAssignedIdentities {
                    control_plane_operators: Some(control_plane),
                    data_plane_operators: Some(data_plane),
                    service_managed_identity: service,
                }),
            }),
            issuer_url: status.issuer_url.clone(),
        }
    }
}

impl Autoscaling {
    fn read(self) -> hub::Autoscaling {
        let Self {
            max_nodes_total,
            max_pod_grace_period_seconds,
            max_node_provision_time_seconds,
            pod_priority_threshold,
        } = self;
        let default = hub::Autoscaling::default();
        hub::Autoscaling {
            max_nodes_total: max_nodes_total.unwrap_or(default.max_nodes_total),
            max_pod_grace_period_seconds: max_pod_grace_period_seconds
                .unwrap_or(default.max_pod_grace_period_seconds),
            max_node_provision_time_seconds: max_node_provision_time_seconds
                .unwrap_or(default.max_node_provision_time_seconds),
            pod_priority_threshold: pod_priority_threshold.unwrap_or(default.pod_priority_threshold),
        }
    }

    fn write(autoscaling: &hub::Autoscaling) -> Self {
        let hub::Autoscaling {
            max_nodes_total,
            max_pod_grace_period_seconds,
            max_node_provision_time_seconds,
            pod_priority_threshold,
        } = autoscaling.clone();
        Self {
            max_nodes_total: Some(max_nodes_total),
            max_pod_grace_period_seconds: Some(max_pod_grace_period_seconds),
            max_node_provision_time_seconds: Some(max_node_provision_time_seconds),
            pod_priority_threshold: Some(pod_priority_threshold),
        }
    }
}
