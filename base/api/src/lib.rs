//! The hub model of the resource provider, its wire versions, conversions and validation.
//!
//! Each api-version is a module of wire types and converts to and from one internal model, [`hub`], which handlers,
//! records and controllers speak. [`Version`] is the list of those served, and the only way in and out:
//!
//! * **In** ([`Version::cluster_put`], [`Version::cluster_patch`], and the same for node pools and external
//!   authentications): the body is held against the form that its wire type describes, what is absent gets its default,
//!   what an older version cannot see is kept from the stored resource, what is read-only is ignored, and what no single
//!   field can tell is validated. *All* problems are reported at once, each with the exact path of its field
//!   ([`Invalid`]).
//! * **Out** ([`Version::cluster_write`]): the hub is destructured without `..`, so that a new field does not compile until
//!   every version has said what it does with it.
//! * **Published** ([`Version::openapi`]): the same descriptions as a document, which `cargo xtask schema` writes and
//!   freezes.
//!
//! Nothing here knows the clock, the store or HTTP.

mod availability;
mod forms;
pub mod hub;
mod invalid;
mod merge;
mod name;
mod openapi;
mod payload;
mod release;
mod schema;
mod v2024_06_10_preview;
mod v2025_12_23_preview;
mod v2026_06_30_preview;
mod v2026_09_01_preview;
mod v2026_10_01;
mod validate;
mod version;
mod vm_size;
mod wire;
mod zero;

pub use self::availability::{AVAILABILITY_TAG, SINGLE_REPLICA, availability};
pub use self::invalid::{FieldError, Invalid};
pub use self::name::{ClusterName, ExternalAuthName, NodePoolName};
pub use self::payload::{PAYLOAD_TAG, payload};
pub use self::release::{Minor, Release};
pub use self::version::{Rules, Target, Version};

/// The resource type of clusters, below the provider's namespace.
pub const CLUSTERS: &str = "hcpOpenShiftClusters";
/// The resource type of node pools, below a cluster.
pub const NODE_POOLS: &str = "nodePools";
/// The resource type of external authentications, below a cluster.
pub const EXTERNAL_AUTHS: &str = "externalAuths";
/// The resource type of versions, below a location.
pub const VERSIONS: &str = "hcpOpenShiftVersions";
/// The resource type of the roles that operators need, below a location.
pub const ROLE_SETS: &str = "hcpOperatorIdentityRoleSets";
