//! A child process with mounts of its own: full and read-only disks that nobody else sees, and that are gone with
//! it. Permission bits would not do, since they mean nothing to root.

use std::env;
use std::process::{Command, Stdio};

use camino::{Utf8Path, Utf8PathBuf};
use pilothouse_test_support::process;
use pilothouse_test_support::requirement::Requirement;

const UNSHARE: Requirement = Requirement::new("unshare", "util-linux");
/// Asked for where the program is there, and the kernel does not let it.
const NAMESPACES: Requirement = Requirement::new("mount namespaces (unshare -Urm)", "util-linux");
/// Tells the child which folder it is about.
const FOLDER: &str = "PILOTHOUSE_TEST_FOLDER";

/// The folder a child was started for; none in a process that is not such a child.
pub(super) fn folder_of_child() -> Option<Utf8PathBuf> {
    process::is_child().then(|| env::var(FOLDER).unwrap().into())
}

/// Runs a test of this binary in a child, after the shell has carried out `mounts`, in which `$1` is the folder.
/// Answers false, after saying so, if the machine does not allow it.
pub(super) fn run(test: &str, folder: &Utf8Path, mounts: &str) -> bool {
    let Some(mut unshare) = unshare() else { return false };
    let child = process::child_of_this_test(test);
    unshare.args(["sh", "-c", &format!("set -e; {mounts}; shift; exec \"$@\""), "sh"]).arg(folder);
    unshare.arg(child.get_program()).args(child.get_args());
    unshare.envs(child.get_envs().filter_map(|(name, value)| Some((name, value?)))).env(FOLDER, folder);
    let output = unshare.stderr(Stdio::inherit()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{test} after {mounts:?}: {text}");
    true
}

/// As root a namespace for mounts is enough; others need one in which they are root.
fn unshare() -> Option<Command> {
    let program = UNSHARE.find()?;
    for namespaces in ["-m", "-Urm"] {
        let probe =
            Command::new(&program).args([namespaces, "mount", "-t", "tmpfs", "tmpfs", "/tmp"]).output();
        if probe.unwrap().status.success() {
            let mut command = Command::new(program);
            command.arg(namespaces);
            return Some(command);
        }
    }
    NAMESPACES.missing();
    None
}
