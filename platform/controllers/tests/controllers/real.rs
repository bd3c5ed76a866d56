//! A real etcd and kube-apiserver, without its controller manager: the controllers are ours.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use k8s_openapi::api::core::v1::Namespace;
use kube::config::{KubeConfigOptions, Kubeconfig as ClientConfig};
use kube::{Api, Client};
use pilothouse_pki::{Authority, AuthorityRequest, Bundle, Credential, Kubeconfig, LeafRequest, Subject};
use pilothouse_runtime::Clock;
use pilothouse_test_support::process::{self, Running};
use pilothouse_test_support::upstream::Upstream;
use tempfile::TempDir;

use crate::support::eventually;

/// The server is killed before its store.
pub(crate) struct Real {
    url: String,
    authority: Authority,
    _server: Running,
    _etcd: Running,
    _folder: TempDir,
}

impl Real {
    pub(crate) async fn start(upstream: &Upstream) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let clock = Clock::system();
        let request = AuthorityRequest::new(Subject::try_new("test cluster").unwrap());
        let authority = Authority::self_signed(&request, &clock).unwrap();
        Bundle::from(authority.certificate()).write(&path("ca.crt")).unwrap();
        let names = ["localhost", "127.0.0.1"].map(|name| name.parse().unwrap());
        let serving = LeafRequest::server(Subject::try_new("kube-apiserver").unwrap(), names);
        let serving = authority.issue(&serving, &clock).unwrap();
        serving.write(&path("apiserver.crt"), &path("apiserver.key")).unwrap();

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
        let mut server = program(&upstream.program("kube-apiserver"), &path("server.log"));
        server
            .args(["--etcd-servers", &etcd_url, "--bind-address", "127.0.0.1"])
            .args(["--secure-port", &port.to_string(), "--advertise-address", "127.0.0.1"])
            .args(["--service-account-issuer", "https://kubernetes.default.svc"])
            .args(["--authorization-mode", "Node,RBAC", "--service-cluster-ip-range", "10.96.0.0/16"])
            // Pods are made before anybody makes accounts, and the loopback is no place for the Service `kubernetes`.
            .args(["--disable-admission-plugins", "ServiceAccount", "--endpoint-reconciler-type", "none"]);
        for (flag, file) in [
            ("--tls-cert-file", "apiserver.crt"),
            ("--tls-private-key-file", "apiserver.key"),
            ("--client-ca-file", "ca.crt"),
            ("--service-account-key-file", "apiserver.crt"),
            ("--service-account-signing-key-file", "apiserver.key"),
        ] {
            server.arg(flag).arg(path(file));
        }
        let server = Running::spawn(server).unwrap();
        let url = format!("https://127.0.0.1:{port}");
        let real = Self { url, authority, _server: server, _etcd: etcd, _folder: folder };
        let namespaces: Api<Namespace> = Api::all(real.client("admin", &["system:masters"]).await);
        eventually("the real server is ready", || async {
            let found = namespaces.get("default").await;
            found
                .map(drop)
                .map_err(|error| format!("{error}\n{}", end_of(&real._folder.path().join("server.log"))))
        })
        .await;
        real
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    pub(crate) async fn client(&self, user: &str, groups: &[&str]) -> Client {
        let subject = Subject::try_new(user).unwrap().with_organizations(groups.iter().copied()).unwrap();
        let identity = self.authority.issue(&LeafRequest::client(subject), &Clock::system()).unwrap();
        let config = Kubeconfig {
            cluster: "test",
            user,
            context: "test",
            server: &self.url,
            tls_server_name: None,
            authorities: &Bundle::from(self.authority.certificate()),
            namespace: None,
            credential: Credential::Certificate(&identity),
        };
        let config = ClientConfig::from_yaml(&config.to_yaml().unwrap()).unwrap();
        let config =
            kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }
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
