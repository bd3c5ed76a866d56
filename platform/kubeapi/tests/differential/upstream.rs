//! A real etcd and kube-apiserver on loopback, stopped with the value that owns them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use pilothouse_kubeapi::testing::Cluster;
use pilothouse_pki::{Bundle, LeafRequest, Subject};
use pilothouse_runtime::Clock;
use pilothouse_test_support::eventually;
use pilothouse_test_support::process::{self, Running};
use pilothouse_test_support::upstream::Upstream;
use tempfile::TempDir;

use crate::client::{Client, Credential, Question};

/// Four seconds on two idle cores.
const PATIENCE: Duration = Duration::from_secs(120);

/// The server is killed before its store, and the folder goes last.
pub(crate) struct Real {
    port: u16,
    _server: Running,
    _etcd: Running,
    directory: TempDir,
}

impl Real {
    /// Starts both, with the authority of our cluster: the same certificates open the doors of both servers.
    pub(crate) async fn start(programs: &Upstream, ours: &Cluster) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let (etcd_port, peer_port, port) = (process::free_port(), process::free_port(), process::free_port());

        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let mut etcd = program(&programs.program("etcd"), &path("etcd.log"));
        etcd.arg("--data-dir")
            .arg(path("etcd"))
            .args(["--listen-client-urls", &etcd_url, "--advertise-client-urls", &etcd_url])
            .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &format!("default={peer_url}")])
            // Nobody needs the data after the test.
            .arg("--unsafe-no-fsync");
        let etcd = Running::spawn(etcd).unwrap();

        keys(ours, directory.path());
        let mut server = program(&programs.program("kube-apiserver"), &path("server.log"));
        server
            .args(["--etcd-servers", &etcd_url, "--bind-address", "127.0.0.1"])
            .args(["--secure-port", &port.to_string(), "--advertise-address", "127.0.0.1"])
            .arg("--tls-cert-file")
            .arg(path("tls.crt"))
            .arg("--tls-private-key-file")
            .arg(path("tls.key"))
            .arg("--client-ca-file")
            .arg(path("ca.crt"))
            // Any key will do that comes with a certificate: of a bare one it takes no public half.
            .arg("--service-account-key-file")
            .arg(path("tls.crt"))
            .arg("--service-account-signing-key-file")
            .arg(path("tls.key"))
            .args(["--service-account-issuer", "https://kubernetes.default.svc"])
            .args(["--authorization-mode", "Node,RBAC", "--anonymous-auth=false"])
            .args(["--enable-admission-plugins", "NodeRestriction", "--enable-bootstrap-token-auth"])
            .args(["--service-cluster-ip-range", "10.96.0.0/16"])
            // An address of the loopback interface is not one that the Service `kubernetes` may lead to.
            .args(["--endpoint-reconciler-type", "none"]);
        let server = Running::spawn(server).unwrap();

        let real = Self { port, _server: server, _etcd: etcd, directory };
        real.ready(ours).await;
        real
    }

    pub(crate) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    async fn ready(&self, ours: &Cluster) {
        let client = Client::new(ours, self.url());
        for path in ["/readyz", "/api/v1/namespaces/default"] {
            let question = Question {
                method: http::Method::GET,
                path: path.to_owned(),
                content: "application/json",
                accept: "application/json".to_owned(),
                body: Vec::new(),
                events: None,
            };
            eventually("the real server is ready", PATIENCE, || async {
                let answer = client.ask(&Credential::administrator(), &question).await;
                if answer.code == 200 { Ok(()) } else { Err(format!("{answer:?}\n{}", self.end_of_log())) }
            })
            .await;
        }
    }

    fn end_of_log(&self) -> String {
        let text = fs::read_to_string(self.directory.path().join("server.log")).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

/// A program that writes into a file, and knows nothing of this environment.
fn program(program: &Path, log: &Path) -> Command {
    let log = fs::File::create(log).unwrap();
    let mut command = Command::new(program);
    command.env_clear().stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    command
}

/// What the server serves, believes and signs with.
fn keys(ours: &Cluster, folder: &Path) {
    let authority = ours.authority();
    let names = ["localhost", "127.0.0.1"].map(|name| name.parse().unwrap());
    let request = LeafRequest::server(Subject::try_new("kube-apiserver").unwrap(), names);
    let identity = authority.issue(&request, &Clock::system()).unwrap();
    identity.write(&folder.join("tls.crt"), &folder.join("tls.key")).unwrap();
    fs::write(folder.join("ca.crt"), Bundle::from(authority.certificate()).to_pem()).unwrap();
}
