//! What is where: the pods of every node, and what they take.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use pilothouse_informer::ObjectKey;
use tokio::time::Instant;

use super::resources::{self, Amounts};
use crate::pod;

/// A port of the node that a pod takes for itself: address, protocol, number.
pub(super) type HostPort = (String, String, i32);

/// What the passes and the watches share.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// Which node each pod is on, or was sent to a moment ago.
    placed: HashMap<ObjectKey, String>,
    pub(super) loads: HashMap<String, Load>,
    /// Pods on nodes that keep others away.
    pub(super) repelling: HashSet<ObjectKey>,
    /// Pods for which room is being made, with the node.
    pub(super) nominated: HashMap<ObjectKey, (String, Arc<Occupant>)>,
    /// Pods for which there was no node.
    pub(super) waiting: HashMap<ObjectKey, Waiting>,
}

/// The pods of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Load {
    pub(super) pods: BTreeMap<ObjectKey, Arc<Occupant>>,
    pub(super) used: Amounts,
}

/// A pod and what it takes.
#[derive(Debug)]
pub(super) struct Occupant {
    pub(super) pod: Arc<Pod>,
    pub(super) requests: Amounts,
    pub(super) ports: Vec<HostPort>,
    pub(super) priority: i32,
}

/// A pod that has no node yet.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    /// What could change that.
    pub(super) wakes: Wakes,
    /// How often no node took it. None while its claims stand in the way.
    pub(super) attempts: u32,
    pub(super) since: Instant,
    pub(super) priority: i32,
}

/// Which events may make a pod fit. Nodes always may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wakes {
    /// A pod that leaves its node.
    pub(super) pod_gone: bool,
    /// A pod that comes to a node.
    pub(super) pod_placed: bool,
    /// A claim or volume that changes.
    pub(super) volume: bool,
}

/// One node as the scheduler sees it.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) node: Arc<Node>,
    pub(super) allocatable: Arc<Amounts>,
}

// === impl Candidate ===

impl Candidate {
    pub(super) fn new(node: Arc<Node>) -> Self {
        let allocatable = Arc::new(resources::allocatable(&node));
        Self { node, allocatable }
    }

    pub(super) fn name(&self) -> &str {
        self.node.metadata.name.as_deref().unwrap_or_default()
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        self.node.metadata.labels.as_ref()?.get(key).map(String::as_str)
    }
}

// === impl Occupant ===

impl Occupant {
    pub(super) fn of(pod: Arc<Pod>) -> Self {
        let none = PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&none);
        let on_host = spec.host_network.unwrap_or(false);
        let ports = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let ports = ports.flat_map(|container| container.ports.iter().flatten()).filter_map(|port| {
            let number = port.host_port.or_else(|| on_host.then_some(port.container_port));
            let address = port.host_ip.clone().filter(|address| !address.is_empty());
            number.filter(|number| *number > 0).map(|number| {
                let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
                (address.unwrap_or_else(|| "0.0.0.0".to_owned()), protocol, number)
            })
        });
        let ports = ports.collect();
        let (requests, priority) = (resources::requests(spec), spec.priority.unwrap_or(0));
        Self { requests, ports, priority, pod }
    }

    /// Whether both want the same port.
    pub(super) fn clashes(&self, other: &Self) -> bool {
        self.ports.iter().any(|(address, protocol, number)| {
            other.ports.iter().any(|(other_address, other_protocol, other_number)| {
                let meet = address == other_address || address == "0.0.0.0" || other_address == "0.0.0.0";
                meet && protocol == other_protocol && number == other_number
            })
        })
    }

    fn repels(&self) -> bool {
        let affinity = self.pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref());
        affinity
            .is_some_and(|affinity| affinity.pod_anti_affinity.is_some() || affinity.pod_affinity.is_some())
    }
}

// === impl State ===

impl State {
    /// Answers whether it was not there before.
    pub(super) fn place(&mut self, pod: &ObjectKey, node: &str, occupant: &Arc<Occupant>) -> bool {
        let known = self.placed.get(pod).is_some_and(|before| before == node);
        self.leave(pod);
        let load = self.loads.entry(node.to_owned()).or_default();
        resources::add(&mut load.used, &occupant.requests);
        load.pods.insert(pod.clone(), occupant.clone());
        if occupant.repels() {
            self.repelling.insert(pod.clone());
        }
        self.placed.insert(pod.clone(), node.to_owned());
        self.nominated.remove(pod);
        !known
    }

    /// Answers whether it had a place.
    pub(super) fn leave(&mut self, pod: &ObjectKey) -> bool {
        self.nominated.remove(pod);
        self.forget(pod)
    }

    /// The same, for a pod that may still be promised a place elsewhere.
    pub(super) fn forget(&mut self, pod: &ObjectKey) -> bool {
        self.repelling.remove(pod);
        let Some(node) = self.placed.remove(pod) else { return false };
        if let Some(load) = self.loads.get_mut(&node) {
            if let Some(occupant) = load.pods.remove(pod) {
                resources::subtract(&mut load.used, &occupant.requests);
            }
            if load.pods.is_empty() {
                self.loads.remove(&node);
            }
        }
        true
    }

    pub(super) fn pods_on(&self, node: &str) -> impl Iterator<Item = (&ObjectKey, &Arc<Occupant>)> {
        self.loads.get(node).into_iter().flat_map(|load| &load.pods)
    }

    pub(super) fn node_of(&self, pod: &ObjectKey) -> Option<&str> {
        self.placed.get(pod).map(String::as_str)
    }

    pub(super) fn occupant(&self, pod: &ObjectKey) -> Option<&Arc<Occupant>> {
        self.loads.get(self.placed.get(pod)?)?.pods.get(pod)
    }

    /// Waiting pods that such an event concerns: the most important first, and of those the one that was tried
    /// longest ago.
    pub(super) fn concerned(&self, concerns: impl Fn(&Wakes) -> bool) -> Vec<ObjectKey> {
        let mut concerned: Vec<_> =
            self.waiting.iter().filter(|(_, waiting)| concerns(&waiting.wakes)).collect();
        concerned.sort_by_key(|(key, waiting)| (Reverse(waiting.priority), waiting.since, (*key).clone()));
        concerned.into_iter().map(|(key, _)| key.clone()).collect()
    }
}

/// Whether it still takes room.
pub(super) fn occupies(pod: &Pod) -> bool {
    !pod::is_finished(pod)
}
