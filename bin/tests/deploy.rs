//! What people deploy with, the example of three machines, the units and the chart: every file is understood by whom it is for.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use k8s_openapi::api::core::v1::ConfigMap;
use pilothouse_test_support::helm;
use pilothouse_test_support::requirement::Requirement;

fn deploy(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy")).join(folder);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn every_configuration_is_understood_by_its_service() {
    let mut services = Vec::new();
    for file in deploy("three-machines") {
        if file.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let verb = file.file_stem().unwrap().to_str().unwrap();
        let mut command = Command::new(cargo_bin!("pilothouse"));
        command.args([verb, "--dump-config", "--config"]).arg(&file);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{verb}: {}", String::from_utf8_lossy(&output.stderr));
        // What it says it would run with contains what the file says, and not just defaults.
        let (written, read) = (fs::read_to_string(&file).unwrap(), String::from_utf8(output.stdout).unwrap());
        for address in ["0.0.0.0:", "data.example.com", "management.kubeconfig", "clusters.example.com"] {
            assert!(!written.contains(address) || read.contains(address), "{address} in {verb}:\n{read}");
        }
        services.push(verb.to_owned());
    }
    assert_eq!(services.len(), 12, "{services:?}");
}

/// Each unit's program is told by the manager of services itself; what it warns about is an error here.
#[test]
fn units_are_understood() {
    let Some(analyze) = Requirement::new("systemd-analyze", "systemd").find() else { return };
    let folder = tempfile::tempdir().unwrap();
    for file in deploy("systemd") {
        // The program is not installed on the machine of the test.
        let text = fs::read_to_string(&file).unwrap().replace("/usr/bin/pilothouse", "/bin/true");
        let name = file.file_name().unwrap().to_str().unwrap().replace('@', "@frontend");
        let unit = folder.path().join(name);
        fs::write(&unit, text).unwrap();
        let output = Command::new(&analyze).args(["verify", "--man=no"]).arg(&unit).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let of_it: Vec<_> = said.lines().filter(|line| line.contains("pilothouse")).collect();
        assert!(output.status.success() && of_it.is_empty(), "{}: {said}", unit.display());
    }
}

#[test]
fn api_server_of_the_unit_makes_volumes_where_its_node_looks_for_them() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy"));
    let unit = fs::read_to_string(folder.join("systemd/pilothouse-kube-apiserver.service")).unwrap();
    let unit = unit.replace("\\\n", " ");
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/pilothouse ")).unwrap();
    let arguments: Vec<_> = start.split_whitespace().collect();
    // Whatever is wrong with what stands before it is told instead of help.
    let output = Command::new(cargo_bin!("pilothouse")).args(&arguments).arg("--help").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let root = arguments.iter().position(|argument| *argument == "--volume-root").unwrap();
    let mut command = Command::new(cargo_bin!("pilothouse"));
    command.args(["kubelet", "--dump-config", "--config"]).arg(folder.join("three-machines/kubelet.toml"));
    let config = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(config.contains(&format!("volume_root = \"{}\"", arguments[root + 1])), "{config}");
}

/// Renders the chart.
fn render(helm: &Path, arguments: &[&str]) -> Result<String, String> {
    let chart = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/helm");
    let output = Command::new(helm)
        .args(["template", "region", chart, "--kube-version", "1.34.1"])
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// Everything is on, and all that has to be said is.
const EVERYTHING: &str = "
components:
  frontend: { enabled: true }
  backend: { enabled: true }
  clusters-service: { enabled: true }
  cloud: { enabled: true }
  dns: { enabled: true }
  maestro-server: { enabled: true }
  maestro-agent: { enabled: true }
  hypershift-operator: { enabled: true }
  multicluster-engine: { enabled: true }
  virt-controller: { enabled: true }
  gateway: { enabled: true }
baseDomain: clusters.example.com
store: { host: data.example.com }
broker: data.example.com:8883
managementClusters: [management-1, management-2]
consumer: management-1
callers: { issuer: https://login.example.com, audience: pilothouse, keysUrl: https://login.example.com/keys }
publishAddress: 192.0.2.30:9443
gateway: 192.0.2.30
nameServer: 192.0.2.20
certificates: { issuer: region }
";

#[test]
fn every_configuration_of_the_chart_is_understood_by_its_service() {
    let Some(helm) = helm::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let values = folder.path().join("values.yaml");
    fs::write(&values, EVERYTHING).unwrap();
    let rendered = render(&helm, &["--values", values.to_str().unwrap()]).unwrap();
    let mut understood = Vec::new();
    for document in rendered.split("\n---\n").filter(|document| document.contains("kind: ConfigMap")) {
        let map: ConfigMap = serde_saphyr::from_str(document).unwrap();
        for (name, text) in map.data.unwrap() {
            let file = folder.path().join(&name);
            fs::write(&file, &text).unwrap();
            let verb = name.strip_suffix(".toml").unwrap();
            let mut command = Command::new(cargo_bin!("pilothouse"));
            command.args([verb, "--dump-config", "--config"]).arg(&file);
            let output = command.output().unwrap();
            let (read, said) = (String::from_utf8(output.stdout).unwrap(), output.stderr);
            assert!(output.status.success(), "{verb}: {}\n{text}", String::from_utf8_lossy(&said));
            for value in ["data.example.com", "clusters.example.com", "management-2", "192.0.2.30"] {
                assert!(!text.contains(value) || read.contains(value), "{value} in {verb}:\n{read}");
            }
            understood.push(verb.to_owned());
        }
    }
    assert_eq!(understood.len(), 11, "{understood:?}");
}

#[test]
fn what_the_chart_has_to_be_told_is_asked_for() {
    let Some(helm) = helm::find() else { return };
    let region = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/helm/region.yaml");
    let said = render(&helm, &["--values", region]).unwrap_err();
    assert!(said.contains("store.host: where PostgreSQL is"), "{said}");
    let management = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/helm/management.yaml");
    let said = render(&helm, &["--values", management, "--set", "consumer=m,broker=b:1"]).unwrap_err();
    assert!(said.contains("publishAddress: where clients reach the gateway"), "{said}");
}
