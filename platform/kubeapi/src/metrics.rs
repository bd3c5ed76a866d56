//! Numbers about objects, watches and authorization. Those about requests come with `pilothouse_http`.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// A cheap handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) objects: Gauge,
    pub(crate) object_bytes: Gauge,
    pub(crate) history_bytes: Gauge,
    pub(crate) watches: Gauge,
    pub(crate) watch_events: Counter,
    pub(crate) watch_expired: Counter,
    pub(crate) denied: Counter,
}

impl Metrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register("objects", "Objects stored", metrics.objects.clone());
        registry.register_with_unit(
            "object_size",
            "Encoded size of all objects in memory",
            Unit::Bytes,
            metrics.object_bytes.clone(),
        );
        registry.register_with_unit(
            "history_size",
            "Encoded size of former versions kept in memory for watches",
            Unit::Bytes,
            metrics.history_bytes.clone(),
        );
        registry.register("watches", "Open watches", metrics.watches.clone());
        registry.register("watch_events", "Events sent to watches", metrics.watch_events.clone());
        registry.register(
            "watch_expired",
            "Watches that asked for a version that is no longer kept",
            metrics.watch_expired.clone(),
        );
        registry.register("denied", "Requests that RBAC denied", metrics.denied.clone());
        metrics
    }
}
