//! A node: pods started one by one and all at once, memory, idle processor, the way through a Service.
//!
//! An API server with controllers and scheduler runs in one process, the kubelet in another, both of this program. A pod counts
//! as running when its program says so itself, through a pipe that is mounted into it: neither the status of the
//! pod nor anybody's look at it is in the figure, and the scheduler is.

mod cluster;
mod stream;

use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, sleep};

use self::cluster::{Cluster, PATIENCE};
pub(crate) use self::stream::in_a_pod;
use crate::harness::{
    Budget, Figure, Folder, Memory, PILOTHOUSE, Program, Progress, Report, Samples, Size, interruption,
    processor,
};

/// How many pods are asked for at the same time.
const AT_ONCE: usize = 32;
/// After so long a kubelet has nothing left to do.
const REST: Duration = Duration::from_secs(3);

pub(crate) async fn run(size: Size) -> anyhow::Result<Report> {
    let mut report = Report::new("node", size);
    let folder = Folder::create()?;
    report.condition("file system of the node", folder.describe());
    Progress.say("copying the program");
    let program = Program::copy_to(&folder, PILOTHOUSE)?;
    tokio::select! {
        outcome = measure(&program, &folder, size, &mut report) => outcome?,
        outcome = interruption() => outcome?,
    }
    // What was killed takes a moment to be gone.
    let start = Instant::now();
    loop {
        let left = program.processes()?;
        if left.is_empty() {
            return Ok(report);
        }
        if start.elapsed() > PATIENCE {
            bail!("the node has ended, and left behind: {left:?}");
        }
        sleep(Duration::from_millis(10)).await;
    }
}

async fn measure(program: &Program, folder: &Folder, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let mut cluster = Cluster::start(program, folder).await?;
    one_by_one(&mut cluster, size, report).await?;
    at_rest(&cluster, size, report).await?;
    cluster.delete_but(0).await?;
    all_at_once(&mut cluster, size, report).await?;
    cluster.delete_but(0).await?;
    services(&mut cluster, size, report).await
}

async fn one_by_one(cluster: &mut Cluster, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let (count, first) = (size.pick(200, 5), size.pick(10, 1));
    Progress.say(&format!("{count} pods, one after another"));
    let mut samples = Samples::default();
    for number in 0..first + count {
        let name = format!("pod-{number:04}");
        let start = Instant::now();
        cluster.create_idle(&name).await?;
        let said = cluster.report().await?;
        anyhow::ensure!(said == name, "{said} ran in place of {name}");
        // The first find no page of the programs in memory.
        if number >= first {
            samples.push_milliseconds(start.elapsed());
        }
        // Its status is written when its program runs already; that is not the next pod's time.
        cluster.address(&name).await?;
    }
    let note = format!("{} pods, one after another; from when its creation was sent", samples.len());
    report.figure(
        Figure::new("pod created → process running, p50", samples.median(), "ms")
            .budget(Budget::Below(30.0))
            .note(note),
    );
    report.figure(
        Figure::new("pod created → process running, p99", samples.percentile(99.0), "ms")
            .budget(Budget::Below(150.0))
            .note(format!("from {:.1} to {:.1}", samples.smallest(), samples.largest())),
    );
    Ok(())
}

async fn at_rest(cluster: &Cluster, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let count = size.pick(100, 3);
    Progress.say(&format!("{count} pods at rest"));
    cluster.delete_but(count).await?;
    sleep(size.pick(REST, Duration::from_millis(100))).await;
    let memory = Memory::of(&[cluster.kubelet])?;
    report.figure(
        Figure::new(format!("memory of the kubelet, {count} pods"), memory.total, "MiB")
            .budget(Budget::AtMost(20.0))
            .note(memory.parts()),
    );
    let share = processor::share(&[cluster.kubelet]).await;
    report.figure(
        Figure::new(format!("processor of the kubelet, {count} idle pods"), share, "%")
            .budget(Budget::Below(1.0))
            .note("of one processor"),
    );
    Ok(())
}

async fn all_at_once(cluster: &mut Cluster, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let count = size.pick(500, 10);
    Progress.say(&format!("{count} pods at once"));
    let start = Instant::now();
    let creating = futures::stream::iter(0..count)
        .map(|number| {
            let cluster = &*cluster;
            async move { cluster.create_idle(&format!("many-{number:04}")).await }
        })
        .buffer_unordered(AT_ONCE);
    creating.try_collect::<()>().await?;
    let created = start.elapsed();
    for _ in 0..count {
        cluster.report().await?;
    }
    let took = start.elapsed();
    report.figure(
        Figure::new(format!("{count} pods, first created → last running"), took.as_secs_f64(), "s").note(
            format!(
                "all created after {:.2} s; the kubelet has {} threads",
                created.as_secs_f64(),
                cluster.threads()?
            ),
        ),
    );
    let memory = Memory::of(&[cluster.kubelet])?;
    report.figure(
        Figure::new(format!("memory of the kubelet, {count} pods just started"), memory.total, "MiB")
            .note(memory.parts()),
    );
    let start = Instant::now();
    cluster.delete_but(0).await?;
    report.figure(Figure::new(format!("{count} pods deleted → gone"), start.elapsed().as_secs_f64(), "s"));
    Ok(())
}

/// How quick the way through a Service is, and how quickly it is another.
async fn services(cluster: &mut Cluster, size: Size, report: &mut Report) -> anyhow::Result<()> {
    Progress.say("the way through a Service");
    let mut addresses = Vec::new();
    for name in ["ada", "bob"] {
        cluster.create_part(name, &format!("serve {name}")).await?;
        addresses.push(cluster.address(name).await?);
    }
    let services: Api<Service> = Api::default_namespaced(cluster.client.clone());
    let service = json!({"metadata": {"name": "stream"}, "spec": {"ports": [{"port": 80}]}});
    let service = services.create(&PostParams::default(), &serde_json::from_value(service)?).await?;
    let address = service.spec.and_then(|spec| spec.cluster_ip).context("the Service has no address")?;
    let address = format!("{address}:80");
    let slices: Api<EndpointSlice> = Api::default_namespaced(cluster.client.clone());
    let endpoints = |address: &str| json!([{"addresses": [address], "conditions": {"ready": true}}]);
    let slice = json!({
        "metadata": {"name": "stream", "labels": {"kubernetes.io/service-name": "stream"}},
        "addressType": "IPv4",
        "ports": [{"port": stream::PORT}],
        "endpoints": endpoints(&addresses[0]),
    });
    slices.create(&PostParams::default(), &serde_json::from_value(slice)?).await?;
    until_served_by(cluster, &address, "ada").await?;

    let mut samples = Samples::default();
    // An even number: the last is the first again.
    for round in 0..size.pick(100, 4) {
        let (name, backend) = [("bob", &addresses[1]), ("ada", &addresses[0])][round % 2];
        let patch = json!({"endpoints": endpoints(backend)});
        let start = Instant::now();
        slices.patch("stream", &PatchParams::default(), &Patch::Merge(patch)).await?;
        until_served_by(cluster, &address, name).await?;
        samples.push_milliseconds(start.elapsed());
    }
    report.figure(
        Figure::new("endpoints changed → connections go there, p99", samples.percentile(99.0), "ms")
            .budget(Budget::Below(10.0))
            .note(format!(
                "{} changes, from when each was sent to the end of a connection that went there; p50 {:.1} ms",
                samples.len(),
                samples.median()
            )),
    );

    let (rounds, milliseconds) = (size.pick(8, 1), size.pick(2_000, 200));
    let direct = format!("{}:{}", addresses[0], stream::PORT);
    let part = format!("measure {rounds} {milliseconds} {direct} {address}");
    cluster.create_part("reader", &part).await?;
    let (mut direct, mut proxied, mut ratios) = (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..rounds {
        let line = cluster.report().await?;
        let words: Vec<_> = line.split(' ').collect();
        let ["rates", one, other] = words[..] else { bail!("a pod reports `{line}`") };
        let (one, other): (f64, f64) = (one.parse()?, other.parse()?);
        direct.push(one);
        proxied.push(other);
        ratios.push(other / one);
    }
    report.figure(Figure::new("one connection, pod to pod, direct", direct.median(), "MiB/s"));
    report.figure(Figure::new("one connection, pod to pod, by Service", proxied.median(), "MiB/s"));
    report.figure(
        Figure::new("by Service over direct", ratios.median(), "×")
            .budget(Budget::AtLeast(0.7))
            .note(format!("{rounds} pairs, from {:.2} to {:.2}", ratios.smallest(), ratios.largest())),
    );
    Ok(())
}

/// Connects until it is this one who answers.
async fn until_served_by(cluster: &Cluster, address: &str, name: &str) -> anyhow::Result<()> {
    let (dialer, address) = (cluster.dialer(), address.parse()?);
    let start = Instant::now();
    loop {
        let mut first = vec![0; name.len()];
        let answered = match dialer.connect(address).await {
            Ok(mut stream) => stream.read_exact(&mut first).await.is_ok(),
            Err(_) => false,
        };
        if answered && first == name.as_bytes() {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            bail!("{name} does not answer for the Service");
        }
        // Without a pause the wait itself would keep the processors busy.
        sleep(Duration::from_micros(200)).await;
    }
}
