use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use kube::ResourceExt as _;
use pilothouse_crds::{
    ConditionStatus, HistoryState, HostedCluster, HostedClusterStatus, NodePool, find_condition,
    is_condition_true,
};
use pilothouse_runtime::Clock;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::caches::Caches;

/// From a tenth of a second, which a good day takes, to ten minutes.
const SECONDS: [f64; 14] = [0.1, 0.25, 0.5, 1.0, 1.5, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0];

/// Conditions of a healthy cluster, and whether they hold there.
const EXPECTED: [(&str, bool); 12] = [
    ("Available", true),
    ("InfrastructureReady", true),
    ("KubeAPIServerAvailable", true),
    ("ValidConfiguration", true),
    ("SupportedHostedCluster", true),
    ("ValidReleaseImage", true),
    ("ValidReleaseInfo", true),
    ("ValidHostedControlPlaneConfiguration", true),
    ("ReconciliationActive", true),
    ("ReconciliationSucceeded", true),
    ("Progressing", false),
    ("Degraded", false),
];

/// Conditions whose first time is measured.
const TIMED: [&str; 3] = ["InfrastructureReady", "KubeAPIServerAvailable", "Available"];

/// The operator's numbers.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    until_available: Histogram,
    transitions: Family<ConditionLabel, Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ConditionLabel {
    condition: &'static str,
}

/// Counted when somebody looks: counting in every pass would cost more with every cluster.
#[derive(Debug)]
struct Counts {
    caches: Caches,
    clock: Clock,
}

type Labels = Vec<(&'static str, String)>;

// === impl Metrics ===

impl Metrics {
    pub(crate) fn new(registry: &mut Registry, caches: Caches, clock: Clock) -> Self {
        let metrics = Self {
            until_available: Histogram::new(SECONDS),
            transitions: Family::new_with_constructor(|| Histogram::new(SECONDS)),
        };
        let registry = registry.sub_registry_with_prefix("hypershift");
        registry.register_with_unit(
            "hosted_cluster_available",
            "Time from a hosted cluster's creation until it was available",
            Unit::Seconds,
            metrics.until_available.clone(),
        );
        registry.register_with_unit(
            "hosted_cluster_transition",
            "Time from a hosted cluster's creation until a condition first held",
            Unit::Seconds,
            metrics.transitions.clone(),
        );
        registry.register_collector(Box::new(Counts { caches, clock }));
        metrics
    }

    /// A cluster's status was written.
    pub(crate) fn changed(
        &self,
        cluster: &HostedCluster,
        before: Option<&HostedClusterStatus>,
        now: Timestamp,
    ) {
        let (Some(created), Some(after)) = (&cluster.metadata.creation_timestamp, &cluster.status) else {
            return;
        };
        // What ran before only comes back.
        if before.is_some_and(has_completed) {
            return;
        }
        let age = now.duration_since(created.0).as_secs_f64().max(0.0);
        let became = |condition: &str| {
            is_condition_true(&after.conditions, condition)
                && !before.is_some_and(|before| is_condition_true(&before.conditions, condition))
        };
        for condition in TIMED.into_iter().filter(|condition| became(condition)) {
            self.transitions.get_or_create(&ConditionLabel { condition }).observe(age);
        }
        if became("Available") {
            self.until_available.observe(age);
        }
    }
}

// === impl Counts ===

impl Collector for Counts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let clusters = self.caches.clusters.list();
        let pools = self.caches.pools.list();
        let now = self.clock.now();
        let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        gauges(&mut encoder, "operator_info", "The operator that runs", [(version, 1)])?;

        let counted = count(clusters.iter().map(|cluster| vec![("platform", platform(cluster))]));
        gauges(&mut encoder, "hostedclusters", "Hosted clusters", counted)?;
        let available = clusters.iter().filter(|cluster| is_available(cluster)).count();
        let available = [(Vec::new(), i64::try_from(available).unwrap_or(i64::MAX))];
        gauges(&mut encoder, "hostedclusters_available", "Hosted clusters that are available", available)?;
        let failing = clusters.iter().flat_map(|cluster| {
            failures(cluster)
                .into_iter()
                .map(|condition| vec![("platform", platform(cluster)), ("condition", condition)])
        });
        let help = "Hosted clusters with a condition other than a healthy cluster has it";
        gauges(&mut encoder, "hostedclusters_failure_conditions", help, count(failing))?;

        let waiting = clusters.iter().filter(|cluster| !was_available(cluster) && !is_going(cluster));
        let help = "Age of hosted clusters that were never available";
        let name = "cluster_waiting_initial_availability_duration_seconds";
        gauges(&mut encoder, name, help, waiting.map(|cluster| (named(cluster), age(cluster, now))))?;
        let rolling = clusters.iter().filter(|cluster| !was_complete(cluster) && !is_going(cluster));
        let help = "Age of hosted clusters whose first release is not rolled out";
        let name = "cluster_initial_rolling_out_duration_seconds";
        gauges(&mut encoder, name, help, rolling.map(|cluster| (named(cluster), age(cluster, now))))?;
        let upgrading = clusters.iter().filter_map(|cluster| upgrade(cluster, now));
        let help = "Since when a hosted cluster is being upgraded";
        gauges(&mut encoder, "cluster_upgrading_duration_seconds", help, upgrading)?;
        let going = clusters.iter().filter_map(|cluster| {
            let since = cluster.metadata.deletion_timestamp.as_ref()?;
            Some((named(cluster), now.duration_since(since.0).as_secs().max(0)))
        });
        let help = "Since when a hosted cluster is being deleted";
        gauges(&mut encoder, "cluster_deleting_duration_seconds", help, going)?;
        encode_pools(&mut encoder, &pools)
    }
}

fn encode_pools(
    encoder: &mut DescriptorEncoder<'_>,
    pools: &[std::sync::Arc<NodePool>],
) -> Result<(), fmt::Error> {
    let all = [(Vec::new(), i64::try_from(pools.len()).unwrap_or(i64::MAX))];
    gauges(encoder, "nodepools", "Node pools", all)?;
    let of_cluster = pools.iter().map(|pool| {
        vec![("namespace", pool.namespace().unwrap_or_default()), ("name", pool.spec.cluster_name.clone())]
    });
    gauges(encoder, "hostedcluster_nodepools", "Node pools of a hosted cluster", count(of_cluster))?;
    let labels = |pool: &NodePool| {
        vec![
            ("namespace", pool.namespace().unwrap_or_default()),
            ("name", pool.name_any()),
            ("cluster_name", pool.spec.cluster_name.clone()),
        ]
    };
    let size = pools.iter().map(|pool| (labels(pool), i64::from(pool.spec.replicas.unwrap_or_default())));
    gauges(encoder, "nodepools_size", "Nodes that a node pool is to have", size)?;
    let available = pools.iter().map(|pool| {
        let available = pool.status.as_ref().map(|status| status.replicas).unwrap_or_default();
        (labels(pool), i64::from(available))
    });
    gauges(encoder, "nodepools_available_replicas", "Nodes of a node pool that are ready", available)
}

fn gauges(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    values: impl IntoIterator<Item = (Labels, i64)>,
) -> Result<(), fmt::Error> {
    let mut values = values.into_iter().peekable();
    if values.peek().is_none() {
        return Ok(());
    }
    let mut descriptor = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in values {
        let gauge = ConstGauge::new(value);
        if labels.is_empty() {
            gauge.encode(descriptor)?;
            return Ok(());
        }
        gauge.encode(descriptor.encode_family(&labels)?)?;
    }
    Ok(())
}

fn count(labels: impl Iterator<Item = Labels>) -> Vec<(Labels, i64)> {
    let mut counted = BTreeMap::new();
    for labels in labels {
        *counted.entry(labels).or_insert(0) += 1;
    }
    counted.into_iter().collect()
}

/// As the API writes it.
fn platform(cluster: &HostedCluster) -> String {
    let written = serde_json::to_value(cluster.spec.platform.type_).unwrap_or_default();
    written.as_str().unwrap_or_default().to_owned()
}

fn named(cluster: &HostedCluster) -> Labels {
    vec![
        ("namespace", cluster.namespace().unwrap_or_default()),
        ("name", cluster.name_any()),
        ("_id", cluster.spec.cluster_id.clone().unwrap_or_default()),
    ]
}

fn age(cluster: &HostedCluster, now: Timestamp) -> i64 {
    let created = cluster.metadata.creation_timestamp.as_ref();
    created.map_or(0, |created| now.duration_since(created.0).as_secs().max(0))
}

/// What a healthy cluster would say otherwise; what should hold and does not has `not_` before its name.
fn failures(cluster: &HostedCluster) -> Vec<String> {
    let Some(status) = &cluster.status else { return Vec::new() };
    let unexpected = EXPECTED.iter().filter(|(type_, expected)| {
        let expected = if *expected { ConditionStatus::True } else { ConditionStatus::False };
        find_condition(&status.conditions, type_).is_some_and(|condition| condition.status != expected)
    });
    unexpected
        .map(|(type_, expected)| if *expected { format!("not_{type_}") } else { (*type_).to_owned() })
        .collect()
}

/// Since when a cluster is on its way from one release to the next.
fn upgrade(cluster: &HostedCluster, now: Timestamp) -> Option<(Labels, i64)> {
    let history = &cluster.status.as_ref()?.version.as_ref()?.history;
    let newest = history.first().filter(|entry| entry.state == HistoryState::Partial)?;
    let previous = history.iter().find(|entry| entry.state == HistoryState::Completed)?;
    let mut labels = named(cluster);
    labels.push(("previous_version", previous.version.clone()));
    labels.push(("new_version", newest.version.clone()));
    Some((labels, now.duration_since(newest.started_time.0).as_secs().max(0)))
}

fn is_available(cluster: &HostedCluster) -> bool {
    cluster.status.as_ref().is_some_and(|status| is_condition_true(&status.conditions, "Available"))
}

/// A cluster that completed a release answered once.
fn was_available(cluster: &HostedCluster) -> bool {
    is_available(cluster) || was_complete(cluster)
}

fn was_complete(cluster: &HostedCluster) -> bool {
    cluster.status.as_ref().is_some_and(has_completed)
}

fn has_completed(status: &HostedClusterStatus) -> bool {
    let mut history = status.version.iter().flat_map(|version| &version.history);
    history.any(|entry| entry.state == HistoryState::Completed)
}

fn is_going(cluster: &HostedCluster) -> bool {
    cluster.metadata.deletion_timestamp.is_some()
}
