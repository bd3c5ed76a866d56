//! How the gateway listens, whom it lets in, and how patient it is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;

use pilothouse_runtime::config::{ByteSize, Duration};
use serde::{Deserialize, Serialize};

use crate::cluster::OTHER;
use crate::egress::Permission;
use crate::range::Range;

/// What a process of its own gives a service at shutdown, before it is cut off.
const GRACE: Duration = Duration::from_secs(40);

/// How the gateway listens, whom it lets in, and how patient it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where it listens for everybody.
    pub listen: SocketAddr,
    /// How many connections it holds at once; more are closed at once.
    pub max_connections: usize,
    /// How many of them one cluster may have.
    pub max_connections_per_cluster: usize,
    /// How many of them may come from one address, or one IPv6 network of 64 bits. Those of the machine itself are not counted.
    pub max_connections_per_address: usize,
    /// How many of them may be waited for to say whom they want. With one more, whoever has taken longest is let go.
    pub max_connections_unnamed: usize,
    /// How long a client may take to say whom it wants.
    pub hello_timeout: Duration,
    /// How long that message may be.
    pub hello_limit: ByteSize,
    /// How long connecting to one endpoint may take.
    pub dial_timeout: Duration,
    /// How long a connection may be silent in both directions. Watches of the Kubernetes API say something every minute.
    pub idle_timeout: Duration,
    /// How long it goes on at shutdown as if nothing was: until balancers in front have noticed that it is not ready any more.
    pub linger: Duration,
    /// How long connections that are in use may go on at shutdown, after that.
    pub drain_timeout: Duration,
    /// How long a connection must have been silent at shutdown to be closed without waiting for the rest of that time.
    pub quiet: Duration,
    /// What it calls itself in the status of routes.
    pub name: String,
    /// How many clusters have numbers of their own in the metrics; further ones are counted together as `other`.
    pub cluster_labels: usize,
    /// From where clusters that are private can be reached at a listener for everybody.
    pub private_ranges: Vec<Range>,
    /// Whose PROXY headers are believed, and asked for. From anybody else they end the connection.
    pub proxy_peers: Vec<Range>,
    /// Where it listens as well.
    pub listeners: Vec<Listener>,
    /// The management clusters whose routes it follows, beside the one it is started with.
    pub management_clusters: Vec<ManagementCluster>,
    /// The way out, for clusters that have no other.
    pub egress: Egress,
}

/// One more listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// Where it listens.
    pub address: SocketAddr,
    /// Who comes there.
    pub reach: Reach,
}

/// Who comes to a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Everybody.
    Public,
    /// A private network: private clusters are there, too.
    Private,
    /// Parts of the region: nobody is asked where they come from.
    Internal,
}

/// One more management cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManagementCluster {
    /// What it is called in metrics and logs.
    pub name: String,
    /// How its API is reached.
    pub kubeconfig: PathBuf,
    /// The socket through which its pods are reached, if its node is one of ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_socket: Option<PathBuf>,
}

/// The way out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Egress {
    /// Where every cluster may go.
    pub allow: Vec<Permission>,
    /// Where clusters ask.
    pub listeners: Vec<EgressListener>,
    /// The clusters that may ask, by name.
    pub clusters: BTreeMap<String, EgressCluster>,
}

/// Where clusters ask for the way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EgressListener {
    /// Where it listens.
    pub address: SocketAddr,
    /// The only cluster that can reach it. Without one, a private link says in its PROXY header which one it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
}

/// A cluster that may ask for the way out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EgressCluster {
    /// The number of its private link.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<u32>,
    /// Where it may go, beside where all may.
    pub allow: Vec<Permission>,
}

/// What makes no sense together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Contradiction {
    /// A listener of a cluster that there is not.
    #[error(
        "the egress listener {listener} is for cluster `{cluster}`, which is not in `egress.clusters`; add it there"
    )]
    UnknownCluster {
        /// Where it would listen.
        listener: SocketAddr,
        /// Whom it names.
        cluster: String,
    },
    /// A cluster that could not be told from those that have no numbers of their own.
    #[error(
        "no cluster of `egress.clusters` can be called `{OTHER}`, as all further ones are in the metrics; rename it"
    )]
    Other,
    /// Clusters that could not be told apart.
    #[error("clusters `{one}` and `{other}` of `egress.clusters` both have link {link}; give each its own")]
    SameLink {
        /// One of them.
        one: String,
        /// The other.
        other: String,
        /// The number that both have.
        link: u32,
    },
    /// Nobody could ever say who they are there.
    #[error(
        "the egress listener {0} is for no cluster, and nobody's PROXY header is believed; set its `cluster`, or `proxy_peers`"
    )]
    Anonymous(SocketAddr),
    /// Management clusters that could not be told apart.
    #[error("two management clusters are called `{0}`; give each its own name in `management_clusters`")]
    SameName(String),
    /// At shutdown it would be cut off before it is done.
    #[error(
        "`linger` ({linger}) and `drain_timeout` ({drain_timeout}) are not less than {} together, after which it is cut off; shorten one",
        GRACE
    )]
    SlowEnd {
        /// How long it would go on as if nothing was.
        linger: Duration,
        /// How long connections would have after that.
        drain_timeout: Duration,
    },
}

// === impl Config ===

impl Config {
    /// How many descriptors it takes to hold as many connections as it may.
    pub(crate) fn descriptors(&self) -> u64 {
        u64::try_from(self.max_connections).unwrap_or(u64::MAX).saturating_mul(2)
    }

    /// Whether it makes sense as a whole.
    ///
    /// # Errors
    ///
    /// When it does not.
    pub fn check(&self) -> Result<(), Contradiction> {
        let Self { linger, drain_timeout, .. } = *self;
        if linger.0.saturating_add(drain_timeout.0) >= GRACE.0 {
            return Err(Contradiction::SlowEnd { linger, drain_timeout });
        }
        if self.egress.clusters.contains_key(OTHER) {
            return Err(Contradiction::Other);
        }
        let mut links = BTreeMap::new();
        for (name, cluster) in &self.egress.clusters {
            let Some(link) = cluster.link else { continue };
            if let Some(one) = links.insert(link, name) {
                return Err(Contradiction::SameLink { one: one.clone(), other: name.clone(), link });
            }
        }
        for EgressListener { address, cluster } in &self.egress.listeners {
            match cluster {
                Some(cluster) if !self.egress.clusters.contains_key(cluster) => {
                    let cluster = cluster.clone();
                    return Err(Contradiction::UnknownCluster { listener: *address, cluster });
                }
                None if self.proxy_peers.is_empty() => return Err(Contradiction::Anonymous(*address)),
                Some(_) | None => {}
            }
        }
        let mut names = BTreeSet::from([MANAGEMENT]);
        match self.management_clusters.iter().find(|cluster| !names.insert(&cluster.name)) {
            Some(twice) => Err(Contradiction::SameName(twice.name.clone())),
            None => Ok(()),
        }
    }
}

/// What the management cluster is called that the gateway is started with.
pub const MANAGEMENT: &str = "management";

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 9443)),
            max_connections: 10_000,
            max_connections_per_cluster: 1_000,
            max_connections_per_address: 500,
            max_connections_unnamed: 1_000,
            hello_timeout: Duration::from_secs(10),
            hello_limit: ByteSize(32 * 1024),
            dial_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(15 * 60),
            linger: Duration::from_secs(0),
            drain_timeout: Duration::from_secs(10),
            quiet: Duration::from_millis(500),
            name: "pilothouse".to_owned(),
            cluster_labels: 1_000,
            // Whoever is on the machine itself is on no public network.
            private_ranges: ["127.0.0.0/8", "::1"].iter().flat_map(|range| range.parse()).collect(),
            proxy_peers: Vec::new(),
            listeners: Vec::new(),
            management_clusters: Vec::new(),
            egress: Egress::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_clusters_few_addresses_and_those_who_say_nothing_leave_room_for_others() {
        let config = Config::default();
        for most in [config.max_connections_per_cluster, config.max_connections_unnamed] {
            assert!(most * 10 <= config.max_connections);
        }
        // One address alone fills no cluster and sends nobody away who waits.
        let least = config.max_connections_per_cluster.min(config.max_connections_unnamed);
        assert!(config.max_connections_per_address * 2 <= least);
    }

    #[test]
    fn gateway_that_would_be_cut_off_at_its_end_is_refused() {
        let lingers = |seconds: u64| Config { linger: Duration::from_secs(seconds), ..Config::default() };
        assert_eq!(lingers(29).check(), Ok(()));
        for seconds in [30, u64::MAX] {
            let (linger, drain_timeout) = (Duration::from_secs(seconds), Duration::from_secs(10));
            assert_eq!(lingers(seconds).check(), Err(Contradiction::SlowEnd { linger, drain_timeout }));
        }
        assert_eq!(
            lingers(30).check().unwrap_err().to_string(),
            "`linger` (30s) and `drain_timeout` (10s) are not less than 40s together, after which it is cut off; \
             shorten one"
        );
    }
}
