//! What the objects of a machine say, given what was observed.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use pilothouse_crds::{
    ConditionStatus, VirtualMachineCondition, VirtualMachineInstanceStatus, VirtualMachineInterface,
    VirtualMachineStatus,
};

use crate::order::{Order, Strategy};

/// What one pass saw of a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) order: &'a Order,
    pub(crate) generation: Option<i64>,
    /// It has been deleted.
    pub(crate) going: bool,
    pub(crate) has_instance: bool,
    /// The pod of its instance.
    pub(crate) pod: Option<&'a Pod>,
    /// A pod of whatever instance is still there.
    pub(crate) has_remains: bool,
    pub(crate) now: Timestamp,
}

/// What a machine says of itself.
pub(crate) fn machine(previous: &VirtualMachineStatus, seen: &Seen<'_>) -> VirtualMachineStatus {
    let ready = seen.pod.is_some_and(is_ready);
    let mut status = VirtualMachineStatus {
        created: seen.has_instance,
        ready,
        printable_status: printable(seen).to_owned(),
        observed_generation: seen.generation,
        ..previous.clone()
    };
    status.other.insert("runStrategy".to_owned(), seen.order.strategy.as_str().into());
    set(&mut status.conditions, ready_condition(seen), seen.now);
    set(&mut status.conditions, synchronized(seen.order), seen.now);
    status
}

/// What an instance says of itself.
pub(crate) fn instance(
    previous: &VirtualMachineInstanceStatus,
    seen: &Seen<'_>,
) -> VirtualMachineInstanceStatus {
    let pod_status = seen.pod.and_then(|pod| pod.status.as_ref());
    let node = seen.pod.and_then(|pod| pod.spec.as_ref()?.node_name.clone()).unwrap_or_default();
    let uid = seen.pod.and_then(|pod| pod.metadata.uid.clone());
    let address = pod_status.and_then(|status| status.pod_ip.clone()).filter(|address| !address.is_empty());
    let mut status = VirtualMachineInstanceStatus {
        phase: phase(seen.pod).to_owned(),
        interfaces: address
            .map(|address| VirtualMachineInterface {
                name: "default".to_owned(),
                ip_addresses: vec![address.clone()],
                ip_address: address,
                ..VirtualMachineInterface::default()
            })
            .into_iter()
            .collect(),
        active_pods: uid.map(|uid| (uid, node.clone())).into_iter().collect(),
        node_name: node,
        ..previous.clone()
    };
    set(&mut status.conditions, ready_condition(seen), seen.now);
    let stays = condition(
        "LiveMigratable",
        ConditionStatus::False,
        "ProcessNotMigratable",
        "a machine that is a process stays where it is",
    );
    set(&mut status.conditions, stays, seen.now);
    status
}

fn phase(pod: Option<&Pod>) -> &'static str {
    let Some(pod) = pod else { return "Pending" };
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    match phase {
        Some("Running") => "Running",
        Some("Succeeded") => "Succeeded",
        Some("Failed") => "Failed",
        _ if placed => "Scheduled",
        _ => "Scheduling",
    }
}

fn printable(seen: &Seen<'_>) -> &'static str {
    let wanted = !matches!(seen.order.strategy, Strategy::Halted);
    if seen.going {
        return "Terminating";
    }
    if !wanted {
        return if seen.has_instance || seen.has_remains { "Stopping" } else { "Stopped" };
    }
    let Some(pod) = seen.pod else {
        let manual = matches!(seen.order.strategy, Strategy::Manual | Strategy::Once);
        return if manual && !seen.has_instance { "Stopped" } else { "Starting" };
    };
    let crashing = pod
        .status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten())
        .any(|container| waits_for(container, "CrashLoopBackOff"));
    match phase(Some(pod)) {
        _ if crashing => "CrashLoopBackOff",
        _ if pod.metadata.deletion_timestamp.is_some() => "Stopping",
        "Running" => "Running",
        "Succeeded" | "Failed" => "Stopped",
        _ if unplaced(pod).is_some() => "ErrorUnschedulable",
        _ => "Starting",
    }
}

fn waits_for(container: &k8s_openapi::api::core::v1::ContainerStatus, reason: &str) -> bool {
    let waiting = container.state.as_ref().and_then(|state| state.waiting.as_ref());
    waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some(reason))
}

/// Why no node takes the pod, if none does.
fn unplaced(pod: &Pod) -> Option<&str> {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let placed = conditions.into_iter().find(|condition| condition.type_ == "PodScheduled")?;
    (placed.status == "False").then(|| placed.message.as_deref().unwrap_or("no node takes it"))
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn ready_condition(seen: &Seen<'_>) -> VirtualMachineCondition {
    let not = |reason: &str, message: &str| condition("Ready", ConditionStatus::False, reason, message);
    match seen.pod {
        None if seen.order.user_data.is_none() => not(
            "NoUserData",
            "here a machine is a node process, which reads the Secret of a cloud-init volume; the machine has none",
        ),
        None => not("VMINotExists", "nothing of it runs"),
        Some(pod) if is_ready(pod) => condition("Ready", ConditionStatus::True, "", ""),
        Some(pod) => match unplaced(pod) {
            Some(why) => not("Unschedulable", why),
            None => not("GuestNotRunning", "its process is not ready"),
        },
    }
}

/// Whether all that the machine asks for can be given.
fn synchronized(order: &Order) -> VirtualMachineCondition {
    match order.further_networks.as_slice() {
        [] => condition("Synchronized", ConditionStatus::True, "", ""),
        networks => condition(
            "Synchronized",
            ConditionStatus::False,
            "NetworksIgnored",
            &format!("a node process is in the network of pods only, and not in {}", networks.join(", ")),
        ),
    }
}

fn condition(type_: &str, status: ConditionStatus, reason: &str, message: &str) -> VirtualMachineCondition {
    VirtualMachineCondition {
        type_: type_.to_owned(),
        status,
        reason: reason.to_owned(),
        message: message.to_owned(),
        last_probe_time: None,
        last_transition_time: None,
    }
}

/// Keeps the transition time while the status is the same, so that repeating an observation changes nothing.
fn set(
    conditions: &mut Vec<VirtualMachineCondition>,
    mut condition: VirtualMachineCondition,
    now: Timestamp,
) {
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let known = conditions.iter_mut().find(|known| known.type_ == condition.type_);
    let kept = known.as_ref().filter(|known| known.status == condition.status);
    condition.last_transition_time =
        kept.and_then(|known| known.last_transition_time.clone()).or(Some(Time(now)));
    match known {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests;
