//! What is over leaves nothing.

use std::time::Duration;

use serde_json::json;

use crate::support::{Cluster, address_of, processes_with, run, shell, until};

/// What the node's network namespace has, seen from outside.
pub(crate) fn interfaces(cluster: &Cluster) -> String {
    let anchor = std::fs::read_to_string(cluster.config.root.join("anchor.json")).unwrap();
    let pid = serde_json::from_str::<serde_json::Value>(&anchor).unwrap()["pid"].clone();
    std::fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap()
}

pub(crate) fn deleted_pod_leaves_nothing() {
    run(async {
        let cluster = Cluster::start().await;
        let mark = format!("mark-{}", std::process::id());
        // Ends by itself when asked to, with something it started and forgot.
        let mut polite = shell(&format!(
            "(sh -c 'sleep 600; : {mark}' &); trap 'exit 0' TERM; while :; do sleep 0.05; done; : {mark}"
        ));
        polite["name"] = json!("polite");
        // Has to be killed.
        let mut deaf = shell(&format!("trap '' TERM; while :; do sleep 0.05; done; : {mark}"));
        deaf["name"] = json!("deaf");
        cluster
            .create("gone", json!({"terminationGracePeriodSeconds": 1, "containers": [polite, deaf]}))
            .await;
        let pod = cluster.until_ready("gone").await;
        let (shim, folder) = (cluster.shim_of(&pod), cluster.pod_folder(&pod));
        let mounts = || std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!processes_with(&mark).is_empty());
        assert!(interfaces(&cluster).contains("v0ac8"), "{} {}", interfaces(&cluster), address_of(&pod));
        let before = mounts();

        cluster.delete("gone").await;

        assert!(processes_with(&mark).is_empty());
        assert!(!std::path::Path::new(&format!("/proc/{shim}")).exists(), "the shim was not waited for");
        assert_eq!(cluster.ended_children(), [0; 0]);
        assert!(!folder.exists());
        assert!(!interfaces(&cluster).contains("v0ac8"), "{}", interfaces(&cluster));
        assert_eq!(mounts(), before);
    });
}

pub(crate) fn stopped_pods_come_back_with_the_next_kubelet() {
    run(async {
        let mut cluster = Cluster::start().await;
        cluster.create("web", json!({"terminationGracePeriodSeconds": 30, "containers": [shell("trap 'echo bye; exit 0' TERM; while :; do sleep 0.05; done")]})).await;
        let pod = cluster.until_ready("web").await;
        let shim = cluster.shim_of(&pod);
        cluster.dialer().stop_pods(Duration::from_secs(30)).await.unwrap();
        until(|| async { !std::path::Path::new(&format!("/proc/{shim}/root/proc")).exists() }).await;
        let log = std::fs::read_to_string(cluster.pod_folder(&pod).join("logs/main/0.log")).unwrap();
        assert!(log.contains("bye"), "{log}");

        cluster.kill_kubelet();
        cluster.start_kubelet().await;
        let pod = cluster
            .until_pod("web", |pod| {
                pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].restart_count == 1
            })
            .await;
        assert_ne!(cluster.shim_of(&pod), shim);

        // And without any kubelet, everything can be cleaned up.
        cluster.kill_kubelet();
        let folder = cluster.pod_folder(&pod);
        assert_eq!(pilothouse_kubelet::remove(&cluster.config.root).unwrap(), 1);
        assert!(!folder.exists());
        assert_eq!(pilothouse_kubelet::remove(&cluster.config.root).unwrap(), 0);
        cluster.start_kubelet().await;
        // What is written about the pod is still from before; it begins anew, and so does its count.
        cluster
            .until_pod("web", |pod| {
                let containers = pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap();
                containers[0].restart_count == 0 && containers[0].ready
            })
            .await;
    });
}
