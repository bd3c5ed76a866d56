use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// The engine's numbers.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    works: Family<WorkLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WorkLabels {
    outcome: Outcome,
}

/// How a pass over a work ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Outcome {
    /// All of its manifests are applied.
    Applied,
    /// Some of them could not be.
    Incomplete,
    /// It is gone, with everything it applied.
    Removed,
    /// The pass failed.
    Failed,
}

impl Metrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self { works: Family::default() };
        let registry = registry.sub_registry_with_prefix("mce");
        registry.register(
            "work_passes",
            "Passes over ManifestWorks, by how they ended",
            metrics.works.clone(),
        );
        metrics
    }

    pub(crate) fn pass(&self, outcome: Outcome) {
        self.works.get_or_create(&WorkLabels { outcome }).inc();
    }
}
