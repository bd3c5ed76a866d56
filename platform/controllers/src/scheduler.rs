//! A node for every pod.
//!
//! The pods that a node already has come from the cache, and those just bound from memory until the cache shows them:
//! otherwise a hundred pods made at once would all see the same empty node.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod, Taint, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Patch;
use kube::{Api, Client};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::reconcile::Handle;
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use serde_json::json;
use tracing::{debug, info};

use crate::calls::{CallError, PATCH, POST, required, tolerant};
use crate::metrics::{Metrics, Scheduling};
use crate::ownership::is_deleting;
use crate::pod;
use crate::watches::Caches;

/// The name that pods ask for when they do not care.
const NAME: &str = "default-scheduler";

/// What upstream's kubelet runs at most, where a node does not say.
const PODS: usize = 110;

pub(crate) struct Scheduler {
    client: Client,
    caches: Caches,
    clock: Clock,
    metrics: Metrics,
    shared: Arc<Shared>,
}

/// What the watches keep for the passes.
#[derive(Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Which node each pod is on, or was sent to a moment ago.
    placed: HashMap<ObjectKey, String>,
    /// How many pods each node has.
    load: BTreeMap<String, usize>,
    /// Pods for which there was no node.
    unschedulable: HashSet<ObjectKey>,
}

/// A node and how many pods it has.
struct Candidate<'a> {
    node: &'a Node,
    load: usize,
}

/// Why a node does not take a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Obstacle {
    NotReady,
    Unschedulable,
    Taint(String),
    Selector,
    Full,
}

// === planning ===

/// The emptiest node that takes the pod, or why there is none.
fn choose(pod: &Pod, candidates: &[Candidate<'_>]) -> Result<String, String> {
    let mut obstacles: BTreeMap<Obstacle, usize> = BTreeMap::new();
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        match obstacle(pod, candidate) {
            Some(obstacle) => *obstacles.entry(obstacle).or_default() += 1,
            None => {
                let name = candidate.node.metadata.name.as_deref().unwrap_or_default();
                let this = (candidate.load, name);
                best = Some(best.map_or(this, |best| best.min(this)));
            }
        }
    }
    best.map(|(_, name)| name.to_owned()).ok_or_else(|| explain(candidates.len(), &obstacles))
}

fn explain(nodes: usize, obstacles: &BTreeMap<Obstacle, usize>) -> String {
    if nodes == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let reasons: Vec<_> = obstacles
        .iter()
        .map(|(obstacle, count)| match obstacle {
            Obstacle::NotReady => format!("{count} node(s) were not ready"),
            Obstacle::Unschedulable => format!("{count} node(s) were unschedulable"),
            Obstacle::Taint(taint) => format!("{count} node(s) had untolerated taint {{{taint}}}"),
            Obstacle::Selector => format!("{count} node(s) didn't match Pod's node selector"),
            Obstacle::Full => format!("{count} Too many pods"),
        })
        .collect();
    format!("0/{nodes} nodes are available: {}.", reasons.join(", "))
}

fn obstacle(pod: &Pod, candidate: &Candidate<'_>) -> Option<Obstacle> {
    let spec = pod.spec.as_ref();
    let node = candidate.node;
    if !is_ready(node) || is_deleting(&node.metadata) {
        return Some(Obstacle::NotReady);
    }
    if node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false) {
        return Some(Obstacle::Unschedulable);
    }
    let tolerations = spec.and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    let forbidding =
        taints.iter().filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"));
    for taint in forbidding {
        if !tolerations.iter().any(|toleration| tolerates(toleration, taint)) {
            let value = taint.value.as_deref().unwrap_or_default();
            return Some(Obstacle::Taint(format!("{}: {value}", taint.key)));
        }
    }
    let wanted = spec.and_then(|spec| spec.node_selector.as_ref());
    let labels = node.metadata.labels.as_ref();
    let lacks = |(key, value): (&String, &String)| labels.and_then(|labels| labels.get(key)) != Some(value);
    if wanted.is_some_and(|wanted| wanted.iter().any(lacks)) {
        return Some(Obstacle::Selector);
    }
    (candidate.load >= limit(node)).then_some(Obstacle::Full)
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn limit(node: &Node) -> usize {
    let status = node.status.as_ref();
    let pods = |resources: Option<&BTreeMap<_, k8s_openapi::apimachinery::pkg::api::resource::Quantity>>| {
        resources.and_then(|resources| resources.get("pods")).and_then(|pods| pods.0.parse().ok())
    };
    pods(status.and_then(|status| status.allocatable.as_ref()))
        .or_else(|| pods(status.and_then(|status| status.capacity.as_ref())))
        .unwrap_or(PODS)
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.as_deref().filter(|effect| !effect.is_empty());
    let key = toleration.key.as_deref().filter(|key| !key.is_empty());
    if effect.is_some_and(|effect| effect != taint.effect) || key.is_some_and(|key| key != taint.key) {
        return false;
    }
    match toleration.operator.as_deref() {
        Some("Exists") => true,
        // Without a key only "Exists" means something.
        _ => {
            key.is_some() && toleration.value.as_deref().unwrap_or("") == taint.value.as_deref().unwrap_or("")
        }
    }
}

/// Whether the pod is ours to place.
fn is_pending(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let gated = spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty());
    let ours = spec.scheduler_name.as_deref().is_none_or(|name| name == NAME);
    pod::node_name(pod).is_none() && pod::is_active(pod) && ours && !gated
}

// === impl Shared ===

impl Shared {
    /// Keeps count, and wakes pods that could not be placed when there may be room now.
    pub(crate) fn pod_changed(&self, caches: &Caches, changed: &Pod, handle: &Handle<ObjectKey>) {
        let key = ObjectKey::of(changed);
        let current = caches.pods.get(&key);
        match current.as_deref() {
            Some(pod) if is_pending(pod) => handle.wake(key),
            Some(pod) if !pod::is_finished(pod) => {
                if let Some(node) = pod::node_name(pod) {
                    let mut state = self.lock();
                    state.place(&key, node);
                    state.unschedulable.remove(&key);
                }
            }
            _ => {
                let mut state = self.lock();
                state.unschedulable.remove(&key);
                if state.leave(&key) {
                    let waiting: Vec<_> = state.unschedulable.iter().cloned().collect();
                    drop(state);
                    waiting.into_iter().for_each(|key| handle.wake(key));
                }
            }
        }
    }

    /// Nodes that appear or change may have room.
    pub(crate) fn node_changed(&self, handle: &Handle<ObjectKey>) {
        let waiting: Vec<_> = self.lock().unschedulable.iter().cloned().collect();
        waiting.into_iter().for_each(|key| handle.wake(key));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counts and places change together, and nothing in between can fail.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn place(&mut self, pod: &ObjectKey, node: &str) {
        if self.placed.get(pod).is_some_and(|before| before == node) {
            return;
        }
        self.leave(pod);
        *self.load.entry(node.to_owned()).or_default() += 1;
        self.placed.insert(pod.clone(), node.to_owned());
    }

    /// Answers whether it had a place.
    fn leave(&mut self, pod: &ObjectKey) -> bool {
        let Some(node) = self.placed.remove(pod) else { return false };
        if let Some(load) = self.load.get_mut(&node) {
            *load = load.saturating_sub(1);
            if *load == 0 {
                self.load.remove(&node);
            }
        }
        true
    }
}

// === impl Scheduler ===

impl Scheduler {
    pub(crate) fn new(
        client: Client,
        caches: Caches,
        clock: Clock,
        metrics: Metrics,
        shared: Arc<Shared>,
    ) -> Self {
        Self { client, caches, clock, metrics, shared }
    }

    /// Chooses a node and takes the place on it, in one step, so that passes side by side do not take the same.
    fn take_place(&self, key: &ObjectKey, pod: &Pod) -> Result<String, String> {
        let nodes = self.caches.nodes.list();
        let mut state = self.shared.lock();
        let candidates: Vec<_> = nodes
            .iter()
            .map(|node| Candidate {
                load: state.load.get(node.metadata.name.as_deref().unwrap_or_default()).copied().unwrap_or(0),
                node,
            })
            .collect();
        match choose(pod, &candidates) {
            Ok(node) => {
                state.place(key, &node);
                state.unschedulable.remove(key);
                Ok(node)
            }
            Err(why) => {
                state.unschedulable.insert(key.clone());
                Err(why)
            }
        }
    }

    async fn bind(&self, key: &ObjectKey, pod: &Pod, node: &str) -> Result<(), CallError> {
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(key.name.clone()),
                namespace: key.namespace.clone(),
                uid: pod.metadata.uid.clone(),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(node.to_owned()),
                ..ObjectReference::default()
            },
        };
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), key.namespace_or_empty());
        let call = pods.create_subresource::<_, serde_json::Value>("binding", &key.name, &POST, &binding);
        match call.await {
            Ok(_) => {
                info!(pod = %key, node, "bound");
                self.metrics.scheduled(Scheduling::Bound);
                Ok(())
            }
            Err(error) => {
                self.shared.lock().leave(key);
                match error {
                    // Gone, or somebody else placed it: the event follows.
                    kube::Error::Api(status) if status.is_not_found() || status.is_conflict() => {
                        debug!(pod = %key, answer = status.message, "not bound");
                        Ok(())
                    }
                    error => required(format!("bind pod {key}"), async { Err(error) }).await,
                }
            }
        }
    }

    async fn report(&self, key: &ObjectKey, pod: &Pod, why: &str) -> Result<(), CallError> {
        let Some(patch) = unschedulable(pod, why, self.clock.now()) else { return Ok(()) };
        info!(pod = %key, why, "no node");
        self.metrics.scheduled(Scheduling::Unschedulable);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), key.namespace_or_empty());
        let patch = Patch::Strategic(patch);
        let call = pods.patch_status(&key.name, &PATCH, &patch);
        tolerant(format!("say that pod {key} has no node"), call).await?;
        Ok(())
    }
}

/// The change of status that says why, unless it is said already.
fn unschedulable(pod: &Pod, why: &str, now: Timestamp) -> Option<serde_json::Value> {
    let earlier = pod::condition(pod, "PodScheduled").filter(|condition| condition.status == "False");
    if earlier.is_some_and(|earlier| earlier.message.as_deref() == Some(why)) {
        return None;
    }
    let since = earlier.and_then(|earlier| earlier.last_transition_time.as_ref()).map_or(now, |time| time.0);
    Some(json!({ "status": { "conditions": [{
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": why,
        "lastTransitionTime": k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(since),
    }] } }))
}

impl Reconcile for Scheduler {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        let pods = self.caches.pods.list();
        let pending: BTreeSet<_> =
            pods.iter().filter(|pod| is_pending(pod)).map(|pod| ObjectKey::of(&**pod)).collect();
        Ok(pending.into_iter().collect())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let Some(pod) = self.caches.pods.get(key).filter(|pod| is_pending(pod)) else {
            return Ok(Next::Done);
        };
        match self.take_place(key, &pod) {
            Ok(node) => self.bind(key, &pod, &node).await?,
            Err(why) => self.report(key, &pod, &why).await?,
        }
        Ok(Next::Done)
    }
}

#[cfg(test)]
mod tests;
