//! `2024-06-10-preview`, the first version. It is the base: a later one re-exports what it did not change.
//!
//! It does not know the second subnet, ingress, image mirrors, disk types, conditions and restrictions of cryptography.
//! Those are kept from the stored resource on a write, and left out on a read.

mod cluster;
mod etcd;
mod node_pool;

pub(crate) use self::cluster::{
    Api, Autoscaling, Cluster, Console, Dns, Network, OperatorsAuthentication, Registry, VersionProfile,
    read_api, write_api,
};
pub(crate) use self::node_pool::{
    Label, NodePool, Scale, Taint, read_labels, read_taints, write_labels, write_taints,
};
