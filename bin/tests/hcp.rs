//! `hcp` as its users meet it, against an API server with the kinds of a management cluster and nobody else.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use assert_cmd::cargo::cargo_bin;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::runtime::{conditions, wait};
use kube::{Api, Client, ResourceExt as _};
use pilothouse_crds::{HostedCluster, NodePool};
use pilothouse_kubeapi::testing::{Cluster, Options};
use pilothouse_test_support::eventually;
use rstest::rstest;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

const LIMIT: Duration = Duration::from_secs(120);
const RELEASE: &str = "quay.io/openshift-release-dev/ocp-release:4.17.0-multi";

/// A folder with a pull secret, and perhaps a way to a management cluster.
struct Desk {
    folder: TempDir,
}

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("pull-secret.json"), r#"{"auths":{}}"#).unwrap();
        Self { folder }
    }

    fn kubeconfig(&self) -> PathBuf {
        self.folder.path().join("kubeconfig")
    }

    fn hcp(&self, line: &str) -> Output {
        let mut command = Command::new(cargo_bin!("hcp"));
        command.current_dir(self.folder.path()).env("HOME", "/nonexistent").env_remove("KUBECONFIG");
        if self.kubeconfig().exists() {
            command.env("KUBECONFIG", self.kubeconfig());
        }
        command.args(line.split_whitespace()).output().unwrap()
    }

    fn done(&self, line: &str) -> String {
        let output = self.hcp(line);
        assert!(output.status.success(), "{line}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// What is said of a command that fails.
    fn refused(&self, line: &str) -> String {
        let output = self.hcp(line);
        assert!(!output.status.success(), "{line} should fail");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "");
        told(&output)
    }
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A management cluster on which nobody acts but the test.
struct Management {
    server: Cluster,
    client: Client,
    desk: Desk,
}

impl Management {
    async fn start() -> Self {
        let server = Cluster::start(Options::default()).await.unwrap();
        let client = server.admin().await.unwrap();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in pilothouse_crds::all() {
            let name = definition.name_any();
            definitions.create(&PostParams::default(), &definition).await.unwrap();
            let served = wait::await_condition(definitions.clone(), &name, conditions::is_crd_established());
            tokio::time::timeout(LIMIT, served).await.unwrap().unwrap();
        }
        let desk = Desk::new();
        std::fs::write(desk.kubeconfig(), server.kubeconfig("ada", &["system:masters"]).unwrap()).unwrap();
        Self { server, client, desk }
    }

    fn clusters(&self) -> Api<HostedCluster> {
        Api::namespaced(self.client.clone(), "hcp")
    }

    fn pools(&self) -> Api<NodePool> {
        Api::namespaced(self.client.clone(), "hcp")
    }

    async fn secrets(&self) -> Vec<Secret> {
        Api::<Secret>::namespaced(self.client.clone(), "hcp")
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
    }

    async fn stop(self) {
        self.server.stop().await.unwrap();
    }
}

/// The line of the walk-through, with what comes after it.
fn create(rest: &str) -> String {
    format!(
        "create cluster kubevirt --name guest-cluster-0 --namespace hcp --node-pool-replicas 3 \
         --pull-secret pull-secret.json --memory 10Gi --cores 8 --release-image {RELEASE} \
         --etcd-storage-class=ocs-storagecluster-ceph-rbd {rest}"
    )
}

fn documents(text: &str) -> Vec<Value> {
    let parts = text.split("---\n").filter(|part| !part.is_empty());
    parts.map(|part| serde_saphyr::from_str(part).unwrap()).collect()
}

/// Golden files: `INSTA_UPDATE=always cargo test --workspace --test hcp` rewrites them for review in the diff.
#[rstest]
#[case::kubevirt("kubevirt", &create("--render --infra-id guest-cluster-0-x7k2p"))]
#[case::kubevirt_with_everything("kubevirt_with_everything", &create(
    "--render --infra-id guest-cluster-0-x7k2p --base-domain example.test --base-domain-prefix none \
     --external-dns-domain hosts.example.test --machine-cidr 192.168.0.0/16 --infra-availability-policy HighlyAvailable \
     --node-upgrade-type InPlace --node-drain-timeout 90s --auto-repair --fips --labels a=b --annotations c=d \
     --node-selector e=f,g=h --pods-labels i=j --toleration key=k,operator=Exists,effect=NoSchedule \
     --olm-disable-default-sources --pausedUntil true --feature-set TechPreviewNoUpgrade \
     --disable-cluster-capabilities Console,Ingress --kas-dns-name api.example.test --disable-multi-network \
     --ovn-kubernetes-mtu 8900 --root-volume-size 64 --root-volume-storage-class fast \
     --root-volume-access-modes ReadWriteMany --root-volume-volume-mode Block --root-volume-cache-strategy PVC \
     --network-multiqueue Disable --qos-class Guaranteed --additional-network name:a/b --attach-default-network false \
     --vm-node-selector l=m --host-device-name gpu,count:2 --infra-storage-class-mapping a/b,group=c",
))]
#[case::none("none", &format!(
    "create cluster none --name guest --pull-secret pull-secret.json --release-image {RELEASE} --render \
     --infra-id guest-x7k2p --external-api-server-address 203.0.113.7",
))]
#[case::node_pool("node_pool", &format!(
    "create nodepool kubevirt --name more --cluster-name guest --namespace hcp --release-image {RELEASE} --render",
))]
fn rendered_objects_are_as_reviewed(#[case] name: &str, #[case] line: &str) {
    insta::assert_snapshot!(format!("render_{name}"), Desk::new().done(line));
}

#[test]
fn secrets_are_rendered_only_if_asked_for() {
    let desk = Desk::new();
    let kinds = |text: &str| -> Vec<Value> { documents(text).iter().map(|it| it["kind"].clone()).collect() };
    assert_eq!(kinds(&desk.done(&create("--render"))), ["Namespace", "HostedCluster", "NodePool"]);
    desk.done(&create("--render-into all.yaml --render-sensitive"));
    let all = std::fs::read_to_string(desk.folder.path().join("all.yaml")).unwrap();
    assert_eq!(kinds(&all), ["Namespace", "Secret", "Secret", "HostedCluster", "NodePool"]);
    let all = documents(&all);
    assert_eq!(all[1]["data"][".dockerconfigjson"], "eyJhdXRocyI6e319");
    let key = all[2]["data"]["key"].as_str().unwrap();
    assert_eq!((key.len(), &all[2]["type"]), (44, &json!("Opaque")), "32 bytes are 44 letters of base64");
    assert!(all[3]["spec"]["infraID"].as_str().unwrap().starts_with("guest-cluster-0-"));
}

#[test]
fn mistakes_are_told_with_what_to_do_about_them() {
    let desk = Desk::new();
    std::fs::write(desk.folder.path().join("text"), "no json").unwrap();
    let with = |file: &str| create("").replace("pull-secret.json", file);
    for (line, expected) in [
        (with("missing.json"), "error: --pull-secret missing.json cannot be read"),
        (with("text"), "error: the pull secret text cannot be used"),
        (create("--wait").replace("replicas 3", "replicas 0"), "error: --wait needs nodes to wait for"),
        (create(""), "hint: set KUBECONFIG or --kubeconfig"),
        (create("--kubeconfig missing"), "hint: --kubeconfig takes a file"),
    ] {
        let text = desk.refused(&line);
        assert!(text.contains(expected) && text.contains("hint: "), "{line}: {text}");
    }
    for (line, expected) in [
        (create("").replace("10Gi", "10GB"), "such as 8Gi"),
        (create("").replace("--cores 8", "--cores 0"), "'--cores <CORES>'"),
        (create("").replace("guest-cluster-0", "Guest"), "small letters"),
        (create("--timeout soon"), "90s, 10m or 1h30m"),
    ] {
        let output = desk.hcp(&line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(told(&output).contains(expected), "{line}: {}", told(&output));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_made_once_and_destroyed_with_its_secrets() {
    let management = Management::start().await;
    management.desk.done(&create(""));
    let cluster = management.clusters().get("guest-cluster-0").await.unwrap();
    let infra_id = cluster.spec.infra_id.clone().unwrap();
    assert_eq!(cluster.labels()["hypershift.openshift.io/auto-created-for-infra"], infra_id);
    assert_eq!(management.pools().get("guest-cluster-0").await.unwrap().spec.replicas, Some(3));
    Api::<Namespace>::all(management.client.clone()).get("hcp").await.unwrap();
    let secrets = management.secrets().await;
    let names: Vec<_> = secrets.iter().map(kube::ResourceExt::name_any).collect();
    assert_eq!(names, ["guest-cluster-0-etcd-encryption-key", "guest-cluster-0-pull-secret"]);

    let refused = management.desk.refused(&create(""));
    assert!(refused.contains("error: HostedCluster hcp/guest-cluster-0 exists already"), "{refused}");
    let unchanged = management.secrets().await;
    assert_eq!(unchanged[0].data, secrets[0].data, "the key that the cluster's state is encrypted with");

    let other = "destroy cluster none --name guest-cluster-0 --namespace hcp";
    let refused = management.desk.refused(other);
    assert!(refused.contains("is of platform KubeVirt"), "{refused}");
    let destroy = "destroy cluster kubevirt --name guest-cluster-0 --namespace hcp";
    management.desk.done(destroy);
    assert_eq!(management.clusters().get_opt("guest-cluster-0").await.unwrap(), None);
    assert_eq!(management.secrets().await, []);
    let refused = management.desk.refused(destroy);
    assert!(refused.contains("there is no HostedCluster hcp/guest-cluster-0"), "{refused}");
    management.desk.done(&format!("{destroy} --infra-id {infra_id}"));
    management.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn node_pools_belong_to_a_cluster_of_their_platform() {
    let management = Management::start().await;
    let desk = &management.desk;
    let pool = |platform: &str, name: &str| {
        format!("create nodepool {platform} --name {name} --cluster-name guest-cluster-0 --namespace hcp")
    };
    let refused = desk.refused(&pool("kubevirt", "more"));
    assert!(refused.contains("there is no HostedCluster hcp/guest-cluster-0"), "{refused}");
    desk.done(&create("--node-pool-replicas=-1").replace("--node-pool-replicas 3", ""));
    assert_eq!(management.pools().list(&ListParams::default()).await.unwrap().items, []);

    assert_eq!(desk.done(&pool("kubevirt", "more")), "NodePool more created\n");
    let made = management.pools().get("more").await.unwrap();
    assert_eq!((made.spec.release.image.as_str(), made.spec.replicas), (RELEASE, Some(2)));
    assert!(desk.refused(&pool("kubevirt", "more")).contains("NodePool hcp/more exists already"));
    assert!(desk.refused(&pool("none", "other")).contains("is of platform KubeVirt"));

    desk.done("destroy nodepool --name more --namespace hcp");
    assert_eq!(management.pools().get_opt("more").await.unwrap(), None);
    desk.done("destroy nodepool --name more --namespace hcp");
    management.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_ends_when_the_cluster_is_complete_and_the_kubeconfig_is_the_way_in() {
    let management = Management::start().await;
    let desk = Desk::new();
    std::fs::copy(management.desk.kubeconfig(), desk.kubeconfig()).unwrap();
    let waiting = spawn_blocking(move || desk.hcp(&create("--wait --timeout 2m")));
    eventually("the node pool is there", LIMIT, async || management.pools().get("guest-cluster-0").await)
        .await;

    // What an operator would do.
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "guest-cluster-0-admin-kubeconfig", "namespace": "hcp" },
        "stringData": { "kubeconfig": "clusters: [{name: a, cluster: {server: 'https://a'}}]\nusers: [{name: b, user: {token: c}}]\n" },
    });
    let secrets: Api<Secret> = Api::namespaced(management.client.clone(), "hcp");
    secrets.create(&PostParams::default(), &serde_json::from_value(kubeconfig).unwrap()).await.unwrap();
    let holds = |type_: &str, status: &str, message: &str| {
        json!({
            "type": type_, "status": status, "reason": "AsExpected", "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let status = json!({ "status": {
        "conditions": [
            holds("ValidConfiguration", "True", ""), holds("ValidReleaseImage", "True", ""),
            holds("InfrastructureReady", "True", ""), holds("EtcdAvailable", "True", ""),
            holds("KubeAPIServerAvailable", "True", ""), holds("Available", "True", ""),
            holds("ControlPlaneHighlyAvailable", "False", "the embedded store has one replica"),
        ],
        "kubeconfig": { "name": "guest-cluster-0-admin-kubeconfig" },
        "version": {
            "desired": { "image": RELEASE }, "availableUpdates": [], "observedGeneration": 1,
            "history": [{
                "state": "Completed", "startedTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:01Z",
                "version": "4.17.0", "image": RELEASE, "verified": false,
            }],
        },
    } });
    let (parameters, name) = (PatchParams::default(), "guest-cluster-0");
    management.clusters().patch_status(name, &parameters, &Patch::Merge(&status)).await.unwrap();
    let replicas = json!({ "status": { "replicas": 3 } });
    management.pools().patch_status(name, &parameters, &Patch::Merge(&replicas)).await.unwrap();

    let output = waiting.await.unwrap();
    let text = told(&output);
    assert!(output.status.success(), "{text}");
    for line in [
        "HostedCluster hcp/guest-cluster-0 created",
        "done     Version                  4.17.0",
        "done     NodePool guest-cluster-0 3 of 3 nodes are ready",
        "note: the embedded store has one replica",
        "HostedCluster hcp/guest-cluster-0 is complete",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let one = management.desk.done("create kubeconfig --namespace hcp --name guest-cluster-0");
    assert!(one.contains("https://a"), "{one}");
    let all: Value =
        serde_saphyr::from_str(&management.desk.done("create kubeconfig --namespace hcp")).unwrap();
    assert_eq!(all["contexts"][0]["name"], "hcp-guest-cluster-0");
    assert_eq!(all["users"][0]["name"], "hcp-guest-cluster-0-admin");
    let refused = management.desk.refused("create kubeconfig --namespace hcp --name other");
    assert!(refused.contains("there is no HostedCluster hcp/other"), "{refused}");
    management.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_has_a_limit_and_says_what_was_missing() {
    let management = Management::start().await;
    let refused = management.desk.refused(&create("--wait --timeout 1s"));
    let expected = "is not complete after 1s; it waits for ValidConfiguration: not yet looked at";
    assert!(refused.contains(expected), "{refused}");
    let refused =
        management.desk.refused("create kubeconfig --namespace hcp --name guest-cluster-0 --timeout 1s");
    assert!(refused.contains("has no kubeconfig after 1s"), "{refused}");
    management.stop().await;
}
