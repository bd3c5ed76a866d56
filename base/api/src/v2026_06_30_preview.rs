//! `2026-06-30-preview`: ingress, restrictions of cryptography and conditions; whose key encrypts must be said, and the
//! version of the customer's key may be changed.

mod cluster;
mod etcd;
mod external_auth;
mod node_pool;

use crate::wire::{Proxy, Resource};

pub(crate) use self::cluster::ClusterCommon;
pub(crate) use self::etcd::{DataEncryption, Key, Kms};
pub(crate) use self::node_pool::NodePoolCommon;
pub(crate) use crate::v2025_12_23_preview::{
    Credential, CustomerManaged, Etcd, ImageDigestMirror, KmsKey, OpenShiftVersion, Platform, RoleSet,
    VersionProfile,
};

pub(crate) type Cluster = Resource<cluster::ClusterProperties>;
pub(crate) type NodePool = Resource<node_pool::NodePoolProperties>;
pub(crate) type ExternalAuth = Proxy<external_auth::ExternalAuthProperties>;
