//! A whole node in one value.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{
    Endpoints, Node, NodeStatus, PersistentVolume, Pod, Service as KubernetesService,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use pilothouse_http::{Exposure, Limits, Listener, ListenerConfig, Stack, TlsFiles};
use pilothouse_informer::{Informer, ObjectKey, watcher};
use pilothouse_kubelet_api::{Acceptor, Handler, Target};
use pilothouse_nameserver::Bound;
use pilothouse_runtime::reconcile::Options;
use pilothouse_runtime::{Clock, Controller, OnExit, Shutdown, TaskError, Tasks};
use prometheus_client::registry::Registry;
use tokio::net::TcpStream;
use tracing::info;

use crate::access::Access;
use crate::cgroups::Cgroups;
use crate::config::{Config, Namespaces, Tls};
use crate::dns::{self, Dns};
use crate::enter::{self, Entered};
use crate::error::Error;
use crate::images::Images;
use crate::join::{self, Joined, Membership};
use crate::metrics::Metrics;
use crate::network::{Neighbours, Network, Pool, Range};
use crate::node::Registration;
use crate::persistent_volumes::PersistentVolumes;
use crate::pods::{Pods, Surroundings, Waker};
use crate::server;
use crate::services::{HostPorts, Listeners, Proxy, Services, Slices};
use crate::statistics::Statistics;

/// How long tasks may take to end.
const DRAIN: Duration = Duration::from_secs(10);

/// What a node needs from outside.
pub struct Deps<'a> {
    /// Proof that this process is in the node's namespaces, see [`enter`](crate::enter).
    pub entered: Entered,
    /// The time.
    pub clock: Clock,
    /// Where its numbers are registered.
    pub registry: &'a mut Registry,
}

/// A node that is set up: its network exists, its sockets are bound, its API server is known.
pub struct Service {
    config: Config,
    entered: Entered,
    clock: Clock,
    client: kube::Client,
    /// Of a node that joined by a token.
    membership: Option<Membership>,
    tasks: Tasks,
    /// What passes need to finish: connections to shims and to the kernel. Ended after them.
    plumbing: Tasks,
    shutdown: Shutdown,
    network: Network,
    program: PathBuf,
    images: Images,
    pod_range: Option<Range>,
    service_range: Range,
    dns: Option<Bound>,
    acceptor: Option<Acceptor>,
    listener: Option<Listener>,
    metrics: Metrics,
    http_metrics: pilothouse_http::Metrics,
}

/// What whoever visits pods needs.
struct Visitors {
    access: Access,
    statistics: Statistics,
    pods: Pods,
    metrics: pilothouse_http::Metrics,
    tasks: Tasks,
}

/// What may be asked through the node's socket.
struct NodeSocket {
    pods: tokio::sync::watch::Receiver<Option<Pods>>,
}

// === impl Service ===

impl Service {
    /// Sets the node up: reads the kubeconfig, prepares the network, binds the sockets.
    ///
    /// # Errors
    ///
    /// When a setting cannot be used or the system refuses; nothing runs then.
    pub fn build(config: Config, deps: Deps<'_>) -> BoxFuture<'_, Result<Self, Error>> {
        Box::pin(Self::assemble(config, deps))
    }

    async fn assemble(mut config: Config, deps: Deps<'_>) -> Result<Self, Error> {
        let Deps { entered, clock, registry } = deps;
        let metrics = Metrics::new(registry);
        let http_metrics = pilothouse_http::Metrics::new(registry);
        let range = |key, text: &str| text.parse::<Range>().map_err(|reason| Error::Config { key, reason });
        let pod_range = config.pod_range.as_deref().map(|text| range("pod_range", text)).transpose()?;
        let service_range = range("service_range", &config.service_range)?;
        if !config.root.is_absolute() {
            return Err(Error::Config { key: "root", reason: "it must be an absolute path".to_owned() });
        }
        let program = enter::program(&config).map_err(|failure| Error::setup("the node")(failure.into()))?;
        let images = Images::try_new(program.clone(), config.images.clone(), config.upstream.clone())
            .map_err(|reason| Error::Config { key: "images", reason })?;
        let Joined { client, membership } = join::join(&config, &clock).await?;

        let shutdown = Shutdown::new();
        let tasks = Tasks::new("kubelet", shutdown.clone());
        let plumbing = Tasks::new("kubelet-plumbing", shutdown.clone());
        let own_address = match (config.node_address, config.namespaces, pod_range) {
            (Some(address), _, _) => Some(address),
            (None, Namespaces::Inherit, _) => None,
            (None, Namespaces::Own, Some(range)) => Some(Pool::node_address(range)),
            (None, Namespaces::Own, None) => {
                let reason = "a node in namespaces of its own needs it, or `node_address`".to_owned();
                return Err(Error::Config { key: "pod_range", reason });
            }
        };
        let set_up = |failure: crate::failure::Failure| Error::setup("the node's network")(failure.into());
        let network = Network::open(&plumbing, own_address, service_range, config.isolation).await;
        let network = network.map_err(set_up)?;
        network.prepare().await.map_err(set_up)?;
        // By convention the tenth, if there are so many; pods are told the same.
        let names =
            *config.cluster_dns.get_or_insert_with(|| service_range.at((service_range.size() - 2).min(10)));
        let dns = Bound::bind((names, dns::PORT).into()).await;
        let dns = Some(dns.map_err(|error| Error::setup("cluster DNS")(error.into()))?);
        let acceptor = match &config.node_socket {
            None => None,
            Some(path) => {
                Some(Acceptor::bind(path).map_err(|error| Error::setup("the node's socket")(error.into()))?)
            }
        };
        let listener = Self::listen(&config, &clock).await?;
        Ok(Self {
            config,
            entered,
            clock,
            client,
            membership,
            tasks,
            plumbing,
            shutdown,
            network,
            program,
            images,
            pod_range,
            service_range,
            dns,
            acceptor,
            listener,
            metrics,
            http_metrics,
        })
    }

    pub(crate) async fn listen(config: &Config, clock: &Clock) -> Result<Option<Listener>, Error> {
        let Some(tls) = &config.tls else { return Ok(None) };
        let files = TlsFiles {
            certificate: tls.certificate.clone(),
            key: tls.key.clone(),
            client_authorities: Some(tls.client_authorities.clone()),
        };
        // Whoever has a certificate of the cluster's authority for clients is let in: those are its API servers.
        let listening =
            ListenerConfig { address: config.listen, tls: Some(files), exposure: Exposure::Authenticated };
        let listener = Listener::bind("the node's log server", &listening, clock)
            .await
            .map_err(|error| Error::setup("the node's log server")(error.into()))?;
        // Followed logs end with their readers, not with a request.
        Ok(Some(listener.with_limits(Limits { drain: Duration::from_secs(1), ..Limits::default() })))
    }

    /// Runs the node until `shutdown`, and leaves its pods running.
    ///
    /// # Errors
    ///
    /// When a part of it ends by itself.
    pub fn run(self, shutdown: Shutdown) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.work(shutdown))
    }

    async fn work(mut self, shutdown: Shutdown) -> Result<(), Error> {
        let own_shutdown = self.shutdown.clone();
        let tasks = self.tasks.clone();
        let (pods_tx, pods_rx) = tokio::sync::watch::channel(None);
        if let Some(acceptor) = self.acceptor.take() {
            let serving = tasks.clone();
            tasks.spawn("socket", OnExit::StopProcess, async move {
                Ok(acceptor.serve(serving, NodeSocket { pods: pods_rx }).await?)
            });
        }
        let started = async {
            let pods = self.start().await?;
            pods_tx.send_replace(Some(pods));
            own_shutdown.requested().await;
            Ok::<(), Error>(())
        };
        let ended = tokio::select! {
            () = shutdown.requested() => {
                let reason = shutdown.reason();
                own_shutdown.request(reason.unwrap_or_else(|| pilothouse_runtime::Reason::Asked("stopped".into())));
                Ok(())
            }
            ended = started => ended,
        };
        let drained = tasks.drain(DRAIN).await.and(self.plumbing.drain(DRAIN).await);
        ended?;
        match own_shutdown.reason() {
            Some(reason) if reason.is_failure() => {
                Err(Error::setup("the node, a part of which ended")(reason.to_string().into()))
            }
            _ => drained.map_err(|error| Error::setup("the node's end")(error.into())),
        }
    }

    async fn start(&mut self) -> Result<Pods, Error> {
        let tasks = self.tasks.clone();
        let cgroups = Cgroups::open(&self.config.root, self.config.resource_limits);
        let registration = Registration {
            client: self.client.clone(),
            config: self.config.clone(),
            address: self.network.node_address(),
            clock: self.clock.clone(),
            cgroups: Some(cgroups.clone()),
        };
        let node = registration.ensure().await;
        let range = self.pod_range().await?;
        if self.config.namespaces == Namespaces::Inherit {
            let confined = self.network.confine(range).await;
            confined.map_err(|failure| Error::setup("the node's network")(failure.into()))?;
            self.start_neighbours(range);
        }
        let proxy = Proxy::new(tasks.clone(), self.metrics.clone(), self.network.clone());
        let services = self.start_services(range, &proxy);
        let pods = self.start_pods(range, services, &proxy, cgroups).await?;
        self.start_persistent_volumes();
        if let Some(listener) = self.listener.take() {
            self.visitors(pods.clone()).welcome(listener);
        }
        tasks.spawn("lease", OnExit::Expendable, async move { registration.keep_alive(&node).await });
        if let Some(membership) = self.membership.take() {
            self.start_renewals(membership, pods.clone())?;
        }
        Ok(pods)
    }

    /// Keeps the certificates of a node that joined by a token, and welcomes visitors once it has one to show them.
    fn start_renewals(&self, membership: Membership, pods: Pods) -> Result<(), Error> {
        if self.config.tls.is_none() {
            let (serving, address) = (membership.serving(), self.network.node_address());
            let client_authorities = match &self.config.client_authorities {
                Some(path) => path.clone(),
                None => membership.write_authorities()?,
            };
            let tls = Tls { certificate: serving.file(), key: serving.file(), client_authorities };
            let config = Config { tls: Some(tls), ..self.config.clone() };
            let (visitors, clock) = (self.visitors(pods), self.clock.clone());
            let served = async move {
                serving.ensure(address).await?;
                if let Some(listener) = Self::listen(&config, &clock).await? {
                    visitors.welcome(listener);
                }
                serving.keep(address).await
            };
            self.tasks.spawn("serving-certificate", OnExit::StopProcess, self.until_shutdown(served));
        }
        self.tasks.spawn("certificate", OnExit::StopProcess, self.until_shutdown(membership.keep()));
        Ok(())
    }

    /// What never ends by itself, and may be left at any point.
    fn until_shutdown<F>(&self, work: F) -> impl Future<Output = Result<(), TaskError>> + Send + use<F>
    where
        F: Future<Output = Result<(), TaskError>> + Send,
    {
        let shutdown = self.shutdown.clone();
        async move {
            tokio::select! {
                ended = work => ended,
                () = shutdown.requested() => Ok(()),
            }
        }
    }

    fn visitors(&self, pods: Pods) -> Visitors {
        let trusted = self.config.api_servers.clone();
        Visitors {
            access: Access::new(self.client.clone(), self.config.node_name.clone(), trusted),
            statistics: Statistics::new(pods.clone(), self.config.clone()),
            pods,
            metrics: self.http_metrics.clone(),
            tasks: self.tasks.clone(),
        }
    }

    /// The addresses of pods: configured, or as somebody assigns them to the Node.
    async fn pod_range(&self) -> Result<Range, Error> {
        if let Some(range) = self.pod_range {
            return Ok(range);
        }
        let (assigned_tx, mut assigned_rx) = tokio::sync::watch::channel(None);
        let selected = watcher::Config::default().fields(&format!("metadata.name={}", self.config.node_name));
        Informer::new(Api::<Node>::all(self.client.clone()), selected)
            .on_change(move |node: &Node| {
                if let Some(range) = node.spec.as_ref().and_then(|spec| spec.pod_cidr.clone()) {
                    assigned_tx.send_replace(Some(range));
                }
            })
            .spawn(&self.tasks, "node");
        info!("waiting for the node's pod range");
        let assigned = assigned_rx.wait_for(Option::is_some).await;
        let text = assigned.map(|range| range.clone().unwrap_or_default()).unwrap_or_default();
        text.parse().map_err(|reason| Error::Config { key: "spec.podCIDR of the Node", reason })
    }

    fn start_services(&mut self, pods: Range, proxy: &Proxy) -> Informer<KubernetesService> {
        let (waker, everything) = (Waker::default(), watcher::Config::default);
        let wake = |waker: &Waker| {
            let waker = waker.clone();
            move |key: ObjectKey| waker.wake(key)
        };
        let (one, two, three) = (wake(&waker), wake(&waker), wake(&waker));
        let services = Informer::new(Api::<KubernetesService>::all(self.client.clone()), everything());
        let watched = Informer::new(Api::<EndpointSlice>::all(self.client.clone()), everything());
        let slices = Slices::new(watched.informer());
        let ranges = vec![self.service_range, pods];
        let names = Dns::new(services.informer(), slices.clone(), &self.config, ranges, self.network.clone());
        let (index, naming, renaming) = (slices.clone(), names.clone(), names.clone());
        let services = services
            .on_change(move |service: &KubernetesService| {
                let key = ObjectKey::of(service);
                naming.update(&key);
                one(key);
            })
            .spawn(&self.tasks, "services");
        watched
            .on_change(move |slice: &EndpointSlice| {
                for key in index.take(slice) {
                    renaming.update(&key);
                    two(key);
                }
            })
            .spawn(&self.tasks, "endpointslices");
        if let Some(bound) = self.dns.take() {
            bound.start(names, &self.tasks);
        }
        let endpoints = Informer::new(Api::<Endpoints>::all(self.client.clone()), everything())
            .on_change(move |endpoints: &Endpoints| three(ObjectKey::of(endpoints)))
            .spawn(&self.tasks, "endpoints");
        let reconciler = Services {
            services: services.clone(),
            slices,
            endpoints,
            proxy: proxy.clone(),
            node: self.config.node_name.clone(),
            node_address: self.network.node_address(),
            reserved: self
                .config
                .cluster_dns
                .map(|address| (address, dns::PORT).into())
                .into_iter()
                .collect(),
            listeners: Listeners::default(),
        };
        waker.connect(Controller::new("services", reconciler, Options::default()).spawn(&self.tasks));
        services
    }

    /// Ways to the pods of the cluster's other nodes. A node in a network of its own has none: nothing leads out of it.
    fn start_neighbours(&self, pods: Range) {
        let waker = Waker::default();
        let waking = waker.clone();
        let nodes = Informer::new(Api::<Node>::all(self.client.clone()), watcher::Config::default())
            .trim(|node: &mut Node| {
                if let Some(status) = &mut node.status {
                    *status = NodeStatus { addresses: status.addresses.take(), ..NodeStatus::default() };
                }
            })
            .on_change(move |node: &Node| waking.wake(ObjectKey::of(node)))
            .spawn(&self.tasks, "nodes");
        let (network, here) = (self.network.clone(), self.config.node_name.clone());
        let reconciler = Neighbours { nodes, network, here, pods };
        waker.connect(Controller::new("neighbours", reconciler, Options::default()).spawn(&self.tasks));
    }

    async fn start_pods(
        &self,
        range: Range,
        services: Informer<KubernetesService>,
        proxy: &Proxy,
        cgroups: Cgroups,
    ) -> Result<Pods, Error> {
        let (waker, ports) = (Waker::default(), Waker::default());
        let selected = watcher::Config::default().fields(&format!("spec.nodeName={}", self.config.node_name));
        let (waking, waking_ports) = (waker.clone(), ports.clone());
        let informer =
            Informer::new(Api::<Pod>::all(self.client.clone()), selected).on_change(move |pod: &Pod| {
                waking.wake(ObjectKey::of(pod));
                waking_ports.wake(ObjectKey::of(pod));
            });
        let host_ports = HostPorts {
            pods: informer.informer(),
            proxy: proxy.clone(),
            node_address: self.network.node_address(),
            listeners: Listeners::default(),
        };
        let surroundings = Surroundings {
            config: self.config.clone(),
            client: self.client.clone(),
            clock: self.clock.clone(),
            tasks: self.plumbing.clone(),
            network: self.network.clone(),
            network_identity: self.entered.network.clone(),
            program: self.program.clone(),
            images: self.images.clone(),
            pods: informer.informer(),
            services,
            metrics: self.metrics.clone(),
            cgroups,
        };
        let pods = Pods::new(surroundings, Pool::new(range), waker.clone());
        // Before the first pass: what is there already must be known before anything is started.
        pods.adopt().await?;
        let options = Options { concurrency: 16, ..Options::default() };
        waker.connect(Controller::new("pods", pods.clone(), options).spawn(&self.tasks));
        ports.connect(Controller::new("host-ports", host_ports, Options::default()).spawn(&self.tasks));
        informer.spawn(&self.tasks, "pods");
        Ok(pods)
    }

    fn start_persistent_volumes(&self) {
        let Some(root) = self.config.volume_root.clone() else { return };
        let waker = Waker::default();
        let waking = waker.clone();
        let volumes =
            Informer::new(Api::<PersistentVolume>::all(self.client.clone()), watcher::Config::default())
                .on_change(move |volume: &PersistentVolume| waking.wake(ObjectKey::of(volume)))
                .spawn(&self.tasks, "persistentvolumes");
        let reconciler = PersistentVolumes { client: self.client.clone(), volumes, root };
        waker.connect(
            Controller::new("persistent-volumes", reconciler, Options::default()).spawn(&self.tasks),
        );
    }
}

// === impl Visitors ===

impl Visitors {
    fn welcome(self, listener: Listener) {
        let Self { access, statistics, pods, metrics, tasks } = self;
        let router = server::router(pods, statistics, tasks.clone(), access);
        let app = Stack::new(metrics.clone()).around(router);
        if let Some(certificates) = listener.certificates() {
            certificates.look_regularly(&tasks);
        }
        let serving = tasks.clone();
        tasks.spawn("logs", OnExit::StopProcess, async move { listener.serve(app, metrics, &serving).await });
    }
}

// === impl NodeSocket ===

impl Handler for NodeSocket {
    async fn connect(&self, target: Target) -> io::Result<TcpStream> {
        match target {
            Target::Address(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(stream)
            }
            Target::Named(name) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("`{name}` is not an address of this node's network"),
            )),
        }
    }

    async fn stop_pods(&self) -> io::Result<()> {
        let pods = self.pods.borrow().clone();
        match pods {
            Some(pods) => pods.stop().await,
            None => Err(io::Error::new(io::ErrorKind::NotConnected, "the node has not started yet")),
        }
    }
}
