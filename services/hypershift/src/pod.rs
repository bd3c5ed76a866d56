//! What a pod says of itself.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

/// So many lines of what a process said at its end: the error, its causes, and what to do about it.
const LAST_LINES: usize = 5;

/// Whether a pod says that it is ready.
pub(crate) fn is_pod_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Whether something of a pod runs that would be interrupted.
pub(crate) fn is_pod_running(pod: &Pod) -> bool {
    let containers = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let mut states = containers.into_iter().filter_map(|container| container.state.as_ref());
    states.any(|state| state.running.is_some())
}

/// What keeps a pod from being ready, as far as it says.
pub(crate) fn pod_state(pod: &Pod) -> String {
    let Some(status) = &pod.status else { return "nothing is known of it".to_owned() };
    let phase = status.phase.as_deref().unwrap_or("Pending");
    let reasons = status.container_statuses.iter().flatten().filter_map(|container| {
        let state = container.state.as_ref()?;
        let (reason, message, before) = match (&state.waiting, &state.terminated) {
            (Some(waiting), _) => (&waiting.reason, &waiting.message, last_words(container)),
            (None, Some(ended)) => (&ended.reason, &ended.message, None),
            (None, None) => return None,
        };
        let said = [reason.as_deref(), message.as_deref(), before.as_deref()];
        Some(said.into_iter().flatten().collect::<Vec<_>>().join(": "))
    });
    let unscheduled = status
        .conditions
        .iter()
        .flatten()
        .filter(|condition| condition.type_ == "PodScheduled" && condition.status == "False")
        .filter_map(|condition| condition.message.clone());
    std::iter::once(phase.to_owned()).chain(reasons).chain(unscheduled).collect::<Vec<_>>().join(", ")
}

/// How a container ended that waits to be started again, and what it said then.
fn last_words(container: &ContainerStatus) -> Option<String> {
    let ended = container.last_state.as_ref()?.terminated.as_ref()?;
    let message = ended.message.as_deref().unwrap_or_default();
    let lines: Vec<_> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let said = lines[lines.len().saturating_sub(LAST_LINES)..].join("; ");
    let code = ended.exit_code;
    Some(if said.is_empty() {
        format!("it ended with {code}")
    } else {
        format!("it ended with {code}: {said}")
    })
}
