use std::collections::BTreeMap;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, Method};
use pilothouse_arm::{ProvisioningState, ResourceId, SubscriptionId};
use pilothouse_clusters_service_api::simulated::{Call, Mode, Simulated};
use pilothouse_clusters_service_api::{ClusterId, NewBreakGlassCredential, NewNodePool, NodePoolUpdate};
use pilothouse_frontend::{Config, Deps, Notifications, Service};
use pilothouse_http::{Client, ClientBuilder, Context, Health};
use pilothouse_records::{Operation, Records, Request, Stored, catalog};
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use pilothouse_store::{Options, Store};
pub(crate) use pilothouse_test_support::Engine;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const SUBSCRIPTION: &str = "0b1f6471-1bf0-4dda-aec3-cb9272f09590";
pub(crate) const VERSION: &str = "api-version=2026-10-01";

/// A frontend over an empty store, with a simulated Clusters Service; the test is the backend.
pub(crate) struct Rig {
    pub(crate) records: Records,
    pub(crate) clusters_service: Simulated,
    pub(crate) base: String,
    client: Client,
    shutdown: Shutdown,
    tasks: Tasks,
    /// Of the store, if it is a file.
    folder: TempDir,
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    pub(crate) text: String,
}

impl Rig {
    /// A frontend with a registered subscription. None, after saying so, if the machine lacks the engine.
    pub(crate) async fn new(engine: Engine) -> Option<Self> {
        let rig = Self::unregistered(engine).await?;
        let body = json!({"state": "Registered", "registrationDate": "now", "properties": {"tenantId": "t"}});
        assert_eq!(rig.put(&subscription_url(), &body).await.status, 200);
        Some(rig)
    }

    pub(crate) async fn unregistered(engine: Engine) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let store = empty_store(engine, &folder).await?;
        Some(Self::over(store, folder).await)
    }

    async fn over(store: Store, folder: TempDir) -> Self {
        let shutdown = Shutdown::new();
        let tasks = Tasks::new("test", shutdown.clone());
        let clusters_service = Simulated::start(Mode::Automatic).await;
        let deps = Deps {
            store: store.clone(),
            clusters_service: clusters_service.client(),
            clock: Clock::system(),
            health: Health::new(Shutdown::new()),
            registry: &mut Registry::default(),
        };
        let config = Config {
            page_size: 2,
            location: "here".into(),
            operator_identities_required: false,
            identity_url: Some("https://identity.local/".into()),
            notifications: Notifications {
                host_suffixes: vec![".arm.test".into()],
                ..Notifications::default()
            },
            ..Config::default()
        };
        let service = Service::build(config, deps).await.unwrap();
        let base = format!("http://{}", service.local_address());
        let switch = shutdown.clone();
        tasks.spawn("frontend", OnExit::StopProcess, async move { Ok(service.run(switch).await?) });
        // Shorter than what the frontend asks for when it cannot answer, which would be waited for otherwise.
        let client = ClientBuilder::new(PATIENCE / 2).build().unwrap();
        let records = Records::new(store);
        Self { records, clusters_service, base, client, shutdown, tasks, folder }
    }

    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: Option<Vec<u8>>,
    ) -> Reply {
        let url = if path.starts_with("http") { path.to_owned() } else { format!("{}{path}", self.base) };
        let mut call = self.client.call(method, url.parse().unwrap());
        for (name, value) in headers {
            call = call.header(HeaderName::from_static(name), value);
        }
        if let Some(body) = body {
            call = call.body(body);
        }
        let response = call.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Reply { status, headers, body: serde_json::from_str(&text).unwrap_or_default(), text }
    }

    /// A request with headers, and a body that says it is JSON.
    pub(crate) async fn send_with(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: Option<&Value>,
    ) -> Reply {
        let mut headers = headers.to_vec();
        if body.is_some() {
            headers.push((CONTENT_TYPE.as_str(), "application/json; charset=utf-8"));
        }
        let headers: Vec<_> = headers.into_iter().map(|(name, value)| (leaked(name), value)).collect();
        self.call(method, path, &headers, body.map(|body| body.to_string().into_bytes())).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Reply {
        self.send_with(method, path, &[], body).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Reply {
        self.send(Method::PUT, path, Some(body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Reply {
        self.send(Method::PATCH, path, Some(body)).await
    }

    pub(crate) async fn post(&self, path: &str) -> Reply {
        self.send(Method::POST, path, None).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, None).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.send(Method::DELETE, path, None).await
    }

    /// A cluster that was made and is ready.
    pub(crate) async fn made(&self, name: &str) -> String {
        let created = self.put(&cluster_url(name), &cluster_body(name)).await;
        assert_eq!(created.status, 201, "{}", created.text);
        self.succeed(name).await;
        cluster(name)
    }

    /// What the backend does when all goes well: everything that is under way on a cluster is carried out.
    pub(crate) async fn succeed(&self, name: &str) {
        succeed(&self.records, &self.clusters_service, name).await;
    }

    /// Puts a cluster into a state, whatever led there.
    pub(crate) async fn set_state(&self, name: &str, state: ProvisioningState) {
        let mut stored = self.records.cluster_get(&cluster(name).parse().unwrap()).await.unwrap().unwrap();
        stored.resource.status.provisioning_state = state;
        stored.active_operation = None;
        let mut change = self.records.change(subscription()).unwrap();
        change.cluster_replace(&stored).unwrap().commit().await.unwrap();
    }

    /// What Clusters Service was asked in advance since the last look.
    pub(crate) fn asked(&self) -> Vec<Call> {
        self.clusters_service.calls().into_iter().filter(Call::is_preflight).collect()
    }

    /// Nothing is stored but subscriptions.
    pub(crate) async fn assert_nothing_stored(&self) {
        assert!(self.records.operation_active().await.unwrap().is_empty());
        assert!(self.records.cluster_list(subscription(), None, 9, None).await.unwrap().items.is_empty());
    }

    pub(crate) async fn stop(self) {
        self.stopped().await;
    }

    /// Stops it, lets something happen to what it stored, and starts another one over that.
    pub(crate) async fn restarted_after(self, meanwhile: impl AsyncFnOnce(&Records)) -> Self {
        let (records, folder) = self.stopped().await;
        meanwhile(&records).await;
        Self::over(records.store().clone(), folder).await
    }

    async fn stopped(self) -> (Records, TempDir) {
        self.shutdown.request(Reason::Asked("the test is over".into()));
        self.tasks.drain(PATIENCE).await.unwrap();
        assert_eq!(self.shutdown.reason(), Some(Reason::Asked("the test is over".into())));
        (self.records, self.folder)
    }
}

/// What the backend does when all goes well: everything that is under way on a cluster is carried out.
pub(crate) async fn succeed(records: &Records, clusters_service: &Simulated, name: &str) {
    let id: ResourceId = cluster(name).parse().unwrap();
    for operation in records.operation_active_on(&id).await.unwrap() {
        carry_out(records, clusters_service, operation, &id).await;
    }
}

async fn carry_out(
    records: &Records,
    clusters_service: &Simulated,
    mut operation: Stored<Operation>,
    id: &ResourceId,
) {
    let context = Context::new(PATIENCE);
    let client = clusters_service.client();
    let mut change = records.change(subscription()).unwrap();
    let mut cluster = records.cluster_get(id).await.unwrap().unwrap();
    let ask = operation.clusters_service_request.clone();
    let ask = |form: &str| ask.clone().unwrap_or_else(|| panic!("nothing is asked for: {form}"));
    let cluster_id = cluster.clusters_service_id.clone().map(|id| id.parse::<ClusterId>().unwrap());
    let succeeded = ProvisioningState::Succeeded;
    if operation.resource == *id {
        match operation.request {
            Request::Create => {
                let ask = serde_json::from_value(ask("cluster")).unwrap();
                let made = client.cluster_create(&context, &ask).await.unwrap();
                cluster.clusters_service_id = Some(made.id.to_string());
            }
            Request::RequestCredential => {
                let ask: NewBreakGlassCredential = serde_json::from_value(ask("credential")).unwrap();
                let made = client.break_glass_create(&context, &cluster_id.unwrap(), &ask).await.unwrap();
                operation.credential.as_mut().unwrap().clusters_service_id = Some(made.id.to_string());
            }
            Request::RevokeCredentials => {
                client.break_glass_revoke_all(&context, &cluster_id.unwrap()).await.unwrap();
                cluster.revocation = None;
            }
            Request::Update => {
                if let Some(ask) = operation.clusters_service_request.clone() {
                    let ask = serde_json::from_value(ask).unwrap();
                    client.cluster_update(&context, &cluster_id.unwrap(), &ask).await.unwrap();
                }
            }
            Request::Delete => panic!("nothing here deletes"),
        }
        if matches!(operation.request, Request::Create | Request::Update) {
            cluster.active_operation = None;
            cluster.resource.status.provisioning_state = succeeded;
        }
        change.cluster_replace(&cluster).unwrap();
    } else if let Some(mut pool) = records.node_pool_get(&operation.resource).await.unwrap() {
        let cluster_id = cluster_id.unwrap();
        match (operation.request, operation.clusters_service_request.clone()) {
            (Request::Create, Some(ask)) => {
                let ask: NewNodePool = serde_json::from_value(ask).unwrap();
                client.node_pool_create(&context, &cluster_id, &ask).await.unwrap();
            }
            (Request::Update, Some(ask)) => {
                let ask: NodePoolUpdate = serde_json::from_value(ask).unwrap();
                let name = operation.resource.name().to_lowercase().parse().unwrap();
                client.node_pool_update(&context, &cluster_id, &name, &ask).await.unwrap();
            }
            (Request::Update, None) => {}
            other => panic!("nothing here does {other:?}"),
        }
        pool.active_operation = None;
        pool.resource.status.provisioning_state = succeeded;
        change.node_pool_replace(&pool).unwrap();
    } else {
        let mut auth = records.external_auth_get(&operation.resource).await.unwrap().unwrap();
        let cluster_id = cluster_id.unwrap();
        match (operation.request, operation.clusters_service_request.clone()) {
            (Request::Create, Some(ask)) => {
                let ask = serde_json::from_value(ask).unwrap();
                client.external_auth_create(&context, &cluster_id, &ask).await.unwrap();
            }
            (Request::Update, Some(ask)) => {
                let ask = serde_json::from_value(ask).unwrap();
                let name = operation.resource.name().to_lowercase().parse().unwrap();
                client.external_auth_update(&context, &cluster_id, &name, &ask).await.unwrap();
            }
            (Request::Update, None) => {}
            other => panic!("nothing here does {other:?}"),
        }
        auth.active_operation = None;
        auth.resource.status.provisioning_state = succeeded;
        change.external_auth_replace(&auth).unwrap();
    }
    operation.enter(succeeded, Clock::system().now());
    change.operation_replace(&operation).unwrap().commit().await.unwrap();
}

/// None, after saying so, if the machine lacks the engine.
pub(crate) async fn empty_store(engine: Engine, folder: &TempDir) -> Option<Store> {
    let location = engine.location(folder.path())?.parse().unwrap();
    let options = Options::new(location, catalog().unwrap(), Shutdown::new());
    Some(Store::open(options).await.unwrap())
}

/// Header names in tests are few.
fn leaked(name: &str) -> &'static str {
    name.to_owned().leak()
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    pub(crate) fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or_default()
    }

    pub(crate) fn target(&self) -> &str {
        self.body["error"]["target"].as_str().unwrap_or_default()
    }

    pub(crate) fn state(&self) -> &str {
        self.body["properties"]["provisioningState"].as_str().unwrap_or_default()
    }

    /// Where the operation's result will be.
    pub(crate) fn result(&self) -> String {
        self.header("azure-asyncoperation").replace("hcpOperationStatuses", "hcpOperationResults")
    }
}

pub(crate) fn subscription() -> SubscriptionId {
    SUBSCRIPTION.parse().unwrap()
}

pub(crate) fn subscription_url() -> String {
    format!("/subscriptions/{SUBSCRIPTION}?api-version=2.0")
}

pub(crate) fn cluster(name: &str) -> String {
    format!(
        "/subscriptions/{SUBSCRIPTION}/resourceGroups/Team/providers/Microsoft.RedHatOpenShift/hcpOpenShiftClusters/{name}"
    )
}

pub(crate) fn cluster_url(name: &str) -> String {
    format!("{}?{VERSION}", cluster(name))
}

pub(crate) fn of(provider: &str, name: &str) -> String {
    format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/team/providers/Microsoft.{provider}/{name}")
}

/// A cluster with a subnet and a security group of its own.
pub(crate) fn cluster_body(name: &str) -> Value {
    let name = name.to_lowercase();
    json!({
        "location": "here",
        "properties": {"version": {"id": "4.20"}, "platform": {
            "subnetId": of("Network", &format!("virtualNetworks/net/subnets/{name}")),
            "vnetIntegrationSubnetId": of("Network", "virtualNetworks/net/subnets/control"),
            "networkSecurityGroupId": of("Network", &format!("networkSecurityGroups/{name}")),
        }},
    })
}

pub(crate) fn pool(name: &str) -> String {
    format!("{}/nodePools/{name}?{VERSION}", cluster("First"))
}

pub(crate) fn pool_body(replicas: i32) -> Value {
    json!({"properties": {"version": {"id": "4.20.8"}, "platform": {"vmSize": "Standard_D8s_v3"}, "replicas": replicas}})
}

pub(crate) fn auth(name: &str) -> String {
    format!("{}/externalAuths/{name}?{VERSION}", cluster("First"))
}

pub(crate) fn auth_body(issuer: &str) -> Value {
    json!({"properties": {
        "issuer": {"url": issuer, "audiences": ["audience"]},
        "claim": {"mappings": {"username": {"claim": "sub"}}},
    }})
}

/// The names of a list's items, page by page.
pub(crate) async fn pages(rig: &Rig, first: &str) -> Vec<Vec<String>> {
    let mut next = first.to_owned();
    let mut pages = Vec::new();
    while !next.is_empty() {
        let page = rig.get(&next).await;
        assert_eq!(page.status, 200, "{}", page.text);
        let items = page.body["value"].as_array().unwrap();
        pages.push(items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect());
        next = page.body["nextLink"].as_str().unwrap_or_default().to_owned();
    }
    pages
}

/// How many operations of each kind are under way.
pub(crate) async fn under_way(rig: &Rig) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for operation in rig.records.operation_active().await.unwrap() {
        *found.entry(format!("{:?}", operation.request)).or_default() += 1;
    }
    found
}
