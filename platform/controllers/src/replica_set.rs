//! As many pods as a ReplicaSet asks for.
//!
//! Pods have random names, so a stale cache could lead to one too many. A pass that finds a difference therefore looks
//! at a fresh list before it acts on it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{DeleteParams, ListParams, Patch, Preconditions};
use kube::{Api, Client, Resource};
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use serde::de::DeserializeOwned;
use serde_json::json;
use tracing::info;

use crate::adoption::{self, Terms};
use crate::calls::{CallError, PATCH, POST, required, tolerant};
use crate::events::{Kind, Recorder};
use crate::ownership::{
    controller_reference, correlation, is_controlled_by, is_deleting, selector_text, selects,
};
use crate::pod::{self, Availability};
use crate::watches::Caches;

/// Pods with a lower number are deleted before others.
pub(crate) const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// How many pods are created or deleted at once.
const CONCURRENCY: usize = 8;

/// How many are created before the next look at whether it works.
const BATCH: usize = 64;

/// Looks after replica sets, or what works like them.
pub(crate) struct ReplicaSets<K> {
    client: Client,
    caches: Caches,
    clock: Clock,
    recorder: Recorder,
    kind: PhantomData<fn() -> K>,
}

/// What keeps as many pods as it is told.
pub(crate) trait Replicated:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + DeserializeOwned
    + Debug
    + Send
    + Sync
    + 'static
{
    /// The same, said as a replica set.
    fn as_set(&self) -> ReplicaSet;

    /// Where those that there are can be seen.
    fn cache(caches: &Caches) -> &Informer<Self>;
}

impl Replicated for ReplicaSet {
    fn as_set(&self) -> ReplicaSet {
        self.clone()
    }

    fn cache(caches: &Caches) -> &Informer<Self> {
        &caches.replica_sets
    }
}

/// What is to be done about one set.
#[derive(Debug, PartialEq)]
struct Plan {
    create: usize,
    delete: Vec<Arc<Pod>>,
    status: ReplicaSetStatus,
    /// When a pod becomes available if nothing happens.
    look_again: Option<Duration>,
}

// === planning ===

fn plan(set: &ReplicaSet, pods: &[Arc<Pod>], now: Timestamp) -> Plan {
    let active: Vec<_> = pods.iter().filter(|pod| pod::is_active(pod)).cloned().collect();
    let wanted = usize::try_from(desired(set)).unwrap_or(0);
    let (create, delete) = match active.len() {
        _ if is_deleting(&set.metadata) => (0, Vec::new()),
        there if there <= wanted => (wanted - there, Vec::new()),
        there => (0, surplus(&active, there - wanted)),
    };
    let (status, look_again) = status(set, &active, pods, now);
    Plan { create, delete, status, look_again }
}

pub(crate) fn desired(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// The pods that are missed least.
fn surplus(active: &[Arc<Pod>], count: usize) -> Vec<Arc<Pod>> {
    let mut per_node: HashMap<&str, usize> = HashMap::new();
    for pod in active {
        *per_node.entry(pod::node_name(pod).unwrap_or_default()).or_default() += 1;
    }
    let mut sorted = active.to_vec();
    sorted.sort_by_cached_key(|pod| {
        let node = pod::node_name(pod);
        let phase = match pod::phase(pod) {
            "Pending" => 0,
            "Unknown" => 1,
            _ => 2,
        };
        let cost: i64 = pod
            .metadata
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get(DELETION_COST))
            .and_then(|cost| cost.parse().ok())
            .unwrap_or(0);
        let neighbours = per_node.get(node.unwrap_or_default()).copied().unwrap_or(0);
        let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let ready = pod::condition(pod, "Ready").filter(|ready| ready.status == "True");
        let ready_since = ready.and_then(|ready| ready.last_transition_time.as_ref()).map(|time| time.0);
        let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_deref());
        let restarts: i32 = statuses.unwrap_or_default().iter().map(|status| status.restart_count).sum();
        (
            node.is_some(),
            phase,
            pod::is_ready(pod),
            cost,
            Reverse(neighbours),
            Reverse(ready_since),
            Reverse(restarts),
            Reverse(created),
            pod.metadata.name.clone(),
        )
    });
    sorted.truncate(count);
    sorted
}

fn status(
    set: &ReplicaSet,
    active: &[Arc<Pod>],
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> (ReplicaSetStatus, Option<Duration>) {
    let least = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
    let labels =
        set.spec.as_ref().and_then(|spec| spec.template.as_ref()?.metadata.as_ref()?.labels.as_ref());
    let mut look_again: Option<Duration> = None;
    let (mut ready, mut available, mut labelled) = (0, 0, 0);
    for pod in active {
        match pod::availability(pod, least, now) {
            Availability::No => {}
            Availability::In(rest) => {
                ready += 1;
                look_again = Some(look_again.map_or(rest, |earlier| earlier.min(rest)));
            }
            Availability::Yes => {
                ready += 1;
                available += 1;
            }
        }
        let of_pod = pod.metadata.labels.as_ref();
        let carries = |(name, value): (&String, &String)| of_pod.and_then(|l| l.get(name)) == Some(value);
        labelled += i32::from(labels.is_none_or(|labels| labels.iter().all(carries)));
    }
    let terminating = pods.iter().filter(|pod| is_deleting(&pod.metadata) && !pod::is_finished(pod)).count();
    let status = ReplicaSetStatus {
        replicas: count(active.len()),
        ready_replicas: Some(ready),
        available_replicas: Some(available),
        fully_labeled_replicas: Some(labelled),
        terminating_replicas: Some(count(terminating)),
        observed_generation: set.metadata.generation,
        conditions: set.status.as_ref().and_then(|status| status.conditions.clone()),
    };
    (status, look_again)
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// The pod that a set makes.
fn pod_of<K: Resource<DynamicType = ()>>(owner: &K, set: &ReplicaSet) -> Pod {
    let template = set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
    let given = template.metadata.unwrap_or_default();
    let mut annotations = given.annotations.unwrap_or_default();
    annotations.extend(correlation(&set.metadata));
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", set.metadata.name.as_deref().unwrap_or_default())),
            namespace: set.metadata.namespace.clone(),
            labels: given.labels,
            annotations: Some(annotations),
            finalizers: given.finalizers,
            owner_references: Some(vec![controller_reference(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

// === impl ReplicaSets ===

impl<K: Replicated> ReplicaSets<K> {
    pub(crate) fn new(client: Client, caches: Caches, clock: Clock, recorder: Recorder) -> Self {
        Self { client, caches, clock, recorder, kind: PhantomData }
    }

    async fn fresh_pods(
        &self,
        api: &Api<Pod>,
        set: &ReplicaSet,
        uid: &str,
    ) -> Result<Vec<Arc<Pod>>, CallError> {
        let mut params = ListParams::default();
        if let Some(selector) = set.spec.as_ref().and_then(|spec| selector_text(&spec.selector)) {
            params = params.labels(&selector);
        }
        let pods = required("list pods", api.list(&params)).await?;
        Ok(pods.items.into_iter().filter(|pod| is_controlled_by(&pod.metadata, uid)).map(Arc::new).collect())
    }

    /// Creates and deletes. What goes wrong is told to people, and ends up in the status as well.
    async fn execute(&self, api: &Api<Pod>, owner: &K, plan: &Plan) -> Result<(), Failure> {
        let pod = pod_of(owner, &owner.as_set());
        let (mut left, mut batch) = (plan.create, 1);
        // Ever larger batches: where none can be made, not all have to be tried.
        while left > 0 {
            let count = batch.min(left).min(BATCH);
            let made = stream::iter(0..count)
                .map(|_| self.create(api, owner, &pod))
                .buffer_unordered(CONCURRENCY)
                .collect::<Vec<_>>()
                .await;
            let failed = made.into_iter().find_map(Result::err);
            if let Some(error) = failed {
                return Err(Failure { reason: "FailedCreate", error });
            }
            left -= count;
            batch *= 2;
        }
        stream::iter(plan.delete.clone())
            .map(|pod| async move {
                let name = pod.metadata.name.as_deref().unwrap_or_default();
                let uid = pod.metadata.uid.clone();
                let preconditions = Some(Preconditions { uid, resource_version: None });
                let params = DeleteParams { preconditions, ..DeleteParams::background() };
                if tolerant(format!("delete pod {name}"), api.delete(name, &params)).await?.is_some() {
                    self.recorder.record(
                        owner,
                        Kind::Normal,
                        "SuccessfulDelete",
                        format!("Deleted pod: {name}"),
                    );
                }
                Ok(())
            })
            .buffer_unordered(CONCURRENCY)
            .try_for_each(|()| async { Ok(()) })
            .await
            .map_err(|error| {
                self.recorder.record(
                    owner,
                    Kind::Warning,
                    "FailedDelete",
                    format!("Error deleting: {error}"),
                );
                Failure { reason: "FailedDelete", error }
            })
    }

    async fn create(&self, api: &Api<Pod>, owner: &K, pod: &Pod) -> Result<(), CallError> {
        match tolerant("create a pod", api.create(&POST, pod)).await {
            Ok(Some(made)) => {
                let message = format!("Created pod: {}", made.metadata.name.unwrap_or_default());
                self.recorder.record(owner, Kind::Normal, "SuccessfulCreate", message);
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) => {
                self.recorder.record(
                    owner,
                    Kind::Warning,
                    "FailedCreate",
                    format!("Error creating: {error}"),
                );
                Err(error)
            }
        }
    }
}

/// Why pods could not be adjusted.
struct Failure {
    reason: &'static str,
    error: CallError,
}

/// The conditions with or without one about the failure.
fn with_failure(status: &mut ReplicaSetStatus, failure: Option<&Failure>, now: Timestamp) {
    let before = status.conditions.take().unwrap_or_default();
    let (old, mut others): (Vec<_>, Vec<_>) =
        before.into_iter().partition(|condition| condition.type_ == "ReplicaFailure");
    if let Some(failure) = failure {
        let since = old.first().and_then(|old| old.last_transition_time.clone());
        others.push(ReplicaSetCondition {
            type_: "ReplicaFailure".to_owned(),
            status: "True".to_owned(),
            reason: Some(failure.reason.to_owned()),
            message: Some(failure.error.to_string()),
            last_transition_time: since.or(Some(Time(now))),
        });
    }
    status.conditions = (!others.is_empty()).then_some(others);
}

impl<K: Replicated> Reconcile for ReplicaSets<K> {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        Ok(K::cache(&self.caches).keys())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let Some(owner) = K::cache(&self.caches).get(key) else { return Ok(Next::Done) };
        let set = owner.as_set();
        let uid = set.metadata.uid.clone().unwrap_or_default();
        let namespace = key.namespace_or_empty();
        let selector = set.spec.as_ref().map(|spec| spec.selector.clone()).unwrap_or_default();
        let mut pods = self.caches.pods.list_in(namespace);
        let terms = Terms { fits: &|_| true, finalizer: None };
        adoption::claim(&self.client, &*owner, &selector, &pods, terms).await?;
        pods.retain(|pod| {
            is_controlled_by(&pod.metadata, &uid) && selects(&selector, pod.metadata.labels.as_ref())
        });
        let mut plan = plan(&set, &pods, self.clock.now());
        let mut failure = None;
        if plan.create > 0 || !plan.delete.is_empty() {
            let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
            let fresh = self.fresh_pods(&api, &set, &uid).await?;
            plan = self::plan(&set, &fresh, self.clock.now());
            if plan.create > 0 || !plan.delete.is_empty() {
                info!(set = %key, create = plan.create, delete = plan.delete.len(), "adjusting pods");
            }
            failure = self.execute(&api, &owner, &plan).await.err();
        }
        with_failure(&mut plan.status, failure.as_ref(), self.clock.now());
        if differs(set.status.as_ref(), &plan.status) {
            let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
            let mut status = json!(plan.status);
            if plan.status.conditions.is_none() {
                // A merge only takes away what is named.
                status["conditions"] = serde_json::Value::Null;
            }
            if K::kind(&()) != ReplicaSet::kind(&())
                && let Some(status) = status.as_object_mut()
            {
                status.remove("terminatingReplicas");
            }
            let patch = Patch::Merge(json!({ "status": status }));
            let call = api.patch_status(&key.name, &PATCH, &patch);
            tolerant("write the status of a replica set", call).await?;
        }
        if let Some(failure) = failure {
            return Err(failure.error.into());
        }
        Ok(plan.look_again.map_or(Next::Done, Next::After))
    }
}

/// Whether the status has to be written. Not every server keeps how many pods are ending.
fn differs(present: Option<&ReplicaSetStatus>, new: &ReplicaSetStatus) -> bool {
    let Some(present) = present else { return true };
    let mut new = new.clone();
    if present.terminating_replicas.is_none() {
        new.terminating_replicas = None;
    }
    *present != new
}

#[cfg(test)]
mod tests;
