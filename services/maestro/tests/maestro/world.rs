//! All of it, on free ports.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use pilothouse_broker::Authorizer;
use pilothouse_http::{ClientBuilder, Health, ListenerConfig};
use pilothouse_maestro::{BrokerConfig, BrokerKind, agent, server};
use pilothouse_maestro_api::{ManifestBundle, RestClient, SourceClient, StatusEvent, Subscription, Work};
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use pilothouse_store::{Keyring, Location, Options, Store};
use pilothouse_test_support::eventually;
use pilothouse_test_support::mosquitto::Mosquitto;
use pilothouse_test_support::process::{Running, free_port};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use crate::cluster::{Cluster, PATIENCE};
use crate::packets::Recorder;
use crate::replicas::number;

pub(crate) const CONSUMER: &str = "local-cluster";
pub(crate) const SOURCE: &str = "cs";

/// A part that was started; stops when dropped.
pub(crate) struct Part {
    shutdown: Shutdown,
    tasks: Tasks,
    /// A program of somebody else's, instead of tasks of ours.
    process: Option<Running>,
}

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) broker: BrokerPart,
    pub(crate) agent: Option<Part>,
    pub(crate) server: Server,
}

pub(crate) struct BrokerPart {
    /// Where agents dial the server, if there is no broker.
    pub(crate) kind: BrokerKind,
    pub(crate) port: u16,
    part: Option<Part>,
    mosquitto: Option<Mosquitto>,
    registry: Registry,
}

/// Where a server keeps what it knows.
#[derive(Clone)]
pub(crate) enum Storage {
    /// In a file of the test's folder.
    Sqlite,
    /// In the database at this address.
    Postgres(String),
}

/// A server in a runtime of its own, so that it can be killed: nothing of it runs on, and nothing is finished.
pub(crate) struct Server {
    runtime: Option<tokio::runtime::Runtime>,
    /// A program of somebody else's, instead of a runtime of ours.
    process: Option<Running>,
    pub(crate) rest: RestClient,
    pub(crate) source: SourceClient,
    pub(crate) rest_url: String,
    pub(crate) grpc: SocketAddr,
    /// What ours says of itself.
    pub(crate) inside: Option<Inside>,
}

/// Where a server of ours says how it is.
pub(crate) struct Inside {
    pub(crate) registry: Registry,
    pub(crate) health: Health,
    pub(crate) health_address: Option<SocketAddr>,
}

impl Part {
    pub(crate) fn spawn<F, E>(name: &'static str, run: impl FnOnce(Shutdown) -> F) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: std::error::Error + Send + Sync + 'static,
    {
        let shutdown = Shutdown::new();
        let tasks = Tasks::new("test", shutdown.clone());
        let run = run(shutdown.clone());
        tasks.spawn(name, OnExit::LogError, async move { Ok(run.await?) });
        Self { shutdown, tasks, process: None }
    }

    /// A program that runs; stopping it is killing it.
    pub(crate) fn process(running: Running) -> Self {
        let shutdown = Shutdown::new();
        Self { tasks: Tasks::new("test", shutdown.clone()), shutdown, process: Some(running) }
    }

    pub(crate) async fn stop(mut self) {
        drop(self.process.take());
        self.shutdown.request(Reason::Asked("the test wants it".into()));
        self.tasks.drain(PATIENCE).await.unwrap();
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.shutdown.request(Reason::Asked("the test is over".into()));
    }
}

impl World {
    pub(crate) async fn start(folder: &Path) -> Self {
        let broker = BrokerPart::ours(0).await;
        Self::with(broker, folder).await
    }

    pub(crate) async fn with(broker: BrokerPart, folder: &Path) -> Self {
        let cluster = Cluster::start().await;
        let server = broker.server(folder).await;
        let agent = Some(broker.agent(&cluster).await);
        Self { cluster, broker, agent, server }
    }

    /// With an agent that comes when the server has already asked who is there, and that has been answered. From then on neither
    /// has anything to ask, and every report is news.
    pub(crate) async fn acquainted(broker: BrokerPart, server: Server, recorder: &mut Recorder) -> Self {
        recorder.find(&("question of the server", "status.resync_request", |_| true)).await;
        let cluster = Cluster::start().await;
        let agent = Some(broker.agent(&cluster).await);
        eventually("the agent was answered", PATIENCE, || async {
            let answers = number(&server, "resources_spec_resync_duration_seconds_count ");
            if answers == 1 { Ok(()) } else { Err(answers) }
        })
        .await;
        Self { cluster, broker, agent, server }
    }

    pub(crate) async fn restart_agent(&mut self) {
        self.agent = Some(self.broker.agent(&self.cluster).await);
    }

    pub(crate) fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.cluster.client.clone(), "default")
    }

    /// Waits until the server knows nothing of a work any more.
    pub(crate) async fn until_forgotten(&self, name: &str) {
        let id = pilothouse_maestro_api::work_uid(SOURCE, CONSUMER, name).to_string();
        eventually("the bundle is forgotten", PATIENCE, || async {
            match self.server.rest.resource_bundle_get(&id).await {
                Ok(None) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// Waits until an object has this content; `None` for being gone.
    pub(crate) async fn until_map(&self, name: &str, content: Option<&str>) -> Option<ConfigMap> {
        let maps = self.maps();
        eventually("the object is as it should be", PATIENCE, || async {
            let found = maps.get_opt(name).await.map_err(|error| error.to_string())?;
            let value = found.as_ref().and_then(|map| map.data.as_ref()?.get("k").cloned());
            if value.as_deref() == content && found.is_some() == content.is_some() {
                Ok(found)
            } else {
                Err(format!("{value:?}"))
            }
        })
        .await
    }
}

impl BrokerPart {
    /// Ours, on this port.
    pub(crate) async fn ours(port: u16) -> Self {
        Self::ours_with(port, Default::default(), Authorizer::open()).await
    }

    /// Ours, on this port, configured like this.
    pub(crate) async fn ours_with(
        port: u16,
        config: pilothouse_broker::Config,
        authorizer: Authorizer,
    ) -> Self {
        let config = pilothouse_broker::Config { listen: ([127, 0, 0, 1], port).into(), ..config };
        let mut registry = Registry::default();
        let deps = pilothouse_broker::Deps { clock: Clock::system(), authorizer, registry: &mut registry };
        let service = pilothouse_broker::Service::build(config, deps).await.unwrap();
        let port = service.local_address().port();
        let part = Part::spawn("broker", |shutdown| service.run(shutdown));
        let kind = BrokerKind::Mqtt;
        Self { kind, port, part: Some(part), mosquitto: None, registry }
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.mosquitto.is_none()
    }

    /// Whether Mosquitto is on this machine; if not, the test was noted as skipped and should return.
    pub(crate) fn has_mosquitto() -> bool {
        Mosquitto::is_here()
    }

    /// The one everybody compares with, where it is on this machine.
    pub(crate) async fn mosquitto() -> Self {
        Self::over(Mosquitto::start()).await
    }

    /// The same, with these lines of configuration for its listener.
    pub(crate) async fn mosquitto_with(lines: &str) -> Self {
        Self::over(Mosquitto::start_with(lines)).await
    }

    async fn over(mosquitto: Option<Mosquitto>) -> Self {
        let port = mosquitto.as_ref().unwrap().port();
        until_listening(port).await;
        Self { kind: BrokerKind::Mqtt, port, part: None, mosquitto, registry: Registry::default() }
    }

    /// None: agents dial the server, which listens for them on a port that stays the same.
    pub(crate) fn dialled() -> Self {
        let port = free_port();
        let registry = Registry::default();
        Self { kind: BrokerKind::Grpc, port, part: None, mosquitto: None, registry }
    }

    /// A server over this broker, or over none.
    pub(crate) async fn server(&self, folder: &Path) -> Server {
        match self.kind {
            BrokerKind::Mqtt => Server::start(folder, self.port).await,
            BrokerKind::Grpc => {
                let config = server::Config {
                    broker: BrokerConfig { kind: BrokerKind::Grpc, ..BrokerConfig::default() },
                    grpc_broker: ListenerConfig::loopback(self.port),
                    ..server_config([0, 0])
                };
                Server::configured(folder, &Storage::Sqlite, config).await
            }
        }
    }

    /// An agent over this broker, or over none.
    pub(crate) async fn agent(&self, cluster: &Cluster) -> Part {
        let config =
            BrokerConfig { kind: self.kind, ..broker_config(self.port, "local-cluster-work-agent-client") };
        start_agent_with(cluster, "maestro", config).await
    }

    /// Waits until so many subscriptions stand.
    pub(crate) async fn until_subscriptions(&self, count: usize) {
        let line = format!("subscriptions {count}");
        eventually("clients are as they should be", PATIENCE, || async {
            let mut text = String::new();
            prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
            if text.lines().any(|found| found == line) { Ok(()) } else { Err(text) }
        })
        .await;
    }

    pub(crate) async fn stop(&mut self) {
        if let Some(part) = self.part.take() {
            part.stop().await;
        }
        if let Some(mosquitto) = &mut self.mosquitto {
            mosquitto.kill();
        }
    }

    pub(crate) async fn start_again(&mut self) {
        match &mut self.mosquitto {
            Some(mosquitto) => {
                mosquitto.start_again().unwrap();
                until_listening(self.port).await;
            }
            None => *self = Self::ours(self.port).await,
        }
    }
}

async fn until_listening(port: u16) {
    eventually("mosquitto listens", PATIENCE, || async {
        tokio::net::TcpStream::connect(("127.0.0.1", port)).await.map(drop)
    })
    .await;
}

impl Server {
    pub(crate) async fn start(folder: &Path, broker: u16) -> Self {
        Self::start_at(folder, broker, [0, 0]).await
    }

    /// On these ports, of REST and of gRPC.
    pub(crate) async fn start_at(folder: &Path, broker: u16, ports: [u16; 2]) -> Self {
        Self::launch(folder, broker, ports, &Storage::Sqlite).await
    }

    /// With its documents there.
    pub(crate) async fn start_with(folder: &Path, broker: u16, storage: &Storage) -> Self {
        Self::launch(folder, broker, [0, 0], storage).await
    }

    /// On these ports, with its documents there.
    pub(crate) async fn launch(folder: &Path, broker: u16, ports: [u16; 2], storage: &Storage) -> Self {
        let config = server::Config { broker: broker_config(broker, "maestro"), ..server_config(ports) };
        Self::configured(folder, storage, config).await
    }

    /// As it is configured.
    pub(crate) async fn configured(folder: &Path, storage: &Storage, config: server::Config) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (path, storage) = (folder.to_str().unwrap().to_owned(), storage.clone());
        let started = runtime.handle().clone().spawn_blocking(move || {
            tokio::runtime::Handle::current().block_on(run_server(path, storage, config))
        });
        let (rest, grpc, inside) = started.await.unwrap();
        let mut server = Self::at(rest, grpc);
        (server.runtime, server.inside) = (Some(runtime), Some(inside));
        server
    }

    /// A program that serves at these addresses.
    pub(crate) fn process(running: Running, rest: SocketAddr, grpc: SocketAddr) -> Self {
        let mut server = Self::at(rest, grpc);
        server.process = Some(running);
        server
    }

    /// Whatever serves at these addresses.
    pub(crate) fn at(rest: SocketAddr, grpc: SocketAddr) -> Self {
        let rest_url = format!("http://{rest}");
        let client = ClientBuilder::new(Duration::from_secs(10)).build().unwrap();
        Self {
            runtime: None,
            process: None,
            rest: RestClient::try_new(client, &rest_url).unwrap(),
            source: SourceClient::try_new(&format!("http://{grpc}"), SOURCE, Clock::system()).unwrap(),
            rest_url,
            grpc,
            inside: None,
        }
    }

    /// Whatever it is doing, it does no more.
    pub(crate) async fn kill(&mut self) {
        drop(self.process.take());
        if let Some(runtime) = self.runtime.take() {
            tokio::task::spawn_blocking(move || runtime.shutdown_timeout(PATIENCE)).await.unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A server for the consumer of the tests, on these ports, of REST and of gRPC.
pub(crate) fn server_config(ports: [u16; 2]) -> server::Config {
    server::Config {
        rest: ListenerConfig::loopback(ports[0]),
        grpc: ListenerConfig::loopback(ports[1]),
        consumers: vec![CONSUMER.to_owned()],
        ..server::Config::default()
    }
}

/// Builds a server and leaves it running in the runtime of the caller.
async fn run_server(
    folder: String,
    storage: Storage,
    config: server::Config,
) -> (SocketAddr, SocketAddr, Inside) {
    let shutdown = Shutdown::new();
    let location = match storage {
        Storage::Sqlite => Location::sqlite(format!("{folder}/maestro.db")),
        Storage::Postgres(url) => url.parse().unwrap(),
    };
    let mut options = Options::new(location, server::catalog(), shutdown.clone());
    options.keyring = Some(Keyring::open_or_create(format!("{folder}/keyring")).unwrap());
    let store = Store::open(options).await.unwrap();
    let (mut registry, health) = (Registry::default(), Health::new(shutdown.clone()));
    let deps =
        server::Deps { store, clock: Clock::system(), health: health.clone(), registry: &mut registry };
    let service = server::Service::build(config, deps).await.unwrap();
    let inside = Inside { registry, health, health_address: service.health_address() };
    let (rest, grpc) = (service.rest_address(), service.grpc_address());
    let tasks = Tasks::new("test", shutdown.clone());
    tasks.spawn("server", OnExit::LogError, async move { Ok(service.run(shutdown).await?) });
    (rest, grpc, inside)
}

pub(crate) async fn start_agent(cluster: &Cluster, broker: u16) -> Part {
    start_agent_of(cluster, broker, "maestro").await
}

/// An agent whose works come from this hub.
pub(crate) async fn start_agent_of(cluster: &Cluster, broker: u16, hub: &str) -> Part {
    start_agent_with(cluster, hub, broker_config(broker, "local-cluster-work-agent-client")).await
}

/// An agent whose works come from this hub, this way.
pub(crate) async fn start_agent_with(cluster: &Cluster, hub: &str, broker: BrokerConfig) -> Part {
    run_agent(&cluster.client, hub, broker, forgetful_store().await).await
}

/// An agent that remembers what it was told in this store.
pub(crate) async fn start_remembering_agent(
    client: &kube::Client,
    broker: u16,
    hub: &str,
    store: Store,
) -> Part {
    run_agent(client, hub, broker_config(broker, "local-cluster-work-agent-client"), store).await
}

async fn run_agent(client: &kube::Client, hub: &str, broker: BrokerConfig, store: Store) -> Part {
    let config = agent::Config {
        broker,
        consumer: CONSUMER.to_owned(),
        hub: hub.to_owned(),
        ..agent::Config::default()
    };
    let mut registry = Registry::default();
    let deps = agent::Deps {
        client: client.clone(),
        store,
        clock: Clock::system(),
        health: Health::new(Shutdown::new()),
        registry: &mut registry,
    };
    let service = agent::Service::build(config, deps).await.unwrap();
    Part::spawn("agent", |shutdown| service.run(shutdown))
}

/// A store of an agent, of which nothing is left when it is gone.
pub(crate) async fn forgetful_store() -> Store {
    let mut options = Options::new(Location::memory(), agent::catalog(), Shutdown::new());
    options.keyring = Some(Keyring::ephemeral().unwrap());
    Store::open(options).await.unwrap()
}

/// A store of an agent that stays.
pub(crate) async fn lasting_store(folder: &Path) -> Store {
    let folder = folder.to_str().unwrap();
    let location = Location::sqlite(format!("{folder}/agent.db"));
    let mut options = Options::new(location, agent::catalog(), Shutdown::new());
    options.keyring = Some(Keyring::open_or_create(format!("{folder}/agent-keyring")).unwrap());
    Store::open(options).await.unwrap()
}

pub(crate) fn broker_config(port: u16, client_id: &str) -> BrokerConfig {
    BrokerConfig {
        host: format!("127.0.0.1:{port}"),
        client_id: client_id.to_owned(),
        ..BrokerConfig::default()
    }
}

/// A work with one object, whose content is fed back.
pub(crate) fn work(name: &str, content: &str) -> Work {
    let bundle = json!({
        "manifests": [map(name, content)],
        "manifestConfigs": [{
            "resourceIdentifier": {"group": "", "resource": "configmaps", "name": name, "namespace": "default"},
            "feedbackRules": [{"type": "JSONPaths", "jsonPaths": [{"name": "data", "path": ".data"}]}],
        }],
    });
    let bundle: ManifestBundle = serde_json::from_value(bundle).unwrap();
    Work {
        consumer: CONSUMER.to_owned(),
        name: name.to_owned(),
        labels: [("api.openshift.com/id".to_owned(), name.to_owned())].into(),
        annotations: Default::default(),
        bundle,
        correlation_id: Some("correlation-1".to_owned()),
    }
}

pub(crate) fn map(name: &str, content: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
        "data": {"k": content}})
}

/// The next event that has what is waited for.
pub(crate) async fn until(
    subscription: &mut Subscription,
    mut reached: impl FnMut(&StatusEvent) -> bool,
) -> StatusEvent {
    let waiting = async {
        loop {
            let event = subscription.next().await.unwrap().unwrap();
            if reached(&event) {
                return event;
            }
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap()
}

/// Whether an event says that this content was applied.
pub(crate) fn shows(event: &StatusEvent, content: &str) -> bool {
    let found = event.status.resource_status.first();
    let found = found.and_then(|manifest| pilothouse_maestro_api::feedback(manifest, "data"));
    event.status.is_true("Applied") && found == Some(json!({"k": content}))
}
