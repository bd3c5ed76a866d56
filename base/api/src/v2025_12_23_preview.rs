//! `2025-12-23-preview`: the version must be said and may be changed, images have mirrors, the vault is named beside the
//! key, there is a second subnet, and disks have a type. From here on zeros are shown.

mod cluster;
mod etcd;
mod node_pool;

use crate::wire::Resource;

pub(crate) use self::cluster::{ImageDigestMirror, Platform, VersionProfile};
pub(crate) use self::etcd::Kms;
pub(crate) use self::node_pool::NodePoolProperties;
pub(crate) use crate::v2024_06_10_preview::{
    ClusterCommon, Credential, CustomerManaged, DataEncryption, Disk, Etcd, ExternalAuth, ExternalAuthCommon,
    KmsKey, OpenShiftVersion, RoleSet,
};

pub(crate) type Cluster = Resource<cluster::ClusterProperties>;
pub(crate) type NodePool = Resource<NodePoolProperties<node_pool::OsDisk>>;
