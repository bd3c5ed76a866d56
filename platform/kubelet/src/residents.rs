//! A node whose pods are parts of this very process.
//!
//! Whoever looks for a service on the cluster looks for a pod: `kubectl logs`, `kubectl port-forward`, its readiness. Where services
//! are parts of one process instead, this shows each of them as what people look for, and what is shown is real. A resident's
//! log is what that part prints, its readiness what that part says of itself, and its ports lead to where it listens.
//!
//! The node starts and stops nothing. Its pods are made by somebody's Deployment that names the node; one that no
//! resident answers for is refused. Nothing else is scheduled here: the node is tainted, and has no processor or memory to give.
//!
//! # Tasks
//!
//! Of the owner `residents`: `pods` is a reconciler with a watch (`watch-pods`), `lease` keeps the node alive in the API, `logs`
//! serves the API server, with a `port-forward` for everybody who is at a port.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _};
use pilothouse_http::{Listener, Stack, Verdict};
use pilothouse_informer::{Informer, ObjectKey, watcher};
use pilothouse_runtime::reconcile::Options;
use pilothouse_runtime::{Clock, Controller, OnExit, Reason, Shutdown, Tasks};
use prometheus_client::registry::Registry;

use crate::access::Access;
use crate::config::{Capacity, Config as NodeConfig, Taint, Tls};
use crate::error::Error;
use crate::node::Registration;
use crate::pods::Waker;
use crate::service::Service as Node;

mod pods;
mod printed;
mod server;

use pods::Pods;
pub use printed::Printed;

/// What keeps other pods away.
pub const TAINT: &str = "pilothouse.dev/residents";
/// The label of a pod that says which resident it shows.
pub const APP: &str = "app";

/// How often residents are asked how they are, as a readiness probe would.
const PROBE: Duration = Duration::from_secs(5);
/// How long tasks may take to end.
const DRAIN: Duration = Duration::from_secs(5);

/// A node for residents.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name of the Node object.
    pub node_name: String,
    /// Where their logs are.
    pub root: PathBuf,
    /// The Kubernetes version the node says it has.
    pub version: String,
    /// The certificate of the log server, which names the node, and who may be a client.
    pub tls: Tls,
}

/// A part of this process.
pub struct Resident {
    /// The namespace of its pod.
    pub namespace: String,
    /// What its pod's label [`APP`] says.
    pub app: String,
    /// The pod's one container.
    pub container: String,
    /// Its ports as the pod has them, and where it really listens.
    pub ports: BTreeMap<u16, SocketAddr>,
    /// How it is.
    pub health: Arc<dyn Fn() -> Verdict + Send + Sync>,
}

/// What the node needs from outside.
pub struct Deps<'a> {
    /// The cluster that it is a node of.
    pub client: Client,
    /// The time.
    pub clock: Clock,
    /// Where its numbers are registered.
    pub registry: &'a mut Registry,
}

/// A node that is set up: its logs are open, its server is bound.
pub struct Service {
    config: NodeConfig,
    address: SocketAddr,
    listener: Listener,
    residents: Arc<[Lodged]>,
    client: Client,
    clock: Clock,
    tasks: Tasks,
    metrics: pilothouse_http::Metrics,
}

/// A resident and what it prints.
struct Lodged {
    resident: Resident,
    printed: Arc<Printed>,
}

// === impl Service ===

impl Service {
    /// Opens the logs and binds the server.
    ///
    /// # Errors
    ///
    /// When the system refuses; nothing runs then.
    pub fn build(
        config: Config,
        residents: Vec<Resident>,
        deps: Deps<'_>,
    ) -> BoxFuture<'_, Result<Self, Error>> {
        Box::pin(Self::assemble(config, residents, deps))
    }

    async fn assemble(config: Config, residents: Vec<Resident>, deps: Deps<'_>) -> Result<Self, Error> {
        let Deps { client, clock, registry } = deps;
        let open = |resident: Resident| {
            let folder = config.root.join(&resident.namespace).join(&resident.app);
            let printed = Printed::open(&folder, &resident.container)
                .map_err(|error| Error::setup("the log of a resident")(error.into()))?;
            Ok(Lodged { resident, printed: Arc::new(printed) })
        };
        let residents: Arc<[Lodged]> = residents.into_iter().map(open).collect::<Result<_, Error>>()?;
        let pods = u32::try_from(residents.len()).unwrap_or(u32::MAX);
        let mut config = NodeConfig {
            node_name: config.node_name,
            root: config.root,
            version: config.version,
            tls: Some(config.tls),
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            // What there is is offered by the machine's other node.
            capacity: Capacity { pods, cpu: Some("0".to_owned()), memory: Some("0".to_owned()) },
            taints: vec![Taint { key: TAINT.to_owned(), value: None, effect: "NoSchedule".to_owned() }],
            ..NodeConfig::default()
        };
        let unserved = || Error::Config { key: "tls", reason: "it is needed".to_owned() };
        let listener = Node::listen(&config, &clock).await?.ok_or_else(unserved)?;
        let address = listener.local_address();
        config.listen = address;
        let metrics = pilothouse_http::Metrics::new(registry);
        let tasks = Tasks::new("residents", Shutdown::new());
        Ok(Self { config, address, listener, residents, client, clock, tasks, metrics })
    }

    /// Where the API server asks for logs and ports.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What everybody prints, in the order in which they were given.
    pub fn printed(&self) -> impl Iterator<Item = Arc<Printed>> {
        self.residents.iter().map(|lodged| Arc::clone(&lodged.printed))
    }

    /// Runs the node until `shutdown`.
    ///
    /// # Errors
    ///
    /// When a part of it ends by itself.
    pub fn run(self, shutdown: Shutdown) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.work(shutdown))
    }

    async fn work(self, shutdown: Shutdown) -> Result<(), Error> {
        let Self { config, listener, residents, client, clock, tasks, metrics, address: _ } = self;
        let registration = Registration {
            client: client.clone(),
            config: config.clone(),
            address: Ipv4Addr::LOCALHOST,
            clock: clock.clone(),
            cgroups: None,
        };
        let waker = Waker::default();
        let waking = waker.clone();
        let selected = watcher::Config::default().fields(&format!("spec.nodeName={}", config.node_name));
        let informer = Informer::new(Api::<Pod>::all(client.clone()), selected)
            .on_change(move |pod: &Pod| waking.wake(ObjectKey::of(pod)))
            .spawn(&tasks, "watch-pods");
        let pods = Pods::new(client.clone(), clock, informer, residents);
        let options = Options { resync: PROBE, ..Options::default() };
        waker.connect(Controller::new("residents", pods.clone(), options).spawn(&tasks));

        let access = Access::new(client, config.node_name.clone(), config.api_servers.clone());
        let app = Stack::new(metrics.clone()).around(server::router(pods, tasks.clone(), access));
        if let Some(certificates) = listener.certificates() {
            certificates.look_regularly(&tasks);
        }
        let serving = tasks.clone();
        tasks.spawn("logs", OnExit::StopProcess, async move { listener.serve(app, metrics, &serving).await });
        tasks.spawn("lease", OnExit::Expendable, async move {
            let node = registration.ensure().await;
            registration.keep_alive(&node).await
        });

        let own = tasks.shutdown().clone();
        tokio::select! {
            () = shutdown.requested() => {
                own.request(shutdown.reason().unwrap_or_else(|| Reason::Asked("stopped".to_owned())));
            }
            () = own.requested() => {}
        }
        let drained = tasks.drain(DRAIN).await;
        match own.reason() {
            Some(reason) if reason.is_failure() => {
                Err(Error::setup("the residents' node, a part of which ended")(reason.to_string().into()))
            }
            _ => drained.map_err(|error| Error::setup("the residents' node's end")(error.into())),
        }
    }
}

// === impl Lodged ===

impl Lodged {
    /// Whether a pod shows this one.
    fn is_shown_by(&self, pod: &Pod) -> bool {
        let Resident { namespace, app, .. } = &self.resident;
        pod.namespace().as_ref() == Some(namespace) && pod.labels().get(APP) == Some(app)
    }
}
