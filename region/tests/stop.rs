//! Stopping a region from outside, seen from processes that are none.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use pilothouse_region::{DataDir, DataDirError, RunningProcess, StopError, Stopped, stop};

/// A process that says so when it is told to end, and goes on.
fn stubborn() -> (Child, BufReader<std::process::ChildStdout>) {
    let mut shell = Command::new("sh")
        .args(["-c", "trap 'echo told' TERM; echo ready; while :; do sleep 0.02; done"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(shell.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    (shell, output)
}

/// A field of what the kernel says about a process, counted from its state.
fn stat(child: &Child, field: usize) -> String {
    let text = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    text.rsplit_once(')').unwrap().1.split_whitespace().nth(field).unwrap().to_owned()
}

fn running(child: &Child, stopping: bool) -> RunningProcess {
    let id = i32::try_from(child.id()).unwrap();
    RunningProcess { id, started: stat(child, 19).parse().unwrap(), stopping }
}

#[tokio::test]
async fn region_that_is_stopping_is_not_told_again() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = DataDir::new(folder.path());
    let (mut shell, mut output) = stubborn();
    for stopping in [true, false] {
        let text = serde_json::to_vec(&running(&shell, stopping)).unwrap();
        fs::write(folder.path().join("process.json"), text).unwrap();
        // It does not end, so that stopping is given up.
        let late = stop(&data_dir, Duration::from_millis(300)).await.unwrap_err();
        assert!(matches!(late, StopError::Late { .. }), "{late}");
    }
    let mut heard = String::new();
    output.read_line(&mut heard).unwrap();
    shell.kill().unwrap();
    output.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "told\n", "once, when it was not stopping");
    // Nobody has waited for it, and yet it does not run.
    assert_eq!(stop(&data_dir, Duration::from_secs(20)).await.unwrap(), Stopped::Nothing);
    shell.wait().unwrap();
}

#[test]
fn process_that_nobody_has_waited_for_does_not_run() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let process = running(&child, false);
    assert!(process.is_alive());
    child.kill().unwrap();
    while stat(&child, 0) != "Z" {
        std::thread::yield_now();
    }
    assert!(!process.is_alive());
    child.wait().unwrap();
}

/// Nobody runs the region, and locks are still held: by threads that outlive their process, and by its kubelet.
#[tokio::test]
async fn locks_that_outlive_a_region_are_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = DataDir::new(folder.path());
    let limit = Duration::from_secs(20);
    let held = data_dir.hold().unwrap();
    fs::remove_file(folder.path().join("process.json")).unwrap();
    let (stopped, ()) = tokio::join!(stop(&data_dir, limit), async { drop(held) });
    assert_eq!(stopped.unwrap(), Stopped::Nothing);

    let root = data_dir.node().join("root");
    fs::create_dir(&root).unwrap();
    let file = File::create(root.join("kubelet.lock")).unwrap();
    let held = Flock::lock(file, FlockArg::LockExclusiveNonblock).unwrap();
    let (stopped, ()) = tokio::join!(stop(&data_dir, limit), async { drop(held) });
    assert_eq!(stopped.unwrap(), Stopped::Nothing);

    // Whoever keeps one is told of in the end.
    let held = data_dir.hold().unwrap();
    fs::remove_file(folder.path().join("process.json")).unwrap();
    let kept = stop(&data_dir, Duration::from_millis(100)).await.unwrap_err();
    assert!(matches!(kept, StopError::DataDir(DataDirError::Taken { by: None, .. })), "{kept}");
    drop(held);
}

#[tokio::test]
async fn endpoints_of_an_earlier_start_go_when_the_folder_is_taken_and_when_it_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = DataDir::new(folder.path());
    fs::write(data_dir.endpoints_file(), "{}").unwrap();
    drop(data_dir.hold().unwrap());
    assert!(!data_dir.endpoints_file().exists());
    // As one that was killed leaves it.
    fs::write(data_dir.endpoints_file(), "{}").unwrap();
    fs::remove_file(folder.path().join("process.json")).unwrap();
    assert_eq!(stop(&data_dir, Duration::from_secs(20)).await.unwrap(), Stopped::Nothing);
    assert!(!data_dir.endpoints_file().exists());
}
