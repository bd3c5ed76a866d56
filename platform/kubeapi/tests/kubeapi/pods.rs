//! Pods' identities and logs.

use std::pin::pin;

use axum::Router;
use axum::extract::{Extension, Path, Query};
use axum::routing::get;
use futures::{AsyncReadExt as _, io::AsyncRead};
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use kube::Api;
use kube::api::{DeleteParams, LogParams, ObjectMeta, PostParams};
use pilothouse_http::{Exposure, Listener, ListenerConfig, Metrics, Peer, Stack, TlsFiles};
use pilothouse_pki::{LeafRequest, Subject};
use pilothouse_runtime::{Clock, OnExit};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use crate::support::{Cluster, PATIENCE, refused};

fn pod(name: &str, spec: Value) -> Pod {
    let mut pod = json!({
        "metadata": { "name": name },
        "spec": { "containers": [{ "name": "main", "image": "busybox" }] },
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    serde_json::from_value(pod).unwrap()
}

#[tokio::test]
async fn a_pod_gets_the_credentials_of_its_service_account() {
    let cluster = Cluster::start().await;
    let client = cluster.admin().await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let named = json!({ "serviceAccountName": "cook" });
    let (code, _, message) = refused(pods.create(&PostParams::default(), &pod("early", named.clone())).await);
    assert_eq!(code, 403);
    assert!(message.contains("error looking up service account default/cook"), "{message}");

    let account: ServiceAccount = serde_json::from_value(json!({ "metadata": { "name": "cook" } })).unwrap();
    Api::namespaced(client, "default").create(&PostParams::default(), &account).await.unwrap();
    let made = pods.create(&PostParams::default(), &pod("late", named)).await.unwrap().spec.unwrap();
    let volume = made.volumes.unwrap().into_iter().find(|volume| volume.projected.is_some()).unwrap();
    let mount = made.containers[0].volume_mounts.clone().unwrap();
    assert!(mount.iter().any(|mount| mount.name == volume.name));
    cluster.stop().await;
}

#[tokio::test]
async fn a_pod_waits_for_the_account_of_a_namespace_that_was_just_made() {
    let cluster = Cluster::start().await;
    let client = cluster.admin().await;
    let (pods, accounts): (Api<Pod>, Api<ServiceAccount>) =
        (Api::namespaced(client.clone(), "default"), Api::namespaced(client, "default"));
    let account = accounts.get("default").await.unwrap();
    let account = ServiceAccount {
        metadata: ObjectMeta { name: account.metadata.name, ..ObjectMeta::default() },
        ..account
    };
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    let waiting = pod("early", json!({}));
    let params = PostParams::default();
    let mut waiting = pin!(pods.create(&params, &waiting));
    // Others are answered meanwhile.
    for _ in 0..3 {
        tokio::select! {
            made = &mut waiting => panic!("{made:?}"),
            other = pods.get_opt("other") => assert!(other.unwrap().is_none()),
        }
    }
    let later = accounts.create(&params, &account);
    let (made, made_account) = tokio::join!(waiting, later);
    made_account.unwrap();
    assert_eq!(made.unwrap().spec.unwrap().service_account_name.as_deref(), Some("default"));
    cluster.stop().await;
}

/// What a kubelet answers, with who asked and for what.
async fn logs(
    Extension(peer): Extension<Peer>,
    Path(path): Path<String>,
    Query(query): Query<Vec<(String, String)>>,
) -> String {
    let asked: Vec<_> = query.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{} {path} {}\n", peer.identity().unwrap(), asked.join("&"))
}

#[tokio::test]
async fn logs_come_from_the_kubelet_of_the_node() {
    let cluster = Cluster::start().await;
    let ground = &cluster.ground;
    // A kubelet that lets in only what the cluster's authority has signed.
    let name = "one".parse().unwrap();
    let request = LeafRequest::server(Subject::try_new("system:node:one").unwrap(), [name]);
    let identity = ground.authority.issue(&request, &Clock::system()).unwrap();
    let (certificate, key) = (ground.path("kubelet.crt"), ground.path("kubelet.key"));
    identity.write(&certificate, &key).unwrap();
    let client_authorities = ground.path("clients.crt");
    ground.bundle().write(&client_authorities).unwrap();
    let tls = Some(TlsFiles { certificate, key, client_authorities: Some(client_authorities) });
    let config = ListenerConfig { tls, exposure: Exposure::Loopback, ..ListenerConfig::loopback(0) };
    let listener = Listener::bind("the kubelet", &config, &Clock::system()).await.unwrap();
    let port = listener.local_address().port();
    let metrics = Metrics::new(&mut Registry::default());
    let app = Router::new().route("/containerLogs/{*path}", get(logs));
    let (app, tasks) = (Stack::new(metrics.clone()).around(app), cluster.tasks.clone());
    let serving = tasks.clone();
    tasks.spawn("kubelet", OnExit::StopProcess, async move { listener.serve(app, metrics, &serving).await });

    let client = cluster.admin().await;
    let node: Node = serde_json::from_value(json!({
        "metadata": { "name": "one" },
        "status": {
            "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": port } },
        },
    }))
    .unwrap();
    Api::all(client.clone()).create(&PostParams::default(), &node).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client, "default");
    pods.create(&PostParams::default(), &pod("waiting", json!({}))).await.unwrap();
    assert_eq!(refused(pods.logs("waiting", &LogParams::default()).await).0, 400);
    pods.create(&PostParams::default(), &pod("web", json!({ "nodeName": "one" }))).await.unwrap();
    let tail = LogParams { tail_lines: Some(7), ..LogParams::default() };
    let text = pods.logs("web", &tail).await.unwrap();
    assert_eq!(text, "kube-apiserver default/web/main tailLines=7\n");

    let follow = LogParams { follow: true, ..LogParams::default() };
    let mut stream: std::pin::Pin<Box<dyn AsyncRead>> =
        Box::pin(pods.log_stream("web", &follow).await.unwrap());
    let mut text = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut text)).await.unwrap().unwrap();
    assert!(text.contains("follow=true"), "{text}");
    cluster.stop().await;
}
