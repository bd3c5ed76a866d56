use pilothouse_arm::ProvisioningState;
use pilothouse_records::{Operation, Request};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// From a light cluster to one that takes as long as it may.
const SECONDS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 300.0, 1200.0, 3600.0];

/// Numbers about the backend. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    ended: Family<EndedLabels, Counter>,
    duration: Family<RequestLabels, Histogram, fn() -> Histogram>,
    pub(crate) leases: Gauge,
    pub(crate) watch_connected: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndedLabels {
    request: Kind,
    end: End,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    request: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum Kind {
    Create,
    Update,
    Delete,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum End {
    Succeeded,
    Failed,
    Canceled,
}

impl Metrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            ended: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(SECONDS)),
            leases: Gauge::default(),
            watch_connected: Gauge::default(),
        };
        registry.register("operations_ended", "Operations that ended, by how", metrics.ended.clone());
        registry.register_with_unit(
            "operation_duration",
            "Time from the acceptance of an operation to its end",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        registry.register("leases", "Parts of the work that this backend holds", metrics.leases.clone());
        registry.register(
            "watch_connected",
            "Whether changes of Clusters Service are being followed",
            metrics.watch_connected.clone(),
        );
        metrics
    }

    pub(crate) fn ended(&self, operation: &Operation) {
        let request = match operation.request {
            Request::Create => Kind::Create,
            Request::Update => Kind::Update,
            Request::Delete => Kind::Delete,
        };
        let end = match operation.state {
            ProvisioningState::Succeeded => End::Succeeded,
            ProvisioningState::Failed => End::Failed,
            ProvisioningState::Canceled => End::Canceled,
            ProvisioningState::Accepted
            | ProvisioningState::Provisioning
            | ProvisioningState::Updating
            | ProvisioningState::Deleting => return,
        };
        self.ended.get_or_create(&EndedLabels { request, end }).inc();
        let took = operation.changed_at.duration_since(operation.started_at);
        self.duration.get_or_create(&RequestLabels { request }).observe(took.as_secs_f64());
    }
}
