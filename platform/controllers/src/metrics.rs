//! What the controllers count.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Numbers about what the controllers did. A cheap handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    scheduling: Family<SchedulingLabels, Counter>,
    pub(crate) collected: Counter,
    pub(crate) namespaces_emptied: Counter,
    pub(crate) nodes_lost: Counter,
    pub(crate) volumes_made: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SchedulingLabels {
    outcome: Scheduling,
}

/// How an attempt to find a node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub(crate) enum Scheduling {
    Bound,
    Unschedulable,
}

impl Metrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let registry = registry.sub_registry_with_prefix("controllers");
        registry.register(
            "scheduling_attempts",
            "Attempts to find a node for a pod, by how they ended",
            metrics.scheduling.clone(),
        );
        registry.register(
            "garbage_collected",
            "Objects deleted because their owners are gone",
            metrics.collected.clone(),
        );
        registry.register(
            "namespaces_emptied",
            "Namespaces emptied and let go",
            metrics.namespaces_emptied.clone(),
        );
        registry.register(
            "nodes_lost",
            "Times a node was marked unreachable because it no longer reported",
            metrics.nodes_lost.clone(),
        );
        registry.register("volumes_made", "Volumes made for claims", metrics.volumes_made.clone());
        metrics
    }

    pub(crate) fn scheduled(&self, outcome: Scheduling) {
        self.scheduling.get_or_create(&SchedulingLabels { outcome }).inc();
    }
}
