//! Kubernetes' own controller manager and scheduler. A program of theirs that meets something it cannot use says so in
//! its log again and again, so their logs are part of what is tested.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use pilothouse_kubeapi::Config;
use pilothouse_kubeapi::testing::{Cluster, Options};
use pilothouse_pki::{Bundle, KeyAlgorithm, PrivateKey};
use pilothouse_runtime::Clock;
use pilothouse_test_support::process::Running;
use pilothouse_test_support::upstream::{self, Upstream};
use pilothouse_test_support::{eventually, process};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;

/// They take half a minute on a busy machine until they hold their leases and have read everything.
const PATIENCE: Duration = Duration::from_secs(180);
/// A line that comes more often than this is a loop.
const LOOP: usize = 5;
const NAMESPACE: &str = "harbour";
const NODE: &str = "pier";

/// All but one: there is no kubelet, without which a node is soon given up.
const CONTROLLERS: &str = "*,-node-lifecycle-controller";

/// What they complain about for a reason that is not the server.
const EXCUSED: &[&str] = &[
    // There is no kubelet, so nobody renews the node's lease and nothing runs on it.
    "node(s) had untolerated taint",
    // Optimistic concurrency at work: they say so and try again.
    "the object has been modified; please apply your changes to the latest version",
];

struct Programs {
    directory: TempDir,
    running: Vec<Running>,
}

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

impl Programs {
    fn start(programs: &Upstream, cluster: &Cluster) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("ca.crt"), Bundle::from(cluster.authority().certificate()).to_pem()).unwrap();
        let key = PrivateKey::generate(KeyAlgorithm::default()).unwrap();
        fs::write(path("accounts.key"), key.to_pem().as_bytes()).unwrap();
        let mut running = Vec::new();
        for name in ["kube-controller-manager", "kube-scheduler"] {
            let kubeconfig = path(&format!("{name}.kubeconfig"));
            // As themselves: what they may do is what the roles say that every cluster has.
            fs::write(&kubeconfig, cluster.kubeconfig(&format!("system:{name}"), &[]).unwrap()).unwrap();
            let log = fs::File::create(path(&format!("{name}.log"))).unwrap();
            let mut command = Command::new(programs.program(name));
            command
                .env_clear()
                .current_dir(directory.path())
                .arg("--kubeconfig")
                .arg(&kubeconfig)
                .args(["--secure-port", &process::free_port().to_string(), "--bind-address", "127.0.0.1"])
                .stdin(Stdio::null())
                .stdout(log.try_clone().unwrap())
                .stderr(log);
            if name == "kube-controller-manager" {
                command
                    .args(["--root-ca-file", "ca.crt", "--service-account-private-key-file", "accounts.key"])
                    // Each controller with an account of its own.
                    .arg("--use-service-account-credentials")
                    .args(["--controllers", CONTROLLERS]);
            }
            running.push(Running::spawn(command).unwrap());
        }
        Self { directory, running }
    }

    /// What each of them complains about, without times and identifiers, and how often.
    fn complaints(&self) -> BTreeMap<String, usize> {
        let mut complaints = BTreeMap::new();
        for name in ["kube-controller-manager", "kube-scheduler"] {
            for line in self.log(name).lines().filter(|line| line.starts_with('E')) {
                // `E1115 10:44:00.000000   1234 file.go:56] "message" err="…"`
                let message = line.split_once("] ").map_or(line, |(_, message)| message);
                if !EXCUSED.iter().any(|excused| message.contains(excused)) {
                    *complaints.entry(format!("{name}: {message}")).or_default() += 1;
                }
            }
        }
        complaints
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.directory.path().join(format!("{name}.log"))).unwrap_or_default()
    }

    fn end_of_logs(&self) -> String {
        let end = |name| {
            let log = self.log(name);
            let lines: Vec<_> = log.lines().collect();
            lines[lines.len().saturating_sub(15)..].join("\n")
        };
        format!("{}\n{}", end("kube-controller-manager"), end("kube-scheduler"))
    }

    fn stop(self) {
        for running in self.running {
            running.kill();
        }
    }
}

fn node(now: &str) -> Node {
    object(json!({
        "metadata": { "name": NODE },
        "spec": {},
        "status": {
            "capacity": { "cpu": "8", "memory": "16Gi", "pods": "110" },
            "allocatable": { "cpu": "8", "memory": "16Gi", "pods": "110" },
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            }],
        },
    }))
}

async fn furnish(client: &Client) {
    let nodes: Api<Node> = Api::all(client.clone());
    let now = Clock::system().now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    nodes.create(&PostParams::default(), &node(&now)).await.unwrap();
    // A new node's status may be set at creation; what a kubelet does after it is a patch.
    let status = json!({ "status": node(&now).status });
    nodes.patch_status(NODE, &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    // Which the controller that is left out would take off now.
    let untainted = json!({ "spec": { "taints": null } });
    nodes.patch(NODE, &PatchParams::default(), &Patch::Merge(&untainted)).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = object(json!({ "metadata": { "name": NAMESPACE } }));
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_controllers_and_scheduler_do_their_work() {
    let Some(programs) = Upstream::find() else { return };
    let config = Config { version: upstream::version().to_owned(), ..Config::default() };
    let cluster = Cluster::start(Options { config, ..Options::default() }).await.unwrap();
    let client = cluster.admin().await.unwrap();
    let programs = Programs::start(&programs, &cluster);
    furnish(&client).await;

    // Made by controllers as soon as there is a namespace.
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    eventually("the namespace has what every namespace has", PATIENCE, || async {
        let (account, map) = (accounts.get("default").await, maps.get("kube-root-ca.crt").await);
        if account.is_ok() && map.is_ok() {
            Ok(())
        } else {
            Err(format!("{account:?} {map:?}\n{}", programs.end_of_logs()))
        }
    })
    .await;

    let labels = json!({ "app": "web" });
    let deployment: Deployment = object(json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": { "containers": [{ "name": "web", "image": "web", "ports": [{ "containerPort": 80 }] }] },
            },
        },
    }));
    Api::namespaced(client.clone(), NAMESPACE).create(&PostParams::default(), &deployment).await.unwrap();
    let service: Service = object(
        json!({ "metadata": { "name": "web" }, "spec": { "selector": labels, "ports": [{ "port": 80 }] } }),
    );
    Api::namespaced(client.clone(), NAMESPACE).create(&PostParams::default(), &service).await.unwrap();

    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    eventually("the deployment's pods are on the node", PATIENCE, || async {
        let pods = pods.list(&ListParams::default().labels("app=web")).await.unwrap();
        let placed = |pod: &&Pod| pod.spec.as_ref().unwrap().node_name.as_deref() == Some(NODE);
        let count = pods.items.iter().filter(placed).count();
        if count == 3 {
            Ok(())
        } else {
            Err(format!("{count} of {}\n{}", pods.items.len(), programs.end_of_logs()))
        }
    })
    .await;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    eventually("the deployment says what there is", PATIENCE, || async {
        let status = deployments.get("web").await.unwrap().status.unwrap_or_default();
        if status.replicas == Some(3) {
            Ok(())
        } else {
            Err(format!("{status:?}\n{}", programs.end_of_logs()))
        }
    })
    .await;
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), NAMESPACE);
    eventually("the service has its slice", PATIENCE, || async {
        let found =
            slices.list(&ListParams::default().labels("kubernetes.io/service-name=web")).await.unwrap();
        if found.items.is_empty() { Err(programs.end_of_logs()) } else { Ok(()) }
    })
    .await;

    // Pods on a node wait for its kubelet, which there is none.
    deployments.delete("web", &DeleteParams::foreground()).await.unwrap();
    eventually("nothing of the deployment is left", PATIENCE, || async {
        for pod in pods.list(&ListParams::default()).await.unwrap() {
            let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
            let _ = pods.delete(pod.metadata.name.as_deref().unwrap(), &now).await;
        }
        let left = deployments.get_opt("web").await.unwrap();
        if left.is_none() { Ok(()) } else { Err(format!("{left:?}\n{}", programs.end_of_logs())) }
    })
    .await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.delete(NAMESPACE, &DeleteParams::default()).await.unwrap();
    eventually("the namespace is gone", PATIENCE, || async {
        let left = namespaces.get_opt(NAMESPACE).await.unwrap();
        if left.is_none() { Ok(()) } else { Err(format!("{left:?}\n{}", programs.end_of_logs())) }
    })
    .await;

    // For whoever wants to know what is left: `cargo test --test clients controllers -- --nocapture`.
    println!("{:#?}", programs.complaints());
    let loops: Vec<_> = programs.complaints().into_iter().filter(|(_, count)| *count > LOOP).collect();
    assert!(loops.is_empty(), "{loops:#?}");
    let refused = [
        "could not find the requested resource",
        "is forbidden",
        "Unauthorized",
        "cannot unmarshal",
        "decode",
    ];
    let ours: Vec<_> = programs
        .complaints()
        .into_keys()
        .filter(|line| refused.iter().any(|words| line.contains(words)))
        .collect();
    assert!(ours.is_empty(), "{ours:#?}");
    programs.stop();
    cluster.stop().await.unwrap();
}
