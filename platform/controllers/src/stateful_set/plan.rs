//! What is to be done next for a stateful set.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;

use super::{ordinal, revision_of};
use crate::ownership::is_deleting;
use crate::pod::{self, Availability};

/// The set's pods, by ordinal.
#[derive(Debug, Default)]
pub(super) struct Observed {
    pub(super) pods: BTreeMap<i32, Replica>,
    /// When a pod becomes available if nothing happens.
    pub(super) look_again: Option<Duration>,
}

/// One pod of a set.
#[derive(Clone, Debug, Default)]
pub(super) struct Replica {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) revision: String,
    pub(super) updated: bool,
    pub(super) ready: bool,
    pub(super) available: bool,
    pub(super) ending: bool,
    pub(super) finished: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Make the pod of this ordinal, and before it its claims.
    Create(i32),
    Delete {
        name: String,
        uid: String,
    },
}

impl Observed {
    pub(super) fn of(set: &StatefulSet, pods: &[Arc<Pod>], revision: &str, now: Timestamp) -> Self {
        let least = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
        let mut observed = Self::default();
        for pod in pods {
            let Some(ordinal) = ordinal(set, pod) else { continue };
            let availability = pod::availability(pod, least, now);
            let ending = is_deleting(&pod.metadata);
            if let Availability::In(rest) = availability {
                let earlier = observed.look_again.unwrap_or(rest);
                observed.look_again = Some(earlier.min(rest));
            }
            let replica = Replica {
                name: pod.metadata.name.clone().unwrap_or_default(),
                uid: pod.metadata.uid.clone().unwrap_or_default(),
                revision: revision_of(pod).unwrap_or_default().to_owned(),
                updated: revision_of(pod) == Some(revision),
                ready: availability != Availability::No && !ending,
                available: availability == Availability::Yes && !ending,
                ending,
                finished: pod::is_finished(pod),
            };
            observed.pods.insert(ordinal, replica);
        }
        observed
    }
}

impl Replica {
    fn delete(&self) -> Action {
        Action::Delete { name: self.name.clone(), uid: self.uid.clone() }
    }

    /// Whether everything that waits for this pod may go on.
    fn is_healthy(&self) -> bool {
        self.available && !self.ending && !self.finished
    }
}

pub(super) fn plan(set: &StatefulSet, observed: &Observed) -> Vec<Action> {
    let Some(spec) = &set.spec else { return Vec::new() };
    if is_deleting(&set.metadata) {
        return Vec::new();
    }
    let in_order = spec.pod_management_policy.as_deref() != Some("Parallel");
    let first = super::first(set);
    let end = first + spec.replicas.unwrap_or(1).max(0);
    let strategy = spec.update_strategy.as_ref();
    let on_delete = strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete");
    let partition = super::partition(set);
    let outdated =
        |ordinal: i32, pod: &Replica| !on_delete && ordinal >= partition && !pod.updated && !pod.ending;

    let mut actions = Vec::new();
    for ordinal in first..end {
        let action = match observed.pods.get(&ordinal) {
            None => Some(Action::Create(ordinal)),
            Some(pod) if pod.ending => None,
            Some(pod) if pod.finished => Some(pod.delete()),
            Some(pod) if pod.is_healthy() => continue,
            // A pod that never became healthy must not keep the template that would mend it from arriving.
            Some(pod) if outdated(ordinal, pod) => Some(pod.delete()),
            Some(_) => None,
        };
        actions.extend(action);
        if in_order {
            return actions;
        }
    }

    let surplus = observed.pods.iter().rev().filter(|(ordinal, _)| !(first..end).contains(*ordinal));
    for (_, pod) in surplus {
        if !pod.ending {
            actions.push(pod.delete());
        }
        if in_order {
            return actions;
        }
    }

    // From the end, and no more than may be missing at once. Those that are not well are missing already.
    let missing = observed.pods.values().filter(|pod| !pod.is_healthy()).count();
    if actions.is_empty() {
        let room = super::max_unavailable(set).saturating_sub(missing);
        let outdated = observed.pods.iter().rev().filter(|(ordinal, pod)| outdated(**ordinal, pod));
        actions.extend(outdated.take(room).map(|(_, pod)| pod.delete()));
    }
    actions
}
