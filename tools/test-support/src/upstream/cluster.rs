//! A real etcd and kube-apiserver on loopback, with a kube-controller-manager and a kube-scheduler for whoever wants them.

use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::Upstream;
use crate::eventually;
use crate::process::{self, Running};

/// Four seconds on two idle cores.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the servers are given. Certificates are the caller's: whoever compares two servers lets one authority sign for both.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where data and logs go. It has to exist, and to outlive the servers.
    pub folder: PathBuf,
    /// What the API server serves with, PEM. Its key also signs tokens of service accounts.
    pub certificate: PathBuf,
    /// The key of that certificate, PEM.
    pub key: PathBuf,
    /// Whose clients are believed, PEM.
    pub client_authorities: PathBuf,
    /// Further arguments of the API server.
    pub arguments: Vec<OsString>,
}

/// Servers that answer. Each is killed before what it needs, when this value is dropped or with the test process.
#[derive(Debug)]
pub struct Cluster {
    address: SocketAddr,
    folder: PathBuf,
    programs: Upstream,
    setup: Setup,
    /// In the order in which they end.
    running: Vec<Running>,
}

impl Setup {
    /// One more argument of the API server, with its value.
    #[must_use]
    pub fn with(mut self, flag: &str, value: impl Into<OsString>) -> Self {
        self.arguments.extend([flag.into(), value.into()]);
        self
    }
}

impl Cluster {
    /// Starts both servers, and returns when `ready` is content with the one at the given address. What it says otherwise
    /// is in the failure, with the end of the server's log.
    ///
    /// # Panics
    ///
    /// If a program cannot be started, or is not ready in time.
    pub async fn start<R: Future<Output = Result<(), String>>>(
        programs: &Upstream,
        setup: Setup,
        ready: impl Fn(SocketAddr) -> R,
    ) -> Self {
        let (etcd_port, peer_port, port) = (process::free_port(), process::free_port(), process::free_port());
        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let folder = setup.folder.clone();
        let mut cluster = Self { address, folder, programs: programs.clone(), setup, running: Vec::new() };

        let mut etcd = cluster.program("etcd");
        etcd.arg("--data-dir")
            .arg(cluster.folder.join("etcd"))
            .args(["--listen-client-urls", &etcd_url, "--advertise-client-urls", &etcd_url])
            .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &format!("default={peer_url}")])
            // Nobody needs the data after the test.
            .arg("--unsafe-no-fsync");
        cluster.spawn(etcd);

        let mut server = cluster.program("kube-apiserver");
        let files = &cluster.setup;
        server
            .args(["--etcd-servers", &etcd_url, "--bind-address", "127.0.0.1"])
            .args(["--secure-port", &port.to_string(), "--advertise-address", "127.0.0.1"])
            .args(["--service-account-issuer", "https://kubernetes.default.svc"])
            .args(["--authorization-mode", "Node,RBAC", "--anonymous-auth=false"])
            .args(["--service-cluster-ip-range", "10.96.0.0/16"])
            // An address of the loopback interface is not one that the Service `kubernetes` may lead to.
            .args(["--endpoint-reconciler-type", "none"]);
        for (flag, file) in [
            ("--tls-cert-file", &files.certificate),
            ("--tls-private-key-file", &files.key),
            ("--client-ca-file", &files.client_authorities),
            // Any key will do that comes with a certificate: of a bare one it takes no public half.
            ("--service-account-key-file", &files.certificate),
            ("--service-account-signing-key-file", &files.key),
        ] {
            server.arg(flag).arg(file);
        }
        server.args(&files.arguments);
        cluster.spawn(server);

        let log = cluster.log("kube-apiserver");
        eventually("the real server is ready", PATIENCE, || async {
            ready(address).await.map_err(|seen| format!("{seen}\n{}", end_of(&log)))
        })
        .await;
        cluster
    }

    /// Starts a kube-controller-manager beside it, which is whom the kubeconfig says and has further `arguments`. It is not
    /// waited for.
    ///
    /// # Panics
    ///
    /// If the program cannot be started.
    pub fn start_controller_manager(&mut self, kubeconfig: &Path, arguments: &[&str]) {
        let mut manager = self.component("kube-controller-manager", kubeconfig);
        manager.arg("--root-ca-file").arg(&self.setup.client_authorities);
        manager.arg("--service-account-private-key-file").arg(&self.setup.key);
        manager.args(arguments);
        self.spawn(manager);
    }

    /// Starts a kube-scheduler beside it, which is whom the kubeconfig says. It is not waited for.
    ///
    /// # Panics
    ///
    /// If the program cannot be started.
    pub fn start_scheduler(&mut self, kubeconfig: &Path) {
        let scheduler = self.component("kube-scheduler", kubeconfig);
        self.spawn(scheduler);
    }

    /// Where the API server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What clients connect to.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// The last that a program said.
    pub fn last_words(&self, program: &str) -> String {
        end_of(&self.log(program))
    }

    fn component(&self, name: &str, kubeconfig: &Path) -> Command {
        let mut command = self.program(name);
        for flag in ["--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"] {
            command.arg(flag).arg(kubeconfig);
        }
        let port = process::free_port().to_string();
        command.args(["--bind-address", "127.0.0.1", "--secure-port", &port, "--leader-elect=false"]);
        // As soon as a test asks for something, not when others have had their turn.
        command.args(["--kube-api-qps", "1000", "--kube-api-burst", "2000"]);
        command
    }

    /// A program that writes into a file, knows nothing of this environment, and ends with the test process.
    fn program(&self, name: &str) -> Command {
        let log = self.log(name);
        let log = fs::File::create(&log).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(self.programs.program(name));
        let errors = log.try_clone().expect("a file has room for one more descriptor");
        command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        command
    }

    fn spawn(&mut self, command: Command) {
        let program = format!("{command:?}");
        let running = Running::spawn(command).unwrap_or_else(|error| panic!("{program}: {error}"));
        self.running.insert(0, running);
    }

    fn log(&self, program: &str) -> PathBuf {
        self.folder.join(program).with_extension("log")
    }
}

fn end_of(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
