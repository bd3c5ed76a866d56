//! What is too large, too deep, or nothing at all.

use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use pilothouse_kubeapi::testing::{Cluster, Options};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const JSON: &str = "application/json";

/// One request, and what is said to it.
async fn ask(
    client: &Client,
    method: Method,
    path: &str,
    content: &str,
    body: Vec<u8>,
) -> (StatusCode, Value) {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content)
        .header("accept", JSON)
        .body(Body::from(body))
        .unwrap();
    let answer = client.send(request).await.unwrap();
    let status = answer.status();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn refused(
    client: &Client,
    method: Method,
    path: &str,
    content: &str,
    body: Vec<u8>,
    expected: (u16, &str, &str),
) {
    let (code, reason, words) = expected;
    let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
    let (status, answer) = ask(client, method, path, content, body).await;
    assert_eq!(status.as_u16(), code, "{path} {shown}: {answer}");
    assert_eq!(answer["kind"], "Status", "{path} {shown}: {answer}");
    assert_eq!(answer["code"], code, "{path} {shown}: {answer}");
    assert_eq!(answer["reason"].as_str().unwrap_or_default(), reason, "{path} {shown}: {answer}");
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(message.contains(words), "{path} {shown}: {message}");
    assert!(message.len() < 4_000, "{path} {shown}: an answer of {} bytes", message.len());
}

/// A Deployment with so many KiB of environment, none of which is too much by itself.
fn deployment(name: &str, kibibytes: usize) -> Value {
    let variable = |number| json!({ "name": format!("E{number}"), "value": "x".repeat(1000) });
    let variables: Vec<_> = (0..kibibytes).map(variable).collect();
    let labels = json!({ "app": name });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": { "selector": { "matchLabels": labels }, "template": { "metadata": { "labels": labels },
            "spec": { "containers": [{ "name": "c", "image": "i", "env": variables }] } } },
    })
}

async fn cluster() -> (Cluster, Client) {
    let cluster = Cluster::start(Options::default()).await.unwrap();
    let client = cluster.admin().await.unwrap();
    (cluster, client)
}

#[tokio::test]
async fn what_is_too_large_is_refused_as_such() {
    let (cluster, client) = cluster().await;
    let (status, _) =
        ask(&client, Method::POST, DEPLOYMENTS, JSON, deployment("large", 1_300).to_string().into_bytes())
            .await;
    assert_eq!(status, StatusCode::CREATED);
    let too_large = (413, "RequestEntityTooLarge", "Request entity too large: limit is");
    for kibibytes in [1_600, 2_900, 3_500] {
        let body = deployment("larger", kibibytes).to_string().into_bytes();
        refused(&client, Method::POST, DEPLOYMENTS, JSON, body, too_large).await;
    }
    // Nor does an object become too large by patches.
    let path = format!("{DEPLOYMENTS}/large");
    let arguments = vec!["x".repeat(1000); 400];
    let body = json!([{ "op": "add", "path": "/spec/template/spec/containers/0/args", "value": arguments }]);
    let content = "application/json-patch+json";
    refused(&client, Method::PATCH, &path, content, body.to_string().into_bytes(), too_large).await;
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn copies_of_copies_end_before_the_memory_does() {
    let (cluster, client) = cluster().await;
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "one" }, "data": { "a": "b" } });
    let (status, _) = ask(&client, Method::POST, MAPS, JSON, map.to_string().into_bytes()).await;
    assert_eq!(status, StatusCode::CREATED);
    let path = format!("{MAPS}/one");
    let content = "application/json-patch+json";
    let doubling: Vec<_> = (0..60)
        .map(|number| json!({ "op": "copy", "from": "/data", "path": format!("/data/x{number}") }))
        .collect();
    let body = Value::from(doubling).to_string().into_bytes();
    refused(&client, Method::PATCH, &path, content, body, (422, "Invalid", "rejected our request")).await;
    let many = vec![json!({ "op": "test", "path": "/x", "value": 1 }); 10_001];
    let expected =
        (413, "RequestEntityTooLarge", "The allowed maximum operations in a JSON patch is 10000, got 10001");
    refused(&client, Method::PATCH, &path, content, Value::from(many).to_string().into_bytes(), expected)
        .await;
    cluster.stop().await.unwrap();
}

#[tokio::test]
async fn what_is_no_object_is_refused_for_what_it_is() {
    let (cluster, client) = cluster().await;
    let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "one" }, "data": { "a": "b" } });
    ask(&client, Method::POST, MAPS, JSON, map.to_string().into_bytes()).await;
    let one = format!("{MAPS}/one");
    let apply = format!("{one}?fieldManager=a");
    let deep = |levels: usize| {
        format!("{{\"data\":{}1{}}}", "{\"a\":".repeat(levels), "}".repeat(levels)).into_bytes()
    };
    let lists = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels)).into_bytes();
    let protobuf = "application/vnd.kubernetes.protobuf";
    let (merge, json_patch) = ("application/merge-patch+json", "application/json-patch+json");
    let (strategic, yaml) = ("application/strategic-merge-patch+json", "application/apply-patch+yaml");
    let bad = |words| (400, "BadRequest", words);
    for (method, path, content, body, expected) in [
        (Method::POST, MAPS, JSON, deep(100_000), bad("")),
        (Method::POST, MAPS, JSON, lists(1_000_000), bad("")),
        (Method::POST, MAPS, JSON, b"{".to_vec(), bad("")),
        (Method::POST, MAPS, JSON, vec![0xff; 100], bad("")),
        (Method::POST, MAPS, JSON, Vec::new(), bad("")),
        (Method::POST, MAPS, "application/yaml", b"a: &a [*a, *a]".to_vec(), bad("")),
        (Method::POST, MAPS, protobuf, b"notmagic".to_vec(), bad("protobuf")),
        (Method::POST, MAPS, protobuf, b"k8s\0garbage".to_vec(), bad("protobuf")),
        (Method::PATCH, &one, merge, b"{".to_vec(), bad("error decoding patch")),
        (Method::PATCH, &one, merge, deep(100_000), bad("recursion limit")),
        (Method::PATCH, &one, json_patch, b"{".to_vec(), bad("error decoding patch")),
        (Method::PATCH, &one, json_patch, lists(1_000_000), bad("recursion limit")),
        (Method::PATCH, &one, strategic, b"\"x\"".to_vec(), bad("")),
        (Method::PATCH, &one, strategic, deep(100_000), bad("recursion limit")),
        (Method::PATCH, &apply, yaml, b"{".to_vec(), bad("error decoding YAML")),
        (Method::PATCH, &apply, yaml, lists(100_000), bad("")),
        (
            Method::POST,
            "/api/v9/namespaces/default/configmaps",
            JSON,
            b"{}".to_vec(),
            (404, "NotFound", "could not find"),
        ),
        (Method::GET, "/apis/apps/v9/deployments", JSON, Vec::new(), (404, "NotFound", "could not find")),
    ] {
        refused(&client, method, path, content, body, expected).await;
    }
    let other = json!({ "apiVersion": "v9", "kind": "ConfigMap", "metadata": { "name": "two" } });
    refused(&client, Method::POST, MAPS, JSON, other.to_string().into_bytes(), bad("v9")).await;
    // Ten levels of ten aliases each are ten thousand million values.
    let mut bomb = "l0: &l0 x\n".to_owned();
    for level in 1..=10 {
        let aliases = vec![format!("*l{}", level - 1); 10].join(", ");
        bomb += &format!("l{level}: &l{level} [{aliases}]\n");
    }
    refused(&client, Method::POST, MAPS, "application/yaml", bomb.clone().into_bytes(), bad("")).await;
    refused(&client, Method::PATCH, &apply, yaml, bomb.into_bytes(), bad("")).await;
    // A group that nobody serves is no resource, and so has no status either.
    let (status, _) = ask(&client, Method::GET, "/apis/nobody.example.com/v1/ships", JSON, Vec::new()).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    // It is none the worse for all of that.
    let (status, _) = ask(&client, Method::GET, &one, JSON, Vec::new()).await;
    assert_eq!(status, StatusCode::OK);
    cluster.stop().await.unwrap();
}
