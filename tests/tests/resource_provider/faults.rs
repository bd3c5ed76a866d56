//! Killed between any two writes, the work ends the same way, once.
//!
//! Frontend and backend run as processes of their own over one PostgreSQL store. A first life of a cluster and its node pool
//! tells which points each process passes for each request (`pilothouse_runtime::fault`). Then there is a life for every
//! point: in each request the process dies there, another one is started, and what comes of it is what would have come of it
//! anyway.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use http::Method;
use pilothouse_arm::{ProvisioningState, ResourceId};
use pilothouse_clusters_service_api::simulated::{Mode, Simulated};
use pilothouse_http::{Client, ClientBuilder};
use pilothouse_records::{OperationFilter, Records, Request};
use pilothouse_runtime::{Shutdown, fault};
use pilothouse_store::{Options, Store};
use pilothouse_test_support::process::{Running, free_port};
use pilothouse_test_support::{eventually, postgres};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bodies::{self, LOCATION, SUBSCRIPTION};
use crate::provider::LIMIT;

/// Which process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Frontend,
    Backend,
}

/// One request in the life of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    ClusterCreate,
    NodePoolCreate,
    ClusterUpdate,
    NodePoolUpdate,
    NodePoolDelete,
    ClusterDelete,
}

const LIFE: [Step; 6] = [
    Step::ClusterCreate,
    Step::NodePoolCreate,
    Step::ClusterUpdate,
    Step::NodePoolUpdate,
    Step::NodePoolDelete,
    Step::ClusterDelete,
];

/// A passing of a point, as the variable names it.
type Passing = String;

struct Site {
    clusters_service: Simulated,
    records: Records,
    client: Client,
    base: String,
    folder: TempDir,
}

impl Site {
    /// None, after saying so, if the machine has no PostgreSQL.
    async fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let store = format!("{}?schema=documents", postgres::shared()?.fresh_database());
        let clusters_service = Simulated::start(Mode::Automatic).await;
        let port = free_port();
        let common = format!(
            "store = {store:?}\n[clusters_service]\nurl = \"{}\"\n[metrics]\naddress = \"127.0.0.1:0\"\n[service]\n",
            clusters_service.url()
        );
        let frontend = format!("location = {LOCATION:?}\nlistener = {{ address = \"127.0.0.1:{port}\" }}\n");
        // What a killed one held is free after a moment.
        let backend = "lease = \"200ms\"\nresync = \"1s\"\n";
        fs::write(folder.path().join("frontend.toml"), format!("{common}{frontend}")).unwrap();
        fs::write(folder.path().join("backend.toml"), format!("{common}{backend}")).unwrap();
        let catalog = pilothouse_records::catalog().unwrap();
        let options = Options::new(store.parse().unwrap(), catalog, Shutdown::new());
        let records = Records::new(Store::open(options).await.unwrap());
        let client = ClientBuilder::new(Duration::from_secs(10)).build().unwrap();
        let base = format!("http://127.0.0.1:{port}");
        let site = Self { clusters_service, records, client, base, folder };
        let running = site.start(Victim::Frontend, None).await;
        let body = json!({"state": "Registered", "registrationDate": "Sun, 15 Nov 2026 10:00:00 GMT",
                          "properties": {"tenantId": "00000000-0000-0000-0000-0000000000ff"}});
        let url = format!("/subscriptions/{SUBSCRIPTION}?api-version=2.0");
        assert_eq!(site.send(Method::PUT, &url, &body).await.unwrap().0, 200);
        running.kill();
        Some(site)
    }

    fn trace(&self) -> PathBuf {
        self.folder.path().join("trace")
    }

    /// Starts a process: to be killed somewhere, or to be traced.
    async fn start(&self, victim: Victim, fatal: Option<&str>) -> Running {
        let name = match victim {
            Victim::Frontend => "frontend",
            Victim::Backend => "backend",
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_pilothouse-under-test"));
        command.args([name, "--log", "error", "--config"]);
        command.arg(self.folder.path().join(format!("{name}.toml"))).stderr(Stdio::null());
        match fatal {
            Some(passing) => command.env(fault::FAULT_VARIABLE, passing),
            None => command.env(fault::FAULT_TRACE_VARIABLE, self.trace()),
        };
        let mut running = Running::spawn(command).unwrap();
        if victim == Victim::Frontend {
            eventually("the frontend answers, or is dead", LIMIT, || {
                let dead = running.child().try_wait().unwrap().is_some();
                async move {
                    let health = self.client.get(format!("{}/healthz", self.base).parse().unwrap());
                    let answers = health.deadline(Duration::from_secs(1)).send().await.is_ok();
                    if dead || answers { Ok(()) } else { Err("not yet") }
                }
            })
            .await;
        }
        running
    }

    async fn send(&self, method: Method, url: &str, body: &Value) -> Option<(u16, Value)> {
        let url = format!("{}{url}", self.base).parse().unwrap();
        let call = self.client.call(method, url);
        let call = if body.is_null() { call } else { call.json(body) };
        let answer = call.send().await.ok()?;
        let status = answer.status().as_u16();
        let body = answer.bytes().await.ok()?;
        Some((status, serde_json::from_slice(&body).unwrap_or_default()))
    }

    /// Asks as a client does: again, when nobody answered. That it is under way already is as good as a yes.
    async fn ask(&self, step: Step, name: &str) {
        let (method, resource, body) = step.request(name);
        let url = format!("{resource}?api-version=2026-10-01");
        eventually("the request is taken", LIMIT, || async {
            match self.send(method.clone(), &url, &body).await {
                Some((200..=204 | 409, _)) => Ok(()),
                // It is gone already, by the request whose answer was lost.
                Some((404, _)) if method == Method::DELETE => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }

    /// Waits for the end of a request, and looks at what came of it.
    async fn until_done(&self, step: Step, name: &str) {
        let (_, resource, _) = step.request(name);
        let id: ResourceId = resource.parse().unwrap();
        eventually(&format!("{step:?} of {name} is done"), LIMIT, || async {
            let filter = OperationFilter { resource: Some(id.clone()), ..OperationFilter::default() };
            let operations = self.records.operation_list(&filter, 100, None).await.unwrap().items;
            let asked = operations.iter().filter(|operation| operation.request == step.kind());
            let states: Vec<_> = asked.map(|operation| operation.state).collect();
            let done = states.iter().all(|state| *state == ProvisioningState::Succeeded);
            let once = match step {
                // A frontend that was killed before it could answer is asked again, and asking for the same change again
                // is another operation.
                Step::ClusterUpdate | Step::NodePoolUpdate => !states.is_empty(),
                _ => states.len() == 1,
            };
            if done && once { Ok(()) } else { Err(format!("{states:?}")) }
        })
        .await;
        let made = self.clusters_service.clusters();
        let clusters: Vec<_> = made.iter().filter(|cluster| cluster.name == name).collect();
        let pools = self.clusters_service.node_pools();
        let pools: Vec<_> = pools
            .iter()
            .filter(|pool| {
                pool.id.as_str() == "workers" && clusters.iter().any(|cluster| cluster.id == pool.cluster_id)
            })
            .collect();
        let expected = match step {
            Step::ClusterCreate | Step::NodePoolDelete => (1, 0),
            Step::NodePoolCreate | Step::ClusterUpdate | Step::NodePoolUpdate => (1, 1),
            Step::ClusterDelete => (0, 0),
        };
        assert_eq!((clusters.len(), pools.len()), expected, "{step:?} of {name}");
        match step {
            Step::ClusterUpdate => {
                let minutes = clusters[0].node_drain_grace_period.as_ref().map(|period| period.value);
                assert_eq!(minutes, Some(7), "{name}");
            }
            Step::NodePoolUpdate => assert_eq!(pools[0].replicas, Some(3), "{name}"),
            _ => {}
        }
    }

    /// A cluster keeps its last node pool, so there has to be another one by the time the first is to go.
    async fn second_pool(&self, step: Step, name: &str) {
        if step != Step::NodePoolCreate {
            return;
        }
        let pool = format!("{}/nodePools/others", bodies::cluster_id(name));
        let url = format!("{pool}?api-version=2026-10-01");
        let taken = self.send(Method::PUT, &url, &bodies::node_pool()).await.map(|(status, _)| status);
        assert_eq!(taken, Some(201), "{name}");
        let id: ResourceId = pool.parse().unwrap();
        eventually("there is another node pool", LIMIT, || async {
            let stored = self.records.node_pool_get(&id).await.unwrap().unwrap();
            let state = stored.resource.status.provisioning_state;
            if state == ProvisioningState::Succeeded { Ok(()) } else { Err(state) }
        })
        .await;
    }

    /// Lives a life in which nobody is killed, and tells what the process passes for each request.
    async fn traced_life(&self, victim: Victim, name: &str) -> HashMap<Step, Vec<Passing>> {
        let mut passings = HashMap::new();
        for step in LIFE {
            let _ = fs::remove_file(self.trace());
            let traced = self.start(victim, None).await;
            self.ask(step, name).await;
            self.until_done(step, name).await;
            let text = fs::read_to_string(self.trace()).unwrap_or_default();
            self.second_pool(step, name).await;
            traced.kill();
            let mut counts = HashMap::<&str, usize>::new();
            let numbered = text.lines().map(|point| {
                let count = counts.entry(point).or_default();
                *count += 1;
                format!("{point}:{count}")
            });
            passings.insert(step, numbered.collect());
        }
        passings
    }

    /// Lives a life in which every request that has an n-th passing is cut off there. Answers how many were.
    async fn life(&self, victim: Victim, passings: &HashMap<Step, Vec<Passing>>, number: usize) -> usize {
        let name = format!("life{number}");
        let mut killed = 0;
        for step in LIFE {
            if let Some(passing) = passings[&step].get(number) {
                let mut doomed = self.start(victim, Some(passing)).await;
                if victim == Victim::Backend {
                    self.ask(step, &name).await;
                } else {
                    let (method, resource, body) = step.request(&name);
                    self.send(method, &format!("{resource}?api-version=2026-10-01"), &body).await;
                }
                // Timers and the other side may have made the way another one; then it is not cut off, and that is all.
                killed += usize::from(self.dies_or_is_done(&mut doomed, step, &name).await);
                doomed.kill();
            }
            let next = self.start(victim, None).await;
            if victim == Victim::Frontend || passings[&step].get(number).is_none() {
                self.ask(step, &name).await;
            }
            self.until_done(step, &name).await;
            self.second_pool(step, &name).await;
            next.kill();
        }
        killed
    }

    async fn dies_or_is_done(&self, doomed: &mut Running, step: Step, name: &str) -> bool {
        let id: ResourceId = step.request(name).1.parse().unwrap();
        let mut dead = false;
        eventually("it is dead, or the work is done", LIMIT, || {
            dead = doomed.child().try_wait().unwrap().is_some();
            let (dead, id) = (dead, id.clone());
            async move {
                let filter = OperationFilter { resource: Some(id), ..OperationFilter::default() };
                let operations = self.records.operation_list(&filter, 100, None).await.unwrap().items;
                let mut asked = operations.iter().filter(|operation| operation.request == step.kind());
                let done = asked.any(|operation| operation.state.is_terminal());
                if dead || done { Ok(()) } else { Err("neither") }
            }
        })
        .await;
        // Whoever ended the work may be about to die of what comes after it.
        dead || doomed.child().try_wait().unwrap().is_some()
    }
}

impl Step {
    fn request(self, name: &str) -> (Method, String, Value) {
        let cluster = bodies::cluster_id(name);
        let pool = format!("{cluster}/nodePools/workers");
        match self {
            Self::ClusterCreate => (Method::PUT, cluster, bodies::cluster(name)),
            Self::NodePoolCreate => (Method::PUT, pool, bodies::node_pool()),
            Self::ClusterUpdate => {
                (Method::PATCH, cluster, json!({"properties": {"nodeDrainTimeoutMinutes": 7}}))
            }
            Self::NodePoolUpdate => (Method::PATCH, pool, json!({"properties": {"replicas": 3}})),
            Self::NodePoolDelete => (Method::DELETE, pool, Value::Null),
            Self::ClusterDelete => (Method::DELETE, cluster, Value::Null),
        }
    }

    fn kind(self) -> Request {
        match self {
            Self::ClusterCreate | Self::NodePoolCreate => Request::Create,
            Self::ClusterUpdate | Self::NodePoolUpdate => Request::Update,
            Self::NodePoolDelete | Self::ClusterDelete => Request::Delete,
        }
    }
}

async fn killed_everywhere(victim: Victim, others: Victim, at_least: usize) {
    let Some(site) = Site::new().await else { return };
    let _others = site.start(others, None).await;
    let passings = site.traced_life(victim, "traced").await;
    let longest = passings.values().map(Vec::len).max().unwrap_or_default();
    let mut killed = 0;
    for number in 0..longest {
        killed += site.life(victim, &passings, number).await;
    }
    let all: usize = passings.values().map(Vec::len).sum();
    assert!(killed >= at_least, "{killed} of {all} passings were fatal: {passings:?}");
    assert!(site.clusters_service.clusters().is_empty());
    assert!(site.records.operation_active().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_killed_between_any_two_writes_is_followed_by_one_that_ends_the_work() {
    // Asking for it and writing it down, before and after, six times.
    Box::pin(killed_everywhere(Victim::Backend, Victim::Frontend, 24)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frontend_killed_between_any_two_writes_has_taken_the_request_or_not() {
    // Before and after the one transaction of each request.
    Box::pin(killed_everywhere(Victim::Frontend, Victim::Backend, 12)).await;
}
