//! A new cluster: from its route to its first answer.

use kube::Client;
use tokio::time::Instant;

use super::CLUSTERS;
use super::proxies::{Proxy, endpoints, route};
use super::servers::Servers;
use crate::harness::{Budget, Figure, Progress, Report, Samples, Size};

/// Route created, as its Kubernetes API answers → its server answers through the gateway, one route after another.
pub(super) async fn measure(
    gateway: &Proxy,
    client: &Client,
    size: Size,
    report: &mut Report,
) -> anyhow::Result<()> {
    Progress.say("new clusters");
    let count = size.pick(50, 5);
    let servers = Servers::start(CLUSTERS..CLUSTERS + count).await?;
    let mut samples = Samples::default();
    for (number, server) in (CLUSTERS..).zip(&servers.all) {
        let namespace = format!("cluster-{number}");
        endpoints(client, &namespace, server).await?;
        route(client, &namespace, server).await?;
        let created = Instant::now();
        gateway.until_answering(server).await?;
        samples.push_milliseconds(created.elapsed());
    }
    let note = format!(
        "{count} routes, at most {:.2}; asked without pause from the moment that the route is there",
        samples.largest()
    );
    for (which, value) in [("p50", samples.median()), ("p99", samples.percentile(99.0))] {
        report.figure(
            Figure::new(format!("new cluster routable, {which}"), value, "ms")
                .budget(Budget::Below(10.0))
                .note(note.clone()),
        );
    }
    Ok(())
}
