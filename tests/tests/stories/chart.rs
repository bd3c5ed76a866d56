//! The chart, installed by Helm: operators have the accounts that it makes for them, and may do what it says and nothing else.
//!
//! The operators themselves run outside: pods of our node have no way to the API server of their cluster.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use pilothouse_test_support::helm;

use crate::management::{Management, OPERATORS};
use crate::region::result;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/helm");
const NAMESPACE: &str = "pilothouse";

#[tokio::test(flavor = "multi_thread")]
async fn operators_host_a_cluster_with_the_rights_that_the_chart_gives_them() {
    let Some(program) = helm::find() else { return };
    let Some(mut management) = Management::ours().await else { return };
    let helm = |management: &Management, arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).args(["--namespace", NAMESPACE, "--kubeconfig"]).arg(management.admin());
        // What it remembers of repositories and registries is the test's own.
        for folder in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(folder, management.path("helm"));
        }
        result(&command.output().unwrap())
    };
    let values = format!("{CHART}/management.yaml");
    let told = "components.virt-controller.enabled=true,consumer=here,broker=mqtt.example.com:8883,\
                publishAddress=192.0.2.30:9443,gatewayService.type=ClusterIP";
    let replicas = OPERATORS.into_iter().chain(["gateway", "maestro-agent"]);
    let replicas: Vec<_> = replicas.map(|verb| format!("components.{verb}.replicas=0")).collect();
    let (replicas, create) = (replicas.join(","), "--create-namespace");
    let install =
        ["install", "management", CHART, create, "--values", &values, "--set", told, "--set", &replicas];
    helm(&management, &install).unwrap();
    let made = management.kubectl(&["get", "deployments", "-n", NAMESPACE, "-o", "name"]).unwrap();
    assert_eq!(made.lines().count(), 5, "{made}");

    for verb in OPERATORS.into_iter().chain(["gateway"]) {
        management.kill(verb);
        let kubeconfig = kubeconfig_of(&management, verb);
        fs::write(management.path(&format!("{verb}.log")), "").unwrap();
        if verb != "hypershift-operator" {
            // As in the chart: whoever makes definitions is one.
            let config = management.path(&format!("{verb}.toml"));
            let text = fs::read_to_string(&config).unwrap();
            fs::write(config, format!("install_definitions = false\n{text}")).unwrap();
        }
        management.start_as(verb, &kubeconfig);
    }
    management.apply_ada(1);
    management.ada_is_there(1).await;
    management.kubectl(&["delete", "-n", "clusters", "hostedcluster/ada", "--timeout=120s"]).unwrap();
    for verb in OPERATORS.into_iter().chain(["gateway"]) {
        let log = management.log(verb);
        let refused: Vec<_> = log.lines().filter(|line| line.to_lowercase().contains("forbidden")).collect();
        assert!(refused.is_empty(), "the chart gives {verb} too little: {refused:#?}");
    }

    // An account is for one operator: the gateway's cannot read what hosted clusters are made of.
    let gateway = kubeconfig_of(&management, "gateway");
    let refused = management.kubectl_on(&gateway, &["get", "secrets", "-A"]).unwrap_err();
    assert!(refused.contains("forbidden"), "{refused}");

    helm(&management, &["uninstall", "management"]).unwrap();
    let left = ["get", "deployments,services,serviceaccounts,clusterroles", "-A", "-o", "name"];
    let gone =
        |left: &str| !left.lines().any(|line| line.contains("pilothouse-") || line.ends_with("/gateway"));
    management.eventually("nothing is left of the release", &left, gone).await;
    management.nothing_left_of("ada").await;
    management.stop().await;
}

/// A kubeconfig with a token of the account that the chart has made for an operator.
fn kubeconfig_of(management: &Management, verb: &str) -> PathBuf {
    let token = management.kubectl(&["create", "token", verb, "-n", NAMESPACE]).unwrap();
    let file = management.path(&format!("{verb}.kubeconfig"));
    fs::copy(management.admin(), &file).unwrap();
    let token = format!("--token={}", token.trim());
    management.kubectl_on(&file, &["config", "set-credentials", verb, &token]).unwrap();
    management.kubectl_on(&file, &["config", "set-context", "--current", "--user", verb]).unwrap();
    file
}
