use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Numbers about the server. A cheap handle.
#[derive(Clone, Debug, Default)]
pub(super) struct Metrics {
    pub(super) sent: Counter,
    pub(super) reports: Family<ReportLabels, Counter>,
    pub(super) resyncs: Counter,
    pub(super) subscriptions: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReportLabels {
    pub(super) outcome: Outcome,
}

/// What became of an agent's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(super) enum Outcome {
    Stored,
    Deleted,
    Stale,
    Unknown,
    Unreadable,
}

impl Metrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let Self { sent, reports, resyncs, subscriptions } = metrics.clone();
        registry.register("bundles_sent", "Bundles that were sent to agents", sent);
        registry.register("reports", "Statuses that agents sent, by what became of them", reports);
        registry.register("resyncs", "Questions of agents for what they missed", resyncs);
        registry.register("subscriptions", "Sources that are being told of statuses", subscriptions);
        metrics
    }

    pub(super) fn report(&self, outcome: Outcome) {
        self.reports.get_or_create(&ReportLabels { outcome }).inc();
    }
}
