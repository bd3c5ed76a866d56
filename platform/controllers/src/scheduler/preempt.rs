//! Making room for a pod that is more important than others.
//!
//! On each node that would take the pod if others went, all less important pods are taken away in thought, and then given back
//! one by one while the pod still fits, the most important first. What cannot be given back are the victims. Pods whose
//! disruption budget is used up are given back before all others, and a node where none of them has to go is
//! preferred; but a budget does not stop an important pod.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use pilothouse_informer::ObjectKey;

use super::filter::Attempt;
use super::state::{Candidate, Occupant, State};
use super::topology::{self, Namespaces, Topology};
use super::volumes::Volumes;
use crate::ownership::is_deleting;

/// How many nodes are tried: there may be thousands, and any good one will do.
const TRIED: usize = 100;

/// Where room is made, and who has to go.
#[derive(Debug)]
pub(super) struct Preemption {
    pub(super) node: String,
    pub(super) victims: Vec<(ObjectKey, Arc<Occupant>)>,
}

/// How bad it is; less is better.
type Cost = (usize, i32, i64, usize, Reverse<Option<Timestamp>>);

/// Why a pod may not push others away.
pub(super) fn refusal(pod: &Occupant, state: &State) -> Option<&'static str> {
    let spec = pod.pod.spec.as_ref();
    if spec.and_then(|spec| spec.preemption_policy.as_deref()) == Some("Never") {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let nominated = pod.pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref());
    let node = nominated.filter(|node| !node.is_empty())?;
    let mut there = state.pods_on(node).map(|(_, other)| other);
    there
        .any(|other| other.priority < pod.priority && is_deleting(&other.pod.metadata))
        .then_some("not eligible due to a terminating pod on the nominated node.")
}

pub(super) fn plan(
    pod: &Occupant,
    candidates: &[Candidate],
    resolvable: &[String],
    state: &State,
    volumes: &Volumes,
    budgets: &[Arc<PodDisruptionBudget>],
    namespaces: Namespaces<'_>,
) -> Option<Preemption> {
    let lower =
        state.loads.values().flat_map(|load| load.pods.values()).any(|other| other.priority < pod.priority);
    if !lower {
        return None;
    }
    let mut state = state.clone();
    let mut best: Option<(Cost, Preemption)> = None;
    let tried = candidates.iter().filter(|candidate| resolvable.iter().any(|name| name == candidate.name()));
    for candidate in tried.take(TRIED) {
        let found = on_node(pod, candidate, candidates, &mut state, volumes, budgets, namespaces);
        if let Some((cost, preemption)) = found
            && best.as_ref().is_none_or(|(least, _)| cost < *least)
        {
            best = Some((cost, preemption));
        }
    }
    best.map(|(_, preemption)| preemption)
}

fn on_node(
    pod: &Occupant,
    candidate: &Candidate,
    candidates: &[Candidate],
    state: &mut State,
    volumes: &Volumes,
    budgets: &[Arc<PodDisruptionBudget>],
    namespaces: Namespaces<'_>,
) -> Option<(Cost, Preemption)> {
    let fits = |state: &State| {
        let topology = Topology::of(pod, candidates, state, namespaces);
        Attempt { pod, topology: &topology, volumes, state }.obstacles(candidate).is_empty()
    };
    let lower: Vec<_> = state
        .pods_on(candidate.name())
        .filter(|(_, other)| other.priority < pod.priority)
        .map(|(key, other)| (key.clone(), other.clone()))
        .collect();
    if lower.is_empty() {
        return None;
    }
    lower.iter().for_each(|(key, _)| {
        state.leave(key);
    });
    let mut outcome = None;
    if fits(state) {
        let mut order = lower.clone();
        // The most important, and of equals those that have been there longest, come back first.
        order.sort_by_cached_key(|(key, other)| (Reverse(other.priority), started(other), key.clone()));
        let violates = over_budget(&order, budgets);
        order.sort_by_key(|(key, _)| !violates.contains(key));
        let mut victims = Vec::new();
        for (key, other) in order {
            state.place(&key, candidate.name(), &other);
            if !fits(state) {
                state.leave(&key);
                victims.push((key, other));
            }
        }
        if !victims.is_empty() {
            let violations = victims.iter().filter(|(key, _)| violates.contains(key)).count();
            let highest = victims.iter().map(|(_, other)| other.priority).max().unwrap_or(i32::MIN);
            let sum = victims.iter().map(|(_, other)| i64::from(other.priority)).sum();
            let important = victims.iter().filter(|(_, other)| other.priority == highest);
            let earliest = important.filter_map(|(_, other)| started(other)).min();
            let cost = (violations, highest, sum, victims.len(), Reverse(earliest));
            outcome = Some((cost, Preemption { node: candidate.name().to_owned(), victims }));
        }
    }
    lower.iter().for_each(|(key, other)| {
        state.place(key, candidate.name(), other);
    });
    outcome
}

fn started(occupant: &Occupant) -> Option<Timestamp> {
    let status = occupant.pod.status.as_ref();
    status.and_then(|status| status.start_time.as_ref()).map(|time| time.0)
}

/// Pods whose going a budget does not allow any more, when they go in this order.
fn over_budget(pods: &[(ObjectKey, Arc<Occupant>)], budgets: &[Arc<PodDisruptionBudget>]) -> Vec<ObjectKey> {
    let mut left: HashMap<ObjectKey, i32> = budgets
        .iter()
        .map(|budget| {
            (ObjectKey::of(&**budget), budget.status.as_ref().map_or(0, |status| status.disruptions_allowed))
        })
        .collect();
    let mut over = Vec::new();
    for (key, other) in pods {
        let mut violates = false;
        for budget in budgets.iter().filter(|budget| budget.metadata.namespace == key.namespace) {
            let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            if topology::selects(selector, other.pod.metadata.labels.as_ref()) {
                let allowed = left.entry(ObjectKey::of(&**budget)).or_default();
                *allowed -= 1;
                violates |= *allowed < 0;
            }
        }
        if violates {
            over.push(key.clone());
        }
    }
    over
}
