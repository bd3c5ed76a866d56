//! What `status` says of a region that starts, runs, and has ended: in a table, as JSON, and by its exit code.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pilothouse_test_support::process::Running;
use serde_json::Value;

use crate::region::program;

/// The exit code, the table, and the same as JSON.
fn status(data_dir: &Path) -> (i32, String, Value) {
    let ask = |arguments: &[&str]| {
        let mut command = Command::new(program());
        command.arg("status").args(arguments).arg("--data-dir").arg(data_dir);
        let output = command.output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, table) = ask(&[]);
    let (same, json) = ask(&["--output", "json"]);
    assert_eq!(code, same, "{table}\n{json}");
    (code, table, serde_json::from_str(&json).unwrap())
}

#[test]
fn status_tells_a_region_that_starts_from_one_that_is_ready_and_one_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path();
    let (code, table, json) = status(data_dir);
    assert_eq!((code, &json["ready"]), (3, &Value::Bool(false)), "{table}");
    assert!(table.contains("not running") && table.contains("`pilothouse up` starts it"), "{table}");

    let mut command = Command::new(program());
    command.args(["up", "--ephemeral-ports", "--data-dir"]).arg(data_dir);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut up = Running::spawn(command).unwrap();
    let mut said = BufReader::new(up.child().stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("the management cluster is up")));
    let id = Pid::from_raw(up.id().try_into().unwrap());
    // It stands still before there is anything to ask.
    kill(id, Signal::SIGSTOP).unwrap();
    let (code, table, json) = status(data_dir);
    assert_eq!((code, &json["ready"]), (1, &Value::Bool(false)), "{table}");
    assert!(table.contains("not ready") && table.contains("it is still starting"), "{table}");
    assert_eq!(json["process"]["id"], id.as_raw(), "{json}");

    kill(id, Signal::SIGCONT).unwrap();
    assert!(said.any(|line| line.contains("running; Ctrl-C")));
    let (code, table, json) = status(data_dir);
    assert_eq!((code, &json["ready"]), (0, &Value::Bool(true)), "{table}");
    for (name, place) in [("frontend", "http://127.0.0.1:"), ("gateway", "https://127.0.0.1:")] {
        let row = table.lines().find(|row| row.starts_with("endpoint") && row.contains(name));
        assert!(row.is_some_and(|row| row.contains(place)), "{table}");
        assert!(json["endpoints"][name].as_str().unwrap().starts_with(place), "{json}");
    }
    for (name, check) in json["checks"].as_object().unwrap() {
        assert!(table.contains(name), "{table}");
        assert_ne!(check["status"], "failed", "{json}");
    }

    kill(id, Signal::SIGTERM).unwrap();
    said.for_each(drop);
    assert!(up.wait().unwrap().success());
    assert_eq!(status(data_dir).0, 3);
}
