//! The same with real signals, sent to a real process: this test binary, started again to run one test.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::*;

/// Set for the child only: which part it plays.
const PART: &str = "PILOTHOUSE_RUNTIME_TEST_PART";

/// What the child prints once its signals are taken over.
const READY: &str = "ready to be signalled";

/// What the child prints once the first signal was heard.
const STOPPING: &str = "stopping";

/// Not a test by itself: what the child does. Run as part of the suite it finds no part and passes.
#[test]
fn child_plays_its_part() {
    let Ok(part) = env::var(PART) else { return };
    let code = block_on(async move {
        let mut process = Process::install(Duration::from_secs(60)).unwrap();
        let tasks = process.tasks("child");
        let shutdown = process.shutdown().clone();
        tasks.spawn(part.clone(), OnExit::StopProcess, async move {
            println!("{READY}");
            shutdown.requested().await;
            println!("{STOPPING}");
            if part == "stuck" { pending().await } else { Ok(()) }
        });
        process.run().await
    });
    end_at_once(code);
}

fn start(part: &str) -> (Child, BufReader<ChildStdout>) {
    let name = concat!(module_path!(), "::child_plays_its_part");
    // The harness knows tests by their path inside the crate.
    let name = name.split_once("::").unwrap().1;
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(PART, part)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// Reads until the child says so; the harness prints lines of its own, some without an end.
fn wait_for(output: &mut BufReader<ChildStdout>, what: &str) {
    let mut line = String::new();
    while !line.trim_end().ends_with(what) {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the child ended before it was {what}");
    }
}

fn send(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn real_signal_stops_a_process_in_order() {
    let (mut child, mut output) = start("well-behaved");
    wait_for(&mut output, READY);
    send(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn second_real_signal_ends_a_stuck_process() {
    let (mut child, mut output) = start("stuck");
    wait_for(&mut output, READY);
    send(&child, "-INT");
    wait_for(&mut output, STOPPING);
    send(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
}
