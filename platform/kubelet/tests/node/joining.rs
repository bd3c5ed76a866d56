//! Nodes that join by a token, and are in the cluster by certificates of their own.

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::Kubeconfig;
use pilothouse_pki::{Authority, LeafRequest, SigningRequest};
use pilothouse_runtime::Clock;
use pilothouse_test_support::eventually;
use pilothouse_test_support::upstream::Upstream;
use serde_json::{Value, json};

use crate::real;
use crate::support::{Cluster, PATIENCE, run, shell};

const TOKEN: (&str, &str) = ("abcdef", "0123456789abcdef");
const CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const SERVING: &str = "kubernetes.io/kubelet-serving";

pub(crate) fn a_node_joins_by_a_token_and_needs_it_no_more() {
    run(join(None));
}

pub(crate) fn a_node_joins_a_real_cluster_by_a_token_and_needs_it_no_more() {
    run(async {
        let Some(upstream) = Upstream::find() else { return };
        join(Some(&upstream)).await;
    });
}

async fn join(upstream: Option<&Upstream>) {
    let mut cluster = Cluster::prepare_on(upstream, |config| {
        let folder = config.root.parent().unwrap().to_owned();
        config.kubeconfig = folder.join("joined.kubeconfig");
        config.bootstrap_kubeconfig = Some(folder.join("bootstrap.kubeconfig"));
        config.join_limit = PATIENCE.into();
        config.tls = None;
        // Whoever looks after volumes deletes them, which no real cluster lets a node do.
        config.volume_root = None;
    })
    .await;
    let folder = cluster.folder.path().to_owned();
    invite(&cluster).await;
    if let Some(servers) = &mut cluster.real {
        real::signers(servers, &cluster.certificates, &folder);
    }
    let client = cluster.client.clone();
    let authority = copy(cluster.certificates.authority());
    let answers = async {
        if upstream.is_none() {
            // What the controllers of a cluster do.
            approve(&client, CLIENT).await;
            sign(&client, CLIENT, &authority).await;
        }
        // The real one leaves this to people.
        approve(&client, SERVING).await;
        if upstream.is_none() {
            sign(&client, SERVING, &authority).await;
        }
    };
    tokio::join!(cluster.start_kubelet(), answers);

    let said = cluster.output_of("first", shell("echo joined")).await;
    assert_eq!(said, "joined\n");
    let mut users: Vec<_> = requests(&client).await.into_iter().filter_map(|one| one.spec.username).collect();
    users.sort();
    assert_eq!(users, ["system:bootstrap:abcdef", "system:node:here"]);

    // The next kubelet has all it needs.
    std::fs::remove_file(folder.join("bootstrap.kubeconfig")).unwrap();
    cluster.kill_kubelet();
    cluster.start_kubelet().await;
    let said = cluster.output_of("second", shell("echo again")).await;
    assert_eq!(said, "again\n");
    assert_eq!(requests(&client).await.len(), 2, "nobody was asked again");
}

/// Makes a token and writes it down, and what installers say about it.
async fn invite(cluster: &Cluster) {
    let (id, secret) = TOKEN;
    let token = json!({
        "metadata": { "name": format!("bootstrap-token-{id}") },
        "type": "bootstrap.kubernetes.io/token",
        "stringData": { "token-id": id, "token-secret": secret, "usage-bootstrap-authentication": "true" },
    });
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "kube-system");
    secrets.create(&PostParams::default(), &serde_json::from_value(token).unwrap()).await.unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(cluster.client.clone());
    let roles: Api<ClusterRole> = Api::all(cluster.client.clone());
    for (name, role, group) in [
        ("join", "system:node-bootstrapper", "system:bootstrappers"),
        (
            "approve",
            "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
            "system:bootstrappers",
        ),
        // The node also leads to Services.
        ("proxy", "system:node-proxier", "system:nodes"),
    ] {
        // The real server answers before it has made them.
        eventually(&format!("there is a role {role}"), PATIENCE, || async {
            roles.get(role).await.map(drop).map_err(|error| error.to_string())
        })
        .await;
        let api_group = "rbac.authorization.k8s.io";
        let binding = json!({
            "metadata": { "name": name },
            "roleRef": { "apiGroup": api_group, "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "Group", "name": group, "apiGroup": api_group }],
        });
        bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    }
    let folder = cluster.folder.path();
    let admin = std::fs::read_to_string(folder.join("admin.kubeconfig")).unwrap();
    let mut kubeconfig = serde_json::to_value(Kubeconfig::from_yaml(&admin).unwrap()).unwrap();
    kubeconfig["users"][0]["user"] = json!({ "token": format!("{id}.{secret}") });
    std::fs::write(folder.join("bootstrap.kubeconfig"), kubeconfig.to_string()).unwrap();
}

async fn requests(client: &kube::Client) -> Vec<CertificateSigningRequest> {
    Api::all(client.clone()).list(&ListParams::default()).await.unwrap().items
}

/// The one request to this signer.
async fn request(client: &kube::Client, signer: &str) -> CertificateSigningRequest {
    eventually(&format!("{signer} is asked"), PATIENCE, || async {
        let found = requests(client).await;
        let seen: Vec<_> = found.iter().map(|one| one.spec.signer_name.clone()).collect();
        found.into_iter().find(|one| one.spec.signer_name == signer).ok_or_else(|| format!("{seen:?}"))
    })
    .await
}

async fn approve(client: &kube::Client, signer: &str) {
    let name = request(client, signer).await.metadata.name.unwrap();
    let condition: Value = json!({ "type": "Approved", "status": "True", "reason": "Test" });
    let patch = Patch::Merge(json!({ "status": { "conditions": [condition] } }));
    let api: Api<CertificateSigningRequest> = Api::all(client.clone());
    api.patch_approval(&name, &PatchParams::default(), &patch).await.unwrap();
}

async fn sign(client: &kube::Client, signer: &str, authority: &Authority) {
    let mut request = request(client, signer).await;
    let asked = SigningRequest::from_pem(&request.spec.request.0).unwrap();
    let subject = asked.subject().clone();
    let granted = match signer {
        SERVING => LeafRequest::server(subject, asked.names().iter().cloned()),
        _ => LeafRequest::client(subject),
    };
    let chain = authority.sign_request(&asked, &granted, &Clock::system()).unwrap();
    request.status.as_mut().unwrap().certificate = Some(ByteString(chain[0].to_pem().into_bytes()));
    let name = request.metadata.name.clone().unwrap();
    let api: Api<CertificateSigningRequest> = Api::all(client.clone());
    api.replace_status(&name, &PostParams::default(), &request).await.unwrap();
}

fn copy(authority: &Authority) -> Authority {
    let identity = authority.identity();
    Authority::from_pem(identity.chain_pem().as_bytes(), identity.key().to_pem().as_bytes()).unwrap()
}
