//! Processes over one store, and what can be seen of them.

use std::collections::HashSet;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use http::Method;
use pilothouse_clusters_service_api::simulated::{Mode, Simulated};
use pilothouse_http::{Client, ClientBuilder};
use pilothouse_runtime::fault;
use pilothouse_test_support::process::{self, Running, free_port};
use pilothouse_test_support::{Engine, eventually};
use serde_json::Value;
use tempfile::TempDir;

use super::provider::{RESYNC, TEST, VARIABLES};
use super::step::{Step, other, other_cluster, subscription};
use crate::bodies::{self, LOCATION, SUBSCRIPTION};
use crate::provider::{LIMIT, versioned};

/// Long enough that nothing is lost, and no renewal comes, while a calm process works.
const CALM_LEASE: &str = "20s";
/// What a killed one held is free after a moment.
const DOOMED_LEASE: &str = "400ms";

/// Which process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Victim {
    Frontend,
    Backend,
    /// There is only one.
    Both,
}

pub(super) struct Site {
    pub(super) clusters_service: Simulated,
    victim: Victim,
    store: String,
    client: Client,
    port: u16,
    admin_port: u16,
    /// Operations that were there before the request that is looked at.
    former: Mutex<HashSet<String>>,
    folder: TempDir,
}

/// Whether a process has ended, which has to be by the signal that cannot be caught.
pub(super) fn died(running: &mut Running) -> bool {
    let ended = running.child().try_wait().unwrap();
    if let Some(status) = ended {
        assert_eq!(status.signal(), Some(9), "{status}");
    }
    ended.is_some()
}

impl Site {
    /// None, after saying so, if the machine lacks the engine.
    pub(super) async fn new(engine: Engine, victim: Victim) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let store = engine.location(folder.path())?;
        let clusters_service = Simulated::start(Mode::Automatic).await;
        let (port, admin_port) = (free_port(), free_port());
        let common = format!(
            "store = {store:?}\n[clusters_service]\nurl = \"{}\"\n[metrics]\naddress = \"127.0.0.1:0\"\n[service]\n",
            clusters_service.url()
        );
        let frontend = format!(
            "location = {LOCATION:?}\nlistener = {{ address = \"127.0.0.1:{port}\" }}\n\
             [service.admin]\nlistener = {{ address = \"127.0.0.1:{admin_port}\" }}\n"
        );
        fs::write(folder.path().join("frontend.toml"), format!("{common}{frontend}")).unwrap();
        for lease in [CALM_LEASE, DOOMED_LEASE] {
            let backend = format!("{common}lease = {lease:?}\nresync = {RESYNC:?}\n");
            fs::write(folder.path().join(format!("backend-{lease}.toml")), backend).unwrap();
        }
        let client = ClientBuilder::new(Duration::from_secs(10)).build().unwrap();
        let site = Self {
            clusters_service,
            victim,
            store,
            client,
            port,
            admin_port,
            former: Mutex::default(),
            folder,
        };
        let which = if victim == Victim::Both { victim } else { Victim::Frontend };
        let running = site.start(which, CALM_LEASE, |_| {}).await;
        let url = format!("/subscriptions/{SUBSCRIPTION}?api-version=2.0");
        let told = site.send(Method::PUT, &url, &subscription("Registered")).await;
        assert_eq!(told.map(|(status, _)| status), Some(200));
        running.kill();
        Some(site)
    }

    /// Starts the process that is not to be killed, if there is another.
    pub(super) async fn start_other(&self) -> Option<Running> {
        match self.victim {
            Victim::Frontend => Some(self.start(Victim::Backend, CALM_LEASE, |_| {}).await),
            Victim::Backend => Some(self.start(Victim::Frontend, CALM_LEASE, |_| {}).await),
            Victim::Both => None,
        }
    }

    /// Starts the process that may be killed, and is not this time; where it has been is written down.
    pub(super) async fn start_calm(&self) -> Running {
        // What the one before had taken when it was killed, nobody gives back.
        let _ = fs::remove_file(self.trace_file());
        self.start(self.victim, CALM_LEASE, |command| {
            command.env(fault::FAULT_TRACE_VARIABLE, self.trace_file());
        })
        .await
    }

    /// Starts the process that kills itself at this passing.
    pub(super) async fn start_doomed(&self, passing: &str) -> Running {
        self.start(self.victim, DOOMED_LEASE, |command| {
            command.env(fault::FAULT_VARIABLE, passing);
        })
        .await
    }

    async fn start(&self, which: Victim, lease: &str, adjust: impl FnOnce(&mut Command)) -> Running {
        let mut command = match which {
            Victim::Frontend => self.program("frontend", "frontend"),
            Victim::Backend => self.program("backend", &format!("backend-{lease}")),
            Victim::Both => {
                let mut command = process::child_of_this_test(TEST);
                let [port, admin_port] = [self.port, self.admin_port].map(|port| port.to_string());
                let service = self.clusters_service.url().to_string();
                let values = [self.store.clone(), service, port, admin_port, lease.to_owned()];
                command.envs(VARIABLES.into_iter().zip(values)).stdout(Stdio::null());
                command
            }
        };
        command.stderr(Stdio::null());
        adjust(&mut command);
        let mut running = Running::spawn(command).unwrap();
        if which != Victim::Backend {
            eventually("the frontend answers, or is dead", LIMIT, || {
                let dead = died(&mut running);
                async move {
                    let url = format!("http://127.0.0.1:{}/healthz", self.port).parse().unwrap();
                    let answers = self.client.get(url).deadline(Duration::from_secs(1)).send().await.is_ok();
                    if dead || answers { Ok(()) } else { Err("not yet") }
                }
            })
            .await;
        }
        running
    }

    fn program(&self, name: &str, config: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pilothouse-under-test"));
        command.args([name, "--log", "error", "--config"]);
        command.arg(self.folder.path().join(format!("{config}.toml")));
        command
    }

    fn trace_file(&self) -> PathBuf {
        self.folder.path().join("trace")
    }

    /// Waits until everything that a calm process took to work on is given back, and gives the points that were passed.
    pub(super) async fn until_quiet(&self) -> Vec<String> {
        eventually("what was taken is given back", LIMIT, || async {
            let text = fs::read_to_string(self.trace_file()).unwrap_or_default();
            let trace: Vec<_> =
                text.lines().filter(|point| !fault::is_common(point)).map(str::to_owned).collect();
            let count = |point: &str| trace.iter().filter(|passed| *passed == point).count();
            let (taken, returned) = (count("store.lease.acquire.after"), count("store.lease.release.after"));
            if taken == returned { Ok(trace) } else { Err(format!("{taken} taken, {returned} given back")) }
        })
        .await
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Option<(u16, Value)> {
        self.send_to(self.port, method, path, body).await
    }

    async fn send_to(&self, port: u16, method: Method, path: &str, body: &Value) -> Option<(u16, Value)> {
        let url = format!("http://127.0.0.1:{port}{path}").parse().unwrap();
        let call = self.client.call(method, url);
        let call = if body.is_null() { call } else { call.json(body) };
        let answer = call.send().await.ok()?;
        let status = answer.status().as_u16();
        let body = answer.bytes().await.ok()?;
        Some((status, serde_json::from_slice(&body).unwrap_or_default()))
    }

    /// Asks, and answers whether it was taken.
    pub(super) async fn ask_once(&self, step: Step, name: &str) -> bool {
        let (method, url, body) = step.request(name);
        matches!(self.send(method, &url, &body).await, Some((200..=204, _)))
    }

    /// Asks as a client does: again, when nobody answered. That it is under way already is as good as a yes.
    pub(super) async fn ask(&self, step: Step, name: &str) {
        let (method, url, body) = step.request(name);
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

    /// What a request needs: for a node pool to go there has to be another one, for a subscription there has to be one.
    pub(super) async fn prepare(&self, step: Step, name: &str) {
        // Asking a second time for what is already there is a change to it, with an operation of its own.
        let former = self.operations(step, name).await;
        self.former.lock().unwrap().extend(former.iter().map(|operation| operation["id"].to_string()));
        match step {
            Step::NodePoolDelete => {
                let pool = format!("{}/nodePools/others", bodies::cluster_id(name));
                self.made(&pool, &bodies::node_pool()).await;
            }
            Step::SubscriptionDelete => {
                let url = format!("/subscriptions/{}?api-version=2.0", other(name));
                let told = self.send(Method::PUT, &url, &subscription("Registered")).await;
                assert_eq!(told.map(|(status, _)| status), Some(200), "{name}");
                let (id, body) = other_cluster(name);
                self.made(&id, &body).await;
            }
            _ => {}
        }
    }

    async fn made(&self, id: &str, body: &Value) {
        let taken = self.send(Method::PUT, &versioned(id), body).await;
        assert!(matches!(taken, Some((201, _))), "{id}: {taken:?}");
        eventually(&format!("{id} is there"), LIMIT, || async {
            let seen = self.send(Method::GET, &versioned(id), &Value::Null).await;
            let state = seen.as_ref().map(|(_, body)| &body["properties"]["provisioningState"]);
            if state.is_some_and(|state| state == "Succeeded") { Ok(()) } else { Err(format!("{seen:?}")) }
        })
        .await;
    }

    /// What there is to read of the resource that a request is about.
    pub(super) async fn seen(&self, step: Step, name: &str) -> (u16, Value) {
        let (id, _) = step.operation(name);
        self.send(Method::GET, &versioned(&id.to_string()), &Value::Null).await.unwrap()
    }

    /// Whether a request has become an operation.
    pub(super) async fn is_stored(&self, step: Step, name: &str) -> bool {
        !self.operations(step, name).await.is_empty()
    }

    /// The operations that a request led to; none if nobody answers.
    async fn operations(&self, step: Step, name: &str) -> Vec<Value> {
        let (id, request) = step.operation(name);
        let path = format!("/admin/v1/operations?resource={id}");
        let listed = self.send_to(self.admin_port, Method::GET, &path, &Value::Null).await;
        let listed = listed.and_then(|(_, mut body)| body["value"].as_array_mut().map(std::mem::take));
        let former = self.former.lock().unwrap();
        let is_meant = |operation: &Value| {
            operation["request"] == request && !former.contains(&operation["id"].to_string())
        };
        listed.unwrap_or_default().into_iter().filter(is_meant).collect()
    }

    /// Whether it is written down that Clusters Service was asked for it, and what it said. To a deletion it says nothing:
    /// what comes of it is looked up, and written down after that.
    pub(super) async fn is_asked(&self, step: Step, name: &str) -> bool {
        let (id, _) = step.operation(name);
        for operation in self.operations(step, name).await {
            let path = format!(
                "/admin/v1/operations/{}/{}",
                id.subscription_name(),
                operation["id"].as_str().unwrap()
            );
            let shown = self.send_to(self.admin_port, Method::GET, &path, &Value::Null).await;
            let steps = shown.and_then(|(_, mut body)| body["steps"].as_array_mut().map(std::mem::take));
            let steps = steps.unwrap_or_default();
            // The frontend has a part in this step as well: it stores the request.
            let asked = steps.iter().any(|step| {
                step["number"] == 4 && step["component"] == "services/backend" && step["state"] == "Succeeded"
            });
            let answered = steps.iter().any(|step| {
                step["component"] == "services/clusters-service" && step["message"] != "asked to be deleted"
            });
            if asked && (answered || operation["request"] != "Delete") {
                return true;
            }
        }
        false
    }

    /// Waits for the end of a request, and looks at what came of it. `once`: it was answered, and not asked again.
    pub(super) async fn until_done(&self, step: Step, name: &str, once: bool) {
        let operations = eventually(&format!("{step:?} of {name} is done"), LIMIT, || async {
            let operations = self.operations(step, name).await;
            let done = operations.iter().all(|operation| operation["state"] == "Succeeded");
            let enough = match once || !step.may_be_repeated() {
                true => operations.len() == 1,
                // Who was not answered asks again, and that is another change, or another credential.
                false => (1..=2).contains(&operations.len()),
            };
            if done && enough { Ok(operations) } else { Err(format!("{operations:?}")) }
        })
        .await;
        step.assert_done(&self.clusters_service, name, operations.len());
    }
}
