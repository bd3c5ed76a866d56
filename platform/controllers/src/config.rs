//! Which controllers run, and their few numbers.

use std::time::Duration as StdDuration;

use pilothouse_runtime::config::Duration;
use serde::{Deserialize, Serialize};

/// Which controllers run, and their few numbers. By default all of them do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Replica sets of Deployments.
    pub deployments: bool,
    /// Pods of ReplicaSets.
    pub replica_sets: bool,
    /// Pods of ReplicationControllers.
    pub replication_controllers: bool,
    /// Pods and claims of StatefulSets.
    pub stateful_sets: bool,
    /// A pod of each DaemonSet on every node.
    pub daemon_sets: bool,
    /// Pods of Jobs.
    pub jobs: bool,
    /// Jobs by the clock.
    pub cron_jobs: bool,
    /// How many pods may be disturbed, for evictions.
    pub disruption_budgets: bool,
    /// Nodes for pods.
    pub scheduler: bool,
    /// Endpoints and EndpointSlices of Services.
    pub endpoints: bool,
    /// What every namespace has: service account `default` and ConfigMap `kube-root-ca.crt`.
    pub namespace_defaults: bool,
    /// Emptying namespaces that are being deleted.
    pub namespaces: bool,
    /// Deleting what owners leave behind.
    pub garbage_collection: bool,
    /// Pod ranges for nodes; needs `cluster_cidr`.
    pub node_ranges: bool,
    /// Noticing nodes that no longer report, tainting them, and evicting pods that do not tolerate it.
    pub node_lifecycle: bool,
    /// Approving and removing requests for certificates, and signing them; signing needs the cluster's authority.
    pub certificate_requests: bool,
    /// Approving serving certificates that nodes ask for by their own addresses. Without it somebody has to.
    pub approve_serving_certificates: bool,
    /// Removing bootstrap tokens that have ended, and signing `cluster-info` with the others.
    pub bootstrap_tokens: bool,
    /// Volumes for claims; needs a folder for them.
    pub volumes: bool,
    /// The range that nodes get their pod ranges from. Without it nodes are given none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_cidr: Option<String>,
    /// How long a node's prefix is within it: `24` gives each node 254 pods.
    pub node_cidr_mask: u8,
    /// How long a node may be silent before it counts as unreachable. Kubelets renew their lease every ten seconds.
    pub node_grace: Duration,
    /// How long certificates live that are signed on request, unless they ask for less.
    pub certificate_lifetime: Duration,
    /// How often every object is looked at without any event.
    pub resync: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            deployments: true,
            replica_sets: true,
            replication_controllers: true,
            stateful_sets: true,
            daemon_sets: true,
            jobs: true,
            cron_jobs: true,
            disruption_budgets: true,
            scheduler: true,
            endpoints: true,
            namespace_defaults: true,
            namespaces: true,
            garbage_collection: true,
            node_ranges: true,
            node_lifecycle: true,
            certificate_requests: true,
            approve_serving_certificates: true,
            bootstrap_tokens: true,
            volumes: true,
            cluster_cidr: None,
            node_cidr_mask: 24,
            node_grace: Duration::from(StdDuration::from_secs(50)),
            certificate_lifetime: Duration::from(StdDuration::from_secs(365 * 24 * 3600)),
            resync: Duration::from(StdDuration::from_secs(600)),
        }
    }
}

impl Config {
    /// Volumes for claims alone: for a cluster whose own controllers do the rest.
    pub fn volumes_only() -> Self {
        Self {
            deployments: false,
            replica_sets: false,
            replication_controllers: false,
            stateful_sets: false,
            daemon_sets: false,
            jobs: false,
            cron_jobs: false,
            disruption_budgets: false,
            scheduler: false,
            endpoints: false,
            namespace_defaults: false,
            namespaces: false,
            garbage_collection: false,
            node_ranges: false,
            node_lifecycle: false,
            certificate_requests: false,
            approve_serving_certificates: false,
            bootstrap_tokens: false,
            ..Self::default()
        }
    }
}
