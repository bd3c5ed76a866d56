//! Replica sets of a Deployment: one per template, the newest growing while the others shrink.
//!
//! A replica set's name follows from the template, so making it twice is harmless; sizes are changed only on the
//! version that was read. Rollouts go the way `rollout` describes, what is reported is in `status`.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, Preconditions};
use kube::{Api, Client};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use serde_json::json;
use tracing::info;

use crate::calls::{CallError, PATCH, POST, tolerant};
use crate::events::{Kind, Recorder};
use crate::ownership::{controller_reference, is_controlled_by, is_deleting};
use crate::pod;
use crate::replica_set::desired as desired_of_set;
use crate::template;
use crate::watches::Caches;

mod rollout;
mod status;
#[cfg(test)]
mod tests;

use rollout::Scale;

/// The label that tells the pods of one template from those of another.
const HASH: &str = "pod-template-hash";

const REVISION: &str = "deployment.kubernetes.io/revision";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MOST: &str = "deployment.kubernetes.io/max-replicas";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

pub(crate) struct Deployments {
    client: Client,
    caches: Caches,
    clock: Clock,
    recorder: Recorder,
}

/// The replica sets of one deployment.
struct Sets<'a> {
    /// The one whose template is the deployment's.
    new: Option<&'a Arc<ReplicaSet>>,
    /// The others, oldest first.
    old: Vec<&'a Arc<ReplicaSet>>,
}

/// What is to be done about one deployment.
#[derive(Debug, PartialEq)]
struct Plan {
    create: Option<Box<ReplicaSet>>,
    scale: Vec<Scale>,
    /// The new set's revision, if it is not the newest yet.
    renumber: Option<(String, i64)>,
    /// The deployment's own revision, if it does not say so yet.
    revision: Option<i64>,
    /// Names and uids of sets that history no longer needs.
    forget: Vec<(String, String)>,
    status: DeploymentStatus,
    next: Next,
}

// === planning ===

fn plan(deployment: &Deployment, sets: &[Arc<ReplicaSet>], old_pods: usize, now: Timestamp) -> Plan {
    let sets = Sets::of(deployment, sets);
    let (status, next) = status::measure(deployment, &sets, now);
    let mut plan = Plan {
        create: None,
        scale: Vec::new(),
        renumber: None,
        revision: None,
        forget: Vec::new(),
        status,
        next,
    };
    if is_deleting(&deployment.metadata) {
        return plan;
    }
    let paused = deployment.spec.as_ref().and_then(|spec| spec.paused).unwrap_or(false);
    let newest_old = sets.old.iter().map(|set| revision(&set.metadata)).max().unwrap_or(0);
    match sets.new {
        Some(new) => {
            plan.scale = rollout::scale(deployment, &sets, old_pods);
            let number = revision(&new.metadata);
            if number <= newest_old {
                plan.renumber = Some((name(&new.metadata).to_owned(), newest_old + 1));
            }
            let number = number.max(newest_old + i64::from(number <= newest_old));
            plan.revision = (revision(&deployment.metadata) != number).then_some(number);
            plan.forget = history(deployment, &sets);
        }
        None if paused => {}
        None => {
            let size = rollout::first_size(deployment, &sets, old_pods);
            // Recreate: the old ones go before the new one comes.
            plan.scale = rollout::scale(deployment, &sets, old_pods);
            // Another size comes first: it is shared out among the sets that there are.
            if let Some(size) = size.filter(|_| !rollout::was_resized(deployment, &sets)) {
                plan.create = Some(Box::new(set_of(deployment, size, newest_old + 1)));
            }
        }
    }
    plan
}

/// The set for the deployment's template.
fn set_of(deployment: &Deployment, replicas: i32, revision: i64) -> ReplicaSet {
    let spec = deployment.spec.clone().unwrap_or_default();
    let hash = template::hash(&spec.template);
    let mut template = spec.template;
    let mut labels = template.metadata.get_or_insert_default().labels.clone().unwrap_or_default();
    labels.insert(HASH.to_owned(), hash.clone());
    template.metadata.get_or_insert_default().labels = Some(labels.clone());
    let mut selector = spec.selector;
    selector.match_labels.get_or_insert_default().insert(HASH.to_owned(), hash.clone());
    let mut annotations = inherited(deployment);
    annotations.insert(REVISION.to_owned(), revision.to_string());
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", name(&deployment.metadata))),
            namespace: deployment.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference(deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(replicas),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        }),
        status: None,
    }
}

/// What a set takes over from its deployment, and two numbers that `kubectl` shows.
fn inherited(deployment: &Deployment) -> BTreeMap<String, String> {
    let mut annotations = deployment.metadata.annotations.clone().unwrap_or_default();
    annotations.remove(LAST_APPLIED);
    annotations.remove(REVISION);
    let wanted = desired(deployment);
    annotations.insert(DESIRED.to_owned(), wanted.to_string());
    annotations.insert(MOST.to_owned(), (wanted + rollout::bounds(deployment).surge).to_string());
    annotations
}

/// Sets beyond the history that was asked for, oldest first.
fn history(deployment: &Deployment, sets: &Sets<'_>) -> Vec<(String, String)> {
    let limit = deployment.spec.as_ref().and_then(|spec| spec.revision_history_limit).unwrap_or(10);
    let unused: Vec<_> = sets
        .old
        .iter()
        .filter(|set| {
            let replicas = set.status.as_ref().map_or(0, |status| status.replicas);
            desired_of_set(set) == 0 && replicas == 0 && !is_deleting(&set.metadata)
        })
        .collect();
    let surplus = unused.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    let identity =
        |metadata: &ObjectMeta| (name(metadata).to_owned(), metadata.uid.clone().unwrap_or_default());
    unused.iter().take(surplus).map(|set| identity(&set.metadata)).collect()
}

fn desired(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

fn revision(metadata: &ObjectMeta) -> i64 {
    let annotations = metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(REVISION)).and_then(|number| number.parse().ok()).unwrap_or(0)
}

// === impl Sets ===

impl<'a> Sets<'a> {
    fn of(deployment: &Deployment, sets: &'a [Arc<ReplicaSet>]) -> Self {
        let wanted = deployment.spec.as_ref().map(|spec| &spec.template);
        let mut sorted: Vec<_> = sets.iter().collect();
        let age = |set: &&Arc<ReplicaSet>| {
            let created = set.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (revision(&set.metadata), created, set.metadata.name.clone())
        };
        sorted.sort_by_cached_key(age);
        let new = sorted.iter().position(|set| {
            let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
            template.zip(wanted).is_some_and(|(template, wanted)| same_template(template, wanted))
        });
        let new = new.map(|index| sorted.remove(index));
        Self { new, old: sorted }
    }

    fn all(&self) -> impl Iterator<Item = &Arc<ReplicaSet>> {
        self.new.into_iter().chain(self.old.iter().copied())
    }
}

/// Whether they are equal but for the label that a set adds.
fn same_template(of_set: &PodTemplateSpec, wanted: &PodTemplateSpec) -> bool {
    let mut of_set = of_set.clone();
    if let Some(labels) = of_set.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
        labels.remove(HASH);
    }
    // An absent map and an empty one mean the same, and servers store one or the other.
    let plain = |template: &PodTemplateSpec| {
        let metadata = template.metadata.clone().unwrap_or_default();
        (metadata.labels.unwrap_or_default(), metadata.annotations.unwrap_or_default())
    };
    of_set.spec == wanted.spec && plain(&of_set) == plain(wanted)
}

// === impl Deployments ===

impl Deployments {
    pub(crate) fn new(client: Client, caches: Caches, clock: Clock, recorder: Recorder) -> Self {
        Self { client, caches, clock, recorder }
    }

    /// How many pods of older templates still exist, ending ones included.
    fn old_pods(&self, deployment: &Deployment, sets: &[Arc<ReplicaSet>]) -> usize {
        let sets = Sets::of(deployment, sets);
        let uids: Vec<_> = sets.old.iter().filter_map(|set| set.metadata.uid.as_deref()).collect();
        let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
        let pods = self.caches.pods.list_in(namespace);
        let is_old = |metadata: &ObjectMeta| uids.iter().any(|uid| is_controlled_by(metadata, uid));
        pods.iter().filter(|pod| !pod::is_finished(pod) && is_old(&pod.metadata)).count()
    }

    /// Tells people of another size.
    fn scaled(&self, deployment: &Deployment, set: &str, before: i32, after: i32) {
        let way = match after - before {
            0 => return,
            1.. => "up",
            _ => "down",
        };
        let message = format!("Scaled {way} replica set {set} from {before} to {after}");
        self.recorder.record(deployment, Kind::Normal, "ScalingReplicaSet", message);
    }

    async fn execute(&self, key: &ObjectKey, deployment: &Deployment, plan: &Plan) -> Result<(), CallError> {
        let namespace = key.namespace_or_empty();
        let sets: Api<ReplicaSet> = Api::namespaced(self.client.clone(), namespace);
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), namespace);
        if let Some(set) = &plan.create {
            info!(deployment = %key, set = name(&set.metadata), "new replica set");
            if tolerant("create a replica set", sets.create(&POST, set)).await?.is_some() {
                self.scaled(deployment, name(&set.metadata), 0, desired_of_set(set));
            }
        }
        if let Some((set, revision)) = &plan.renumber {
            let patch =
                Patch::Merge(json!({ "metadata": { "annotations": { REVISION: revision.to_string() } } }));
            tolerant(format!("number replica set {set}"), sets.patch(set, &PATCH, &patch)).await?;
        }
        for scale in &plan.scale {
            info!(deployment = %key, set = scale.set, replicas = scale.replicas, "scaling");
            let patch = Patch::Merge(json!({
                "metadata": { "resourceVersion": scale.version, "annotations": inherited(deployment) },
                "spec": { "replicas": scale.replicas },
            }));
            let what = format!("scale replica set {}", scale.set);
            if tolerant(what, sets.patch(&scale.set, &PATCH, &patch)).await?.is_some() {
                self.scaled(deployment, &scale.set, scale.before, scale.replicas);
            }
        }
        if let Some(revision) = plan.revision {
            let patch =
                Patch::Merge(json!({ "metadata": { "annotations": { REVISION: revision.to_string() } } }));
            tolerant("number a deployment", deployments.patch(&key.name, &PATCH, &patch)).await?;
        }
        for (set, uid) in &plan.forget {
            let preconditions = Some(Preconditions { uid: Some(uid.clone()), resource_version: None });
            let params = DeleteParams { preconditions, ..DeleteParams::background() };
            tolerant(format!("delete replica set {set}"), sets.delete(set, &params)).await?;
        }
        if deployment.status.as_ref() != Some(&plan.status) {
            let patch = Patch::Merge(json!({ "status": plan.status }));
            let call = deployments.patch_status(&key.name, &PATCH, &patch);
            tolerant("write the status of a deployment", call).await?;
        }
        Ok(())
    }
}

impl Reconcile for Deployments {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        Ok(self.caches.deployments.keys())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let Some(deployment) = self.caches.deployments.get(key) else { return Ok(Next::Done) };
        let uid = deployment.metadata.uid.clone().unwrap_or_default();
        let mut sets = self.caches.replica_sets.list_in(key.namespace_or_empty());
        sets.retain(|set| is_controlled_by(&set.metadata, &uid));
        let plan = plan(&deployment, &sets, self.old_pods(&deployment, &sets), self.clock.now());
        self.execute(key, &deployment, &plan).await?;
        Ok(plan.next)
    }
}
