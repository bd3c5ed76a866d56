//! The node's numbers.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// What a node counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) started: Counter,
    pub(crate) adopted: Counter,
    pub(crate) proxied: Counter,
    pub(crate) unserved: Counter,
}

impl Metrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("kubelet");
        registry.register(
            "containers_started",
            "Containers that were started, restarts included",
            metrics.started.clone(),
        );
        registry.register(
            "pods_adopted",
            "Running pods of an earlier kubelet that were taken over",
            metrics.adopted.clone(),
        );
        registry.register(
            "proxy_connections",
            "Connections to Services that were passed on",
            metrics.proxied.clone(),
        );
        registry.register(
            "proxy_connections_unserved",
            "Connections to Services that had no endpoint to go to",
            metrics.unserved.clone(),
        );
        metrics
    }
}
