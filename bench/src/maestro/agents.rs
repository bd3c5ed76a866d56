//! What comes back: from a real agent on a real Kubernetes API, and from a thousand that only answer.

use std::collections::HashMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use pilothouse_maestro_api::proto::SubscriptionRequest;
use pilothouse_maestro_api::{
    Action, CloudEvent, DATA_TYPE, Dial, EventChannel, EventType, Subresource, Work, extension, work_uid,
};
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use pilothouse_test_support::process::{Running, free_port};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use super::load::work;
use super::server::{Kind, Server, Site, consumer, logged, memory_of, said};
use crate::harness::{Budget, Figure, Progress, Report, Samples, Size};

/// Longer than anything that works.
const PATIENCE: Duration = Duration::from_secs(300);
/// How often to look whether something has come about.
const LOOK: Duration = Duration::from_millis(50);
/// Publishes a second, where it is about how long they take.
const RATE: u32 = 200;

/// Publish → applied and publish → first status, at a steady rate, with one agent and a Kubernetes API that do nothing else.
/// Both ends are seen here, so one clock has both.
pub(super) async fn first_status(site: &Site<'_>, size: Size, report: &mut Report) -> anyhow::Result<()> {
    Progress.say("an agent and its cluster");
    let server = site.start(Kind::Ours, "first-status").await?;
    let home = site.folder.path().join("cluster");
    fs::create_dir_all(&home)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let mut command = logged(site.program.path(), &home)?;
    let data = home.join("data");
    command.arg("kube-apiserver").arg("--data-dir").arg(&data).args(["--listen", &address.to_string()]);
    let _cluster = Running::spawn(command)?;
    let kubeconfig = data.join("kubeconfig");
    until(|| kubeconfig.exists()).await.with_context(|| said(&home))?;
    let agent = start_agent(site, &kubeconfig)?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(&kubeconfig)?, &options).await?;
    let maps: Api<ConfigMap> = Api::namespaced(Client::try_from(config)?, "default");

    let mut events = server.source.subscribe().await?;
    // Not before it has come, and knows what there is to apply.
    let first = map_work("warm-up".to_owned(), 1);
    server.source.work_create(&first).await?;
    let warm_up = async {
        while let Some(event) = events.next().await {
            if event?.status.is_true("Applied") {
                return anyhow::Ok(());
            }
        }
        bail!("the subscription ended")
    };
    timeout(PATIENCE, warm_up).await.context("the agent does not come")??;
    server.source.work_delete(&first).await?;
    let count = size.pick(3_000_u32, 20);
    let named = |number: u32| format!("first-{number:05}");
    let (mut begun, mut unapplied) = (HashMap::new(), HashMap::new());
    let (mut samples, mut applied) = (Samples::default(), Samples::default());
    // From here on: what was there before is not waited for.
    let version = maps.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    let mut objects = pin!(maps.watch(&WatchParams::default(), &version).await?);
    let mut pace = tokio::time::interval(Duration::from_secs(1) / RATE);
    let mut published = 0;
    let publishing = Arc::new(Semaphore::new(usize::try_from(RATE)?));
    let deadline = Instant::now() + PATIENCE;
    let tasks = Tasks::new("source", Shutdown::new());
    while samples.len().min(applied.len()) < usize::try_from(count)? {
        tokio::select! {
            _ = pace.tick(), if published < count => {
                let name = named(published);
                published += 1;
                let now = Instant::now();
                begun.insert(work_uid("cs", &consumer(0), &name).to_string(), now);
                unapplied.insert(name.clone(), now);
                let (source, permit) = (server.source.clone(), Arc::clone(&publishing).acquire_owned().await?);
                tasks.spawn("publish", OnExit::LogError, async move {
                    let outcome = source.work_create(&map_work(name, 3_000)).await;
                    drop(permit);
                    Ok(outcome?)
                });
            }
            event = events.next() => {
                let event = event.context("the subscription ended")??;
                if event.status.is_true("Applied") && let Some(begun) = begun.remove(&event.resource_id) {
                    samples.push_milliseconds(begun.elapsed());
                }
            }
            object = objects.next() => {
                if let WatchEvent::Added(object) = object.context("the watch ended")??
                    && let Some(begun) = object.metadata.name.and_then(|name| unapplied.remove(&name))
                {
                    applied.push_milliseconds(begun.elapsed());
                }
            }
            () = tokio::time::sleep_until(deadline) => {
                bail!("only {} works were applied, only {} first statuses came", applied.len(), samples.len())
            }
        }
    }
    report.figure(
        Figure::new(format!("publish → applied, p99, at {RATE}/s"), applied.percentile(99.0), "ms")
            .budget(Budget::Below(50.0))
            .note(format!(
                "{count} bundles, one agent; durable at the server, over MQTT, seen by a watch; p50 {:.1} ms",
                applied.median()
            )),
    );
    report.figure(
        Figure::new(format!("publish → first status, p99, at {RATE}/s"), samples.percentile(99.0), "ms")
            .budget(Budget::Below(250.0))
            .note(format!("{count} bundles, one agent; p50 {:.1} ms", samples.median())),
    );
    // What is kept of so many, or as many as there are.
    let kept = size.pick(600, 20);
    for number in kept..count {
        server.source.work_delete(&map_work(named(number), 1)).await?;
    }
    let begun = Instant::now();
    while server.rest.resource_bundle_list("", 1, 0).await?.total > usize::try_from(kept)? {
        anyhow::ensure!(begun.elapsed() < PATIENCE, "bundles do not go");
        sleep(LOOK).await;
    }
    let (memory, settled) = memory_of(&agent, size).await?;
    let remark = if settled { "" } else { "; NOT at rest" };
    report.figure(
        Figure::new(format!("memory of the agent with {kept} works"), memory.total, "MiB")
            .budget(Budget::AtMost(40.0))
            .note(format!("{}{remark}", memory.parts())),
    );
    Ok(())
}

/// A work of one object of so many bytes.
fn map_work(name: String, bytes: usize) -> Work {
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}, "data": {"k": "x".repeat(bytes)}});
    work(consumer(0), name.clone(), name, manifest)
}

fn start_agent(site: &Site<'_>, kubeconfig: &std::path::Path) -> anyhow::Result<Running> {
    let home = site.folder.path().join("agent");
    fs::create_dir_all(&home)?;
    let config = format!(
        "metrics = {{ address = \"127.0.0.1:0\" }}\n[telemetry]\nfilter = \"warn\"\n\
         [service]\nconsumer = \"{}\"\n[service.broker]\nhost = \"127.0.0.1:{}\"\nclient_id = \"bench-agent\"\n",
        consumer(0),
        site.broker
    );
    let file = home.join("agent.toml");
    fs::write(&file, config)?;
    let mut command = logged(site.program.path(), &home)?;
    command.arg("maestro-agent").arg("--kubeconfig").arg(kubeconfig).arg("--config").arg(file);
    Running::spawn(command).context("the agent cannot be started")
}

/// Many agents on one server: each has its own connection, is sent a bundle and reports on it.
pub(super) async fn many(site: &Site<'_>, size: Size, report: &mut Report) -> anyhow::Result<()> {
    let count = size.pick(1_000, 20);
    Progress.say(&format!("{count} agents"));
    let server = site.start(Kind::Dialled, "many").await?;
    let (empty, _) = server.memory(size).await?;
    let names: Vec<_> = (0..count).map(|number| format!("agent-{number}")).collect();
    for name in &names {
        server.ensure_consumer(name).await?;
    }
    let begun = Instant::now();
    let tasks = Tasks::new("agents", Shutdown::new());
    futures::stream::iter(&names)
        .map(|name| connect(&server, name, &tasks))
        .buffer_unordered(50)
        .try_collect::<()>()
        .await?;
    let connected = begun.elapsed();
    report.figure(
        Figure::new(format!("{count} agents connect"), connected.as_secs_f64(), "s").note("50 at a time"),
    );
    let (full, settled) = server.memory(size).await?;
    let each = (full.total - empty.total) * 1024.0 / f64::from(u32::try_from(count)?);
    report.figure(
        Figure::new(format!("memory of the server with {count} agents"), full.total, "MiB")
            .note(format!("{each:.1} KiB for each{}", if settled { "" } else { "; NOT at rest" })),
    );

    let mut events = server.source.subscribe().await?;
    let sent = Mutex::new(HashMap::new());
    let publishing = async {
        for name in &names {
            let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}});
            let one = work(name.clone(), "one".to_owned(), name.clone(), manifest);
            // Before it is sent: its status may be here before the answer.
            let id = work_uid("cs", name, "one").to_string();
            sent.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Instant::now());
            server.source.work_create(&one).await?;
        }
        anyhow::Ok(())
    };
    // While they are being published: a status that waits to be read would seem to be late.
    let hearing = async {
        let mut samples = Samples::default();
        while samples.len() < names.len() {
            let event = timeout(PATIENCE, events.next()).await.context("statuses are missing")?;
            let event = event.context("the subscription ended")??;
            let begun = sent.lock().unwrap_or_else(PoisonError::into_inner).remove(&event.resource_id);
            if let Some(begun) = begun {
                samples.push_milliseconds(begun.elapsed());
            }
        }
        anyhow::Ok(samples)
    };
    let ((), samples) = futures::future::try_join(publishing, hearing).await?;
    report.figure(
        Figure::new(format!("publish → status, p99, {count} agents"), samples.percentile(99.0), "ms")
            .note(format!("one bundle for each, one after the other; p50 {:.1} ms", samples.median())),
    );
    tasks.shutdown().request(Reason::Asked("all have answered".into()));
    Ok(())
}

/// An agent that says of everything it is sent that it was applied.
async fn connect(server: &Server, name: &str, tasks: &Tasks) -> anyhow::Result<()> {
    let channel = EventChannel::try_new(Dial::plain(format!("http://127.0.0.1:{}", server.agents)))?;
    let wanted = SubscriptionRequest {
        source: String::new(),
        cluster_name: name.to_owned(),
        data_type: DATA_TYPE.to_owned(),
    };
    let mut events = channel.subscribe(wanted).await?;
    let name = name.to_owned();
    tasks.spawn("agent", OnExit::Expendable, async move {
        while let Some(order) = events.next().await {
            let order = order?;
            if order.event_type()?.subresource != Subresource::Spec {
                continue;
            }
            let kind = EventType::new(Subresource::Status, Action::Update);
            let status = CloudEvent::new(&name, &kind, Clock::system().now())
                .with(extension::CLUSTER_NAME, name.as_str())
                .with(extension::ORIGINAL_SOURCE, order.source.as_str())
                .with(extension::RESOURCE_ID, order.required(extension::RESOURCE_ID)?)
                .with(extension::RESOURCE_VERSION, order.resource_version()?.unwrap_or_default())
                .with_data(r#"{"conditions":[{"type":"Applied","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z","reason":"AppliedManifestWorkComplete","message":""}],"resourceStatus":[]}"#);
            channel.publish(status).await?;
        }
        Ok(())
    });
    Ok(())
}

async fn until(mut reached: impl FnMut() -> bool) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !reached() {
        anyhow::ensure!(begun.elapsed() < PATIENCE, "it does not come about");
        sleep(LOOK).await;
    }
    Ok(())
}
