//! A node for every pod.
//!
//! An attempt is a pure look at nodes and pods: which nodes take the pod (`filter`, with `resources`, `topology` and
//! `volumes`), which of them is best, and, where none does, whether less important pods should make room (`preempt`). The
//! pods that a node has come from the cache, and those just bound from memory until the cache shows them (`state`):
//! otherwise a hundred pods made at once would all see the same empty node.
//!
//! A pod without a node waits for an event that could change that: a node that changed, a pod that went, a claim that was
//! bound. What a heartbeat changes wakes nobody. Attempts for the same pod become rarer the more of them fail.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, PersistentVolumeClaim, Pod, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{DeleteParams, Patch, Preconditions};
use kube::{Api, Client};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::reconcile::Handle;
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use serde_json::json;
use tokio::time::Instant;
use tracing::{debug, info};

use crate::calls::{CallError, PATCH, POST, required, tolerant};
use crate::events::{Kind, Recorder};
use crate::metrics::{Metrics, Scheduling};
use crate::placement;
use crate::pod;
use crate::watches::Caches;

mod filter;
mod preempt;
mod resources;
mod state;
#[cfg(test)]
mod tests;
mod topology;
mod volumes;

use filter::{Attempt, Nowhere};
use preempt::Preemption;
use resources::Amounts;
use state::{Candidate, Occupant, State, Waiting, Wakes};
use topology::Topology;
use volumes::Volumes;
pub(crate) use volumes::{claims_of, waits_for_consumer};

/// The name that pods ask for when they do not care.
pub(crate) const NAME: &str = "default-scheduler";

/// Tells which node a claim's first pod was placed on.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// How soon a pod that fits nowhere is tried again at the earliest: after the first attempt, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

pub(crate) struct Scheduler {
    client: Client,
    caches: Caches,
    clock: Clock,
    metrics: Metrics,
    recorder: Recorder,
    shared: Arc<Shared>,
}

/// What the watches keep for the passes.
#[derive(Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    /// What of each node says whether pods fit.
    nodes: Mutex<HashMap<ObjectKey, NodeFacts>>,
}

/// Labels, taints, resources, whether it is closed, whether it is ready.
type NodeFacts =
    (Option<std::collections::BTreeMap<String, String>>, Vec<Taint>, Amounts, bool, Option<String>);

/// How an attempt ended.
enum Outcome {
    Place { node: String, unbound: Vec<ObjectKey> },
    Nowhere { message: String, preemption: Option<Preemption> },
}

/// Whether the pod is ours to place.
fn is_ours(pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    let ours = spec.scheduler_name.as_deref().is_none_or(|name| name == NAME);
    pod::node_name(pod).is_none() && pod::is_active(pod) && ours
}

fn is_gated(pod: &Pod) -> bool {
    let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
    gates.is_some_and(|gates| !gates.is_empty())
}

fn is_pending(pod: &Pod) -> bool {
    is_ours(pod) && !is_gated(pod)
}

fn node_facts(node: &Node) -> NodeFacts {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
    (
        node.metadata.labels.clone(),
        placement::taints(node).to_vec(),
        resources::allocatable(node),
        node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false),
        ready.map(|ready| ready.status.clone()),
    )
}

// === impl Shared ===

impl Shared {
    /// Keeps account, and wakes pods that could not be placed when there may be room now.
    pub(crate) fn pod_changed(&self, caches: &Caches, changed: &Pod, handle: &Handle<ObjectKey>) {
        let key = ObjectKey::of(changed);
        let current = caches.pods.get(&key);
        match current {
            Some(pod) if is_pending(&pod) => handle.wake(key),
            Some(pod) if is_ours(&pod) => {}
            Some(pod) if state::occupies(&pod) => {
                if let Some(node) = pod::node_name(&pod) {
                    let occupant = Arc::new(Occupant::of(pod.clone()));
                    let mut state = self.lock();
                    let is_new = state.place(&key, node, &occupant);
                    state.waiting.remove(&key);
                    let concerned =
                        if is_new { state.concerned(|wakes| wakes.pod_placed) } else { Vec::new() };
                    drop(state);
                    concerned.into_iter().for_each(|key| handle.wake(key));
                }
            }
            _ => {
                let mut state = self.lock();
                state.waiting.remove(&key);
                if state.leave(&key) {
                    let concerned = state.concerned(|wakes| wakes.pod_gone || wakes.pod_placed);
                    drop(state);
                    concerned.into_iter().for_each(|key| handle.wake(key));
                }
            }
        }
    }

    /// Nodes that appear or change may take somebody.
    pub(crate) fn node_changed(&self, caches: &Caches, changed: &Node, handle: &Handle<ObjectKey>) {
        let key = ObjectKey::of(changed);
        let facts = caches.nodes.get(&key).map(|node| node_facts(&node));
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match &facts {
            Some(facts) => nodes.insert(key, facts.clone()),
            None => nodes.remove(&key),
        };
        drop(nodes);
        if before != facts {
            self.lock().concerned(|_| true).into_iter().for_each(|key| handle.wake(key));
        }
    }

    /// A claim or volume changed.
    pub(crate) fn volume_changed(&self, handle: &Handle<ObjectKey>) {
        self.lock().concerned(|wakes| wakes.volume).into_iter().for_each(|key| handle.wake(key));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Counts and places change together, and nothing in between can fail.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Scheduler ===

impl Scheduler {
    pub(crate) fn new(
        client: Client,
        caches: Caches,
        clock: Clock,
        metrics: Metrics,
        recorder: Recorder,
        shared: Arc<Shared>,
    ) -> Self {
        Self { client, caches, clock, metrics, recorder, shared }
    }

    /// Chooses a node and takes the place on it, in one step, so that passes side by side do not take the same.
    fn attempt(&self, key: &ObjectKey, pod: &Arc<Pod>) -> Outcome {
        let occupant = Arc::new(Occupant::of(pod.clone()));
        let candidates: Vec<_> = self.caches.nodes.list().into_iter().map(Candidate::new).collect();
        let namespaces =
            |name: &str| self.caches.namespaces.get(&ObjectKey::cluster(name))?.metadata.labels.clone();
        let mut state = self.shared.lock();
        // Looked at under the lock: a claim that changes later finds the pod among those that wait for it.
        let volumes = match Volumes::of(pod, &self.caches) {
            Ok(volumes) => volumes,
            Err(why) => {
                let nowhere = Nowhere::because(candidates.len(), why);
                state.wait_for_claims(key, pod, nowhere.wakes());
                return Outcome::Nowhere { message: nowhere.message(None), preemption: None };
            }
        };
        let topology = Topology::of(&occupant, &candidates, &state, &namespaces);
        let attempt = Attempt { pod: &occupant, topology: &topology, volumes: &volumes, state: &state };
        match attempt.choose(&candidates) {
            Ok(node) => {
                state.place(key, &node, &occupant);
                state.waiting.remove(key);
                Outcome::Place { node, unbound: volumes.unbound }
            }
            Err(nowhere) => {
                let refusal = preempt::refusal(&occupant, &state);
                let preemption = match refusal {
                    Some(_) => None,
                    None => {
                        let budgets = self.caches.budgets.list();
                        let resolvable = &nowhere.resolvable;
                        preempt::plan(
                            &occupant,
                            &candidates,
                            resolvable,
                            &state,
                            &volumes,
                            &budgets,
                            &namespaces,
                        )
                    }
                };
                state.wait(key, pod, nowhere.wakes());
                if let Some(preemption) = &preemption {
                    state.nominated.insert(key.clone(), (preemption.node.clone(), occupant.clone()));
                }
                Outcome::Nowhere { message: nowhere.message(refusal), preemption }
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
                let message = format!("Successfully assigned {key} to {node}");
                self.recorder.record(pod, Kind::Normal, "Scheduled", message);
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

    /// Claims that waited for their first pod are told its node. Answers whether there were any.
    async fn select_node(&self, claims: &[ObjectKey], node: &str) -> Result<bool, CallError> {
        for key in claims {
            let api: Api<PersistentVolumeClaim> =
                Api::namespaced(self.client.clone(), key.namespace_or_empty());
            let patch = Patch::Merge(json!({ "metadata": { "annotations": { SELECTED_NODE: node } } }));
            tolerant(format!("tell claim {key} its node"), api.patch(&key.name, &PATCH, &patch)).await?;
        }
        Ok(!claims.is_empty())
    }

    /// Lets the victims go. The pod is woken when they have.
    async fn preempt(&self, key: &ObjectKey, pod: &Pod, preemption: &Preemption) -> Result<(), CallError> {
        let node = &preemption.node;
        info!(pod = %key, node, victims = preemption.victims.len(), "making room");
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        for (victim, occupant) in &preemption.victims {
            let api: Api<Pod> = Api::namespaced(self.client.clone(), victim.namespace_or_empty());
            let patch = Patch::Strategic(json!({ "status": { "conditions": [{
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": format!("{NAME}: preempting to accommodate a higher priority pod"),
                "lastTransitionTime": Time(self.clock.now()),
            }] } }));
            tolerant(format!("mark pod {victim}"), api.patch_status(&victim.name, &PATCH, &patch)).await?;
            let preconditions =
                Preconditions { uid: occupant.pod.metadata.uid.clone(), resource_version: None };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
            tolerant(format!("preempt pod {victim}"), api.delete(&victim.name, &params)).await?;
            let message = format!("Preempted by pod {uid} on node {node}");
            self.recorder.record(&*occupant.pod, Kind::Normal, "Preempted", message);
        }
        let api: Api<Pod> = Api::namespaced(self.client.clone(), key.namespace_or_empty());
        let patch = Patch::Merge(json!({ "status": { "nominatedNodeName": node } }));
        tolerant(format!("nominate a node for {key}"), api.patch_status(&key.name, &PATCH, &patch)).await?;
        Ok(())
    }

    async fn report(&self, key: &ObjectKey, pod: &Pod, reason: &str, why: &str) -> Result<(), CallError> {
        if reason == "Unschedulable" {
            self.recorder.record(pod, Kind::Warning, "FailedScheduling", why);
            self.metrics.scheduled(Scheduling::Unschedulable);
        }
        let Some(patch) = unscheduled(pod, reason, why, self.clock.now()) else { return Ok(()) };
        info!(pod = %key, why, "no node");
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), key.namespace_or_empty());
        let patch = Patch::Strategic(patch);
        let call = pods.patch_status(&key.name, &PATCH, &patch);
        tolerant(format!("say that pod {key} has no node"), call).await?;
        Ok(())
    }
}

impl State {
    /// Whether this very pod has a place. One of the same name that was there before it has gone.
    fn is_placed(&mut self, key: &ObjectKey, pod: &Pod) -> bool {
        let same = self.occupant(key).is_some_and(|occupant| occupant.pod.metadata.uid == pod.metadata.uid);
        if !same {
            self.forget(key);
        }
        same
    }

    /// No node takes the pod.
    fn wait(&mut self, key: &ObjectKey, pod: &Pod, wakes: Wakes) {
        let attempts = self.waiting.get(key).map_or(0, |waiting| waiting.attempts) + 1;
        self.keep_waiting(key, pod, wakes, attempts);
    }

    /// The pod's own claims stand in the way, and no node was looked at.
    fn wait_for_claims(&mut self, key: &ObjectKey, pod: &Pod, wakes: Wakes) {
        self.keep_waiting(key, pod, wakes, 0);
    }

    fn keep_waiting(&mut self, key: &ObjectKey, pod: &Pod, wakes: Wakes, attempts: u32) {
        let waiting = Waiting { wakes, attempts, since: Instant::now(), priority: priority(pod) };
        self.waiting.insert(key.clone(), waiting);
    }

    /// How long the pod still has to wait for its next attempt. Only looking for a node is worth a pause.
    fn pause(&self, key: &ObjectKey) -> Duration {
        let waiting = self.waiting.get(key).filter(|waiting| waiting.attempts > 0);
        let Some(waiting) = waiting else { return Duration::ZERO };
        let factor = 2_u32.saturating_pow(waiting.attempts - 1);
        let pause = FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE);
        pause.saturating_sub(waiting.since.elapsed())
    }
}

/// How important a pod is.
fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
}

/// The change of status that says why, unless it is said already.
fn unscheduled(pod: &Pod, reason: &str, why: &str, now: Timestamp) -> Option<serde_json::Value> {
    let earlier = pod::condition(pod, "PodScheduled").filter(|condition| condition.status == "False");
    let same = earlier.is_some_and(|earlier| {
        earlier.message.as_deref() == Some(why) && earlier.reason.as_deref() == Some(reason)
    });
    if same {
        return None;
    }
    let since = earlier.and_then(|earlier| earlier.last_transition_time.as_ref()).map_or(now, |time| time.0);
    Some(json!({ "status": { "conditions": [{
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": why,
        "lastTransitionTime": Time(since),
    }] } }))
}

impl Reconcile for Scheduler {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        let pods = self.caches.pods.list();
        let pending = pods.iter().filter(|pod| is_ours(pod));
        let mut pending: Vec<_> =
            pending.map(|pod| (Reverse(priority(pod)), ObjectKey::of(&**pod))).collect();
        pending.sort();
        Ok(pending.into_iter().map(|(_, key)| key).collect())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let Some(pod) = self.caches.pods.get(key).filter(|pod| is_ours(pod)) else {
            return Ok(Next::Done);
        };
        if is_gated(&pod) {
            // The API server says so itself where it is a real one.
            let why = "Scheduling is blocked due to non-empty scheduling gates";
            self.report(key, &pod, "SchedulingGated", why).await?;
            return Ok(Next::Done);
        }
        if self.shared.lock().is_placed(key, &pod) {
            // Bound a moment ago, and the cache does not know yet.
            return Ok(Next::Done);
        }
        let pause = self.shared.lock().pause(key);
        if !pause.is_zero() {
            return Ok(Next::After(pause));
        }
        match self.attempt(key, &pod) {
            Outcome::Place { node, unbound } => {
                if self.select_node(&unbound, &node).await? {
                    // They are bound first; that wakes the pod again.
                    let mut state = self.shared.lock();
                    state.leave(key);
                    state.wait(key, &pod, Wakes { volume: true, ..Wakes::default() });
                    return Ok(Next::Done);
                }
                self.bind(key, &pod, &node).await?;
            }
            Outcome::Nowhere { message, preemption } => {
                if let Some(preemption) = &preemption {
                    self.preempt(key, &pod, preemption).await?;
                }
                self.report(key, &pod, "Unschedulable", &message).await?;
            }
        }
        Ok(Next::Done)
    }
}
