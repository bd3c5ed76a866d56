//! The servers: `pilothouse kube-apiserver`, and etcd with kube-apiserver, with the same certificates. The others of a control
//! plane may be beside the latter.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use http::StatusCode;
use pilothouse_pki::{AlternativeName, Identity};
use pilothouse_region::Credentials;
use pilothouse_runtime::Clock;
use pilothouse_test_support::process::{Running, free_port};
use pilothouse_test_support::upstream::{self, Upstream};
use tokio::time::{Instant, sleep};

use super::connection::{Caller, Connection, Request};
use crate::harness::{Folder, Memory, Program, Size};

/// How long a server may take to be ready.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often to look whether it is. What takes seconds is looked at less often: each look costs it a handshake.
const LOOK: Duration = Duration::from_millis(2);
const LOOK_SELDOM: Duration = Duration::from_millis(10);
/// Between two readings of memory; and how far two may differ and be equal, as a share.
const PAUSE: Duration = Duration::from_millis(500);
const EQUAL: f64 = 0.005;

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Ours, with or without controllers.
    Ours { controllers: bool },
    /// etcd and kube-apiserver.
    Real,
    /// The same with kube-controller-manager and kube-scheduler.
    Whole,
}

/// What servers are started from.
pub(crate) struct Site<'a> {
    pub(crate) program: &'a Program,
    pub(crate) upstream: Option<&'a Upstream>,
    pub(crate) folder: &'a Folder,
    credentials: Credentials,
    administrator: Identity,
    certificates: Certificates,
    caller: Caller,
}

struct Certificates {
    certificate: PathBuf,
    key: PathBuf,
    authorities: PathBuf,
}

/// A server that is ready. Dropping it kills it.
pub(crate) struct Server {
    caller: Caller,
    address: SocketAddr,
    /// From the start of the first process.
    pub(crate) ready_after: Duration,
    /// The server before its store.
    processes: Vec<Running>,
}

impl<'a> Site<'a> {
    pub(crate) fn new(
        program: &'a Program,
        upstream: Option<&'a Upstream>,
        folder: &'a Folder,
    ) -> anyhow::Result<Self> {
        let credentials = Credentials::open(&folder.path().join("certificates"), Clock::system())?;
        let names = [
            AlternativeName::Ip(Ipv4Addr::LOCALHOST.into()),
            AlternativeName::dns("localhost")?,
            AlternativeName::dns("kubernetes")?,
        ];
        let serving = credentials.server("serving", names)?;
        let (_, identity) = credentials.client("administrator", "administrator", &["system:masters"])?;
        let caller = Caller::try_new(&identity, &credentials.authority_file())?;
        let certificates = Certificates {
            certificate: serving.certificate,
            key: serving.key,
            authorities: credentials.authority_file(),
        };
        Ok(Self { program, upstream, folder, credentials, administrator: identity, certificates, caller })
    }

    /// Starts a server on a store of its own, and waits until it says that it is ready.
    pub(crate) async fn start(&self, kind: Kind, name: &str) -> anyhow::Result<Server> {
        let data = self.folder.path().join(name);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let commands = match kind {
            Kind::Ours { controllers } => vec![self.ours(&data, address, controllers)?],
            Kind::Real => self.real(&data, address)?,
            Kind::Whole => {
                let mut commands = self.real(&data, address)?;
                commands.extend(self.beside(&data, address)?);
                commands
            }
        };
        let look = if matches!(kind, Kind::Ours { .. }) { LOOK } else { LOOK_SELDOM };
        let start = Instant::now();
        let mut processes = Vec::new();
        for command in commands {
            processes.push(Running::spawn(command).context("a server cannot be started")?);
        }
        processes.reverse();
        let mut server =
            Server { caller: self.caller.clone(), address, ready_after: Duration::ZERO, processes };
        while !server.is_ready().await {
            let ended = |process: &mut Running| !matches!(process.child().try_wait(), Ok(None));
            if start.elapsed() > PATIENCE || server.processes.iter_mut().any(ended) {
                bail!("{name} is not ready; it said:\n{}", said(&data));
            }
            sleep(look).await;
        }
        server.ready_after = start.elapsed();
        Ok(server)
    }

    fn ours(&self, data: &Path, address: SocketAddr, controllers: bool) -> anyhow::Result<Command> {
        let Certificates { certificate, key, authorities } = &self.certificates;
        let mut command = logged(self.program.path(), &data.with_extension("log"))?;
        command
            .arg("kube-apiserver")
            .arg("--data-dir")
            .arg(data)
            .args(["--listen", &address.to_string(), "--kubernetes-version", upstream::version()])
            .arg(format!("--with-controllers={controllers}"))
            .arg("--tls-cert-file")
            .arg(certificate)
            .arg("--tls-private-key-file")
            .arg(key)
            .arg("--root-ca-file")
            .arg(authorities)
            .arg("--client-ca-file")
            .arg(authorities);
        Ok(command)
    }

    /// The store first. It flushes every write, as ours does.
    fn real(&self, data: &Path, address: SocketAddr) -> anyhow::Result<Vec<Command>> {
        let programs = self.upstream.context("the real programs are not here")?;
        let Certificates { certificate, key, authorities } = &self.certificates;
        let (client, peer) = (loopback(free_port()), loopback(free_port()));
        let mut etcd = logged(&programs.program("etcd"), &data.with_extension("etcd.log"))?;
        etcd.env_clear()
            .arg("--data-dir")
            .arg(data)
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")]);
        let mut server = logged(&programs.program("kube-apiserver"), &data.with_extension("log"))?;
        server
            .env_clear()
            .args(["--etcd-servers", &client, "--bind-address", "127.0.0.1"])
            .args(["--secure-port", &address.port().to_string(), "--advertise-address", "127.0.0.1"])
            .arg("--tls-cert-file")
            .arg(certificate)
            .arg("--tls-private-key-file")
            .arg(key)
            .arg("--client-ca-file")
            .arg(authorities)
            // Any key will do that comes with a certificate: of a bare one it takes no public half.
            .arg("--service-account-key-file")
            .arg(certificate)
            .arg("--service-account-signing-key-file")
            .arg(key)
            .args(["--service-account-issuer", "https://kubernetes.default.svc"])
            .args(["--authorization-mode", "Node,RBAC", "--anonymous-auth=false"])
            .args(["--service-cluster-ip-range", "10.96.0.0/16", "--endpoint-reconciler-type", "none"]);
        Ok(vec![etcd, server])
    }

    /// Those who are clients of the server.
    fn beside(&self, data: &Path, address: SocketAddr) -> anyhow::Result<Vec<Command>> {
        let programs = self.upstream.context("the real programs are not here")?;
        let kubeconfig = data.with_extension("kubeconfig");
        self.credentials.kubeconfig(
            &kubeconfig,
            &format!("https://{address}"),
            "administrator",
            &self.administrator,
        )?;
        let component = |name: &str| {
            let mut command = logged(&programs.program(name), &data.with_extension(format!("{name}.log")))?;
            command.env_clear();
            for flag in ["--kubeconfig", "--authentication-kubeconfig", "--authorization-kubeconfig"] {
                command.arg(flag).arg(&kubeconfig);
            }
            let port = free_port().to_string();
            command.args(["--bind-address", "127.0.0.1", "--secure-port", &port, "--leader-elect=false"]);
            anyhow::Ok(command)
        };
        let mut controllers = component("kube-controller-manager")?;
        controllers
            .arg("--root-ca-file")
            .arg(&self.certificates.authorities)
            .arg("--service-account-private-key-file")
            .arg(&self.certificates.key)
            .arg("--use-service-account-credentials");
        Ok(vec![controllers, component("kube-scheduler")?])
    }
}

impl Server {
    pub(super) async fn connect(&self) -> anyhow::Result<Connection> {
        self.caller.connect(self.address).await
    }

    async fn is_ready(&self) -> bool {
        let asked = async {
            let mut connection = self.connect().await?;
            connection.call(&Request::get("/readyz")).await
        };
        asked.await.is_ok_and(|answer| answer.status == StatusCode::OK)
    }

    /// The memory of all its processes once two readings are equal, and whether that came to be: a server that never
    /// rests is measured all the same.
    pub(super) async fn memory_at_rest(&self, size: Size) -> anyhow::Result<(Memory, bool)> {
        let patience = size.pick(Duration::from_secs(20), Duration::from_secs(1));
        let ids = self.ids()?;
        let start = Instant::now();
        let mut last = Memory::of(&ids)?;
        loop {
            sleep(PAUSE).await;
            let now = Memory::of(&ids)?;
            let settled = (now.total - last.total).abs() <= now.total * EQUAL;
            if settled || start.elapsed() > patience {
                return Ok((now, settled));
            }
            last = now;
        }
    }

    /// Its processes.
    pub(crate) fn ids(&self) -> anyhow::Result<Vec<i32>> {
        let ids = self.processes.iter().map(|process| i32::try_from(process.id()));
        Ok(ids.collect::<Result<_, _>>()?)
    }

    /// Ends it at once, the server before its store.
    pub(crate) fn stop(self) {
        for process in self.processes {
            process.kill();
        }
    }
}

fn loopback(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// A program that writes into a file.
fn logged(program: &Path, log: &Path) -> anyhow::Result<Command> {
    let log = File::create(log)?;
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(command)
}

fn said(data: &Path) -> String {
    let text = fs::read_to_string(data.with_extension("log")).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
