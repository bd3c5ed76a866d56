//! What pods may use, what they do use, and what becomes of those that want more.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, LogParams};
use serde_json::{Value, json};

use crate::support::{Cluster, NODE, run, shell, until};

/// What the node says about limits: whether they are enforced, and why not.
async fn limits(cluster: &Cluster) -> (bool, String, String) {
    limits_of(cluster, NODE).await
}

async fn limits_of(cluster: &Cluster, node: &str) -> (bool, String, String) {
    let node = Api::<Node>::all(cluster.client.clone()).get(node).await.unwrap();
    let conditions = node.status.unwrap().conditions.unwrap();
    let found = conditions.into_iter().find(|one| one.type_ == "ResourceLimits").unwrap();
    (found.status == "True", found.reason.unwrap(), found.message.unwrap())
}

/// The folder of the node's control group for a controller, where there is one.
fn group(cluster: &Cluster, controller: &str) -> Option<PathBuf> {
    let text = std::fs::read_to_string(cluster.config.root.join("cgroups.json")).ok()?;
    let record: Value = serde_json::from_str(&text).unwrap();
    record["node"]["folders"][controller].as_str().map(PathBuf::from)
}

async fn until_event(cluster: &Cluster, pod: &str, reason: &str) -> Event {
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), "default");
    let found = tokio::sync::Mutex::new(None);
    until(|| async {
        let listed = events.list(&ListParams::default()).await.unwrap();
        let is_it = |event: &Event| {
            event.involved_object.name.as_deref() == Some(pod) && event.reason.as_deref() == Some(reason)
        };
        *found.lock().await = listed.items.into_iter().find(is_it);
        found.lock().await.is_some()
    })
    .await;
    found.into_inner().unwrap()
}

/// Where the machine does not let us, the node and the pod have to say so.
async fn says_so(cluster: &Cluster) {
    let (_, reason, message) = limits(cluster).await;
    assert!(
        !reason.is_empty() && message.contains("not enforced") || reason == "SwitchedOff",
        "{reason}: {message}"
    );
    let mut container = shell("exec sleep 600");
    container["resources"] = json!({"limits": {"memory": "64Mi"}});
    cluster.create("unlimited", json!({"containers": [container]})).await;
    cluster.until_ready("unlimited").await;
    let event = until_event(cluster, "unlimited", "LimitsNotEnforced").await;
    assert!(event.message.unwrap().contains("memory limit of main"));
}

/// A node inside a pod can limit its pods if the node around it can, in groups that are in its own pod's.
pub(crate) async fn limits_reach_inside(cluster: &Cluster, worker: &Pod, inner: &str, inside: &Pod) {
    let (enforced, _, _) = limits(cluster).await;
    let (inner_enforced, reason, message) = limits_of(cluster, inner).await;
    assert_eq!(inner_enforced, enforced, "{reason}: {message}");
    if enforced {
        let uid = |pod: &Pod| pod.metadata.uid.clone().unwrap();
        let around =
            group(cluster, "memory").unwrap().join(format!("pod{}/container:main/inner", uid(worker)));
        let nodes = std::fs::read_dir(&around).unwrap().flatten().map(|entry| entry.path());
        let pods: Vec<_> = nodes.map(|node| node.join(format!("pod{}", uid(inside)))).collect();
        assert!(pods.iter().any(|pod| pod.exists()), "none of {pods:?}");
    }
}

pub(crate) fn limits_are_enforced_or_said_not_to_be() {
    run(async {
        let cluster = Cluster::start_with(|config| config.pod_processes = Some(20)).await;
        if !limits(&cluster).await.0 {
            return says_so(&cluster).await;
        }
        // Keeps that much, and no more.
        let mut greedy = shell("head -c 300000000 /dev/zero | tail -c 300000000 > /dev/null");
        greedy["resources"] = json!({"limits": {"memory": "64Mi"}});
        cluster.create("greedy", json!({"restartPolicy": "Never", "containers": [greedy]})).await;
        let pod = cluster.until_phase("greedy", "Failed").await;
        let ended =
            pod.status.unwrap().container_statuses.unwrap()[0].state.clone().unwrap().terminated.unwrap();
        assert_eq!((ended.reason.as_deref(), ended.exit_code), (Some("OOMKilled"), 137));
        let event = until_event(&cluster, "greedy", "OOMKilling").await;
        assert!(event.message.unwrap().contains("(limit 64Mi)"));

        // What is killed without having used too much was not out of memory.
        let mut killed = shell("kill -9 $$$$");
        killed["resources"] = json!({"limits": {"memory": "64Mi"}});
        cluster.create("killed", json!({"restartPolicy": "Never", "containers": [killed]})).await;
        let pod = cluster.until_phase("killed", "Failed").await;
        let ended =
            pod.status.unwrap().container_statuses.unwrap()[0].state.clone().unwrap().terminated.unwrap();
        assert_eq!((ended.reason.as_deref(), ended.exit_code), (Some("Error"), 137));

        // The shell goes on when it may not start another.
        let line = "i=0; while [ $i -lt 40 ]; do sleep 600 & i=$((i+1)); done; echo all";
        let output =
            cluster.output_of("many", json!({"image": "busybox", "command": ["sh", "-c", line]})).await;
        assert!(!output.contains("all"), "{output}");
    });
}

pub(crate) fn groups_hold_what_was_asked_for_and_go_with_the_pod() {
    run(async {
        let mut cluster = Cluster::start().await;
        if !limits(&cluster).await.0 {
            return says_so(&cluster).await;
        }
        let mut main =
            shell("cat /proc/self/oom_score_adj; ls -d /sys/fs/cgroup 2>/dev/null; exec sleep 600");
        main["resources"] = json!({"limits": {"memory": "64Mi", "cpu": "500m"}, "requests": {"cpu": "250m", "memory": "32Mi"}});
        cluster.create("modest", json!({"terminationGracePeriodSeconds": 0, "containers": [main]})).await;
        let pod = cluster.until_ready("modest").await;
        let folder = |controller: &str| {
            let uid = pod.metadata.uid.as_ref().unwrap();
            group(&cluster, controller).unwrap().join(format!("pod{uid}"))
        };
        let read = |controller: &str, one: &str, two: &str| {
            let folder = folder(controller).join("container:main");
            let text = std::fs::read_to_string(folder.join(one))
                .or_else(|_| std::fs::read_to_string(folder.join(two)));
            text.unwrap().trim().to_owned()
        };
        assert_eq!(read("memory", "memory.limit_in_bytes", "memory.max"), "67108864");
        let quota = read("cpu", "cpu.cfs_quota_us", "cpu.max");
        assert!(["50000", "50000 100000"].contains(&quota.as_str()), "{quota}");
        let shares = read("cpu", "cpu.shares", "cpu.weight");
        assert!(["256", "10"].contains(&shares.as_str()), "{shares}");
        assert_ne!(read("memory", "cgroup.procs", "cgroup.procs"), "");
        // Promised a little, so it goes almost first; and of the machine's groups it sees nothing.
        until(|| async {
            cluster.pods().logs("modest", &LogParams::default()).await.is_ok_and(|log| !log.is_empty())
        })
        .await;
        let log = cluster.pods().logs("modest", &LogParams::default()).await.unwrap();
        let score: i32 = log.trim().parse().unwrap();
        assert!((900..1000).contains(&score), "{log}");

        let (memory, node) = (folder("memory"), group(&cluster, "memory").unwrap());
        assert!(memory.exists());
        cluster.kill_kubelet();
        cluster.pods().delete("modest", &DeleteParams::default().grace_period(0)).await.unwrap();
        cluster.start_kubelet().await;
        until(|| async { !memory.exists() }).await;
        // And without any kubelet, nothing of the node is left.
        cluster.create("left", json!({"containers": [shell("exec sleep 600")]})).await;
        cluster.until_ready("left").await;
        cluster.kill_kubelet();
        assert!(node.exists());
        pilothouse_kubelet::remove(&cluster.config.root).unwrap();
        assert!(!node.exists());
        cluster.start_kubelet().await;
    });
}

pub(crate) fn a_node_without_limits_says_so_and_still_counts() {
    run(async {
        let cluster = Cluster::start_with(|config| config.resource_limits = false).await;
        let (enforced, reason, _) = limits(&cluster).await;
        assert_eq!((enforced, reason.as_str()), (false, "SwitchedOff"));
        says_so(&cluster).await;
        counts(&cluster).await;
    });
}

pub(crate) fn what_is_used_is_counted() {
    run(async {
        let cluster = Cluster::start().await;
        counts(&cluster).await;
    });
}

/// A busy pod is seen to be busy, by the kubelet and by whoever asks the API.
async fn counts(cluster: &Cluster) {
    let mut idle = shell("exec sleep 600");
    idle["name"] = json!("idle");
    let busy = shell("while :; do :; done");
    cluster.create("busy", json!({"terminationGracePeriodSeconds": 0, "containers": [busy, idle]})).await;
    let pod = cluster.until_ready("busy").await;

    let connect = || async { cluster.dialer().connect("10.200.0.1:10250".parse().unwrap()).await.unwrap() };
    let answer = cluster.ask_node(connect().await, "kube-apiserver", &[], "/stats/summary").await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    let summary: Value = serde_json::from_str(body).unwrap();
    assert_eq!(summary["node"]["nodeName"], NODE);
    let found = |summary: &Value| {
        let pods = summary["pods"].as_array().unwrap();
        pods.iter().find(|one| one["podRef"]["uid"] == json!(pod.metadata.uid)).unwrap().clone()
    };
    let of = |pod: &Value, name: &str| {
        pod["containers"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone()
    };
    let number = |value: &Value| value.as_u64().unwrap();
    let seen = found(&summary);
    // Whatever else the machine does: more than the one that does nothing, and not more than one processor.
    let (main, idle) = (of(&seen, "main"), of(&seen, "idle"));
    assert!(number(&main["cpu"]["usageNanoCores"]) > number(&idle["cpu"]["usageNanoCores"]), "{seen}");
    assert!(number(&main["cpu"]["usageNanoCores"]) < 1_500_000_000, "{seen}");
    assert!(
        number(&seen["cpu"]["usageCoreNanoSeconds"]) >= number(&main["cpu"]["usageCoreNanoSeconds"]),
        "{seen}"
    );
    assert!(number(&idle["memory"]["workingSetBytes"]) > 0, "{seen}");
    assert!(number(&summary["node"]["memory"]["workingSetBytes"]) > 0, "{summary}");

    let text = cluster.ask_node(connect().await, "kube-apiserver", &[], "/metrics/resource").await;
    assert!(
        text.contains(
            "container_cpu_usage_seconds_total{container=\"main\",namespace=\"default\",pod=\"busy\"}"
        ),
        "{text}"
    );

    let get = |path: &'static str| async move {
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        cluster.client.request::<Value>(request).await.unwrap()
    };
    let nodes = get("/apis/metrics.k8s.io/v1beta1/nodes").await;
    assert_eq!(
        (&nodes["kind"], &nodes["items"][0]["metadata"]["name"]),
        (&json!("NodeMetricsList"), &json!(NODE))
    );
    let usage = &nodes["items"][0]["usage"];
    assert!(
        usage["cpu"].as_str().unwrap().ends_with('n') && usage["memory"].as_str().unwrap().ends_with("Ki"),
        "{usage}"
    );
    let one = get("/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/busy").await;
    assert_eq!((&one["kind"], one["containers"].as_array().unwrap().len()), (&json!("PodMetrics"), 2));
    assert!(one["window"].as_str().unwrap().ends_with('s'), "{one}");
    let none = get("/apis/metrics.k8s.io/v1beta1/pods?labelSelector=no%3Dsuch").await;
    assert_eq!(none["items"], json!([]));
}

pub(crate) fn containers_are_told_what_they_may_use() {
    run(async {
        let cluster = Cluster::start_with(|config| {
            config.capacity.cpu = Some("3".to_owned());
            config.capacity.memory = Some("2Gi".to_owned());
        })
        .await;
        let field = |resource: &str, divisor: &str| json!({"resourceFieldRef": {"resource": resource, "divisor": divisor}});
        let mut main = shell("echo $CPU $MEMORY $NODE; cat /me/request");
        main["resources"] = json!({"limits": {"cpu": "1500m"}, "requests": {"memory": "32Mi"}});
        main["env"] = json!([
            {"name": "CPU", "valueFrom": field("limits.cpu", "1m")},
            {"name": "MEMORY", "valueFrom": field("limits.memory", "1Mi")},
            {"name": "NODE", "valueFrom": field("requests.memory", "1")}]);
        main["volumeMounts"] = json!([{"name": "me", "mountPath": "/me"}]);
        let items = json!([{"path": "request", "resourceFieldRef": {"containerName": "main", "resource": "requests.cpu", "divisor": "1m"}}]);
        let spec = json!({"restartPolicy": "Never", "containers": [main], "volumes": [{"name": "me", "downwardAPI": {"items": items}}]});
        cluster.create("told", spec).await;
        cluster.until_phase("told", "Succeeded").await;
        let log = cluster.pods().logs("told", &LogParams::default()).await.unwrap();
        assert_eq!(log, "1500 2048 33554432\n1500\n");
    });
}

/// The status of a pod's first container.
fn status_of(pod: &Pod) -> Value {
    let status = serde_json::to_value(pod.status.as_ref().unwrap()).unwrap();
    status["containerStatuses"][0].clone()
}

pub(crate) fn a_hook_after_the_start_holds_back_running() {
    run(async {
        let cluster = Cluster::start().await;
        let mut main = shell("touch /signal/up; exec sleep 600");
        main["volumeMounts"] = json!([{"name": "signal", "mountPath": "/signal"}]);
        main["lifecycle"] = json!({"postStart": {"exec": {"command": ["sh", "-c", "while ! test -e /signal/go; do sleep 0.02; done"]}}});
        // Started after the other one: what says that it runs also says how the other one is.
        let mut beside = shell("exec sleep 600");
        beside["name"] = json!("beside");
        let spec = json!({"terminationGracePeriodSeconds": 0, "containers": [main, beside], "volumes": [{"name": "signal", "emptyDir": {}}]});
        cluster.create("held", spec).await;
        let runs = |pod: &Pod, index: usize| {
            let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
            let state = statuses.and_then(|statuses| statuses.get(index)?.state.clone());
            state.is_some_and(|state| state.running.is_some())
        };
        let pod = cluster.until_pod("held", |pod| runs(pod, 1)).await;
        let signal = cluster.pod_folder(&pod).join("volumes/signal");
        until(|| async { signal.join("up").exists() }).await;
        let pod = cluster.pods().get("held").await.unwrap();
        assert_eq!(status_of(&pod)["state"]["waiting"]["reason"], "ContainerCreating");
        std::fs::write(signal.join("go"), "").unwrap();
        let pod = cluster.until_ready("held").await;
        assert!(status_of(&pod)["state"]["running"].is_object());
    });
}

pub(crate) fn failed_probes_and_missing_images_are_told_in_events() {
    run(async {
        let cluster = Cluster::start().await;
        let mut main = shell("exec sleep 600");
        main["livenessProbe"] = json!({"exec": {"command": ["sh", "-c", "echo broken pipe of thoughts; exit 3"]},
            "periodSeconds": 1, "timeoutSeconds": 60, "failureThreshold": 2});
        cluster.create("unwell", json!({"terminationGracePeriodSeconds": 0, "containers": [main]})).await;
        let event = until_event(&cluster, "unwell", "Unhealthy").await;
        assert_eq!(
            event.message.as_deref().map(str::trim),
            Some("Liveness probe failed: broken pipe of thoughts")
        );
        let event = until_event(&cluster, "unwell", "Killing").await;
        assert_eq!(event.message.as_deref(), Some("Container main failed liveness probe, will be restarted"));

        let mut main = shell("true");
        main["image"] = json!("quay.io/nobody/nothing:1");
        cluster.create("imageless", json!({"containers": [main]})).await;
        let event = until_event(&cluster, "imageless", "BackOff").await;
        assert_eq!(event.message.as_deref(), Some("Back-off pulling image \"quay.io/nobody/nothing:1\""));
    });
}

pub(crate) fn a_followed_log_survives_its_rotation() {
    use futures::{AsyncBufReadExt as _, StreamExt as _};
    run(async {
        const LINES: usize = 260_000;
        let cluster = Cluster::start().await;
        let line = format!("while ! test -e /signal/go; do sleep 0.02; done; seq 1 {LINES}");
        let mut main = shell(&line);
        main["volumeMounts"] = json!([{"name": "signal", "mountPath": "/signal"}]);
        cluster.create("wordy", json!({"restartPolicy": "Never", "containers": [main], "volumes": [{"name": "signal", "emptyDir": {}}]})).await;
        let pod = cluster.until_ready("wordy").await;
        let follow = LogParams { follow: true, ..LogParams::default() };
        let mut lines = cluster.pods().log_stream("wordy", &follow).await.unwrap().lines();
        std::fs::write(cluster.pod_folder(&pod).join("volumes/signal/go"), "").unwrap();
        let mut expected = 1;
        while let Some(line) = lines.next().await {
            assert_eq!(line.unwrap(), expected.to_string());
            expected += 1;
        }
        assert_eq!(expected, LINES + 1);
        assert!(cluster.pod_folder(&pod).join("logs/main/0.log.1").exists(), "nothing was put aside");
    });
}
