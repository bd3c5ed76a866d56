//! A cluster of one node: our API server with controllers and scheduler in one process, a kubelet in another.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use nix::sys::stat::Mode;
use pilothouse_kubelet::Config;
use pilothouse_kubelet_api::{Acceptor, Dialer, Places};
use pilothouse_runtime::{OnExit, Reason, Shutdown, Tasks};
use pilothouse_test_support::process::{Running, free_port};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep, timeout};

use super::stream;
use crate::harness::{Folder, Program, Progress};

/// Longer than anything here takes.
pub(super) const PATIENCE: Duration = Duration::from_secs(300);
/// How often to look where nothing tells.
const LOOK: Duration = Duration::from_millis(10);
const NODE: &str = "node";

/// Dropping it ends everything, the pods too.
pub(super) struct Cluster {
    pub(super) client: kube::Client,
    pub(super) kubelet: i32,
    folder: PathBuf,
    root: PathBuf,
    reports: Lines<BufReader<pipe::Receiver>>,
    shutdown: Shutdown,
    /// The kubelet before its API server.
    processes: Vec<Running>,
}

impl Cluster {
    pub(super) async fn start(program: &Program, folder: &Folder) -> anyhow::Result<Self> {
        let folder = folder.path().to_owned();
        let path = |name: &str| folder.join(name);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let mut server = logged(program.path(), &path("server.log"))?;
        server.args(["kube-apiserver", "--listen", &address.to_string(), "--data-dir"]).arg(path("api"));
        let server = Running::spawn(server).context("the API server cannot be started")?;
        let kubeconfig = path("api/kubeconfig");
        let client = connect(&kubeconfig).await.with_context(|| said(&path("server.log")))?;

        let shutdown = Shutdown::new();
        let tasks = Tasks::new("bench", shutdown.clone());
        let acceptor = Acceptor::bind(path("host.sock"))?;
        let (serving, places) = (tasks.clone(), Places::new().with("management-api", address));
        tasks.spawn(
            "host-socket",
            OnExit::Expendable,
            async move { Ok(acceptor.serve(serving, places).await?) },
        );

        let reports = path("reports");
        nix::unistd::mkfifo(&reports, Mode::from_bits_truncate(0o666))?;
        // Open for writing as well, so that it does not end with its last writer.
        let receiver = pipe::OpenOptions::new().read_write(true).open_receiver(&reports)?;
        let config = Config {
            node_name: NODE.to_owned(),
            root: path("kubelet"),
            kubeconfig,
            host_socket: Some(path("host.sock")),
            node_socket: Some(path("node.sock")),
            pod_range: Some("10.200.0.0/16".to_owned()),
            allow_host_path: true,
            ..Config::default()
        };
        fs::write(path("kubelet.toml"), toml::to_string(&config)?)?;
        let mut kubelet = logged(program.path(), &path("kubelet.log"))?;
        kubelet.arg("kubelet").arg("--config").arg(path("kubelet.toml")).args(["--log", "warn"]);
        let kubelet = Running::spawn(kubelet).context("the kubelet cannot be started")?;
        let cluster = Self {
            client,
            kubelet: kubelet.id().try_into()?,
            root: config.root,
            reports: BufReader::new(receiver).lines(),
            shutdown,
            processes: vec![kubelet, server],
            folder,
        };
        cluster.until_ready().await?;
        Ok(cluster)
    }

    async fn until_ready(&self) -> anyhow::Result<()> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let start = Instant::now();
        loop {
            let node = nodes.get_opt(NODE).await?;
            let conditions = node.and_then(|node| node.status?.conditions).unwrap_or_default();
            if conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True") {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                bail!("the node is not ready; it said:\n{}", said(&self.folder.join("kubelet.log")));
            }
            sleep(LOOK).await;
        }
    }

    pub(super) fn dialer(&self) -> Dialer {
        Dialer::new(self.folder.join("node.sock"))
    }

    pub(super) fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    /// A pod with a way to report.
    fn pod(&self, name: &str, mut container: Value) -> anyhow::Result<Pod> {
        container["name"] = json!("main");
        container["volumeMounts"] = json!([{"name": "bench", "mountPath": "/bench"}]);
        Ok(serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {
                // With none at all the API forgets it at once, whatever the node says.
                "terminationGracePeriodSeconds": 1,
                "containers": [container],
                "volumes": [{"name": "bench", "hostPath": {"path": self.folder}}],
            },
        }))?)
    }

    /// Creates a pod whose program says that it runs, and then does nothing.
    pub(super) async fn create_idle(&self, name: &str) -> anyhow::Result<()> {
        let line = format!("echo {name} > {}; exec sleep 100000", stream::REPORTS);
        let pod = self.pod(name, json!({"image": "busybox", "command": ["sh", "-c", line]}))?;
        self.pods().create(&PostParams::default(), &pod).await?;
        Ok(())
    }

    /// Creates a pod of this very program.
    pub(super) async fn create_part(&self, name: &str, part: &str) -> anyhow::Result<()> {
        let container = json!({"image": "pilothouse", "args": ["version"],
            "env": [{"name": stream::PART, "value": part}]});
        self.pods().create(&PostParams::default(), &self.pod(name, container)?).await?;
        Ok(())
    }

    /// The address of a pod, once it has one and runs.
    pub(super) async fn address(&self, name: &str) -> anyhow::Result<String> {
        let start = Instant::now();
        loop {
            let status = self.pods().get(name).await?.status.unwrap_or_default();
            if let (Some("Running"), Some(address)) = (status.phase.as_deref(), status.pod_ip) {
                return Ok(address);
            }
            if start.elapsed() > PATIENCE {
                bail!(
                    "the pod {name} does not run; the node said:\n{}",
                    said(&self.folder.join("kubelet.log"))
                );
            }
            sleep(LOOK).await;
        }
    }

    /// The next line that a pod reports.
    pub(super) async fn report(&mut self) -> anyhow::Result<String> {
        let line = timeout(PATIENCE, self.reports.next_line()).await;
        let line = line.with_context(|| {
            format!("no pod reports; the node said:\n{}", said(&self.folder.join("kubelet.log")))
        })?;
        line?.context("the reports have ended")
    }

    /// Deletes all pods, but for the first `keep` by name, and waits until the others are gone.
    pub(super) async fn delete_but(&self, keep: usize) -> anyhow::Result<()> {
        let mut names: Vec<_> = self.names().await?;
        names.sort();
        for name in names.iter().skip(keep) {
            self.pods().delete(name, &DeleteParams::default()).await?;
        }
        let start = Instant::now();
        while self.names().await?.len() > keep {
            if start.elapsed() > PATIENCE {
                bail!("pods do not go; the node said:\n{}", said(&self.folder.join("kubelet.log")));
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    async fn names(&self) -> anyhow::Result<Vec<String>> {
        let pods = self.pods().list(&ListParams::default()).await?;
        Ok(pods.items.into_iter().filter_map(|pod| pod.metadata.name).collect())
    }

    /// How many threads the kubelet has.
    pub(super) fn threads(&self) -> anyhow::Result<usize> {
        Ok(fs::read_dir(format!("/proc/{}/task", self.kubelet))?.count())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let mut processes = self.processes.drain(..);
        drop(processes.next());
        // What the node runs survives the kubelet, as it should.
        if let Err(error) = pilothouse_kubelet::remove(&self.root) {
            Progress.say(&format!("not everything was stopped: {error}"));
        }
        self.shutdown.request(Reason::Asked("measured".to_owned()));
    }
}

/// A client of the API server, once that answers.
async fn connect(kubeconfig: &Path) -> anyhow::Result<kube::Client> {
    let start = Instant::now();
    loop {
        let answered = async {
            let config = Kubeconfig::read_from(kubeconfig)?;
            let config = kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
            let client = kube::Client::try_from(config)?;
            client.apiserver_version().await?;
            // Pods are refused before there is somebody to run as.
            let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> =
                Api::default_namespaced(client.clone());
            accounts.get("default").await?;
            Ok::<_, anyhow::Error>(client)
        };
        match answered.await {
            Ok(client) => return Ok(client),
            Err(error) if start.elapsed() > PATIENCE => return Err(error),
            Err(_) => sleep(LOOK).await,
        }
    }
}

/// A program that writes into a file.
fn logged(program: &Path, log: &Path) -> anyhow::Result<Command> {
    let log = File::create(log)?;
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(command)
}

fn said(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
