//! A resource provider under test: frontend, backend and their store, with a simulated Clusters Service.

use std::process::{Command, Stdio};
use std::time::Duration;

use http::{HeaderMap, HeaderName, Method};
use pilothouse_clusters_service_api::simulated::{Mode, Simulated};
use pilothouse_http::{Client, ClientBuilder, Health};
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use pilothouse_store::{Options, Revision, Store};
pub(crate) use pilothouse_test_support::Engine;
use pilothouse_test_support::eventually;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bodies::{LOCATION, SUBSCRIPTION};

/// Generous: the machine may be busy with other tests.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);
/// A program in Python, which makes many calls.
const PROGRAM_LIMIT: Duration = Duration::from_secs(600);

/// Subscriptions in every state, beside the one that is registered.
pub(crate) const UNKNOWN: &str = "00000000-0000-0000-0000-00000000000a";
pub(crate) const UNREGISTERED: &str = "00000000-0000-0000-0000-00000000000b";
pub(crate) const WARNED: &str = "00000000-0000-0000-0000-00000000000c";
pub(crate) const SUSPENDED: &str = "00000000-0000-0000-0000-00000000000d";
pub(crate) const DELETED: &str = "00000000-0000-0000-0000-00000000000e";

/// A resource provider with one registered subscription.
pub(crate) struct Provider {
    pub(crate) base: String,
    pub(crate) clusters_service: Simulated,
    store: Store,
    client: Client,
    shutdown: Shutdown,
    tasks: Tasks,
    _folder: TempDir,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Provider {
    /// Starts one; `None`, and said so, where there is no PostgreSQL.
    pub(crate) async fn start(engine: Engine, mode: Mode) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let location = engine.location(folder.path())?.parse().unwrap();
        let catalog = pilothouse_records::catalog().unwrap();
        let store = Store::open(Options::new(location, catalog, Shutdown::new())).await.unwrap();
        let shutdown = Shutdown::new();
        let tasks = Tasks::new("test", shutdown.clone());
        let clusters_service = Simulated::start(mode).await;

        let deps = pilothouse_backend::Deps {
            store: store.clone(),
            clusters_service: clusters_service.client(),
            clock: Clock::system(),
            health: Health::new(shutdown.clone()),
            registry: &mut Registry::default(),
        };
        let backend =
            pilothouse_backend::Service::build(pilothouse_backend::Config::default(), deps).await.unwrap();
        let switch = shutdown.clone();
        tasks.spawn("backend", OnExit::StopProcess, async move { Ok(backend.run(switch).await?) });

        let deps = pilothouse_frontend::Deps {
            store: store.clone(),
            clusters_service: clusters_service.client(),
            clock: Clock::system(),
            health: Health::new(shutdown.clone()),
            registry: &mut Registry::default(),
        };
        let config = pilothouse_frontend::Config {
            location: LOCATION.to_owned(),
            ..pilothouse_frontend::Config::default()
        };
        let frontend = pilothouse_frontend::Service::build(config, deps).await.unwrap();
        let base = format!("http://{}", frontend.local_address());
        let switch = shutdown.clone();
        tasks.spawn("frontend", OnExit::StopProcess, async move { Ok(frontend.run(switch).await?) });

        let client = ClientBuilder::new(LIMIT).build().unwrap();
        let provider = Self { base, clusters_service, store, client, shutdown, tasks, _folder: folder };
        provider.subscription(SUBSCRIPTION, "Registered").await;
        Some(provider)
    }

    /// Tells the provider what state a subscription has, as ARM does.
    pub(crate) async fn subscription(&self, id: &str, state: &str) {
        let body = json!({
            "state": state,
            "registrationDate": "Sun, 15 Nov 2026 10:00:00 GMT",
            "properties": { "tenantId": "00000000-0000-0000-0000-0000000000ff" },
        });
        let url = format!("/subscriptions/{id}?api-version=2.0");
        let reply = self.json(Method::PUT, &url, &body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, String)],
        body: Vec<u8>,
    ) -> Reply {
        let mut call = self.client.call(method, format!("{}{path}", self.base).parse().unwrap());
        for (name, value) in headers {
            call = call.header(HeaderName::from_static(name), value);
        }
        let response = call.body(body).send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await.unwrap();
        let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() };
        Reply { status, headers, body }
    }

    pub(crate) async fn json(&self, method: Method, path: &str, body: &Value) -> Reply {
        let headers = [("content-type", "application/json".to_owned())];
        self.send(method, path, &headers, body.to_string().into_bytes()).await
    }

    pub(crate) async fn get(&self, id: &str) -> Reply {
        self.send(Method::GET, &versioned(id), &[], Vec::new()).await
    }

    /// PUTs a resource that has to be accepted.
    pub(crate) async fn make(&self, id: &str, body: &Value) {
        let reply = self.json(Method::PUT, &versioned(id), body).await;
        assert_eq!(reply.status, 201, "{reply:?}");
    }

    /// Waits until a resource has this state.
    pub(crate) async fn reaches(&self, id: &str, state: &str) {
        eventually(&format!("{id} is {state}"), LIMIT, || async {
            let reply = self.get(id).await;
            match reply.body["properties"]["provisioningState"] == state {
                true => Ok(()),
                false => Err(format!("{reply:?}")),
            }
        })
        .await;
    }

    /// Makes a resource, and waits until it is there.
    pub(crate) async fn made(&self, id: &str, body: &Value) {
        self.make(id, body).await;
        self.reaches(id, "Succeeded").await;
    }

    /// Counts everything that was ever written.
    pub(crate) async fn revision(&self) -> Revision {
        self.store.revision().await.unwrap()
    }

    /// Runs a program that has to end well.
    pub(crate) async fn run(&self, mut command: Command) {
        let program = format!("{command:?}");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut command = tokio::process::Command::from(command);
        let output = tokio::time::timeout(PROGRAM_LIMIT, command.kill_on_drop(true).output())
            .await
            .unwrap_or_else(|_| panic!("not within {PROGRAM_LIMIT:?}: {program}"))
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{program} ended with {}:\n{said}", output.status);
    }

    pub(crate) async fn stop(self) {
        let reason = Reason::Asked("the test is over".to_owned());
        self.shutdown.request(reason.clone());
        self.tasks.drain(LIMIT).await.unwrap();
        assert_eq!(self.shutdown.reason(), Some(reason));
    }
}

pub(crate) fn versioned(id: &str) -> String {
    format!("{id}?api-version=2026-10-01")
}
