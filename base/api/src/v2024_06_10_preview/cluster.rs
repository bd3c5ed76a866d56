use std::collections::BTreeMap;

use pilothouse_arm::ProvisioningState;
use serde::{Deserialize, Serialize};

use super::etcd::{self, Etcd};
use crate::hub;
use crate::invalid::Problems;
use crate::version::Target;
use crate::wire::{self, Identity, Resource};

pub(crate) type Cluster = Resource<ClusterProperties>;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClusterProperties {
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    provisioning_state: Option<ProvisioningState>,
    version: Option<VersionProfile>,
    dns: Option<Dns>,
    network: Option<Network>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    console: Option<Console>,
    api: Option<Api>,
    platform: Option<Platform>,
    autoscaling: Option<Autoscaling>,
    node_drain_timeout_minutes: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    etcd: Option<Etcd>,
    cluster_image_registry: Option<Registry>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VersionProfile {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    pub(crate) channel_group: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Dns {
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub(crate) base_domain: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) base_domain_prefix: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Network {
    network_type: Option<String>,
    pod_cidr: Option<String>,
    service_cidr: Option<String>,
    machine_cidr: Option<String>,
    host_prefix: Option<i32>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Console {
    pub(crate) url: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Api {
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    visibility: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    authorized_cidrs: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Platform {
    #[serde(skip_serializing_if = "Option::is_none")]
    managed_resource_group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subnet_id: Option<String>,
    outbound_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network_security_group_id: Option<String>,
    operators_authentication: Option<OperatorsAuthentication>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    issuer_url: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct OperatorsAuthentication {
    user_assigned_identities: Option<UserAssignedIdentities>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct UserAssignedIdentities {
    control_plane_operators: Option<BTreeMap<String, String>>,
    data_plane_operators: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_managed_identity: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Autoscaling {
    max_nodes_total: Option<i32>,
    max_pod_grace_period_seconds: Option<i32>,
    max_node_provision_time_seconds: Option<i32>,
    pod_priority_threshold: Option<i32>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Registry {
    pub(crate) state: Option<String>,
}

// === impl Cluster ===

impl Cluster {
    pub(crate) fn read(self, target: &Target<'_, hub::Cluster>, problems: &mut Problems) -> hub::Cluster {
        self.check_name(problems, &target.id);
        let Self { id: _, name: _, kind: _, location: _, tags, system_data: _, identity, properties } = self;
        let ClusterProperties {
            provisioning_state: _,
            version,
            dns,
            network,
            console: _,
            api,
            platform,
            autoscaling,
            node_drain_timeout_minutes,
            etcd,
            cluster_image_registry,
        } = properties.unwrap_or_default();
        let existing = target.existing.map(|cluster| &cluster.spec);
        // Absent keeps what was chosen, by the owner or by the service.
        let kept =
            |part: fn(&hub::ClusterSpec) -> &Option<String>| existing.and_then(|spec| part(spec).clone());
        let platform = platform.unwrap_or_default().read(existing.map(|spec| &spec.platform), problems);
        let spec = hub::ClusterSpec {
            version: hub::VersionProfile {
                id: version
                    .as_ref()
                    .and_then(|version| version.id.clone())
                    .or_else(|| kept(|spec| &spec.version.id)),
                ..version.unwrap_or_default().read()
            },
            base_domain_prefix: dns
                .unwrap_or_default()
                .base_domain_prefix
                .or_else(|| kept(|spec| &spec.base_domain_prefix)),
            network: network.unwrap_or_default().read(problems),
            api: read_api(api, problems),
            ingress: existing.map(|spec| spec.ingress).unwrap_or_default(),
            platform,
            autoscaling: autoscaling.unwrap_or_default().read(),
            node_drain_timeout_minutes: node_drain_timeout_minutes.unwrap_or(0),
            etcd: etcd::read(etcd, existing, problems),
            image_registry: cluster_image_registry.unwrap_or_default().read(problems),
            image_digest_mirrors: existing.map(|spec| spec.image_digest_mirrors.clone()).unwrap_or_default(),
            crypto_restrictions: existing.map(|spec| spec.crypto_restrictions).unwrap_or_default(),
        };
        target.cluster(tags, identity.map(|identity| identity.read(problems)), spec)
    }

    pub(crate) fn write(cluster: &hub::Cluster) -> Self {
        let hub::Cluster { id, location, tags, system_data, identity, spec, status } = cluster;
        let hub::ClusterSpec {
            version,
            base_domain_prefix,
            network,
            api,
            ingress: _,
            platform,
            autoscaling,
            node_drain_timeout_minutes,
            etcd,
            image_registry,
            image_digest_mirrors: _,
            crypto_restrictions: _,
        } = spec;
        let hub::ClusterStatus {
            provisioning_state,
            base_domain,
            api_url,
            console_url,
            issuer_url,
            active_versions: _,
            conditions: _,
        } = status;
        Self {
            id: Some(id.clone()),
            name: Some(id.name().to_owned()),
            kind: Some(id.resource_type().to_string()),
            location: Some(location.clone()),
            tags: (!tags.is_empty()).then(|| tags.clone()),
            system_data: Some(system_data.clone()),
            identity: identity.as_ref().map(Identity::write),
            properties: Some(ClusterProperties {
                provisioning_state: Some(*provisioning_state),
                version: Some(VersionProfile::write(version)),
                dns: Some(Dns {
                    base_domain: base_domain.clone(),
                    base_domain_prefix: base_domain_prefix.clone(),
                }),
                network: Some(Network::write(network)),
                console: console_url.as_ref().map(|url| Console { url: Some(url.clone()) }),
                api: Some(write_api(api, api_url)),
                platform: Some(Platform::write(platform, issuer_url)),
                autoscaling: Some(Autoscaling::write(autoscaling)),
                node_drain_timeout_minutes: Some(*node_drain_timeout_minutes),
                etcd: Some(etcd::write(etcd)),
                cluster_image_registry: Some(Registry { state: Some(image_registry.as_str().to_owned()) }),
            }),
        }
    }
}

// === impl parts ===

impl VersionProfile {
    pub(crate) fn read(self) -> hub::VersionProfile {
        let Self { id, channel_group } = self;
        let default = hub::VersionProfile::default();
        hub::VersionProfile { id, channel_group: channel_group.unwrap_or(default.channel_group) }
    }

    pub(crate) fn write(version: &hub::VersionProfile) -> Self {
        let hub::VersionProfile { id, channel_group } = version.clone();
        Self { id, channel_group: Some(channel_group) }
    }
}

impl Network {
    pub(crate) fn read(self, problems: &mut Problems) -> hub::Network {
        let Self { network_type, pod_cidr, service_cidr, machine_cidr, host_prefix } = self;
        let default = hub::Network::default();
        hub::Network {
            network_type: wire::choice(problems, "properties.network.networkType", network_type.as_deref()),
            pod_cidr: pod_cidr.unwrap_or(default.pod_cidr),
            service_cidr: service_cidr.unwrap_or(default.service_cidr),
            machine_cidr: machine_cidr.unwrap_or(default.machine_cidr),
            host_prefix: host_prefix.unwrap_or(default.host_prefix),
        }
    }

    pub(crate) fn write(network: &hub::Network) -> Self {
        let hub::Network { network_type, pod_cidr, service_cidr, machine_cidr, host_prefix } =
            network.clone();
        Self {
            network_type: Some(network_type.as_str().to_owned()),
            pod_cidr: Some(pod_cidr),
            service_cidr: Some(service_cidr),
            machine_cidr: Some(machine_cidr),
            host_prefix: Some(host_prefix),
        }
    }
}

pub(crate) fn read_api(api: Option<Api>, problems: &mut Problems) -> hub::Api {
    let Api { url: _, visibility, authorized_cidrs } = api.unwrap_or_default();
    hub::Api {
        visibility: wire::choice(problems, "properties.api.visibility", visibility.as_deref()),
        authorized_cidrs,
    }
}

pub(crate) fn write_api(api: &hub::Api, url: &Option<String>) -> Api {
    let hub::Api { visibility, authorized_cidrs } = api.clone();
    Api { url: url.clone(), visibility: Some(visibility.as_str().to_owned()), authorized_cidrs }
}

impl Platform {
    fn read(self, existing: Option<&hub::Platform>, problems: &mut Problems) -> hub::Platform {
        let Self {
            managed_resource_group,
            subnet_id,
            outbound_type,
            network_security_group_id,
            operators_authentication,
            issuer_url: _,
        } = self;
        let mut id = |name: &str, value: Option<String>| {
            wire::id(problems, &format!("properties.platform.{name}"), value.as_deref())
        };
        hub::Platform {
            managed_resource_group: managed_resource_group
                .or_else(|| existing.and_then(|platform| platform.managed_resource_group.clone())),
            subnet_id: id("subnetId", subnet_id),
            vnet_integration_subnet_id: existing
                .and_then(|platform| platform.vnet_integration_subnet_id.clone()),
            network_security_group_id: id("networkSecurityGroupId", network_security_group_id),
            outbound_type: wire::choice(
                problems,
                "properties.platform.outboundType",
                outbound_type.as_deref(),
            ),
            operators: OperatorsAuthentication::read(operators_authentication, problems),
            container_registry_identity: existing
                .and_then(|platform| platform.container_registry_identity.clone()),
        }
    }

    fn write(platform: &hub::Platform, issuer_url: &Option<String>) -> Self {
        let hub::Platform {
            managed_resource_group,
            subnet_id,
            vnet_integration_subnet_id: _,
            outbound_type,
            network_security_group_id,
            operators,
            container_registry_identity: _,
        } = platform.clone();
        Self {
            managed_resource_group,
            subnet_id: subnet_id.map(String::from),
            outbound_type: Some(outbound_type.as_str().to_owned()),
            network_security_group_id: network_security_group_id.map(String::from),
            operators_authentication: Some(OperatorsAuthentication::write(operators)),
            issuer_url: issuer_url.clone(),
        }
    }
}

impl OperatorsAuthentication {
    const PATH: &str = "properties.platform.operatorsAuthentication";

    pub(crate) fn read(authentication: Option<Self>, problems: &mut Problems) -> hub::OperatorIdentities {
        let Some(Self { user_assigned_identities }) = authentication else {
            problems.required(Self::PATH);
            return hub::OperatorIdentities::default();
        };
        let path = format!("{}.userAssignedIdentities", Self::PATH);
        let Some(identities) = user_assigned_identities else {
            problems.required(path);
            return hub::OperatorIdentities::default();
        };
        let UserAssignedIdentities {
            control_plane_operators,
            data_plane_operators,
            service_managed_identity,
        } = identities;
        let mut operators = |name: &str, operators: Option<BTreeMap<String, String>>| {
            let path = format!("{path}.{name}");
            if operators.is_none() {
                problems.required(&path);
            }
            wire::ids(problems, &path, operators.unwrap_or_default())
        };
        let control_plane = operators("controlPlaneOperators", control_plane_operators);
        let data_plane = operators("dataPlaneOperators", data_plane_operators);
        let service = format!("{path}.serviceManagedIdentity");
        if service_managed_identity.is_none() {
            problems.required(&service);
        }
        hub::OperatorIdentities {
            control_plane,
            data_plane,
            service: wire::id(problems, &service, service_managed_identity.as_deref()),
        }
    }

    pub(crate) fn write(operators: hub::OperatorIdentities) -> Self {
        let hub::OperatorIdentities { control_plane, data_plane, service } = operators;
        let texts = |ids: BTreeMap<String, pilothouse_arm::ResourceId>| {
            Some(ids.into_iter().map(|(name, id)| (name, id.into())).collect())
        };
        Self {
            user_assigned_identities: Some(UserAssignedIdentities {
                control_plane_operators: texts(control_plane),
                data_plane_operators: texts(data_plane),
                service_managed_identity: service.map(String::from),
            }),
        }
    }
}

impl Autoscaling {
    pub(crate) fn read(self) -> hub::Autoscaling {
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

    pub(crate) fn write(autoscaling: &hub::Autoscaling) -> Self {
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

impl Registry {
    pub(crate) fn read(self, problems: &mut Problems) -> hub::RegistryState {
        wire::choice(problems, "properties.clusterImageRegistry.state", self.state.as_deref())
    }
}
