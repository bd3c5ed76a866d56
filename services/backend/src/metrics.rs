use pilothouse_arm::ProvisioningState;
use pilothouse_records::{Operation, Request};
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::kind::Kind;

/// From a light cluster to one that takes as long as it may.
const SECONDS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 300.0, 1200.0, 3600.0];

/// Numbers about the backend. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    ended: Family<EndedLabels, Counter>,
    duration: Family<RequestLabels, Histogram, fn() -> Histogram>,
    pub(crate) active: Family<OperationLabels, Gauge>,
    pub(crate) notifications: Family<NotificationLabels, Counter>,
    pub(crate) orphans: Counter,
    pub(crate) orphans_spared: Counter,
    pub(crate) leases: Gauge,
    pub(crate) watch_connected: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndedLabels {
    resource: ResourceLabel,
    request: RequestLabel,
    end: End,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    resource: ResourceLabel,
    request: RequestLabel,
}

/// What an operation that has not ended is at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct OperationLabels {
    resource: ResourceLabel,
    request: RequestLabel,
    state: StateLabel,
    waiting: WaitingLabel,
}

/// What came of an attempt to tell of an end.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct NotificationLabels {
    pub(crate) outcome: NotificationOutcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum NotificationOutcome {
    Delivered,
    Failed,
    GivenUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum ResourceLabel {
    Cluster,
    NodePool,
    ExternalAuth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum RequestLabel {
    Create,
    Update,
    Delete,
    RequestCredential,
    RevokeCredentials,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum StateLabel {
    Accepted,
    Provisioning,
    Updating,
    Deleting,
    AwaitingSecret,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum WaitingLabel {
    /// For nothing but what was asked for.
    No,
    /// To try again.
    Retry,
    /// For a hold to end, or for its cluster to be made.
    Blocked,
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
            active: Family::default(),
            notifications: Family::default(),
            orphans: Counter::default(),
            orphans_spared: Counter::default(),
            leases: Gauge::default(),
            watch_connected: Gauge::default(),
        };
        registry.register(
            "operations_ended",
            "Operations that this backend ended, by how",
            metrics.ended.clone(),
        );
        registry.register_with_unit(
            "operation_duration",
            "Time from the acceptance of an operation to its end",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        registry.register(
            "operations_active",
            "Operations in the store that have not ended, whoever works on them",
            metrics.active.clone(),
        );
        registry.register(
            "notifications",
            "Attempts of this backend to tell of the end of an operation, by what came of them",
            metrics.notifications.clone(),
        );
        registry.register(
            "orphans_deleted",
            "Clusters at Clusters Service that no record names any more, and that were asked to go",
            metrics.orphans.clone(),
        );
        registry.register(
            "orphans_spared",
            "Clusters at Clusters Service that no record names and that were left alone, since the records may be wrong",
            metrics.orphans_spared.clone(),
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
        let (resource, request) = (resource(operation), request(operation));
        let end = match operation.state {
            ProvisioningState::Succeeded => End::Succeeded,
            ProvisioningState::Failed => End::Failed,
            ProvisioningState::Canceled => End::Canceled,
            ProvisioningState::Accepted
            | ProvisioningState::Provisioning
            | ProvisioningState::Updating
            | ProvisioningState::Deleting
            | ProvisioningState::AwaitingSecret => return,
        };
        self.ended.get_or_create(&EndedLabels { resource, request, end }).inc();
        let took = operation.changed_at.duration_since(operation.started_at);
        self.duration.get_or_create(&RequestLabels { resource, request }).observe(took.as_secs_f64());
    }

    pub(crate) fn notified(&self, outcome: NotificationOutcome) {
        self.notifications.get_or_create(&NotificationLabels { outcome }).inc();
    }
}

impl OperationLabels {
    pub(crate) fn of(operation: &Operation) -> Self {
        let state = match operation.state {
            ProvisioningState::Accepted => StateLabel::Accepted,
            ProvisioningState::Provisioning => StateLabel::Provisioning,
            ProvisioningState::Updating => StateLabel::Updating,
            ProvisioningState::Deleting => StateLabel::Deleting,
            ProvisioningState::AwaitingSecret => StateLabel::AwaitingSecret,
            ProvisioningState::Succeeded | ProvisioningState::Failed | ProvisioningState::Canceled => {
                StateLabel::Ended
            }
        };
        let waiting = match &operation.waiting {
            None => WaitingLabel::No,
            Some(waiting) if waiting.next_at.is_some() => WaitingLabel::Retry,
            Some(_) => WaitingLabel::Blocked,
        };
        Self { resource: resource(operation), request: request(operation), state, waiting }
    }
}

fn resource(operation: &Operation) -> ResourceLabel {
    match Kind::of(&operation.resource) {
        Kind::Cluster => ResourceLabel::Cluster,
        Kind::NodePool => ResourceLabel::NodePool,
        Kind::ExternalAuth => ResourceLabel::ExternalAuth,
    }
}

fn request(operation: &Operation) -> RequestLabel {
    match operation.request {
        Request::Create => RequestLabel::Create,
        Request::Update => RequestLabel::Update,
        Request::Delete => RequestLabel::Delete,
        Request::RequestCredential => RequestLabel::RequestCredential,
        Request::RevokeCredentials => RequestLabel::RevokeCredentials,
    }
}
