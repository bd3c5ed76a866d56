//! What a pod says of itself.

use k8s_openapi::api::core::v1::Pod;

/// Whether a pod says that it is ready.
pub(crate) fn is_pod_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// What keeps a pod from being ready, as far as it says.
pub(crate) fn pod_state(pod: &Pod) -> String {
    let Some(status) = &pod.status else { return "nothing is known of it".to_owned() };
    let phase = status.phase.as_deref().unwrap_or("Pending");
    let containers =
        status.container_statuses.iter().flatten().filter_map(|container| container.state.as_ref());
    let reasons = containers.filter_map(|state| {
        let waiting = state.waiting.as_ref().map(|state| (&state.reason, &state.message));
        let ended = state.terminated.as_ref().map(|state| (&state.reason, &state.message));
        let (reason, message) = waiting.or(ended)?;
        let said = [reason.as_deref(), message.as_deref()];
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
