//! The real kubectl.

use pilothouse_test_support::requirement::Requirement;

use crate::support::{Cluster, printed};

const KUBECTL: Requirement = Requirement::new("kubectl", "kubernetes-client");

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: { name: web, namespace: default, labels: { app: web } }
spec:
  replicas: 2
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec: { containers: [{ name: main, image: busybox }] }
";

#[tokio::test]
async fn kubectl_applies_shows_scales_and_deletes() {
    let Some(kubectl) = KUBECTL.find() else { return };
    let cluster = Cluster::start().await;
    let run =
        async |arguments: &[&str], input: &str| printed(&cluster.kubectl(&kubectl, arguments, input).await);

    assert_eq!(run(&["apply", "-f", "FILE"], DEPLOYMENT).await, "deployment.apps/web created\n");
    assert_eq!(run(&["apply", "-f", "FILE"], DEPLOYMENT).await, "deployment.apps/web unchanged\n");
    let changed = DEPLOYMENT.replace("replicas: 2", "replicas: 3");
    assert_eq!(run(&["apply", "-f", "FILE"], &changed).await, "deployment.apps/web configured\n");
    let table = run(&["get", "deployments"], "").await;
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]);
    assert_eq!(rows[1][..4], ["web", "0/3", "0", "0"]);
    run(&["scale", "deployment", "web", "--replicas", "5"], "").await;
    assert_eq!(
        run(&["get", "deployment", "web", "-o", "jsonpath={.spec.replicas} {.metadata.generation}"], "")
            .await,
        "5 3"
    );
    run(&["label", "deployment", "web", "tier=front"], "").await;
    assert_eq!(
        run(&["get", "deployments", "-l", "tier=front", "-o", "name"], "").await,
        "deployment.apps/web\n"
    );
    let refused = cluster.kubectl(&kubectl, &["apply", "--server-side", "-f", "FILE"], DEPLOYMENT).await;
    assert!(String::from_utf8_lossy(&refused.stderr).contains("conflict"), "{refused:?}");
    let forced = ["apply", "--server-side", "--force-conflicts", "-f", "FILE"];
    assert_eq!(run(&forced, DEPLOYMENT).await, "deployment.apps/web serverside-applied\n");
    assert_eq!(run(&["delete", "deployment", "web"], "").await, "deployment.apps \"web\" deleted\n");
    assert_eq!(run(&["get", "namespaces", "-o", "name"], "").await.lines().count(), 4);
    assert!(run(&["version", "-o", "json"], "").await.contains("v1.33.4"));
    assert!(run(&["api-resources"], "").await.contains("deployments"));
    let allowed = run(&["auth", "can-i", "--list"], "").await;
    let rows: Vec<Vec<&str>> = allowed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(rows.contains(&vec!["*.*", "[]", "[]", "[*]"]), "{allowed}");
    assert!(rows.contains(&vec!["[*]", "[]", "[*]"]), "{allowed}");
    assert_eq!(run(&["auth", "can-i", "delete", "pods", "--subresource=log"], "").await, "yes\n");
    assert!(run(&["auth", "whoami"], "").await.contains("system:masters"));
    assert_eq!(run(&["get", "--raw", "/readyz/feed"], "").await, "ok");
    let missing = cluster.kubectl(&kubectl, &["get", "pod", "nobody"], "").await;
    assert_eq!(
        String::from_utf8_lossy(&missing.stderr),
        "Error from server (NotFound): pods \"nobody\" not found\n"
    );
    cluster.stop().await;
}

const DEFINITION: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: { name: boats.harbour.dev }
spec:
  group: harbour.dev
  scope: Namespaced
  names: { plural: boats, kind: Boat }
  versions:
    - name: v1
      served: true
      storage: true
      additionalPrinterColumns: [{ name: Sails, type: integer, jsonPath: .spec.sails }]
      schema:
        openAPIV3Schema:
          type: object
          properties: { spec: { type: object, properties: { sails: { type: integer } } } }
";

const BOAT: &str = "
apiVersion: harbour.dev/v1
kind: Boat
metadata: { name: ada, namespace: default }
spec: { sails: 2 }
";

#[tokio::test]
async fn kubectl_uses_a_kind_that_was_just_defined() {
    let Some(kubectl) = KUBECTL.find() else { return };
    let cluster = Cluster::start().await;
    let run =
        async |arguments: &[&str], input: &str| printed(&cluster.kubectl(&kubectl, arguments, input).await);
    run(&["apply", "-f", "FILE"], DEFINITION).await;
    run(&["wait", "--for=condition=Established", "crd/boats.harbour.dev", "--timeout=30s"], "").await;
    assert_eq!(run(&["apply", "-f", "FILE"], BOAT).await, "boat.harbour.dev/ada created\n");
    let changed = BOAT.replace("sails: 2", "sails: 3");
    assert_eq!(run(&["apply", "-f", "FILE"], &changed).await, "boat.harbour.dev/ada configured\n");
    let misspelt = BOAT.replace("sails: 2", "sials: 2");
    let refused = cluster.kubectl(&kubectl, &["apply", "-f", "FILE"], &misspelt).await;
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(message.contains("unknown field \"spec.sials\""), "{message}");
    let table = run(&["get", "boats"], "").await;
    let cells: Vec<_> = table.split_whitespace().collect();
    assert_eq!(cells, ["NAME", "SAILS", "ada", "3"]);
    run(&["delete", "crd", "boats.harbour.dev"], "").await;
    cluster.stop().await;
}

#[tokio::test]
async fn kubectl_creates_in_the_binary_form_and_explains_built_in_kinds() {
    let Some(kubectl) = KUBECTL.find() else { return };
    let cluster = Cluster::start().await;
    let run =
        async |arguments: &[&str], input: &str| printed(&cluster.kubectl(&kubectl, arguments, input).await);
    run(&["create", "namespace", "binary"], "").await;
    for arguments in [
        &["configmap", "settings", "--from-literal=colour=red"][..],
        &["secret", "generic", "password", "--from-literal=word=hush"],
        &["deployment", "web", "--image=busybox", "--replicas=2", "--port=80"],
        &["service", "clusterip", "web", "--tcp=80:8080"],
        &["serviceaccount", "robot"],
        &["role", "reader", "--verb=get", "--resource=pods"],
        &["rolebinding", "readers", "--role=reader", "--serviceaccount=binary:robot"],
        &["quota", "few", "--hard=pods=3"],
        &["job", "once", "--image=busybox"],
        &["cronjob", "often", "--image=busybox", "--schedule=*/5 * * * *"],
        &["poddisruptionbudget", "calm", "--selector=app=web", "--min-available=50%"],
        &["ingress", "way", "--rule=a.example/=web:80"],
        &["priorityclass", "first", "--value=7"],
    ] {
        run(&[&["create", "--namespace", "binary"], arguments].concat(), "").await;
    }
    let get = async |kind: &str, name: &str, path: &str| {
        let path = format!("jsonpath={{{path}}}");
        run(&["get", kind, name, "--namespace", "binary", "-o", &path], "").await
    };
    assert_eq!(get("configmap", "settings", ".data.colour").await, "red");
    assert_eq!(get("secret", "password", ".data.word").await, "aHVzaA==");
    assert_eq!(get("deployment", "web", ".spec.replicas").await, "2");
    assert_eq!(get("service", "web", ".spec.ports[0].targetPort").await, "8080");
    assert_eq!(get("resourcequota", "few", ".spec.hard.pods").await, "3");
    assert_eq!(get("poddisruptionbudget", "calm", ".spec.minAvailable").await, "50%");
    let jobs = run(&["get", "jobs,cronjobs", "--namespace", "binary"], "").await;
    assert!(jobs.contains("COMPLETIONS") && jobs.contains("*/5 * * * *"), "{jobs}");
    let token = run(&["create", "token", "robot", "--namespace", "binary"], "").await;
    assert_eq!(token.split('.').count(), 3, "{token}");

    let explained = run(&["explain", "pod.spec.containers.ports"], "").await;
    assert!(explained.contains("containerPort\t<integer> -required-"), "{explained}");
    let misspelt = DEPLOYMENT.replace("replicas: 2", "replicas: 2\n  replica: 3");
    let refused = cluster.kubectl(&kubectl, &["create", "-f", "FILE"], &misspelt).await;
    let message = String::from_utf8_lossy(&refused.stderr);
    assert!(message.contains("strict decoding error: unknown field \"spec.replica\""), "{message}");
    cluster.stop().await;
}
