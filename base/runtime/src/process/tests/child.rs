//! The same with real signals, sent to a real process: this test binary, started again to run one test.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use super::*;

/// Set for the child only: which part it plays.
const PART: &str = "PILOTHOUSE_RUNTIME_TEST_PART";

/// Where the child writes what it ends with, if nobody hears it any more.
const LAST_WORDS: &str = "PILOTHOUSE_RUNTIME_TEST_LAST_WORDS";

/// What the child prints once its signals are taken over.
const READY: &str = "ready to be signalled";

/// What the child prints once the first signal was heard.
const STOPPING: &str = "stopping";

/// Not a test by itself: what the child does. Run as part of the suite it finds no part and passes.
#[test]
fn child_plays_its_part() {
    let Ok(part) = env::var(PART) else { return };
    let code = block_on(async move {
        if part == "counting" {
            let mut shell = Command::new("sh");
            let shell = crate::with_former_limit(shell.args(["-c", "ulimit -Sn"]));
            let inherited = String::from_utf8(shell.output().unwrap().stdout).unwrap();
            println!("{} and then {}", crate::descriptor_limit(), inherited.trim());
        }
        let mut process = Process::install(Duration::from_secs(60)).unwrap();
        let tasks = process.tasks("child");
        let shutdown = process.shutdown().clone();
        tasks.spawn(part.clone(), OnExit::StopProcess, async move {
            println!("{READY}");
            shutdown.requested().await;
            // Where it would be read there may be nobody any more.
            let _ = writeln!(io::stdout(), "{STOPPING}");
            if part == "stuck" { pending().await } else { Ok(()) }
        });
        process.run().await
    });
    if let Ok(file) = env::var(LAST_WORDS) {
        std::fs::write(file, code.code().to_string()).unwrap();
    }
    end_at_once(code);
}

fn start(part: &str) -> (Child, BufReader<ChildStdout>) {
    start_by(Command::new(env::current_exe().unwrap()), part)
}

/// The same by a program that becomes, or starts, what its arguments say.
fn start_by(mut command: Command, part: &str) -> (Child, BufReader<ChildStdout>) {
    let mut child = command
        .args(arguments())
        .env(PART, part)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

fn arguments() -> [&'static str; 4] {
    let name = concat!(module_path!(), "::child_plays_its_part");
    // The harness knows tests by their path inside the crate.
    let name = name.split_once("::").unwrap().1;
    ["--exact", name, "--nocapture", "--test-threads=1"]
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

#[test]
fn process_has_as_many_descriptors_as_it_may_and_what_it_starts_as_many_as_it_was_given() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -Sn 300; ulimit -Hn 400; exec \"$0\" \"$@\""]).arg(env::current_exe().unwrap());
    let (mut child, mut output) = start_by(shell, "counting");
    wait_for(&mut output, "400 and then 300");
    wait_for(&mut output, READY);
    send(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn hangup_without_a_terminal_changes_nothing() {
    let mut session = Command::new("setsid");
    session.arg("--wait").arg(env::current_exe().unwrap());
    let (mut child, mut output) = start_by(session, "well-behaved");
    wait_for(&mut output, READY);
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
    // Without a child of its own it became the program itself.
    let inner = children.split_whitespace().next().map_or_else(|| child.id().to_string(), str::to_owned);
    for signal in ["-HUP", "-HUP", "-TERM"] {
        assert!(Command::new("kill").args([signal, &inner]).status().unwrap().success());
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn process_whose_terminal_is_closed_stops_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let last_words = folder.path().join("code");
    let program = env::current_exe().unwrap();
    let line = format!("{} {}", program.display(), arguments().join(" "));
    // It has a terminal of its own for what it runs, whatever whoever runs the tests ignores.
    let mut terminal = Command::new("env")
        .args(["--default-signal=HUP", "script", "--quiet", "--command", &line, "/dev/null"])
        .env(PART, "well-behaved")
        .env(LAST_WORDS, &last_words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(&mut BufReader::new(terminal.stdout.take().unwrap()), READY);
    terminal.kill().unwrap();
    terminal.wait().unwrap();
    let begun = Instant::now();
    while std::fs::read_to_string(&last_words).unwrap_or_default() != "0" {
        assert!(begun.elapsed() < Duration::from_secs(60), "it did not end in order");
        std::thread::yield_now();
    }
}
