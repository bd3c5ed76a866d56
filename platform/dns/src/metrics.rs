//! What the name server counts.

use hickory_proto::op::ResponseCode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Numbers about questions. A cheap handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    questions: Family<OutcomeLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    outcome: Outcome,
}

/// How a question was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum Outcome {
    /// The name is known.
    Known,
    /// There is no such name.
    Unknown,
    /// It is no name of ours.
    Refused,
    /// The records were not read yet.
    Unready,
}

impl Metrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("dns");
        registry.register(
            "questions",
            "Questions about names, by how they were answered",
            metrics.questions.clone(),
        );
        metrics
    }

    pub(crate) fn answered(&self, code: ResponseCode) {
        let outcome = match code {
            ResponseCode::NoError => Outcome::Known,
            ResponseCode::NXDomain => Outcome::Unknown,
            ResponseCode::ServFail => Outcome::Unready,
            _ => Outcome::Refused,
        };
        self.questions.get_or_create(&OutcomeLabels { outcome }).inc();
    }
}
