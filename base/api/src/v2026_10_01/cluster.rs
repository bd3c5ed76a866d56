use pilothouse_arm::ResourceId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::etcd::Kms;
use crate::hub;
use crate::invalid::Problems;
use crate::schema::IdentityId;
use crate::v2026_06_30_preview::{self, ClusterCommon, DataEncryption, Etcd};
use crate::wire::Properties;

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterProperties {
    #[serde(flatten)]
    common: ClusterCommon,
    /// Where the cluster stands in the cloud.
    #[schemars(required)]
    platform: Option<Platform>,
    /// How the cluster's state is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    etcd: Option<Etcd<DataEncryption<Kms>>>,
    /// What was observed.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Platform {
    #[serde(flatten)]
    base: v2026_06_30_preview::Platform,
    /// How nodes pull images from the owner's registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    container_registry: Option<ContainerRegistry>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ContainerRegistry {
    /// The identity under which they do.
    #[schemars(with = "Option<IdentityId>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    managed_identity: Option<ResourceId>,
}

/// What was observed, of clusters and of node pools.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    /// What was observed.
    conditions: Vec<hub::Condition>,
    /// The versions that run now.
    active_versions: Vec<ActiveVersion>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ActiveVersion {
    /// The version.
    version: String,
}

impl Properties for ClusterProperties {
    type Hub = hub::Cluster;

    fn read(self, existing: Option<&hub::ClusterSpec>, problems: &mut Problems) -> hub::ClusterSpec {
        let Self { common, platform, etcd, status: _ } = self;
        let Platform { base, container_registry } = platform.unwrap_or_default();
        hub::ClusterSpec {
            platform: hub::Platform {
                container_registry_identity: container_registry
                    .and_then(|registry| registry.managed_identity),
                ..base.read(existing.map(|spec| &spec.platform))
            },
            etcd: DataEncryption::read(etcd, existing.map(|spec| &spec.etcd), problems),
            ..common.read(existing)
        }
    }

    fn write(spec: &hub::ClusterSpec, status: &hub::ClusterStatus) -> Self {
        let identity = spec.platform.container_registry_identity.clone();
        Self {
            common: ClusterCommon::write(spec, status),
            platform: Some(Platform {
                base: v2026_06_30_preview::Platform::write(&spec.platform, status),
                container_registry: identity
                    .map(|identity| ContainerRegistry { managed_identity: Some(identity) }),
            }),
            etcd: DataEncryption::write(&spec.etcd),
            status: Status::write(&status.conditions, &status.active_versions),
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
