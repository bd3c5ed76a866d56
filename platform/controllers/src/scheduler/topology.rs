//! Pods that want to be near others, or far from them, or evenly spread.
//!
//! What matters is how many matching pods there are in each topology domain, a label's value on nodes. The counts
//! are taken once per attempt; each node is then judged by its own labels.

use std::collections::{BTreeMap, HashMap, HashSet};

use k8s_openapi::api::core::v1::{Pod, PodAffinityTerm, PodSpec, TopologySpreadConstraint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};

use super::filter::Obstacle;
use super::state::{Candidate, Occupant, State};
use crate::ownership::{controller_of, is_deleting};
use crate::placement;

type Labels = BTreeMap<String, String>;
type Domain = (String, String);

/// The labels of namespaces, by name.
pub(super) type Namespaces<'a> = &'a dyn Fn(&str) -> Option<Labels>;

/// What the pods that are there mean for one that is to come.
#[derive(Debug, Default)]
pub(super) struct Topology {
    attracted: Vec<PodAffinityTerm>,
    /// How many pods that meet all of these terms there are in each domain.
    attracting: HashMap<Domain, i64>,
    /// Whether the pod would meet its own terms, so that it may be the first.
    meets_itself: bool,
    repelled: HashSet<Domain>,
    /// Domains that pods which are there want for themselves.
    defended: HashSet<Domain>,
    spreads: Vec<Spread>,
    /// How welcome the pod is in each domain.
    welcome: HashMap<Domain, i64>,
    /// Pods of the same owner, by node.
    siblings: HashMap<String, i64>,
}

#[derive(Debug)]
struct Spread {
    constraint: TopologySpreadConstraint,
    matches_itself: bool,
    counts: BTreeMap<String, i64>,
}

pub(super) fn selects(selector: Option<&LabelSelector>, labels: Option<&Labels>) -> bool {
    let none = Labels::new();
    let Some(selector) = selector.and_then(|selector| Selector::try_from(selector.clone()).ok()) else {
        return false;
    };
    selector.matches(labels.unwrap_or(&none))
}

/// Whether a term of `owner` means `pod`.
fn means(term: &PodAffinityTerm, owner: &Pod, pod: &Pod, namespaces: Namespaces<'_>) -> bool {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let listed = term.namespaces.as_deref().unwrap_or_default();
    let in_namespace = match &term.namespace_selector {
        None if listed.is_empty() => owner.metadata.namespace.as_deref().unwrap_or_default() == namespace,
        None => listed.iter().any(|name| name == namespace),
        Some(selector) => {
            listed.iter().any(|name| name == namespace)
                || selects(Some(selector), namespaces(namespace).as_ref())
        }
    };
    let value =
        |pod: &Pod, key: &String| pod.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
    let same = |key: &String| value(owner, key).is_none() || value(owner, key) == value(pod, key);
    let other = |key: &String| value(owner, key).is_none() || value(owner, key) != value(pod, key);
    in_namespace
        && selects(term.label_selector.as_ref(), pod.metadata.labels.as_ref())
        && term.match_label_keys.iter().flatten().all(same)
        && term.mismatch_label_keys.iter().flatten().all(other)
}

fn terms(spec: &PodSpec) -> (Vec<PodAffinityTerm>, Vec<PodAffinityTerm>) {
    let affinity = spec.affinity.as_ref();
    let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let far = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let near = near.and_then(|near| near.required_during_scheduling_ignored_during_execution.clone());
    let far = far.and_then(|far| far.required_during_scheduling_ignored_during_execution.clone());
    (near.unwrap_or_default(), far.unwrap_or_default())
}

/// Terms that would be nice to meet, with their weight: negative where distance is.
fn wishes(spec: &PodSpec) -> Vec<(i64, PodAffinityTerm)> {
    let affinity = spec.affinity.as_ref();
    let near = affinity.and_then(|affinity| affinity.pod_affinity.as_ref());
    let near = near.and_then(|near| near.preferred_during_scheduling_ignored_during_execution.as_deref());
    let far = affinity.and_then(|affinity| affinity.pod_anti_affinity.as_ref());
    let far = far.and_then(|far| far.preferred_during_scheduling_ignored_during_execution.as_deref());
    let near =
        near.unwrap_or_default().iter().map(|wish| (i64::from(wish.weight), wish.pod_affinity_term.clone()));
    let far =
        far.unwrap_or_default().iter().map(|wish| (-i64::from(wish.weight), wish.pod_affinity_term.clone()));
    near.chain(far).collect()
}

impl Topology {
    pub(super) fn of(
        coming: &Occupant,
        candidates: &[Candidate],
        state: &State,
        namespaces: Namespaces<'_>,
    ) -> Self {
        let pod = &*coming.pod;
        let spec = pod.spec.clone().unwrap_or_default();
        let (attracted, repelling) = terms(&spec);
        let wishes = wishes(&spec);
        let meets_itself = attracted.iter().all(|term| means(term, pod, pod, namespaces));
        let mut topology = Self { attracted, meets_itself, ..Self::default() };
        let looks_at_all = !topology.attracted.is_empty() || !repelling.is_empty() || !wishes.is_empty();
        let owner = controller_of(&pod.metadata).map(|owner| owner.uid.clone());
        for candidate in candidates {
            let domain = |key: &str| candidate.label(key).map(|value| (key.to_owned(), value.to_owned()));
            if let Some(owner) = &owner {
                let is_sibling = |other: &Occupant| {
                    controller_of(&other.pod.metadata).is_some_and(|reference| reference.uid == *owner)
                        && !is_deleting(&other.pod.metadata)
                };
                let count = state.pods_on(candidate.name()).filter(|(_, other)| is_sibling(other)).count();
                topology
                    .siblings
                    .insert(candidate.name().to_owned(), i64::try_from(count).unwrap_or(i64::MAX));
            }
            if !looks_at_all {
                continue;
            }
            for (_, other) in state.pods_on(candidate.name()) {
                let near = &topology.attracted;
                if !near.is_empty() && near.iter().all(|term| means(term, pod, &other.pod, namespaces)) {
                    let domains: Vec<_> = near.iter().filter_map(|term| domain(&term.topology_key)).collect();
                    domains
                        .into_iter()
                        .for_each(|domain| *topology.attracting.entry(domain).or_default() += 1);
                }
                for term in repelling.iter().filter(|term| means(term, pod, &other.pod, namespaces)) {
                    topology.repelled.extend(domain(&term.topology_key));
                }
                for (weight, term) in &wishes {
                    if means(term, pod, &other.pod, namespaces)
                        && let Some(domain) = domain(&term.topology_key)
                    {
                        *topology.welcome.entry(domain).or_default() += weight;
                    }
                }
            }
        }
        topology.listen_to_others(pod, candidates, state, namespaces);
        topology.count_spreads(pod, &spec, candidates, state);
        topology
    }

    /// What pods that are there want of one that comes.
    fn listen_to_others(
        &mut self,
        pod: &Pod,
        candidates: &[Candidate],
        state: &State,
        namespaces: Namespaces<'_>,
    ) {
        if state.repelling.is_empty() {
            return;
        }
        let by_name: HashMap<&str, &Candidate> =
            candidates.iter().map(|candidate| (candidate.name(), candidate)).collect();
        for key in &state.repelling {
            let (Some(other), Some(candidate)) =
                (state.occupant(key), state.node_of(key).and_then(|node| by_name.get(node)))
            else {
                continue;
            };
            let Some(spec) = &other.pod.spec else { continue };
            let domain = |key: &str| candidate.label(key).map(|value| (key.to_owned(), value.to_owned()));
            let (_, repelling) = terms(spec);
            for term in repelling.iter().filter(|term| means(term, &other.pod, pod, namespaces)) {
                self.defended.extend(domain(&term.topology_key));
            }
            for (weight, term) in &wishes(spec) {
                if means(term, &other.pod, pod, namespaces)
                    && let Some(domain) = domain(&term.topology_key)
                {
                    *self.welcome.entry(domain).or_default() += weight;
                }
            }
        }
    }

    fn count_spreads(&mut self, pod: &Pod, spec: &PodSpec, candidates: &[Candidate], state: &State) {
        let constraints = spec.topology_spread_constraints.clone().unwrap_or_default();
        let keys: Vec<_> = constraints
            .iter()
            .filter(|constraint| is_hard(constraint))
            .map(|constraint| constraint.topology_key.clone())
            .collect();
        for constraint in constraints {
            let mut counts = BTreeMap::new();
            let honours =
                |policy: Option<&str>, usual: bool| policy.map_or(usual, |policy| policy == "Honor");
            let affinity = honours(constraint.node_affinity_policy.as_deref(), true);
            let taints = honours(constraint.node_taints_policy.as_deref(), false);
            let tolerations = spec.tolerations.as_deref().unwrap_or_default();
            for candidate in candidates {
                let Some(value) = candidate.label(&constraint.topology_key) else { continue };
                let effects = ["NoSchedule", "NoExecute"];
                let tainted = || {
                    placement::untolerated(placement::taints(&candidate.node), tolerations, &effects)
                        .is_some()
                };
                let complete = !is_hard(&constraint) || keys.iter().all(|key| candidate.label(key).is_some());
                if !complete
                    || (affinity && !placement::is_wanted(spec, &candidate.node))
                    || (taints && tainted())
                {
                    continue;
                }
                let matching = state
                    .pods_on(candidate.name())
                    .filter(|(_, other)| {
                        !is_deleting(&other.pod.metadata) && counts_for(&constraint, pod, &other.pod)
                    })
                    .count();
                *counts.entry(value.to_owned()).or_insert(0) += i64::try_from(matching).unwrap_or(i64::MAX);
            }
            let matches_itself = counts_for(&constraint, pod, pod);
            self.spreads.push(Spread { constraint, matches_itself, counts });
        }
    }

    /// What keeps the pod away from this node, as far as other pods go.
    pub(super) fn obstacle(&self, candidate: &Candidate) -> Option<Obstacle> {
        for spread in self.spreads.iter().filter(|spread| is_hard(&spread.constraint)) {
            let Some(value) = candidate.label(&spread.constraint.topology_key) else {
                return Some(Obstacle::SpreadLabel);
            };
            let domains = i64::try_from(spread.counts.len()).unwrap_or(i64::MAX);
            let too_few = domains < i64::from(spread.constraint.min_domains.unwrap_or(1));
            let least = if too_few { 0 } else { spread.counts.values().min().copied().unwrap_or(0) };
            let there = spread.counts.get(value).copied().unwrap_or(0) + i64::from(spread.matches_itself);
            if there - least > i64::from(spread.constraint.max_skew) {
                return Some(Obstacle::Spread);
            }
        }
        let domain = |term: &PodAffinityTerm| {
            candidate.label(&term.topology_key).map(|value| (term.topology_key.clone(), value.to_owned()))
        };
        let domains: Option<Vec<_>> = self.attracted.iter().map(domain).collect();
        match domains {
            None => return Some(Obstacle::Affinity),
            Some(domains) => {
                let met = domains.iter().all(|domain| self.attracting.contains_key(domain));
                // The first of a group that wants to be together has nobody to be near to.
                let is_first = self.attracting.is_empty() && self.meets_itself;
                if !met && !is_first {
                    return Some(Obstacle::Affinity);
                }
            }
        }
        let labels = candidate.node.metadata.labels.as_ref();
        let has = |domains: &HashSet<Domain>| {
            domains.iter().any(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
        };
        if has(&self.repelled) {
            return Some(Obstacle::AntiAffinity);
        }
        has(&self.defended).then_some(Obstacle::Defended)
    }

    /// How welcome the pod is on the node, and how many it would join there that it should be spread from.
    pub(super) fn score(&self, candidate: &Candidate) -> (i64, i64) {
        let labels = candidate.node.metadata.labels.iter().flatten();
        let welcome = labels.filter_map(|(key, value)| self.welcome.get(&(key.clone(), value.clone()))).sum();
        let mut crowd = self.siblings.get(candidate.name()).copied().unwrap_or(0);
        for spread in self.spreads.iter().filter(|spread| !is_hard(&spread.constraint)) {
            let value = candidate.label(&spread.constraint.topology_key);
            crowd += value.and_then(|value| spread.counts.get(value)).copied().unwrap_or(0);
        }
        (welcome, crowd)
    }
}

fn is_hard(constraint: &TopologySpreadConstraint) -> bool {
    constraint.when_unsatisfiable == "DoNotSchedule"
}

fn counts_for(constraint: &TopologySpreadConstraint, owner: &Pod, pod: &Pod) -> bool {
    let value =
        |pod: &Pod, key: &String| pod.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned();
    let same = |key: &String| value(owner, key).is_none() || value(owner, key) == value(pod, key);
    owner.metadata.namespace == pod.metadata.namespace
        && selects(constraint.label_selector.as_ref(), pod.metadata.labels.as_ref())
        && constraint.match_label_keys.iter().flatten().all(same)
}
