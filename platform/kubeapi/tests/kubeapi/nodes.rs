//! What a node may do: its own work, and nothing with what belongs to others.

use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, ServiceAccount};
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::{Cluster, refused};

const NORTH: &str = "north";

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

async fn node(cluster: &Cluster, name: &str) -> Client {
    cluster.client_as(&format!("system:node:{name}"), &["system:nodes"]).await
}

/// A pod on a node, with everything that a pod can name.
async fn furnish(admin: &Client) -> Pod {
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "default");
    for name in ["cook", "guest"] {
        let account = object(json!({ "metadata": { "name": name } }));
        accounts.create(&PostParams::default(), &account).await.unwrap();
    }
    let secrets: Api<Secret> = Api::namespaced(admin.clone(), "default");
    for name in ["key", "other"] {
        let secret = object(json!({ "metadata": { "name": name }, "stringData": { "a": "b" } }));
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }
    let pod = object(json!({
        "metadata": { "name": "stove" },
        "spec": {
            "nodeName": NORTH,
            "serviceAccountName": "cook",
            "containers": [{ "name": "a", "image": "b" }],
            "volumes": [{ "name": "v", "secret": { "secretName": "key" } }],
        },
    }));
    let pods: Api<Pod> = Api::namespaced(admin.clone(), "default");
    pods.create(&PostParams::default(), &pod).await.unwrap()
}

#[tokio::test]
async fn a_node_reads_what_its_pods_name_and_only_as_long_as_they_are_there() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin().await;
    let (north, south) = (node(&cluster, NORTH).await, node(&cluster, "south").await);
    let secrets = |client: &Client| Api::<Secret>::namespaced(client.clone(), "default");
    furnish(&admin).await;
    secrets(&north).get("key").await.unwrap();
    let (code, _, message) = refused(secrets(&north).get("other").await);
    assert_eq!(code, 403);
    assert_eq!(
        message,
        "secrets \"other\" is forbidden: User \"system:node:north\" cannot get resource \"secrets\" in API group \"\" in the \
         namespace \"default\": no relationship found between node 'north' and this object"
    );
    assert_eq!(refused(secrets(&north).list(&ListParams::default()).await).0, 403);
    // One object may be watched by its name.
    secrets(&north).list(&ListParams::default().fields("metadata.name=key")).await.unwrap();
    assert_eq!(refused(secrets(&south).get("key").await).0, 403);

    let pods = |client: &Client| Api::<Pod>::all(client.clone());
    let own = ListParams::default().fields("spec.nodeName=north");
    assert_eq!(pods(&north).list(&own).await.unwrap().items.len(), 1);
    assert_eq!(refused(pods(&south).list(&own).await).0, 403);
    assert_eq!(refused(pods(&north).list(&ListParams::default()).await).0, 403);
    let maps: Api<ConfigMap> = Api::namespaced(north.clone(), "default");
    assert_eq!(refused(maps.get("kube-root-ca.crt").await).0, 404, "it may be read, and is not there");
    assert_eq!(refused(maps.get("other").await).0, 403, "no pod names it");

    let gone = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    Api::<Pod>::namespaced(admin, "default").delete("stove", &gone).await.unwrap();
    assert_eq!(refused(secrets(&north).get("key").await).0, 403);
    cluster.stop().await;
}

#[tokio::test]
async fn a_node_gets_tokens_only_for_its_own_pods() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin().await;
    let pod = furnish(&admin).await;
    let uid = pod.metadata.uid.unwrap();
    let token = async |who: &str, account: &str, spec: Value| {
        let accounts: Api<ServiceAccount> = Api::namespaced(node(&cluster, who).await, "default");
        let request: TokenRequest = object(json!({ "spec": spec }));
        accounts.create_token_request(account, &PostParams::default(), &request).await
    };
    let bound = |uid: &str| json!({ "apiVersion": "v1", "kind": "Pod", "name": "stove", "uid": uid });
    let good = json!({ "audiences": [], "boundObjectRef": bound(&uid) });
    token(NORTH, "cook", good.clone()).await.unwrap();
    // Nothing on these nodes runs as these accounts.
    assert_eq!(refused(token("south", "cook", good.clone()).await).0, 403);
    assert_eq!(refused(token(NORTH, "guest", good.clone()).await).0, 403);
    for (spec, why) in [
        (json!({ "audiences": [] }), "node requested token not bound to a pod"),
        (
            json!({ "audiences": ["vault"], "boundObjectRef": bound(&uid) }),
            "audience \"vault\" not found in pod spec volume",
        ),
        (json!({ "audiences": [], "boundObjectRef": bound("another") }), "does not match the UID in record"),
    ] {
        let (code, _, message) = refused(token(NORTH, "cook", spec).await);
        assert_eq!(code, 403);
        assert!(message.contains(why), "{message}");
    }
    cluster.stop().await;
}

#[tokio::test]
async fn a_node_writes_itself_and_its_pods_and_nothing_else() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin().await;
    let (north, south) = (node(&cluster, NORTH).await, node(&cluster, "south").await);
    let nodes = |client: &Client| Api::<Node>::all(client.clone());
    let labelled = |name: &str, label: &str| -> Node {
        object(json!({ "metadata": { "name": name, "labels": { label: "x" } } }))
    };
    let create = PostParams::default();
    let (code, _, message) =
        refused(nodes(&north).create(&create, &labelled(NORTH, "node-role.kubernetes.io/a")).await);
    assert_eq!(code, 403);
    assert!(
        message.ends_with("is not allowed to set the following labels: node-role.kubernetes.io/a"),
        "{message}"
    );
    assert_eq!(refused(nodes(&south).create(&create, &labelled(NORTH, "a")).await).0, 403);
    nodes(&north).create(&create, &labelled(NORTH, "kubernetes.io/os")).await.unwrap();
    let patch = async |client: &Client, patch: Value| {
        nodes(client).patch(NORTH, &PatchParams::default(), &Patch::Merge(patch)).await
    };
    patch(&north, json!({ "metadata": { "labels": { "example.com/a": "b" } } })).await.unwrap();
    for refusal in [
        json!({ "metadata": { "labels": { "kubernetes.io/role": "b" } } }),
        json!({ "spec": { "taints": [{ "key": "a", "effect": "NoExecute" }] } }),
    ] {
        assert_eq!(refused(patch(&north, refusal).await).0, 403);
    }
    assert_eq!(refused(patch(&south, json!({ "metadata": { "labels": { "a": "b" } } })).await).0, 403);
    assert_eq!(refused(nodes(&north).delete(NORTH, &DeleteParams::default()).await).0, 403);

    let leases = |client: &Client| Api::<Lease>::namespaced(client.clone(), "kube-node-lease");
    let lease: Lease = object(json!({ "metadata": { "name": NORTH }, "spec": {} }));
    assert_eq!(refused(leases(&south).create(&create, &lease).await).0, 403);
    leases(&north).create(&create, &lease).await.unwrap();
    assert_eq!(refused(leases(&south).get(NORTH).await).0, 403);

    furnish(&admin).await;
    let pods = |client: &Client| Api::<Pod>::namespaced(client.clone(), "default");
    let status = json!({ "status": { "phase": "Running" } });
    let running = async |client: &Client| {
        pods(client).patch_status("stove", &PatchParams::default(), &Patch::Merge(&status)).await
    };
    running(&north).await.unwrap();
    assert_eq!(refused(running(&south).await).0, 403);
    let plain: Pod = object(
        json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "a", "image": "b" }] } }),
    );
    assert_eq!(refused(pods(&north).create(&create, &plain).await).0, 403);
    assert_eq!(refused(pods(&south).evict("stove", &EvictParams::default()).await).0, 403);
    assert_eq!(refused(pods(&south).delete("stove", &DeleteParams::default()).await).0, 403);
    pods(&north).delete("stove", &DeleteParams::default()).await.unwrap();
    cluster.stop().await;
}

#[tokio::test]
async fn a_mirror_pod_is_shown_by_its_node_and_has_no_account() {
    let cluster = Cluster::start().await;
    furnish(&cluster.admin().await).await;
    let north = node(&cluster, NORTH).await;
    let own: Node = object(json!({ "metadata": { "name": NORTH } }));
    let own = Api::<Node>::all(north.clone()).create(&PostParams::default(), &own).await.unwrap();
    let mirror: Pod = object(json!({
        "metadata": {
            "name": "mirror",
            "annotations": { "kubernetes.io/config.mirror": "x" },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Node", "name": NORTH, "uid": own.metadata.uid, "controller": true,
            }],
        },
        "spec": { "nodeName": NORTH, "containers": [{ "name": "a", "image": "b" }] },
    }));
    let pods: Api<Pod> = Api::namespaced(north, "default");
    let made = pods.create(&PostParams::default(), &mirror).await.unwrap();
    assert_eq!(made.spec.unwrap().service_account_name, None);
    cluster.stop().await;
}
