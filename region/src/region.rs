//! All parts of a region, started in the order in which they need one another, and stopped in the reverse.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::LocalBoxFuture;
use kube::Client;
use pilothouse_http::{Health, Listener, ListenerConfig, Operations, Stack};
use pilothouse_kubelet_api::Dialer;
use pilothouse_pki::{AlternativeName, Bundle};
use pilothouse_records::Records;
use pilothouse_runtime::{Chain, Clock, OnExit, Reason, Shutdown, TaskError, Tasks};
use pilothouse_store::{Catalog, Keyring, Location, Options, Store};
use prometheus_client::registry::Registry;
use tokio::sync::Notify;
use tracing::{info, warn};

use crate::config::{Config, PortChoice};
use crate::control_plane::{self, ControlPlane};
use crate::credentials::Credentials;
use crate::data_dir::{DataDir, Held};
use crate::endpoints::Endpoints;
use crate::error::Error;
use crate::first_cluster::FirstCluster;
use crate::kubernetes;
use crate::management;
use crate::node::{IntoNode, Node, NodeFiles};
use crate::ports::{Ports, loopback};
use crate::residents::Address;

/// The management cluster's ranges. They live in the node's private network and meet nobody.
const POD_RANGE: &str = "10.200.0.0/16";
const SERVICE_RANGE: &str = "10.96.0.0/16";
/// The first of the service range, which is the API server's own.
const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
const NODE_NAME: &str = "pilothouse";
pub(crate) const KUBERNETES_VERSION: &str = "1.33.4";
const ISSUER: &str = "https://kubernetes.default.svc";
/// How long pods may take to end, and everything else after them.
const STOP_PODS: Duration = Duration::from_secs(30);
const DRAIN: Duration = Duration::from_secs(20);

/// A region that runs.
#[derive(Debug)]
pub struct Region {
    endpoints: Endpoints,
    data_dir: DataDir,
    records: Records,
    parts: Parts,
    /// Told of new kubeconfig files of clusters.
    kubeconfig_written: Arc<Notify>,
}

/// What every part is built from.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) config: Config,
    pub(crate) ports: Ports,
    pub(crate) clock: Clock,
    pub(crate) credentials: Credentials,
    pub(crate) authorities: Bundle,
    pub(crate) keyring: Keyring,
    pub(crate) health: Health,
    pub(crate) parts: Parts,
}

/// What runs, and has to be ended. A cheap handle.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    /// Of the parts, not of the process: pods are stopped while everything still runs.
    shutdown: Shutdown,
    tasks: Tasks,
    stores: Arc<Mutex<Vec<Store>>>,
    node: Arc<Mutex<NodeSlot>>,
}

/// Whether there is a node.
#[derive(Debug, Default)]
enum NodeSlot {
    #[default]
    NotYet,
    /// The way to its kubelet, and its folder.
    There(Dialer, PathBuf),
    /// There will be none: the region stops.
    Over,
}

// === impl Region ===

impl Region {
    /// Starts a region as a task of `tasks`, and returns when every endpoint accepts. `say` is told how far it is.
    ///
    /// # Errors
    ///
    /// If a part cannot be started. What was started before is stopped with the shutdown of `tasks`.
    pub fn start(
        config: Config,
        tasks: Tasks,
        say: &(dyn Fn(&str) + Sync),
    ) -> LocalBoxFuture<'_, Result<Self, Error>> {
        Box::pin(Self::begin(config, tasks, say))
    }

    async fn begin(config: Config, tasks: Tasks, say: &(dyn Fn(&str) + Sync)) -> Result<Self, Error> {
        let data_dir = config.data_dir.clone();
        let held = data_dir.hold()?;
        let ports = match &config.ports {
            PortChoice::Fixed(ports) => ports.clone(),
            PortChoice::Ephemeral => Ports::ephemeral(&data_dir.ports_file())?,
        };
        ports.check()?;
        let clock = Clock::system();
        let credentials = Credentials::open(&data_dir.pki(), clock.clone())?;
        let authorities = credentials.authorities()?;
        let keyring = Keyring::open_or_create(data_dir.key_file().to_string_lossy().into_owned())
            .map_err(|source| Error::Store { path: data_dir.key_file(), source })?;
        let parts = Parts::new();
        parts.supervise(&tasks, held);
        if let Some(file) = &config.endpoints_file {
            // Whoever waits for it waits for this start, not for one before.
            remove_file(file)?;
        }
        let health = Health::new(parts.shutdown.clone());
        let site =
            Site { config, ports, clock, credentials, authorities, keyring, health, parts: parts.clone() };

        let mut registry = Registry::default();
        let residents_address = Address::default();
        site.start_management(residents_address.clone()).await?;
        let client = site.client("region").await?;
        management::furnish(&client).await?;
        say("the management cluster is up");
        let dialer = site.start_node()?;
        let residents = site.prepare_residents(&mut registry, &residents_address).await?;
        let records = site.start_services(&mut registry, dialer).await?;
        residents.start(&site);
        say("the services are up");
        site.start_operations(registry).await?;
        let kubeconfig_written = Arc::<Notify>::default();
        site.start_kubeconfig_files(kubeconfig_written.clone())?;
        let endpoints = Endpoints::new(&site.ports, data_dir.management_kubeconfig());
        endpoints.write(&data_dir.endpoints_file())?;
        if let Some(file) = &site.config.endpoints_file {
            endpoints.write(file)?;
        }
        Ok(Self { endpoints, data_dir, records, parts, kubeconfig_written })
    }

    /// Where everything is.
    pub fn endpoints(&self) -> &Endpoints {
        &self.endpoints
    }

    /// A first cluster of this name, which is yet to be asked for.
    pub fn first_cluster(&self, name: &str) -> FirstCluster {
        FirstCluster::new(name, &self.endpoints, &self.data_dir, self.records.clone())
    }

    /// Tells it that a cluster has a kubeconfig file in its folder, which is to go with that cluster.
    pub fn note_kubeconfig(&self) {
        self.kubeconfig_written.notify_one();
    }

    /// Asks it to stop. Hosted control planes are not touched: the next region on the same folder adopts them.
    pub fn abandon(&self) {
        self.parts.take_node();
        self.parts.shutdown.request(Reason::Asked("the region was abandoned".to_owned()));
    }
}

// === impl Site ===

impl Site {
    pub(crate) fn files(&self) -> NodeFiles {
        NodeFiles::new(self.config.data_dir.node())
    }

    pub(crate) fn data_dir(&self) -> &DataDir {
        &self.config.data_dir
    }

    pub(crate) fn management_url(&self) -> String {
        format!("https://{}", loopback(self.ports.management))
    }

    /// The API server, controllers and scheduler of the management cluster.
    async fn start_management(&self, residents: Address) -> Result<(), Error> {
        let names = [
            AlternativeName::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            AlternativeName::Ip(IpAddr::V4(API_SERVICE)),
            AlternativeName::dns("localhost")?,
            AlternativeName::dns("kubernetes")?,
            AlternativeName::dns("kubernetes.default.svc")?,
        ];
        let serving = self.credentials.server("management-api", names)?;
        let (kubelet_client, _) = self.credentials.client(
            "kubelet-client",
            "kube-apiserver-kubelet-client",
            &["system:masters"],
        )?;
        let (_, administrator) =
            self.credentials.client("administrator", "administrator", &["system:masters"])?;
        let kubeconfig = self.data_dir().management_kubeconfig();
        self.credentials.kubeconfig(&kubeconfig, &self.management_url(), "administrator", &administrator)?;

        let authority = self.credentials.authority_file();
        let config = control_plane::Config {
            listen: loopback(self.ports.management),
            store: path_text(&self.data_dir().store("management")),
            key_file: Some(self.data_dir().key_file()),
            version: KUBERNETES_VERSION.to_owned(),
            service_cidr: SERVICE_RANGE.to_owned(),
            // The one node is told its range directly.
            cluster_cidr: None,
            advertise: None,
            tls_certificate: serving.certificate,
            tls_key: serving.key,
            client_authorities: authority.clone(),
            service_account_key: self.credentials.key("service-accounts")?,
            issuer: ISSUER.to_owned(),
            root_authority: authority,
            kubelet_client_certificate: kubelet_client.certificate,
            kubelet_client_key: kubelet_client.key,
            // Its nodes are made by the region; and who is certified by the region's authority is believed beyond this API.
            signing_certificate: None,
            signing_key: None,
            public_server: None,
            volume_root: Some(self.files().volumes()),
            token_file: None,
            authentication_config: None,
            anonymous: pilothouse_kubeapi::Anonymous::default(),
            controllers: true,
        };
        let nodes = Arc::new(IntoNode { node: Dialer::new(self.files().node_socket()), residents });
        let plane = ControlPlane::build_with(config, self.clock.clone(), &self.parts.shutdown, nodes).await?;
        self.parts.keep(plane.store());
        self.parts
            .run("management-cluster", |shutdown| async move { Ok(Box::pin(plane.run(shutdown)).await?) });
        Ok(())
    }

    /// A client of the management cluster, with a certificate of its own.
    pub(crate) async fn client(&self, part: &str) -> Result<Client, Error> {
        let user = format!("pilothouse:{part}");
        let (_, identity) = self.credentials.client(&format!("client-{part}"), &user, &["system:masters"])?;
        let target = kubernetes::Target {
            server: self.management_url(),
            server_name: None,
            authorities: &self.authorities,
        };
        Ok(kubernetes::client(&target, &user, &identity).await?)
    }

    fn start_node(&self) -> Result<Dialer, Error> {
        let files = self.files();
        let (_, identity) =
            self.credentials.client("node", &format!("system:node:{NODE_NAME}"), &["system:nodes"])?;
        self.credentials.kubeconfig(&files.kubeconfig(), &self.management_url(), NODE_NAME, &identity)?;
        let serving = self.credentials.server("node-serving", [AlternativeName::dns(NODE_NAME)?])?;
        let config = pilothouse_kubelet::Config {
            node_name: NODE_NAME.to_owned(),
            root: files.root(),
            kubeconfig: files.kubeconfig(),
            host_socket: Some(files.host_socket()),
            host_target: crate::node::MANAGEMENT_API.to_owned(),
            node_socket: Some(files.node_socket()),
            pod_range: Some(POD_RANGE.to_owned()),
            service_range: SERVICE_RANGE.to_owned(),
            allow_host_path: true,
            // Every namespace with pods is a hosted cluster, and so somebody else's.
            isolation: pilothouse_kubelet::Isolation::Namespace,
            volume_root: Some(files.volumes()),
            program: Some(self.config.program.clone()),
            images: self.config.images.clone(),
            upstream: self.config.upstream.clone(),
            version: format!("v{KUBERNETES_VERSION}"),
            tls: Some(pilothouse_kubelet::Tls {
                certificate: serving.certificate,
                key: serving.key,
                client_authorities: self.credentials.authority_file(),
            }),
            ..pilothouse_kubelet::Config::default()
        };
        let management = loopback(self.ports.management);
        let node = Node::prepare(&self.config.program, files, &config, management)?;
        let dialer = node.dialer();
        let mut slot = self.parts.node.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*slot, NodeSlot::Over) {
            // Whoever stops the region has looked already, and would leave it running.
            return Err(Error::Stopping);
        }
        *slot = NodeSlot::There(dialer.clone(), self.files().root());
        let tasks = self.parts.tasks.clone();
        self.parts.run("node", |shutdown| async move { Ok(node.run(&tasks, shutdown).await?) });
        Ok(dialer)
    }

    /// Health, metrics and debug pages.
    async fn start_operations(&self, mut registry: Registry) -> Result<(), Error> {
        let http = pilothouse_http::Metrics::new(registry.sub_registry_with_prefix("operations"));
        let config = ListenerConfig::loopback(self.ports.metrics);
        let listener = Listener::bind("the region's metrics", &config, &self.clock).await?;
        let router = Operations::new(self.health.clone(), Arc::new(registry)).router();
        let router = Stack::new(http.clone()).around(router);
        let tasks = self.parts.tasks.clone();
        self.parts.run("metrics", |_| async move { listener.serve(router, http, &tasks).await });
        Ok(())
    }

    /// A database of its own for one service.
    pub(crate) async fn store(&self, name: &str, catalog: Catalog) -> Result<Store, Error> {
        let path = self.data_dir().store(name);
        let location = Location::sqlite(path_text(&path));
        let options = Options {
            keyring: Some(self.keyring.clone()),
            clock: self.clock.clone(),
            ..Options::new(location, catalog, self.parts.shutdown.clone())
        };
        let store = Store::open(options).await.map_err(|source| Error::Store { path, source })?;
        self.parts.keep(store.clone());
        Ok(store)
    }
}

// === impl Parts ===

impl Parts {
    fn new() -> Self {
        let shutdown = Shutdown::new();
        let tasks = Tasks::new("region", shutdown.clone());
        Self { shutdown, tasks, stores: Arc::default(), node: Arc::default() }
    }

    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Runs one part until the parts are told to stop.
    pub(crate) fn run<F>(&self, name: &str, part: impl FnOnce(Shutdown) -> F)
    where
        F: Future<Output = Result<(), TaskError>> + Send + 'static,
    {
        self.tasks.spawn(name, OnExit::StopProcess, part(self.shutdown.clone()));
    }

    /// The node that there is. There will be no other.
    fn take_node(&self) -> Option<(Dialer, PathBuf)> {
        let mut slot = self.node.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *slot, NodeSlot::Over) {
            NodeSlot::There(dialer, root) => Some((dialer, root)),
            NodeSlot::NotYet | NodeSlot::Over => None,
        }
    }

    fn keep(&self, store: Store) {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner).push(store);
    }

    /// Waits for the process to stop, or for a part to fail, and then ends all of them in order.
    fn supervise(&self, tasks: &Tasks, mut held: Held) {
        let parts = self.clone();
        let process = tasks.shutdown().clone();
        tasks.spawn("region", OnExit::StopProcess, async move {
            tokio::select! {
                () = process.requested() => {}
                () = parts.shutdown.requested() => {}
            }
            held.note_stopping();
            parts.end().await;
            held.forget_endpoints();
            drop(held);
            match parts.shutdown.reason() {
                Some(reason) if reason.is_failure() => Err(reason.to_string().into()),
                _ => Ok(()),
            }
        });
    }

    async fn end(&self) {
        let node = self.take_node();
        if let Some((dialer, _)) = &node
            && let Err(error) = dialer.stop_pods(STOP_PODS).await
        {
            warn!(error = %Chain(&error), "the node's pods were not stopped in order");
        }
        self.shutdown.request(Reason::Asked("the region stops".to_owned()));
        if let Err(error) = self.tasks.drain(DRAIN).await {
            warn!(error = %Chain(&error), "parts of the region did not end in time");
        }
        if let Some((_, root)) = node {
            remove_node(root).await;
        }
        let stores = std::mem::take(&mut *self.stores.lock().unwrap_or_else(PoisonError::into_inner));
        for store in stores {
            store.close().await;
        }
        info!("the region has stopped");
    }
}

/// Ends what holds the node's namespaces, now that no kubelet and no pod needs them.
async fn remove_node(root: PathBuf) {
    let removed = tokio::task::spawn_blocking(move || pilothouse_kubelet::remove(&root)).await;
    match removed {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => warn!(error = %Chain(&error), "the node was not removed"),
        Err(error) => warn!(error = %Chain(&error), "the node was not removed"),
    }
}

fn remove_file(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::OldEndpoints { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
