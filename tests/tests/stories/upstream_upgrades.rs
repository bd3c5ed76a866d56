//! From one minor version of Kubernetes to the next, while a client writes and reads a register. The programs of two versions
//! have to be there, so these stories are told by `./test --long`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use pilothouse_test_support::upstream::{Upstream, previous_version, version};
use pilothouse_test_support::{environment, eventually};
use serde_json::json;
use tempfile::TempDir;

use crate::manifests;
use crate::region::{LIMIT, Region};
use crate::register::Register;
use crate::upstream::{NAMESPACE, cluster_of, wait};

const OLD: &str = "4.20.0";
const NEW: &str = "4.21.0";

const ETCD_MEMBERS: u64 = 3;

const PROGRAMS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_goes_to_the_next_minor_version_and_its_nodes_follow() {
    let Some((mut region, _programs)) = start().await else { return };
    let mut pool = manifests::pool("ada", "workers", 1);
    pool["spec"]["release"]["image"] = json!(format!("pilothouse/release:{OLD}"));
    region.apply(&manifests::text(&[cluster_of(OLD, "SingleReplica"), pool])).unwrap();
    wait(&region, None, &["-n", "clusters", "hostedcluster/ada", "--for=condition=Available"]);
    wait(&region, None, &["-n", "clusters", "nodepool/workers", "--for=condition=Ready"]);
    let kubeconfig = region.kubeconfig("ada").unwrap();
    let register = Register::start(&kubeconfig).await;
    serves(&region, &kubeconfig, previous_version());

    // Both at once: nodes wait for their control plane.
    register.begin();
    ask_for("nodepool/workers", &region, NEW);
    ask_for("hostedcluster/ada", &region, NEW);
    wait(&region, None, &["-n", "clusters", "hostedcluster/ada", CURRENT]);
    register.works().await;
    register.end("upgrade of a single replica");
    serves(&region, &kubeconfig, version());
    in_order(&region);
    let upgraded = format!("--for=jsonpath={{.status.version}}={NEW}");
    wait(&region, None, &["-n", "clusters", "nodepool/workers", &upgraded]);
    wait(&region, None, &["-n", "clusters", "nodepool/workers", "--for=condition=Ready"]);
    let form = "jsonpath={.items[*].status.nodeInfo.kubeletVersion}";
    let nodes = region.kubectl_on(&kubeconfig, &["get", "nodes", "-o", form]).unwrap();
    assert!(nodes.contains("v1.34."), "{nodes}");
    drop(register);
    region.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_fails_stops_says_why_and_goes_on_when_it_is_mended() {
    let Some((mut region, programs)) = start().await else { return };
    // Something that is no etcd is where the new one should be.
    let etcd = programs.path().join(format!("v{}/etcd", version()));
    let aside = programs.path().join("etcd");
    fs::rename(&etcd, &aside).unwrap();
    fs::write(&etcd, "#!/bin/sh\necho out of order >&2\nexit 1\n").unwrap();
    fs::set_permissions(&etcd, fs::Permissions::from_mode(0o755)).unwrap();

    region.apply(&manifests::text(&[cluster_of(OLD, "HighlyAvailable")])).unwrap();
    wait(
        &region,
        None,
        &["-n", "clusters", "hostedcluster/ada", "--for=condition=ControlPlaneHighlyAvailable"],
    );
    let kubeconfig = region.kubeconfig("ada").unwrap();
    let register = Register::start(&kubeconfig).await;
    register.begin();
    ask_for("hostedcluster/ada", &region, NEW);
    says(&region, "Progressing", "out of order").await;
    serves(&region, &kubeconfig, previous_version());
    assert_eq!(condition(&region, "Available", "status"), "True");

    // There is no way back, and who asks for it is told so; what has begun is not undone.
    ask_for("hostedcluster/ada", &region, OLD);
    says(&region, "ValidReleaseImage", "etcd does not go back").await;
    ask_for("hostedcluster/ada", &region, NEW);

    fs::rename(&aside, &etcd).unwrap();
    wait(&region, None, &["-n", "clusters", "hostedcluster/ada", CURRENT]);
    register.works().await;
    serves(&region, &kubeconfig, version());
    in_order(&region);
    let case = register.end("upgrade of a highly available cluster");
    // A write that is under way when etcd changes its leader may time out, once for each member that is replaced.
    assert!(case.failed <= ETCD_MEMBERS, "{case:?}");
    drop(register);
    region.stop();
}

/// The newest release runs to the end.
const CURRENT: &str = "--for=jsonpath={.status.version.history[?(@.version==\"4.21.0\")].state}=Completed";

/// A region with the programs of both versions in a folder of its own.
async fn start() -> Option<(Region, TempDir)> {
    if !environment::is_long() {
        return None;
    }
    let (old, new) = (Upstream::find_previous()?, Upstream::find()?);
    let folder = tempfile::Builder::new().prefix("programs").tempdir().unwrap();
    for (version, programs) in [(previous_version(), old), (version(), new)] {
        let there = folder.path().join(format!("v{version}"));
        fs::create_dir(&there).unwrap();
        for name in PROGRAMS {
            crate::region::install(programs.program(name).to_str().unwrap(), &there.join(name));
        }
    }
    let region = Region::start(&["--upstream", folder.path().to_str().unwrap()]).await?;
    Some((region, folder))
}

fn ask_for(object: &str, region: &Region, release: &str) {
    let patch = json!({ "spec": { "release": { "image": format!("pilothouse/release:{release}") } } });
    region.kubectl(&["patch", "-n", "clusters", object, "--type=merge", "-p", &patch.to_string()]).unwrap();
}

fn serves(region: &Region, kubeconfig: &Path, version: &str) {
    let said = region.kubectl_on(kubeconfig, &["get", "--raw", "/version"]).unwrap();
    assert!(said.contains(&format!("\"gitVersion\": \"v{version}\"")), "{said}");
}

fn condition(region: &Region, condition: &str, field: &str) -> String {
    let form = format!("jsonpath={{.status.conditions[?(@.type==\"{condition}\")].{field}}}");
    region.kubectl(&["get", "-n", "clusters", "hostedcluster/ada", "-o", &form]).unwrap()
}

async fn says(region: &Region, name: &str, what: &str) {
    eventually(&format!("{name} says `{what}`"), LIMIT, || {
        let said = condition(region, name, "message");
        async move { if said.contains(what) { Ok(()) } else { Err(said) } }
    })
    .await;
}

/// No pod of a stage was made before all of the stage before were.
fn in_order(region: &Region) {
    let made = |component: &str| {
        let form = "jsonpath={range .items[*]}{.metadata.creationTimestamp}{\"\\n\"}{end}";
        let selector = format!("hypershift.openshift.io/control-plane-component={component}");
        let text = region.kubectl(&["get", "pods", "-n", NAMESPACE, "-l", &selector, "-o", form]).unwrap();
        let mut times: Vec<_> = text.lines().map(str::to_owned).collect();
        times.sort();
        (times.first().unwrap().clone(), times.last().unwrap().clone())
    };
    let [etcd, server, controllers, scheduler] = PROGRAMS.map(made);
    assert!(etcd.1 <= server.0, "{etcd:?} {server:?}");
    assert!(server.1 <= controllers.0 && server.1 <= scheduler.0, "{server:?} {controllers:?} {scheduler:?}");
}
