//! Which nodes take a pod, which of them is best, and what to say when there is none.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use k8s_openapi::api::core::v1::{Node, PodSpec, Taint};

use super::resources::Amounts;
use super::state::{Candidate, Occupant, State, Wakes};
use super::topology::Topology;
use super::volumes::Volumes;
use crate::node_lifecycle::NOT_READY;
use crate::ownership::is_deleting;
use crate::placement;

/// Why a node does not take a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Obstacle {
    Unschedulable,
    Taint(String),
    Selector,
    Ports,
    Insufficient(String),
    TooManyPods,
    VolumeNode,
    Affinity,
    AntiAffinity,
    Defended,
    Spread,
    SpreadLabel,
}

/// A pod that is to be placed, and all that is known for that.
pub(super) struct Attempt<'a> {
    pub(super) pod: &'a Occupant,
    pub(super) topology: &'a Topology,
    pub(super) volumes: &'a Volumes,
    pub(super) state: &'a State,
}

/// No node takes the pod: what was in the way, on how many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Nowhere {
    pub(super) nodes: usize,
    pub(super) obstacles: BTreeMap<Obstacle, usize>,
    /// Nodes that would take it if other pods went.
    pub(super) resolvable: Vec<String>,
    /// Why the pod cannot be placed on any node at all.
    pub(super) why: Option<String>,
}

// === impl Obstacle ===

impl Obstacle {
    /// Whether other pods are in the way.
    fn is_resolvable(&self) -> bool {
        match self {
            Self::Ports | Self::Insufficient(_) | Self::TooManyPods => true,
            Self::AntiAffinity | Self::Defended | Self::Spread => true,
            Self::Unschedulable | Self::Taint(_) | Self::Selector => false,
            Self::VolumeNode | Self::Affinity | Self::SpreadLabel => false,
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Unschedulable => "node(s) were unschedulable",
            Self::Taint(taint) => return write!(formatter, "node(s) had untolerated taint {{{taint}}}"),
            Self::Selector => "node(s) didn't match Pod's node affinity/selector",
            Self::Ports => "node(s) didn't have free ports for the requested pod ports",
            Self::Insufficient(resource) => return write!(formatter, "Insufficient {resource}"),
            Self::TooManyPods => "Too many pods",
            Self::VolumeNode => "node(s) didn't match PersistentVolume's node affinity",
            Self::Affinity => "node(s) didn't match pod affinity rules",
            Self::AntiAffinity => "node(s) didn't match pod anti-affinity rules",
            Self::Defended => "node(s) didn't satisfy existing pods anti-affinity rules",
            Self::Spread => "node(s) didn't match pod topology spread constraints",
            Self::SpreadLabel => {
                "node(s) didn't match pod topology spread constraints (missing required label)"
            }
        })
    }
}

// === impl Attempt ===

impl Attempt<'_> {
    /// The best node that takes the pod, or why there is none.
    pub(super) fn choose(&self, candidates: &[Candidate]) -> Result<String, Nowhere> {
        let mut nowhere = Nowhere { nodes: candidates.len(), ..Nowhere::default() };
        let mut fitting = Vec::new();
        for candidate in candidates {
            let obstacles = self.obstacles(candidate);
            if obstacles.is_empty() {
                fitting.push(candidate);
                continue;
            }
            if obstacles.iter().all(Obstacle::is_resolvable) {
                nowhere.resolvable.push(candidate.name().to_owned());
            }
            obstacles.into_iter().for_each(|obstacle| *nowhere.obstacles.entry(obstacle).or_default() += 1);
        }
        if fitting.is_empty() {
            return Err(nowhere);
        }
        // A node on which room was made for the pod comes first.
        let nominated = self.pod.pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref());
        if let Some(node) = fitting.iter().find(|candidate| nominated == Some(candidate.name())) {
            return Ok(node.name().to_owned());
        }
        Ok(self.best(&fitting).to_owned())
    }

    /// What is in the way of the pod on this node. The checks that need no other pod end the list.
    pub(super) fn obstacles(&self, candidate: &Candidate) -> Vec<Obstacle> {
        if let Some(obstacle) = self.of_node(candidate) {
            return vec![obstacle];
        }
        let mut obstacles = Vec::new();
        let mut others = self.state.pods_on(candidate.name()).map(|(_, other)| other);
        if !self.pod.ports.is_empty() && others.any(|other| other.clashes(self.pod)) {
            obstacles.push(Obstacle::Ports);
        }
        self.lacking(candidate, &mut obstacles);
        if obstacles.is_empty() {
            obstacles.extend(self.topology.obstacle(candidate));
        }
        obstacles
    }

    fn of_node(&self, candidate: &Candidate) -> Option<Obstacle> {
        let none = PodSpec::default();
        let spec = self.pod.pod.spec.as_ref().unwrap_or(&none);
        let node = &*candidate.node;
        let tolerations = spec.tolerations.as_deref().unwrap_or_default();
        let is_tolerated =
            |taint: &Taint| tolerations.iter().any(|toleration| placement::tolerates(toleration, taint));
        if node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false)
            && !is_tolerated(&implied("node.kubernetes.io/unschedulable"))
        {
            return Some(Obstacle::Unschedulable);
        }
        let effects = ["NoSchedule", "NoExecute"];
        let taint = placement::untolerated(placement::taints(node), tolerations, &effects);
        // The taint follows the condition, and a node that is going takes nobody.
        let not_ready = implied(NOT_READY);
        let unready = !is_ready(node) && !is_tolerated(&not_ready);
        let taint = taint.or_else(|| (unready || is_deleting(&node.metadata)).then_some(&not_ready));
        if let Some(taint) = taint {
            let value = taint.value.as_deref().unwrap_or_default();
            return Some(Obstacle::Taint(format!("{}: {value}", taint.key)));
        }
        if !placement::is_wanted(spec, node) {
            return Some(Obstacle::Selector);
        }
        (!self.volumes.reach(node)).then_some(Obstacle::VolumeNode)
    }

    /// What the node has too little of, with what is on it and what is promised there to pods that are no less important.
    fn lacking(&self, candidate: &Candidate, obstacles: &mut Vec<Obstacle>) {
        let load = self.state.loads.get(candidate.name());
        let own = self.pod.pod.metadata.uid.as_deref();
        let promised: Vec<_> = self
            .state
            .nominated
            .values()
            .filter(|(node, other)| {
                node == candidate.name()
                    && other.priority >= self.pod.priority
                    && other.pod.metadata.uid.as_deref() != own
            })
            .collect();
        let pods = load.map_or(0, |load| load.pods.len()) + promised.len() + 1;
        let most = candidate.allocatable.get("pods").copied().unwrap_or(0);
        if i128::try_from(pods).unwrap_or(i128::MAX) * 1000 > most {
            obstacles.push(Obstacle::TooManyPods);
        }
        for (resource, wanted) in &self.pod.requests {
            let used = load.and_then(|load| load.used.get(resource)).copied().unwrap_or(0);
            let reserved: i128 = promised.iter().filter_map(|(_, other)| other.requests.get(resource)).sum();
            let all = candidate.allocatable.get(resource).copied().unwrap_or(0);
            if *wanted > all - used - reserved {
                obstacles.push(Obstacle::Insufficient(resource.clone()));
            }
        }
    }

    /// The node with the highest score; of equals the emptiest, and then the first by name.
    fn best<'b>(&self, fitting: &[&'b Candidate]) -> &'b str {
        let facts: Vec<_> = fitting.iter().map(|candidate| self.facts(candidate)).collect();
        let range = |value: fn(&Facts) -> i64| {
            let low = facts.iter().map(value).min().unwrap_or(0);
            let high = facts.iter().map(value).max().unwrap_or(0);
            (low, (high - low).max(1))
        };
        let normal = |value: i64, (low, width): (i64, i64)| (value - low) * 100 / width;
        let (affinity, taints) = (range(|facts| facts.affinity), range(|facts| facts.taints));
        let (welcome, crowd) = (range(|facts| facts.welcome), range(|facts| facts.crowd));
        let scored = fitting.iter().zip(&facts).map(|(candidate, facts)| {
            let score = facts.room
                + facts.balance
                + 2 * normal(facts.affinity, affinity)
                + 3 * (100 - normal(facts.taints, taints))
                + 2 * normal(facts.welcome, welcome)
                + 2 * (100 - normal(facts.crowd, crowd));
            let pods = self.state.loads.get(candidate.name()).map_or(0, |load| load.pods.len());
            (score, std::cmp::Reverse(pods), std::cmp::Reverse(candidate.name()))
        });
        scored.max().map(|(_, _, name)| name.0).unwrap_or_default()
    }

    fn facts(&self, candidate: &Candidate) -> Facts {
        let spec = self.pod.pod.spec.as_ref();
        let affinity = spec.and_then(|spec| spec.affinity.as_ref()?.node_affinity.as_ref());
        let wishes =
            affinity.and_then(|all| all.preferred_during_scheduling_ignored_during_execution.as_deref());
        let met = wishes
            .unwrap_or_default()
            .iter()
            .filter(|wish| placement::takes(&wish.preference, &candidate.node));
        let tolerations = spec.and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
        let unloved = placement::taints(&candidate.node).iter().filter(|taint| {
            taint.effect == "PreferNoSchedule"
                && !tolerations.iter().any(|toleration| placement::tolerates(toleration, taint))
        });
        let none = Amounts::new();
        let used = self.state.loads.get(candidate.name()).map_or(&none, |load| &load.used);
        let share = |resource: &str| {
            let all = candidate.allocatable.get(resource).copied().filter(|all| *all > 0)?;
            let wanted = self.pod.requests.get(resource).copied().unwrap_or(0);
            let taken = used.get(resource).copied().unwrap_or(0) + wanted;
            i64::try_from((taken * 100 / all).clamp(0, 100)).ok()
        };
        let (cpu, memory) = (share("cpu").unwrap_or(0), share("memory").unwrap_or(0));
        let (welcome, crowd) = self.topology.score(candidate);
        Facts {
            room: 100 - (cpu + memory) / 2,
            balance: 100 - (cpu - memory).abs(),
            affinity: met.map(|wish| i64::from(wish.weight)).sum(),
            taints: i64::try_from(unloved.count()).unwrap_or(i64::MAX),
            welcome,
            crowd,
        }
    }
}

/// What speaks for a node.
struct Facts {
    room: i64,
    balance: i64,
    affinity: i64,
    taints: i64,
    welcome: i64,
    crowd: i64,
}

/// The taint that stands for a condition of a node.
fn implied(key: &str) -> Taint {
    Taint { key: key.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

// === impl Nowhere ===

impl Nowhere {
    pub(super) fn because(nodes: usize, why: String) -> Self {
        Self { nodes, why: Some(why), ..Self::default() }
    }

    /// Which events could help.
    pub(super) fn wakes(&self) -> Wakes {
        let any = |pick: fn(&Obstacle) -> bool| self.obstacles.keys().any(pick);
        Wakes {
            pod_gone: any(Obstacle::is_resolvable),
            pod_placed: any(|obstacle| matches!(obstacle, Obstacle::Affinity | Obstacle::Spread)),
            volume: self.why.is_some() || any(|obstacle| *obstacle == Obstacle::VolumeNode),
        }
    }

    /// In the words that readers of `kubectl describe` know.
    pub(super) fn message(&self, preemption: Option<&str>) -> String {
        if self.nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let mut reasons: Vec<_> = match &self.why {
            Some(why) => vec![why.clone()],
            None => self.obstacles.iter().map(|(obstacle, count)| format!("{count} {obstacle}")).collect(),
        };
        reasons.sort();
        let mut message = format!("0/{} nodes are available: {}.", self.nodes, reasons.join(", "));
        // Writing to a string cannot fail.
        let _ = match preemption {
            Some(why) => write!(message, " preemption: {why}"),
            None => {
                let hopeless = self.nodes - self.resolvable.len();
                let mut reasons = Vec::new();
                if !self.resolvable.is_empty() {
                    let count = self.resolvable.len();
                    reasons.push(format!("{count} No preemption victims found for incoming pod"));
                }
                if hopeless > 0 {
                    reasons.push(format!("{hopeless} Preemption is not helpful for scheduling"));
                }
                reasons.sort();
                write!(message, " preemption: 0/{} nodes are available: {}.", self.nodes, reasons.join(", "))
            }
        };
        message
    }
}
