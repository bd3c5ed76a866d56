use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Numbers about the broker. A cheap handle.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    pub(crate) clients: Gauge,
    pub(crate) subscriptions: Gauge,
    pub(crate) received: Counter,
    pub(crate) delivered: Counter,
    pub(crate) unheard: Counter,
    pub(crate) too_large: Counter,
    pub(crate) ended: Family<EndLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct EndLabels {
    pub(crate) end: End,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum End {
    Client,
    Lost,
    KeepAlive,
    TakenOver,
    Slow,
    Refused,
    Violation,
    Shutdown,
}

impl Metrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let Self { clients, subscriptions, received, delivered, unheard, too_large, ended } = metrics.clone();
        registry.register("clients", "Clients that are connected", clients);
        registry.register("subscriptions", "Subscriptions that stand", subscriptions);
        registry.register("messages_received", "Messages that clients published", received);
        registry.register("messages_delivered", "Messages that were sent to subscribers", delivered);
        registry.register("messages_unheard", "Messages that nobody had subscribed to", unheard);
        registry.register("messages_too_large", "Messages larger than their subscriber takes", too_large);
        registry.register("connections_ended", "Connections that ended, by how", ended);
        metrics
    }

    pub(crate) fn end(&self, end: End) {
        self.ended.get_or_create(&EndLabels { end }).inc();
    }
}
