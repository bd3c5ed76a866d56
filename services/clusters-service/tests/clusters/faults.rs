//! Where a replica may be killed.

use std::path::Path;
use std::process::Command;

use pilothouse_runtime::fault::FAULT_TRACE_VARIABLE;

/// Another test's life of a cluster, in a process that writes down which points it passes.
const LIFE: &str = "controller::node_pools_follow_their_cluster_and_go_before_it";

#[test]
fn a_life_passes_a_point_at_everything_that_is_asked_of_maestro_and_of_the_cloud() {
    let trace = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("faults-{}", std::process::id()));
    let mut life = Command::new(std::env::current_exe().unwrap());
    let output = life.args(["--exact", LIFE]).env(FAULT_TRACE_VARIABLE, &trace).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let passed = std::fs::read_to_string(&trace).unwrap();
    std::fs::remove_file(&trace).unwrap();
    for asked in ["publish", "withdraw", "cloud"] {
        let count = |moment: &str| {
            let point = format!("clusters-service.{asked}.{moment}");
            passed.lines().filter(|line| *line == point).count()
        };
        assert!(count("after") > 0, "{asked} in\n{passed}");
        assert!(count("before") >= count("after"), "{asked} in\n{passed}");
    }
}
