//! The broker in a process of its own, as Mosquitto's clients meet it.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_pki::{Authority, AuthorityRequest, LeafRequest, Subject};
use pilothouse_runtime::Clock;
use pilothouse_test_support::requirement::Requirement;
use serde_json::Value;

const PUBLISH: Requirement = Requirement::new("mosquitto_pub", "mosquitto-clients");
const SUBSCRIBE: Requirement = Requirement::new("mosquitto_sub", "mosquitto-clients");

/// As `docs/how-to/run-maestro-agents.md` says.
const RULES: &str = r#"
[[service.rules]]
identity = "maestro"
publish = ["sources/maestro/consumers/+/sourceevents"]
subscribe = ["sources/maestro/consumers/+/agentevents"]

[[service.rules]]
identity = "*"
publish = ["sources/maestro/consumers/{identity}/agentevents"]
subscribe = ["sources/maestro/consumers/{identity}/sourceevents"]
"#;

/// A broker process and its files.
struct Broker {
    folder: tempfile::TempDir,
    child: Child,
    mqtt: String,
    pages: String,
}

fn broker(arguments: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin!("pilothouse"));
    command.arg("broker").args(arguments);
    command
}

/// One authority, and a certificate for each.
fn certify(folder: &Path) {
    let clock = Clock::system();
    let subject = |name: &str| Subject::try_new(name).unwrap();
    let authority = Authority::self_signed(&AuthorityRequest::new(subject("test")), &clock).unwrap();
    fs::write(folder.join("ca.crt"), authority.certificate().to_pem()).unwrap();
    let write = |name: &str, request: &LeafRequest| {
        let leaf = authority.issue(request, &clock).unwrap();
        leaf.write(&folder.join(format!("{name}.crt")), &folder.join(format!("{name}.key"))).unwrap();
    };
    write("broker", &LeafRequest::server(subject("broker"), ["127.0.0.1".parse().unwrap()]));
    for name in ["maestro", "one", "two"] {
        write(name, &LeafRequest::client(subject(name)));
    }
}

impl Broker {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        certify(folder.path());
        let path = |name: &str| folder.path().join(name).display().to_string();
        let config = format!(
            "[metrics]\naddress = \"127.0.0.1:0\"\n[service]\nlisten = \"127.0.0.1:0\"\n\
             tls = {{ certificate = {:?}, key = {:?}, client_authorities = {:?} }}\n{RULES}",
            path("broker.crt"),
            path("broker.key"),
            path("ca.crt"),
        );
        fs::write(folder.path().join("broker.toml"), config).unwrap();
        let mut child = broker(&["--log", "info", "--log-format", "json", "--config"])
            .arg(folder.path().join("broker.toml"))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut addresses = BTreeMap::new();
        while addresses.len() < 2 {
            let line = lines.next().expect("it listens before it ends").unwrap();
            let event: Value = serde_json::from_str(&line).unwrap_or_default();
            if event["message"] == "listening" {
                let pages = event["listener"].is_string();
                addresses.insert(pages, event["address"].as_str().unwrap().to_owned());
            }
        }
        // Somebody has to read on, or it would wait for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        let [mqtt, pages] = [false, true].map(|pages| addresses[&pages].clone());
        Self { folder, child, mqtt, pages }
    }

    /// A client of Mosquitto's that shows somebody's certificate.
    fn client(&self, program: &PathBuf, name: Option<&str>, arguments: &[&str]) -> Command {
        let path = |name: String| self.folder.path().join(name);
        let (host, port) = self.mqtt.rsplit_once(':').unwrap();
        let mut command = Command::new("timeout");
        command.arg("60").arg(program).args(["-h", host, "-p", port, "-V", "mqttv5", "-q", "1", "--cafile"]);
        command.arg(path("ca.crt".to_owned()));
        if let Some(name) = name {
            command.args(["-i", name, "--cert"]).arg(path(format!("{name}.crt")));
            command.arg("--key").arg(path(format!("{name}.key")));
        }
        command.args(arguments);
        command
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

impl Drop for Broker {
    fn drop(&mut self) {
        // Only after a failed assertion; otherwise it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// For a minute at most.
fn wait_until(mut holds: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if holds() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    panic!("it did not come to be within a minute");
}

#[test]
fn certificates_decide_who_hears_and_says_what() {
    let (Some(publish), Some(subscribe)) = (PUBLISH.find(), SUBSCRIBE.find()) else { return };
    let mut broker = Broker::start();
    assert!(broker.page("/readyz").starts_with("HTTP/1.1 200"), "{}", broker.page("/readyz"));
    let own = |name: &str| format!("sources/maestro/consumers/{name}/agentevents");

    let hears = ["-t", "sources/maestro/consumers/+/agentevents", "-C", "1", "-F", "%t %p"];
    let server = broker.client(&subscribe, Some("maestro"), &hears).stdout(Stdio::piped()).spawn().unwrap();
    wait_until(|| broker.page("/metrics").contains("subscriptions 1"));
    // Neither for another, nor without a certificate, nor under the id of another.
    let forged = broker.client(&publish, Some("two"), &["-t", &own("one"), "-m", "forged"]).output().unwrap();
    assert!(told(&forged).to_lowercase().contains("not authorized"), "{}", told(&forged));
    let unknown = broker.client(&publish, None, &["-t", &own("one"), "-m", "unknown"]).output().unwrap();
    assert!(!unknown.status.success(), "{}", told(&unknown));
    let other = ["-i", "maestro", "-t", &own("two"), "-m", "other"];
    let other = broker.client(&publish, Some("two"), &other).output().unwrap();
    assert!(!other.status.success(), "{}", told(&other));
    let curious = broker.client(&subscribe, Some("two"), &["-t", "#", "-W", "20"]).output().unwrap();
    assert!(told(&curious).contains("denied"), "{}", told(&curious));

    let said = broker.client(&publish, Some("one"), &["-t", &own("one"), "-m", "well"]).output().unwrap();
    assert!(said.status.success(), "{}", told(&said));
    let heard = server.wait_with_output().unwrap();
    assert_eq!(told(&heard).trim(), format!("{} well", own("one")));

    kill(Pid::from_raw(i32::try_from(broker.child.id()).unwrap()), Signal::SIGTERM).unwrap();
    assert_eq!(broker.child.wait().unwrap().code(), Some(0));
}

/// What it refuses to be started with, in the words that help.
#[test]
fn it_is_exposed_only_to_those_it_knows() {
    let folder = tempfile::tempdir().unwrap();
    certify(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    let refused = |service: &str| {
        let file = folder.path().join("broker.toml");
        fs::write(&file, format!("[metrics]\naddress = \"127.0.0.1:0\"\n[service]\n{service}\n")).unwrap();
        let output = broker(&["--config"]).arg(file).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{service}: {}", told(&output));
        told(&output)
    };
    let tls = format!("certificate = {:?}, key = {:?}", path("broker.crt"), path("broker.key"));
    let both = format!("{tls}, client_authorities = {:?}", path("ca.crt"));
    for (service, said) in [
        ("listen = \"0.0.0.0:0\"".to_owned(), "off the loopback (0.0.0.0:0)"),
        (format!("listen = \"0.0.0.0:0\"\ntls = {{ {tls} }}"), "needs client certificates"),
        (format!("listen = \"127.0.0.1:0\"\ntls = {{ {both} }}"), "no rule says what they may do"),
        (format!("listen = \"127.0.0.1:0\"\n{RULES}"), "go by the names in clients' certificates"),
        (
            format!("tls = {{ {both} }}\nrules = [{{ identity = \"one\", publish = [\"a/#/b\"] }}]"),
            "the rule about `one`: `a/#/b` is no filter",
        ),
        ("lisent = \"127.0.0.1:0\"".to_owned(), "lisent"),
    ] {
        let told = refused(&service);
        assert!(told.contains(said) && told.contains("hint: docs/how-to/"), "{service}: {told}");
    }

    fs::write(folder.path().join("broker.toml"), RULES).unwrap();
    let dumped =
        broker(&["--dump-config", "--config"]).arg(folder.path().join("broker.toml")).output().unwrap();
    assert!(dumped.status.success(), "{}", told(&dumped));
    let text = String::from_utf8(dumped.stdout).unwrap();
    for line in ["listen = \"127.0.0.1:1883\"", "identity = \"maestro\"", "connections = 10000"] {
        assert!(text.lines().any(|found| found == line), "no `{line}` in\n{text}");
    }
}
