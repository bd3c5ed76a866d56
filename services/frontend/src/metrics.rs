use pilothouse_records::Request;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Numbers about the frontend. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    pub(crate) http: pilothouse_http::Metrics,
    accepted: Family<AcceptedLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AcceptedLabels {
    request: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum Kind {
    Create,
    Update,
    Delete,
    RequestCredential,
    RevokeCredentials,
}

impl Metrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let accepted = Family::default();
        registry.register(
            "operations_accepted",
            "Operations that were accepted and stored",
            accepted.clone(),
        );
        Self { http: pilothouse_http::Metrics::new(registry), accepted }
    }

    pub(crate) fn accepted(&self, request: Request) {
        let request = match request {
            Request::Create => Kind::Create,
            Request::Update => Kind::Update,
            Request::Delete => Kind::Delete,
            Request::RequestCredential => Kind::RequestCredential,
            Request::RevokeCredentials => Kind::RevokeCredentials,
        };
        self.accepted.get_or_create(&AcceptedLabels { request }).inc();
    }
}
