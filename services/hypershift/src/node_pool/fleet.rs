//! The workers of a pool, each with everything that is known of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod};
use kube::{Client, ResourceExt as _};
use pilothouse_crds::{Machine, VirtualMachine};
use pilothouse_informer::{Informer, ObjectKey};

use super::fingerprint::Fingerprint;
use super::machine::{MACHINE_NAME, UPDATING};
use super::plan::Worker;
use super::repair::Patient;
use crate::caches::Caches;
use crate::names;
use crate::pod::{is_pod_ready, pod_state};

/// The hosted cluster's side of a pool.
pub(super) struct Hosted {
    pub(super) nodes: Informer<Node>,
    pub(super) client: Client,
}

/// One worker.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) machine: Arc<Machine>,
    pub(super) virtual_machine: Option<Arc<VirtualMachine>>,
    pub(super) pod: Option<Arc<Pod>>,
    pub(super) node: Option<Arc<Node>>,
}

/// All workers of a pool, as the caches have them.
pub(super) fn members(
    caches: &Caches,
    pool: &ObjectKey,
    namespace: &str,
    hosted: Option<&Hosted>,
) -> Vec<Member> {
    let machines = caches.machines.list_in(namespace).into_iter();
    machines
        .filter(|machine| names::node_pool_of(&machine.metadata).as_ref() == Some(pool))
        .map(|machine| member(caches, namespace, hosted, machine))
        .collect()
}

/// What belongs to a machine.
pub(super) fn member(
    caches: &Caches,
    namespace: &str,
    hosted: Option<&Hosted>,
    machine: Arc<Machine>,
) -> Member {
    let name = machine.name_any();
    let key = ObjectKey::namespaced(namespace, &name);
    let of_machine = |pod: &Arc<Pod>| pod.labels().get(MACHINE_NAME) == Some(&name);
    // While a virtual machine starts again there may be two; the one that stays counts.
    let pod = caches.pods.get(&key).or_else(|| {
        let pods = caches.pods.list_in(namespace).into_iter().filter(of_machine);
        pods.min_by_key(|pod| pod.metadata.deletion_timestamp.is_some())
    });
    Member {
        virtual_machine: caches.virtual_machines.get(&key),
        pod,
        node: hosted.and_then(|hosted| hosted.nodes.get(&ObjectKey::cluster(&name))),
        machine,
    }
}

/// The nodes that belong to a pool.
pub(super) fn nodes(pool: &ObjectKey, hosted: &Hosted) -> Vec<Arc<Node>> {
    let of_pool = |node: &Arc<Node>| node.labels().get(names::NODE_POOL) == Some(&pool.name);
    hosted.nodes.list().into_iter().filter(of_pool).collect()
}

// === impl Member ===

impl Member {
    pub(super) fn name(&self) -> String {
        self.machine.name_any()
    }

    pub(super) fn is_going(&self) -> bool {
        self.machine.metadata.deletion_timestamp.is_some()
    }

    /// Since when it is being changed in place.
    pub(super) fn updating_since(&self) -> Option<Timestamp> {
        names::annotation(&self.machine.metadata, UPDATING)?.parse().ok()
    }

    pub(super) fn is_running(&self) -> bool {
        self.pod.as_deref().is_some_and(is_pod_ready)
    }

    /// Whether its node is there and well.
    pub(super) fn is_node_ready(&self) -> bool {
        self.node.as_deref().is_some_and(is_node_ready)
    }

    /// As plans see it.
    pub(super) fn worker(&self, sick: &BTreeSet<String>) -> Worker {
        let name = self.name();
        let phase = self.pod.as_ref().and_then(|pod| pod.status.as_ref()?.phase.as_deref());
        Worker {
            created: self.machine.metadata.creation_timestamp.as_ref().map(|created| created.0),
            made_of: Fingerprint::read(&self.machine.metadata),
            going: self.is_going(),
            updating: self.updating_since().is_some(),
            // A virtual machine begins anew by itself.
            ended: self.virtual_machine.is_none() && matches!(phase, Some("Failed" | "Succeeded")),
            sick: sick.contains(&name),
            running: self.is_running(),
            ready: self.node.as_deref().map(is_node_ready),
            state: self.state(),
            name,
        }
    }

    /// As somebody sees it who looks after the sick. Who goes or changes is not.
    pub(super) fn patient(&self) -> Option<Patient> {
        if self.is_going() || self.updating_since().is_some() {
            return None;
        }
        let created = || self.machine.metadata.creation_timestamp.as_ref().map(|created| created.0);
        let unwell_since = match self.node.as_deref() {
            None => created(),
            Some(node) if is_node_ready(node) => None,
            Some(node) => ready_condition(node)
                .and_then(|condition| Some(condition.last_transition_time.as_ref()?.0))
                .or_else(|| Some(node.metadata.creation_timestamp.as_ref()?.0)),
        };
        Some(Patient { name: self.name(), unwell_since, has_node: self.node.is_some() })
    }

    fn state(&self) -> String {
        match (&self.node, &self.pod, &self.virtual_machine) {
            _ if self.is_going() => "it is being removed".to_owned(),
            _ if self.updating_since().is_some() => "it is being changed".to_owned(),
            (Some(node), ..) if is_node_ready(node) => "its node is ready".to_owned(),
            (Some(node), ..) => node_state(node),
            (None, Some(pod), _) => format!("its node has not joined; its pod is {}", pod_state(pod)),
            (None, None, Some(machine)) => {
                let status = machine.status.clone().unwrap_or_default();
                let why = status.conditions.into_iter().find(|condition| condition.type_ == "Ready");
                let why = why.map(|condition| format!(": {}", condition.message)).unwrap_or_default();
                format!("its virtual machine is {}{why}", status.printable_status)
            }
            (None, None, None) => "it is not made yet".to_owned(),
        }
    }
}

pub(super) fn ready_condition(node: &Node) -> Option<&NodeCondition> {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().find(|condition| condition.type_ == "Ready")
}

pub(super) fn is_node_ready(node: &Node) -> bool {
    ready_condition(node).is_some_and(|condition| condition.status == "True")
}

fn node_state(node: &Node) -> String {
    let said = ready_condition(node)
        .map(|ready| ready.message.as_deref().or(ready.reason.as_deref()).unwrap_or("for no given reason"));
    format!("its node is not ready: {}", said.unwrap_or("it has not reported yet"))
}
