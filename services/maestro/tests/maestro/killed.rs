//! Killed between any two steps, server and agent go on where they were.
//!
//! Both are processes of their own. A first life of a work, from its making over its changes to its end, tells which points
//! they pass (`pilothouse_runtime::fault`). Then there is a life for every point: the process kills itself there, another
//! one is started, and what comes of it is what would have come of it anyway: everything as the source wants it, nothing
//! written twice, nothing left behind.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Config};
use pilothouse_crds::AppliedManifestWork;
use pilothouse_maestro_api::work_uid;
use pilothouse_runtime::fault::{FAULT_TRACE_VARIABLE, FAULT_VARIABLE};
use pilothouse_test_support::process::{self, Running, free_port};
use pilothouse_test_support::{environment, eventually, postgres};

use crate::cluster::{Cluster, PATIENCE};
use crate::faults::{Histories, follow, insist};
use crate::world::{
    BrokerPart, CONSUMER, SOURCE, Server, Storage, lasting_store, start_remembering_agent, work,
};

const BROKER: &str = "MAESTRO_TEST_BROKER";
const FOLDER: &str = "MAESTRO_TEST_FOLDER";
const STORE: &str = "MAESTRO_TEST_STORE";
const PORTS: &str = "MAESTRO_TEST_PORTS";

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Agent,
    Server,
}

impl Victim {
    fn test(self) -> &'static str {
        match self {
            Self::Agent => "killed::agent_in_a_process_of_its_own",
            Self::Server => "killed::server_in_a_process_of_its_own",
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Agent => "maestro-agent.",
            Self::Server => "maestro-server.",
        }
    }
}

/// Where the lives are lived.
struct Site {
    cluster: Cluster,
    broker: BrokerPart,
    folder: PathBuf,
    storage: Storage,
    ports: [u16; 2],
    /// Speaks to the server, whichever process it is.
    server: Server,
    running: RefCell<BTreeMap<&'static str, Running>>,
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap()
}

fn block_on_forever(start: impl AsyncFnOnce()) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        start().await;
        std::future::pending::<()>().await;
    });
}

#[test]
fn agent_in_a_process_of_its_own() {
    if !process::is_child() {
        return;
    }
    block_on_forever(async || {
        let folder = PathBuf::from(variable(FOLDER));
        let kubeconfig = Kubeconfig::read_from(folder.join("kubeconfig")).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        let client = kube::Client::try_from(config).unwrap();
        let store = lasting_store(&folder).await;
        let port = variable(BROKER).parse().unwrap();
        // It lives as long as the process.
        std::mem::forget(start_remembering_agent(&client, port, "maestro", store).await);
    });
}

#[test]
fn server_in_a_process_of_its_own() {
    if !process::is_child() {
        return;
    }
    block_on_forever(async || {
        let storage = match variable(STORE).as_str() {
            "" => Storage::Sqlite,
            url => Storage::Postgres(url.to_owned()),
        };
        let ports: Vec<u16> = variable(PORTS).split(',').map(|port| port.parse().unwrap()).collect();
        let port = variable(BROKER).parse().unwrap();
        let folder = PathBuf::from(variable(FOLDER));
        // It lives as long as the process.
        std::mem::forget(Server::launch(&folder, port, [ports[0], ports[1]], &storage).await);
    });
}

impl Site {
    async fn new(broker: BrokerPart, folder: &Path, storage: Storage) -> Self {
        let cluster = Cluster::start().await;
        std::fs::write(folder.join("kubeconfig"), cluster.kubeconfig()).unwrap();
        let ports = [free_port(), free_port()];
        let [rest, grpc] = ports.map(|port| ([127, 0, 0, 1], port).into());
        let server = Server::at(rest, grpc);
        let folder = folder.to_owned();
        Self { cluster, broker, folder, storage, ports, server, running: RefCell::default() }
    }

    fn spawn(&self, victim: Victim, fault: Option<&str>, trace: Option<&Path>) {
        let mut command: Command = process::child_of_this_test(victim.test());
        command
            .env(BROKER, self.broker.port.to_string())
            .env(FOLDER, &self.folder)
            .env(PORTS, self.ports.map(|port| port.to_string()).join(","))
            .env(STORE, if let Storage::Postgres(url) = &self.storage { url } else { "" })
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(fault) = fault {
            command.env(FAULT_VARIABLE, fault);
        }
        if let Some(trace) = trace {
            command.env(FAULT_TRACE_VARIABLE, trace);
        }
        let former = self.running.borrow_mut().insert(victim.test(), Running::spawn(command).unwrap());
        drop(former);
    }

    fn kill(&self, victim: Victim) {
        drop(self.running.borrow_mut().remove(victim.test()));
    }

    /// Starts again whoever has died; whether anybody had.
    fn revive(&self) -> bool {
        let mut dead = Vec::new();
        for victim in [Victim::Agent, Victim::Server] {
            let mut running = self.running.borrow_mut();
            let process = running.get_mut(victim.test()).unwrap();
            if process.child().try_wait().unwrap().is_some() {
                dead.push(victim);
            }
        }
        dead.iter().for_each(|victim| self.spawn(*victim, None, None));
        !dead.is_empty()
    }

    /// From its making to its end. Answers whether anybody died meanwhile.
    async fn life(&self, name: &str) -> bool {
        let died = RefCell::new(false);
        let revive = || {
            if self.revive() {
                died.replace(true);
            }
        };
        let source = &self.server.source;
        let id = work_uid(SOURCE, CONSUMER, name).to_string();
        let step = async |content: &str| {
            insist(|| {
                revive();
                async {
                    // Whoever asks again after an answer was lost is told that it is there already.
                    if content == "1" {
                        source.work_create(&work(name, content)).await
                    } else {
                        source.work_update(&work(name, content), content.parse::<i32>().unwrap() - 1).await
                    }
                }
            })
            .await;
            let what = format!("{name} is {content}");
            eventually(&what, PATIENCE, || {
                revive();
                async {
                    let bundle = self.server.rest.resource_bundle_get(&id).await;
                    let bundle = bundle.map_err(|error| error.to_string())?.ok_or("it is not there")?;
                    let status = bundle.status.as_ref().ok_or("it has no status")?;
                    let feedback = status.status.resource_status.first();
                    let found = feedback.and_then(|found| pilothouse_maestro_api::feedback(found, "data"));
                    if status.observed_version == bundle.version
                        && found == Some(serde_json::json!({"k": content}))
                    {
                        Ok(())
                    } else {
                        Err(format!("{status:?}"))
                    }
                }
            })
            .await;
        };
        step("1").await;
        step("2").await;
        insist(|| {
            revive();
            async { source.work_delete(&work(name, "")).await }
        })
        .await;
        let records: Api<AppliedManifestWork> = Api::all(self.cluster.client.clone());
        eventually(&format!("nothing is left of {name}"), PATIENCE, || {
            revive();
            let records = records.clone();
            let id = id.clone();
            async move {
                let bundle = self.server.rest.resource_bundle_get(&id).await;
                if bundle.map_err(|error| error.to_string())?.is_some() {
                    return Err("the bundle".to_owned());
                }
                let left = records.list(&Default::default()).await.map_err(|error| error.to_string())?;
                if left.items.is_empty() { Ok(()) } else { Err("a record".to_owned()) }
            }
        })
        .await;
        died.into_inner()
    }
}

/// The passings of a trace: of each point the first, and in a long run all.
fn passings(trace: &Path, victim: Victim) -> Vec<String> {
    let text = std::fs::read_to_string(trace).unwrap_or_default();
    let mut counts = BTreeMap::<&str, usize>::new();
    for point in text.lines().filter(|point| point.starts_with(victim.prefix())) {
        *counts.entry(point).or_default() += 1;
    }
    let numbered = |(point, count): (&str, usize)| {
        (1..=environment::rounds(1, count)).map(move |number| format!("{point}:{number}")).collect::<Vec<_>>()
    };
    counts.into_iter().flat_map(numbered).collect()
}

fn check(histories: &Histories) {
    for (name, history) in histories.lock().unwrap().iter() {
        assert_eq!(*history, [1, 2], "{name} was not written once each");
    }
}

async fn killed_everywhere(broker: BrokerPart, folder: &Path, storage: Storage) {
    let site = Site::new(broker, folder, storage).await;
    let (histories, _following) = follow(&site.cluster).await;
    let traces = [Victim::Agent, Victim::Server].map(|victim| {
        let trace = folder.join(format!("{victim:?}.trace"));
        site.spawn(victim, None, Some(&trace));
        (victim, trace)
    });
    assert!(!site.life("traced").await);
    check(&histories);
    for (victim, trace) in traces {
        let passings = passings(&trace, victim);
        let expected = match victim {
            Victim::Agent => 10,
            Victim::Server => 10,
        };
        assert!(passings.len() >= expected, "{victim:?} passes too little: {passings:?}");
        for (number, passing) in passings.iter().enumerate() {
            site.kill(victim);
            site.spawn(victim, Some(passing), None);
            let died = site.life(&format!("{victim:?}-{number}").to_lowercase()).await;
            // How often a point is passed varies, that it is passed does not. The last of them may come after everything.
            if !died && passing.ends_with(":1") {
                eventually(&format!("{victim:?} is killed at {passing}"), PATIENCE, || {
                    let died = site.revive();
                    async move { if died { Ok(()) } else { Err("it lives") } }
                })
                .await;
            }
            check(&histories);
        }
    }
}

#[tokio::test]
async fn killed_at_every_point_over_our_broker_and_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    killed_everywhere(BrokerPart::ours(0).await, folder.path(), Storage::Sqlite).await;
}

#[tokio::test]
async fn killed_at_every_point_over_our_broker_and_postgresql() {
    let Some(server) = postgres::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::Postgres(server.fresh_database());
    killed_everywhere(BrokerPart::ours(0).await, folder.path(), storage).await;
}

#[tokio::test]
async fn killed_at_every_point_over_mosquitto_and_sqlite() {
    if !BrokerPart::has_mosquitto() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    killed_everywhere(BrokerPart::mosquitto().await, folder.path(), Storage::Sqlite).await;
}

#[tokio::test]
async fn killed_at_every_point_over_mosquitto_and_postgresql() {
    if !BrokerPart::has_mosquitto() {
        return;
    }
    let Some(server) = postgres::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let storage = Storage::Postgres(server.fresh_database());
    killed_everywhere(BrokerPart::mosquitto().await, folder.path(), storage).await;
}
