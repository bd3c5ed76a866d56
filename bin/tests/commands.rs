//! Both commands as their users meet them: help texts, output and exit codes.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use assert_cmd::Command;
use assert_cmd::cargo::{cargo_bin, cargo_bin_cmd};
use rstest::rstest;

/// The command line of `program`, on no terminal and of no particular width.
fn command(program: &str) -> Command {
    let mut command = match program {
        "pilothouse" => cargo_bin_cmd!("pilothouse"),
        "hcp" => cargo_bin_cmd!("hcp"),
        other => panic!("there is no binary `{other}`"),
    };
    command.env_remove("COLUMNS").env_remove("KUBECONFIG").env("HOME", "/nonexistent");
    command
}

fn stdout(command: &mut Command) -> String {
    let output = command.assert().success().get_output().clone();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "data goes to standard output alone");
    String::from_utf8(output.stdout).expect("output is text")
}

/// Golden files: `INSTA_UPDATE=always cargo test -p pilothouse` rewrites them for review in the diff.
#[rstest]
#[case::pilothouse("pilothouse", &["--help"])]
#[case::pilothouse_short("pilothouse", &["-h"])]
#[case::pilothouse_up("pilothouse", &["up", "--help"])]
#[case::pilothouse_down("pilothouse", &["down", "--help"])]
#[case::pilothouse_status("pilothouse", &["status", "--help"])]
#[case::pilothouse_kubeconfig("pilothouse", &["kubeconfig", "--help"])]
#[case::pilothouse_nodes("pilothouse", &["nodes", "--help"])]
#[case::pilothouse_control_plane("pilothouse", &["control-plane", "--help"])]
#[case::pilothouse_kube_apiserver("pilothouse", &["kube-apiserver", "--help"])]
#[case::pilothouse_kubelet("pilothouse", &["kubelet", "--help"])]
#[case::pilothouse_hypershift_operator("pilothouse", &["hypershift-operator", "--help"])]
#[case::pilothouse_multicluster_engine("pilothouse", &["multicluster-engine", "--help"])]
#[case::pilothouse_broker("pilothouse", &["broker", "--help"])]
#[case::pilothouse_maestro_server("pilothouse", &["maestro-server", "--help"])]
#[case::pilothouse_maestro_agent("pilothouse", &["maestro-agent", "--help"])]
#[case::pilothouse_virt_controller("pilothouse", &["virt-controller", "--help"])]
#[case::pilothouse_gateway("pilothouse", &["gateway", "--help"])]
#[case::pilothouse_token("pilothouse", &["token", "--help"])]
#[case::pilothouse_operations("pilothouse", &["operations", "--help"])]
#[case::pilothouse_operations_list("pilothouse", &["operations", "list", "--help"])]
#[case::pilothouse_operations_show("pilothouse", &["operations", "show", "--help"])]
#[case::pilothouse_operations_cancel("pilothouse", &["operations", "cancel", "--help"])]
#[case::pilothouse_operations_requeue("pilothouse", &["operations", "requeue", "--help"])]
#[case::pilothouse_hold("pilothouse", &["hold", "--help"])]
#[case::pilothouse_frontend("pilothouse", &["frontend", "--help"])]
#[case::pilothouse_backend("pilothouse", &["backend", "--help"])]
#[case::pilothouse_upstream("pilothouse", &["upstream", "--help"])]
#[case::pilothouse_upstream_install("pilothouse", &["upstream", "install", "--help"])]
#[case::pilothouse_upstream_list("pilothouse", &["upstream", "list", "--help"])]
#[case::pilothouse_version("pilothouse", &["version", "--help"])]
#[case::pilothouse_completions("pilothouse", &["completions", "--help"])]
#[case::hcp("hcp", &["--help"])]
#[case::hcp_short("hcp", &["-h"])]
#[case::hcp_create("hcp", &["create", "--help"])]
#[case::hcp_create_cluster("hcp", &["create", "cluster", "--help"])]
#[case::hcp_create_cluster_kubevirt("hcp", &["create", "cluster", "kubevirt", "--help"])]
#[case::hcp_create_cluster_none("hcp", &["create", "cluster", "none", "-h"])]
#[case::hcp_create_nodepool_kubevirt("hcp", &["create", "nodepool", "kubevirt", "--help"])]
#[case::hcp_create_nodepool_none("hcp", &["create", "nodepool", "none", "--help"])]
#[case::hcp_create_kubeconfig("hcp", &["create", "kubeconfig", "--help"])]
#[case::hcp_destroy_cluster("hcp", &["destroy", "cluster", "--help"])]
#[case::hcp_destroy_nodepool("hcp", &["destroy", "nodepool", "--help"])]
#[case::hcp_version("hcp", &["version", "--help"])]
fn help_is_as_reviewed(#[case] program: &str, #[case] args: &[&str]) {
    let name = format!("{program}_{}", args.join("_").replace('-', ""));
    insta::assert_snapshot!(name, stdout(command(program).args(args)));
}

#[test]
fn pilothouse_is_hcp_when_it_is_called_so() {
    let folder = tempfile::tempdir().unwrap();
    let hcp = folder.path().join("hcp");
    symlink(cargo_bin!("pilothouse"), &hcp).unwrap();
    let help = |mut command: Command| stdout(command.env_remove("COLUMNS").arg("--help"));
    assert_eq!(help(Command::new(hcp)), help(command("hcp")));
}

#[rstest]
fn operators_show_their_configuration_and_miss_their_cluster(
    #[values("hypershift-operator", "multicluster-engine", "maestro-agent", "virt-controller", "gateway")]
    verb: &str,
) {
    let config = stdout(command("pilothouse").args([verb, "--kubeconfig", "nowhere", "--dump-config"]));
    assert!(config.starts_with("kubeconfig = \"nowhere\"\ninstall_definitions = true\n"), "{config}");

    let mut operator = command("pilothouse");
    operator.args([verb, "--kubeconfig", "nowhere"]).env("PILOTHOUSE_METRICS__ADDRESS", "127.0.0.1:0");
    let output = operator.assert().code(1).get_output().clone();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("nowhere") && said.contains("hint: `--kubeconfig FILE`"), "{said}");
}

#[test]
fn maestro_server_shows_its_configuration_with_what_flags_say() {
    let mut server = command("pilothouse");
    server.env("PILOTHOUSE_STORE", "postgres://me@db/region?schema=maestro");
    server.args([
        "maestro-server",
        "--client-id",
        "maestro-7",
        "--message-broker-type",
        "grpc",
        "--dump-config",
    ]);
    let config = stdout(&mut server);
    for line in ["kind = \"grpc\"", "client_id = \"maestro-7\"", "replica = \"maestro-7\""] {
        assert!(config.lines().any(|found| found == line), "no `{line}` in\n{config}");
    }
    // A database of its own has no room for others.
    let config = stdout(
        command("pilothouse").env("PILOTHOUSE_STORE", "m.db").args(["maestro-server", "--dump-config"]),
    );
    assert!(!config.contains("replica"), "{config}");
    let output = command("pilothouse").arg("maestro-server").assert().code(1).get_output().clone();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("store") && said.contains("run-maestro.md"), "{said}");
}

#[rstest]
fn version_is_that_of_the_package(#[values("pilothouse", "hcp")] program: &str) {
    let text = stdout(command(program).arg("version"));
    match program {
        "hcp" => assert!(text.starts_with(concat!("Client Version: ", env!("CARGO_PKG_VERSION"))), "{text}"),
        _ => {
            let row: Vec<_> =
                text.lines().nth(1).expect("a row below the header").split_whitespace().collect();
            assert_eq!(row[..2], [program, env!("CARGO_PKG_VERSION")]);
        }
    }

    let json = stdout(command(program).args(["version", "--output", "json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["name"], program);
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert!(json.get("commit").is_some(), "an unknown commit is null, not absent");
}

#[rstest]
fn every_shell_gets_its_completions(
    #[values("pilothouse", "hcp")] program: &str,
    #[values("bash", "elvish", "fish", "powershell", "zsh")] shell: &str,
) {
    let script = stdout(command(program).args(["completions", shell]));
    assert!(script.contains(program) && script.contains("version"), "{script}");
}

#[rstest]
fn usage_error_is_exit_code_2_with_a_pointer_to_the_help(#[values("pilothouse", "hcp")] program: &str) {
    let output = command(program).arg("sail").assert().code(2).get_output().clone();
    assert!(output.stdout.is_empty());
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("unrecognized subcommand 'sail'"), "{told}");
    assert!(told.trim_end().ends_with("For more information, try '--help'."), "{told}");
}

#[rstest]
fn bare_command_shows_its_help(#[values("pilothouse", "hcp")] program: &str) {
    let output = command(program).assert().code(2).get_output().clone();
    assert!(String::from_utf8(output.stderr).unwrap().contains("Examples:"));
}

/// A device that is full is the shortest way to a failing write.
#[test]
fn failure_is_exit_code_1_and_ends_with_a_hint() {
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = std::process::Command::new(assert_cmd::cargo::cargo_bin!("pilothouse"))
        .arg("version")
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.starts_with("error: "), "{told}");
    assert!(told.lines().last().unwrap().starts_with("hint: "), "{told}");
}

/// Programs that say what they should say, and nothing else.
#[expect(clippy::unwrap_used, reason = "a test that cannot prepare itself should stop")]
fn upstream_programs(folder: &Path, kubernetes: &str, etcd: &str) {
    fs::create_dir_all(folder).unwrap();
    for (name, answer) in [
        ("etcd", format!("etcd Version: {etcd}")),
        ("kubectl", format!("Client Version: v{kubernetes}")),
        ("kube-apiserver", format!("Kubernetes v{kubernetes}")),
        ("kube-controller-manager", format!("Kubernetes v{kubernetes}")),
        ("kube-scheduler", format!("Kubernetes v{kubernetes}")),
    ] {
        let file = folder.join(name);
        fs::write(&file, format!("#!/bin/sh\necho '{answer}'\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn upstream_programs_are_taken_where_they_have_the_version() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, mine, others) =
        (folder.path().join("cache"), folder.path().join("mine"), folder.path().join("others"));
    let upstream = |arguments: &[&str]| {
        let mut command = command("pilothouse");
        // Neither Go nor anybody else's programs.
        command.env("PATH", &others).arg("upstream").args(arguments).arg("--cache").arg(&cache);
        command
    };
    let listed = stdout(&mut upstream(&["list", "--output", "json"]));
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let newest = listed["versions"].as_array().unwrap().last().unwrap().clone();
    assert_eq!((newest["releases"].as_str(), newest["installed"].as_bool()), (Some("4.21"), Some(false)));
    let (kubernetes, etcd) = (newest["kubernetes"].as_str().unwrap(), newest["etcd"].as_str().unwrap());
    upstream_programs(&others, "1.0.0", "1.0.0");
    upstream_programs(&mine, kubernetes, etcd);

    // What is nowhere cannot be built without Go; what was found before stays.
    let output = upstream(&["install"]).assert().code(1).get_output().clone();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("etcd is 1.0.0, not v") && said.contains("and is passed over"), "{said}");
    assert!(
        said.contains("`go`, which would build it, is missing: install Go 1.") && said.contains("hint: "),
        "{said}"
    );

    let install = ["install", "--bin-dir", mine.to_str().unwrap()];
    let output = upstream(&install).assert().success().get_output().clone();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("and is linked"), "{said}");
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(table.lines().count(), 6, "{table}");
    assert!(table.contains(mine.to_str().unwrap()), "{table}");
    let listed = stdout(&mut upstream(&["list"]));
    assert!(listed.lines().any(|row| row.starts_with(kubernetes) && row.ends_with("yes")), "{listed}");

    let mut up = command("pilothouse");
    up.args(["up", "--payload", "upstream", "--cluster", "real", "--ephemeral-ports"]);
    up.arg("--upstream").arg(&others).arg("--data-dir").arg(folder.path().join("data"));
    let output = up.assert().code(1).get_output().clone();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("lacks etcd") && said.contains("hint: `pilothouse upstream install"), "{said}");
    assert!(!folder.path().join("data").exists(), "nothing was begun");

    let output = upstream(&["install", "--version", "1.2"]).assert().code(1).get_output().clone();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("`1.2` is none of the versions") && said.contains(kubernetes), "{said}");
}
