//! A management cluster whose parts are processes of their own, each of which may be killed: a Kubernetes API, ours or a real
//! one, our kubelet as its node, and our operators on it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use k8s_openapi::api::core::v1::Namespace;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use pilothouse_pki::{Authority, AuthorityRequest, Bundle, Credential, LeafRequest, Subject};
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use pilothouse_test_support::eventually;
use pilothouse_test_support::process::{self, Running};
use pilothouse_test_support::requirement::Requirement;
use pilothouse_test_support::upstream::{Cluster, Setup, Upstream};
use prometheus_client::registry::Registry;
use tempfile::TempDir;

use crate::aftermath;
use crate::region::{LIMIT, program, result};

/// The class of volumes that there is.
pub(crate) const CLASS: &str = "folders";

/// Whoever makes hosted clusters and their nodes of what people apply.
pub(crate) const OPERATORS: [&str; 3] = ["hypershift-operator", "virt-controller", "multicluster-engine"];

/// What an administrator of such a cluster has: a class for volumes, and the engine.
const FURNITURE: &str = "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: folders
provisioner: pilothouse.dev/local
volumeBindingMode: Immediate
---
apiVersion: multicluster.openshift.io/v1
kind: MultiClusterEngine
metadata:
  name: multiclusterengine
spec: {}
";

/// A management cluster, and our operators on it.
pub(crate) struct Management {
    folder: TempDir,
    kubectl: PathBuf,
    /// The kubeconfig of an administrator.
    admin: PathBuf,
    programs: Vec<Program>,
    servers: Option<Cluster>,
    tasks: Tasks,
}

/// One of our programs.
struct Program {
    verb: &'static str,
    arguments: Vec<String>,
    /// Where its pages are.
    pages: Option<SocketAddr>,
    process: Option<Running>,
}

// === impl Management ===

impl Management {
    /// One with our API server, controllers and scheduler. `None`, and said so, where `kubectl` is missing.
    pub(crate) async fn ours() -> Option<Self> {
        let kubectl = Requirement::new("kubectl", "kubernetes-client").find()?;
        let folder = tempfile::Builder::new().prefix("ours").tempdir().unwrap();
        let data = folder.path().join("api");
        let mut management = Self::empty(folder, kubectl, data.join("kubeconfig"));
        let address = SocketAddr::from(([127, 0, 0, 1], process::free_port()));
        let (address, volumes) = (address.to_string(), management.path("volumes"));
        let arguments = ["--listen", &address, "--data-dir", data.to_str().unwrap()];
        let volumes = ["--volume-root", volumes.to_str().unwrap()];
        management.add("kube-apiserver", &[arguments.as_slice(), &volumes].concat(), None);
        management.answers().await;
        let kubeconfig = management.admin.clone();
        management.furnish(&kubeconfig).await;
        Some(management)
    }

    /// One with the programs of upstream.
    pub(crate) async fn real(upstream: Upstream) -> Self {
        let folder = tempfile::Builder::new().prefix("real").tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let request = AuthorityRequest::new(Subject::try_new("test cluster").unwrap());
        let authority = Authority::self_signed(&request, &Clock::system()).unwrap();
        Bundle::from(authority.certificate()).write(&path("ca.crt")).unwrap();
        let names = ["localhost", "127.0.0.1"].map(|name| name.parse().unwrap());
        let serving = LeafRequest::server(Subject::try_new("apiserver").unwrap(), names);
        let serving = authority.issue(&serving, &Clock::system()).unwrap();
        serving.write(&path("apiserver.crt"), &path("apiserver.key")).unwrap();
        let setup = Setup {
            folder: folder.path().to_owned(),
            certificate: path("apiserver.crt"),
            key: path("apiserver.key"),
            client_authorities: path("ca.crt"),
            // A node inside a pod makes namespaces and mounts of its own.
            arguments: vec!["--allow-privileged=true".into()],
        };
        let mut servers = Cluster::start(&upstream, setup, |address| {
            let kubeconfig = kubeconfig(&authority, address, "admin");
            async move {
                let namespaces: Api<Namespace> = Api::all(connect(&kubeconfig).await);
                namespaces.get("default").await.map(drop).map_err(|error| error.to_string())
            }
        })
        .await;
        for user in ["admin", "system:node:here", "controllers"] {
            let file = path(&format!("{}.kubeconfig", user.replace(':', "-")));
            fs::write(file, kubeconfig(&authority, servers.address(), user)).unwrap();
        }
        servers.start_controller_manager(&path("controllers.kubeconfig"), &[]);
        servers.start_scheduler(&path("controllers.kubeconfig"));
        let (admin, node) = (path("admin.kubeconfig"), path("system-node-here.kubeconfig"));
        let mut management = Self::empty(folder, upstream.program("kubectl"), admin);
        management.servers = Some(servers);
        volumes(management.client().await, management.path("volumes"), &management.tasks).await;
        management.furnish(&node).await;
        management
    }

    fn empty(folder: TempDir, kubectl: PathBuf, admin: PathBuf) -> Self {
        let tasks = Tasks::new("volumes", Shutdown::new());
        Self { folder, kubectl, admin, programs: Vec::new(), servers: None, tasks }
    }

    /// Everything but the API server: a node that is ready, and operators with something to do.
    async fn furnish(&mut self, node: &Path) {
        self.add_kubelet(node);
        let ready = ["wait", "node/here", "--for=condition=Ready", "--timeout=1s"];
        self.eventually("the node is ready", &ready, |_| true).await;
        self.add_operators();
        let manifest = self.path("furniture.yaml");
        fs::write(&manifest, FURNITURE).unwrap();
        // The definitions are made by whichever operator comes first.
        let apply = ["apply", "-f", manifest.to_str().unwrap()];
        self.eventually("the engine is there", &apply, |_| true).await;
        let phase = ["get", "mce", "multiclusterengine", "-o", "jsonpath={.status.phase}"];
        self.eventually("the engine is available", &phase, |phase| phase == "Available").await;
    }

    fn add_kubelet(&mut self, kubeconfig: &Path) {
        let text = format!(
            "node_name = \"here\"\nroot = {:?}\nnode_socket = {:?}\nvolume_root = {:?}\n\
             program = {:?}\npod_range = \"10.200.0.0/16\"\nallow_host_path = true\nisolation = \"namespace\"\n",
            self.root(),
            self.path("node.sock"),
            self.path("volumes"),
            program(),
        );
        let config = self.write_config("kubelet", &text);
        let kubeconfig = kubeconfig.to_str().unwrap();
        self.add("kubelet", &["--config", &config, "--kubeconfig", kubeconfig], None);
    }

    /// Each in a process of its own.
    fn add_operators(&mut self) {
        let gateway = SocketAddr::from(([127, 0, 0, 1], process::free_port()));
        let listen = format!("[service]\nlisten = \"{gateway}\"\n");
        let socket = self.path("node.sock");
        self.add_operator("gateway", &listen, &["--node-socket", socket.to_str().unwrap()]);
        for verb in OPERATORS {
            let publish = format!("[service]\npublish_address = \"{gateway}\"\nnode_socket = {socket:?}\n");
            self.add_operator(verb, if verb == "hypershift-operator" { &publish } else { "" }, &[]);
        }
    }

    pub(crate) fn add_operator(&mut self, verb: &'static str, config: &str, arguments: &[&str]) {
        let pages = SocketAddr::from(([127, 0, 0, 1], process::free_port()));
        let config = self.write_config(verb, &format!("[metrics]\naddress = \"{pages}\"\n{config}"));
        let kubeconfig = self.admin.to_str().unwrap().to_owned();
        let usual = ["--config", &config, "--kubeconfig", &kubeconfig];
        self.add(verb, &[&usual[..], arguments].concat(), Some(pages));
    }

    pub(crate) fn write_config(&self, verb: &str, text: &str) -> String {
        let file = self.path(&format!("{verb}.toml"));
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    }

    pub(crate) fn add(&mut self, verb: &'static str, arguments: &[&str], pages: Option<SocketAddr>) {
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        self.programs.push(Program { verb, arguments, pages, process: None });
        self.start(verb);
    }

    /// Starts a program that does not run, or no longer.
    pub(crate) fn start(&mut self, verb: &str) {
        self.start_with(verb, &[]);
    }

    /// The same, with these in its environment.
    pub(crate) fn start_with(&mut self, verb: &str, variables: &[(&str, &str)]) {
        let log = self.path(&format!("{verb}.log"));
        let log = fs::File::options().create(true).append(true).open(log).unwrap();
        let known = self.programs.iter_mut().find(|known| known.verb == verb).unwrap();
        let mut command = Command::new(program());
        command.arg(verb).args(&known.arguments).args(["--log", "info,kube_client=off"]);
        command.envs(variables.iter().copied());
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        known.process = Some(Running::spawn(command).unwrap());
    }

    /// Starts a program that does not run with a kubeconfig of its own from now on.
    pub(crate) fn start_as(&mut self, verb: &str, kubeconfig: &Path) {
        let known = self.programs.iter_mut().find(|known| known.verb == verb).unwrap();
        let place = known.arguments.iter().position(|argument| argument == "--kubeconfig").unwrap();
        known.arguments[place + 1] = kubeconfig.to_str().unwrap().to_owned();
        self.start(verb);
    }

    /// What a program has written.
    pub(crate) fn log(&self, verb: &str) -> String {
        fs::read_to_string(self.path(&format!("{verb}.log"))).unwrap_or_default()
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self, verb: &str) {
        let known = self.programs.iter_mut().find(|known| known.verb == verb).unwrap();
        known.process.take().unwrap().kill();
    }

    /// The machine is lost, with every process and every pod of its node.
    pub(crate) fn lose(&mut self) {
        for program in &mut self.programs {
            drop(program.process.take());
        }
        pilothouse_kubelet::remove(&self.root()).unwrap();
    }

    /// The process of a program that runs.
    pub(crate) fn process(&mut self, verb: &str) -> &mut Running {
        let known = self.programs.iter_mut().find(|known| known.verb == verb).unwrap();
        known.process.as_mut().unwrap()
    }

    /// Returns when a program has ended by itself: how, and what it has written.
    pub(crate) fn ended(&mut self, verb: &str) -> (std::process::ExitStatus, String) {
        let known = self.programs.iter_mut().find(|known| known.verb == verb).unwrap();
        let status = known.process.take().unwrap().wait().unwrap();
        (status, self.log(verb))
    }

    /// `pilothouse VERB`, until it has ended.
    pub(crate) fn pilothouse(&self, arguments: &[&str]) -> Result<String, String> {
        result(&Command::new(program()).args(arguments).output().unwrap())
    }

    /// What a program says about its health: the status, and the page.
    pub(crate) fn health(&self, verb: &str) -> Result<(u16, String), String> {
        let known = self.programs.iter().find(|known| known.verb == verb).unwrap();
        let ask = || -> std::io::Result<String> {
            let mut connection = TcpStream::connect(known.pages.unwrap())?;
            connection.set_read_timeout(Some(LIMIT))?;
            connection
                .write_all(b"GET /readyz?verbose HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n")?;
            let mut answer = String::new();
            connection.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let answer = ask().map_err(|error| format!("{verb}: {error}"))?;
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        status.map(|status| (status, answer.clone())).ok_or(answer)
    }

    /// Until the API server answers.
    pub(crate) async fn answers(&self) {
        self.eventually("the API server answers", &["get", "namespace", "default"], |_| true).await;
    }

    pub(crate) async fn client(&self) -> Client {
        connect(&fs::read_to_string(&self.admin).unwrap()).await
    }

    /// The kubeconfig of an administrator.
    pub(crate) fn admin(&self) -> &Path {
        &self.admin
    }

    pub(crate) fn hcp(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hcp-under-test"));
        command.args(arguments).env("KUBECONFIG", &self.admin);
        result(&command.current_dir(self.folder.path()).output().unwrap())
    }

    /// Writes a hosted cluster's kubeconfig to a file.
    pub(crate) fn kubeconfig(&self, namespace: &str, cluster: &str) -> PathBuf {
        let text = self.hcp(&["create", "kubeconfig", "--namespace", namespace, "--name", cluster]).unwrap();
        let file = self.path(&format!("{cluster}.kubeconfig"));
        fs::write(&file, text).unwrap();
        file
    }

    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        self.kubectl_on(&self.admin, arguments)
    }

    pub(crate) fn kubectl_on(&self, kubeconfig: &Path, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(kubeconfig).arg("--cache-dir").arg(self.path("kubectl-cache"));
        result(&command.args(arguments).output().unwrap())
    }

    /// `kubectl apply` of these documents.
    pub(crate) fn apply(&self, manifests: &str) -> Result<String, String> {
        let file = self.path("apply.yaml");
        fs::write(&file, manifests).unwrap();
        self.kubectl(&["apply", "-f", file.to_str().unwrap()])
    }

    /// Asks until the answer is right.
    pub(crate) async fn eventually(&self, what: &str, arguments: &[&str], is_right: impl Fn(&str) -> bool) {
        self.eventually_on(&self.admin, what, arguments, is_right).await;
    }

    /// The same of another cluster.
    pub(crate) async fn eventually_on(
        &self,
        kubeconfig: &Path,
        what: &str,
        arguments: &[&str],
        is_right: impl Fn(&str) -> bool,
    ) {
        eventually(what, LIMIT, || {
            let answer = self.kubectl_on(kubeconfig, arguments);
            let right = answer.as_deref().is_ok_and(&is_right);
            async move { if right { Ok(()) } else { Err(format!("{answer:?}")) } }
        })
        .await;
    }

    /// Until so many nodes of a hosted cluster are ready, and there are no others.
    pub(crate) async fn has_nodes(&self, kubeconfig: &Path, number: usize) {
        let ready = |nodes: &str| {
            nodes.lines().count() == number && nodes.lines().all(|line| line.contains(" Ready "))
        };
        self.eventually_on(kubeconfig, "the nodes are ready", &["get", "nodes", "--no-headers"], ready).await;
    }

    /// Until nothing is left of a hosted cluster: no object, no pod on the node and no volume.
    pub(crate) async fn nothing_left_of(&self, cluster: &str) {
        let left =
            ["get", "managedclusters,namespaces,pods,pv,machines,vm,vmi,nodepools", "-A", "-o", "name"];
        let furniture = |line: &str| line.starts_with("namespace/") || line.ends_with("/local-cluster");
        let gone = |left: &str| !left.contains(cluster) && left.lines().all(furniture);
        self.eventually("nothing is left of it", &left, gone).await;
        eventually("nothing is left of it on the node", LIMIT, || async {
            let left = self.left_on_node();
            if left.is_empty() { Ok(()) } else { Err(left.join(", ")) }
        })
        .await;
    }

    /// What pods have left on the node: their files, their volumes, and the processes that keep theirs.
    pub(crate) fn left_on_node(&self) -> Vec<String> {
        let pods = self.root().join("pods");
        let files = [pods.clone(), self.path("volumes")]
            .into_iter()
            .filter_map(|folder| fs::read_dir(folder).ok())
            .flatten()
            .map(|entry| entry.unwrap().path().display().to_string());
        processes_in(&pods).into_iter().chain(files).collect()
    }

    pub(crate) async fn stop(mut self) {
        self.end();
        self.tasks.shutdown().request(Reason::Asked("the story is over".to_owned()));
        self.tasks.drain(LIMIT).await.unwrap();
    }

    /// Operators first, the API server last.
    fn end(&mut self) {
        while let Some(program) = self.programs.pop() {
            drop(program.process);
        }
    }

    /// The folder of the node.
    pub(crate) fn root(&self) -> PathBuf {
        self.path("kubelet")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Management {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let logs = self.programs.iter().map(|Program { verb, .. }| {
                let log = fs::read_to_string(self.path(&format!("{verb}.log")));
                (verb.to_string(), log.unwrap_or_default())
            });
            aftermath::show(|arguments| self.kubectl(arguments), logs);
        }
        self.end();
        // What the node runs survives its kubelet, as it should.
        let _ = pilothouse_kubelet::remove(&self.root());
        drop(self.servers.take());
    }
}

/// The processes whose arguments name a folder, or something in it.
fn processes_in(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| {
            let line = fs::read(entry.ok()?.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(folder).then_some(line)
        })
        .collect()
}

/// Folders for claims, which upstream's controllers do not make.
async fn volumes(client: Client, root: PathBuf, tasks: &Tasks) {
    let deps = pilothouse_controllers::Deps {
        client,
        clock: Clock::system(),
        root_authority_pem: String::new(),
        signing_authority: None,
        server: None,
        volume_root: Some(root),
        registry: &mut Registry::default(),
    };
    let config = pilothouse_controllers::Config::volumes_only();
    let service = pilothouse_controllers::Service::build(config, deps).await.unwrap();
    let shutdown = tasks.shutdown().clone();
    tasks.spawn("controllers", OnExit::StopProcess, async move { Ok(service.run(shutdown).await?) });
}

/// What somebody who may do everything shows to the API server.
fn kubeconfig(authority: &Authority, address: SocketAddr, user: &str) -> String {
    let subject = Subject::try_new(user).unwrap().with_organizations(["system:masters"]).unwrap();
    let identity = authority.issue(&LeafRequest::client(subject), &Clock::system()).unwrap();
    let config = pilothouse_pki::Kubeconfig {
        cluster: "test",
        user: "test",
        context: "test",
        server: &format!("https://{address}"),
        tls_server_name: None,
        authorities: &Bundle::from(authority.certificate()),
        namespace: None,
        credential: Credential::Certificate(&identity),
    };
    config.to_yaml().unwrap().to_string()
}

async fn connect(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.unwrap()).unwrap()
}
