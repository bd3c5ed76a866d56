//! How nodes join: tokens, and certificates on request.

use std::time::Duration;

use jiff::SignedDuration;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use pilothouse_pki::{Certificate, KeyAlgorithm, PrivateKey, SigningRequest, Subject};
use serde_json::json;

use crate::support::{Cluster, SERVER, eventually, gone};

const NODE_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
const NODE_SERVING: &str = "kubernetes.io/kubelet-serving";

#[tokio::test(flavor = "multi_thread")]
async fn token_brings_a_node_its_certificate_and_the_certificate_its_next_one() {
    let cluster = Cluster::start().await;
    let stranger = cluster.user("ada", &["system:authenticated"]).await;
    cluster.permit_requests_of("ada").await;
    let joining = cluster.user("system:bootstrap:abcdef", &["system:bootstrappers"]).await;
    let node = cluster.user("system:node:one", &["system:nodes"]).await;

    let usages = ["digital signature", "client auth"];
    ask(&stranger, "of-a-stranger", NODE_CLIENT, &[], &usages).await;
    ask(&joining, "first", NODE_CLIENT, &[], &usages).await;
    ask(&node, "next", NODE_CLIENT, &[], &usages).await;
    for (name, message) in [
        ("first", "Auto approving kubelet client certificate after SubjectAccessReview."),
        ("next", "Auto approving self kubelet client certificate after SubjectAccessReview."),
    ] {
        let (certificate, conditions) = cluster.signed(name).await;
        assert_eq!(certificate.subject().to_string(), "CN=system:node:one, O=system:nodes");
        assert!(certificate.is_signed_by(&cluster.authority()));
        assert_eq!(conditions, [("Approved".to_owned(), "AutoApproved".to_owned(), message.to_owned())]);
    }

    // The server believes what was signed: this node may read itself.
    cluster.node("one").await;
    let nodes: Api<Node> = Api::all(node.clone());
    nodes.get("one").await.unwrap();

    // Where it serves is for the node to say, and nobody else.
    ask(&node, "serving", NODE_SERVING, &["one", "10.0.0.1"], &["digital signature", "server auth"]).await;
    let status = json!({ "status": { "addresses": [
        { "type": "InternalIP", "address": "10.0.0.1" }, { "type": "Hostname", "address": "one" },
    ] } });
    nodes.patch_status("one", &PatchParams::default(), &Patch::Strategic(status)).await.unwrap();
    let (certificate, _) = cluster.signed("serving").await;
    assert_eq!(certificate.names().len(), 2);

    // By now somebody has looked at the first one of all.
    let request = cluster.request("of-a-stranger").await;
    assert_eq!(request.status.unwrap_or_default().conditions, None);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_people_approve_is_signed_or_fails_and_goes_in_the_end() {
    let cluster = Cluster::start().await;
    let signer = "kubernetes.io/kube-apiserver-client";
    let subject = ("ada", &["developers"][..]);
    ask_for(&cluster.client, "good", signer, subject, &[], &["client auth"]).await;
    ask_for(&cluster.client, "bad", signer, subject, &[], &["client auth", "server auth"]).await;
    for name in ["good", "bad"] {
        cluster.approve(name).await;
    }
    let (certificate, _) = cluster.signed("good").await;
    assert_eq!(certificate.subject().to_string(), "CN=ada, O=developers");
    let failed = eventually("the bad one has failed", || async {
        let conditions = cluster.request("bad").await.status.and_then(|status| status.conditions);
        let failed = conditions.iter().flatten().find(|condition| condition.type_ == "Failed").cloned();
        failed.ok_or_else(|| format!("{conditions:?}"))
    })
    .await;
    assert_eq!(failed.reason.as_deref(), Some("SignerValidationFailure"));
    assert_eq!(failed.message.as_deref(), Some("invalid usage for client certificate: server auth"));

    cluster.clock.advance(Duration::from_secs(3600));
    // The timers of a process go by another clock; any word about the request is a reason to look.
    let requests: Api<CertificateSigningRequest> = Api::all(cluster.client.clone());
    let label = Patch::Merge(json!({ "metadata": { "labels": { "looked": "at" } } }));
    for name in ["good", "bad"] {
        match requests.patch(name, &PatchParams::default(), &label).await {
            // It may have been looked at already.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            patched => drop(patched.unwrap()),
        }
        gone(&requests, name).await;
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_introduces_itself_by_every_token_and_tokens_end_at_their_moment() {
    let cluster = Cluster::start().await;
    let end = cluster.clock_now() + SignedDuration::from_hours(1);
    cluster.token("abcdef", Some(&end.to_string())).await;
    cluster.token("bcdefg", None).await;
    let info: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "kube-public");
    let keys = |expected: &'static [&'static str]| {
        let info = info.clone();
        async move {
            eventually("the cluster introduces itself", || async {
                let data = info.get_opt("cluster-info").await.unwrap().and_then(|map| map.data);
                let data = data.unwrap_or_default();
                if data.keys().eq(expected) { Ok(data) } else { Err(format!("{data:?}")) }
            })
            .await
        }
    };
    let data = keys(&["jws-kubeconfig-abcdef", "jws-kubeconfig-bcdefg", "kubeconfig"]).await;
    assert!(data["kubeconfig"].contains(SERVER), "{data:?}");

    cluster.clock.advance(Duration::from_secs(3600));
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "kube-system");
    let label = Patch::Merge(json!({ "metadata": { "labels": { "looked": "at" } } }));
    secrets.patch("bootstrap-token-abcdef", &PatchParams::default(), &label).await.unwrap();
    gone(&secrets, "bootstrap-token-abcdef").await;
    keys(&["jws-kubeconfig-bcdefg", "kubeconfig"]).await;
    secrets.get("bootstrap-token-bcdefg").await.unwrap();
    cluster.stop().await;
}

/// Asks for the certificate of the node `one`.
async fn ask(client: &Client, name: &str, signer: &str, names: &[&str], usages: &[&str]) {
    ask_for(client, name, signer, ("system:node:one", &["system:nodes"]), names, usages).await;
}

async fn ask_for(
    client: &Client,
    name: &str,
    signer: &str,
    (user, groups): (&str, &[&str]),
    names: &[&str],
    usages: &[&str],
) {
    let key = PrivateKey::generate(KeyAlgorithm::default()).unwrap();
    let subject = Subject::try_new(user).unwrap().with_organizations(groups.iter().copied()).unwrap();
    let names = names.iter().map(|name| name.parse().unwrap());
    let pem = SigningRequest::write(&subject, names, &key).unwrap();
    let mut request: CertificateSigningRequest = serde_json::from_value(json!({
        "metadata": { "name": name },
        "spec": { "request": "", "signerName": signer, "usages": usages },
    }))
    .unwrap();
    request.spec.request.0 = pem.into_bytes();
    Api::all(client.clone()).create(&PostParams::default(), &request).await.unwrap();
}

impl Cluster {
    async fn request(&self, name: &str) -> CertificateSigningRequest {
        Api::all(self.client.clone()).get(name).await.unwrap()
    }

    /// The certificate that a request brought, and its conditions.
    async fn signed(&self, name: &str) -> (Certificate, Vec<(String, String, String)>) {
        eventually(&format!("{name} is signed"), || async {
            let status = self.request(name).await.status.unwrap_or_default();
            let Some(certificate) = &status.certificate else { return Err(format!("{status:?}")) };
            let conditions = status.conditions.into_iter().flatten().map(|condition| {
                let (reason, message) = (condition.reason, condition.message);
                (condition.type_, reason.unwrap_or_default(), message.unwrap_or_default())
            });
            Ok((Certificate::from_pem(&certificate.0).unwrap(), conditions.collect()))
        })
        .await
    }

    async fn approve(&self, name: &str) {
        let requests: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        let condition = json!({
            "type": "Approved", "status": "True", "reason": "Test", "message": "",
            "lastUpdateTime": self.clock_now(),
        });
        let patch = Patch::Merge(json!({ "status": { "conditions": [condition] } }));
        requests.patch_approval(name, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn permit_requests_of(&self, user: &str) {
        let binding = json!({
            "metadata": { "name": "may-ask" },
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:node-bootstrapper",
            },
            "subjects": [{ "kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io" }],
        });
        let api: Api<k8s_openapi::api::rbac::v1::ClusterRoleBinding> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    }

    async fn token(&self, id: &str, expiration: Option<&str>) {
        let mut secret = json!({
            "metadata": { "name": format!("bootstrap-token-{id}") },
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": id,
                "token-secret": "0123456789abcdef",
                "usage-bootstrap-signing": "true",
            },
        });
        if let Some(expiration) = expiration {
            secret["stringData"]["expiration"] = json!(expiration);
        }
        let api: Api<Secret> = Api::namespaced(self.client.clone(), "kube-system");
        api.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    }
}
