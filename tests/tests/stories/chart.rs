//! The chart, installed by Helm: operators have the accounts that it makes for them, and may do what it says and nothing else.
//!
//! The operators themselves run outside: pods of our node have no way to the API server of their cluster.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use pilothouse_test_support::{eventually, helm};
use serde_json::{Value, json};

use crate::first_light::{cluster_body, node_pool_body};
use crate::management::{Management, OPERATORS};
use crate::manifests;
use crate::provider::{Provider, curl};
use crate::region::{LIMIT, Region, result};
use crate::spread::{CONSUMER, Spread};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/helm");
const NAMESPACE: &str = "pilothouse";

/// What the chart is told about a management cluster.
const TOLD: &str = "components.virt-controller.enabled=true,consumer=here,broker=mqtt.example.com:8883,\
                    publishAddress=192.0.2.30:9443,gatewayService.type=ClusterIP";

/// Helm, with the chart.
struct Chart {
    helm: PathBuf,
}

// === impl Chart ===

impl Chart {
    /// `None`, and said so, where there is no Helm.
    fn find() -> Option<Self> {
        Some(Self { helm: helm::find()? })
    }

    fn helm(&self, management: &Management, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(&self.helm);
        command.args(arguments).args(["--namespace", NAMESPACE, "--kubeconfig"]).arg(management.admin());
        // What it remembers of repositories and registries is the test's own.
        for folder in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(folder, management.path("helm"));
        }
        result(&command.output().unwrap())
    }

    /// Installs what belongs on a management cluster, in no copies.
    fn install(&self, management: &Management) {
        let values = format!("{CHART}/management.yaml");
        let replicas = OPERATORS.into_iter().chain(["gateway", "maestro-agent"]);
        let replicas: Vec<_> = replicas.map(|verb| format!("components.{verb}.replicas=0")).collect();
        let (replicas, create) = (replicas.join(","), "--create-namespace");
        let install =
            ["install", "management", CHART, create, "--values", &values, "--set", TOLD, "--set", &replicas];
        self.helm(management, &install).unwrap();
        let made = management.kubectl(&["get", "deployments", "-n", NAMESPACE, "-o", "name"]).unwrap();
        assert_eq!(made.lines().count(), 5, "{made}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_host_a_cluster_with_the_rights_that_the_chart_gives_them() {
    let Some(chart) = Chart::find() else { return };
    let Some(mut management) = Management::ours().await else { return };
    chart.install(&management);
    for verb in OPERATORS.into_iter().chain(["gateway"]) {
        hand_over(&mut management, verb);
    }
    management.apply_ada(1);
    management.ada_is_there(1).await;
    // Whoever comes second with a name is told that it is taken.
    let other = manifests::text(&[manifests::cluster("ada")]).replace("\"clusters\"", "\"others\"");
    management.apply(&other).unwrap();
    let told = ["get", "events", "-n", "others", "-o", "jsonpath={.items[*].reason}"];
    let is_told = |reasons: &str| reasons.contains("ManagedClusterNameTaken");
    management.eventually("the second of a name is told", &told, is_told).await;
    for namespace in ["others", "clusters"] {
        let delete = ["delete", "-n", namespace, "hostedcluster/ada", "--timeout=120s"];
        management.kubectl(&delete).unwrap();
    }
    for verb in OPERATORS.into_iter().chain(["gateway"]) {
        was_never_refused(&management, verb);
    }

    // An account is for one operator: the gateway's cannot read what hosted clusters are made of.
    let gateway = kubeconfig_of(&management, "gateway");
    let refused = management.kubectl_on(&gateway, &["get", "secrets", "-A"]).unwrap_err();
    assert!(refused.contains("forbidden"), "{refused}");

    chart.helm(&management, &["uninstall", "management"]).unwrap();
    let left = ["get", "deployments,services,serviceaccounts,clusterroles", "-A", "-o", "name"];
    let gone =
        |left: &str| !left.lines().any(|line| line.contains("pilothouse-") || line.ends_with("/gateway"));
    management.eventually("nothing is left of the release", &left, gone).await;
    management.nothing_left_of("ada").await;
    management.stop().await;
}

/// Whatever Clusters Service has written in the life of a cluster, as it was written.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_clusters_service_sends_is_applied_with_the_rights_that_the_chart_gives() {
    let Some(chart) = Chart::find() else { return };
    let Some(mut spread) = Spread::start().await else { return };
    let everybody = || OPERATORS.into_iter().chain(["gateway", "maestro-agent"]);
    let management = &mut spread.management;
    chart.install(management);
    for verb in everybody() {
        hand_over(management, verb);
    }
    // As where there are several management clusters: each is asked whether it is there.
    let config = management.path("clusters-service.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(config, text.replace("[service.probes]\n", "[service.probes]\nwhen = \"always\"\n")).unwrap();
    management.kill("clusters-service");
    management.start("clusters-service");
    spread.listens().await;
    let asked = ["get", "configmap", "-n", "local-cluster", &format!("probe-{CONSUMER}")];
    spread.management.eventually("it is asked whether it is there", &asked, |_| true).await;

    let provider = &spread.provider;
    let cluster = Region::cluster_id("first");
    let pool = format!("{cluster}/nodePools/workers");
    let mut workers = node_pool_body(1);
    workers["properties"]["version"] = json!({ "id": "4.20.8" });
    for (id, body) in [(&cluster, cluster_body()), (&pool, workers)] {
        let (status, answer) = provider.arm("PUT", id, Some(&body));
        assert_eq!(status, 201, "{answer}");
        provider.reaches(id, "Succeeded").await;
    }
    let credentials = credentials(provider);
    let (status, answer) = ask(provider, &["-X", "POST", "-d", "{}", &credentials]);
    assert_eq!(status, 201, "{answer}");
    are(provider, &credentials, "issued").await;
    let (status, answer) = ask(provider, &["-X", "DELETE", &credentials]);
    assert_eq!(status, 202, "{answer}");
    are(provider, &credentials, "revoked").await;
    let (status, answer) = provider.arm("DELETE", &cluster, None);
    assert_eq!(status, 202, "{answer}");
    provider.is_gone(&cluster).await;
    for verb in everybody() {
        was_never_refused(&spread.management, verb);
    }
    spread.management.stop().await;
}

/// Gives a program that runs the account that the chart has made for it.
fn hand_over(management: &mut Management, verb: &str) {
    management.kill(verb);
    let kubeconfig = kubeconfig_of(management, verb);
    fs::write(management.path(&format!("{verb}.log")), "").unwrap();
    if verb != "hypershift-operator" {
        // As in the chart: whoever makes definitions is one.
        let config = management.path(&format!("{verb}.toml"));
        let text = fs::read_to_string(&config).unwrap();
        fs::write(config, format!("install_definitions = false\n{text}")).unwrap();
    }
    management.start_as(verb, &kubeconfig);
}

/// A kubeconfig with a token of the account that the chart has made for an operator.
fn kubeconfig_of(management: &Management, verb: &str) -> PathBuf {
    let token = management.kubectl(&["create", "token", verb, "-n", NAMESPACE]).unwrap();
    let file = management.path(&format!("{verb}.account"));
    fs::copy(management.admin(), &file).unwrap();
    let token = format!("--token={}", token.trim());
    management.kubectl_on(&file, &["config", "set-credentials", verb, &token]).unwrap();
    management.kubectl_on(&file, &["config", "set-context", "--current", "--user", verb]).unwrap();
    file
}

fn was_never_refused(management: &Management, verb: &str) {
    let log = management.log(verb);
    let refused: Vec<_> = log.lines().filter(|line| line.to_lowercase().contains("forbidden")).collect();
    assert!(refused.is_empty(), "the chart gives {verb} too little: {refused:#?}");
}

/// `curl` as the backend.
fn ask(provider: &Provider, arguments: &[&str]) -> (u16, Value) {
    let credentials = provider.as_backend.iter().map(String::as_str);
    let json = ["-H", "Content-Type: application/json"];
    curl(&credentials.chain(json).chain(arguments.iter().copied()).collect::<Vec<_>>()).unwrap()
}

/// The address of the credentials of the only cluster.
fn credentials(provider: &Provider) -> String {
    let id = provider.clusters()[0]["id"].as_str().unwrap().to_owned();
    format!("{}/api/clusters_mgmt/v1/clusters/{id}/break_glass_credentials", provider.clusters_service)
}

/// Until the only credential is so.
async fn are(provider: &Provider, credentials: &str, state: &str) {
    eventually(&format!("the credential is {state}"), LIMIT, || {
        let (_, listed) = ask(provider, &[credentials]);
        let right = listed["items"][0]["status"] == state;
        async move { if right { Ok(()) } else { Err(listed.to_string()) } }
    })
    .await;
}
