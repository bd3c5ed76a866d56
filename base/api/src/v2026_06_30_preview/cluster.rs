use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DataEncryption, Etcd, ImageDigestMirror, Key, Kms, Platform, VersionProfile};
use crate::hub;
use crate::invalid::Problems;
use crate::schema::CREATED;
use crate::v2025_12_23_preview;
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
    etcd: Option<Etcd<DataEncryption<Kms<Key>>>>,
    /// What was observed.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    status: Option<ClusterStatus>,
}

/// What is the same from here on.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterCommon {
    #[serde(flatten)]
    base: v2025_12_23_preview::ClusterCommon,
    /// What the control plane runs.
    #[schemars(required)]
    version: Option<VersionProfile>,
    /// Where images are taken from instead.
    #[schemars(length(max = 240))]
    #[serde(skip_serializing_if = "Option::is_none")]
    image_digest_mirrors: Option<Vec<ImageDigestMirror>>,
    /// Who may reach the cluster's applications.
    #[schemars(extend("x-ms-mutability" = CREATED))]
    ingress: Option<Ingress>,
    /// Which cryptography is allowed.
    #[schemars(extend("x-ms-mutability" = CREATED, "default" = "None"))]
    crypto_restrictions: Option<hub::CryptoRestrictions>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ingress {
    /// Who may reach them.
    #[serde(rename = "type")]
    #[schemars(extend("default" = "Public"))]
    kind: Option<hub::Visibility>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ClusterStatus {
    /// What was observed.
    conditions: Vec<hub::Condition>,
}

impl Properties for ClusterProperties {
    type Hub = hub::Cluster;

    fn read(self, existing: Option<&hub::ClusterSpec>, problems: &mut Problems) -> hub::ClusterSpec {
        let Self { common, platform, etcd, status: _ } = self;
        hub::ClusterSpec {
            platform: platform.unwrap_or_default().read(existing.map(|spec| &spec.platform)),
            etcd: DataEncryption::read(etcd, existing.map(|spec| &spec.etcd), problems),
            ..common.read(existing)
        }
    }

    fn write(spec: &hub::ClusterSpec, status: &hub::ClusterStatus) -> Self {
        let conditions = status.conditions.clone();
        Self {
            common: ClusterCommon::write(spec, status),
            platform: Some(Platform::write(&spec.platform, status)),
            etcd: DataEncryption::write(&spec.etcd),
            status: (!conditions.is_empty()).then_some(ClusterStatus { conditions }),
        }
    }
}

impl ClusterCommon {
    /// What is said in all versions from here on; everything else is as it was.
    pub(crate) fn read(self, existing: Option<&hub::ClusterSpec>) -> hub::ClusterSpec {
        let Self { base, version, image_digest_mirrors, ingress, crypto_restrictions } = self;
        hub::ClusterSpec {
            version: version.unwrap_or_default().read(),
            image_digest_mirrors: ImageDigestMirror::read_all(image_digest_mirrors),
            ingress: ingress.unwrap_or_default().kind.unwrap_or_default(),
            crypto_restrictions: crypto_restrictions.unwrap_or_default(),
            ..base.read(existing)
        }
    }

    pub(crate) fn write(spec: &hub::ClusterSpec, status: &hub::ClusterStatus) -> Self {
        let hub::ClusterSpec {
            version,
            ingress,
            image_digest_mirrors,
            crypto_restrictions,
            // In the part that the first version has too.
            base_domain_prefix: _,
            network: _,
            api: _,
            autoscaling: _,
            node_drain_timeout_minutes: _,
            image_registry: _,
            // Beside this, by version.
            platform: _,
            etcd: _,
        } = spec;
        Self {
            base: v2025_12_23_preview::ClusterCommon::write(spec, status),
            version: Some(VersionProfile::write(version)),
            image_digest_mirrors: ImageDigestMirror::write_all(image_digest_mirrors),
            ingress: Some(Ingress { kind: Some(*ingress) }),
            crypto_restrictions: Some(*crypto_restrictions),
        }
    }
}
