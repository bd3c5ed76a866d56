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

/// The same, by a file that comes while the process runs.
#[test]
fn a_process_that_runs_is_told_by_a_file_and_counts_from_then_on() {
    const ROLE: &str = "PILOTHOUSE_FAULT_TEST_WRITES";
    let tell = |file: &std::path::Path, fatal: &str| {
        let whole = file.with_extension("new");
        std::fs::write(&whole, fatal).unwrap();
        std::fs::rename(whole, file).unwrap();
    };
    if let Some(file) = std::env::var_os(fault::FAULT_FILE_VARIABLE) {
        fault::point("one");
        for said in std::env::var(ROLE).unwrap().split(';') {
            tell(file.as_ref(), said);
            fault::point("one");
            fault::point("two");
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let run = |said: &str| {
        let (file, trace) = (folder.path().join("fault"), folder.path().join("trace"));
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_process_that_runs_is_told_by_a_file_and_counts_from_then_on"]);
        command.env(ROLE, said).env(fault::FAULT_FILE_VARIABLE, &file);
        let status = command.env(fault::FAULT_TRACE_VARIABLE, &trace).output().unwrap().status;
        let passed = std::fs::read_to_string(&trace).unwrap();
        std::fs::remove_file(&file).unwrap();
        std::fs::remove_file(&trace).unwrap();
        (status.signal(), passed)
    };
    // What was passed before does not count, nor what was passed under another word.
    assert_eq!(run("one:1"), (Some(9), "one\n".to_owned()));
    assert_eq!(run("one:2;one:3;one:2"), (None, "one\ntwo\none\ntwo\none\ntwo\n".to_owned()));
    assert_eq!(run("one:2;two:1"), (Some(9), "one\ntwo\none\ntwo\n".to_owned()));
    assert_eq!(run("one:2;one:2").0, Some(9));
    assert_eq!(run("one:2\na;one:2\nb").0, None);
}
