//! A store, a simulated Clusters Service, backends that can be killed, and what a frontend would store.

use std::time::Duration;

use pilothouse_api::{Rules, Target, Version, hub};
use pilothouse_arm::{OperationId, ProvisioningState, ResourceId, SubscriptionId, SystemData};
use pilothouse_backend::{Config, Deps, Service};
use pilothouse_clusters_service_api::simulated::{Mode, Simulated};
use pilothouse_clusters_service_api::{Cluster as Made, NewCluster, properties};
use pilothouse_http::Health;
use pilothouse_records::{Cluster, ExternalAuth, NodePool, Operation, Records, Request, Stored, catalog};
use pilothouse_runtime::{Clock, Reason, Shutdown};
use pilothouse_store::{Location, Options, Store};
pub(crate) use pilothouse_test_support::Engine;
use pilothouse_test_support::eventually;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

/// Far beyond anything that works; a test that reaches it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Whose clusters they are unless said otherwise.
pub(crate) const SUBSCRIPTION: u128 = 0x0b1f_6471_1bf0_4dda_aec3_cb92_72f0_9590;

pub(crate) struct Rig {
    pub(crate) store: Store,
    pub(crate) records: Records,
    pub(crate) service: Simulated,
    pub(crate) clock: Clock,
    location: Location,
    engine: Engine,
    _folder: TempDir,
}

/// A backend in a runtime of its own, so that it can be killed: everything it does stops where it is.
pub(crate) struct Backend {
    runtime: tokio::runtime::Runtime,
    running: tokio::task::JoinHandle<()>,
    shutdown: Shutdown,
    registry: Registry,
}

impl Rig {
    /// None, after saying so, if the machine lacks the engine.
    pub(crate) async fn new(engine: Engine, mode: Mode) -> Option<Self> {
        Self::with_clock(engine, mode, Clock::system()).await
    }

    pub(crate) async fn with_clock(engine: Engine, mode: Mode, clock: Clock) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let location = engine.location(folder.path())?.parse().unwrap();
        let store = open(&location).await;
        let (records, service) = (Records::new(store.clone()), Simulated::start(mode).await);
        Some(Self { store, records, service, clock, location, engine, _folder: folder })
    }

    pub(crate) fn config() -> Config {
        // However slow the machine is, nothing is taken over from a backend that lives: it would be asked for again. What a
        // still clock hides is soon seen.
        let (lease, resync) = ("600s".parse().unwrap(), "200ms".parse().unwrap());
        Config { lease, resync, ..Config::default() }
    }

    pub(crate) async fn backend(&self) -> Backend {
        self.backend_with(Self::config()).await
    }

    /// One that is to be killed: what it held is soon free.
    pub(crate) async fn mortal(&self) -> Backend {
        self.backend_with(Config { lease: "3s".parse().unwrap(), ..Self::config() }).await
    }

    pub(crate) async fn backend_with(&self, config: Config) -> Backend {
        let shutdown = Shutdown::new();
        let mut registry = Registry::default();
        let store = match self.engine {
            // One process has the file.
            Engine::Sqlite => self.store.clone(),
            Engine::Postgres => open(&self.location).await,
        };
        let deps = Deps {
            store,
            clusters_service: self.service.client(),
            clock: self.clock.clone(),
            health: Health::new(shutdown.clone()),
            registry: &mut registry,
        };
        let service = Service::build(config, deps).await.unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let switch = shutdown.clone();
        let running = runtime.spawn(async move { service.run(switch).await.unwrap() });
        Backend { runtime, running, shutdown, registry }
    }

    /// What the frontend stores for a PUT.
    pub(crate) async fn put_cluster(&self, name: &str) -> Operation {
        self.put_cluster_of(subscription(), name).await
    }

    pub(crate) async fn put_cluster_of(&self, subscription: SubscriptionId, name: &str) -> Operation {
        let id = cluster_id_of(subscription, name);
        let new = self.operation(Request::Create, &id, Some(json!(new_cluster(&id))));
        let cluster = Cluster::new(hub_cluster(id), new.id);
        let mut change = self.records.change(subscription).unwrap();
        change.cluster_create(&cluster).unwrap().operation_create(&new).unwrap();
        change.commit().await.unwrap();
        new
    }

    /// What the frontend stores for a PATCH.
    pub(crate) async fn patch_cluster(&self, name: &str, update: Value) -> Operation {
        let mut cluster = self.stored_cluster(name).await;
        let new = self.operation(Request::Update, &cluster.resource.id, Some(update));
        cluster.active_operation = Some(new.id);
        cluster.resource.status.provisioning_state = ProvisioningState::Accepted;
        let mut change = self.records.change(subscription()).unwrap();
        change.cluster_replace(&cluster).unwrap().operation_create(&new).unwrap();
        change.commit().await.unwrap();
        new
    }

    /// What the frontend stores for a DELETE.
    pub(crate) async fn delete_cluster(&self, name: &str) -> Operation {
        let id = cluster_id(name);
        let new = self.operation(Request::Delete, &id, None);
        let mut change = self.records.change(subscription()).unwrap();
        for mut other in self.records.operation_active_on(&id).await.unwrap() {
            other.cancel("deletion was requested", self.clock.now());
            change.operation_replace(&other).unwrap();
        }
        let mut cluster = self.stored_cluster(name).await;
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
        let target =
            Target { id: id.clone(), location: "here".to_owned(), existing: None, rules: Rules::default() };
        let parent = hub_cluster(cluster_id(cluster));
        let pool = Version::V20240610Preview.node_pool_put(body.as_bytes(), &target, &parent).unwrap();
        let request =
            json!({"id": name.to_ascii_lowercase(), "replicas": 2, "version": {"id": "openshift-v4.20.8"}});
        let new = self.operation(Request::Create, &id, Some(request));
        let mut change = self.records.change(subscription()).unwrap();
        change.node_pool_create(&NodePool::new(pool, new.id)).unwrap().operation_create(&new).unwrap();
        change.commit().await.unwrap();
        new
    }

    /// What the frontend stores for a PUT or PATCH of a node pool, or for its DELETE.
    pub(crate) async fn change_node_pool(
        &self,
        cluster: &str,
        name: &str,
        request: Request,
        ask: Option<Value>,
    ) -> Operation {
        let id = cluster_id(cluster).child("nodePools", name);
        let new = self.operation(request, &id, ask);
        let mut pool = self.records.node_pool_get(&id).await.unwrap().unwrap();
        pool.active_operation = Some(new.id);
        pool.resource.status.provisioning_state = new.state;
        let mut change = self.records.change(subscription()).unwrap();
        change.node_pool_replace(&pool).unwrap().operation_create(&new).unwrap();
        change.commit().await.unwrap();
        new
    }

    pub(crate) async fn put_external_auth(&self, cluster: &str, name: &str) -> Operation {
        let id = cluster_id(cluster).child("externalAuths", name);
        let spec = hub::ExternalAuthSpec {
            issuer: hub::TokenIssuer {
                url: "https://issuer.test".to_owned(),
                audiences: vec!["clusters".to_owned()],
                ca: None,
            },
            clients: Vec::new(),
            claims: hub::Claims {
                username: hub::UsernameClaim {
                    claim: "email".to_owned(),
                    prefix_policy: hub::PrefixPolicy::NoPrefix,
                    prefix: None,
                },
                groups: None,
                validation_rules: Vec::new(),
            },
        };
        let status = hub::ExternalAuthStatus {
            provisioning_state: ProvisioningState::Accepted,
            conditions: Vec::new(),
        };
        let system_data = SystemData::default();
        let resource = hub::ExternalAuth { id: id.clone(), system_data, spec, status };
        let ask = json!({"id": name.to_ascii_lowercase(), "issuer": {"url": "https://issuer.test", "audiences": ["clusters"]},
                         "claim": {"mappings": {"username": {"claim": "email", "prefix_policy": "NoPrefix"}}}});
        let new = self.operation(Request::Create, &id, Some(ask));
        let mut change = self.records.change(subscription()).unwrap();
        change.external_auth_create(&ExternalAuth::new(resource, new.id)).unwrap();
        change.operation_create(&new).unwrap().commit().await.unwrap();
        new
    }

    pub(crate) async fn change_external_auth(
        &self,
        cluster: &str,
        name: &str,
        request: Request,
        ask: Option<Value>,
    ) -> Operation {
        let id = cluster_id(cluster).child("externalAuths", name);
        let new = self.operation(request, &id, ask);
        let mut external_auth = self.records.external_auth_get(&id).await.unwrap().unwrap();
        external_auth.active_operation = Some(new.id);
        external_auth.resource.status.provisioning_state = new.state;
        let mut change = self.records.change(subscription()).unwrap();
        change.external_auth_replace(&external_auth).unwrap().operation_create(&new).unwrap();
        change.commit().await.unwrap();
        new
    }

    /// A cluster that is there and ready, made by an automatic service.
    pub(crate) async fn ready_cluster(&self, name: &str) -> Made {
        self.service.set_mode(Mode::Automatic);
        let made_by = self.put_cluster(name).await;
        self.until_state(&made_by, ProvisioningState::Succeeded).await;
        self.until_made(name).await
    }

    /// An operation as it is when it has just been stored.
    pub(crate) fn operation(
        &self,
        request: Request,
        resource: &ResourceId,
        mut ask: Option<Value>,
    ) -> Operation {
        let id = OperationId::new(Uuid::new_v4());
        if let Some(ask) = &mut ask {
            ask["properties"][properties::OPERATION_ID] = json!(id.to_string());
        }
        Operation {
            clusters_service_request: ask,
            correlation_id: "the-correlation".to_owned(),
            ..Operation::new(id, request, resource.clone(), "here", self.clock.now())
        }
    }

    pub(crate) async fn store_operation(&self, operation: &Operation) {
        let subscription = operation.resource.subscription_id().unwrap();
        let mut change = self.records.change(subscription).unwrap();
        change.operation_create(operation).unwrap().commit().await.unwrap();
    }

    pub(crate) async fn stored(&self, operation: &Operation) -> Stored<Operation> {
        let subscription = operation.resource.subscription_id().unwrap();
        self.records.operation_get(subscription, operation.id).await.unwrap().unwrap()
    }

    /// Changes an operation the way an administrator does.
    pub(crate) async fn alter(&self, operation: &Operation, alter: impl Fn(&mut Operation)) {
        loop {
            let mut stored = self.stored(operation).await;
            alter(&mut stored);
            let mut change = self.records.change(subscription()).unwrap();
            match change.operation_replace(&stored).unwrap().commit().await {
                Ok(_) => return,
                Err(pilothouse_records::Error::Conflict(_)) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    /// Changes a cluster the way an administrator does.
    pub(crate) async fn alter_cluster(&self, name: &str, alter: impl Fn(&mut Cluster)) {
        loop {
            let mut stored = self.stored_cluster(name).await;
            alter(&mut stored);
            let mut change = self.records.change(subscription()).unwrap();
            match change.cluster_replace(&stored).unwrap().commit().await {
                Ok(_) => return,
                Err(pilothouse_records::Error::Conflict(_)) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    pub(crate) async fn until(
        &self,
        what: &str,
        operation: &Operation,
        holds: impl Fn(&Operation) -> bool,
    ) -> Operation {
        eventually(what, PATIENCE, || async {
            let now = self.stored(operation).await.record;
            if holds(&now) { Ok(now) } else { Err(format!("{now:?}")) }
        })
        .await
    }

    pub(crate) async fn until_state(&self, operation: &Operation, state: ProvisioningState) -> Operation {
        self.until(&format!("the operation is {state}"), operation, |now| now.state == state).await
    }

    /// A cluster, once Clusters Service and the records know each other's.
    pub(crate) async fn until_made(&self, name: &str) -> Made {
        eventually("the cluster is made", PATIENCE, || async {
            let known = self.stored_cluster(name).await.clusters_service_id.clone();
            let made = self.service.clusters();
            made.into_iter().find(|cluster| Some(cluster.id.to_string()) == known).ok_or("not yet")
        })
        .await
    }

    pub(crate) async fn stored_cluster(&self, name: &str) -> Stored<Cluster> {
        self.records.cluster_get(&cluster_id(name)).await.unwrap().unwrap()
    }

    pub(crate) async fn is_gone(&self, name: &str) -> bool {
        self.records.cluster_get(&cluster_id(name)).await.unwrap().is_none()
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

    pub(crate) fn numbers(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }
}

async fn open(location: &Location) -> Store {
    let options = Options::new(location.clone(), catalog().unwrap(), Shutdown::new());
    Store::open(options).await.unwrap()
}

pub(crate) fn subscription() -> SubscriptionId {
    numbered(SUBSCRIPTION)
}

pub(crate) fn numbered(number: u128) -> SubscriptionId {
    Uuid::from_u128(number).to_string().parse().unwrap()
}

pub(crate) fn cluster_id(name: &str) -> ResourceId {
    cluster_id_of(subscription(), name)
}

pub(crate) fn cluster_id_of(subscription: SubscriptionId, name: &str) -> ResourceId {
    ResourceId::subscription(subscription).resource_group("Team").provider(
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
    let target = Target { id, location: "here".to_owned(), existing: None, rules: Rules::default() };
    Version::V20240610Preview.cluster_put(body.to_string().as_bytes(), &target).unwrap()
}

pub(crate) fn new_cluster(id: &ResourceId) -> NewCluster {
    serde_json::from_value(json!({
        "name": id.name().to_lowercase(),
        "version": {"id": "openshift-v4.20.8", "channel_group": "stable"},
        "properties": {(properties::CORRELATION_ID): "the-correlation"},
        "azure": {"subscription_id": id.subscription_name(), "resource_group_name": "team",
                  "resource_name": id.name().to_lowercase(), "managed_resource_group_name": "managed"},
    }))
    .unwrap()
}
