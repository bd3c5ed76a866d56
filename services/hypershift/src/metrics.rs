use std::fmt;

use jiff::Timestamp;
use pilothouse_crds::{HostedCluster, is_condition_true};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::caches::Caches;

/// From a tenth of a second, which a good day takes, to ten minutes.
const SECONDS: [f64; 14] = [0.1, 0.25, 0.5, 1.0, 1.5, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0];

/// The operator's numbers.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    until_available: Histogram,
}

/// Counted when somebody looks: counting in every pass would cost more with every cluster.
#[derive(Debug)]
struct Counts(Caches);

// === impl Metrics ===

impl Metrics {
    pub(crate) fn new(registry: &mut Registry, caches: Caches) -> Self {
        let metrics = Self { until_available: Histogram::new(SECONDS) };
        let registry = registry.sub_registry_with_prefix("hypershift");
        registry.register_with_unit(
            "hosted_cluster_available",
            "Time from a hosted cluster's creation until it was available",
            Unit::Seconds,
            metrics.until_available.clone(),
        );
        registry.register_collector(Box::new(Counts(caches)));
        metrics
    }

    pub(crate) fn became_available(&self, cluster: &HostedCluster, now: Timestamp) {
        if let Some(created) = &cluster.metadata.creation_timestamp {
            self.until_available.observe(now.duration_since(created.0).as_secs_f64().max(0.0));
        }
    }
}

// === impl Counts ===

impl Collector for Counts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let clusters = self.0.clusters.list();
        let available = clusters.iter().filter(|cluster| is_available(cluster)).count();
        for (name, help, number) in [
            ("hostedclusters", "Hosted clusters", clusters.len()),
            ("hostedclusters_available", "Hosted clusters that are available", available),
            ("nodepools", "Node pools", self.0.pools.keys().len()),
        ] {
            let gauge = ConstGauge::new(i64::try_from(number).unwrap_or(i64::MAX));
            let metric_type = prometheus_client::metrics::MetricType::Gauge;
            gauge.encode(encoder.encode_descriptor(name, help, None, metric_type)?)?;
        }
        Ok(())
    }
}

fn is_available(cluster: &HostedCluster) -> bool {
    cluster.status.as_ref().is_some_and(|status| is_condition_true(&status.conditions, "Available"))
}
