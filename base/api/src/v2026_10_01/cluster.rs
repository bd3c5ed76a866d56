use pilothouse_arm::ProvisioningState;
use serde::{Deserialize, Serialize};

use super::etcd::{self, Etcd};
use crate::hub;
use crate::invalid::Problems;
use crate::v2024_06_10_preview::{
    Api, Autoscaling, Console, Dns, Network, OperatorsAuthentication, Registry, VersionProfile, read_api,
    write_api,
};
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
    ingress: Option<Ingress>,
    platform: Option<Platform>,
    autoscaling: Option<Autoscaling>,
    node_drain_timeout_minutes: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    etcd: Option<Etcd>,
    cluster_image_registry: Option<Registry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image_digest_mirrors: Option<Vec<ImageDigestMirror>>,
    crypto_restrictions: Option<String>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Ingress {
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Platform {
    #[serde(skip_serializing_if = "Option::is_none")]
    managed_resource_group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subnet_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vnet_integration_subnet_id: Option<String>,
    outbound_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network_security_group_id: Option<String>,
    operators_authentication: Option<OperatorsAuthentication>,
    #[serde(skip_serializing_if = "Option::is_none")]
    container_registry: Option<ContainerRegistry>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    issuer_url: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerRegistry {
    managed_identity: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ImageDigestMirror {
    source: Option<String>,
    mirrors: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    conditions: Vec<hub::Condition>,
    active_versions: Vec<ActiveVersion>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ActiveVersion {
    version: String,
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
            ingress,
            platform,
            autoscaling,
            node_drain_timeout_minutes,
            etcd,
            cluster_image_registry,
            image_digest_mirrors,
            crypto_restrictions,
            status: _,
        } = properties.unwrap_or_default();
        let existing = target.existing.map(|cluster| &cluster.spec);
        let version = version.unwrap_or_default().read();
        if version.id.is_none() {
            problems.required("properties.version.id");
        }
        let spec = hub::ClusterSpec {
            version,
            base_domain_prefix: dns
                .unwrap_or_default()
                .base_domain_prefix
                .or_else(|| existing.and_then(|spec| spec.base_domain_prefix.clone())),
            network: network.unwrap_or_default().read(problems),
            api: read_api(api, problems),
            ingress: wire::choice(
                problems,
                "properties.ingress.type",
                ingress.unwrap_or_default().kind.as_deref(),
            ),
            platform: platform.unwrap_or_default().read(existing.map(|spec| &spec.platform), problems),
            autoscaling: autoscaling.unwrap_or_default().read(),
            node_drain_timeout_minutes: node_drain_timeout_minutes.unwrap_or(0),
            etcd: etcd::read(etcd, problems),
            image_registry: cluster_image_registry.unwrap_or_default().read(problems),
            image_digest_mirrors: read_mirrors(image_digest_mirrors, problems),
            crypto_restrictions: wire::choice(
                problems,
                "properties.cryptoRestrictions",
                crypto_restrictions.as_deref(),
            ),
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
            ingress,
            platform,
            autoscaling,
            node_drain_timeout_minutes,
            etcd,
            image_registry,
            image_digest_mirrors,
            crypto_restrictions,
        } = spec;
        let hub::ClusterStatus {
            provisioning_state,
            base_domain,
            api_url,
            console_url,
            issuer_url,
            active_versions,
            conditions,
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
                ingress: Some(Ingress { kind: Some(ingress.as_str().to_owned()) }),
                platform: Some(Platform::write(platform, issuer_url)),
                autoscaling: Some(Autoscaling::write(autoscaling)),
                node_drain_timeout_minutes: Some(*node_drain_timeout_minutes),
                etcd: etcd::write(etcd),
                cluster_image_registry: Some(Registry { state: Some(image_registry.as_str().to_owned()) }),
                image_digest_mirrors: write_mirrors(image_digest_mirrors),
                crypto_restrictions: Some(crypto_restrictions.as_str().to_owned()),
                status: Status::write(conditions, active_versions),
            }),
        }
    }
}

// === impl parts ===

impl Platform {
    fn read(self, existing: Option<&hub::Platform>, problems: &mut Problems) -> hub::Platform {
        let Self {
            managed_resource_group,
            subnet_id,
            vnet_integration_subnet_id,
            outbound_type,
            network_security_group_id,
            operators_authentication,
            container_registry,
            issuer_url: _,
        } = self;
        let mut id = |name: &str, value: Option<String>| {
            wire::id(problems, &format!("properties.platform.{name}"), value.as_deref())
        };
        let registry = container_registry.and_then(|registry| registry.managed_identity);
        hub::Platform {
            managed_resource_group: managed_resource_group
                .or_else(|| existing.and_then(|platform| platform.managed_resource_group.clone())),
            subnet_id: id("subnetId", subnet_id),
            vnet_integration_subnet_id: id("vnetIntegrationSubnetId", vnet_integration_subnet_id),
            network_security_group_id: id("networkSecurityGroupId", network_security_group_id),
            container_registry_identity: id("containerRegistry.managedIdentity", registry),
            outbound_type: wire::choice(
                problems,
                "properties.platform.outboundType",
                outbound_type.as_deref(),
            ),
            operators: OperatorsAuthentication::read(operators_authentication, problems),
        }
    }

    fn write(platform: &hub::Platform, issuer_url: &Option<String>) -> Self {
        let hub::Platform {
            managed_resource_group,
            subnet_id,
            vnet_integration_subnet_id,
            outbound_type,
            network_security_group_id,
            operators,
            container_registry_identity,
        } = platform.clone();
        Self {
            managed_resource_group,
            subnet_id: subnet_id.map(String::from),
            vnet_integration_subnet_id: vnet_integration_subnet_id.map(String::from),
            outbound_type: Some(outbound_type.as_str().to_owned()),
            network_security_group_id: network_security_group_id.map(String::from),
            operators_authentication: Some(OperatorsAuthentication::write(operators)),
            container_registry: container_registry_identity
                .map(|identity| ContainerRegistry { managed_identity: Some(identity.into()) }),
            issuer_url: issuer_url.clone(),
        }
    }
}

impl Status {
    pub(super) fn write(conditions: &[hub::Condition], active_versions: &[String]) -> Option<Self> {
        let version = |version: &String| ActiveVersion { version: version.clone() };
        (!conditions.is_empty() || !active_versions.is_empty()).then(|| Self {
            conditions: conditions.to_vec(),
            active_versions: active_versions.iter().map(version).collect(),
        })
    }
}

fn read_mirrors(
    mirrors: Option<Vec<ImageDigestMirror>>,
    problems: &mut Problems,
) -> Vec<hub::ImageDigestMirror> {
    let read = |(index, ImageDigestMirror { source, mirrors }): (usize, ImageDigestMirror)| {
        let path = format!("properties.imageDigestMirrors[{index}]");
        if source.is_none() {
            problems.required(format!("{path}.source"));
        }
        if mirrors.is_none() {
            problems.required(format!("{path}.mirrors"));
        }
        hub::ImageDigestMirror { source: source.unwrap_or_default(), mirrors: mirrors.unwrap_or_default() }
    };
    mirrors.unwrap_or_default().into_iter().enumerate().map(read).collect()
}

fn write_mirrors(mirrors: &[hub::ImageDigestMirror]) -> Option<Vec<ImageDigestMirror>> {
    let mirror = |mirror: &hub::ImageDigestMirror| {
        let hub::ImageDigestMirror { source, mirrors } = mirror.clone();
        ImageDigestMirror { source: Some(source), mirrors: Some(mirrors) }
    };
    (!mirrors.is_empty()).then(|| mirrors.iter().map(mirror).collect())
}
