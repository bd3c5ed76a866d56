//! Operations reach their end whatever happens to the backend on the way.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod clusters;
mod interruptions;
mod node_pools;
mod stand_in;

use std::time::Duration;

use jiff::Timestamp;
use pilothouse_api::{Target, Version, hub};
use pilothouse_arm::{OperationId, ProvisioningState, ResourceId, SubscriptionId};
use pilothouse_backend::{Config, Deps, Service};
use pilothouse_clusters_service_api::{Cluster as Made, NewCluster, properties};
use pilothouse_http::Health;
use pilothouse_records::{Cluster, NodePool, Operation, Records, Request, catalog};
use pilothouse_runtime::{Clock, Reason, Shutdown};
use pilothouse_store::{Location, Options, Store};
use pilothouse_test_support::eventually;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::stand_in::StandIn;

/// Far beyond anything that works; a test that reaches it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

const SUBSCRIPTION: &str = "0b1f6471-1bf0-4dda-aec3-cb9272f09590";

pub(crate) struct Rig {
    pub(crate) store: Store,
    pub(crate) records: Records,
    pub(crate) clusters_service: StandIn,
}

/// A backend in a runtime of its own, so that it can be killed: everything it does stops where it is.
pub(crate) struct Backend {
    runtime: tokio::runtime::Runtime,
    running: tokio::task::JoinHandle<()>,
    shutdown: Shutdown,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        let options = Options::new(Location::memory(), catalog().unwrap(), Shutdown::new());
        let store = Store::open(options).await.unwrap();
        let records = Records::new(store.clone());
        Self { store, records, clusters_service: StandIn::start().await }
    }

    pub(crate) async fn backend(&self) -> Backend {
        // Short, so that what a killed one held is soon free.
        let lease = "300ms".parse().unwrap();
        self.backend_with(Config { lease, ..Config::default() }).await
    }

    pub(crate) async fn backend_with(&self, config: Config) -> Backend {
        let shutdown = Shutdown::new();
        let deps = Deps {
            store: self.store.clone(),
            clusters_service: self.clusters_service.client(),
            clock: Clock::system(),
            health: Health::new(shutdown.clone()),
            registry: &mut Registry::default(),
        };
        let service = Service::build(config, deps).await.unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let switch = shutdown.clone();
        let running = runtime.spawn(async move { service.run(switch).await.unwrap() });
        Backend { runtime, running, shutdown }
    }

    /// What the frontend stores for a PUT.
    pub(crate) async fn put_cluster(&self, name: &str) -> Operation {
        let id = cluster_id(name);
        let operation = operation(Request::Create, &id, Some(json!(new_cluster(&id))));
        let mut new = operation.clone();
        let request = new.clusters_service_request.as_mut().unwrap();
        request["properties"][properties::OPERATION_ID] = json!(new.id.to_string());
        let cluster = Cluster::new(hub_cluster(id), new.id);
        let mut change = self.records.change(subscription()).unwrap();
        change.cluster_create(&cluster).unwrap().operation_create(&new).unwrap();
        change.commit().await.unwrap();
        new
    }

    /// What the frontend stores for a DELETE.
    pub(crate) async fn delete_cluster(&self, name: &str) -> Operation {
        let id = cluster_id(name);
        let mut new = operation(Request::Delete, &id, None);
        new.state = ProvisioningState::Deleting;
        let mut change = self.records.change(subscription()).unwrap();
        for mut other in self.records.operation_active_on(&id).await.unwrap() {
            other.enter(ProvisioningState::Canceled, Timestamp::UNIX_EPOCH);
            change.operation_replace(&other).unwrap();
        }
        let mut cluster = self.records.cluster_get(&id).await.unwrap().unwrap();
        cluster.active_operation = Some(new.id);
        cluster.resource.status.provisioning_state = ProvisioningState::Deleting;
        change.cluster_replace(&cluster).unwrap().operation_create(&new).unwrap();
        change.commit().await.unwrap();
        new
    }

    pub(crate) async fn put_node_pool(&self, cluster: &str, name: &str) -> Operation {
        let id = cluster_id(cluster).child("nodePools", name);
        let body =
            json!({"properties": {"platform": {"vmSize": "Standard_D8s_v3"}, "replicas": 2}}).to_string();
        let target = Target { id: id.clone(), location: "here".to_owned(), existing: None };
        let parent = hub_cluster(cluster_id(cluster));
        let pool = Version::V20240610Preview.node_pool_put(body.as_bytes(), &target, &parent).unwrap();
        let request = json!({"id": name, "replicas": 2, "version": {"id": "openshift-v4.20.8"}});
        let new = operation(Request::Create, &id, Some(request));
        let mut change = self.records.change(subscription()).unwrap();
        change.node_pool_create(&NodePool::new(pool, new.id)).unwrap().operation_create(&new).unwrap();
        change.commit().await.unwrap();
        new
    }

    /// What the frontend stores for a PUT with another number of nodes.
    pub(crate) async fn scale_node_pool(&self, cluster: &str, name: &str, replicas: i32) -> Operation {
        let id = cluster_id(cluster).child("nodePools", name);
        let mut new = operation(Request::Update, &id, None);
        let properties = json!({(properties::OPERATION_ID): new.id.to_string()});
        new.clusters_service_request = Some(json!({"replicas": replicas, "properties": properties}));
        let mut pool = self.records.node_pool_get(&id).await.unwrap().unwrap();
        pool.active_operation = Some(new.id);
        pool.resource.spec.replicas = replicas;
        pool.resource.status.provisioning_state = ProvisioningState::Accepted;
        let mut change = self.records.change(subscription()).unwrap();
        change.node_pool_replace(&pool).unwrap().operation_create(&new).unwrap();
        change.commit().await.unwrap();
        new
    }

    pub(crate) async fn operation(&self, operation: &Operation) -> Operation {
        self.records.operation_get(subscription(), operation.id).await.unwrap().unwrap().record
    }

    pub(crate) async fn until_state(&self, operation: &Operation, state: ProvisioningState) -> Operation {
        eventually(&format!("the operation is {state}"), PATIENCE, || async {
            let now = self.operation(operation).await;
            if now.state == state { Ok(now) } else { Err(format!("{now:?}")) }
        })
        .await
    }

    /// The only cluster, once Clusters Service and the records know each other's.
    pub(crate) async fn until_made(&self, name: &str) -> Made {
        let id = cluster_id(name);
        eventually("the cluster is made", PATIENCE, || async {
            let known = self.records.cluster_get(&id).await.unwrap().unwrap().clusters_service_id.clone();
            let made = self.clusters_service.clusters();
            made.into_iter().find(|cluster| Some(cluster.id.to_string()) == known).ok_or("not yet")
        })
        .await
    }

    pub(crate) async fn cluster(&self, name: &str) -> Option<Cluster> {
        self.records.cluster_get(&cluster_id(name)).await.unwrap().map(|stored| stored.record)
    }
}

impl Backend {
    /// Stops it in order and waits for the end.
    pub(crate) async fn stop(self) {
        self.shutdown.request(Reason::Asked("the test is over".into()));
        self.running.await.unwrap();
        self.runtime.shutdown_background();
    }

    /// Stops it where it is: nothing is finished, nothing given back.
    pub(crate) fn kill(self) {
        self.runtime.shutdown_background();
    }
}

pub(crate) fn subscription() -> SubscriptionId {
    SUBSCRIPTION.parse().unwrap()
}

pub(crate) fn cluster_id(name: &str) -> ResourceId {
    ResourceId::subscription(subscription()).resource_group("Team").provider(
        pilothouse_arm::PROVIDER,
        "hcpOpenShiftClusters",
        name,
    )
}

fn hub_cluster(id: ResourceId) -> hub::Cluster {
    let scope = id.parent().unwrap();
    let of = |provider, kind, name| scope.provider(provider, kind, name).to_string();
    let identity = of("Microsoft.ManagedIdentity", "userAssignedIdentities", "service");
    let body = json!({
        "identity": {"type": "UserAssigned", "userAssignedIdentities": {(identity.as_str()): {}}},
        "properties": {"platform": {
            "subnetId": format!("{}/subnets/s", of("Microsoft.Network", "virtualNetworks", "n")),
            "networkSecurityGroupId": of("Microsoft.Network", "networkSecurityGroups", "g"),
            "operatorsAuthentication": {"userAssignedIdentities": {
                "controlPlaneOperators": {}, "dataPlaneOperators": {}, "serviceManagedIdentity": identity}},
        }},
    });
    let target = Target { id, location: "here".to_owned(), existing: None };
    Version::V20240610Preview.cluster_put(body.to_string().as_bytes(), &target).unwrap()
}

pub(crate) fn new_cluster(id: &ResourceId) -> NewCluster {
    serde_json::from_value(json!({
        "name": id.name().to_lowercase(),
        "version": {"id": "openshift-v4.20.8", "channel_group": "stable"},
        "properties": {(properties::CORRELATION_ID): "the-correlation"},
        "azure": {"subscription_id": SUBSCRIPTION, "resource_group_name": "team",
                  "resource_name": id.name().to_lowercase(), "managed_resource_group_name": "managed"},
    }))
    .unwrap()
}

fn operation(request: Request, resource: &ResourceId, ask: Option<Value>) -> Operation {
    let now = Clock::system().now();
    Operation {
        schema: Operation::SCHEMA,
        id: OperationId::new(Uuid::new_v4()),
        location: "here".to_owned(),
        request,
        resource: resource.clone(),
        state: ProvisioningState::Accepted,
        error: None,
        started_at: now,
        changed_at: now,
        correlation_id: "the-correlation".to_owned(),
        client_request_id: None,
        tenant_id: None,
        client_id: None,
        clusters_service_request: ask,
        steps: Vec::new(),
    }
}
