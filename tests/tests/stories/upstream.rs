//! A hosted cluster whose control plane is Kubernetes itself: etcd, kube-apiserver, kube-controller-manager and kube-scheduler,
//! hosted by the same operator, on the same node.

use std::path::{Path, PathBuf};

use pilothouse_test_support::eventually;
use pilothouse_test_support::upstream::{self, Upstream};
use serde_json::{Value, json};

use crate::manifests;
use crate::region::{LIMIT, Region};

/// The release that is the Kubernetes which the tests have.
pub(crate) const RELEASE: &str = "4.21.0";

/// Where the control plane of cluster `ada` is.
pub(crate) const NAMESPACE: &str = "clusters-ada";

/// Two servers, a Service in front of them, and somebody who calls.
const WORKLOADS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: web
        image: pilothouse
        args: [kube-apiserver, --data-dir, /tmp/api, --listen, "0.0.0.0:8080"]
        ports:
        - containerPort: 8080
        readinessProbe:
          tcpSocket: {port: 8080}
          periodSeconds: 1
---
apiVersion: v1
kind: Service
metadata:
  name: web
spec:
  selector: {app: web}
  ports:
  - port: 80
    targetPort: 8080
---
apiVersion: batch/v1
kind: Job
metadata:
  name: ask
spec:
  backoffLimit: 100
  template:
    spec:
      restartPolicy: OnFailure
      containers:
      - name: ask
        image: busybox
        command: ["bash", "-c", "exec 3<>/dev/tcp/web/80 && echo web answers"]
"#;

/// The region with programs of upstream, if they are there.
pub(crate) async fn start() -> Option<(Upstream, Region)> {
    let programs = Upstream::find()?;
    let region = Region::start(&arguments(&folder_of(&programs))).await?;
    Some((programs, region))
}

/// What a region is started with, also again.
pub(crate) fn arguments(folder: &Path) -> [&str; 2] {
    ["--upstream", folder.to_str().unwrap()]
}

/// Where all versions are.
pub(crate) fn folder_of(programs: &Upstream) -> PathBuf {
    programs.program("etcd").parent().unwrap().parent().unwrap().to_owned()
}

/// A cluster `ada` of upstream's programs.
pub(crate) fn cluster_of(release: &str, policy: &str) -> Value {
    let mut cluster = manifests::cluster("ada");
    cluster["metadata"]["annotations"] = json!({ "pilothouse.dev/payload": "upstream" });
    cluster["spec"]["controllerAvailabilityPolicy"] = json!(policy);
    cluster["spec"]["release"]["image"] = json!(format!("pilothouse/release:{release}"));
    cluster
}

/// The same, with a pool of one.
fn manifests(policy: &str) -> String {
    let mut pool = manifests::pool("ada", "workers", 1);
    pool["spec"]["release"]["image"] = json!(format!("pilothouse/release:{RELEASE}"));
    manifests::text(&[cluster_of(RELEASE, policy), pool])
}

pub(crate) fn wait(region: &Region, kubeconfig: Option<&Path>, what: &[&str]) {
    let arguments = [&["wait", "--timeout=240s"], what].concat();
    let waited = match kubeconfig {
        Some(kubeconfig) => region.kubectl_on(kubeconfig, &arguments),
        None => region.kubectl(&arguments),
    };
    if let Err(error) = waited {
        let pods = region.kubectl(&["get", "pods", "-n", NAMESPACE, "-o", "wide"]);
        let states = region.kubectl(&["get", "hostedclusters,nodepools", "-n", "clusters", "-o", "yaml"]);
        panic!("{what:?}: {error}\n{}\n{}", pods.unwrap_or_default(), states.unwrap_or_default());
    }
}

/// A cluster `ada` with a worker that is ready, and its kubeconfig.
fn cluster(region: &Region, policy: &str) -> PathBuf {
    region.apply(&manifests(policy)).unwrap();
    wait(region, None, &["-n", "clusters", "hostedcluster/ada", "--for=condition=Available"]);
    wait(region, None, &["-n", "clusters", "nodepool/workers", "--for=condition=Ready"]);
    region.kubeconfig("ada").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn hosted_cluster_of_upstream_programs_runs_workloads() {
    let Some((_, mut region)) = start().await else { return };
    let kubeconfig = cluster(&region, "SingleReplica");
    let on = |arguments: &[&str]| region.kubectl_on(&kubeconfig, arguments);

    // Which programs these are can be seen.
    let payload = ["get", "-n", "clusters", "hostedcluster/ada", "-o", "jsonpath={.status.payload}"];
    assert_eq!(region.kubectl(&payload).unwrap(), "upstream");
    let version = on(&["get", "--raw", "/version"]).unwrap();
    assert!(version.contains(&format!("\"gitVersion\": \"v{}\"", upstream::version())), "{version}");
    let etcd = ["-n", "clusters", "hostedcluster/ada", "--for=condition=EtcdAvailable"];
    wait(&region, None, &etcd);

    let file = region.folder().join("workloads.yaml");
    std::fs::write(&file, WORKLOADS).unwrap();
    on(&["apply", "-f", file.to_str().unwrap()]).unwrap();
    wait(&region, Some(&kubeconfig), &["deployment/web", "--for=condition=Available"]);
    wait(&region, Some(&kubeconfig), &["job/ask", "--for=condition=Complete"]);
    let said = on(&["logs", "job/ask"]).unwrap();
    assert!(said.contains("web answers"), "{said}");
    let told = on(&["exec", "deployment/web", "--", "hostname"]).unwrap();
    assert!(told.starts_with("web-"), "{told}");

    // Nobody is let in unknown, except to ask for the server's health.
    let anonymous = |path: &str| on(&["get", "--raw", path, "--as", "system:anonymous"]);
    assert!(anonymous("/readyz").is_ok());
    assert!(anonymous("/api/v1/namespaces/kube-public/configmaps/cluster-info").is_err());

    // Everything a cluster made disappears with it.
    region.kubectl(&["delete", "-n", "clusters", "hostedcluster/ada", "--timeout=240s"]).unwrap();
    let rest = region.left("persistentvolumes").unwrap();
    assert_eq!(rest, "");
    region.is_alone(&["ada"]).await;
    region.stop();
    assert_eq!(region.processes(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_command_gives_a_cluster_of_upstream_programs_with_a_node() {
    let Some(programs) = Upstream::find() else { return };
    let folder = folder_of(&programs);
    let arguments = ["--payload", "upstream", "--cluster", "real", "--upstream", folder.to_str().unwrap()];
    let Some(mut region) = Region::start(&arguments).await else { return };
    let nodes = region.pilothouse(&["nodes", "real"]).unwrap();
    assert!(nodes.contains("Ready") && nodes.contains(upstream::version()), "{nodes}");
    let payload = ["get", "hostedclusters", "-A", "-o", "jsonpath={.items[*].status.payload}"];
    assert_eq!(region.kubectl(&payload).unwrap(), "upstream");
    region.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_without_programs_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut region) = Region::start(&["--upstream", folder.path().to_str().unwrap()]).await else {
        return;
    };
    region.apply(&manifests("SingleReplica")).unwrap();
    let message = [
        "get",
        "-n",
        "clusters",
        "hostedcluster/ada",
        "-o",
        "jsonpath={.status.conditions[?(@.type==\"ValidReleaseImage\")].message}",
    ];
    eventually("the cluster is refused", LIMIT, || {
        let said = region.kubectl(&message);
        let right = said.as_ref().is_ok_and(|said| said.contains("lacks etcd"));
        async move { if right { Ok(()) } else { Err(format!("{said:?}")) } }
    })
    .await;
    let gone = region.kubectl(&["get", "namespace", "clusters-ada"]).unwrap_err();
    assert!(gone.contains("NotFound"), "{gone}");
    region.stop();
}
