//! Where a gateway may be killed.

use std::path::Path;
use std::process::Command;

use pilothouse_runtime::fault::FAULT_TRACE_VARIABLE;

/// Another test, in a process that writes down which points it passes. The only management cluster that it writes to by a client of
/// the gateway's own is one of the configuration.
const LIFE: &str = "management::management_cluster_that_is_added_is_followed_and_its_clusters_go_with_it";

#[test]
fn writes_to_management_clusters_of_the_configuration_are_points_too() {
    let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("gateway-faults-{}", std::process::id()));
    let mut life = Command::new(std::env::current_exe().unwrap());
    let output = life.args(["--exact", LIFE]).env(FAULT_TRACE_VARIABLE, &trace).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let passed = std::fs::read_to_string(&trace).unwrap_or_default();
    let _ = std::fs::remove_file(&trace);
    for moment in ["before", "after"] {
        let point = format!("kubernetes.write.patch.routes.status.{moment}");
        assert!(passed.lines().any(|line| line == point), "{point} in\n{passed}");
    }
}
