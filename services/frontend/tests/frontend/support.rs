use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response as Answer};
use axum::routing::{patch, post};
use axum::{Json, Router};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method};
use pilothouse_arm::{ProvisioningState, ResourceId, SubscriptionId};
use pilothouse_clusters_service_api as clusters_service;
use pilothouse_frontend::{Config, Deps, Service};
use pilothouse_http::{Client, ClientBuilder, Listener, ListenerConfig, Metrics};
use pilothouse_records::{Records, catalog};
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use pilothouse_store::{Location, Options, Store};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use url::Url;

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const SUBSCRIPTION: &str = "0b1f6471-1bf0-4dda-aec3-cb9272f09590";
pub(crate) const VERSION: &str = "api-version=2026-10-01";

/// What Clusters Service is asked in advance, and what it answers.
#[derive(Clone, Default)]
pub(crate) struct Preflight {
    pub(crate) asked: Arc<Mutex<Vec<Value>>>,
    /// Status and wrong field of a refusal.
    pub(crate) refuse: Arc<Mutex<Option<(u16, &'static str)>>>,
}

pub(crate) struct Rig {
    pub(crate) records: Records,
    pub(crate) preflight: Preflight,
    pub(crate) base: String,
    client: Client,
    shutdown: Shutdown,
    tasks: Tasks,
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Rig {
    /// A frontend with a registered subscription.
    pub(crate) async fn new() -> Self {
        let rig = Self::unregistered().await;
        let body = json!({"state": "Registered", "registrationDate": "now", "properties": {"tenantId": "t"}});
        assert_eq!(
            rig.put(&format!("/subscriptions/{SUBSCRIPTION}?api-version=2.0"), &body).await.status,
            200
        );
        rig
    }

    pub(crate) async fn unregistered() -> Self {
        let shutdown = Shutdown::new();
        let tasks = Tasks::new("test", shutdown.clone());
        let options = Options::new(Location::memory(), catalog().unwrap(), Shutdown::new());
        let store = Store::open(options).await.unwrap();
        let preflight = Preflight::default();
        let clusters_service = serve_preflight(&preflight, &tasks).await;
        let client = ClientBuilder::new(PATIENCE).build().unwrap();
        let deps = Deps {
            store: store.clone(),
            clusters_service: clusters_service::Client::try_new(client.clone(), &clusters_service).unwrap(),
            clock: Clock::system(),
            registry: &mut Registry::default(),
        };
        let config = Config { page_size: 2, location: "here".into(), ..Config::default() };
        let service = Service::build(config, deps).await.unwrap();
        let base = format!("http://{}", service.local_address());
        let switch = shutdown.clone();
        tasks.spawn("frontend", OnExit::StopProcess, async move { Ok(service.run(switch).await?) });
        Self { records: Records::new(store), preflight, base, client, shutdown, tasks }
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Reply {
        let url = if path.starts_with("http") { path.to_owned() } else { format!("{}{path}", self.base) };
        let mut call = self.client.call(method, url.parse().unwrap());
        if let Some(body) = body {
            call = call.header(CONTENT_TYPE, "application/json; charset=utf-8").body(body.to_string());
        }
        let response = call.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await.unwrap();
        Reply { status, headers, body: serde_json::from_slice(&bytes).unwrap_or_default() }
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Reply {
        self.send(Method::PUT, path, Some(body)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.send(Method::DELETE, path, None).await
    }

    /// What the backend does when all went well.
    pub(crate) async fn succeed(&self, name: &str) {
        let id: ResourceId = cluster(name).parse().unwrap();
        let mut change = self.records.change(subscription()).unwrap();
        for mut operation in self.records.operation_active_on(&id).await.unwrap() {
            operation.enter(ProvisioningState::Succeeded, Clock::system().now());
            change.operation_replace(&operation).unwrap();
        }
        let mut stored = self.records.cluster_get(&id).await.unwrap().unwrap();
        stored.active_operation = None;
        stored.clusters_service_id = Some(format!("{:032}", 1));
        stored.resource.status.provisioning_state = ProvisioningState::Succeeded;
        for mut pool in self.records.node_pool_all(&id).await.unwrap() {
            pool.active_operation = None;
            pool.resource.status.provisioning_state = ProvisioningState::Succeeded;
            change.node_pool_replace(&pool).unwrap();
        }
        change.cluster_replace(&stored).unwrap().commit().await.unwrap();
    }

    /// Nothing is stored but subscriptions.
    pub(crate) async fn assert_nothing_stored(&self) {
        assert!(self.records.operation_active().await.unwrap().is_empty());
        assert!(self.records.cluster_list(subscription(), None, 9, None).await.unwrap().items.is_empty());
    }

    pub(crate) async fn stop(self) {
        self.shutdown.request(Reason::Asked("the test is over".into()));
        self.tasks.drain(PATIENCE).await.unwrap();
        assert_eq!(self.shutdown.reason(), Some(Reason::Asked("the test is over".into())));
    }
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub(crate) fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or_default()
    }
}

pub(crate) fn subscription() -> SubscriptionId {
    SUBSCRIPTION.parse().unwrap()
}

pub(crate) fn cluster(name: &str) -> String {
    format!(
        "/subscriptions/{SUBSCRIPTION}/resourceGroups/Team/providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters/{name}"
    )
}

pub(crate) fn cluster_url(name: &str) -> String {
    format!("{}?{VERSION}", cluster(name))
}

pub(crate) fn cluster_body() -> Value {
    let of = |provider: &str, name: &str| {
        format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/team/providers/Microsoft.{provider}/{name}")
    };
    let identity = of("ManagedIdentity", "userAssignedIdentities/service");
    json!({
        "location": "here",
        "identity": {"type": "UserAssigned", "userAssignedIdentities": {(identity.as_str()): {}}},
        "properties": {"version": {"id": "4.20"}, "platform": {
            "subnetId": of("Network", "virtualNetworks/net/subnets/nodes"),
            "vnetIntegrationSubnetId": of("Network", "virtualNetworks/net/subnets/control"),
            "networkSecurityGroupId": of("Network", "networkSecurityGroups/rules"),
            "operatorsAuthentication": {"userAssignedIdentities": {
                "controlPlaneOperators": {}, "dataPlaneOperators": {}, "serviceManagedIdentity": identity}},
        }},
    })
}

async fn serve_preflight(preflight: &Preflight, tasks: &Tasks) -> Url {
    let listener =
        Listener::bind("the stand-in", &ListenerConfig::loopback(0), &Clock::system()).await.unwrap();
    let url = format!("http://{}", listener.local_address()).parse().unwrap();
    let router = Router::new()
        .route("/api/clusters_mgmt/v1/clusters", post(asked))
        .route("/api/clusters_mgmt/v1/clusters/{id}/node_pools", post(asked))
        .route("/api/clusters_mgmt/v1/clusters/{id}/node_pools/{pool}", patch(asked))
        .with_state(preflight.clone());
    let metrics = Metrics::new(&mut Registry::default());
    let own = tasks.clone();
    tasks.spawn("stand-in", OnExit::LogError, async move { listener.serve(router, metrics, &own).await });
    url
}

async fn asked(
    State(preflight): State<Preflight>,
    Query(query): Query<Vec<(String, String)>>,
    Json(body): Json<Value>,
) -> Answer {
    assert_eq!(query, [("dryRun".to_owned(), "true".to_owned())], "the frontend only asks in advance");
    preflight.asked.lock().unwrap().push(body.clone());
    let refuse = *preflight.refuse.lock().unwrap();
    if let Some((status, target)) = refuse {
        let body = json!({"kind": "Error", "status": status, "id": status.to_string(), "href": "", "code": "X",
                          "reason": "it said no", "operation_id": "", "timestamp": "2026-01-01T00:00:00Z",
                          "details": [{"code": "Taken", "target": target, "message": "it is taken"}]});
        return (StatusCode::from_u16(status).unwrap(), Json(body)).into_response();
    }
    // The answer repeats what was asked, with what the service adds.
    let id = format!("{:032}", 1);
    let mut answer = json!({
        "kind": "x", "id": id, "href": "", "name": "x", "creation_timestamp": "2026-01-01T00:00:00Z",
        "region": {"id": "here"}, "cloud_provider": {"id": "azure"}, "product": {"id": "aro"},
        "hypershift": {"enabled": true}, "domain_prefix": "x", "dns": {"base_domain": "pilothouse.test"},
        "version": {"id": "openshift-v4.20.8"}, "network": {}, "api": {}, "azure": {}, "state": "validating",
        "status": {"state": "validating"}, "cluster_id": id, "replicas": 1, "auto_repair": true,
        "azure_node_pool": {},
    });
    if body.get("azure").is_none() {
        answer["id"] = body.get("id").cloned().unwrap_or_else(|| json!("x"));
        answer["status"] =
            json!({"state": {"value": "validating", "last_updated_timestamp": "2026-01-01T00:00:00Z"}});
    }
    Json(answer).into_response()
}
