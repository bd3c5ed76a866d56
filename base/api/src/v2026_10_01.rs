//! `2026-10-01`, the first release: the versions that really run, an identity for the owner's registry, and keys in
//! hardware modules.

mod cluster;
mod etcd;
mod node_pool;

use crate::wire::Resource;

pub(crate) use crate::v2026_09_01_preview::{Credential, ExternalAuth, OpenShiftVersion, RoleSet};

pub(crate) type Cluster = Resource<cluster::ClusterProperties>;
pub(crate) type NodePool = Resource<node_pool::NodePoolProperties>;
