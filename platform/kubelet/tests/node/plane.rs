//! Whole control planes: an API server, controllers and a scheduler, once all ours and once all real. Each is started when
//! the first scenario wants it, and serves all of them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use pilothouse_kubelet::{Config, Tls};
use pilothouse_kubelet_api::Dialer;
use pilothouse_runtime::{Clock, OnExit, Shutdown, Tasks};
use pilothouse_test_support::upstream::{self, Upstream};
use prometheus_client::registry::Registry;
use tempfile::TempDir;

use crate::support::{Certificates, ToNodes, connect, ours, serve_host_socket};
use crate::{kubectl, real};

/// How long a node may be silent. Kubelets renew their lease every ten seconds; a machine that is busy for thirty has none
/// of its nodes called dead.
pub(crate) const NODE_GRACE: Duration = Duration::from_secs(40);

/// Whose programs a plane is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ours,
    Real,
}

pub(crate) struct Plane {
    upstream: Upstream,
    certificates: Certificates,
    nodes: ToNodes,
    url: String,
    folder: PathBuf,
    next_node: AtomicU8,
    /// What has to be ended before the process: the servers first, their folder last.
    ends: Mutex<Option<(Option<upstream::Cluster>, TempDir)>>,
    _runtime: tokio::runtime::Runtime,
}

static PLANES: [OnceLock<Option<Plane>>; 2] = [const { OnceLock::new() }; 2];

impl Kind {
    pub(crate) const BOTH: [Self; 2] = [Self::Ours, Self::Real];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Real => "real",
        }
    }

    /// The plane of this kind. `None` means that the test was noted as skipped and should return. Not from within a runtime.
    pub(crate) fn plane(self) -> Option<&'static Plane> {
        let place = &PLANES[self as usize];
        place.get_or_init(|| Upstream::find().map(|upstream| Plane::start(self, upstream))).as_ref()
    }
}

/// Ends what was started, and removes what it wrote.
pub(crate) fn end_all() {
    for plane in PLANES.iter().filter_map(|place| place.get()?.as_ref()) {
        drop(plane.ends.lock().unwrap().take());
    }
}

impl Plane {
    fn start(kind: Kind, upstream: Upstream) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().to_owned();
        let (certificates, nodes) = (Certificates::new(&folder), ToNodes::default());
        let (url, servers) =
            runtime.block_on(serve(kind, &upstream, &certificates, folder.clone(), nodes.clone()));
        Self {
            upstream,
            certificates,
            nodes,
            url,
            folder,
            next_node: AtomicU8::new(1),
            ends: Mutex::new(Some((servers, directory))),
            _runtime: runtime,
        }
    }

    /// What a user shows to the API server, in a file.
    pub(crate) fn kubeconfig(&self, user: &str, groups: &[&str]) -> PathBuf {
        let path = self.folder.join(format!("{}.kubeconfig", user.replace(':', "-")));
        write_kubeconfig(&self.certificates, &path, &self.url, user, groups);
        path
    }

    /// A kubectl of somebody.
    pub(crate) fn kubectl(&self, user: &str, groups: &[&str]) -> kubectl::Kubectl {
        kubectl::Kubectl {
            program: self.upstream.program("kubectl"),
            kubeconfig: self.kubeconfig(user, groups),
            home: self.folder.join("home"),
            speaks: kubectl::Speaks::WebSockets,
        }
    }

    pub(crate) async fn client(&self) -> kube::Client {
        connect(&std::fs::read_to_string(self.kubeconfig("admin", &["system:masters"])).unwrap()).await
    }

    /// The folder of a volume that was made for a claim.
    pub(crate) fn volume(&self, name: &str) -> PathBuf {
        self.folder.join("volumes").join(name)
    }

    /// What a further node is told. Its addresses are its own.
    pub(crate) fn node(&self, name: &str) -> Config {
        let number = self.next_node.fetch_add(1, Ordering::Relaxed);
        let path = |part: &str| self.folder.join(format!("n{number}{part}"));
        // The node may do everything here: what it may do elsewhere is the business of the API server's tests.
        let kubeconfig = path(".kubeconfig");
        let user = format!("system:node:{name}");
        write_kubeconfig(&self.certificates, &kubeconfig, &self.url, &user, &["system:masters"]);
        let (certificate, key) = self.certificates.server(name, &[name, &format!("10.{number}.0.1")]);
        let socket = path(".sock");
        self.nodes.insert([10, number], Dialer::new(socket.clone()));
        Config {
            node_name: name.to_owned(),
            root: path(""),
            kubeconfig,
            host_socket: Some(self.folder.join("host.sock")),
            node_socket: Some(socket),
            pod_range: Some(format!("10.{number}.0.0/16")),
            volume_root: Some(self.folder.join("volumes")),
            tls: Some(Tls { certificate, key, client_authorities: self.folder.join("ca.crt") }),
            ..Config::default()
        }
    }
}

fn write_kubeconfig(
    certificates: &Certificates,
    path: &std::path::Path,
    url: &str,
    user: &str,
    groups: &[&str],
) {
    let text = certificates.kubeconfig(&certificates.client(user, groups), url, None);
    // Scenarios write the same at the same time, and nobody should read half of it.
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap()).unwrap();
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    file.persist(path).unwrap();
}

/// Starts all parts. They run on the runtime this is called on.
async fn serve(
    kind: Kind,
    upstream: &Upstream,
    certificates: &Certificates,
    folder: PathBuf,
    nodes: ToNodes,
) -> (String, Option<upstream::Cluster>) {
    let tasks = Tasks::new("plane", Shutdown::new());
    let pair = certificates.server("apiserver", &["localhost", "127.0.0.1"]);
    let (address, mut servers) = match kind {
        Kind::Ours => (ours(certificates, &tasks, pair, nodes).await, None),
        Kind::Real => {
            let real = real::start(upstream, certificates, &folder, &tasks, nodes, true).await;
            (real.address(), Some(real))
        }
    };
    serve_host_socket(&tasks, folder.join("host.sock"), address);
    let url = format!("https://{address}");
    let admin = folder.join("controllers.kubeconfig");
    write_kubeconfig(certificates, &admin, &url, "controllers", &["system:masters"]);
    if let Some(servers) = &mut servers {
        let grace = format!("{}s", NODE_GRACE.as_secs());
        let arguments = ["--node-monitor-grace-period", &grace, "--node-monitor-period", "2s"];
        servers.start_controller_manager(&admin, &arguments);
        servers.start_scheduler(&admin);
    }
    let everything = pilothouse_controllers::Config { node_grace: NODE_GRACE.into(), ..Default::default() };
    let config = match kind {
        Kind::Ours => everything,
        // Folders for claims are ours to make on any cluster.
        Kind::Real => pilothouse_controllers::Config::volumes_only(),
    };
    let deps = pilothouse_controllers::Deps {
        client: connect(&std::fs::read_to_string(&admin).unwrap()).await,
        clock: Clock::system(),
        root_authority_pem: certificates.bundle().to_pem(),
        signing_authority: None,
        server: None,
        volume_root: Some(folder.join("volumes")),
        registry: &mut Registry::default(),
    };
    let service = pilothouse_controllers::Service::build(config, deps).await.unwrap();
    let shutdown = tasks.shutdown().clone();
    tasks.spawn("controllers", OnExit::StopProcess, async move { Ok(service.run(shutdown).await?) });
    (url, servers)
}
