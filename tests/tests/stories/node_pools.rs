//! A pool of virtual machines: its nodes join by themselves, come back when they are lost, and are changed one by one.

use std::path::Path;

use pilothouse_test_support::eventually;
use serde_json::json;

use crate::manifests;
use crate::region::{LIMIT, Region};

/// A cluster with networks of its own, and a pool of two machines of a release before the cluster's.
fn manifests() -> String {
    let mut cluster = manifests::cluster("eva");
    cluster["spec"]["release"]["image"] = json!("pilothouse/release:4.20.8");
    cluster["spec"]["platform"]["kubevirt"] = json!({ "baseDomainPassthrough": true });
    cluster["spec"]["networking"] = json!({
        "clusterNetwork": [{ "cidr": "10.132.0.0/14" }], "serviceNetwork": [{ "cidr": "172.31.0.0/16" }],
    });
    let mut pool = manifests::pool("eva", "workers", 2);
    pool["spec"]["platform"]["kubevirt"] = json!({ "compute": { "cores": 3, "memory": "2Gi" } });
    manifests::text(&[cluster, pool])
}

/// What `kubectl get nodes` says in this form, one line per node and sorted.
fn nodes(region: &Region, kubeconfig: &Path, form: &str) -> Result<Vec<String>, String> {
    let form = format!("jsonpath={{range .items[*]}}{form}{{\"\\n\"}}{{end}}");
    let text = region.kubectl_on(kubeconfig, &["get", "nodes", "-o", &form])?;
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort();
    Ok(lines)
}

async fn eventually_ready(region: &Region, version: &str) {
    eventually(&format!("the pool is ready with {version}"), LIMIT, || {
        let form = "jsonpath={.status.version} {.status.replicas} {.status.conditions[?(@.type==\"Ready\")]}";
        let found = region.kubectl(&["get", "-n", "clusters", "nodepool/workers", "-o", form]);
        async move {
            let text = found?;
            let ready = text.starts_with(&format!("{version} 2 ")) && text.contains("\"status\":\"True\"");
            if ready { Ok(()) } else { Err(text) }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_a_pool_join_by_a_token_come_back_when_lost_and_are_replaced_by_a_new_release() {
    let Some(mut region) = Region::start(&[]).await else { return };
    region.apply(&manifests()).unwrap();
    eventually_ready(&region, "4.20.0").await;
    let kubeconfig = region.kubeconfig("eva").unwrap();

    // As large as their machines, and certified by their own cluster.
    let sizes = nodes(&region, &kubeconfig, "{.status.capacity.cpu} {.status.capacity.memory}").unwrap();
    assert_eq!(sizes, ["3 2Gi", "3 2Gi"]);
    let requests = region.kubectl_on(&kubeconfig, &["get", "csr"]).unwrap();
    assert!(
        requests.contains("kube-apiserver-client-kubelet") && requests.contains("Approved,Issued"),
        "{requests}"
    );
    let machines = region.kubectl(&["get", "machines,vm,vmi", "-n", "clusters-eva"]).unwrap();
    assert_eq!(machines.matches("Running").count(), 6, "{machines}");
    let secrets = region.kubectl(&["get", "secrets", "-n", "clusters-eva", "-o", "name"]).unwrap();
    assert!(
        secrets.contains("secret/user-data-workers-") && secrets.contains("secret/token-workers-"),
        "{secrets}"
    );

    // The process of one is lost: its machine starts again and is the same node.
    let processes = [
        "get",
        "pods",
        "-n",
        "clusters-eva",
        "-l",
        "vm.kubevirt.io/name=workers-0",
        "-o",
        "jsonpath={.items[*].metadata.name}",
    ];
    let lost = region.kubectl(&processes).unwrap();
    region.kubectl(&["delete", "pod", "-n", "clusters-eva", &lost, "--timeout=100s"]).unwrap();
    eventually("another process runs", LIMIT, || {
        let found = region.kubectl(&processes);
        let same = found.as_ref().is_ok_and(|found| found.is_empty() || *found == lost);
        async move { if same { Err(format!("{found:?}")) } else { Ok(()) } }
    })
    .await;
    let on_it = r#"{"spec": {"nodeName": "workers-0"}}"#;
    region
        .kubectl_on(
            &kubeconfig,
            &[
                "run",
                "hello",
                "--image=busybox",
                "--restart=Never",
                "--overrides",
                on_it,
                "--",
                "echo",
                "ahoy",
            ],
        )
        .unwrap();
    region
        .kubectl_on(
            &kubeconfig,
            &["wait", "pod/hello", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=100s"],
        )
        .unwrap();
    eventually("its log can be read", LIMIT, || {
        let log = region.kubectl_on(&kubeconfig, &["logs", "hello"]);
        async move { if log.as_deref() == Ok("ahoy\n") { Ok(()) } else { Err(format!("{log:?}")) } }
    })
    .await;

    // A new release, node by node.
    let newer = r#"{"spec": {"release": {"image": "pilothouse/release:4.20.8"}}}"#;
    region.kubectl(&["patch", "-n", "clusters", "nodepool/workers", "--type", "merge", "-p", newer]).unwrap();
    eventually_ready(&region, "4.20.8").await;
    let versions = nodes(&region, &kubeconfig, "{.status.nodeInfo.kubeletVersion}").unwrap();
    assert_eq!(versions, ["v1.33.5", "v1.33.5"]);

    region.kubectl(&["delete", "-n", "clusters", "nodepool/workers", "--timeout=100s"]).unwrap();
    assert_eq!(nodes(&region, &kubeconfig, "{.metadata.name}").unwrap(), [""; 0]);
    let rest = region.kubectl(&["get", "machines,vm,vmi", "-A", "-o", "name"]).unwrap();
    assert_eq!(rest, "");
    region.kubectl(&["delete", "-n", "clusters", "hostedcluster/eva", "--timeout=100s"]).unwrap();
    region.is_alone(&["eva"]).await;
    region.stop();
    assert_eq!(region.processes(), [""; 0]);
}
