//! The world around the service, and the service itself: started in one line, killed without warning.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use jiff::Timestamp;
use pilothouse_arm::ResourceId;
use pilothouse_clusters_service::{Config, Deps, SOURCE_ID, Service, catalog};
use pilothouse_clusters_service_api::{
    Azure, AzureNodePool, Client, Cluster, ClusterId, ClusterState, NewCluster, NewNodePool, NodePool,
    NodePoolStateValue, NodePoolUpdate, Version, properties,
};
use pilothouse_http::{ClientBuilder, Context, Health, Listener, ListenerConfig, Metrics};
use pilothouse_maestro_api::{RestClient, SourceClient};
use pilothouse_runtime::{Clock, ManualClock, OnExit, Shutdown, Tasks};
use pilothouse_store::{Keyring, Location, Options, Store};
use pilothouse_test_support::eventually;
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::cloud::Cloud;
use crate::maestro::Maestro;
use crate::switch::Switch;

/// Far beyond anything that works; a test that reaches it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
pub(crate) const CORRELATION: &str = "9a7e5a3c-0000-4000-8000-000000000001";

/// Everything but the service.
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) cloud: Arc<Cloud>,
    pub(crate) maestro: Arc<Maestro>,
    pub(crate) switch: Arc<Switch>,
    pub(crate) clock: Clock,
    pub(crate) time: ManualClock,
    cloud_address: SocketAddr,
    maestro_address: SocketAddr,
    _tasks: Tasks,
}

/// The service, on threads of its own so that it can be killed.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) client: Client,
    /// Its numbers.
    registry: Registry,
    runtime: Option<Runtime>,
}

impl World {
    pub(crate) async fn new() -> Self {
        let tasks = Tasks::new("test", Shutdown::new());
        let mut options = Options::new(Location::memory(), catalog(), Shutdown::new());
        options.keyring = Some(Keyring::ephemeral().unwrap());
        let store = Store::open(options).await.unwrap();
        let switch = Arc::new(Switch::open());
        let cloud = Cloud::new(switch.clone());
        for path in [base_zone().parent().unwrap(), base_zone()] {
            cloud.put(path.as_str(), serde_json::json!({"location": "global", "etag": "0"}));
        }
        let maestro = Maestro::new(switch.clone());
        let cloud_address = serve(cloud.router(), &tasks).await;
        let maestro_address = serve(maestro.router(), &tasks).await;
        let (clock, time) = Clock::manual("2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
        Self { store, cloud, maestro, switch, clock, time, cloud_address, maestro_address, _tasks: tasks }
    }

    pub(crate) async fn start(&self) -> Running {
        self.start_with(|_| {}).await
    }

    /// The same, configured otherwise. Several at once are replicas of one another.
    pub(crate) async fn start_with(&self, change: impl FnOnce(&mut Config)) -> Running {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (sender, receiver) = oneshot::channel();
        let (store, clock) = (self.store.clone(), self.clock.clone());
        let (cloud, maestro) = (self.cloud_address, self.maestro_address);
        let mut config = Config {
            cloud: format!("http://{cloud}"),
            base_zone: Some(base_zone().into()),
            // One that was killed is not waited for any longer than that.
            lease: pilothouse_runtime::config::Duration::from_secs(2),
            ..Config::default()
        };
        change(&mut config);
        runtime.spawn(async move {
            let shutdown = Shutdown::new();
            let http = ClientBuilder::new(Duration::from_secs(20)).build().unwrap();
            let url = format!("http://{maestro}");
            let mut registry = Registry::default();
            let deps = Deps {
                store,
                clock,
                maestro: RestClient::try_new(http.clone(), &url).unwrap(),
                source: SourceClient::try_new(&url, SOURCE_ID, Clock::system()).unwrap(),
                http,
                health: Health::new(shutdown.clone()),
                registry: &mut registry,
            };
            let service = Service::build(config, deps).await.unwrap();
            sender.send((service.local_address(), registry)).unwrap();
            service.run(shutdown).await.unwrap();
        });
        let (address, registry) = receiver.await.unwrap();
        let http = ClientBuilder::new(Duration::from_secs(20)).build().unwrap();
        let client = Client::try_new(http, &format!("http://{address}").parse().unwrap()).unwrap();
        Running { address, client, registry, runtime: Some(runtime) }
    }
}

impl Running {
    /// Ends it wherever it is.
    pub(crate) fn kill(mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// How many clusters it counts, by state, of those states that have any.
    pub(crate) fn counts(&self) -> BTreeMap<String, i64> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let counted = text.lines().filter_map(|line| {
            let (state, count) =
                line.strip_prefix("clusters_service_clusters{state=\"")?.split_once("\"} ")?;
            Some((state.to_owned(), count.parse().unwrap()))
        });
        counted.filter(|(_, count)| *count != 0).collect()
    }

    /// A call as somebody else's program would make it: its status, and its body if that is JSON.
    pub(crate) async fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let http = ClientBuilder::new(PATIENCE).build().unwrap();
        let url = format!("http://{}{path}", self.address).parse().unwrap();
        let call = http.call(method.parse().unwrap(), url).context(&context());
        let response = call.json(body).send().await.unwrap();
        let status = response.status().as_u16();
        (status, serde_json::from_slice(&response.bytes().await.unwrap()).unwrap_or_default())
    }

    pub(crate) async fn create(&self, new: &NewCluster) -> Cluster {
        self.client.cluster_create(&context(), new).await.unwrap()
    }

    pub(crate) async fn cluster(&self, id: &ClusterId) -> Cluster {
        self.client.cluster_get(&context(), id).await.unwrap()
    }

    pub(crate) async fn until(&self, id: &ClusterId, state: ClusterState) -> Cluster {
        eventually("the cluster is in its state", PATIENCE, || async {
            let cluster = self.cluster(id).await;
            if cluster.state == state { Ok(cluster) } else { Err(format!("{:?}", cluster.status)) }
        })
        .await
    }

    /// Waits until the description of the cluster contains a text.
    pub(crate) async fn until_it_says(&self, id: &ClusterId, text: &str) -> Cluster {
        eventually("the cluster says why it waits", PATIENCE, || async {
            let cluster = self.cluster(id).await;
            if cluster.status.description.contains(text) {
                Ok(cluster)
            } else {
                Err(format!("{:?}", cluster.status))
            }
        })
        .await
    }

    pub(crate) async fn until_gone(&self, id: &ClusterId) {
        eventually("the cluster is gone", PATIENCE, || async {
            match self.client.cluster_get(&context(), id).await {
                Err(error) if error.is_not_found() => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    pub(crate) async fn until_node_pool(&self, pool: &NodePool, state: NodePoolStateValue) -> NodePool {
        eventually("the node pool is in its state", PATIENCE, || async {
            let found = self.client.node_pool_get(&context(), &pool.cluster_id, &pool.id).await.unwrap();
            if found.status.state.value == state { Ok(found) } else { Err(format!("{:?}", found.status)) }
        })
        .await
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn serve(router: Router, tasks: &Tasks) -> SocketAddr {
    let listener =
        Listener::bind("a stand-in", &ListenerConfig::loopback(0), &Clock::system()).await.unwrap();
    let address = listener.local_address();
    let metrics = Metrics::new(&mut Registry::default());
    let own = tasks.clone();
    tasks.spawn("stand-in", OnExit::LogError, async move { listener.serve(router, metrics, &own).await });
    address
}

/// The region's own zone.
pub(crate) fn base_zone() -> ResourceId {
    pilothouse_arm::dns::region_zone("pilothouse.test")
}

pub(crate) fn context() -> Context {
    Context::new(PATIENCE).with_correlation_id(CORRELATION)
}

/// A cluster called `name`, asked for by an operation called after it.
pub(crate) fn new_cluster(name: &str) -> NewCluster {
    NewCluster {
        name: name.to_lowercase(),
        version: Version::of_number("4.20.3"),
        properties: [(properties::OPERATION_ID.to_owned(), format!("create-{name}"))].into(),
        azure: Azure {
            subscription_id: "11111111-2222-3333-4444-555555555555".into(),
            resource_group_name: "Customer".into(),
            resource_name: name.into(),
            managed_resource_group_name: format!("managed-{name}"),
            ..Azure::default()
        },
        ..NewCluster::default()
    }
}

/// So many nodes, asked for by an operation.
pub(crate) fn scale_to(replicas: u32, operation: &str) -> NodePoolUpdate {
    NodePoolUpdate {
        replicas: Some(replicas),
        properties: [(properties::OPERATION_ID.to_owned(), operation.to_owned())].into(),
        ..NodePoolUpdate::default()
    }
}

pub(crate) fn new_node_pool(name: &str) -> NewNodePool {
    NewNodePool {
        replicas: Some(2),
        auto_repair: true,
        labels: [("tier".to_owned(), "web".to_owned())].into(),
        properties: [(properties::OPERATION_ID.to_owned(), format!("create-{name}"))].into(),
        azure_node_pool: AzureNodePool {
            resource_name: name.into(),
            vm_size: "Standard_D8s_v3".into(),
            ..AzureNodePool::default()
        },
        ..NewNodePool::new(name.parse().unwrap())
    }
}
