//! The guide to how a cluster comes to be, as engineers have it: every command of it, as it is written, against a region.

use std::process::{Command, Stdio};

use pilothouse_test_support::eventually;
use pilothouse_test_support::process::Running;
use pilothouse_test_support::requirement::Requirement;
use serde_json::Value;

use crate::default_ports::KNOWN_PORTS;
use crate::region::{LIMIT, Region, result};

/// What the guide has people forward, each in a terminal of its own.
const FORWARDS: [&str; 3] = [
    "kubectl port-forward -n aro-hcp svc/aro-hcp-frontend 8443:8443",
    "kubectl port-forward -n cluster-service svc/clusters-service 8001:8000",
    "kubectl port-forward -n maestro svc/maestro 8002:8000",
];

/// A terminal of somebody who follows the guide.
struct Terminal<'a> {
    region: &'a Region,
    /// What was exported, and what was noted on the way.
    variables: Vec<(&'static str, String)>,
}

// === impl Terminal ===

impl Terminal<'_> {
    fn command(&self, line: &str) -> Command {
        let mut shell = Command::new("bash");
        shell
            .args(["-o", "pipefail", "-c", line])
            .env("KUBECONFIG", self.region.data_dir().join("kubeconfig"))
            .env("KUBECACHEDIR", self.region.folder().join("kubectl-cache"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        shell
    }

    fn type_in(&self, line: &str) -> Result<String, String> {
        result(&self.command(line).output().unwrap()).map_err(|error| format!("{line}: {error}"))
    }

    fn read(&self, line: &str) -> Value {
        let text = self.type_in(line).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {error}: {text}"))
    }

    fn note(&mut self, name: &'static str, value: &Value) {
        self.variables.push((name, value.as_str().unwrap_or_else(|| panic!("{name} is {value}")).to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_of_the_guide_works_as_it_is_written() {
    for (program, package) in [("curl", "curl"), ("jq", "jq"), ("bash", "bash")] {
        if Requirement::new(program, package).find().is_none() {
            return;
        }
    }
    let Some(mut region) = Region::start(&["--cluster", "first"]).await else { return };
    let known_ports = KNOWN_PORTS.lock().await;
    follow_the_guide(&region).await;
    drop(known_ports);

    // Somebody removes what shows a service; it is shown again, and the service never noticed.
    region.kubectl(&["delete", "deployment", "-n", "maestro", "maestro-agent"]).unwrap();
    let rollout = ["rollout", "status", "-n", "maestro", "deployment/maestro-agent", "--timeout=5s"];
    eventually("the agent is shown again", LIMIT, || {
        let seen = region.kubectl(&rollout);
        async move { seen.map(drop) }
    })
    .await;

    // After a crash there is another life, and what was said in the one before can still be read.
    region.kill();
    region.up(&[]).await;
    eventually("the agent speaks of its second life", LIMIT, || {
        let pods = region.kubectl(&["get", "pods", "-n", "maestro", "-l", "app=maestro-agent", "-o", "json"]);
        async move {
            let pods: Value = serde_json::from_str(&pods?).map_err(|error| error.to_string())?;
            let container = &pods["items"][0]["status"]["containerStatuses"][0];
            let again = container["restartCount"] == 1 && container["ready"] == true;
            if again { Ok(()) } else { Err(container.to_string()) }
        }
    })
    .await;
    let before =
        region.kubectl(&["logs", "-n", "maestro", "deployment/maestro-agent", "--previous"]).unwrap();
    assert!(before.contains("applied"), "{before}");

    // What scripts see of it.
    let status: Value =
        serde_json::from_str(&region.pilothouse(&["status", "--output", "json"]).unwrap()).unwrap();
    assert_eq!(
        (&status["ready"], &status["clusters"][0]["name"]),
        (&true.into(), &"first".into()),
        "{status}"
    );
    assert_eq!(status["clusters"][0]["available"], true, "{status}");
    assert_eq!(status["checks"]["maestro-broker"]["status"], "ready", "{status}");
    region.stop();
    assert_eq!(region.processes(), [""; 0]);
    // Not an error, but not well either: another exit code.
    let stopped = region.pilothouse(&["status"]).unwrap_err();
    assert!(stopped.contains("not running") && stopped.contains("pilothouse up"), "{stopped}");
}

async fn follow_the_guide(region: &Region) {
    let mut terminal = Terminal { region, variables: Vec::new() };
    let id = Region::cluster_id("first");
    terminal.variables.push(("RESOURCE_ID", id.clone()));
    let mut forwards = Vec::new();
    for line in FORWARDS {
        let forward = eventually(line, LIMIT, || {
            let mut command = terminal.command(&format!("exec {line}"));
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let mut forward = Running::spawn(command).unwrap();
            let port = line.rsplit_once(' ').unwrap().1.split_once(':').unwrap().0;
            let address = format!("127.0.0.1:{port}");
            async move {
                // It ends at once if there is no such Service, or no pod behind it.
                loop {
                    if tokio::net::TcpStream::connect(&address).await.is_ok() {
                        return Ok(forward);
                    }
                    if let Some(ended) = forward.child().try_wait().unwrap() {
                        return Err(format!("it ended with {ended}"));
                    }
                    tokio::task::yield_now().await;
                }
            }
        })
        .await;
        forwards.push(forward);
    }

    // The resource provider.
    let cluster = terminal.read("curl -s localhost:8443${RESOURCE_ID}?api-version=2024-06-10-preview | jq");
    assert_eq!(cluster["id"].as_str().unwrap().to_lowercase(), id.to_lowercase());
    assert_eq!(cluster["properties"]["provisioningState"], "Succeeded");
    assert!(cluster["properties"]["api"]["url"].as_str().unwrap().contains("api.first.pilothouse.test"));
    assert_eq!(cluster["properties"]["dns"]["baseDomain"], "pilothouse.test");

    // Clusters Service.
    let subscription = r#"echo "$RESOURCE_ID" | cut -d'/' -f3"#;
    let group = r#"echo "$RESOURCE_ID" | cut -d'/' -f5"#;
    for (name, line) in [("HCP_SUBSCRIPTION_ID", subscription), ("HCP_RESOURCE_GROUP_NAME", group)] {
        let value = terminal.type_in(line).unwrap().trim().to_owned();
        terminal.variables.push((name, value));
    }
    let found = terminal.read(
        r#"curl -sG http://localhost:8001/api/clusters_mgmt/v1/clusters --data-urlencode "search=azure.subscription_id='$HCP_SUBSCRIPTION_ID' and azure.resource_group_name='$HCP_RESOURCE_GROUP_NAME'" | jq"#,
    );
    assert_eq!(found["total"], 1, "{found}");
    let found = &found["items"][0];
    assert_eq!(
        (found["status"]["state"].as_str(), found["azure"]["resource_name"].as_str()),
        (Some("ready"), Some("first"))
    );
    terminal.note("CLUSTER_HREF", &found["href"]);
    terminal.note("CLUSTERS_SERVICE_ID", &found["id"]);
    terminal.variables.push(("CLUSTER_NAME", "first".to_owned()));
    let shard = terminal.read("curl -sG http://localhost:8001/${CLUSTER_HREF}/provision_shard | jq");
    assert!(shard["azure_shard"]["cx_managed_identities_key_vault_url"].is_string(), "{shard}");

    // Maestro: what was sent, and what came back about the objects inside it.
    let bundles = r#"curl -sG http://localhost:8002/api/maestro/v1/resource-bundles --data-urlencode "search=payload->'metadata'->'labels'->>'api.openshift.com/id'='${CLUSTERS_SERVICE_ID}'" | jq"#;
    let sent = terminal.read(bundles);
    assert!(sent["total"].as_u64().unwrap() >= 2, "{sent}");
    let own = r#".items[] | select(.metadata.name == env.CLUSTERS_SERVICE_ID)"#;
    let inmost = ".status.resourceStatus[].statusFeedback.values[].fieldValue.jsonRaw | fromjson | .resourceStatus.manifests[].statusFeedback";
    let inmost = terminal.type_in(&format!("{bundles} '{own} | {inmost}'")).unwrap();
    assert!(inmost.contains("Available-Status"), "{inmost}");
    let said = terminal.type_in("kubectl logs -n maestro deployment/maestro-agent -c maestro-agent").unwrap();
    assert!(said.contains("applied"), "{said}");
    assert!(!said.contains("pilothouse_frontend"), "{said}");

    // The management cluster.
    let id = terminal.variables.iter().find(|(name, _)| *name == "CLUSTERS_SERVICE_ID").unwrap().1.clone();
    let works =
        r#"kubectl get manifestwork -l "api.openshift.com/id=${CLUSTERS_SERVICE_ID}" -n local-cluster"#;
    assert!(terminal.type_in(works).unwrap().contains(&id));
    assert!(terminal.type_in("kubectl get managedclusters").unwrap().contains(&id));
    assert!(terminal.type_in("kubectl get hostedclusters -A").unwrap().contains(&format!("ocm-local-{id}")));
    let pods =
        terminal.type_in("kubectl get pods -n ocm-local-${CLUSTERS_SERVICE_ID}-${CLUSTER_NAME}").unwrap();
    assert!(pods.contains("kube-apiserver-0") && pods.contains("Running"), "{pods}");

    // Every service is where the guide draws it, and well.
    for (namespace, deployment) in [
        ("aro-hcp", "aro-hcp-frontend"),
        ("aro-hcp", "aro-hcp-backend"),
        ("cluster-service", "clusters-service"),
        ("maestro", "maestro"),
        ("maestro", "maestro-agent"),
        ("hypershift", "operator"),
        ("dns", "dns"),
    ] {
        let ready = format!("kubectl rollout status -n {namespace} deployment/{deployment} --timeout=60s");
        terminal.type_in(&ready).unwrap();
        let said = terminal.type_in(&format!("kubectl logs -n {namespace} deployment/{deployment}")).unwrap();
        assert!(!said.is_empty(), "{deployment} has said nothing");
    }
    let entered = terminal.type_in("kubectl exec -n maestro deployment/maestro -- true").unwrap_err();
    assert!(entered.contains("no program can be run in this pod"), "{entered}");
}
