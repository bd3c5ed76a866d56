//! Kubelets come and go, pods stay.

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::support::{Cluster, address_of, is_ready, program, run, shell, until};

fn container_of(pod: &Pod) -> (Option<String>, i32) {
    let status = &pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    (status.container_id.clone(), status.restart_count)
}

fn is_alive(pid: i32) -> bool {
    // One that nobody has waited for yet has no memory any more.
    std::fs::read_to_string(format!("/proc/{pid}/statm")).is_ok_and(|memory| !memory.starts_with("0 "))
}

pub(crate) fn killed_kubelet_leaves_its_pods_and_the_next_takes_them_over() {
    run(async {
        let mut cluster = Cluster::start().await;
        let mut container = program(&["serve", "8080", "still here"]);
        container["readinessProbe"] = json!({"httpGet": {"port": 8080}});
        cluster.create("steady", json!({"containers": [container]})).await;
        let before = cluster.until_ready("steady").await;
        cluster.create("ending", json!({"restartPolicy": "Never", "containers": [shell("while ! test -e /signal/go; do sleep 0.01; done; exit 5")
            .as_object().map(|container| { let mut container = container.clone();
                container.insert("volumeMounts".into(), json!([{"name": "signal", "mountPath": "/signal"}])); container }).unwrap()],
            "volumes": [{"name": "signal", "emptyDir": {}}]})).await;
        let ending = cluster.until_phase("ending", "Running").await;
        let shim = cluster.shim_of(&before);
        let open =
            cluster.dialer().connect(format!("{}:8080", address_of(&before)).parse().unwrap()).await.unwrap();

        cluster.kill_kubelet();
        assert!(is_alive(shim));
        assert!(open.peer_addr().is_ok());
        // Ends while nobody watches.
        std::fs::write(cluster.pod_folder(&ending).join("volumes/signal/go"), "").unwrap();
        cluster.start_kubelet().await;

        let ended = cluster.until_phase("ending", "Failed").await;
        let state = ended.status.unwrap().container_statuses.unwrap()[0].state.clone().unwrap();
        assert_eq!(state.terminated.unwrap().exit_code, 5);
        let after = cluster.until_ready("steady").await;
        assert_eq!((cluster.shim_of(&after), container_of(&after)), (shim, container_of(&before)));
        assert_eq!(address_of(&after), address_of(&before));
        // An orderly end of the kubelet leaves them, too.
        cluster.stop_kubelet();
        assert!(is_alive(shim));
        cluster.start_kubelet().await;
        assert_eq!(container_of(&cluster.until_ready("steady").await), container_of(&before));
        // The network is still wired, and the next pod gets another address.
        let output = cluster
            .output_of(
                "next",
                json!({"image": "pilothouse", "args": ["fetch", format!("{}:8080", address_of(&after))]}),
            )
            .await;
        assert_eq!(output, "still here\n");
        assert_ne!(address_of(&cluster.pods().get("next").await.unwrap()), address_of(&after));
    });
}

pub(crate) fn pods_forgotten_by_the_api_are_removed() {
    run(async {
        let mut cluster = Cluster::start().await;
        cluster.create("forgotten", json!({"containers": [shell("exec sleep 600")]})).await;
        let pod = cluster.until_ready("forgotten").await;
        let (shim, folder) = (cluster.shim_of(&pod), cluster.pod_folder(&pod));
        cluster.kill_kubelet();
        let at_once = DeleteParams::default().grace_period(0);
        cluster.pods().delete("forgotten", &at_once).await.unwrap();
        assert!(is_alive(shim));
        cluster.start_kubelet().await;
        until(|| async { !folder.exists() }).await;
        assert!(!is_alive(shim));
    });
}

pub(crate) fn pod_whose_network_was_not_finished_is_begun_again() {
    run(async {
        let mut cluster = Cluster::start().await;
        let mut container = program(&["serve", "8080", "here"]);
        container["readinessProbe"] = json!({"httpGet": {"port": 8080}});
        cluster.create("begun", json!({"containers": [container]})).await;
        let before = cluster.until_ready("begun").await;
        let shim = cluster.shim_of(&before);
        cluster.kill_kubelet();
        // What a kubelet leaves that is killed between starting the pod's first process and giving it a network.
        let record = cluster.pod_folder(&before).join("record.json");
        let mut content: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&record).unwrap()).unwrap();
        assert_eq!(content["attached"], true);
        content["attached"] = json!(false);
        std::fs::write(&record, content.to_string()).unwrap();
        cluster.start_kubelet().await;

        until(|| async { !is_alive(shim) }).await;
        let after = cluster
            .until_pod("begun", |pod| is_ready(pod) && container_of(pod) != container_of(&before))
            .await;
        let address = format!("{}:8080", address_of(&after)).parse().unwrap();
        cluster.dialer().connect(address).await.unwrap();
    });
}

/// And the next one goes on from there.
pub(crate) fn kubelet_may_be_killed_anywhere_while_a_pod_begins_or_ends() {
    run(async {
        let mut cluster = Cluster::start().await;
        let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "default");
        let secret = json!({"metadata": {"name": "told"}, "stringData": {"word": "here"}});
        secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
        cluster.kill_kubelet();
        let beginning = ["launch.before", "launch.after", "attach.before", "attach.after"];
        for point in beginning.into_iter().chain(["volume.before", "volume.after"]) {
            let name = point.replace('.', "-");
            let mut container = shell("pilothouse serve 8080 $(cat /etc/told/word)");
            container["image"] = json!("pilothouse");
            container["readinessProbe"] = json!({"httpGet": {"port": 8080}});
            container["volumeMounts"] = json!([{"name": "told", "mountPath": "/etc/told"}]);
            let volumes = json!([{"name": "told", "secret": {"secretName": "told"}}]);
            cluster.create(&name, json!({"containers": [container], "volumes": volumes})).await;
            cluster.fall_at(&format!("kubelet.{point}:1")).await;
            cluster.start_kubelet().await;
            let pod = cluster.until_ready(&name).await;
            assert_eq!(container_of(&pod).1, 0, "{point}: nothing was started that could not run");
            cluster.kill_kubelet();
        }
        for (point, name) in [("detach.before", "launch-before"), ("detach.after", "launch-after")] {
            let folder = cluster.pod_folder(&cluster.pods().get(name).await.unwrap());
            cluster.pods().delete(name, &DeleteParams::default().grace_period(1)).await.unwrap();
            cluster.fall_at(&format!("kubelet.{point}:1")).await;
            cluster.start_kubelet().await;
            until(|| async { cluster.pods().get_opt(name).await.unwrap().is_none() }).await;
            assert!(!folder.exists(), "{point}");
            cluster.kill_kubelet();
        }
    });
}
