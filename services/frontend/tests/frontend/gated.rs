//! A frontend that asks who calls, with all of its listeners.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, Method};
use pilothouse_access::{AuditConfig, Callers, LocalIssuer, LocalRole, Role, TokenRequest};
use pilothouse_clusters_service_api::simulated::{Mode, Simulated};
use pilothouse_frontend::{Admin, Config, Deps, Service};
use pilothouse_http::{Client, ClientBuilder, Health, ListenerConfig};
use pilothouse_records::Records;
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use prometheus_client::registry::Registry;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Engine, PATIENCE, Reply, SUBSCRIPTION, empty_store, subscription_url, succeed};

pub(crate) const TENANT: &str = "11111111-1111-1111-1111-111111111111";
const FOREIGN: &str = "33333333-3333-3333-3333-333333333333";
const SUPPORT: &str = "support-app";

/// Kinds of callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    /// Without a token.
    Nobody,
    /// With one that was good yesterday.
    Expired,
    /// At home in another tenant.
    Foreigner,
    /// At home in the subscription's tenant.
    User,
    /// In the role list.
    Support,
    Arm,
    Administrator,
}

impl Who {
    pub(crate) const ALL: [Self; 7] = [
        Self::Nobody,
        Self::Expired,
        Self::Foreigner,
        Self::User,
        Self::Support,
        Self::Arm,
        Self::Administrator,
    ];
}

pub(crate) struct Gated {
    pub(crate) records: Records,
    pub(crate) base: String,
    pub(crate) admin: String,
    pub(crate) authorization: Option<String>,
    pub(crate) folder: TempDir,
    issuer: LocalIssuer,
    client: Client,
    shutdown: Shutdown,
    tasks: Tasks,
    clusters_service: Simulated,
}

impl Gated {
    /// Asks for tokens of a local issuer, on every listener; the subscription is registered. None, after saying so, if
    /// the machine lacks the engine.
    pub(crate) async fn new(engine: Engine) -> Option<Self> {
        let gated = Self::start(engine, true).await?;
        let body =
            json!({"state": "Registered", "registrationDate": "now", "properties": {"tenantId": TENANT}});
        assert_eq!(gated.send(Who::Arm, Method::PUT, &subscription_url(), Some(&body)).await.status, 200);
        Some(gated)
    }

    /// Asks nobody; the subscription is registered.
    pub(crate) async fn open(engine: Engine) -> Option<Self> {
        let gated = Self::start(engine, false).await?;
        let body =
            json!({"state": "Registered", "registrationDate": "now", "properties": {"tenantId": TENANT}});
        assert_eq!(gated.send(Who::Nobody, Method::PUT, &subscription_url(), Some(&body)).await.status, 200);
        Some(gated)
    }

    async fn start(engine: Engine, asks: bool) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let issuer = LocalIssuer::open(&folder.path().join("issuer")).unwrap();
        let mut access = if asks { issuer.config() } else { Default::default() };
        if asks {
            access.roles = vec![Role {
                callers: Callers { app_ids: vec![SUPPORT.to_owned()], ..Callers::default() },
                subscriptions: vec![SUBSCRIPTION.parse().unwrap()],
                all_subscriptions: false,
            }];
        }
        let store = empty_store(engine, &folder).await?;
        let clusters_service = Simulated::start(Mode::Automatic).await;
        let deps = Deps {
            store: store.clone(),
            clusters_service: clusters_service.client(),
            clock: Clock::system(),
            health: Health::new(Shutdown::new()),
            registry: &mut Registry::default(),
        };
        let config = Config {
            location: "here".into(),
            operator_identities_required: false,
            audit: AuditConfig { file: Some(folder.path().join("audit.log")), ..AuditConfig::default() },
            admin: Some(Admin { listener: ListenerConfig::loopback(0), access: access.clone() }),
            authorization: asks.then(|| ListenerConfig::loopback(0)),
            access,
            ..Config::default()
        };
        let service = Service::build(config, deps).await.unwrap();
        let url = |address| format!("http://{address}");
        let base = url(service.local_address());
        let admin = url(service.admin_address().unwrap());
        let authorization = service.authorization_address().map(url);
        let shutdown = Shutdown::new();
        let tasks = Tasks::new("test", shutdown.clone());
        let switch = shutdown.clone();
        tasks.spawn("frontend", OnExit::StopProcess, async move { Ok(service.run(switch).await?) });
        let client = ClientBuilder::new(PATIENCE).build().unwrap();
        Some(Self {
            records: Records::new(store),
            base,
            admin,
            authorization,
            folder,
            issuer,
            client,
            shutdown,
            tasks,
            clusters_service,
        })
    }

    pub(crate) fn token(&self, who: Who) -> Option<String> {
        let (tenant, app_id, role) = match who {
            Who::Nobody => return None,
            Who::Expired | Who::User => (TENANT, None, None),
            Who::Foreigner => (FOREIGN, None, None),
            Who::Support => (FOREIGN, Some(SUPPORT.to_owned()), None),
            Who::Arm => (FOREIGN, None, Some(LocalRole::Arm)),
            Who::Administrator => (FOREIGN, None, Some(LocalRole::Administrator)),
        };
        let mut now = Clock::system().now();
        if who == Who::Expired {
            now = now.saturating_sub(jiff::SignedDuration::from_hours(48)).unwrap();
        }
        let request = TokenRequest {
            name: Some(format!("{who:?}").to_lowercase()),
            tenant: Some(tenant.parse().unwrap()),
            app_id,
            role,
            lifetime: Duration::from_secs(3600),
        };
        Some(self.issuer.issue(&request, now).unwrap().expose_secret().to_owned())
    }

    pub(crate) async fn send(&self, who: Who, method: Method, path: &str, body: Option<&Value>) -> Reply {
        self.send_with(who, method, path, body, &[]).await
    }

    pub(crate) async fn send_with(
        &self,
        who: Who,
        method: Method,
        path: &str,
        body: Option<&Value>,
        headers: &[(&'static str, &str)],
    ) -> Reply {
        let url = if path.starts_with("http") { path.to_owned() } else { format!("{}{path}", self.base) };
        let mut call = self.client.call(method, url.parse().unwrap());
        if let Some(token) = self.token(who) {
            call = call.bearer(&token);
        }
        for (name, value) in headers {
            call = call.header(HeaderName::from_static(name), value);
        }
        if let Some(body) = body {
            call = call.json(body);
        }
        let response = call.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = String::from_utf8(response.bytes().await.unwrap().to_vec()).unwrap();
        Reply { status, headers, body: serde_json::from_str(&text).unwrap_or_default(), text }
    }

    /// What the backend does when all goes well: everything that is under way on a cluster is carried out.
    pub(crate) async fn succeed(&self, name: &str) {
        succeed(&self.records, &self.clusters_service, name).await;
    }

    /// On the administrators' surface.
    pub(crate) async fn administer(&self, method: Method, path: &str, body: Option<Value>) -> Reply {
        self.send(Who::Administrator, method, &format!("{}{path}", self.admin), body.as_ref()).await
    }

    pub(crate) fn audit_file(&self) -> PathBuf {
        self.folder.path().join("audit.log")
    }

    /// Stops it, and gives back what it recorded.
    pub(crate) async fn stop(self) -> Vec<Value> {
        self.shutdown.request(Reason::Asked("the test is over".into()));
        self.tasks.drain(PATIENCE).await.unwrap();
        assert_eq!(self.shutdown.reason(), Some(Reason::Asked("the test is over".into())));
        let text = std::fs::read_to_string(self.audit_file()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}
