//! Ways into a hosted cluster: opened for a day by Azure's SDK and by our own program, used with `kubectl`, and closed; and the
//! whole life of that cluster.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use pilothouse_test_support::eventually;
use pilothouse_test_support::process::Running;
use pilothouse_test_support::python::Python;
use pilothouse_test_support::upstream::Upstream;
use serde_json::{Value, json};

use crate::first_light::{SUBSCRIPTION, cluster_body};
use crate::provider::curl;
use crate::region::{LIMIT, Region, result};
use crate::upstream::folder_of;

/// What Azure's SDK does with the cluster `first`.
async fn sdk(python: &Python, region: &Region, arguments: &[&str]) {
    let mut program = python.program("region.py");
    program.args([region.endpoints().frontend.as_str(), SUBSCRIPTION, "first"]).args(arguments);
    program.stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || program.output()).await.unwrap().unwrap();
    result(&output).unwrap();
}

async fn requested(python: &Python, region: &Region, name: &str) -> PathBuf {
    let file = region.folder().join(name);
    sdk(python, region, &["request", file.to_str().unwrap()]).await;
    file
}

/// That nobody comes in with this file, and that it is for what they show.
fn refused(region: &Region, kubeconfig: &Path) {
    refused_at(region, kubeconfig, &[]);
}

/// The same at an address of its own.
fn refused_at(region: &Region, kubeconfig: &Path, address: &[&str]) {
    let said = region.kubectl_on(kubeconfig, &[&["get", "nodes"], address].concat()).unwrap_err();
    let words = [
        "Unauthorized",
        "unknown certificate authority",
        "bad certificate",
        "certificate unknown",
        "error decrypting message",
        "must be logged in",
        "provide credentials",
    ];
    assert!(words.iter().any(|word| said.contains(word)), "{said}");
}

/// The address of all credentials of the only cluster.
fn credentials(region: &Region) -> String {
    let clusters = format!("{}/api/clusters_mgmt/v1/clusters", region.endpoints().clusters_service);
    let (_, found) = curl(&[&clusters]).unwrap();
    format!("{clusters}/{}/break_glass_credentials", found["items"][0]["id"].as_str().unwrap())
}

/// How all of them are.
fn states(credentials: &str) -> Vec<String> {
    let (_, listed) = curl(&[credentials]).unwrap();
    let of_one = |one: &Value| one["status"].as_str().unwrap_or_default().to_owned();
    let mut states: Vec<_> = listed["items"].as_array().unwrap().iter().map(of_one).collect();
    states.sort_unstable();
    states
}

fn programs() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/python"))
}

#[tokio::test(flavor = "multi_thread")]
async fn sdk_makes_a_cluster_opens_it_for_a_day_closes_it_to_everybody_upgrades_and_deletes_it() {
    let Some(python) = Python::find("sdk", programs()) else { return };
    let Some(mut region) = Region::start(&[]).await else { return };
    region.provider().register();
    sdk(&python, &region, &["create", "local"]).await;

    let by_sdk = requested(&python, &region, "sdk.kubeconfig").await;
    let nodes = region.kubectl_on(&by_sdk, &["get", "nodes"]).unwrap();
    assert!(nodes.contains(" Ready "), "{nodes}");
    let who = region.kubectl_on(&by_sdk, &["auth", "whoami"]).unwrap();
    assert!(
        who.contains("system:customer-break-glass:system-admin") && who.contains("system:masters"),
        "{who}"
    );
    let run = ["create", "deployment", "web", "--image=busybox", "--replicas=2", "--", "sleep", "3600"];
    region.kubectl_on(&by_sdk, &run).unwrap();
    let wait = ["rollout", "status", "deployment/web", "--timeout=120s"];
    region.kubectl_on(&by_sdk, &wait).unwrap();

    // By our own program, whose key is made by Clusters Service: through the gateway as well.
    let by_us = region.kubeconfig("first").unwrap();
    let text = fs::read_to_string(&by_us).unwrap();
    assert!(text.contains("server: https://127.0.0.1:") && text.contains("tls-server-name: api.first."));
    region.kubectl_on(&by_us, &["get", "deployments"]).unwrap();
    eventually("requests go when they are answered", LIMIT, || {
        let requests = region.kubectl(&["get", "csr,csra,crr", "-A", "-o", "name"]).unwrap();
        async move { if requests.is_empty() { Ok(()) } else { Err(requests) } }
    })
    .await;

    // A key is in no database, log or manifest of the region.
    let key = text.lines().find_map(|line| line.trim().strip_prefix("client-key-data: ")).unwrap();
    assert!(!region.log().contains(key));

    sdk(&python, &region, &["revoke"]).await;
    refused(&region, &by_sdk);
    refused(&region, &by_us);
    let again = requested(&python, &region, "again.kubeconfig").await;
    let deployments = region.kubectl_on(&again, &["get", "deployment/web", "-o", "name"]).unwrap();
    assert_eq!(deployments, "deployment.apps/web\n");
    refused(&region, &by_sdk);

    let all = credentials(&region);
    assert_eq!(states(&all), ["issued", "revoked", "revoked"]);

    // What the region knows survives it.
    region.kill();
    region.up(&[]).await;
    region.kubectl_on(&again, &["get", "nodes"]).unwrap();
    refused(&region, &by_sdk);

    // The next version, and the same way in.
    let minor = |region: &Region| {
        let version = region.kubectl_on(&again, &["version", "-o", "json"])?;
        let version: Value = serde_json::from_str(&version).map_err(|error| error.to_string())?;
        Ok::<_, String>(version["serverVersion"]["minor"].to_string())
    };
    assert_eq!(minor(&region).unwrap(), "\"33\"");
    let nodes = |region: &Region| region.kubectl_on(&again, &["get", "nodes", "--no-headers"]).unwrap();
    assert!(nodes(&region).contains(" v1.33."), "{}", nodes(&region));
    sdk(&python, &region, &["upgrade", "4.21"]).await;
    assert_eq!(minor(&region).unwrap(), "\"34\"");
    // So are its nodes, and what ran on them runs.
    let nodes = nodes(&region);
    let new = nodes.lines().filter(|node| node.contains(" Ready ") && node.contains(" v1.34.")).count();
    assert_eq!((nodes.lines().count(), new), (1, 1), "{nodes}");
    region.kubectl_on(&again, &wait).unwrap();

    sdk(&python, &region, &["delete"]).await;
    let (status, _) = curl(&[&all]).unwrap();
    assert_eq!(status, 404);
    eventually("nothing is left of it", LIMIT, || {
        let left = region.provider().nothing_left(|arguments| region.kubectl(arguments));
        let files = region.pod_files();
        async move { left.and_then(|()| if files.is_empty() { Ok(()) } else { Err(files.join(" ")) }) }
    })
    .await;
    region.stop();
    assert_eq!(region.processes(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn revocation_is_seen_by_a_real_api_server_without_a_restart() {
    let Some(programs) = Upstream::find_previous() else { return };
    let folder = folder_of(&programs);
    let arguments = ["--payload", "upstream", "--upstream", folder.to_str().unwrap()];
    let Some(mut region) = Region::start(&arguments).await else { return };
    region.provider().register();
    let cluster = Region::cluster_id("first");
    let (status, answer) = region.arm("PUT", &cluster, Some(&cluster_body()));
    assert_eq!(status, 201, "{answer}");
    region.reaches(&cluster, "Succeeded").await;
    let servers = |region: &Region| {
        let server = "{.metadata.uid} {.status.containerStatuses[0].restartCount}";
        let all = format!("jsonpath={{range .items[*]}}{server}{{end}}");
        region.kubectl(&["get", "pods", "-A", "-l", "app=kube-apiserver", "-o", &all]).unwrap()
    };
    let before = servers(&region);
    assert_ne!(before, "");
    let first = region.folder().join("before.kubeconfig");
    fs::rename(region.kubeconfig("first").unwrap(), &first).unwrap();
    region.kubectl_on(&first, &["get", "namespaces"]).unwrap();

    let (status, answer) = region.arm("POST", &format!("{cluster}/revokeCredentials"), None);
    assert_eq!(status, 202, "{answer}");
    eventually("the credential is revoked", LIMIT, || {
        let states = states(&credentials(&region));
        async move { if states == ["revoked"] { Ok(()) } else { Err(format!("{states:?}")) } }
    })
    .await;
    refused(&region, &first);
    eventually("a new one is to be had", LIMIT, || {
        let outcome = region.kubeconfig("first");
        async move { outcome }
    })
    .await;
    region.kubectl_on(&region.folder().join("first.kubeconfig"), &["get", "namespaces"]).unwrap();
    assert_eq!(servers(&region), before, "nothing was restarted");
    region.stop();
}

/// The way to one pod of the API server, past gateway and Service: `kubectl` which leads there, and where that listens.
async fn way_to(region: &Region, namespace: &str, pod: &str) -> (Running, String) {
    let heard = region.folder().join(format!("{pod}.forward"));
    let management = region.data_dir().join("kubeconfig");
    let mut forward = region.kubectl_command(&management, &["port-forward", "-n", namespace, pod, ":6443"]);
    forward.stdin(Stdio::null()).stdout(File::create(&heard).unwrap()).stderr(Stdio::null());
    let forward = Running::spawn(forward).unwrap();
    let address = eventually(&format!("{pod} is led to"), LIMIT, || {
        let said = fs::read_to_string(&heard).unwrap();
        let address = said.split_once("Forwarding from ").and_then(|(_, rest)| rest.split_once(" -> "));
        let address = address.map(|(address, _)| format!("https://{address}"));
        async move { address.ok_or(said) }
    })
    .await;
    (forward, address)
}

/// Each server reads by itself who is trusted.
#[tokio::test(flavor = "multi_thread")]
async fn revocation_is_over_when_every_replica_refuses() {
    let Some(programs) = Upstream::find_previous() else { return };
    let folder = folder_of(&programs);
    let arguments = ["--payload", "upstream", "--upstream", folder.to_str().unwrap()];
    let Some(mut region) = Region::start(&arguments).await else { return };
    let clusters = format!("{}/api/clusters_mgmt/v1/clusters", region.endpoints().clusters_service);
    let body = json!({
        "name": "several", "version": { "id": "openshift-v4.20.0" },
        "properties": { "hosted_cluster_single_replica": "false" },
        "azure": {
            "subscription_id": SUBSCRIPTION, "resource_group_name": "several", "resource_name": "several",
            "managed_resource_group_name": "several-managed",
        },
    });
    let (status, cluster) =
        curl(&["-X", "POST", "-H", "Content-Type: application/json", "-d", &body.to_string(), &clusters])
            .unwrap();
    assert_eq!(status, 201, "{cluster}");
    let id = cluster["id"].as_str().unwrap();
    let namespace = format!("ocm-local-{id}");
    let object = "hostedcluster/several";
    eventually("it is highly available", LIMIT, || {
        let condition = "--for=condition=ControlPlaneHighlyAvailable";
        let waited = region.kubectl(&["wait", "-n", &namespace, object, condition, "--timeout=20s"]);
        async move { waited }
    })
    .await;
    let control_plane = format!("{namespace}-several");
    let pods = ["kube-apiserver-0", "kube-apiserver-1"];
    let mut ways = Vec::new();
    for pod in pods {
        ways.push(way_to(&region, &control_plane, pod).await);
    }
    let first = region.folder().join("before.kubeconfig");
    fs::rename(region.kubeconfig("several").unwrap(), &first).unwrap();
    for (_, address) in &ways {
        region.kubectl_on(&first, &["get", "namespaces", "--server", address]).unwrap();
    }

    let (status, answer) = curl(&["-X", "DELETE", &credentials(&region)]).unwrap();
    assert!((200..300).contains(&status), "{status} {answer}");
    eventually("the credential is revoked", LIMIT, || {
        let states = states(&credentials(&region));
        async move { if states == ["revoked"] { Ok(()) } else { Err(format!("{states:?}")) } }
    })
    .await;
    for (_, address) in &ways {
        refused_at(&region, &first, &["--server", address]);
    }
    eventually("a new one is to be had", LIMIT, || {
        let outcome = region.kubeconfig("several");
        async move { outcome }
    })
    .await;
    for (_, address) in &ways {
        let now = region.folder().join("several.kubeconfig");
        region.kubectl_on(&now, &["get", "namespaces", "--server", address]).unwrap();
    }
    drop(ways);
    region.stop();
}
