//! A pod on every node that a DaemonSet fits.
//!
//! Each pod is meant for one node from the start: it names it in its affinity, and the scheduler only checks that it can be there.
//! Templates are kept as revisions; an update replaces pods node by node within the limits of the strategy
//! (`plan`).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, Preconditions};
use kube::{Api, Client};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use serde_json::json;
use tracing::{debug, info};

use crate::adoption::{self, Terms};
use crate::calls::{CallError, PATCH, POST, tolerant};
use crate::events::{Kind, Recorder};
use crate::fresh;
use crate::ownership::{controller_reference, correlation, is_controlled_by, is_deleting, selects};
use crate::placement;
use crate::pod;
use crate::revision::{self, History};
use crate::watches::Caches;

mod plan;
#[cfg(test)]
mod tests;

use plan::Plan;

const GENERATION: &str = "pod-template-generation";
const GENERATION_OF_SET: &str = "deprecated.daemonset.template.generation";

/// How long to wait before a pod that ended is replaced: the first time, and at most.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LONGEST_DELAY: Duration = Duration::from_secs(15 * 60);

/// How many pods are created or deleted at once.
const CONCURRENCY: usize = 8;

pub(crate) struct DaemonSets {
    client: Client,
    caches: Caches,
    clock: Clock,
    recorder: Recorder,
    /// Pods that ended, by set and node: how often, and when the last was replaced.
    ends: Mutex<HashMap<(String, String), (u32, Timestamp)>>,
}

/// The node that a pod is on, or meant for.
fn target(pod: &Pod) -> Option<&str> {
    let from_affinity = || {
        let terms = &placement::required(pod.spec.as_ref()?)?.node_selector_terms;
        let mut fields = terms.iter().flat_map(|term| term.match_fields.iter().flatten());
        let named = fields.find(|field| field.key == "metadata.name" && field.operator == "In")?;
        named.values.as_ref()?.first().map(String::as_str)
    };
    pod::node_name(pod).or_else(from_affinity)
}

fn pod_of(set: &DaemonSet, node: &str, hash: &str) -> Pod {
    let template = set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    let given = template.metadata.unwrap_or_default();
    let mut labels = given.labels.unwrap_or_default();
    labels.insert(revision::HASH.to_owned(), hash.to_owned());
    let generation = set.metadata.annotations.as_ref().and_then(|all| all.get(GENERATION_OF_SET));
    if let Some(generation) = generation {
        labels.insert(GENERATION.to_owned(), generation.clone());
    }
    let mut annotations = given.annotations.unwrap_or_default();
    annotations.extend(correlation(&set.metadata));
    let mut spec = template.spec.unwrap_or_default();
    spec.tolerations = Some(plan::tolerations(&spec));
    let affinity = spec.affinity.get_or_insert_with(Affinity::default);
    let affinity = affinity.node_affinity.get_or_insert_with(NodeAffinity::default);
    // Whether the node fits was decided already; what is left is which one it is.
    affinity.required_during_scheduling_ignored_during_execution = Some(NodeSelector {
        node_selector_terms: vec![NodeSelectorTerm {
            match_fields: Some(vec![NodeSelectorRequirement {
                key: "metadata.name".to_owned(),
                operator: "In".to_owned(),
                values: Some(vec![node.to_owned()]),
            }]),
            match_expressions: None,
        }],
    });
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", set.metadata.name.as_deref().unwrap_or_default())),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations),
            finalizers: given.finalizers,
            owner_references: Some(vec![controller_reference(set)]),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        status: None,
    }
}

// === impl DaemonSets ===

impl DaemonSets {
    pub(crate) fn new(client: Client, caches: Caches, clock: Clock, recorder: Recorder) -> Self {
        Self { client, caches, clock, recorder, ends: Mutex::default() }
    }

    /// How long a pod that ended still stays, so that one that never works is not replaced all the time.
    fn delay(&self, set: &str, node: &str, now: Timestamp) -> Duration {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.retain(|_, (_, last)| now.duration_since(*last).unsigned_abs() < LONGEST_DELAY * 2);
        let (count, last) = ends.entry((set.to_owned(), node.to_owned())).or_insert((0, now));
        if *count == 0 {
            *count = 1;
            return Duration::ZERO;
        }
        let delay = FIRST_DELAY.saturating_mul(2_u32.saturating_pow(*count - 1)).min(LONGEST_DELAY);
        let elapsed = Duration::try_from(now.duration_since(*last)).unwrap_or_default();
        let rest = delay.saturating_sub(elapsed);
        if rest.is_zero() {
            *count = count.saturating_add(1);
            *last = now;
        }
        rest
    }

    async fn delete(&self, set: &DaemonSet, pod: &Pod) -> Result<(), CallError> {
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let preconditions = Some(Preconditions { uid: pod.metadata.uid.clone(), resource_version: None });
        let params = DeleteParams { preconditions, ..DeleteParams::background() };
        if tolerant(format!("delete pod {name}"), api.delete(name, &params)).await?.is_some() {
            self.recorder.record(set, Kind::Normal, "SuccessfulDelete", format!("Deleted pod: {name}"));
        }
        Ok(())
    }

    async fn create(&self, set: &DaemonSet, node: &str, hash: &str) -> Result<(), CallError> {
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        match tolerant("create a pod", api.create(&POST, &pod_of(set, node, hash))).await {
            Ok(Some(made)) => {
                let message = format!("Created pod: {}", made.metadata.name.unwrap_or_default());
                self.recorder.record(set, Kind::Normal, "SuccessfulCreate", message);
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) => {
                let message = format!("Error creating: {error}");
                self.recorder.record(set, Kind::Warning, "FailedCreate", message);
                Err(error)
            }
        }
    }

    async fn execute(
        &self,
        key: &ObjectKey,
        set: &DaemonSet,
        plan: &Plan,
        hash: &str,
    ) -> Result<(), CallError> {
        if !plan.create.is_empty() || !plan.delete.is_empty() {
            info!(set = %key, create = plan.create.len(), delete = plan.delete.len(), "adjusting pods");
        }
        stream::iter(plan.delete.clone())
            .map(|pod| async move { self.delete(set, &pod).await })
            .buffer_unordered(CONCURRENCY)
            .try_for_each(|()| async { Ok(()) })
            .await?;
        stream::iter(plan.create.clone())
            .map(|node| async move { self.create(set, &node, hash).await })
            .buffer_unordered(CONCURRENCY)
            .try_for_each(|()| async { Ok(()) })
            .await
    }

    /// Removes pods that ended. Answers when the next one may go.
    async fn replace_ended(
        &self,
        set: &DaemonSet,
        plan: &Plan,
        uid: &str,
    ) -> Result<Option<Duration>, CallError> {
        let mut soonest: Option<Duration> = None;
        for (node, pod) in &plan.ended {
            let rest = self.delay(uid, node, self.clock.now());
            if !rest.is_zero() {
                soonest = [soonest, Some(rest)].into_iter().flatten().min();
                continue;
            }
            let name = ObjectKey::of(&**pod);
            let (reason, word) = match pod::phase(pod) {
                "Failed" => ("FailedDaemonPod", "failed"),
                _ => ("SucceededDaemonPod", "succeeded"),
            };
            let message = format!("Found {word} daemon pod {name} on node {node}, will try to kill it");
            self.recorder.record(set, Kind::Warning, reason, message);
            self.delete(set, pod).await?;
        }
        Ok(soonest)
    }
}

impl Reconcile for DaemonSets {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        Ok(self.caches.daemon_sets.keys())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let Some(set) = self.caches.daemon_sets.get(key) else { return Ok(Next::Done) };
        let Some(spec) = &set.spec else { return Ok(Next::Done) };
        let namespace = key.namespace_or_empty();
        let uid = set.metadata.uid.clone().unwrap_or_default();
        let mut pods = self.caches.pods.list_in(namespace);
        let terms = Terms { fits: &|_| true, finalizer: None };
        adoption::claim(&self.client, &*set, &spec.selector, &pods, terms).await?;
        pods.retain(|pod| {
            is_controlled_by(&pod.metadata, &uid) && selects(&spec.selector, pod.metadata.labels.as_ref())
        });
        let history = History::of(&self.caches, &set.metadata, &spec.template);
        let mut collisions = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
        while history.collides(&*set, &spec.template, collisions) {
            collisions += 1;
        }
        let current = match &history.current {
            Some(current) if is_deleting(&set.metadata) => Some(current.clone()),
            None if is_deleting(&set.metadata) => return Ok(Next::Done),
            _ => history.ensure(&self.client, &*set, &spec.template, collisions).await?,
        };
        let Some(current) = current else { return Ok(Next::Done) };
        let hash = revision::hash(&current).to_owned();
        let nodes = self.caches.nodes.list();
        let mut plan = plan::plan(&set, &nodes, &pods, &hash, self.clock.now());
        if collisions > 0 {
            plan.status.collision_count = Some(collisions);
        }
        let mut next = plan.look_again;
        if !plan.create.is_empty() || !plan.delete.is_empty() || !plan.ended.is_empty() {
            let selector = Some(&spec.selector);
            if fresh::pods_are_known(&self.client, namespace, selector, &uid, &pods).await? {
                self.execute(key, &set, &plan, &hash).await?;
                let soonest = self.replace_ended(&set, &plan, &uid).await?;
                next = [next, soonest].into_iter().flatten().min();
            } else {
                debug!(set = %key, "the cache is behind");
            }
        }
        if set.status.as_ref() != Some(&plan.status) {
            let api: Api<DaemonSet> = Api::namespaced(self.client.clone(), namespace);
            let mut status = json!(plan.status);
            for field in ["numberAvailable", "numberUnavailable", "updatedNumberScheduled"] {
                // A merge only takes away what is named.
                if status.get(field).is_none() {
                    status[field] = serde_json::Value::Null;
                }
            }
            let patch = Patch::Merge(json!({ "status": status }));
            tolerant("write the status of a daemon set", api.patch_status(&key.name, &PATCH, &patch)).await?;
        }
        let used = |revision: &k8s_openapi::api::apps::v1::ControllerRevision| {
            let hash = revision::hash(revision);
            pods.iter().any(|pod| {
                pod.metadata.labels.iter().flatten().any(|(k, v)| k == revision::HASH && v == hash)
            })
        };
        history.tidy(&self.client, namespace, spec.revision_history_limit.unwrap_or(10), used).await?;
        Ok(next.map_or(Next::Done, Next::After))
    }
}
