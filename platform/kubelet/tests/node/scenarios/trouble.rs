//! Pods that do not do well, as people see them.

use serde_json::json;

use super::World;
use crate::support::shell;

pub(super) async fn shows(world: &mut World) {
    world.apply_pod("crashing", json!({"containers": [shell("echo last words; exit 3")]})).await;
    let mut container = shell("exec sleep 600");
    container["readinessProbe"] = json!({"exec": {"command": ["sh", "-c", "exit 4"]}, "periodSeconds": 1});
    world.apply_pod("unready", json!({"terminationGracePeriodSeconds": 1, "containers": [container]})).await;
    let mut container = shell("head -c 300000000 /dev/zero | tail -c 300000000 > /dev/null");
    container["resources"] = json!({"limits": {"memory": "64Mi"}});
    world.apply_pod("greedy", json!({"containers": [container]})).await;
    let container = json!({"name": "main", "image": "registry.example/nobody/nothing:1"});
    world.apply_pod("imageless", json!({"containers": [container]})).await;
    world.apply_pod("homeless", json!({"containers": [shell("true")], "nodeName": null,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "moon", "operator": "Exists"}]}]}}}})).await;

    let describe =
        async |name: &str, expected: &[&str]| world.until_printed(&["describe", "pod", name], expected).await;
    let said = describe(
        "crashing",
        &[
            "Reason:       CrashLoopBackOff",
            "Last State:     Terminated",
            "Reason:       Error",
            "Exit Code:    3",
            "BackOff",
            "Back-off restarting failed container main in pod crashing_",
            "Started container main",
        ],
    )
    .await;
    let restarts = said.lines().find_map(|line| line.trim().strip_prefix("Restart Count:")).unwrap();
    assert!(restarts.trim().parse::<u32>().unwrap() >= 1, "{said}");
    let row = world.printed(&["get", "pod", "crashing", "--no-headers"]).await;
    assert!(row.contains("CrashLoopBackOff"), "{row}");
    // What it said before it was started again.
    assert_eq!(world.printed(&["logs", "crashing", "--previous"]).await, "last words\n");

    describe(
        "unready",
        &["Ready:          False", "Unhealthy", "Readiness probe failed: the command ended with code 4"],
    )
    .await;
    let row = world.printed(&["get", "pod", "unready", "--no-headers"]).await;
    assert!(row.contains("0/1") && row.contains("Running"), "{row}");
    let waited = world.kubectl_run(&["wait", "--for=condition=Ready", "pod/unready", "--timeout=1s"]).await;
    assert!(!waited.status.success());

    // Where the machine does not let us limit anything, the node says so instead.
    let node = world.printed(&["describe", "node", &world.nodes[0].config.node_name]).await;
    let limits = node.lines().find(|line| line.trim_start().starts_with("ResourceLimits")).unwrap();
    if limits.contains("True") {
        describe("greedy", &["Reason:       OOMKilled", "Exit Code:    137", "OOMKilling", "(limit 64Mi)"])
            .await;
    } else {
        describe("greedy", &["LimitsNotEnforced"]).await;
    }

    let said = describe(
        "imageless",
        &["ErrImagePull", "Failed to pull image \"registry.example/nobody/nothing:1\"", "`busybox`"],
    )
    .await;
    assert!(said.contains("Restart Count:  0"), "{said}");

    describe(
        "homeless",
        &["Status:           Pending", "FailedScheduling", "didn't match Pod's node affinity"],
    )
    .await;
}
