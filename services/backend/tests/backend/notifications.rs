use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use jiff::Timestamp;
use pilothouse_arm::ProvisioningState::Succeeded;
use pilothouse_backend::{Config, Notifications};
use pilothouse_clusters_service_api::simulated::Mode;
use pilothouse_http::{Listener, ListenerConfig, Metrics, Stack, TlsFiles};
use pilothouse_pki::{Authority, AuthorityRequest, Bundle, LeafRequest, Subject};
use pilothouse_records::{Notification, Operation, Request};
use pilothouse_runtime::{Clock, OnExit, Shutdown, Tasks};
use pilothouse_test_support::eventually;
use prometheus_client::registry::Registry;
use rstest::rstest;
use serde_json::Value;
use tempfile::TempDir;

use crate::rig::{Engine, PATIENCE, Rig, cluster_id};

/// Somebody who wants to hear of ends, over TLS.
struct Ear {
    heard: Arc<Heard>,
    port: u16,
    folder: TempDir,
    _tasks: Tasks,
}

#[derive(Default)]
struct Heard {
    told: Mutex<Vec<Value>>,
    /// What is answered first; 202 once there is no more.
    answers: Mutex<VecDeque<u16>>,
}

async fn hear(State(heard): State<Arc<Heard>>, Json(told): Json<Value>) -> StatusCode {
    heard.told.lock().unwrap().push(told);
    let answer = heard.answers.lock().unwrap().pop_front().unwrap_or(202);
    StatusCode::from_u16(answer).unwrap()
}

impl Ear {
    async fn new(answers: &[u16]) -> Self {
        let clock = Clock::system();
        let folder = tempfile::tempdir().unwrap();
        let subject = Subject::try_new("test authority").unwrap();
        let authority = Authority::self_signed(&AuthorityRequest::new(subject), &clock).unwrap();
        let names = ["localhost", "127.0.0.1"].map(|name| name.parse().unwrap());
        let request = LeafRequest::server(Subject::try_new("ear").unwrap(), names);
        let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        authority.issue(&request, &clock).unwrap().write(&certificate, &key).unwrap();
        Bundle::from(authority.certificate()).write(&folder.path().join("ca.crt")).unwrap();
        let tls = Some(TlsFiles { certificate, key, client_authorities: None });
        let config = ListenerConfig { tls, ..ListenerConfig::loopback(0) };
        let listener = Listener::bind("the ear", &config, &clock).await.unwrap();
        let port = listener.local_address().port();
        let heard =
            Arc::new(Heard { answers: Mutex::new(answers.iter().copied().collect()), ..Heard::default() });
        let metrics = Metrics::new(&mut Registry::default());
        let app = Router::new().route("/told", post(hear)).with_state(heard.clone());
        let app = Stack::new(metrics.clone()).around(app);
        let tasks = Tasks::new("ear", Shutdown::new());
        let own = tasks.clone();
        tasks.spawn("listen", OnExit::StopProcess, async move { listener.serve(app, metrics, &own).await });
        Self { heard, port, folder, _tasks: tasks }
    }

    fn uri(&self) -> String {
        format!("https://localhost:{}/told", self.port)
    }

    fn config(&self, allow_private_addresses: bool) -> Config {
        let authorities = Some(self.folder.path().join("ca.crt"));
        let notifications =
            Notifications { allow_private_addresses, authorities, ..Notifications::default() };
        Config { notifications, ..Rig::config() }
    }

    fn told(&self) -> Vec<Value> {
        self.heard.told.lock().unwrap().clone()
    }
}

/// An operation that ended, and whose end somebody wants to hear of.
async fn ended(rig: &Rig, uri: String) -> Operation {
    let mut operation = rig.operation(Request::Delete, &cluster_id("First"), None);
    operation.enter(Succeeded, rig.clock.now());
    operation.notification = Some(Notification::new(uri));
    rig.store_operation(&operation).await;
    operation
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn an_end_is_told_until_it_is_taken(#[values(Engine::Sqlite, Engine::Postgres)] engine: Engine) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    let ear = Ear::new(&[500, 404]).await;
    // Two of them, of which one tells.
    let backends = [rig.backend_with(ear.config(true)).await, rig.backend_with(ear.config(true)).await];
    let operation = ended(&rig, ear.uri()).await;
    let told = rig
        .until("it is told", &operation, |now| now.notification.as_ref().unwrap().delivered_at.is_some())
        .await;
    let notification = told.notification.clone().unwrap();
    assert_eq!((notification.attempts, notification.last_error, notification.given_up), (3, None, false));
    let heard = ear.told();
    assert_eq!(heard.len(), 3);
    assert_eq!(heard[2]["status"], "Succeeded");
    assert_eq!(heard[2]["name"], operation.id.to_string());
    assert!(rig.records.operation_awaiting_notification().await.unwrap().is_empty());
    for backend in backends {
        backend.stop().await;
    }
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_told_before_a_restart_is_told_after_it(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let Some(rig) = Rig::new(engine, Mode::Automatic).await else { return };
    let ear = Ear::new(&[]).await;
    let operation = ended(&rig, ear.uri()).await;
    let backend = rig.backend_with(ear.config(true)).await;
    rig.until("it is told", &operation, |now| now.notification.as_ref().unwrap().delivered_at.is_some())
        .await;
    assert_eq!(ear.told().len(), 1);
    backend.stop().await;
}

#[rstest]
#[tokio::test(flavor = "multi_thread")]
async fn nobody_on_this_machine_is_told_unless_that_is_allowed_and_nothing_else_waits(
    #[values(Engine::Sqlite, Engine::Postgres)] engine: Engine,
) {
    let (clock, time) = Clock::manual("2026-11-15T00:00:00Z".parse::<Timestamp>().unwrap());
    let Some(rig) = Rig::with_clock(engine, Mode::Automatic, clock).await else { return };
    let ear = Ear::new(&[]).await;
    let backend = rig.backend_with(ear.config(false)).await;
    let port = ear.port;
    let by_name = ended(&rig, ear.uri()).await;
    let by_address = ended(&rig, format!("https://127.0.0.1:{port}/told")).await;
    let in_clear = ended(&rig, format!("http://localhost:{port}/told")).await;
    for operation in [&by_name, &by_address, &in_clear] {
        let refused = rig
            .until("it is refused", operation, |now| now.notification.as_ref().unwrap().last_error.is_some())
            .await;
        assert!(refused.notification.unwrap().delivered_at.is_none());
    }
    let error = rig.stored(&by_name).await.notification.clone().unwrap().last_error.unwrap();
    assert!(error.contains("leads to no address outside of this network"), "{error}");
    let other = rig.put_cluster("First").await;
    rig.until_state(&other, Succeeded).await;

    time.advance(Duration::from_secs(25 * 60 * 60));
    let given_up =
        rig.until("it is given up", &by_name, |now| now.notification.as_ref().unwrap().given_up).await;
    assert!(given_up.notification.unwrap().last_error.is_some());
    assert!(ear.told().is_empty());
    eventually("nothing is to be told any more", PATIENCE, || async {
        let left = rig.records.operation_awaiting_notification().await.unwrap().len();
        if left == 0 { Ok(()) } else { Err(left) }
    })
    .await;
    backend.stop().await;
}
