use pilothouse_arm::ResourceId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::etcd::{Key, Kms};
use super::{ClusterCommon, CustomerManaged, DataEncryption, Etcd};
use crate::hub;
use crate::invalid::Problems;
use crate::schema::{CREATED, SubnetId};
use crate::v2024_06_10_preview;
use crate::wire::Properties;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterProperties {
    #[serde(flatten)]
    common: ClusterCommon,
    /// What the control plane runs.
    #[schemars(required)]
    version: Option<VersionProfile>,
    /// Where the cluster stands in the cloud.
    #[schemars(required)]
    platform: Option<Platform>,
    /// How the cluster's state is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    etcd: Option<Etcd<DataEncryption<Kms<Key>>>>,
    /// Where images are taken from instead.
    #[schemars(length(max = 240))]
    #[serde(skip_serializing_if = "Option::is_none")]
    image_digest_mirrors: Option<Vec<ImageDigestMirror>>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VersionProfile {
    /// The minor version, such as 4.20.
    #[schemars(required, length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// The channel it comes from.
    #[schemars(extend("default" = "stable"))]
    channel_group: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Platform {
    #[serde(flatten)]
    base: v2024_06_10_preview::Platform,
    /// The subnet through which the control plane reaches the nodes.
    #[schemars(required, with = "Option<SubnetId>", extend("x-ms-mutability" = CREATED))]
    #[serde(skip_serializing_if = "Option::is_none")]
    vnet_integration_subnet_id: Option<ResourceId>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageDigestMirror {
    /// What images are named by.
    #[schemars(required, length(min = 1, max = 255))]
    source: Option<String>,
    /// Where they are taken from.
    #[schemars(required, length(min = 1, max = 255), inner(length(min = 1, max = 255)))]
    mirrors: Option<Vec<String>>,
}

// === impl ClusterProperties ===

impl Properties for ClusterProperties {
    type Hub = hub::Cluster;

    fn read(self, existing: Option<&hub::ClusterSpec>, problems: &mut Problems) -> hub::ClusterSpec {
        let Self { common, version, platform, etcd, image_digest_mirrors } = self;
        hub::ClusterSpec {
            version: version.unwrap_or_default().read(),
            platform: platform.unwrap_or_default().read(existing.map(|spec| &spec.platform)),
            etcd: Etcd::read(etcd, existing.map(|spec| &spec.etcd), problems),
            image_digest_mirrors: ImageDigestMirror::read_all(image_digest_mirrors),
            ..common.read(existing)
        }
    }

    fn write(spec: &hub::ClusterSpec, status: &hub::ClusterStatus) -> Self {
        let hub::ClusterSpec {
            version,
            platform,
            etcd,
            image_digest_mirrors,
            // In the common part.
            base_domain_prefix: _,
            network: _,
            api: _,
            autoscaling: _,
            node_drain_timeout_minutes: _,
            image_registry: _,
            // Not in this version.
            ingress: _,
            crypto_restrictions: _,
        } = spec;
        Self {
            common: ClusterCommon::write(spec, status),
            version: Some(VersionProfile::write(version)),
            platform: Some(Platform::write(platform, status)),
            etcd: Some(Etcd {
                data_encryption: Some(DataEncryption::write(etcd.customer_key.as_ref(), |key| {
                    CustomerManaged::write(key)
                })),
            }),
            image_digest_mirrors: ImageDigestMirror::write_all(image_digest_mirrors),
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

impl Platform {
    pub(crate) fn read(self, existing: Option<&hub::Platform>) -> hub::Platform {
        let Self { base, vnet_integration_subnet_id } = self;
        hub::Platform { vnet_integration_subnet_id, ..base.read(existing) }
    }

    pub(crate) fn write(platform: &hub::Platform, status: &hub::ClusterStatus) -> Self {
        Self {
            base: v2024_06_10_preview::Platform::write(platform, status),
            vnet_integration_subnet_id: platform.vnet_integration_subnet_id.clone(),
        }
    }
}

impl ImageDigestMirror {
    pub(crate) fn read_all(mirrors: Option<Vec<Self>>) -> Vec<hub::ImageDigestMirror> {
        let read = |Self { source, mirrors }| hub::ImageDigestMirror {
            source: source.unwrap_or_default(),
            mirrors: mirrors.unwrap_or_default(),
        };
        mirrors.unwrap_or_default().into_iter().map(read).collect()
    }

    pub(crate) fn write_all(mirrors: &[hub::ImageDigestMirror]) -> Option<Vec<Self>> {
        let write = |mirror: &hub::ImageDigestMirror| {
            let hub::ImageDigestMirror { source, mirrors } = mirror.clone();
            Self { source: Some(source), mirrors: Some(mirrors) }
        };
        (!mirrors.is_empty()).then(|| mirrors.iter().map(write).collect())
    }
}
