//! The gateway in a process of its own, and the file that it, or a region, is configured with.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// A cluster where nobody answers.
const NOBODY: &str = "{apiVersion: v1, kind: Config, current-context: it, \
    clusters: [{name: it, cluster: {server: 'http://127.0.0.1:1'}}], \
    contexts: [{name: it, context: {cluster: it, user: it}}], users: [{name: it, user: {}}]}";

fn pilothouse() -> Command {
    let mut command = Command::new(cargo_bin!("pilothouse"));
    command.env_remove("PILOTHOUSE_DATA_DIR").env_remove("PILOTHOUSE_CONFIG");
    command
}

/// A gateway process.
struct Gateway {
    child: Child,
    pages: String,
}

impl Gateway {
    fn start(folder: &Path) -> Self {
        let mut child = pilothouse()
            .args(["gateway", "--log", "info", "--log-format", "json", "--kubeconfig"])
            .arg(folder.join("kubeconfig"))
            .arg("--config")
            .arg(folder.join("gateway.toml"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let pages = loop {
            let line = lines.next().expect("it listens before it ends").unwrap();
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            if event["message"] == "listening" {
                break event["address"].as_str().unwrap().to_owned();
            }
        };
        // Somebody has to read on, or it would wait for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, pages }
    }

    /// Waits until a page says something: for less time than it takes to look at a file without having been told.
    fn until_page_says(&self, path: &str, text: &str) {
        let mut page = String::new();
        for _ in 0..1500 {
            page = self.page(path);
            if page.contains(text) {
                return;
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
        panic!("{path} does not say `{text}`: {page}");
    }

    fn page(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.pages).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Only after a failed assertion; otherwise it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn changed_file_is_taken_and_a_management_cluster_that_is_lost_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, NOBODY).unwrap();
    let configure = |most: &str| {
        let config = format!(
            "install_definitions = false\n[metrics]\naddress = \"127.0.0.1:0\"\n\
             [service]\nlisten = \"127.0.0.1:0\"\nmax_connections_per_cluster = {most}\n\
             [[service.management_clusters]]\nname = \"west\"\nkubeconfig = {:?}\n",
            kubeconfig.display().to_string()
        );
        fs::write(folder.path().join("gateway.toml"), config).unwrap();
    };
    configure("1");
    let mut gateway = Gateway::start(folder.path());
    gateway.until_page_says("/readyz?verbose", "configuration");
    gateway.until_page_says("/readyz?verbose", "management-west");
    gateway.until_page_says("/readyz?verbose", "does not answer");

    configure("2");
    gateway.until_page_says("/metrics", "reloads_total{result=\"Taken\"} 1");
    configure("\"many\"");
    gateway.until_page_says("/readyz?verbose", "as it was before the file changed");
    gateway.until_page_says("/readyz?verbose", "max_connections_per_cluster");
    configure("2");
    gateway.until_page_says("/readyz?verbose", "as in the file");

    kill(Pid::from_raw(i32::try_from(gateway.child.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(gateway.child.wait().unwrap().code(), Some(0));
}

#[test]
fn region_is_not_started_with_a_file_that_makes_no_sense() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.toml");
    fs::write(&file, "[service]\nmax_connection = 7\n").unwrap();
    let output = pilothouse()
        .args(["up", "--ephemeral-ports", "--data-dir"])
        .arg(folder.path().join("data"))
        .arg("--gateway-config")
        .arg(&file)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{told}");
    assert!(told.contains("service.max_connection") && told.contains("--dump-config"), "{told}");
}
