//! A process dies where it is told to, and says where it has been.
#![cfg(debug_assertions)]

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use pilothouse_runtime::fault;

/// The test starts itself a second time, and then it is the one that passes the points.
#[test]
fn a_process_dies_at_the_named_passing_and_traces_every_one() {
    if std::env::var_os(fault::FAULT_VARIABLE).is_some() {
        for name in ["one", "two", "two", "three"] {
            fault::point(name);
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let run = |fatal: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_process_dies_at_the_named_passing_and_traces_every_one"]);
        command.env(fault::FAULT_VARIABLE, fatal).env(fault::FAULT_TRACE_VARIABLE, &trace);
        let status = command.output().unwrap().status;
        let passed = std::fs::read_to_string(&trace).unwrap();
        std::fs::remove_file(&trace).unwrap();
        (status.signal(), passed)
    };
    assert_eq!(run("two:2"), (Some(9), "one\ntwo\ntwo\n".to_owned()));
    assert_eq!(run("two:3"), (None, "one\ntwo\ntwo\nthree\n".to_owned()));
}
