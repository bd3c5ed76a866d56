//! `2024-06-10-preview`, the first version. It is the base: a later one re-exports what it did not change.
//!
//! It does not know the second subnet, ingress, image mirrors, disk types, conditions and restrictions of cryptography.
//! Those are kept from the stored resource on a write, and left out on a read. It also leaves out whatever is zero or
//! false (see [`zero`](crate::zero)).

mod catalogue;
mod cluster;
mod etcd;
mod external_auth;
mod node_pool;

use crate::wire::{Proxy, Resource};

pub(crate) use self::catalogue::{CredentialProperties, OpenShiftVersionProperties, RoleSetProperties};
pub(crate) use self::cluster::{ClusterCommon, Platform};
pub(crate) use self::etcd::{CustomerManaged, DataEncryption, Etcd, Kms, KmsKey};
pub(crate) use self::external_auth::ExternalAuthCommon;
pub(crate) use self::node_pool::{Disk, NodePoolCommon};

pub(crate) type Cluster = Resource<cluster::ClusterProperties>;
pub(crate) type NodePool = Resource<node_pool::NodePoolProperties>;
pub(crate) type ExternalAuth = Proxy<external_auth::ExternalAuthProperties>;
pub(crate) type OpenShiftVersion = Proxy<OpenShiftVersionProperties>;
pub(crate) type RoleSet = Proxy<RoleSetProperties>;
pub(crate) type Credential = CredentialProperties;
