//! Nodes and pods of several owners on one node.

use std::net::SocketAddr;
use std::path::Path;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, LogParams, Patch, PatchParams, PostParams};
use pilothouse_kubelet::{Config, Isolation, Namespaces};
use serde_json::{Value, json};

use crate::network::{create_service, ready};
use crate::support::{Cluster, address_of, create_account, is_ready, program, run, shell, until, wait_for};

/// Two tenants on one node: one with two nodes in pods and pods in those, one with a pod of its own.
pub(crate) fn they_reach_all_of_their_own_and_nothing_else() {
    run(async {
        let mut cluster = Cluster::start_with(|config| {
            config.allow_host_path = true;
            config.isolation = Isolation::Namespace;
        })
        .await;
        // The API server of this test is outside of every node; a pod of the outer node passes connections on to it.
        let mut gateway = program(&["relay", "6443", "/run/host/host.sock"]);
        gateway["volumeMounts"] = json!([{"name": "host", "mountPath": "/run/host"}]);
        let folder = json!({"name": "host", "hostPath": {"path": cluster.folder.path()}});
        cluster.create("api", json!({"containers": [gateway], "volumes": [folder]})).await;
        let api = address_of(&cluster.until_ready("api").await);
        let left = worker(&cluster, "left", "10.132.0.0/24", &api).await;
        worker(&cluster, "right", "10.132.1.0/24", &api).await;
        inner_pod(&cluster, "near", "left", program(&["serve", "8080", "near"])).await;
        let near = address_of(&cluster.until_ready("near").await);
        inner_pod(&cluster, "far", "right", program(&["serve", "8080", "far"])).await;
        let far = cluster.until_ready("far").await;
        assert!(address_of(&far).starts_with("10.132.1."), "{}", address_of(&far));
        let spec = json!({"ports": [{"port": 80, "targetPort": 8080}]});
        let service = create_service(&cluster, "far", spec.clone()).await;
        lead_to_port(&cluster, "default", "far", 8080, json!([ready(&far)])).await;

        // Somebody else.
        let strangers = stranger(&cluster).await;
        let node = cluster.config.node_name.clone();
        let spec_of = |container: Value| json!({"nodeName": node, "containers": [container]});
        let stranger = strangers.get("stranger").await.unwrap();
        let services: Api<Service> = Api::namespaced(cluster.client.clone(), "other");
        let strange = serde_json::from_value(json!({"metadata": {"name": "strange"}, "spec": spec})).unwrap();
        let strange = services.create(&PostParams::default(), &strange).await.unwrap();
        let strange: SocketAddr =
            format!("{}:80", strange.spec.unwrap().cluster_ip.unwrap()).parse().unwrap();
        lead_to_port(&cluster, "other", "strange", 8080, json!([ready(&stranger)])).await;
        until(|| async { cluster.dialer().connect(strange).await.is_ok() }).await;
        let stranger = address_of(&stranger);

        // From a pod of a node in a pod: pods there, pods of the other node, a Service that leads to that. And nothing else: not the
        // other tenant, not its Service, not what is around its own node.
        let attempts = [
            format!("until pilothouse fetch {service}:80 | grep far; do :; done"),
            format!("pilothouse fetch {near}:8080"),
            format!("pilothouse fetch {}:8080", address_of(&far)),
            format!("pilothouse fetch {stranger}:8080"),
            format!("pilothouse fetch {api}:6443"),
            "pilothouse fetch 10.200.0.1:10250".to_owned(),
            "true".to_owned(),
        ];
        let mut prober = shell(&attempts.join("; "));
        prober["image"] = json!("pilothouse");
        let prober = json!({"metadata": {"name": "prober"}, "spec":
            {"nodeName": "left", "restartPolicy": "Never", "containers": [prober]}});
        cluster
            .pods()
            .create(&PostParams::default(), &serde_json::from_value(prober).unwrap())
            .await
            .unwrap();
        cluster.until_phase("prober", "Succeeded").await;
        let log = logs_below(&cluster.pod_folder(&left).join("volumes/data/pods"));
        let lines: Vec<_> = log.lines().map(|line| line.splitn(4, ' ').nth(3).unwrap_or_default()).collect();
        let nothing = "No route to host (os error 113)";
        assert!(lines.ends_with(&["far", "near", "far", nothing, nothing, nothing]), "{log}");

        // From where a node in a pod is, and the other way round.
        let mut container = program(&["serve", "8080", "sibling"]);
        container["readinessProbe"] = json!({"tcpSocket": {"port": 8080}});
        cluster.create("sibling", json!({"containers": [container]})).await;
        let sibling = address_of(&cluster.until_ready("sibling").await);
        let attempts = [
            format!("{sibling}:8080"),
            format!("{stranger}:8080"),
            strange.to_string(),
            "strange.other:80".to_owned(),
        ];
        let attempts = attempts.map(|address| format!("pilothouse fetch {address}")).join("; ");
        let client = json!({"image": "pilothouse", "command": ["sh", "-c", attempts]});
        for kubelet in ["first", "second"] {
            let output = cluster.output_of(&format!("beside-{kubelet}"), client.clone()).await;
            let lines: Vec<_> = output.lines().collect();
            assert_eq!(lines[..3], ["sibling", nothing, "nothing"], "{output}");
            assert!(lines[3].contains("failed to lookup address"), "{output}");
            if kubelet == "first" {
                // The next kubelet finds out from the kernel who belongs together.
                cluster.kill_kubelet();
                cluster.start_kubelet().await;
                until(|| async { cluster.dialer().connect(strange).await.is_ok() }).await;
            }
        }

        let mut back = program(&["fetch", &format!("{near}:8080")]);
        back["name"] = json!("main");
        let mut spec = spec_of(back);
        spec["restartPolicy"] = json!("Never");
        let back = json!({"metadata": {"name": "back"}, "spec": spec});
        strangers.create(&PostParams::default(), &serde_json::from_value(back).unwrap()).await.unwrap();
        wait_for(strangers.clone(), "back", |pod: Option<&Pod>| {
            pod.is_some_and(|pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Failed"))
        })
        .await;
        assert_eq!(strangers.logs("back", &LogParams::default()).await.unwrap(), format!("{nothing}\n"));
    });
}

/// Its kubelet was killed when the pod had just been given its place in the network.
pub(crate) fn an_address_that_was_never_used_leads_nobody_to_the_next_who_has_it() {
    run(async {
        let mut cluster = Cluster::start_with(|config| config.isolation = Isolation::Namespace).await;
        // While one of its pods is there, the namespace keeps its table.
        cluster.create("own", json!({"containers": [shell("exec sleep 600")]})).await;
        cluster.until_ready("own").await;
        cluster.kill_kubelet();
        cluster.create("unfinished", json!({"containers": [shell("exec sleep 600")]})).await;
        cluster.fall_at("kubelet.attach.after:1").await;
        let record = cluster.pod_folder(&cluster.pods().get("unfinished").await.unwrap()).join("record.json");
        let record: Value = serde_json::from_slice(&std::fs::read(record).unwrap()).unwrap();
        let at_once = DeleteParams::default().grace_period(0);
        cluster.pods().delete("unfinished", &at_once).await.unwrap();
        cluster.start_kubelet().await;

        let strangers = stranger(&cluster).await;
        let stranger = address_of(&strangers.get("stranger").await.unwrap());
        assert_eq!(record["address"], stranger.as_str(), "that is what this is about");
        let output = cluster.output_of("prober", program(&["fetch", &format!("{stranger}:8080")])).await;
        assert_eq!(output, "No route to host (os error 113)\n");
    });
}

/// A pod of somebody else, ready, and all of his.
async fn stranger(cluster: &Cluster) -> Api<Pod> {
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let other = serde_json::from_value(json!({"metadata": {"name": "other"}})).unwrap();
    namespaces.create(&PostParams::default(), &other).await.unwrap();
    create_account(&cluster.client, "other").await;
    let strangers: Api<Pod> = Api::namespaced(cluster.client.clone(), "other");
    let mut container = program(&["serve", "8080", "stranger"]);
    container["readinessProbe"] = json!({"tcpSocket": {"port": 8080}});
    let spec = json!({"nodeName": cluster.config.node_name, "containers": [container]});
    let stranger = json!({"metadata": {"name": "stranger"}, "spec": spec});
    strangers.create(&PostParams::default(), &serde_json::from_value(stranger).unwrap()).await.unwrap();
    wait_for(strangers.clone(), "stranger", |pod: Option<&Pod>| pod.is_some_and(is_ready)).await;
    strangers
}

/// A node in a pod, ready, and the way behind it, which is otherwise announced by who made it.
async fn worker(cluster: &Cluster, name: &str, range: &str, api: &str) -> Pod {
    let kubeconfig = std::fs::read_to_string(cluster.config.kubeconfig.clone()).unwrap();
    let server = kubeconfig.lines().find(|line| line.trim().starts_with("server:")).unwrap().to_owned();
    let there = format!("    server: https://{api}:6443\n    tls-server-name: localhost");
    let config = Config {
        node_name: name.to_owned(),
        root: "/var/lib/kubelet".into(),
        kubeconfig: "/etc/kubelet/kubeconfig".into(),
        namespaces: Namespaces::Inherit,
        pod_range: Some(range.to_owned()),
        ..Config::default()
    };
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "default");
    let secret = json!({"metadata": {"name": name}, "stringData":
        {"kubeconfig": kubeconfig.replace(&server, &there), "kubelet.toml": toml::to_string(&config).unwrap()}});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    let mut container = program(&["kubelet", "/etc/kubelet/kubelet.toml"]);
    container["securityContext"] = json!({"privileged": true});
    container["volumeMounts"] = json!([{"name": "config", "mountPath": "/etc/kubelet"}, {"name": "data", "mountPath": "/var/lib/kubelet"}]);
    let volumes =
        json!([{"name": "config", "secret": {"secretName": name}}, {"name": "data", "emptyDir": {}}]);
    cluster.create(name, json!({"containers": [container], "volumes": volumes})).await;
    let announced = json!({"metadata": {"annotations": {"pilothouse.dev/pod-range": range}}});
    cluster.pods().patch(name, &PatchParams::default(), &Patch::Merge(announced)).await.unwrap();
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    wait_for(nodes, name, |node: Option<&Node>| {
        let conditions =
            node.and_then(|node| node.status.as_ref()).and_then(|status| status.conditions.as_deref());
        conditions.unwrap_or_default().iter().any(|one| one.type_ == "Ready" && one.status == "True")
    })
    .await;
    cluster.until_ready(name).await
}

async fn inner_pod(cluster: &Cluster, name: &str, node: &str, mut container: Value) {
    container["readinessProbe"] = json!({"tcpSocket": {"port": 8080}});
    let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [container]}});
    cluster.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
}

async fn lead_to_port(cluster: &Cluster, namespace: &str, service: &str, port: u16, endpoints: Value) {
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": service, "labels": {"kubernetes.io/service-name": service}},
        "ports": [{"name": "", "port": port}], "endpoints": endpoints});
    let slices: Api<EndpointSlice> = Api::namespaced(cluster.client.clone(), namespace);
    slices.patch(service, &PatchParams::apply("test").force(), &Patch::Apply(&slice)).await.unwrap();
}

/// The logs of all pods below a folder, together.
fn logs_below(folder: &Path) -> String {
    let pods = std::fs::read_dir(folder).unwrap().flatten();
    pods.filter_map(|pod| std::fs::read_to_string(pod.path().join("logs/main/0.log")).ok()).collect()
}
