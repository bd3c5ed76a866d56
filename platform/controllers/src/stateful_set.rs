//! Pods with a name of their own, and the claims that belong to it.
//!
//! Everything has a name that follows from the set and an ordinal, so a stale cache can make nothing twice. What is done
//! next is decided in `plan`: missing pods are made in order, surplus ones removed from the end, and pods of an older
//! template replaced one by one from the end.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, Preconditions};
use kube::{Api, Client};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use serde_json::json;
use tracing::info;

use crate::calls::{CallError, PATCH, POST, tolerant};
use crate::ownership::{controller_reference, correlation, is_controlled_by, owner_reference};
use crate::template;
use crate::watches::Caches;

mod plan;
#[cfg(test)]
mod tests;

use plan::{Action, Observed};

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
const REVISION: &str = "controller-revision-hash";

pub(crate) struct StatefulSets {
    client: Client,
    caches: Caches,
    clock: Clock,
}

fn name(set: &StatefulSet) -> &str {
    set.metadata.name.as_deref().unwrap_or_default()
}

/// The name of the set's current template.
fn revision(set: &StatefulSet) -> String {
    let hash = set.spec.as_ref().map(|spec| template::hash(&spec.template)).unwrap_or_default();
    format!("{}-{hash}", name(set))
}

fn revision_of(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(REVISION).map(String::as_str)
}

/// Which of the set's pods this is.
fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    let rest = pod.metadata.name.as_deref()?.strip_prefix(name(set))?.strip_prefix('-')?;
    rest.parse().ok().filter(|ordinal: &i32| *ordinal >= 0 && ordinal.to_string() == rest)
}

/// The pod of an ordinal.
fn pod_of(set: &StatefulSet, ordinal: i32, revision: &str) -> Pod {
    let spec = set.spec.clone().unwrap_or_default();
    let pod = format!("{}-{ordinal}", name(set));
    let given = spec.template.metadata.unwrap_or_default();
    let mut labels = given.labels.unwrap_or_default();
    labels.insert(POD_NAME.to_owned(), pod.clone());
    labels.insert(POD_INDEX.to_owned(), ordinal.to_string());
    labels.insert(REVISION.to_owned(), revision.to_owned());
    let mut annotations = given.annotations.unwrap_or_default();
    annotations.extend(correlation(&set.metadata));
    let mut pod_spec: PodSpec = spec.template.spec.unwrap_or_default();
    pod_spec.hostname = Some(pod.clone());
    pod_spec.subdomain = spec.service_name.filter(|service| !service.is_empty());
    let volumes = pod_spec.volumes.get_or_insert_default();
    for claim in spec.volume_claim_templates.iter().flatten() {
        let volume = claim.metadata.name.clone().unwrap_or_default();
        volumes.retain(|other| other.name != volume);
        volumes.push(Volume {
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim_name(&volume, &pod),
                read_only: None,
            }),
            name: volume,
            ..Volume::default()
        });
    }
    Pod {
        metadata: ObjectMeta {
            name: Some(pod),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference(set)]),
            ..ObjectMeta::default()
        },
        spec: Some(pod_spec),
        status: None,
    }
}

/// The claims of an ordinal. They outlive the pod, and the set too unless it says otherwise.
fn claims_of(set: &StatefulSet, ordinal: i32) -> Vec<PersistentVolumeClaim> {
    let Some(spec) = &set.spec else { return Vec::new() };
    let policy = spec.persistent_volume_claim_retention_policy.as_ref();
    let goes = policy.and_then(|policy| policy.when_deleted.as_deref()) == Some("Delete");
    let pod = format!("{}-{ordinal}", name(set));
    let claim = |template: &PersistentVolumeClaim| {
        let mut labels = template.metadata.labels.clone().unwrap_or_default();
        labels.extend(spec.selector.match_labels.clone().unwrap_or_default());
        let mut annotations = template.metadata.annotations.clone().unwrap_or_default();
        annotations.extend(correlation(&set.metadata));
        PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(claim_name(template.metadata.name.as_deref().unwrap_or_default(), &pod)),
                namespace: set.metadata.namespace.clone(),
                labels: Some(labels),
                annotations: Some(annotations),
                owner_references: goes.then(|| vec![owner_reference(set)]),
                ..ObjectMeta::default()
            },
            spec: template.spec.clone(),
            status: None,
        }
    };
    spec.volume_claim_templates.iter().flatten().map(claim).collect()
}

fn claim_name(template: &str, pod: &str) -> String {
    format!("{template}-{pod}")
}

/// What is worth reporting of the pods.
fn status(set: &StatefulSet, observed: &Observed, revision: &str) -> StatefulSetStatus {
    let before = set.status.as_ref();
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let updated = number(observed.pods.values().filter(|pod| pod.updated).count());
    let all = number(observed.pods.len());
    let current_before = before.and_then(|status| status.current_revision.clone());
    let done = updated == all && all == wanted;
    let current = if done { None } else { current_before }.unwrap_or_else(|| revision.to_owned());
    let on_current = observed.pods.values().filter(|pod| pod.revision == current).count();
    StatefulSetStatus {
        replicas: all,
        ready_replicas: Some(number(observed.pods.values().filter(|pod| pod.ready).count())),
        available_replicas: Some(number(observed.pods.values().filter(|pod| pod.available).count())),
        current_replicas: Some(number(on_current)),
        updated_replicas: Some(updated),
        current_revision: Some(current),
        update_revision: Some(revision.to_owned()),
        collision_count: Some(before.and_then(|status| status.collision_count).unwrap_or(0)),
        observed_generation: set.metadata.generation,
        conditions: before.and_then(|status| status.conditions.clone()),
    }
}

// === impl StatefulSets ===

impl StatefulSets {
    pub(crate) fn new(client: Client, caches: Caches, clock: Clock) -> Self {
        Self { client, caches, clock }
    }

    fn observe(&self, key: &ObjectKey, set: &StatefulSet, revision: &str, now: Timestamp) -> Observed {
        let uid = set.metadata.uid.clone().unwrap_or_default();
        let pods = self.caches.pods.list_in(key.namespace_or_empty());
        let own: Vec<Arc<Pod>> =
            pods.into_iter().filter(|pod| is_controlled_by(&pod.metadata, &uid)).collect();
        Observed::of(set, &own, revision, now)
    }

    async fn execute(&self, set: &StatefulSet, revision: &str, action: &Action) -> Result<(), CallError> {
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        match action {
            Action::Create(ordinal) => {
                let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
                for claim in claims_of(set, *ordinal) {
                    let key = ObjectKey::of(&claim);
                    if self.caches.claims.get(&key).is_none() {
                        let call = claims.create(&POST, &claim);
                        tolerant(format!("create claim {key}"), call).await?;
                    }
                }
                let pod = pod_of(set, *ordinal, revision);
                info!(pod = %ObjectKey::of(&pod), "creating");
                tolerant("create a pod", pods.create(&POST, &pod)).await?;
            }
            Action::Delete { name, uid } => {
                info!(namespace, pod = name, "deleting");
                let preconditions = Some(Preconditions { uid: Some(uid.clone()), resource_version: None });
                let params = DeleteParams { preconditions, ..DeleteParams::background() };
                tolerant(format!("delete pod {name}"), pods.delete(name, &params)).await?;
            }
        }
        Ok(())
    }
}

impl Reconcile for StatefulSets {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        Ok(self.caches.stateful_sets.keys())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let Some(set) = self.caches.stateful_sets.get(key) else { return Ok(Next::Done) };
        let revision = revision(&set);
        let observed = self.observe(key, &set, &revision, self.clock.now());
        for action in plan::plan(&set, &observed) {
            self.execute(&set, &revision, &action).await?;
        }
        let status = status(&set, &observed, &revision);
        if set.status.as_ref() != Some(&status) {
            let api: Api<StatefulSet> = Api::namespaced(self.client.clone(), key.namespace_or_empty());
            let patch = Patch::Merge(json!({ "status": status }));
            let call = api.patch_status(&key.name, &PATCH, &patch);
            tolerant("write the status of a stateful set", call).await?;
        }
        Ok(observed.look_again.map_or(Next::Done, Next::After))
    }
}
