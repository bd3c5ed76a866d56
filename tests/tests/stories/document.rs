//! The procedure for a hosted control plane on virtualization, as people have it in their notes: from the operator to a
//! Deployment on the nodes of a hosted cluster. `kubectl` stands for `oc`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pilothouse_test_support::eventually;
use pilothouse_test_support::requirement::Requirement;
use serde_json::Value;

use crate::region::{LIMIT, Region, User, result};

/// What the notes have people apply, one after the other.
const OPERATOR_GROUP: &str = "
apiVersion: operators.coreos.com/v1
kind: OperatorGroup
metadata:
  name: multicluster-engine-operators
  namespace: multicluster-engine
spec:
  targetNamespaces:
  - multicluster-engine
";
const SUBSCRIPTION: &str = "
apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata:
  name: multicluster-engine
  namespace: multicluster-engine
spec:
  sourceNamespace: openshift-marketplace
  source: redhat-operators
  channel: stable-2.7
  installPlanApproval: Automatic
  name: multicluster-engine
";
const ENGINE: &str = "
apiVersion: multicluster.openshift.io/v1
kind: MultiClusterEngine
metadata:
  name: multiclusterengine
spec: {}
";

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_document_works_as_it_is_written() {
    let Some(curl) = Requirement::new("curl", "curl").find() else { return };
    let Some(mut region) = Region::start_as(User::Installed, &[]).await else { return };
    install_engine(&region).await;
    let hcp = download(&region, &curl);

    // 2. Provisioning a hosted cluster.
    let kubeconfig = region.data_dir().join("kubeconfig");
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&hcp);
        result(
            &command
                .args(arguments)
                .env("KUBECONFIG", &kubeconfig)
                .current_dir(region.folder())
                .output()
                .unwrap(),
        )
    };
    fs::write(region.folder().join("pull-secret.json"), r#"{"auths":{}}"#).unwrap();
    run(&[
        "create",
        "cluster",
        "kubevirt",
        "--name",
        "guest-cluster-0",
        "--namespace",
        "hcp",
        "--node-pool-replicas",
        "3",
        "--pull-secret",
        "pull-secret.json",
        "--memory",
        "10Gi",
        "--cores",
        "8",
        "--release-image",
        "quay.io/openshift-release-dev/ocp-release:4.17.0-multi",
        "--etcd-storage-class=ocs-storagecluster-ceph-rbd",
    ])
    .unwrap();
    let available = ["wait", "-n", "hcp", "hostedcluster/guest-cluster-0", "--for=condition=Available"];
    region.kubectl(&[&available[..], &["--timeout=100s"]].concat()).unwrap();
    let pods = region.kubectl(&["get", "pods", "-n", "hcp-guest-cluster-0"]).unwrap();
    assert!(pods.contains("kube-apiserver-0"), "{pods}");
    region.kubectl(&["get", "all", "-n", "hcp"]).unwrap();
    let claims = ["get", "pvc", "-n", "hcp-guest-cluster-0", "-o"];
    let class = [&claims[..], &["jsonpath={.items[0].spec.storageClassName}"]].concat();
    assert_eq!(region.kubectl(&class).unwrap(), "ocs-storagecluster-ceph-rbd");
    let clusters = region.kubectl(&["get", "hostedclusters", "-n", "hcp"]).unwrap();
    assert!(
        clusters.contains("guest-cluster-0-admin-kubeconfig") && clusters.contains("4.17.0"),
        "{clusters}"
    );

    // 3. Accessing the hosted cluster.
    let text = run(&["create", "kubeconfig", "--namespace", "hcp", "--name", "guest-cluster-0"]).unwrap();
    let guest = region.folder().join("guest-cluster.kubeconfig");
    fs::write(&guest, text).unwrap();
    three_nodes(&region, &guest).await;
    deployment(&region, &guest).await;

    // It is a managed cluster by then, and goes as it came.
    eventually("it is imported", LIMIT, || {
        let managed = region.kubectl(&["get", "managedclusters", "guest-cluster-0", "--no-headers"]);
        async move {
            match managed {
                Ok(row)
                    if row
                        .split_whitespace()
                        .skip(1)
                        .filter(|word| word.eq_ignore_ascii_case("true"))
                        .count()
                        == 3 =>
                {
                    Ok(())
                }
                other => Err(format!("{other:?}")),
            }
        }
    })
    .await;
    run(&["destroy", "cluster", "kubevirt", "--name", "guest-cluster-0", "--namespace", "hcp"]).unwrap();
    eventually("nothing is left of it", LIMIT, || {
        let left =
            region.kubectl(&["get", "managedclusters,namespaces,persistentvolumes", "-A", "-o", "name"]);
        let pods = region.pods();
        async move {
            match (left, pods) {
                (Ok(left), Ok(pods)) if !left.contains("guest-cluster-0") && pods.is_empty() => Ok(()),
                other => Err(format!("{other:?}")),
            }
        }
    })
    .await;
    region.is_alone(&["guest-cluster-0"]).await;
    region.stop();
    assert_eq!(region.processes(), [""; 0]);
}

/// 0. Installing the operator.
pub(crate) async fn install_engine(region: &Region) {
    let json_patch = r#"[{ "op": "add", "path": "/spec/routeAdmission", "value": { "wildcardPolicy": "WildcardsAllowed" } }]"#;
    let ingress = ["patch", "ingresscontroller", "default", "-n", "openshift-ingress-operator"];
    region.kubectl(&[&ingress[..], &["--type=json", "-p", json_patch]].concat()).unwrap();
    let default =
        r#"{ "metadata": { "annotations": { "storageclass.kubernetes.io/is-default-class": "true" } } }"#;
    region.kubectl(&["patch", "storageclass", "ocs-storagecluster-ceph-rbd", "-p", default]).unwrap();
    region.kubectl(&["create", "namespace", "multicluster-engine"]).unwrap();
    // What `oc project` does; in a copy, since the region's own file is everybody's.
    let kubeconfig = region.folder().join("project.kubeconfig");
    fs::copy(region.data_dir().join("kubeconfig"), &kubeconfig).unwrap();
    let project = ["config", "set-context", "--current", "--namespace=multicluster-engine"];
    region.kubectl_on(&kubeconfig, &project).unwrap();
    for manifest in [OPERATOR_GROUP, SUBSCRIPTION, ENGINE] {
        region.apply(manifest).unwrap();
    }
    eventually("the engine is available", LIMIT, || {
        let engine = region.kubectl(&["get", "-o", "json", "mce", "multiclusterengine"]);
        async move {
            let engine: Value = serde_json::from_str(&engine?).unwrap();
            if engine["status"]["phase"] == "Available" { Ok(()) } else { Err(engine.to_string()) }
        }
    })
    .await;
    let shown = ["rollout", "status", "-n", "multicluster-engine", "deployment/multicluster-engine-operator"];
    eventually("the engine is shown in the namespace that people made for it", LIMIT, || {
        let seen = region.kubectl(&[&shown[..], &["--timeout=5s"]].concat());
        async move { seen.map(drop) }
    })
    .await;
    let local = region.kubectl(&["get", "managedclusters", "local-cluster"]).unwrap();
    let row: Vec<_> = local.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[1], row[3], row[4]), ("local-cluster", "true", "True", "True"), "{local}");
}

/// 1. Installing `hcp`: from the link that the object shows to a program that runs.
pub(crate) fn download(region: &Region, curl: &Path) -> PathBuf {
    let object = region.kubectl(&["get", "consoleclidownload", "hcp-cli-download", "-o", "json"]).unwrap();
    let object: Value = serde_json::from_str(&object).unwrap();
    let link = object["spec"]["links"][0]["href"].as_str().unwrap();
    let folder = region.folder().join("downloaded");
    fs::create_dir(&folder).unwrap();
    let fetch = Command::new(curl).args(["-sSfO", link]).current_dir(&folder).output().unwrap();
    result(&fetch).unwrap();
    let unpack = Command::new("tar").args(["xvzf", "hcp.tar.gz"]).current_dir(&folder).output().unwrap();
    assert_eq!(result(&unpack).unwrap(), "hcp\n");
    let hcp = folder.join("hcp");
    let help = Command::new(&hcp).args(["create", "cluster", "kubevirt", "--help"]).output().unwrap();
    assert!(result(&help).unwrap().contains("--node-pool-replicas"));
    hcp
}

async fn three_nodes(region: &Region, guest: &Path) {
    eventually("three nodes are ready", LIMIT, || {
        let nodes = region.kubectl_on(guest, &["get", "nodes", "--no-headers"]);
        async move {
            let nodes = nodes?;
            match nodes.lines().filter(|line| line.contains(" Ready ")).count() {
                3 => Ok(()),
                _ => Err(nodes),
            }
        }
    })
    .await;
    let capacity = [
        "get",
        "nodes",
        "-o",
        "jsonpath={range .items[*]}{.status.capacity.cpu}/{.status.capacity.memory} {end}",
    ];
    let capacity = region.kubectl_on(guest, &capacity).unwrap();
    assert!(capacity.split_whitespace().all(|node| node.starts_with("8/")), "{capacity}");
}

async fn deployment(region: &Region, guest: &Path) {
    let make = ["create", "deployment", "web", "--image=busybox", "--replicas=3", "--", "sleep", "infinity"];
    region.kubectl_on(guest, &make).unwrap();
    region.kubectl_on(guest, &["rollout", "status", "deployment/web", "--timeout=100s"]).unwrap();
    let running = region.kubectl_on(guest, &["get", "pods", "--no-headers"]).unwrap();
    assert_eq!(running.lines().filter(|line| line.contains("Running")).count(), 3, "{running}");
}
