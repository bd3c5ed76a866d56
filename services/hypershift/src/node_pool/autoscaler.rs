//! How many workers a pool should have that follows the load.
//!
//! One more for every node that the pods would fill which wait for want of room; one fewer when a node has done nothing but run what runs on
//! every node for a while. Never beyond the bounds, and only while all that were asked for are there: what comes may be enough.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use pilothouse_cel::Quantity;

#[cfg(test)]
mod tests;

/// The bounds of a pool, and how patient it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    pub(super) least: usize,
    pub(super) most: usize,
    /// How long a node has to be of no use before it goes; never, if nothing is said.
    pub(super) unneeded: Option<Duration>,
}

/// Room on a node, or what a pod takes of it, in thousandths of a processor and of a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    pub(super) processor: i128,
    pub(super) memory: i128,
    pub(super) pods: i128,
}

/// What is known of a pool's load.
#[derive(Clone, Debug, Default)]
pub(super) struct Load {
    /// What pods take that wait for want of room.
    pub(super) waiting: Vec<Room>,
    /// What an empty node has.
    pub(super) node: Room,
    /// Since when nodes have had nothing to do, by name.
    pub(super) idle: BTreeMap<String, Timestamp>,
    /// All workers that were asked for are there.
    pub(super) settled: bool,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Nothing, until then if nothing happens.
    Keep(Option<Duration>),
    /// So many there should be.
    Grow(usize),
    /// This one is not needed.
    Shrink(String),
}

// === impl Bounds ===

impl Bounds {
    /// What follows from a load, for a pool that has this many.
    pub(super) fn decide(&self, current: usize, load: &Load, now: Timestamp) -> Decision {
        let inside = current.clamp(self.least, self.most.max(self.least));
        if inside != current {
            return Decision::Grow(inside);
        }
        if !load.settled {
            return Decision::Keep(None);
        }
        let grown = (current + needed(&load.waiting, load.node)).min(self.most);
        if grown > current {
            return Decision::Grow(grown);
        }
        let Some(patience) = self.unneeded.filter(|_| current > self.least && load.waiting.is_empty()) else {
            return Decision::Keep(None);
        };
        let waits = load.idle.iter().map(|(name, since)| {
            let idle = Duration::try_from(now.duration_since(*since)).unwrap_or_default();
            (patience.saturating_sub(idle), name)
        });
        match waits.min() {
            Some((wait, name)) if wait.is_zero() => Decision::Shrink(name.clone()),
            Some((wait, _)) => Decision::Keep(Some(wait)),
            None => Decision::Keep(None),
        }
    }
}

// === impl Room ===

impl Room {
    /// What a node offers.
    pub(super) fn of_node(node: &Node) -> Self {
        let offered = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        let amount =
            |name: &str| offered.and_then(|offered| thousandths(&offered.get(name)?.0)).unwrap_or_default();
        Self { processor: amount("cpu"), memory: amount("memory"), pods: amount("pods") }
    }

    /// What a pod asks for.
    pub(super) fn of_pod(pod: &Pod) -> Self {
        let mut room = Self { pods: 1000, ..Self::default() };
        for container in pod.spec.iter().flat_map(|spec| &spec.containers) {
            let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
            let amount = |name: &str| {
                requests.and_then(|requests| thousandths(&requests.get(name)?.0)).unwrap_or_default()
            };
            room.processor += amount("cpu");
            room.memory += amount("memory");
        }
        room
    }

    fn holds(self, other: Self) -> bool {
        self.processor >= other.processor && self.memory >= other.memory && self.pods >= other.pods
    }

    fn without(self, other: Self) -> Self {
        Self {
            processor: self.processor - other.processor,
            memory: self.memory - other.memory,
            pods: self.pods - other.pods,
        }
    }
}

/// How many nodes these pods would fill. Those that no node holds are left out: more nodes do not help them.
fn needed(waiting: &[Room], node: Room) -> usize {
    let mut filled: Vec<Room> = Vec::new();
    for pod in waiting.iter().filter(|pod| node.holds(**pod)) {
        match filled.iter_mut().find(|room| room.holds(*pod)) {
            Some(room) => *room = room.without(*pod),
            None => filled.push(node.without(*pod)),
        }
    }
    filled.len()
}

/// Whether a pod waits because no node has room for it.
pub(super) fn waits_for_room(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let placed = conditions.into_iter().find(|condition| condition.type_ == "PodScheduled");
    pod.metadata.deletion_timestamp.is_none()
        && placed.is_some_and(|placed| {
            let said = placed.message.as_deref().unwrap_or_default();
            placed.status == "False" && (said.contains("Insufficient") || said.contains("Too many pods"))
        })
}

/// Whether a pod is a reason to keep its node.
pub(super) fn needs_its_node(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let everywhere = pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet");
    !everywhere && !matches!(phase, Some("Succeeded" | "Failed"))
}

pub(super) fn thousandths(amount: &str) -> Option<i128> {
    Quantity::parse(amount).ok().map(Quantity::thousandths)
}
