//! What the gateway counts.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::cluster::ClusterName;

/// Numbers about connections. A cheap handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    connections: Family<OutcomeLabels, Counter>,
    bytes: Family<DirectionLabels, Counter>,
    open: Gauge,
    cluster_connections: Family<ClusterName, Counter>,
    cluster_refused: Family<ClusterName, Counter>,
    cluster_bytes: Family<ClusterDirectionLabels, Counter>,
    cluster_open: Family<ClusterName, Gauge>,
    reloads: Family<ReloadLabels, Counter>,
}

/// The numbers of one cluster. A cheap handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterNumbers {
    connections: Counter,
    refused: Counter,
    from_client: Counter,
    to_client: Counter,
    open: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ClusterDirectionLabels {
    management: String,
    cluster: String,
    direction: Direction,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    result: Reload,
}

/// What became of a changed configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Reload {
    Taken,
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DirectionLabels {
    direction: Direction,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Outcome {
    /// Both ends were connected, and one of them ended it.
    Served,
    /// Both ends were connected, and nobody said anything for too long.
    Idle,
    /// Both ends were connected when the gateway stopped.
    Drained,
    /// Both ends were connected, and the connection broke.
    Broken,
    /// Both ends were connected on the way out of a cluster that is gone.
    Gone,
    /// The client named no host.
    NoName,
    /// The client named a host that no route has.
    UnknownName,
    /// The client does not speak TLS, or says too much.
    BadHello,
    /// The client took too long to say whom it wants.
    SlowHello,
    /// The client left before it said whom it wants.
    Left,
    /// The route's service has no endpoint.
    NoEndpoint,
    /// No endpoint could be reached.
    Unreachable,
    /// There were too many connections.
    Limit,
    /// The cluster had too many connections.
    ClusterLimit,
    /// There were too many connections from the client's address.
    AddressLimit,
    /// The client had not said whom it wants for longer than any of too many others.
    Overtaken,
    /// The cluster is private, and the client comes from elsewhere.
    NotPublic,
    /// The client's address is not on the cluster's list.
    NotAllowed,
    /// Somebody sent a PROXY header whose headers are not believed.
    UntrustedProxy,
    /// Somebody whose PROXY headers are believed sent none that makes sense.
    BadProxy,
    /// A private link that belongs to no cluster asked for the way out.
    UnknownLink,
    /// What asked for the way out was no request to connect.
    BadRequest,
    /// The host that was asked for is not on the cluster's list.
    NotListed,
    /// The host that was asked for has an address that is nobody's on the internet.
    ReservedAddress,
}

/// Which way bytes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Direction {
    FromClient,
    ToClient,
}

/// Counts a connection as open until dropped.
#[derive(Debug)]
pub(crate) struct Open(Gauge);

impl Metrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("gateway");
        registry.register("connections", "Connections, by how they ended", metrics.connections.clone());
        registry.register_with_unit(
            "carried",
            "Bytes carried between clients and endpoints",
            Unit::Bytes,
            metrics.bytes.clone(),
        );
        registry.register("open_connections", "Connections that are open", metrics.open.clone());
        registry.register(
            "cluster_connections",
            "Connections of a cluster that were carried",
            metrics.cluster_connections.clone(),
        );
        registry.register(
            "cluster_refused",
            "Connections to a cluster, or from it, that were refused",
            metrics.cluster_refused.clone(),
        );
        registry.register_with_unit(
            "cluster_carried",
            "Bytes carried for a cluster",
            Unit::Bytes,
            metrics.cluster_bytes.clone(),
        );
        registry.register(
            "cluster_open_connections",
            "Connections of a cluster that are open",
            metrics.cluster_open.clone(),
        );
        registry.register("reloads", "Changes of the configuration", metrics.reloads.clone());
        metrics
    }

    /// The numbers of a cluster.
    pub(crate) fn cluster(&self, name: &ClusterName) -> ClusterNumbers {
        let bytes = |direction| self.cluster_bytes.get_or_create(&name.with(direction)).clone();
        ClusterNumbers {
            connections: self.cluster_connections.get_or_create(name).clone(),
            refused: self.cluster_refused.get_or_create(name).clone(),
            from_client: bytes(Direction::FromClient),
            to_client: bytes(Direction::ToClient),
            open: self.cluster_open.get_or_create(name).clone(),
        }
    }

    /// A cluster's numbers are no longer of interest.
    pub(crate) fn forget(&self, name: &ClusterName) {
        self.cluster_connections.remove(name);
        self.cluster_refused.remove(name);
        self.cluster_open.remove(name);
        for direction in [Direction::FromClient, Direction::ToClient] {
            self.cluster_bytes.remove(&name.with(direction));
        }
    }

    pub(crate) fn reloaded(&self, result: Reload) {
        self.reloads.get_or_create(&ReloadLabels { result }).inc();
    }

    pub(crate) fn opened(&self) -> Open {
        self.open.inc();
        Open(self.open.clone())
    }

    pub(crate) fn ended(&self, outcome: Outcome) {
        self.connections.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    pub(crate) fn carried(&self, direction: Direction, bytes: u64) {
        self.bytes.get_or_create(&DirectionLabels { direction }).inc_by(bytes);
    }
}

impl ClusterName {
    fn with(&self, direction: Direction) -> ClusterDirectionLabels {
        ClusterDirectionLabels {
            management: self.management.clone(),
            cluster: self.cluster.clone(),
            direction,
        }
    }
}

impl ClusterNumbers {
    pub(crate) fn opened(&self) {
        self.open.inc();
    }

    pub(crate) fn closed(&self) {
        self.open.dec();
    }

    /// A connection ended that was carried, or was refused.
    pub(crate) fn ended(&self, carried: bool) {
        if carried {
            self.connections.inc()
        } else {
            self.refused.inc()
        };
    }

    pub(crate) fn carried(&self, from_client: u64, to_client: u64) {
        self.from_client.inc_by(from_client);
        self.to_client.inc_by(to_client);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}
