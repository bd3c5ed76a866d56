//! Which pods a daemon set needs, on which nodes, and what it reports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, Toleration};

use super::target;
use crate::ownership::is_deleting;
use crate::placement;
use crate::pod::{self, Availability};
use crate::revision::HASH;
use crate::share;

/// What is to be done for one set.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// Nodes that need a pod.
    pub(super) create: Vec<String>,
    pub(super) delete: Vec<Arc<Pod>>,
    /// Pods that ended, with the node they were on. They are replaced, but not at once each time.
    pub(super) ended: Vec<(String, Arc<Pod>)>,
    pub(super) status: DaemonSetStatus,
    pub(super) look_again: Option<Duration>,
}

/// What a node is to a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fit {
    /// It should have a pod.
    runs: bool,
    /// A pod that is there may stay.
    keeps: bool,
}

/// What pods of daemon sets put up with, whatever their template says.
pub(super) fn tolerations(spec: &PodSpec) -> Vec<Toleration> {
    const ALWAYS: [(&str, &str); 6] = [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ];
    let network = spec.host_network.unwrap_or(false).then_some(("network-unavailable", "NoSchedule"));
    let mut tolerations = spec.tolerations.clone().unwrap_or_default();
    for (key, effect) in ALWAYS.into_iter().chain(network) {
        let added = Toleration {
            key: Some(format!("node.kubernetes.io/{key}")),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        };
        if !tolerations.contains(&added) {
            tolerations.push(added);
        }
    }
    tolerations
}

fn fit(spec: &PodSpec, tolerations: &[Toleration], node: &Node) -> Fit {
    let named = spec.node_name.as_deref().filter(|name| !name.is_empty());
    if named.is_some_and(|name| node.metadata.name.as_deref() != Some(name))
        || !placement::is_wanted(spec, node)
    {
        return Fit { runs: false, keeps: false };
    }
    let taints = placement::taints(node);
    let free = |effects: &[&str]| placement::untolerated(taints, tolerations, effects).is_none();
    Fit { runs: free(&["NoSchedule", "NoExecute"]), keeps: free(&["NoExecute"]) }
}

pub(super) fn plan(
    set: &DaemonSet,
    nodes: &[Arc<Node>],
    pods: &[Arc<Pod>],
    hash: &str,
    now: Timestamp,
) -> Plan {
    let spec = set.spec.clone().unwrap_or_default();
    let template = spec.template.spec.clone().unwrap_or_default();
    let tolerations = tolerations(&template);
    let mut by_node: BTreeMap<&str, Vec<Arc<Pod>>> = BTreeMap::new();
    for pod in pods {
        if let Some(node) = target(pod) {
            by_node.entry(node).or_default().push(pod.clone());
        }
    }
    by_node.values_mut().for_each(|pods| {
        pods.sort_by_cached_key(|pod| {
            (pod.metadata.creation_timestamp.as_ref().map(|time| time.0), pod.metadata.name.clone())
        });
    });
    let fits: BTreeMap<&str, Fit> = nodes
        .iter()
        .filter(|node| !is_deleting(&node.metadata))
        .map(|node| (node.metadata.name.as_deref().unwrap_or_default(), fit(&template, &tolerations, node)))
        .collect();
    let mut plan = Plan::default();
    let least = spec.min_ready_seconds.unwrap_or(0);
    plan.status = status(set, &fits, &by_node, hash, least, now, &mut plan.look_again);
    if is_deleting(&set.metadata) {
        return plan;
    }
    let limits = Limits::of(set, plan.status.desired_number_scheduled);
    let is_available = |pod: &Pod| pod::availability(pod, least, now) == Availability::Yes;
    for (node, fit) in &fits {
        let there = by_node.get(node).map(Vec::as_slice).unwrap_or_default();
        match fit {
            Fit { runs: true, .. } if there.is_empty() => plan.create.push((*node).to_owned()),
            Fit { keeps: true, .. } => plan.tidy(node, there, limits.surge > 0, hash, &is_available),
            Fit { keeps: false, .. } => {
                plan.delete.extend(there.iter().filter(|pod| !is_deleting(&pod.metadata)).cloned());
            }
        }
    }
    let strategy = spec.update_strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
    // First everybody has a pod, then they are replaced.
    if strategy != Some("OnDelete") {
        let nodes: Vec<_> = fits
            .iter()
            .filter(|(_, fit)| fit.runs)
            .map(|(node, _)| (*node, by_node.get(node).map(Vec::as_slice).unwrap_or_default()))
            .collect();
        if limits.surge > 0 {
            plan.surge(&nodes, limits.surge, hash, &is_available);
        } else {
            plan.replace(&nodes, limits.unavailable, hash, &is_available);
        }
    }
    plan
}

/// How far an update may stray.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limits {
    unavailable: i32,
    surge: i32,
}

impl Limits {
    fn of(set: &DaemonSet, desired: i32) -> Self {
        let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        let unavailable = unavailable.map_or(1, |value| share::of(value, desired, true));
        let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref());
        let surge = surge.map_or(0, |value| share::of(value, desired, true));
        // Neither one more nor one less would never move.
        let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
        Self { unavailable, surge }
    }
}

fn is_updated(pod: &Pod, hash: &str) -> bool {
    pod.metadata.labels.as_ref().and_then(|labels| labels.get(HASH)).is_some_and(|found| found == hash)
}

/// A new pod and an old one.
type Pair<'a> = (Option<&'a Arc<Pod>>, Option<&'a Arc<Pod>>);

/// The one new and the one old pod of a node. `None` where there are more: they are tidied first.
fn new_and_old<'a>(pods: &'a [Arc<Pod>], hash: &str) -> Option<Pair<'a>> {
    let staying = pods.iter().filter(|pod| !is_deleting(&pod.metadata));
    let (new, old): (Vec<_>, Vec<_>) = staying.partition(|pod| is_updated(pod, hash));
    (new.len() <= 1 && old.len() <= 1).then(|| (new.first().copied(), old.first().copied()))
}

// === impl Plan ===

impl Plan {
    /// Removes what ended, and all but one of those that run; two while one takes over from the other.
    fn tidy(
        &mut self,
        node: &str,
        pods: &[Arc<Pod>],
        surges: bool,
        hash: &str,
        is_available: &impl Fn(&Pod) -> bool,
    ) {
        let staying = pods.iter().filter(|pod| !is_deleting(&pod.metadata));
        let (ended, running): (Vec<_>, Vec<_>) = staying.cloned().partition(|pod| pod::is_finished(pod));
        self.ended.extend(ended.into_iter().map(|pod| (node.to_owned(), pod)));
        if !surges {
            self.delete.extend(running.into_iter().skip(1));
            return;
        }
        let (new, old): (Vec<_>, Vec<_>) = running.into_iter().partition(|pod| is_updated(pod, hash));
        let taken_over = new.first().is_some_and(|pod| is_available(pod));
        let keep_old = match old.first() {
            Some(pod) if !new.is_empty() => pod::is_ready(pod) && !taken_over,
            _ => true,
        };
        self.delete.extend(old.into_iter().skip(usize::from(keep_old)));
        self.delete.extend(new.into_iter().skip(1));
    }

    /// One pod goes before the next comes.
    fn replace(
        &mut self,
        nodes: &[(&str, &[Arc<Pod>])],
        most: i32,
        hash: &str,
        is_available: &impl Fn(&Pod) -> bool,
    ) {
        let (mut unavailable, mut broken, mut candidates) = (0, Vec::new(), Vec::new());
        for (_, pods) in nodes {
            match new_and_old(pods, hash) {
                Some((Some(new), None)) if is_available(new) => {}
                Some((None, Some(old))) if is_available(old) => candidates.push(old.clone()),
                // What does not work anyway costs nothing to replace.
                Some((None, Some(old))) => {
                    unavailable += 1;
                    broken.push(old.clone());
                }
                _ => unavailable += 1,
            }
        }
        let room = usize::try_from(most - unavailable).unwrap_or(0);
        let going = broken.into_iter().chain(candidates.into_iter().take(room));
        self.delete_once(going.filter(|pod| !pod::is_finished(pod)));
    }

    /// The next pod comes before the one goes.
    fn surge(
        &mut self,
        nodes: &[(&str, &[Arc<Pod>])],
        most: i32,
        hash: &str,
        is_available: &impl Fn(&Pod) -> bool,
    ) {
        let (mut surging, mut urgent, mut candidates) = (0, Vec::new(), Vec::new());
        for (node, pods) in nodes {
            match new_and_old(pods, hash) {
                None => surging += 1,
                Some((None, Some(old))) if is_available(old) => candidates.push((*node).to_owned()),
                Some((None, Some(_))) => urgent.push((*node).to_owned()),
                Some((Some(new), Some(old))) if is_available(old) && !is_available(new) => surging += 1,
                Some((Some(_), Some(old))) => self.delete_once([old.clone()]),
                Some((_, None)) => {}
            }
        }
        let room = usize::try_from(most - surging).unwrap_or(0);
        self.create.extend(urgent.into_iter().chain(candidates.into_iter().take(room)));
    }

    fn delete_once(&mut self, pods: impl IntoIterator<Item = Arc<Pod>>) {
        for pod in pods {
            if !self.delete.iter().any(|other| other.metadata.uid == pod.metadata.uid) {
                self.delete.push(pod);
            }
        }
    }
}

fn status(
    set: &DaemonSet,
    fits: &BTreeMap<&str, Fit>,
    by_node: &BTreeMap<&str, Vec<Arc<Pod>>>,
    hash: &str,
    least: i32,
    now: Timestamp,
    look_again: &mut Option<Duration>,
) -> DaemonSetStatus {
    let before = set.status.clone().unwrap_or_default();
    let (mut desired, mut current, mut misplaced) = (0, 0, 0);
    let (mut ready, mut available, mut updated) = (0, 0, 0);
    for (node, fit) in fits {
        let oldest = by_node.get(node).and_then(|pods| pods.first());
        if !fit.runs {
            misplaced += i32::from(oldest.is_some());
            continue;
        }
        desired += 1;
        let Some(pod) = oldest else { continue };
        current += 1;
        match pod::availability(pod, least, now) {
            Availability::No => {}
            Availability::In(rest) => {
                ready += 1;
                *look_again = [*look_again, Some(rest)].into_iter().flatten().min();
            }
            Availability::Yes => {
                ready += 1;
                available += 1;
            }
        }
        updated += i32::from(is_updated(pod, hash));
    }
    let some = |count: i32| (count != 0).then_some(count);
    DaemonSetStatus {
        collision_count: before.collision_count,
        conditions: before.conditions,
        current_number_scheduled: current,
        desired_number_scheduled: desired,
        number_available: some(available),
        number_misscheduled: misplaced,
        number_ready: ready,
        number_unavailable: some(desired - available),
        observed_generation: set.metadata.generation,
        updated_number_scheduled: some(updated),
    }
}
