//! The internal model: what handlers, records and controllers speak.
//!
//! A resource is an envelope, a `spec` (what its owner asked for) and a `status` (what was observed). No wire version is
//! the model; each converts. What is optional here is what really may be unknown; defaults have been filled in.

mod choice;
mod cluster;
mod identity;
mod node_pool;
mod status;

pub(crate) use self::choice::Choice;
pub use self::choice::{
    CryptoRestrictions, DiskStorageAccountType, DiskType, Effect, EncryptionType, KeyVaultType, NetworkType,
    OutboundType, RegistryState, Visibility,
};
pub use self::cluster::{
    Api, Autoscaling, Cluster, ClusterSpec, ClusterStatus, CustomerKey, Etcd, ImageDigestMirror, Network,
    OperatorIdentities, Platform, VersionProfile,
};
pub use self::identity::{AssignedIdentity, Identity, IdentityKind};
pub use self::node_pool::{NodePool, NodePoolPlatform, NodePoolSpec, NodePoolStatus, OsDisk, Scale, Taint};
pub use self::status::{Condition, ConditionStatus};
