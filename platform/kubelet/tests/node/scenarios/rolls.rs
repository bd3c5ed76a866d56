//! A new version comes while people use the old one.

use k8s_openapi::api::core::v1::{Pod, Service};
use serde_json::{Value, json};

use super::World;
use crate::support::{program, until};

fn deployment(world: &World, version: &str) -> Value {
    let mut container = program(&["slow", "8080", version]);
    container["readinessProbe"] = json!({"httpGet": {"port": 8080, "path": "/ready"}, "periodSeconds": 1});
    // Whoever is still sent here is still answered.
    container["lifecycle"] = json!({"preStop": {"exec": {"command": ["pilothouse", "quiet"]}}});
    // Longer than anybody waits below: one who is asked for ever does not get away with it.
    let spec = json!({"containers": [container], "terminationGracePeriodSeconds": 600});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": {"metadata": {"labels": {"app": "web", "version": version}}, "spec": world.pod(spec)}}})
}

pub(super) async fn rolls(world: &mut World) {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]}});
    world.apply(service).await;
    world.apply(deployment(world, "one")).await;
    world.printed(&["rollout", "status", "deployment/web", "--timeout=120s"]).await;
    let service = world.api::<Service>().get("web").await.unwrap();
    let address = format!("{}:80", service.spec.unwrap().cluster_ip.unwrap());
    // The endpoints are somebody else's word, which may come a moment later.
    until(|| async { world.nodes[0].dialer().connect(address.parse().unwrap()).await.is_ok() }).await;
    until(|| async { answers(world, &address).await }).await;
    world
        .apply_pod(
            "people",
            json!({"restartPolicy": "Never", "containers": [program(&["traffic", &address])]}),
        )
        .await;
    world.printed(&["wait", "--for=condition=Ready", "pod/people", "--timeout=120s"]).await;

    world.apply(deployment(world, "two")).await;
    let told = world.printed(&["rollout", "status", "deployment/web", "--timeout=120s"]).await;
    assert!(told.contains("deployment \"web\" successfully rolled out"), "{told}");
    until(|| async { world.pods_with("version=one").await.is_empty() }).await;
    let history = world.printed(&["rollout", "history", "deployment/web"]).await;
    assert!(history.contains("\n1 ") && history.contains("\n2 "), "{history}");

    // And back again.
    let told = world.printed(&["rollout", "undo", "deployment/web"]).await;
    assert!(told.contains("deployment.apps/web rolled back"), "{told}");
    world.printed(&["rollout", "status", "deployment/web", "--timeout=120s"]).await;
    until(|| async { world.pods_with("version=two").await.is_empty() }).await;

    world.printed(&["exec", "people", "--", "touch", "/tmp/stop"]).await;
    let ended = |pod: &Pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Succeeded");
    world.until_pod("people", ended).await;
    let log = world.printed(&["logs", "people"]).await;
    let answers: Vec<_> = log.lines().map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(answers, ["one", "two"], "{log}");
}

/// Whether the Service leads to somebody.
async fn answers(world: &World, address: &str) -> bool {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let Ok(mut stream) = world.nodes[0].dialer().connect(address.parse().unwrap()).await else {
        return false;
    };
    let mut answer = String::new();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.is_ok()
        && stream.read_to_string(&mut answer).await.is_ok()
        && answer.ends_with("one")
}
