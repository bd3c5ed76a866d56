//! The same operators on a real Kubernetes: each in a process of its own, over etcd, kube-apiserver, controllers and scheduler
//! of upstream, with our kubelet as the node.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use k8s_openapi::api::core::v1::Namespace;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use pilothouse_pki::{Authority, AuthorityRequest, Bundle, Credential, LeafRequest, Subject};
use pilothouse_runtime::{Clock, OnExit, Reason, Shutdown, Tasks};
use pilothouse_test_support::eventually;
use pilothouse_test_support::process::{self, Running};
use pilothouse_test_support::upstream::{Cluster, Setup, Upstream};
use prometheus_client::registry::Registry;
use tempfile::TempDir;

use crate::region::{LIMIT, program, result};

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

/// A management cluster that is not ours, and our operators on it.
struct Management {
    folder: TempDir,
    upstream: Upstream,
    /// In the order in which they end.
    programs: Vec<Running>,
    servers: Option<Cluster>,
    tasks: Tasks,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hosted_cluster_runs_on_a_real_kubernetes() {
    let Some(upstream) = Upstream::find() else { return };
    let mut management = Management::start(upstream).await;
    management.operators();
    let manifest = management.path("furniture.yaml");
    fs::write(&manifest, FURNITURE).unwrap();
    // The definitions are made by whichever operator comes first.
    management
        .eventually("the engine is there", &["apply", "-f", manifest.to_str().unwrap()], |_| true)
        .await;
    let phase = ["get", "mce", "multiclusterengine", "-o", "jsonpath={.status.phase}"];
    management.eventually("the engine is available", &phase, |phase| phase == "Available").await;

    fs::write(management.path("pull-secret.json"), r#"{"auths":{}}"#).unwrap();
    management
        .hcp(&[
            "create",
            "cluster",
            "kubevirt",
            "--name",
            "guest",
            "--namespace",
            "hcp",
            "--node-pool-replicas",
            "2",
            "--pull-secret",
            "pull-secret.json",
            "--release-image",
            "quay.io/openshift-release-dev/ocp-release:4.17.0-multi",
            "--etcd-storage-class=folders",
        ])
        .unwrap();
    let available =
        ["wait", "-n", "hcp", "hostedcluster/guest", "--for=condition=Available", "--timeout=100s"];
    management.kubectl(&available).unwrap();
    let text = management.hcp(&["create", "kubeconfig", "--namespace", "hcp", "--name", "guest"]).unwrap();
    let guest = management.path("guest.kubeconfig");
    fs::write(&guest, text).unwrap();
    eventually("two nodes are ready", LIMIT, || {
        let nodes = management.kubectl_on(&guest, &["get", "nodes", "--no-headers"]);
        async move {
            let nodes = nodes?;
            if nodes.lines().filter(|line| line.contains(" Ready ")).count() == 2 {
                Ok(())
            } else {
                Err(nodes)
            }
        }
    })
    .await;
    let pod = ["run", "hello", "--image=busybox", "--restart=Never", "--", "echo", "ahoy"];
    management.kubectl_on(&guest, &pod).unwrap();
    let done = ["wait", "pod/hello", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=100s"];
    management.kubectl_on(&guest, &done).unwrap();
    let imported = ["get", "managedclusters", "guest", "--no-headers"];
    management.eventually("it is imported", &imported, |row| row.matches("True").count() == 2).await;

    management.hcp(&["destroy", "cluster", "kubevirt", "--name", "guest", "--namespace", "hcp"]).unwrap();
    let left = ["get", "managedclusters,namespaces,pods,pv", "-A", "-o", "name"];
    let gone = |left: &str| !left.contains("guest") && !left.contains("pod/") && !left.contains("volume/");
    management.eventually("nothing is left of it", &left, gone).await;
    management.stop().await;
}

// === impl Management ===

impl Management {
    /// Everything but our operators, with a node that is ready.
    async fn start(upstream: Upstream) -> Self {
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

        let tasks = Tasks::new("volumes", Shutdown::new());
        let client = connect(&kubeconfig(&authority, servers.address(), "controllers")).await;
        volumes(client, path("volumes"), Bundle::from(authority.certificate()).to_pem(), &tasks).await;
        let mut management = Self { folder, upstream, programs: Vec::new(), servers: Some(servers), tasks };
        management.kubelet();
        let ready = ["wait", "node/here", "--for=condition=Ready", "--timeout=1s"];
        management.eventually("the node is ready", &ready, |_| true).await;
        management
    }

    fn kubelet(&mut self) {
        let text = format!(
            "node_name = \"here\"\nroot = {:?}\nkubeconfig = {:?}\nnode_socket = {:?}\nvolume_root = {:?}\n\
             program = {:?}\npod_range = \"10.200.0.0/16\"\nallow_host_path = true\nisolation = \"namespace\"\n",
            self.root(),
            self.path("system-node-here.kubeconfig"),
            self.path("node.sock"),
            self.path("volumes"),
            program(),
        );
        self.run("kubelet", &text, &[]);
    }

    /// Each in a process of its own.
    fn operators(&mut self) {
        let gateway = SocketAddr::from(([127, 0, 0, 1], process::free_port()));
        let metrics = "[metrics]\naddress = \"127.0.0.1:0\"\n";
        let kubeconfig = self.path("admin.kubeconfig");
        let kubeconfig = ["--kubeconfig", kubeconfig.to_str().unwrap()];
        let socket = self.path("node.sock");
        let to_node = [&kubeconfig[..], &["--node-socket", socket.to_str().unwrap()]].concat();
        self.run("gateway", &format!("{metrics}[service]\nlisten = \"{gateway}\"\n"), &to_node);
        let operator = format!("{metrics}[service]\npublish_address = \"{gateway}\"\n");
        self.run("hypershift-operator", &operator, &kubeconfig);
        self.run("virt-controller", metrics, &kubeconfig);
        self.run("multicluster-engine", metrics, &kubeconfig);
    }

    fn run(&mut self, verb: &str, config: &str, arguments: &[&str]) {
        let file = self.path(&format!("{verb}.toml"));
        fs::write(&file, config).unwrap();
        let log = fs::File::create(self.path(&format!("{verb}.log"))).unwrap();
        let mut command = Command::new(program());
        command.arg(verb).arg("--config").arg(file).args(["--log", "info,kube_client=off"]).args(arguments);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        self.programs.insert(0, Running::spawn(command).unwrap());
    }

    fn hcp(&self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hcp-under-test"));
        command.args(arguments).env("KUBECONFIG", self.path("admin.kubeconfig"));
        result(&command.current_dir(self.folder.path()).output().unwrap())
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<String, String> {
        self.kubectl_on(&self.path("admin.kubeconfig"), arguments)
    }

    fn kubectl_on(&self, kubeconfig: &Path, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(self.upstream.program("kubectl"));
        command.arg("--kubeconfig").arg(kubeconfig).arg("--cache-dir").arg(self.path("kubectl-cache"));
        result(&command.args(arguments).output().unwrap())
    }

    /// Asks until the answer is right.
    async fn eventually(&self, what: &str, arguments: &[&str], is_right: impl Fn(&str) -> bool) {
        eventually(what, LIMIT, || {
            let answer = self.kubectl(arguments);
            let right = answer.as_deref().is_ok_and(&is_right);
            async move { if right { Ok(()) } else { Err(format!("{answer:?}")) } }
        })
        .await;
    }

    async fn stop(mut self) {
        self.programs.clear();
        self.tasks.shutdown().request(Reason::Asked("the story is over".to_owned()));
        self.tasks.drain(LIMIT).await.unwrap();
    }

    fn root(&self) -> PathBuf {
        self.path("kubelet")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Management {
    fn drop(&mut self) {
        if std::thread::panicking() {
            #[expect(clippy::print_stderr, reason = "the test harness shows it with the failure")]
            for program in
                ["hypershift-operator", "virt-controller", "multicluster-engine", "gateway", "kubelet"]
            {
                let log = fs::read_to_string(self.path(&format!("{program}.log"))).unwrap_or_default();
                let lines: Vec<_> = log.lines().collect();
                let end = &lines[lines.len().saturating_sub(20)..];
                eprintln!("--- the end of {program}'s log ---\n{}", end.join("\n"));
            }
        }
        self.programs.clear();
        // What the node runs survives its kubelet, as it should.
        let _ = pilothouse_kubelet::remove(&self.root());
        drop(self.servers.take());
    }
}

/// Folders for claims, which no controller of upstream makes.
async fn volumes(client: Client, root: PathBuf, root_authority_pem: String, tasks: &Tasks) {
    let config = pilothouse_controllers::Config {
        deployments: false,
        replica_sets: false,
        replication_controllers: false,
        stateful_sets: false,
        daemon_sets: false,
        jobs: false,
        cron_jobs: false,
        disruption_budgets: false,
        scheduler: false,
        endpoints: false,
        namespace_defaults: false,
        namespaces: false,
        garbage_collection: false,
        node_ranges: false,
        node_lifecycle: false,
        certificate_requests: false,
        approve_serving_certificates: false,
        bootstrap_tokens: false,
        ..pilothouse_controllers::Config::default()
    };
    let deps = pilothouse_controllers::Deps {
        client,
        clock: Clock::system(),
        root_authority_pem,
        signing_authority: None,
        server: None,
        volume_root: Some(root),
        registry: &mut Registry::default(),
    };
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
