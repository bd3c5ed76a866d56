//! The original's source, by its own client package, with all of the rest ours.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use pilothouse_maestro_api::work_uid;
use pilothouse_test_support::process::{Running, free_port};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::programs::Original;
use crate::cluster::{Cluster, PATIENCE};
use crate::world::{BrokerPart, CONSUMER, SOURCE, Server, World, start_agent, work};

/// A source that watches; what it prints, line by line.
struct Watching {
    lines: mpsc::UnboundedReceiver<String>,
    _process: Running,
}

impl Watching {
    fn start(mut command: Command) -> Self {
        command.arg("watch").stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Running::spawn(command).unwrap();
        let output = process.child().stdout.take().unwrap();
        let (lines_tx, lines) = mpsc::unbounded_channel();
        // Ends with the process.
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _ = lines_tx.send(line);
            }
        });
        Self { lines, _process: process }
    }

    async fn until(&mut self, what: &str) {
        let waiting = async {
            while let Some(line) = self.lines.recv().await {
                if line.contains(what) {
                    return;
                }
            }
            panic!("the source ended before it said {what}");
        };
        tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("no {what}"));
    }
}

/// Runs a source to its end; what it printed, and whether it went well.
async fn run(mut command: Command, arguments: &[&str]) -> (bool, String) {
    command.args(arguments);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (output.status.success(), said.concat())
}

/// A work as people write one.
fn manifest_work(content: &str) -> Value {
    let work = work("one", content);
    json!({
        "apiVersion": "work.open-cluster-management.io/v1",
        "kind": "ManifestWork",
        "metadata": {"name": work.name, "labels": work.labels},
        "spec": {
            "workload": {"manifests": work.bundle.manifests},
            "manifestConfigs": work.bundle.manifest_configs,
        },
    })
}

#[tokio::test]
async fn the_originals_source_is_served_by_our_server() {
    let folder = tempfile::tempdir().unwrap();
    let broker = BrokerPart::ours(0).await;
    let Some(original) = Original::find(folder.path(), &broker) else { return };
    let cluster = Cluster::start().await;
    let ports = [free_port(), free_port()];
    let server = Server::start_at(folder.path(), broker.port, ports).await;
    let agent = Some(start_agent(&cluster, broker.port).await);
    let mut world = World { cluster, broker, agent, server };
    let file = folder.path().join("work.json");
    let write = |content: &str| std::fs::write(&file, manifest_work(content).to_string()).unwrap();
    let path = file.to_str().unwrap();
    let id = work_uid(SOURCE, CONSUMER, "one").to_string();

    let mut watching = Watching::start(original.source(&world.server));
    watching.until("Watching for").await;
    write("1");
    let (fine, said) = run(original.source(&world.server), &["apply", path]).await;
    assert!(fine && said.contains(&format!("(uid={id}) created successfully")), "{said}");
    world.until_map("one", Some("1")).await;
    watching.until(&format!("[MODIFIED] Work: {CONSUMER}/one (uid={id})")).await;

    write("2");
    let (fine, said) = run(original.source(&world.server), &["apply", path]).await;
    assert!(fine && said.contains("updated successfully"), "{said}");
    world.until_map("one", Some("2")).await;
    let shown = pilothouse_test_support::eventually("the status is shown", PATIENCE, || async {
        let (_, said) = run(original.source(&world.server), &["get", "one"]).await;
        let start = said.find("{\n").ok_or_else(|| said.clone())?;
        let shown: Value =
            serde_json::from_str(&said[start..]).map_err(|error| format!("{error}: {said}"))?;
        let feedback = &shown["status"]["resourceStatus"]["manifests"][0]["statusFeedback"]["values"][0];
        if feedback["fieldValue"]["jsonRaw"] == r#"{"k":"2"}"# { Ok(shown) } else { Err(said) }
    })
    .await;
    assert_eq!(shown["metadata"]["generation"], 2);
    assert_eq!(shown["metadata"]["labels"]["api.openshift.com/id"], "one");
    assert_eq!(shown["spec"]["workload"]["manifests"][0]["data"]["k"], "2");
    let (fine, said) = run(original.source(&world.server), &["list"]).await;
    assert!(fine && said.contains(&id), "{said}");

    // A watch survives the server: it connects again, and lists.
    world.server.kill().await;
    world.server = Server::start_at(folder.path(), world.broker.port, ports).await;
    while watching.lines.try_recv().is_ok() {}
    watching.until(&format!("[MODIFIED] Work: {CONSUMER}/one (uid={id})")).await;

    let (fine, said) = run(original.source(&world.server), &["delete", "one"]).await;
    assert!(fine && said.contains("deleted successfully"), "{said}");
    watching.until(&format!("[DELETED] Work: {CONSUMER}/one (uid={id})")).await;
    world.until_map("one", None).await;
    let (fine, said) = run(original.source(&world.server), &["get", "one"]).await;
    assert!(!fine && said.contains("not found"), "{said}");
}
