//! A node inside a pod.

use std::path::Path;

use k8s_openapi::api::core::v1::{Node, Secret};
use kube::Api;
use kube::api::PostParams;
use pilothouse_kubelet::{Config, Namespaces};
use serde_json::json;

use crate::support::{Cluster, address_of, program, run, wait_for};

/// The inner node and its pods belong to the same API server here, which is found through the outer node's proxy.
pub(crate) fn a_pod_can_be_a_node_with_pods_of_its_own() {
    run(async {
        let cluster = Cluster::start_with(|config| config.allow_host_path = true).await;
        // The API server of this test is outside of every node; a pod of the outer node passes connections on to it.
        let socket = cluster.folder.path().join("host.sock");
        let mut gateway = program(&["relay", "6443", "/run/host/host.sock"]);
        gateway["volumeMounts"] = json!([{"name": "host", "mountPath": "/run/host"}]);
        let folder = socket.parent().unwrap();
        cluster
            .create(
                "api",
                json!({"containers": [gateway], "volumes": [{"name": "host", "hostPath": {"path": folder}}]}),
            )
            .await;
        let api = cluster.until_ready("api").await;

        let kubeconfig = std::fs::read_to_string(cluster.config.kubeconfig.clone()).unwrap();
        let server = kubeconfig.lines().find(|line| line.trim().starts_with("server:")).unwrap().to_owned();
        let kubeconfig = kubeconfig.replace(
            &server,
            &format!("    server: https://{}:6443\n    tls-server-name: localhost", address_of(&api)),
        );
        let config = Config {
            node_name: "inner".to_owned(),
            root: "/var/lib/kubelet".into(),
            kubeconfig: "/etc/kubelet/kubeconfig".into(),
            namespaces: Namespaces::Inherit,
            pod_range: Some("10.132.0.0/24".to_owned()),
            service_range: "172.31.0.0/16".to_owned(),
            ..Config::default()
        };
        let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "default");
        let secret = json!({"metadata": {"name": "worker"}, "stringData":
            {"kubeconfig": kubeconfig, "kubelet.toml": toml::to_string(&config).unwrap()}});
        secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
        let mut worker = program(&["kubelet", "/etc/kubelet/kubelet.toml"]);
        worker["securityContext"] = json!({"privileged": true});
        worker["volumeMounts"] = json!([{"name": "config", "mountPath": "/etc/kubelet"}, {"name": "data", "mountPath": "/var/lib/kubelet"}]);
        cluster
            .create(
                "worker",
                json!({"containers": [worker], "volumes": [
            {"name": "config", "secret": {"secretName": "worker"}}, {"name": "data", "emptyDir": {}}]}),
            )
            .await;

        let nodes: Api<Node> = Api::all(cluster.client.clone());
        wait_for(nodes, "inner", |node: Option<&Node>| {
            let conditions =
                node.and_then(|node| node.status.as_ref()).and_then(|status| status.conditions.as_deref());
            conditions.unwrap_or_default().iter().any(|one| one.type_ == "Ready" && one.status == "True")
        })
        .await;
        let worker = cluster.until_ready("worker").await;

        let mut container = program(&["serve", "8080", "from within"]);
        container["readinessProbe"] = json!({"httpGet": {"port": 8080}});
        let inside =
            json!({"metadata": {"name": "inside"}, "spec": {"nodeName": "inner", "containers": [container]}});
        cluster
            .pods()
            .create(&PostParams::default(), &serde_json::from_value(inside).unwrap())
            .await
            .unwrap();
        let inside = cluster.until_ready("inside").await;
        assert!(address_of(&inside).starts_with("10.132.0."));
        assert_eq!(inside.status.as_ref().unwrap().host_ip, worker.status.as_ref().unwrap().pod_ip);

        crate::resources::limits_reach_inside(&cluster, &worker, "inner", &inside).await;

        // From a pod of the inner node its neighbours are reachable, and nothing beyond.
        let attempts = format!(
            "pilothouse fetch {}:8080; pilothouse fetch {}:6443 || true",
            address_of(&inside),
            address_of(&api)
        );
        let prober = json!({"metadata": {"name": "prober"}, "spec": {"nodeName": "inner", "restartPolicy": "Never", "containers": [
            {"name": "main", "image": "pilothouse", "command": ["sh", "-c", attempts]}]}});
        cluster
            .pods()
            .create(&PostParams::default(), &serde_json::from_value(prober).unwrap())
            .await
            .unwrap();
        cluster.until_phase("prober", "Succeeded").await;
        // Its log is in the outer pod's volume, read there as a file.
        let log = find(&cluster.pod_folder(&worker).join("volumes/data/pods"), "main/0.log");
        assert!(log.contains("from within") && log.contains("No route to host"), "{log}");

        // The whole inner node goes with its pod.
        let shim = cluster.shim_of(&worker);
        assert!(Path::new(&format!("/proc/{shim}")).exists());
        cluster.delete("worker").await;
        wait_gone(shim).await;
    });
}

async fn wait_gone(shim: i32) {
    crate::support::until(|| async move {
        !std::fs::read_to_string(format!("/proc/{shim}/statm")).is_ok_and(|memory| !memory.starts_with("0 "))
    })
    .await;
}

/// The logs of all pods below a folder, together.
fn find(folder: &Path, name: &str) -> String {
    let pods = std::fs::read_dir(folder).unwrap().flatten();
    pods.filter_map(|pod| std::fs::read_to_string(pod.path().join("logs").join(name)).ok()).collect()
}
