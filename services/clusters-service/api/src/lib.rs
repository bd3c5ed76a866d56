//! Clusters and node pools as Clusters Service writes them, and a client.
//!
//! The contract between Clusters Service and whoever asks it for clusters: JSON in `snake_case` over HTTP, in the
//! shape of OCM's `clusters_mgmt` API. The server is another crate; this one is what both sides share.
//!
//! - **What is asked and what is answered are two types.** A [`NewCluster`] is sent, a [`Cluster`] comes back, so
//!   nobody can send a state or forget to read one. The same holds for [`NewNodePool`] and [`NodePool`].
//! - **Creating twice creates once.** A cluster is known by the ARM resource it stands for ([`Azure`]) and by the
//!   operation that asks for it ([`properties::OPERATION_ID`]); the same pair again answers with the same cluster.
//! - **Changing twice changes once.** A [`NodePoolUpdate`] is known by its operation as well.
//! - **Following, not polling.** [`Client::watch`] streams every change with a [`Cursor`] to come back to.
//! - **Errors name what to change.** [`Error::details`] points at the field, such as [`DOMAIN_PREFIX`].

mod azure;
mod break_glass_credential;
mod client;
mod cluster;
mod cluster_update;
mod error;
mod event;
mod external_auth;
mod id;
mod inflight_check;
mod left_behind;
mod list;
mod moments;
mod node_pool;
pub mod properties;
mod provision_shard;
mod reference;
mod release_version;
mod secret;
mod settings;
#[cfg(feature = "testing")]
pub mod simulated;
mod upgrade_policy;
mod version;
mod watch;

pub use azure::{
    ActiveKey, Azure, ContainerRegistry, ContainerRegistryCredentials, CustomerManaged, DataEncryption,
    EtcdEncryption, Kms, ManagedIdentities, ManagedIdentity, NodesOutboundConnectivity,
    OperatorsAuthentication,
};
pub use break_glass_credential::{BreakGlassCredential, BreakGlassCredentialStatus, NewBreakGlassCredential};
pub use client::Client;
pub use cluster::{Api, Cluster, ClusterState, ClusterStatus, Dns, Enabled, Listening, Network, NewCluster};
pub use cluster_update::{
    ActiveKeyUpdate, ApiUpdate, AzureUpdate, ClusterUpdate, CustomerManagedUpdate, DataEncryptionUpdate,
    EtcdEncryptionUpdate, KmsUpdate,
};
pub use error::{DOMAIN_PREFIX, Detail, Error, ErrorBody, PROVISION_SHARD};
pub use event::{Change, Cursor, Event};
pub use external_auth::{
    Claim, ClaimMappings, ClaimRule, ExternalAuth, ExternalAuthState, ExternalAuthStateValue,
    ExternalAuthStatus, ExternalAuthUpdate, GroupsClaim, NewExternalAuth, PrefixPolicy, TokenClient,
    TokenClientComponent, TokenClientType, TokenIssuer, UsernameClaim,
};
pub use id::{BreakGlassCredentialId, ClusterId, ExternalAuthId, InvalidId, NodePoolId};
pub use inflight_check::{InflightCheck, InflightCheckState};
pub use left_behind::{LeftBehind, LeftBehindObject};
pub use list::{List, ListQuery};
pub use moments::Moments;
pub use node_pool::{
    Autoscaling, AzureNodePool, EncryptionAtHost, ManagementUpgrade, NewNodePool, NodePool, NodePoolState,
    NodePoolStateValue, NodePoolStatus, NodePoolUpdate, OsDisk, Persistence, Taint,
};
pub use provision_shard::{
    AzureShard, Endpoint, MaestroConfig, NewProvisionShard, ProvisionShard, ProvisionShardStatus,
    ProvisionShardUpdate, ShardHealth, ShardHealthState,
};
pub use reference::Reference;
pub use release_version::{ReleaseImage, ReleaseImages, ReleaseVersion};
pub use secret::Secret;
pub use settings::{
    AllowMode, Autoscaler, CidrBlockAccess, CidrBlockAllow, GracePeriod, ImageDigestMirror, ImageRegistry,
    Ingress, Ingresses, RegistryConfig, ResourceLimits, Switch,
};
pub use upgrade_policy::{
    NewUpgradePolicy, UpgradePolicy, UpgradePolicyState, UpgradePolicyStateValue, UpgradePolicyUpdate,
};
pub use version::Version;
pub use watch::HEARTBEAT;

/// Where the API begins. Ids and answers are the same below both.
pub const BASES: [&str; 2] = ["/api/clusters_mgmt/v1", "/api/aro_hcp/v1alpha1"];
