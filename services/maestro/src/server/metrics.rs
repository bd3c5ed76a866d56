use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// From a call that only looks something up to one whose caller has given up.
const SECONDS: [f64; 12] = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// Numbers about the server, under the names of the original where it counts the same. Labels are enums: neither consumers
/// nor bundles are among them. A cheap handle.
#[derive(Clone, Debug)]
pub(super) struct Metrics {
    pub(super) reports: Family<ReportLabels, Counter>,
    pub(super) subscriptions: Gauge,
    pub(super) agents: Gauge,
    pub(super) waiting: Gauge,
    pub(super) put_off: Counter,
    pub(super) resync_seconds: Histogram,
    pub(super) first_status_seconds: Histogram,
    pub(super) status_seconds: Histogram,
    calls: Family<CallLabels, Counter>,
    processed: Family<ProcessedLabels, Counter>,
    call_seconds: Histograms<CallLabels>,
    sent: Family<EventLabels, Counter>,
    received: Family<EventLabels, Counter>,
    reconciled: Family<ReconciledLabels, Counter>,
    /// Not a counter, since the name of one would end otherwise.
    requests: Family<RequestLabels, Gauge>,
    request_seconds: Histograms<RequestLabels>,
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
    /// Another replica's.
    Others,
}

/// The calls of the gRPC interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(super) enum Call {
    Publish,
    Subscribe,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    r#type: Call,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ProcessedLabels {
    r#type: Call,
    code: String,
}

/// Which half of a bundle an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(non_camel_case_types, reason = "as they are written")]
pub(super) enum Half {
    spec,
    status,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabels {
    subresource: Half,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
#[expect(non_camel_case_types, reason = "as they are written")]
enum Status {
    success,
    error,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReconciledLabels {
    status: Status,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: String,
    path: String,
    code: u16,
}

fn histogram() -> Histogram {
    Histogram::new(SECONDS)
}

impl Metrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            reports: Family::default(),
            subscriptions: Gauge::default(),
            agents: Gauge::default(),
            waiting: Gauge::default(),
            put_off: Counter::default(),
            resync_seconds: histogram(),
            first_status_seconds: histogram(),
            status_seconds: histogram(),
            calls: Family::default(),
            processed: Family::default(),
            call_seconds: Family::new_with_constructor(histogram),
            sent: Family::default(),
            received: Family::default(),
            reconciled: Family::default(),
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(histogram),
        };
        let all = metrics.clone();
        registry.register("reports", "Statuses that agents sent, by what became of them", all.reports);
        registry.register("subscriptions", "Sources that are being told of statuses", all.subscriptions);
        registry.register("connected_agents", "Agents that have dialled this server", all.agents);
        registry.register(
            "workqueue_depth",
            "Bundles that have to be sent and have not been yet",
            all.waiting,
        );
        registry.register(
            "put_off",
            "Attempts in vain to deal with what an agent said, each of which is followed by another",
            all.put_off,
        );
        registry.register("cloudevents_sent", "Events that were sent to agents", all.sent);
        registry.register("cloudevents_received", "Events that agents sent", all.received);
        registry.register(
            "spec_controller_event_reconcile",
            "Attempts to send a bundle, by how they ended",
            all.reconciled,
        );
        registry.register_with_unit(
            "resources_spec_resync_duration",
            "How long it took to send an agent what it had missed",
            Unit::Seconds,
            all.resync_seconds,
        );
        registry.register_with_unit(
            "resource_first_status_latency",
            "From a bundle's creation to its first status",
            Unit::Seconds,
            all.first_status_seconds,
        );
        registry.register_with_unit(
            "resource_status_event_processing_latency",
            "How long it took to store a status that an agent sent",
            Unit::Seconds,
            all.status_seconds,
        );
        let grpc = registry.sub_registry_with_prefix("grpc_server");
        grpc.register("called", "Calls of the gRPC interfaces", all.calls);
        grpc.register("processed", "Calls that have ended, by how", all.processed);
        grpc.register_with_unit(
            "processed_duration",
            "How long a call took; a subscription, until it stood",
            Unit::Seconds,
            all.call_seconds,
        );
        let rest = registry.sub_registry_with_prefix("rest_api_inbound");
        rest.register("request_count", "Requests that were answered over REST", all.requests);
        rest.register("request_duration", "How long they took, in seconds", all.request_seconds);
        metrics
    }

    pub(super) fn report(&self, outcome: Outcome) {
        self.reports.get_or_create(&ReportLabels { outcome }).inc();
    }

    pub(super) fn sent(&self, half: Half) {
        self.sent.get_or_create(&EventLabels { subresource: half }).inc();
    }

    pub(super) fn received(&self, half: Half) {
        self.received.get_or_create(&EventLabels { subresource: half }).inc();
    }

    pub(super) fn reconciled(&self, went_well: bool) {
        let status = if went_well { Status::success } else { Status::error };
        self.reconciled.get_or_create(&ReconciledLabels { status }).inc();
    }

    /// A call has ended, or a subscription stands.
    pub(super) fn called(&self, call: Call, took: Duration, refused: Option<&tonic::Status>) {
        let labels = CallLabels { r#type: call };
        self.calls.get_or_create(&labels).inc();
        self.call_seconds.get_or_create(&labels).observe(took.as_secs_f64());
        let code = refused.map_or(tonic::Code::Ok, tonic::Status::code);
        let code = if code == tonic::Code::Ok { "OK".to_owned() } else { format!("{code:?}") };
        self.processed.get_or_create(&ProcessedLabels { r#type: call, code }).inc();
    }

    /// A request over REST was answered. `path` is that of the route, with a hyphen for what changes.
    pub(super) fn requested(&self, method: &http::Method, path: &str, code: u16, took: Duration) {
        // Only what the router knows: whatever else somebody sends must not become a series.
        let method = match method.as_str() {
            known @ ("GET" | "POST" | "PATCH" | "DELETE") => known,
            _ => "other",
        };
        let labels = RequestLabels { method: method.to_owned(), path: path.to_owned(), code };
        self.requests.get_or_create(&labels).inc();
        self.request_seconds.get_or_create(&labels).observe(took.as_secs_f64());
    }
}
