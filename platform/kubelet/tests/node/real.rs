//! A real etcd and kube-apiserver, which reach the node as ours does: through its socket.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use pilothouse_kubelet_api::Dialer;
use pilothouse_runtime::{OnExit, Tasks};
use pilothouse_test_support::eventually;
use pilothouse_test_support::process::{self, Running};
use pilothouse_test_support::upstream::Upstream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

use crate::support::{Certificates, connect};

/// Four seconds on two idle cores.
const PATIENCE: Duration = Duration::from_secs(120);

/// The server is killed before its store.
pub(crate) struct Real {
    pub(crate) address: SocketAddr,
    _server: Running,
    _etcd: Running,
}

impl Real {
    pub(crate) async fn start(
        upstream: &Upstream,
        certificates: &Certificates,
        folder: &Path,
        tasks: &Tasks,
    ) -> Self {
        let path = |name: &str| folder.join(name);
        let (etcd_port, peer_port, port) = (process::free_port(), process::free_port(), process::free_port());
        let etcd_url = format!("http://127.0.0.1:{etcd_port}");
        let peer_url = format!("http://127.0.0.1:{peer_port}");
        let mut etcd = program(&upstream.program("etcd"), &path("etcd.log"));
        etcd.arg("--data-dir")
            .arg(path("etcd"))
            .args(["--listen-client-urls", &etcd_url, "--advertise-client-urls", &etcd_url])
            .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &format!("default={peer_url}")])
            // Nobody needs the data after the test.
            .arg("--unsafe-no-fsync");
        let etcd = Running::spawn(etcd).unwrap();

        let listener = UnixListener::bind(path("egress.sock")).unwrap();
        let dialer = Dialer::new(path("node.sock"));
        let relaying = tasks.clone();
        tasks.spawn("egress", OnExit::StopProcess, async move {
            loop {
                let (stream, _) = listener.accept().await?;
                let dialer = dialer.clone();
                relaying.spawn("relay", OnExit::Expendable, async move { Ok(relay(stream, &dialer).await?) });
            }
        });
        let egress = format!(
            "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n\
             - {{name: cluster, connection: {{proxyProtocol: HTTPConnect, transport: {{uds: {{udsName: {}}}}}}}}}\n",
            path("egress.sock").display()
        );
        fs::write(path("egress.yaml"), egress).unwrap();

        let identity = certificates.client("kube-apiserver-kubelet-client", &[]);
        identity.write(&path("to-kubelet.crt"), &path("to-kubelet.key")).unwrap();
        let mut server = program(&upstream.program("kube-apiserver"), &path("server.log"));
        server
            .args(["--etcd-servers", &etcd_url, "--bind-address", "127.0.0.1"])
            .args(["--secure-port", &port.to_string(), "--advertise-address", "127.0.0.1"])
            .args(["--service-account-issuer", "https://kubernetes.default.svc"])
            .args(["--authorization-mode", "Node,RBAC", "--anonymous-auth=false"])
            .arg("--enable-bootstrap-token-auth")
            .args(["--service-cluster-ip-range", "10.96.0.0/16"])
            .args(["--kubelet-preferred-address-types", "InternalIP"])
            // Nobody makes service accounts here, and the loopback is no place for the Service `kubernetes`.
            .args(["--disable-admission-plugins", "ServiceAccount", "--endpoint-reconciler-type", "none"]);
        for (flag, file) in [
            ("--tls-cert-file", "apiserver.crt"),
            ("--tls-private-key-file", "apiserver.key"),
            ("--client-ca-file", "ca.crt"),
            ("--service-account-key-file", "apiserver.crt"),
            ("--service-account-signing-key-file", "apiserver.key"),
            ("--kubelet-certificate-authority", "ca.crt"),
            ("--kubelet-client-certificate", "to-kubelet.crt"),
            ("--kubelet-client-key", "to-kubelet.key"),
            ("--egress-selector-config-file", "egress.yaml"),
        ] {
            server.arg(flag).arg(path(file));
        }
        let server = Running::spawn(server).unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let admin = certificates.client("admin", &["system:masters"]);
        let client = connect(&certificates.kubeconfig(&admin, &format!("https://{address}"), None)).await;
        let namespaces: Api<Namespace> = Api::all(client);
        eventually("the real server is ready", PATIENCE, || async {
            let found = namespaces.get("default").await;
            found.map(drop).map_err(|error| format!("{error}\n{}", end_of(&path("server.log"))))
        })
        .await;
        Self { address, _server: server, _etcd: etcd }
    }
}

/// The part of the real controller manager that answers requests for certificates.
pub(crate) fn signers(upstream: &Upstream, certificates: &Certificates, folder: &Path) -> Running {
    let path = |name: &str| folder.join(name);
    certificates.authority().identity().write(&path("ca.crt"), &path("ca.key")).unwrap();
    let mut manager = program(&upstream.program("kube-controller-manager"), &path("manager.log"));
    manager
        .arg("--kubeconfig")
        .arg(path("admin.kubeconfig"))
        .args(["--controllers", "certificatesigningrequest-approving-controller"])
        .args(["--controllers", "certificatesigningrequest-signing-controller"])
        .args(["--leader-elect=false", "--bind-address", "127.0.0.1"])
        .args(["--secure-port", &process::free_port().to_string()])
        .arg("--cluster-signing-cert-file")
        .arg(path("ca.crt"))
        .arg("--cluster-signing-key-file")
        .arg(path("ca.key"));
    Running::spawn(manager).unwrap()
}

/// One connection for the server, which says where to.
async fn relay(mut near: UnixStream, dialer: &Dialer) -> std::io::Result<()> {
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        asked.push(near.read_u8().await?);
    }
    let asked = String::from_utf8_lossy(&asked);
    let address = asked.split_whitespace().nth(1).and_then(|address| address.parse().ok());
    let address = address.ok_or(std::io::ErrorKind::InvalidInput)?;
    let mut far = dialer.connect(address).await?;
    near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    tokio::io::copy_bidirectional(&mut near, &mut far).await?;
    Ok(())
}

fn end_of(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// A program that writes into a file, and knows nothing of this environment.
fn program(program: &Path, log: &Path) -> Command {
    let log = fs::File::create(log).unwrap();
    let mut command = Command::new(program);
    command.env_clear().stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    command
}
