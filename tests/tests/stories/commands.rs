//! What people type: `up --detach`, `down`, and the mistakes one can make with them.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use pilothouse_test_support::process::{Running, free_port};
use pilothouse_test_support::requirement::Requirement;

use crate::first_light::cluster_body;
use crate::region::{LIMIT, ORDINARY, Region, program, result};

/// The command, as an ordinary user.
fn as_ordinary_user(program: &std::path::Path) -> Option<Command> {
    if !Uid::effective().is_root() {
        return Some(Command::new(program));
    }
    let setpriv = Requirement::new("setpriv", "util-linux").find()?;
    let mut command = Command::new(setpriv);
    let id = ORDINARY.to_string();
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]).arg(program);
    Some(command)
}

#[tokio::test(flavor = "multi_thread")]
async fn ordinary_user_starts_a_region_in_the_background_and_stops_it() {
    let folder = tempfile::Builder::new().prefix("ordinary").tempdir().unwrap();
    // Others may not look into the folders that the tests are built in.
    let copy = folder.path().join("pilothouse");
    fs::copy(program(), &copy).unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    if Uid::effective().is_root() {
        chown(folder.path(), Some(ORDINARY), Some(ORDINARY)).unwrap();
    }
    let data_dir = folder.path().join("data");
    let run = |arguments: &[&str]| {
        let mut command = as_ordinary_user(&copy)?;
        command.args(arguments).arg("--data-dir").arg(&data_dir).env("HOME", folder.path());
        Some(result(&command.output().unwrap()))
    };

    let up = ["up", "--detach", "--ephemeral-ports", "--cluster", "first", "--output", "json"];
    let Some(started) = run(&up) else { return };
    let endpoints: serde_json::Value = serde_json::from_str(&started.unwrap()).unwrap();
    assert!(endpoints["frontend"].as_str().is_some_and(|url| url.starts_with("http://")), "{endpoints}");
    let nodes = run(&["nodes", "first"]).unwrap().unwrap();
    assert!(nodes.contains("Ready"), "{nodes}");
    let json = run(&["nodes", "first", "--output", "json"]).unwrap().unwrap();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["nodes"][0]["ready"], true);
    let unknown = run(&["kubeconfig", "second"]).unwrap().unwrap_err();
    assert!(unknown.contains("no cluster `second`; there are: first"), "{unknown}");
    let again = run(&["up", "--ephemeral-ports"]).unwrap().unwrap_err();
    assert!(again.contains("already running"), "{again}");

    assert_eq!(run(&["down"]).unwrap().unwrap(), "stopped\n");
    assert_eq!(run(&["down"]).unwrap().unwrap(), "nothing was running\n");
}

/// Each flag, and who needs its port.
const PORTS: [(&str, &str); 12] = [
    ("--frontend-port", "the resource provider"),
    ("--admin-port", "the administrators' surface"),
    ("--clusters-service-port", "Clusters Service"),
    ("--maestro-port", "Maestro"),
    ("--maestro-grpc-port", "Maestro's gRPC"),
    ("--mqtt-port", "the MQTT broker"),
    ("--management-port", "the management cluster"),
    ("--gateway-port", "the gateway"),
    ("--downloads-port", "downloads"),
    ("--cloud-port", "the local cloud"),
    ("--dns-port", "the name server"),
    ("--metrics-port", "the region's metrics"),
];

#[test]
fn port_that_is_taken_is_named_with_who_needs_it_and_nothing_is_left_running() {
    let folder = tempfile::tempdir().unwrap();
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap().port();
    for (flag, whose) in PORTS {
        let mut command = Command::new(program());
        command.arg("up").arg("--data-dir").arg(folder.path());
        for (other, _) in PORTS {
            let port = if other == flag { taken } else { free_port() };
            command.args([other, &port.to_string()]);
        }
        let error = result(&command.output().unwrap()).unwrap_err();
        assert!(error.contains(&format!("port {taken} for {whose} is taken")), "{flag}: {error}");
        assert!(error.contains("hint: "), "{flag}: {error}");
        assert!(!error.contains("the management cluster is up"), "{flag}: {error}");
    }
    let mut command = Command::new(program());
    command.args(["down", "--data-dir"]).arg(folder.path());
    assert_eq!(result(&command.output().unwrap()).unwrap(), "nothing was running\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn first_cluster_that_failed_before_is_told_with_why_and_what_to_do() {
    let nothing = tempfile::tempdir().unwrap();
    let upstream = ["--payload", "upstream", "--upstream", nothing.path().to_str().unwrap()];
    let Some(mut region) = Region::start(&upstream).await else { return };
    region.provider().register();
    let first = Region::cluster_id("first");
    let (status, answer) = region.arm("PUT", &first, Some(&cluster_body()));
    assert_eq!(status, 201, "{answer}");
    region.reaches(&first, "Failed").await;
    region.stop();
    let said = region.pilothouse(&["up", "--ephemeral-ports", "--cluster", "first"]).unwrap_err();
    assert!(said.contains("error: cluster `first` ended as Failed: Step 9 (services/hypershift)"), "{said}");
    assert!(said.contains("hint: ") && said.contains("curl -X DELETE 'http://127.0.0.1:"), "{said}");
    assert_eq!(region.processes(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_region_is_removed_by_down() {
    let Some(mut region) = Region::start(&["--cluster", "first"]).await else { return };
    region.kill();
    assert_ne!(region.processes(), [""; 0], "hosted control planes outlive the region");
    let removed = region.pilothouse(&["down"]).unwrap();
    assert_eq!(removed, "the region did not run; what it had left running is gone\n");
    assert_eq!(region.processes(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_who_stop_a_region_at_once_do_not_cut_it_short() {
    let Some(mut region) = Region::start(&["--cluster", "first"]).await else { return };
    let id = Pid::from_raw(region.process().id().try_into().unwrap());
    // Ctrl-C, and then people who lose their patience.
    kill(id, Signal::SIGINT).unwrap();
    pilothouse_test_support::eventually("the region is stopping", LIMIT, || {
        let process = fs::read_to_string(region.data_dir().join("process.json")).unwrap();
        async move { if process.contains("stopping") { Ok(()) } else { Err(process) } }
    })
    .await;
    let said: Vec<_> = std::thread::scope(|scope| {
        let down = || region.pilothouse(&["down"]).unwrap();
        let downs = [scope.spawn(down), scope.spawn(down)];
        downs.into_iter().map(|down| down.join().unwrap()).collect()
    });
    // Whoever looks when it has ended already finds nothing. Nobody has anything to remove.
    let in_order = |said: &String| ["stopped\n", "nothing was running\n"].contains(&said.as_str());
    assert!(said.iter().all(in_order), "{said:?}");
    let status = region.process().child().wait().unwrap();
    assert!(status.success(), "ended with {status}:\n{}", region.log());
    assert_eq!(region.processes(), [""; 0]);
    assert!(!region.data_dir().join("endpoints.json").exists());
}

#[test]
fn region_that_is_stopped_while_it_starts_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program());
    command.args(["up", "--ephemeral-ports", "--cluster", "first", "--data-dir"]).arg(folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut up = Running::spawn(command).unwrap();
    let mut said = BufReader::new(up.child().stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("the management cluster is up")));
    kill(Pid::from_raw(up.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    let rest: Vec<_> = said.collect();
    let status = up.wait().unwrap();
    assert!(status.success(), "{status}: {rest:?}");
    assert!(!rest.iter().any(|line| line.contains("is ready")), "{rest:?}");
    let mut command = Command::new(program());
    command.args(["down", "--data-dir"]).arg(folder.path());
    assert_eq!(result(&command.output().unwrap()).unwrap(), "nothing was running\n");
}
