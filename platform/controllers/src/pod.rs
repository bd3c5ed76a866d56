//! What controllers read off a pod.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition};

use crate::ownership::is_deleting;

/// Whether a pod serves, and has done so for long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    /// It is not ready.
    No,
    /// It is ready, and becomes available if it stays so for this long.
    In(Duration),
    /// It is.
    Yes,
}

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

pub(crate) fn is_finished(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether it counts as one of the pods that somebody wanted.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !is_deleting(&pod.metadata)
}

pub(crate) fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

pub(crate) fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_deref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|condition| condition.status == "True")
}

/// Whether it has been ready for `least` seconds.
pub(crate) fn availability(pod: &Pod, least: i32, now: Timestamp) -> Availability {
    let Some(ready) = condition(pod, "Ready").filter(|condition| condition.status == "True") else {
        return Availability::No;
    };
    let least = Duration::from_secs(u64::try_from(least).unwrap_or(0));
    let Some(since) = &ready.last_transition_time else {
        return if least.is_zero() { Availability::Yes } else { Availability::In(least) };
    };
    // Fails only for moments to come, which are no time at all.
    let elapsed = Duration::try_from(now.duration_since(since.0)).unwrap_or_default();
    match least.checked_sub(elapsed) {
        Some(rest) if !rest.is_zero() => Availability::In(rest),
        _ => Availability::Yes,
    }
}
