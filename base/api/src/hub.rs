//! The internal model: what handlers, records and controllers speak.
//!
//! A resource is an envelope, a `spec` (what its owner asked for) and a `status` (what was observed). No wire version is
//! the model; each converts. What is optional here is what really may be unknown; defaults have been filled in.

mod catalogue;
mod choice;
mod cluster;
mod credential;
mod external_auth;
mod identity;
mod node_pool;
mod status;

pub use self::catalogue::{OpenShiftVersion, OperatorRoleSet, OperatorRoles, RoleDefinition};
pub(crate) use self::catalogue::{control_plane_operators, data_plane_operators};
pub use self::choice::{
    ClientType, CryptoRestrictions, DiskStorageAccountType, DiskType, Effect, EncryptionType, KeyVaultType,
    NetworkType, OutboundType, PrefixPolicy, RegistryState, RoleRequirement, Visibility,
};
pub use self::cluster::{
    Api, Autoscaling, Cluster, ClusterSpec, ClusterStatus, CustomerKey, Etcd, ImageDigestMirror, Network,
    OperatorIdentities, Platform, VersionProfile,
};
pub use self::credential::{Credential, CredentialRequest};
pub use self::external_auth::{
    Claims, ExternalAuth, ExternalAuthSpec, ExternalAuthStatus, GroupsClaim, RequiredClaim, TokenClient,
    TokenIssuer, UsernameClaim,
};
pub use self::identity::{AssignedIdentity, Identity, IdentityKind};
pub use self::node_pool::{NodePool, NodePoolPlatform, NodePoolSpec, NodePoolStatus, OsDisk, Scale, Taint};
pub use self::status::{Condition, ConditionStatus};
