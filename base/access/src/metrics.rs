use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// Numbers about access. A cheap handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) key_reads: Counter,
    pub(crate) key_reads_failed: Counter,
}

impl Metrics {
    pub(crate) fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "access_key_reads",
            "Attempts to read the public keys of the tokens' issuer",
            metrics.key_reads.clone(),
        );
        registry.register(
            "access_key_reads_failed",
            "Attempts to read the public keys of the tokens' issuer that failed",
            metrics.key_reads_failed.clone(),
        );
        metrics
    }
}
