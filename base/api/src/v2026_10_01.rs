//! `2026-10-01`, the first release. What it did not change comes from the preview it grew out of.

mod cluster;
mod etcd;
mod node_pool;

pub(crate) use self::cluster::Cluster;
pub(crate) use self::node_pool::NodePool;
