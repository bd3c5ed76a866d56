//! Nodes that no longer report, and what ran on nodes that are gone.
//!
//! A kubelet renews its lease every few seconds. When a node has been silent for longer than the grace period, nobody knows
//! what it is doing: its conditions become `Unknown`, its pods count as not ready, so that services stop
//! sending there, nothing new is placed on it, and after a while its pods are asked to go (`eviction`). A word from the
//! kubelet undoes all of that. Other conditions that a kubelet reports become taints as well. Pods of a node that does
//! not exist any more will never be confirmed as ended by anybody, and are removed.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, Patch, Preconditions};
use kube::{Api, Client};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use serde_json::json;
use tracing::{info, warn};

use crate::calls::{CallError, PATCH, required, tolerant};
use crate::events::{Kind, Recorder};
use crate::metrics::Metrics;
use crate::pod;
use crate::watches::Caches;

/// Where kubelets keep their leases.
pub(crate) const LEASES: &str = "kube-node-lease";

pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(crate) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

mod eviction;

pub(crate) use eviction::{Evictions, is_executing};

/// Taints that keep new pods away from a node that says it is short of something.
const CONDITIONS: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

pub(crate) struct NodeLifecycle {
    client: Client,
    caches: Caches,
    clock: Clock,
    metrics: Metrics,
    recorder: Recorder,
    grace: Duration,
}

/// What is to be done about one node.
#[derive(Debug, PartialEq)]
struct Plan {
    /// The conditions that nobody vouches for any more.
    lost: Option<Vec<NodeCondition>>,
    /// All taints, if they have to change.
    taints: Option<Vec<Taint>>,
    next: Next,
}

// === planning ===

fn plan(node: &Node, lease: Option<&Lease>, grace: Duration, now: Timestamp) -> Plan {
    let silent = last_word(node, lease)
        .map_or(Duration::ZERO, |at| Duration::try_from(now.duration_since(at)).unwrap_or_default());
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let is_lost = silent >= grace;
    let unknown =
        conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "Unknown");
    let lost = (is_lost && !unknown).then(|| lost_conditions(conditions, now));
    let ready = match conditions.iter().find(|condition| condition.type_ == "Ready") {
        _ if is_lost => "Unknown",
        Some(condition) => condition.status.as_str(),
        // It has not said anything yet.
        None => "False",
    };
    let taints = taints(node, ready, now);
    // A node that is lost comes back by itself, with an event.
    let next = if is_lost { Next::Done } else { Next::After(grace.saturating_sub(silent)) };
    Plan { lost, taints, next }
}

/// When the node was last heard of.
fn last_word(node: &Node, lease: Option<&Lease>) -> Option<Timestamp> {
    let renewed = lease.and_then(|lease| lease.spec.as_ref()?.renew_time.as_ref()).map(|time| time.0);
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let heartbeat =
        conditions.into_iter().flatten().filter_map(|condition| condition.last_heartbeat_time.as_ref());
    let heartbeat = heartbeat.map(|time| time.0).max();
    let created = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
    renewed.max(heartbeat).max(created)
}

fn lost_conditions(conditions: &[NodeCondition], now: Timestamp) -> Vec<NodeCondition> {
    let mut lost = conditions.to_vec();
    if !lost.iter().any(|condition| condition.type_ == "Ready") {
        lost.push(NodeCondition { type_: "Ready".to_owned(), ..NodeCondition::default() });
    }
    for condition in &mut lost {
        condition.status = "Unknown".to_owned();
        condition.reason = Some("NodeStatusUnknown".to_owned());
        condition.message = Some("Kubelet stopped posting node status.".to_owned());
        condition.last_transition_time = Some(Time(now));
    }
    lost
}

/// All taints that the node should have, if those are not the ones it has.
fn taints(node: &Node, ready: &str, now: Timestamp) -> Option<Vec<Taint>> {
    let current = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let mut wanted: Vec<(&str, &str)> = match ready {
        "True" => Vec::new(),
        "Unknown" => vec![(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")],
        _ => vec![(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")],
    };
    for (type_, key) in CONDITIONS {
        if conditions.iter().any(|condition| condition.type_ == type_ && condition.status == "True") {
            wanted.push((key, "NoSchedule"));
        }
    }
    if node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let ours = |key: &str| {
        [NOT_READY, UNREACHABLE, UNSCHEDULABLE].contains(&key)
            || CONDITIONS.iter().any(|(_, own)| *own == key)
    };
    let is = |taint: &Taint, (key, effect): &(&str, &str)| taint.key == *key && taint.effect == *effect;
    let mut taints: Vec<_> = current
        .iter()
        .filter(|taint| !ours(&taint.key) || wanted.iter().any(|wanted| is(taint, wanted)))
        .cloned()
        .collect();
    for (key, effect) in wanted {
        if !taints.iter().any(|taint| is(taint, &(key, effect))) {
            taints.push(Taint {
                key: key.to_owned(),
                effect: effect.to_owned(),
                value: None,
                time_added: Some(Time(now)),
            });
        }
    }
    (taints != current).then_some(taints)
}

// === impl NodeLifecycle ===

impl NodeLifecycle {
    pub(crate) fn new(
        client: Client,
        caches: Caches,
        clock: Clock,
        metrics: Metrics,
        recorder: Recorder,
        grace: Duration,
    ) -> Self {
        Self { client, caches, clock, metrics, recorder, grace }
    }

    fn pods_on(&self, node: &str) -> Vec<Arc<Pod>> {
        let mut pods = self.caches.pods.list();
        pods.retain(|pod| pod::node_name(pod) == Some(node));
        pods
    }

    async fn node_is_lost(&self, node: &Node, conditions: Vec<NodeCondition>) -> Result<(), CallError> {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        warn!(node = name, "node no longer reports");
        let message = format!("Node {name} status is now: NodeNotReady");
        self.recorder.record(node, Kind::Normal, "NodeNotReady", message);
        self.metrics.nodes_lost.inc();
        let api: Api<Node> = Api::all(self.client.clone());
        let patch = Patch::Strategic(json!({ "status": { "conditions": conditions } }));
        let call = api.patch_status(name, &PATCH, &patch);
        tolerant(format!("mark node {name} as lost"), call).await?;
        let ready_pods = self.pods_on(name).into_iter().filter(|pod| pod::is_ready(pod));
        for pod in ready_pods {
            let key = ObjectKey::of(&*pod);
            let patch = Patch::Strategic(json!({ "status": { "conditions": [{
                "type": "Ready",
                "status": "False",
                "reason": "NodeNotReady",
                "lastTransitionTime": Time(self.clock.now()),
            }] } }));
            let api: Api<Pod> = Api::namespaced(self.client.clone(), key.namespace_or_empty());
            let call = api.patch_status(&key.name, &PATCH, &patch);
            tolerant(format!("mark pod {key} as not ready"), call).await?;
        }
        Ok(())
    }

    /// Nobody is left to confirm that these have ended.
    async fn node_is_gone(&self, name: &str) -> Result<(), CallError> {
        let pods = self.pods_on(name);
        if pods.is_empty() {
            return Ok(());
        }
        let api: Api<Node> = Api::all(self.client.clone());
        // The cache may not have heard of a node that was made a moment ago.
        if required(format!("read node {name}"), api.get_metadata_opt(name)).await?.is_some() {
            return Ok(());
        }
        for pod in pods {
            let key = ObjectKey::of(&*pod);
            info!(pod = %key, node = name, "removing the pod of a node that is gone");
            let params = DeleteParams {
                grace_period_seconds: Some(0),
                preconditions: Some(Preconditions { uid: pod.metadata.uid.clone(), resource_version: None }),
                ..DeleteParams::background()
            };
            let api: Api<Pod> = Api::namespaced(self.client.clone(), key.namespace_or_empty());
            if !pod::is_finished(&pod) {
                // Whoever still holds it should know how it ended.
                let patch = Patch::Strategic(json!({ "status": { "phase": "Failed", "conditions": [{
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "DeletionByPodGC",
                    "message": "PodGC: node no longer exists",
                    "lastTransitionTime": Time(self.clock.now()),
                }] } }));
                let call = api.patch_status(&key.name, &PATCH, &patch);
                tolerant(format!("mark pod {key} as failed"), call).await?;
            }
            tolerant(format!("delete pod {key}"), api.delete(&key.name, &params)).await?;
        }
        Ok(())
    }
}

impl Reconcile for NodeLifecycle {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        let mut keys = self.caches.nodes.keys();
        let pods = self.caches.pods.list();
        // Nodes that went while nobody looked.
        keys.extend(pods.iter().filter_map(|pod| pod::node_name(pod)).map(ObjectKey::cluster));
        keys.sort();
        keys.dedup();
        Ok(keys)
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let Some(node) = self.caches.nodes.get(key) else {
            self.node_is_gone(&key.name).await?;
            return Ok(Next::Done);
        };
        let lease = self.caches.leases.get(&ObjectKey::namespaced(LEASES, &key.name));
        let plan = plan(&node, lease.as_deref(), self.grace, self.clock.now());
        if let Some(conditions) = plan.lost {
            self.node_is_lost(&node, conditions).await?;
        }
        if let Some(taints) = plan.taints {
            let api: Api<Node> = Api::all(self.client.clone());
            let version = &node.metadata.resource_version;
            let patch = Patch::Merge(
                json!({ "metadata": { "resourceVersion": version }, "spec": { "taints": taints } }),
            );
            let call = api.patch(&key.name, &PATCH, &patch);
            tolerant(format!("taint node {key}"), call).await?;
        }
        Ok(plan.next)
    }
}

#[cfg(test)]
mod tests;
