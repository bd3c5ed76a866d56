use std::path::PathBuf;

use pilothouse_records::Request;
use pilothouse_runtime::config::Duration;
use serde::{Deserialize, Serialize};

use crate::kind::Kind;

/// How the backend runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How many clusters are worked on at once. One subscription takes at most three quarters of them.
    pub concurrency: usize,
    /// How often every operation is looked at without any event.
    pub resync: Duration,
    /// How long a part of the work stays with a backend that is not heard of any more.
    pub lease: Duration,
    /// What this replica is called, if nobody else can ever have that name at the same time, as in a region of one process: whoever
    /// starts again under it goes on at once with what it was at. Without it every start is somebody new.
    pub replica: Option<String>,
    /// How long one call to Clusters Service may take.
    pub call_limit: Duration,
    /// After how long an operation counts as failed.
    pub deadlines: Deadlines,
    /// How often clusters at Clusters Service are compared with the records, a part of them at a time.
    pub sweep: Duration,
    /// Telling ARM of the end of operations.
    pub notifications: Notifications,
}

/// After how long an operation counts as failed, from when it was accepted or begun anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Deadlines {
    /// Making a cluster.
    pub cluster_create: Duration,
    /// Changing a cluster.
    pub cluster_update: Duration,
    /// Deleting a cluster and all that belongs to it.
    pub cluster_delete: Duration,
    /// Making a node pool.
    pub node_pool_create: Duration,
    /// Changing a node pool.
    pub node_pool_update: Duration,
    /// Deleting a node pool.
    pub node_pool_delete: Duration,
    /// Making, changing or deleting an external authentication.
    pub external_auth: Duration,
    /// Issuing a credential.
    pub credential: Duration,
    /// Revoking all credentials of a cluster.
    pub revocation: Duration,
}

/// How ARM is told of the end of operations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Notifications {
    /// How many are told at once.
    pub concurrency: usize,
    /// How long one attempt may take.
    pub call_limit: Duration,
    /// For how long it is tried.
    pub give_up_after: Duration,
    /// Whether addresses of this machine and of private networks may be called: for regions that are not on the internet.
    pub allow_private_addresses: bool,
    /// The authorities that are trusted, in PEM; those that the machine trusts unless given.
    pub authorities: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            concurrency: 32,
            resync: Duration::from_secs(300),
            lease: Duration::from_secs(15),
            replica: None,
            call_limit: Duration::from_secs(20),
            deadlines: Deadlines::default(),
            sweep: Duration::from_secs(300),
            notifications: Notifications::default(),
        }
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        const MINUTE: u64 = 60;
        Self {
            cluster_create: Duration::from_secs(60 * MINUTE),
            cluster_update: Duration::from_secs(45 * MINUTE),
            cluster_delete: Duration::from_secs(12 * 60 * MINUTE),
            node_pool_create: Duration::from_secs(60 * MINUTE),
            node_pool_update: Duration::from_secs(45 * MINUTE),
            node_pool_delete: Duration::from_secs(12 * 60 * MINUTE),
            external_auth: Duration::from_secs(15 * MINUTE),
            credential: Duration::from_secs(10 * MINUTE),
            revocation: Duration::from_secs(15 * MINUTE),
        }
    }
}

impl Default for Notifications {
    fn default() -> Self {
        Self {
            concurrency: 16,
            call_limit: Duration::from_secs(15),
            give_up_after: Duration::from_secs(24 * 60 * 60),
            allow_private_addresses: false,
            authorities: None,
        }
    }
}

impl Deadlines {
    pub(crate) fn of(&self, kind: Kind, request: Request) -> std::time::Duration {
        let deadline = match (kind, request) {
            (_, Request::RequestCredential) => &self.credential,
            (_, Request::RevokeCredentials) => &self.revocation,
            (Kind::Cluster, Request::Create) => &self.cluster_create,
            (Kind::Cluster, Request::Update) => &self.cluster_update,
            (Kind::Cluster, Request::Delete) => &self.cluster_delete,
            (Kind::NodePool, Request::Create) => &self.node_pool_create,
            (Kind::NodePool, Request::Update) => &self.node_pool_update,
            (Kind::NodePool, Request::Delete) => &self.node_pool_delete,
            (Kind::ExternalAuth, Request::Create | Request::Update | Request::Delete) => &self.external_auth,
        };
        deadline.0
    }
}
