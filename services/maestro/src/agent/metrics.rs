use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Numbers about the agent. A cheap handle.
#[derive(Clone, Debug, Default)]
pub(super) struct Metrics {
    pub(super) works: Gauge,
    pub(super) orders: Counter,
    pub(super) refused: Counter,
    pub(super) reports: Counter,
}

impl Metrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let Self { works, orders, refused, reports } = metrics.clone();
        registry.register("works", "Bundles that are being looked after", works);
        registry.register("orders", "Messages from the server", orders);
        registry.register("orders_refused", "Messages that are no orders, or cannot be carried out", refused);
        registry.register("reports", "Statuses that were sent to the server", reports);
        metrics
    }
}
