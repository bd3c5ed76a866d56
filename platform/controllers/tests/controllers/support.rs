//! An API server and its controllers in one line.

use std::fmt::Debug;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use pilothouse_controllers::{Config, Deps, Handle, Service};
use pilothouse_kubeapi::testing;
use pilothouse_pki::{Authority, Certificate};
use pilothouse_runtime::{Clock, ManualClock, OnExit, Reason, Shutdown, Tasks};
use pilothouse_test_support::upstream::Upstream;
use prometheus_client::registry::Registry;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::real::Real;

/// Far beyond anything that works; a test that reaches it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Whose namespace the tests work in.
pub(crate) const NAMESPACE: &str = "default";

/// The root authority that the controllers publish.
pub(crate) const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\ntest\n-----END CERTIFICATE-----\n";

/// Where the controllers say that the API server is.
pub(crate) const SERVER: &str = "https://api.example.com:6443";

/// What somebody asked a server for: method and path.
pub(crate) type Asked = Arc<Mutex<Vec<String>>>;

pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) controllers: Handle,
    pub(crate) clock: ManualClock,
    time: Clock,
    pub(crate) volumes: PathBuf,
    _directory: TempDir,
    shutdown: Shutdown,
    tasks: Tasks,
    server: Server,
}

/// Whose API it is.
pub(crate) enum Server {
    Ours(testing::Cluster),
    Real(Real),
}

/// Runs a test on our API server and on a real one, where it is installed.
macro_rules! on_both {
    ($($name:ident;)*) => {
        mod on_ours {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name($crate::support::Cluster::start().await).await;
            })*
        }

        mod on_a_real_server {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                if let Some(cluster) = $crate::support::Cluster::start_on_real().await {
                    super::$name(cluster).await;
                }
            })*
        }
    };
}
pub(crate) use on_both;

impl Server {
    async fn client(&self, user: &str, groups: &[&str]) -> Client {
        match self {
            Self::Ours(server) => server.client(user, groups).await.unwrap(),
            Self::Real(server) => server.client(user, groups).await,
        }
    }

    fn authority(&self) -> &Authority {
        match self {
            Self::Ours(server) => server.authority(),
            Self::Real(server) => server.authority(),
        }
    }
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let server = testing::Cluster::start(testing::Options::default()).await.unwrap();
        Self::start_on(Server::Ours(server)).await
    }

    /// On a real API server; none where it is not installed.
    pub(crate) async fn start_on_real() -> Option<Self> {
        Some(Self::start_on(Server::Real(Real::start(&Upstream::find()?).await)).await)
    }

    async fn start_on(server: Server) -> Self {
        Self::start_with(server, |client| client).await
    }

    /// On our API server, with what the controllers ask it for: method and path.
    pub(crate) async fn start_counting() -> (Self, Asked) {
        let server = testing::Cluster::start(testing::Options::default()).await.unwrap();
        let asked = Asked::default();
        let noting = asked.clone();
        let cluster = Self::start_with(Server::Ours(server), move |client| {
            let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
                let line = format!("{} {}", request.method(), request.uri().path());
                noting.lock().unwrap().push(line);
                let client = client.clone();
                async move { client.send(request).await }
            });
            Client::new(service, NAMESPACE)
        })
        .await;
        (cluster, asked)
    }

    async fn start_with(server: Server, controllers: impl FnOnce(Client) -> Client) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let shutdown = Shutdown::new();
        let tasks = Tasks::new("test", shutdown.clone());
        let client = server.client("controllers", &["system:masters"]).await;

        let (clock, manual) = Clock::manual(Clock::system().now());
        let volumes = directory.path().join("volumes");
        let config = Config { cluster_cidr: Some("10.132.0.0/14".to_owned()), ..Config::default() };
        let time = clock.clone();
        let deps = Deps {
            client: controllers(client.clone()),
            clock,
            root_authority_pem: AUTHORITY.to_owned(),
            signing_authority: Some(signing_authority(server.authority())),
            server: Some(SERVER.to_owned()),
            volume_root: Some(volumes.clone()),
            registry: &mut Registry::default(),
        };
        let service = Service::build(config, deps).await.unwrap();
        let controllers = service.handle();
        let own = shutdown.clone();
        tasks.spawn("controllers", OnExit::StopProcess, async move { Ok(service.run(own).await?) });
        Self {
            client,
            controllers,
            clock: manual,
            time,
            volumes,
            _directory: directory,
            shutdown,
            tasks,
            server,
        }
    }

    /// Stops the controllers and fails if anything is left running or went wrong. The server goes with the test: it would
    /// wait a while for the connections that its clients opened and never used.
    pub(crate) async fn stop(self) {
        self.shutdown.request(Reason::Asked("the test is over".to_owned()));
        self.tasks.drain(PATIENCE).await.unwrap();
        assert_eq!(self.shutdown.reason(), Some(Reason::Asked("the test is over".to_owned())));
        if let Server::Ours(server) = &self.server {
            assert!(!server.shutdown().is_requested(), "the server ran to the end");
        }
    }

    /// A client that is somebody else.
    pub(crate) async fn user(&self, name: &str, groups: &[&str]) -> Client {
        self.server.client(name, groups).await
    }

    /// Whose certificates the server believes.
    pub(crate) fn authority(&self) -> Certificate {
        self.server.authority().certificate().clone()
    }

    /// The time that the controllers go by.
    pub(crate) fn clock_now(&self) -> Timestamp {
        self.time.now()
    }

    /// The objects of a kind in the tests' namespace.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub(crate) async fn create<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned
            + Serialize,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    /// A node that says it is ready.
    pub(crate) async fn node(&self, name: &str) -> Node {
        let api: Api<Node> = Api::all(self.client.clone());
        let node = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        api.create(&PostParams::default(), &node).await.unwrap();
        self.node_says(name, "True").await
    }

    pub(crate) async fn node_says(&self, name: &str, ready: &str) -> Node {
        let api: Api<Node> = Api::all(self.client.clone());
        let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": ready }] } });
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap()
    }

    pub(crate) async fn namespace(&self, name: &str) {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let namespace = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        api.create(&PostParams::default(), &namespace).await.unwrap();
    }

    /// Returns once the controllers write nothing any more: in a world that is as it should be, nobody does.
    pub(crate) async fn at_rest(&self) {
        eventually("nothing is written", || async {
            let before = self.version().await;
            for _ in 0..50 {
                self.version().await;
            }
            let after = self.version().await;
            if before == after { Ok(()) } else { Err(format!("{before:?} became {after:?}")) }
        })
        .await;
    }

    /// The version of the whole store.
    async fn version(&self) -> Option<String> {
        let pods = self.api::<Pod>().list(&ListParams::default().limit(1)).await.unwrap();
        pods.metadata.resource_version
    }

    /// The pods of a label, once there are so many of them and all are on a node.
    pub(crate) async fn bound_pods(&self, label: &str, count: usize) -> Vec<Pod> {
        eventually(&format!("{count} pods of {label} are bound"), || async {
            let pods = self.pods(label).await;
            let bound = pods.iter().filter(|pod| node_of(pod).is_some()).count();
            if pods.len() == count && bound == count {
                Ok(pods)
            } else {
                let said = |pod: &Pod| {
                    let conditions = pod.status.as_ref().and_then(|status| status.conditions.clone());
                    conditions.unwrap_or_default().into_iter().find_map(|condition| condition.message)
                };
                let names: Vec<_> =
                    pods.iter().map(|pod| (pod.name_any(), node_of(pod), said(pod))).collect();
                let failing = self.controllers.statuses();
                let failing: Vec<_> = failing.iter().filter(|status| status.failing > 0).collect();
                Err(format!("{names:?} {failing:?}"))
            }
        })
        .await
    }

    /// The pods of a label that are not on their way out.
    pub(crate) async fn pods(&self, label: &str) -> Vec<Pod> {
        let list = self.api::<Pod>().list(&ListParams::default().labels(label)).await.unwrap();
        list.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()).collect()
    }

    /// Says what a kubelet would: the pod runs and is ready.
    pub(crate) async fn pod_runs(&self, name: &str, address: &str) {
        let status = json!({ "status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{ "ip": address }],
            "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": Timestamp::UNIX_EPOCH }],
        } });
        let patch = Patch::Strategic(status);
        self.api::<Pod>().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Confirms, as a kubelet would, that pods on their way out have ended.
    pub(crate) async fn confirm_ended_pods(&self, namespace: &str) -> usize {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let pods = api.list(&ListParams::default()).await.unwrap();
        let ending = pods.items.iter().filter(|pod| pod.metadata.deletion_timestamp.is_some());
        let mut ended = 0;
        for pod in ending {
            let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::background() };
            // Gone already is as good.
            ended += usize::from(api.delete(&pod.name_any(), &now).await.is_ok());
        }
        ended
    }
}

fn signing_authority(authority: &Authority) -> Authority {
    let identity = authority.identity();
    Authority::from_pem(identity.chain_pem().as_bytes(), identity.key().to_pem().as_bytes()).unwrap()
}

pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Waits for a condition, with the tests' patience.
pub(crate) async fn eventually<T, F>(what: &str, probe: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T, String>>,
{
    pilothouse_test_support::eventually(what, PATIENCE, probe).await
}

/// Waits until an object is gone.
pub(crate) async fn gone<K>(api: &Api<K>, name: &str)
where
    K: Clone + Debug + DeserializeOwned,
{
    eventually(&format!("{name} is gone"), || async {
        match api.get_opt(name).await.unwrap() {
            None => Ok(()),
            Some(found) => Err(format!("{found:?}")),
        }
    })
    .await;
}
