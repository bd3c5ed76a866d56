//! A pod in one line: how many containers are ready, and what holds the others up.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{age, list, number, or_none, text};

/// What the containers add up to.
struct Summary {
    ready: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
    reason: String,
}

pub(super) fn cells(pod: &Value, name: Value, age: Value, now: Timestamp) -> Vec<Value> {
    let sidecars = list(pod, "/spec/initContainers").iter().filter(|container| is_sidecar(container)).count();
    let total = list(pod, "/spec/containers").len() + sidecars;
    let summary = summarise(pod);
    let restarts = match summary.last_restart {
        Some(last) if summary.restarts > 0 => {
            json!(format!("{} ({} ago)", summary.restarts, age::short(now.as_second() - last.as_second())))
        }
        _ => json!(summary.restarts.to_string()),
    };
    vec![
        name,
        json!(format!("{}/{total}", summary.ready)),
        json!(summary.reason),
        restarts,
        age,
        or_none(text(pod, "/status/podIP")),
        or_none(text(pod, "/spec/nodeName")),
        or_none(text(pod, "/status/nominatedNodeName")),
        gates(pod),
    ]
}

fn summarise(pod: &Value) -> Summary {
    let reason = match text(pod, "/status/reason") {
        "" => text(pod, "/status/phase"),
        reason => reason,
    };
    let mut summary = Summary { ready: 0, restarts: 0, last_restart: None, reason: reason.to_owned() };
    if condition(pod, "PodScheduled").is_some_and(|scheduled| scheduled["reason"] == "SchedulingGated") {
        summary.reason = "SchedulingGated".to_owned();
    }
    let initializing = summary.add_init_containers(pod);
    let initialized = condition(pod, "Initialized").is_some_and(|condition| condition["status"] == "True");
    if !initializing || initialized {
        summary.add_containers(pod);
    }
    if pod["metadata"]["deletionTimestamp"].is_string() {
        if pod["status"]["reason"] == "NodeLost" {
            summary.reason = "Unknown".to_owned();
        } else if !matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
            summary.reason = "Terminating".to_owned();
        }
    }
    summary
}

// === impl Summary ===

impl Summary {
    /// Whether one of them still has to finish.
    fn add_init_containers(&mut self, pod: &Value) -> bool {
        let specs = list(pod, "/spec/initContainers");
        let statuses = list(pod, "/status/initContainerStatuses");
        for (place, status) in statuses.iter().enumerate() {
            self.count(status);
            let sidecar = specs.iter().any(|spec| spec["name"] == status["name"] && is_sidecar(spec));
            let terminated = &status["state"]["terminated"];
            if terminated.is_object() && number(terminated, "/exitCode") == 0 {
                continue;
            }
            if sidecar && status["started"] == true {
                self.ready += usize::from(status["ready"] == true);
                continue;
            }
            let waiting = text(status, "/state/waiting/reason");
            self.reason = if terminated.is_object() {
                format!("Init:{}", ended(terminated))
            } else if !matches!(waiting, "" | "PodInitializing") {
                format!("Init:{waiting}")
            } else {
                format!("Init:{place}/{}", specs.len())
            };
            return true;
        }
        false
    }

    fn add_containers(&mut self, pod: &Value) {
        let mut running = false;
        // From the last to the first, so that the first one's trouble is what is shown.
        for status in list(pod, "/status/containerStatuses").iter().rev() {
            self.count(status);
            let state = &status["state"];
            match text(state, "/waiting/reason") {
                "" if state["terminated"].is_object() => self.reason = ended(&state["terminated"]),
                "" if status["ready"] == true && state["running"].is_object() => {
                    running = true;
                    self.ready += 1;
                }
                "" => {}
                waiting => self.reason = waiting.to_owned(),
            }
        }
        if self.reason == "Completed" && running {
            let ready = condition(pod, "Ready").is_some_and(|ready| ready["status"] == "True");
            self.reason = if ready { "Running" } else { "NotReady" }.to_owned();
        }
    }

    fn count(&mut self, status: &Value) {
        self.restarts += number(status, "/restartCount");
        let finished = text(status, "/lastState/terminated/finishedAt").parse().ok();
        self.last_restart = self.last_restart.max(finished);
    }
}

fn ended(terminated: &Value) -> String {
    match (text(terminated, "/reason"), number(terminated, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number(terminated, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

/// An init container that keeps running beside the others.
fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    list(pod, "/status/conditions").iter().find(|condition| condition["type"] == kind)
}

fn gates(pod: &Value) -> Value {
    let gates = list(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return or_none("");
    }
    let open = gates
        .iter()
        .filter(|gate| {
            condition(pod, text(gate, "/conditionType"))
                .is_some_and(|condition| condition["status"] == "True")
        })
        .count();
    json!(format!("{open}/{}", gates.len()))
}
