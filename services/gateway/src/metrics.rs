//! What the gateway counts.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// Numbers about connections. A cheap handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    connections: Family<OutcomeLabels, Counter>,
    bytes: Family<DirectionLabels, Counter>,
    open: Gauge,
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
        metrics
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

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}
