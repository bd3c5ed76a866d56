//! A cluster of one node, in one line.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod, ServiceAccount};
use kube::api::{LogParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig as ClientConfig};
use kube::runtime::wait::{Condition, await_condition};
use kube::{Api, ResourceExt as _};
use pilothouse_http::{CertificateSource, TlsFiles};
use pilothouse_kubeapi::NodeDialer;
use pilothouse_kubelet::{Config, Tls};
use pilothouse_kubelet_api::{Acceptor, Dialer, Places};
use pilothouse_pki::{
    Authority, AuthorityRequest, Bundle, Credential, Identity, KeyAlgorithm, Kubeconfig, LeafRequest,
    PrivateKey, Subject,
};
use pilothouse_runtime::fault::FAULT_VARIABLE;
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use pilothouse_store::{Keyring, Location, Options, Store};
use pilothouse_test_support::process::Running;
use pilothouse_test_support::upstream::{self, Upstream};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::real;

/// Far beyond anything that works; a test that reaches it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const NODE: &str = "here";

/// An API server, and a kubelet beside it.
pub(crate) struct Cluster {
    pub(crate) folder: TempDir,
    pub(crate) client: kube::Client,
    pub(crate) config: Config,
    pub(crate) certificates: Certificates,
    kubelet: Option<Running>,
    /// The real API server, where it is that one.
    pub(crate) real: Option<upstream::Cluster>,
    shutdown: Shutdown,
    tasks: Tasks,
}

/// Reaches nodes and their pods through the nodes' sockets, as the real ones do. A node has all addresses with its first two
/// numbers.
#[derive(Clone, Default)]
pub(crate) struct ToNodes(Arc<Mutex<BTreeMap<[u8; 2], Dialer>>>);

impl ToNodes {
    pub(crate) fn insert(&self, range: [u8; 2], dialer: Dialer) {
        self.0.lock().unwrap().insert(range, dialer);
    }

    pub(crate) async fn connect(&self, address: SocketAddr) -> std::io::Result<TcpStream> {
        let IpAddr::V4(number) = address.ip() else { return Err(std::io::ErrorKind::Unsupported.into()) };
        let [first, second, ..] = number.octets();
        let dialer = self.0.lock().unwrap().get(&[first, second]).cloned();
        dialer.ok_or(std::io::ErrorKind::HostUnreachable)?.connect(address).await
    }
}

impl NodeDialer for ToNodes {
    fn dial(&self, address: SocketAddr) -> BoxFuture<'_, std::io::Result<TcpStream>> {
        Box::pin(self.connect(address))
    }
}

/// Runs a test on a runtime of its own.
pub(crate) fn run(test: impl Future<Output = ()>) {
    run_within(6 * PATIENCE, test);
}

/// The same for one that may take longer as a whole.
pub(crate) fn run_within(limit: Duration, test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(limit, test).await.unwrap() });
}

/// The authority of a cluster and what it signs.
pub(crate) struct Certificates {
    authority: Authority,
    folder: PathBuf,
}

impl Certificates {
    pub(crate) fn new(folder: &Path) -> Self {
        let request = AuthorityRequest::new(Subject::try_new("test cluster").unwrap());
        let authority = Authority::self_signed(&request, &Clock::system()).unwrap();
        let certificates = Self { authority, folder: folder.to_owned() };
        certificates.bundle().write(&folder.join("ca.crt")).unwrap();
        certificates
    }

    pub(crate) fn bundle(&self) -> Bundle {
        Bundle::from(self.authority.certificate())
    }

    pub(crate) fn authority(&self) -> &Authority {
        &self.authority
    }

    pub(crate) fn server(&self, name: &str, addresses: &[&str]) -> (PathBuf, PathBuf) {
        let names = addresses.iter().map(|name| name.parse().unwrap());
        let request = LeafRequest::server(Subject::try_new(name).unwrap(), names);
        let identity = self.authority.issue(&request, &Clock::system()).unwrap();
        let (certificate, key) =
            (self.folder.join(format!("{name}.crt")), self.folder.join(format!("{name}.key")));
        identity.write(&certificate, &key).unwrap();
        (certificate, key)
    }

    pub(crate) fn client(&self, user: &str, groups: &[&str]) -> Identity {
        let subject = Subject::try_new(user).unwrap().with_organizations(groups.iter().copied()).unwrap();
        self.authority.issue(&LeafRequest::client(subject), &Clock::system()).unwrap()
    }

    pub(crate) fn kubeconfig(&self, identity: &Identity, server: &str, name: Option<&str>) -> String {
        let config = Kubeconfig {
            cluster: "test",
            user: "test",
            context: "test",
            server,
            tls_server_name: name,
            authorities: &self.bundle(),
            namespace: None,
            credential: Credential::Certificate(identity),
        };
        config.to_yaml().unwrap().to_string()
    }
}

impl Cluster {
    /// With a node that is ready.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        Self::start_on(None, change).await
    }

    /// On the real API server, or without it on ours.
    pub(crate) async fn start_on(upstream: Option<&Upstream>, change: impl FnOnce(&mut Config)) -> Self {
        let mut cluster = Self::prepare_on(upstream, change).await;
        cluster.start_kubelet().await;
        cluster
    }

    /// The same without a kubelet.
    pub(crate) async fn prepare_on(upstream: Option<&Upstream>, change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let certificates = Certificates::new(folder.path());
        let shutdown = Shutdown::new();
        let tasks = Tasks::new("test", shutdown.clone());

        let (certificate, key) = certificates.server("apiserver", &["localhost", "127.0.0.1"]);
        let nodes = ToNodes::default();
        nodes.insert([10, 200], Dialer::new(path("node.sock")));
        let (address, real) = match upstream {
            None => (ours(&certificates, &tasks, (certificate, key), nodes).await, None),
            Some(upstream) => {
                let real = real::start(upstream, &certificates, folder.path(), &tasks, nodes, false).await;
                (real.address(), Some(real))
            }
        };

        serve_host_socket(&tasks, path("host.sock"), address);

        let url = format!("https://{address}");
        let admin = certificates.kubeconfig(&certificates.client("admin", &["system:masters"]), &url, None);
        std::fs::write(path("admin.kubeconfig"), &admin).unwrap();
        // The node may do everything here: what it may do elsewhere is the business of the API server's tests.
        let node = certificates.client(&format!("system:node:{NODE}"), &["system:masters"]);
        std::fs::write(path("kubelet.kubeconfig"), certificates.kubeconfig(&node, &url, None)).unwrap();
        let (certificate, key) = certificates.server("kubelet", &[NODE, "10.200.0.1"]);
        let mut config = Config {
            node_name: NODE.to_owned(),
            root: path("kubelet"),
            kubeconfig: path("kubelet.kubeconfig"),
            host_socket: Some(path("host.sock")),
            node_socket: Some(path("node.sock")),
            pod_range: Some("10.200.0.0/16".to_owned()),
            volume_root: Some(path("volumes")),
            tls: Some(Tls { certificate, key, client_authorities: path("ca.crt") }),
            ..Config::default()
        };
        change(&mut config);
        let client = connect(&admin).await;
        if upstream.is_none() {
            create_account(&client, "default").await;
        }
        Self { folder, client, config, certificates, kubelet: None, real, shutdown, tasks }
    }

    /// Starts a kubelet, and returns when the node is ready.
    pub(crate) async fn start_kubelet(&mut self) {
        assert!(self.kubelet.is_none());
        self.kubelet = Some(start_kubelet(&self.config, &self.client).await);
    }

    /// `kill -9`.
    pub(crate) fn kill_kubelet(&mut self) {
        self.kubelet.take().unwrap().kill();
    }

    /// Starts a kubelet that falls at this passing of a point, and returns when it has.
    pub(crate) async fn fall_at(&mut self, passing: &str) {
        assert!(self.kubelet.is_none());
        let mut command = kubelet(&self.config);
        command.env(FAULT_VARIABLE, passing);
        let mut falling = Running::spawn(command).unwrap();
        until(|| {
            let ended = falling.child().try_wait().unwrap();
            async move { ended.is_some_and(|status| status.signal() == Some(9)) }
        })
        .await;
    }

    /// `SIGTERM`, and waits for the end.
    pub(crate) fn stop_kubelet(&mut self) {
        let kubelet = self.kubelet.take().unwrap();
        let pid = nix::unistd::Pid::from_raw(kubelet.id().try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        assert!(kubelet.wait().unwrap().success());
    }

    /// How many threads the kubelet has.
    pub(crate) fn threads(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/task", self.kubelet.as_ref().unwrap().id())).unwrap().count()
    }

    /// Children of the kubelet that have ended and that it has not waited for.
    pub(crate) fn ended_children(&self) -> Vec<i32> {
        let kubelet = self.kubelet.as_ref().unwrap().id().to_string();
        let numbers = std::fs::read_dir("/proc").unwrap().flatten();
        let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers
            .filter(|number: &i32| {
                let text = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
                let fields = text.rsplit_once(')').map_or("", |(_, fields)| fields);
                let mut fields = fields.split_ascii_whitespace();
                (fields.next(), fields.next()) == (Some("Z"), Some(&kubelet))
            })
            .collect()
    }

    pub(crate) fn dialer(&self) -> Dialer {
        Dialer::new(self.config.node_socket.clone().unwrap())
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Creates a pod on the node.
    pub(crate) async fn create(&self, name: &str, mut spec: Value) -> Pod {
        spec["nodeName"] = json!(self.config.node_name);
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
        self.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap()
    }

    /// Waits until a pod is as described.
    pub(crate) async fn until_pod(&self, name: &str, condition: impl Fn(&Pod) -> bool + Send + Sync) -> Pod {
        wait_for(self.pods(), name, |pod: Option<&Pod>| pod.is_some_and(&condition)).await;
        self.pods().get(name).await.unwrap()
    }

    pub(crate) async fn until_ready(&self, name: &str) -> Pod {
        self.until_pod(name, is_ready).await
    }

    pub(crate) async fn until_phase(&self, name: &str, phase: &str) -> Pod {
        self.until_pod(name, |pod| pod.status.as_ref().unwrap().phase.as_deref() == Some(phase)).await
    }

    /// Creates a pod that runs one command to its end, and answers with what it printed.
    pub(crate) async fn output_of(&self, name: &str, container: Value) -> String {
        let mut container = container;
        container["name"] = json!("main");
        self.create(name, json!({"restartPolicy": "Never", "containers": [container]})).await;
        self.until_pod(name, |pod| {
            matches!(pod.status.as_ref().unwrap().phase.as_deref(), Some("Succeeded" | "Failed"))
        })
        .await;
        self.pods().logs(name, &LogParams::default()).await.unwrap()
    }

    /// Deletes a pod and waits until it is gone.
    pub(crate) async fn delete(&self, name: &str) {
        self.pods().delete(name, &Default::default()).await.unwrap();
        wait_for(self.pods(), name, |pod: Option<&Pod>| pod.is_none()).await;
    }

    /// The folder of a pod.
    pub(crate) fn pod_folder(&self, pod: &Pod) -> PathBuf {
        self.config.root.join("pods").join(pod.uid().unwrap())
    }

    /// The first process of a pod, as numbered outside.
    pub(crate) fn shim_of(&self, pod: &Pod) -> i32 {
        let text = std::fs::read_to_string(self.pod_folder(pod).join("shim.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["pid"].as_i64().unwrap().try_into().unwrap()
    }

    /// What the kubelet answers to somebody over a connection.
    pub(crate) async fn ask_node(
        &self,
        stream: TcpStream,
        user: &str,
        groups: &[&str],
        path: &str,
    ) -> String {
        let identity = self.certificates.client(user, groups);
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(self.certificates.bundle().der().cloned());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(identity.chain_der(), identity.key().to_der())
            .unwrap();
        let name = rustls::pki_types::ServerName::try_from(NODE).unwrap();
        let mut stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {NODE}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A server that ends without a word of farewell has said all the same.
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }

    pub(crate) fn shutdown(&self) {
        self.shutdown.request(Reason::Asked("the test is over".to_owned()));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        drop(self.kubelet.take());
        pilothouse_kubelet::remove(&self.config.root).unwrap();
        self.shutdown();
        // Nothing waits for them: their runtime ends with the test.
        let _ = self.tasks.status();
    }
}

fn kubelet(config: &Config) -> Command {
    let file = config.kubeconfig.with_extension("toml");
    std::fs::write(&file, toml::to_string(config).unwrap()).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg("kubelet").arg(file).stdin(Stdio::null());
    command
}

/// Starts a kubelet, and returns when its node is ready.
pub(crate) async fn start_kubelet(config: &Config, client: &kube::Client) -> Running {
    let running = Running::spawn(kubelet(config)).unwrap();
    let nodes: Api<NodeObject> = Api::all(client.clone());
    wait_for(nodes, &config.node_name, |node: Option<&NodeObject>| node.is_some_and(is_node_ready)).await;
    // Ready in the API may be a word of an earlier kubelet; a socket that answers is this one's.
    let range = config.pod_range.as_ref().unwrap();
    let address = SocketAddr::new(range.replace(".0/16", ".1").parse().unwrap(), 10250);
    let dialer = Dialer::new(config.node_socket.clone().unwrap());
    until(|| async { dialer.connect(address).await.is_ok() }).await;
    running
}

pub(crate) fn is_node_ready(node: &NodeObject) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref());
    conditions.unwrap_or_default().iter().any(|one| one.type_ == "Ready" && one.status == "True")
}

/// The way out of nodes to the API server, as a region offers it.
pub(crate) fn serve_host_socket(tasks: &Tasks, path: PathBuf, api: SocketAddr) {
    let acceptor = Acceptor::bind(path).unwrap();
    let places = Places::new().with("management-api", api);
    let serving = tasks.clone();
    tasks.spawn(
        "host-socket",
        OnExit::StopProcess,
        async move { Ok(acceptor.serve(serving, places).await?) },
    );
}

/// Our API server, in this process.
pub(crate) async fn ours(
    certificates: &Certificates,
    tasks: &Tasks,
    (certificate, key): (PathBuf, PathBuf),
    nodes: ToNodes,
) -> SocketAddr {
    let files = TlsFiles { certificate, key, client_authorities: None };
    let mut options =
        Options::new(Location::memory(), pilothouse_kubeapi::catalog(), tasks.shutdown().clone());
    options.keyring = Some(Keyring::ephemeral().unwrap());
    let deps = pilothouse_kubeapi::Deps {
        store: Store::open(options).await.unwrap(),
        space: "test".to_owned(),
        serving: CertificateSource::load(files, Clock::system()).unwrap(),
        client_authorities: certificates.bundle(),
        service_account_key: PrivateKey::generate(KeyAlgorithm::default()).unwrap(),
        issuer: "https://kubernetes.default.svc".to_owned(),
        clock: Clock::system(),
        nodes: Arc::new(nodes),
        kubelet_client: Some(certificates.client("kube-apiserver", &[])),
        kubelet_authorities: certificates.bundle(),
        registry: &mut Registry::default(),
    };
    let api = pilothouse_kubeapi::Config::default();
    let service = pilothouse_kubeapi::Service::build(api, deps).await.unwrap();
    let address = service.local_address();
    let own = tasks.shutdown().clone();
    tasks.spawn("kubeapi", OnExit::StopProcess, async move { Ok(service.run(own).await?) });
    address
}

/// Makes what pods run as, where no controller does. The authority that would be mounted beside a token is not there either.
pub(crate) async fn create_account(client: &kube::Client, namespace: &str) {
    let account = json!({"metadata": {"name": "default"}, "automountServiceAccountToken": false});
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    accounts.create(&PostParams::default(), &serde_json::from_value(account).unwrap()).await.unwrap();
}

pub(crate) async fn connect(kubeconfig: &str) -> kube::Client {
    let config = ClientConfig::from_yaml(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// Waits for an object by watching it; the failure shows how it was last seen.
pub(crate) async fn wait_for<K>(api: Api<K>, name: &str, condition: impl Condition<K>)
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + serde::de::DeserializeOwned
        + serde::Serialize
        + std::fmt::Debug
        + Send
        + 'static,
{
    wait_within(PATIENCE, api, name, condition).await;
}

/// The same for something that takes its time even when all is well.
pub(crate) async fn wait_within<K>(limit: Duration, api: Api<K>, name: &str, condition: impl Condition<K>)
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + serde::de::DeserializeOwned
        + serde::Serialize
        + std::fmt::Debug
        + Send
        + 'static,
{
    if tokio::time::timeout(limit, await_condition(api.clone(), name, condition)).await.is_err() {
        let seen = api.get_opt(name).await.unwrap().map(|object| serde_json::to_value(object).unwrap());
        panic!("waited in vain; last seen: {:#}", seen.unwrap_or_default());
    }
}

/// Waits for something that can only be asked for again and again.
pub(crate) async fn until<F: Future<Output = bool>>(mut condition: impl FnMut() -> F) {
    pilothouse_test_support::eventually("the condition holds", PATIENCE, || {
        let looking = condition();
        async move { if looking.await { Ok(()) } else { Err("it does not") } }
    })
    .await;
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True")
}

pub(crate) fn address_of(pod: &Pod) -> String {
    pod.status.as_ref().unwrap().pod_ip.clone().unwrap()
}

/// A container of this very program.
pub(crate) fn program(arguments: &[&str]) -> Value {
    json!({"name": "main", "image": "pilothouse", "args": arguments})
}

/// A container that runs a line of shell.
pub(crate) fn shell(line: &str) -> Value {
    json!({"name": "main", "image": "busybox", "command": ["sh", "-c", line]})
}

/// Every process whose command line contains the text.
pub(crate) fn processes_with(text: &str) -> BTreeSet<i32> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok())
            && let Ok(line) = std::fs::read(entry.path().join("cmdline"))
            && String::from_utf8_lossy(&line).contains(text)
        {
            found.insert(pid);
        }
    }
    found
}
