//! What happens to a control plane of upstream's programs while a client writes and reads a register: each process is killed,
//! the operator and everything else of the region is, and certificates run out.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_test_support::{environment, eventually};
use serde_json::json;

use crate::region::{LIMIT, Region};
use crate::register::Register;
use crate::upstream::{self, NAMESPACE, wait};

const SINGLE: [&str; 4] = ["etcd-0", "kube-apiserver-0", "kube-controller-manager-0", "kube-scheduler-0"];
const HIGHLY_AVAILABLE: [&str; 9] = [
    "etcd-0",
    "etcd-1",
    "etcd-2",
    "kube-apiserver-0",
    "kube-apiserver-1",
    "kube-controller-manager-0",
    "kube-controller-manager-1",
    "kube-scheduler-0",
    "kube-scheduler-1",
];

const MANAGERS: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];

/// How long a certificate is good, and which share of that is left when it is renewed.
const VALIDITY: (&str, &str) = ("90s", "0.5");

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_of_upstream_programs_loses_nothing_whatever_of_it_is_killed() {
    let Some((programs, mut region)) = upstream::start().await else { return };
    let register = cluster(&region, "SingleReplica").await;
    kill_each(&region, &register, &SINGLE).await;

    // The region's own process is the operator, the management API server and the gateway; its kubelet is one of its own.
    let before = processes(&region, &SINGLE);
    region.kill();
    let folder = upstream::folder_of(&programs);
    region.up(&upstream::arguments(&folder)).await;
    wait(&region, None, &["-n", "clusters", "hostedcluster/ada", "--for=condition=Available"]);
    register.works().await;
    assert_eq!(processes(&region, &SINGLE), before, "a healthy control plane was touched");
    register.end("region killed");

    certificates(&region, &register, &SINGLE).await;
    drop(register);
    region.stop();
    assert_eq!(region.processes(), [""; 0]);
}

/// Nine processes, each killed in turn, take some minutes: with `./test --long`.
#[tokio::test(flavor = "multi_thread")]
async fn a_highly_available_control_plane_loses_nothing_whatever_of_it_is_killed() {
    if !environment::is_long() {
        return;
    }
    let Some((_, mut region)) = upstream::start().await else { return };
    let register = cluster(&region, "HighlyAvailable").await;
    wait(
        &region,
        None,
        &["-n", "clusters", "hostedcluster/ada", "--for=condition=ControlPlaneHighlyAvailable"],
    );
    kill_each(&region, &register, &HIGHLY_AVAILABLE).await;
    certificates(&region, &register, &HIGHLY_AVAILABLE).await;
    drop(register);
    region.stop();
}

/// A cluster `ada` without workers, whose certificates are short-lived, and a register in it.
async fn cluster(region: &Region, policy: &str) -> Register {
    let (validity, renewal) = VALIDITY;
    let mut cluster = upstream::cluster_of(upstream::RELEASE, policy);
    let annotations = cluster["metadata"]["annotations"].as_object_mut().unwrap();
    annotations.insert("hypershift.openshift.io/certificate-validity".to_owned(), json!(validity));
    annotations.insert("hypershift.openshift.io/certificate-renewal".to_owned(), json!(renewal));
    region.apply(&crate::manifests::text(&[cluster])).unwrap();
    wait(region, None, &["-n", "clusters", "hostedcluster/ada", "--for=condition=Available"]);
    renew_kubeconfig(region);
    Register::start(&region.folder().join(KUBECONFIG)).await
}

const KUBECONFIG: &str = "register.kubeconfig";

/// Gives the register's client the certificate of now. It never reads half of a file.
fn renew_kubeconfig(region: &Region) {
    let file = region.folder().join(KUBECONFIG);
    let partial = file.with_extension("partial");
    fs::write(&partial, region.pilothouse(&["kubeconfig", "ada"]).unwrap()).unwrap();
    fs::rename(partial, file).unwrap();
}

async fn kill_each(region: &Region, register: &Register, pods: &[&str]) {
    for pod in pods {
        renew_kubeconfig(region);
        register.works().await;
        let before = processes(region, pods);
        let killed = before[*pod];
        register.begin();
        kill(Pid::from_raw(killed), Signal::SIGKILL).unwrap();
        eventually(&format!("{pod} runs again"), LIMIT, || {
            let now = process_of(region, pod);
            async move { now.filter(|now| *now != killed).ok_or_else(|| "there is no other".to_owned()) }
        })
        .await;
        let object = format!("pod/{pod}");
        wait(region, None, &["-n", NAMESPACE, &object, "--for=condition=Ready"]);
        controllers_work(region, pod).await;
        register.works().await;
        register.end(&format!("{pod} killed"));
        let after = processes(region, pods);
        // Controllers and schedulers may give up by themselves when nobody answers them.
        let others = |processes: &BTreeMap<String, i32>| {
            let mut others = processes.clone();
            others.retain(|other, _| other != pod && !MANAGERS.iter().any(|name| other.starts_with(name)));
            others
        };
        assert_eq!(others(&after), others(&before), "somebody else was touched when {pod} was killed");
    }
}

/// Waits until controllers do what they do for a new namespace. Those that only just start give up if nobody answers them.
async fn controllers_work(region: &Region, namespace: &str) {
    let kubeconfig = region.folder().join(KUBECONFIG);
    eventually("controllers work", LIMIT, || {
        let made = region.kubectl_on(&kubeconfig, &["create", "namespace", namespace]);
        let given =
            ["get", "-n", namespace, "configmap/kube-root-ca.crt", "serviceaccount/default", "-o", "name"];
        let given = region.kubectl_on(&kubeconfig, &given);
        async move { given.map_err(|missing| format!("{missing} {made:?}")) }
    })
    .await;
}

/// Every certificate is replaced twice, so that the first has run out, and nobody notices.
async fn certificates(region: &Region, register: &Register, pods: &[&str]) {
    renew_kubeconfig(region);
    register.works().await;
    let before = processes(region, pods);
    register.begin();
    for round in ["first", "second"] {
        let old = certificates_of(region);
        eventually(&format!("every certificate is renewed for the {round} time"), LIMIT, || {
            renew_kubeconfig(region);
            let new = certificates_of(region);
            let same: Vec<_> = old.iter().filter(|(name, one)| new.get(*name) == Some(one)).collect();
            let same = same.into_iter().map(|(name, _)| name.clone()).collect::<Vec<_>>().join(", ");
            async move { if same.is_empty() { Ok(()) } else { Err(format!("not yet: {same}")) } }
        })
        .await;
    }
    register.works().await;
    let case = register.end("certificates renewed");
    assert_eq!(case.failed, 0, "{case:?}");
    assert_eq!(processes(region, pods), before, "a process was restarted for a certificate");
}

/// The leaf certificates of the control plane, by their Secrets.
fn certificates_of(region: &Region) -> BTreeMap<String, String> {
    let form = "jsonpath={range .items[*]}{.metadata.name} {.data.tls\\.crt}\n{end}";
    let text = region.kubectl(&["get", "secrets", "-n", NAMESPACE, "-o", form]).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines
        .filter(|(_, leaf)| !leaf.is_empty())
        .map(|(name, leaf)| (name.to_owned(), leaf.to_owned()))
        .collect()
}

/// The processes of these pods.
fn processes(region: &Region, pods: &[&str]) -> BTreeMap<String, i32> {
    let process = |pod: &&str| ((*pod).to_owned(), process_of(region, pod).unwrap_or_default());
    pods.iter().map(process).collect()
}

/// The process of a pod of this region's node, as it is seen from outside.
fn process_of(region: &Region, pod: &str) -> Option<i32> {
    let (program, _) = pod.rsplit_once('-')?;
    let name = format!("POD_NAME={pod}");
    let ids =
        fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut ids = ids.filter(|id: &i32| {
        let line = words(*id, "cmdline");
        let of_program =
            line.first().is_some_and(|first| Path::new(first).file_name() == Some(program.as_ref()));
        of_program && words(*id, "environ").contains(&name) && is_of(region, *id)
    });
    ids.next()
}

/// Whether one of those who started it, and so on, works in the region's folder.
fn is_of(region: &Region, mut id: i32) -> bool {
    let folder = region.data_dir();
    while id > 1 {
        if words(id, "cmdline").iter().any(|word| word.contains(folder.to_str().unwrap())) {
            return true;
        }
        let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else { return false };
        // The name in brackets may contain anything.
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        id = parent.unwrap_or_default();
    }
    false
}

fn words(id: i32, file: &str) -> Vec<String> {
    let bytes = fs::read(format!("/proc/{id}/{file}")).unwrap_or_default();
    bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}
