//! The same operators on a real Kubernetes: each in a process of its own, over etcd, kube-apiserver, controllers and scheduler
//! of upstream, with our kubelet as the node.

use std::fs;

use pilothouse_test_support::upstream::Upstream;

use crate::management::{CLASS, Management};

#[tokio::test(flavor = "multi_thread")]
async fn a_hosted_cluster_runs_on_a_real_kubernetes() {
    let Some(upstream) = Upstream::find() else { return };
    let management = Management::real(upstream).await;
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
            &format!("--etcd-storage-class={CLASS}"),
        ])
        .unwrap();
    let available =
        ["wait", "-n", "hcp", "hostedcluster/guest", "--for=condition=Available", "--timeout=300s"];
    management.kubectl(&available).unwrap();
    let guest = management.kubeconfig("hcp", "guest");
    management.has_nodes(&guest, 2).await;
    let pod = ["run", "hello", "--image=busybox", "--restart=Never", "--", "echo", "ahoy"];
    management.kubectl_on(&guest, &pod).unwrap();
    let done = ["wait", "pod/hello", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=300s"];
    management.kubectl_on(&guest, &done).unwrap();
    let imported = ["get", "managedclusters", "guest", "--no-headers"];
    management.eventually("it is imported", &imported, |row| row.matches("True").count() == 2).await;

    management.hcp(&["destroy", "cluster", "kubevirt", "--name", "guest", "--namespace", "hcp"]).unwrap();
    management.nothing_left_of("guest").await;
    management.stop().await;
}
