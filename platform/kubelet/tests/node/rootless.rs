//! The same without root.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

/// Nobody, on every machine.
const NOBODY: u32 = 65534;

pub(crate) fn an_ordinary_user_runs_pods_and_nodes_in_pods() {
    if !nix::unistd::Uid::effective().is_root() {
        // Then all the other tests say so.
        return;
    }
    // A place that everybody may enter, with a program that everybody may run.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let program = folder.path().join("node");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(program)
        .args(["nested", "removal::deleted", "tenants"])
        .env("TMPDIR", folder.path())
        .uid(NOBODY)
        .gid(NOBODY)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("a_pod_can_be_a_node_with_pods_of_its_own ... ok"),
        "{said}"
    );
}
