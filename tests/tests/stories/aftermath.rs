//! What there is to look at when a story has failed.

use std::fmt::Write as _;

use serde_json::Value;

/// How much of a log.
const LINES: usize = 40;

/// Shows what a management cluster says, what pods have said that are not ready, and how these logs end.
pub(crate) fn show(
    kubectl: impl Fn(&[&str]) -> Result<String, String>,
    logs: impl IntoIterator<Item = (String, String)>,
) {
    let ask = |arguments: &[&str]| {
        let arguments = [arguments, &["--request-timeout=10s"]].concat();
        kubectl(&arguments).unwrap_or_else(|said| said)
    };
    let everything = "hostedclusters,nodepools,statefulsets,pods,pvc,events";
    let there = ask(&["get", everything, "-A", "-o", "wide"]);
    let mut shown = format!("--- what is there ---\n{there}\n");
    for (namespace, pod) in unready(&ask(&["get", "pods", "-A", "-o", "json"])) {
        let said = ask(&["logs", "-n", &namespace, &pod, "--tail", &LINES.to_string()]);
        let _ = writeln!(shown, "--- what {pod} says, which is not ready ---\n{said}");
    }
    for (name, log) in logs {
        let lines: Vec<_> = log.lines().collect();
        let end = &lines[lines.len().saturating_sub(LINES)..];
        let _ = writeln!(shown, "--- the end of {name}'s log ---\n{}", end.join("\n"));
    }
    #[expect(clippy::print_stderr, reason = "the test harness shows it with the failure")]
    {
        eprintln!("{shown}");
    }
}

/// Pods of a list that are not ready.
fn unready(list: &str) -> Vec<(String, String)> {
    let list: Value = serde_json::from_str(list).unwrap_or_default();
    let is_ready = |pod: &&Value| {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        conditions.into_iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
    };
    let name = |pod: &Value, key: &str| pod["metadata"][key].as_str().unwrap_or_default().to_owned();
    let pods = list["items"].as_array().into_iter().flatten();
    pods.filter(|pod| !is_ready(pod)).map(|pod| (name(pod, "namespace"), name(pod, "name"))).collect()
}
