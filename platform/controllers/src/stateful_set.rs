//! Pods with a name of their own, and the claims that belong to it.
//!
//! Everything has a name that follows from the set and an ordinal, so a stale cache can make nothing twice. What is done
//! next is decided in `plan`: missing pods are made in order, surplus ones removed from the end, and pods of an older
//! template replaced one by one from the end. Templates are kept as revisions: below the partition of an update pods are
//! still made from the one before.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{
    ControllerRevision, StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetStatus,
};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodSpec, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, Patch, Preconditions};
use kube::{Api, Client};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use serde_json::json;
use tracing::info;

use crate::adoption::{self, Terms};
use crate::calls::{CallError, PATCH, POST, tolerant};
use crate::events::{Kind, Recorder};
use crate::ownership::{
    controller_reference, correlation, is_controlled_by, is_deleting, owner_reference, selects,
};
use crate::revision::{self, History};
use crate::share;
use crate::watches::Caches;

mod plan;
#[cfg(test)]
mod tests;

use plan::{Action, Observed};

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

pub(crate) struct StatefulSets {
    client: Client,
    caches: Caches,
    clock: Clock,
    recorder: Recorder,
}

/// The templates that pods are made of.
struct Revisions {
    /// What the set asks for.
    update: Arc<ControllerRevision>,
    /// What it asked for before, while the update is under way.
    current: Arc<ControllerRevision>,
}

fn name(set: &StatefulSet) -> &str {
    set.metadata.name.as_deref().unwrap_or_default()
}

fn revision_of(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(revision::HASH).map(String::as_str)
}

/// Which of the set's pods this is.
fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    let rest = pod.metadata.name.as_deref()?.strip_prefix(name(set))?.strip_prefix('-')?;
    rest.parse().ok().filter(|ordinal: &i32| *ordinal >= 0 && ordinal.to_string() == rest)
}

/// The first ordinal.
fn first(set: &StatefulSet) -> i32 {
    let ordinals = set.spec.as_ref().and_then(|spec| spec.ordinals.as_ref());
    ordinals.and_then(|ordinals| ordinals.start).unwrap_or(0)
}

/// Pods below this ordinal keep the template that they have.
fn partition(set: &StatefulSet) -> i32 {
    let strategy = set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
    let partition = strategy.and_then(|strategy| strategy.rolling_update.as_ref()?.partition);
    first(set) + partition.unwrap_or(0)
}

/// How many pods an update may take away at once.
fn max_unavailable(set: &StatefulSet) -> usize {
    let spec = set.spec.as_ref();
    let strategy = spec.and_then(|spec| spec.update_strategy.as_ref()?.rolling_update.as_ref());
    let wanted = spec.and_then(|spec| spec.replicas).unwrap_or(1);
    let number = strategy.and_then(|strategy| strategy.max_unavailable.as_ref());
    number.map_or(1, |number| usize::try_from(share::of(number, wanted, false)).unwrap_or(1).max(1))
}

/// The pod of an ordinal.
fn pod_of(set: &StatefulSet, ordinal: i32, template: PodTemplateSpec, revision: &str) -> Pod {
    let spec = set.spec.clone().unwrap_or_default();
    let pod = format!("{}-{ordinal}", name(set));
    let given = template.metadata.unwrap_or_default();
    let mut labels = given.labels.unwrap_or_default();
    labels.insert(POD_NAME.to_owned(), pod.clone());
    labels.insert(POD_INDEX.to_owned(), ordinal.to_string());
    labels.insert(revision::HASH.to_owned(), revision.to_owned());
    let mut annotations = given.annotations.unwrap_or_default();
    annotations.extend(correlation(&set.metadata));
    let mut pod_spec: PodSpec = template.spec.unwrap_or_default();
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

/// Whether the set's claims go when this happens, rather than stay.
fn deletes_claims(
    set: &StatefulSet,
    when: fn(&StatefulSetPersistentVolumeClaimRetentionPolicy) -> Option<&String>,
) -> bool {
    let spec = set.spec.as_ref();
    let policy = spec.and_then(|spec| spec.persistent_volume_claim_retention_policy.as_ref());
    policy.and_then(when).is_some_and(|policy| policy == "Delete")
}

/// Who takes a claim of the set with it: nobody, the set, or the pod that is about to go for good.
fn claim_owners(set: &StatefulSet, going: Option<&Pod>) -> Vec<OwnerReference> {
    match going {
        Some(pod) if deletes_claims(set, |policy| policy.when_scaled.as_ref()) => vec![owner_reference(pod)],
        _ if deletes_claims(set, |policy| policy.when_deleted.as_ref()) => vec![owner_reference(set)],
        _ => Vec::new(),
    }
}

/// The claims of an ordinal. They outlive the pod, and the set too unless it says otherwise.
fn claims_of(set: &StatefulSet, ordinal: i32) -> Vec<PersistentVolumeClaim> {
    let Some(spec) = &set.spec else { return Vec::new() };
    let owners = Some(claim_owners(set, None)).filter(|owners| !owners.is_empty());
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
                owner_references: owners.clone(),
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
fn status(set: &StatefulSet, observed: &Observed, revisions: (&str, &str)) -> StatefulSetStatus {
    let (revision, current) = revisions;
    let before = set.status.as_ref();
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let updated = number(observed.pods.values().filter(|pod| pod.updated).count());
    let all = number(observed.pods.len());
    let ready = number(observed.pods.values().filter(|pod| pod.ready).count());
    let done = updated == all && all == wanted && ready == all;
    let current = if done { revision } else { current }.to_owned();
    let on_current = observed.pods.values().filter(|pod| pod.revision == current).count();
    StatefulSetStatus {
        replicas: all,
        ready_replicas: Some(ready),
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
    pub(crate) fn new(client: Client, caches: Caches, clock: Clock, recorder: Recorder) -> Self {
        Self { client, caches, clock, recorder }
    }

    /// The set's pods, after those have changed hands that have to.
    async fn pods_of(&self, key: &ObjectKey, set: &StatefulSet) -> Result<Vec<Arc<Pod>>, CallError> {
        let uid = set.metadata.uid.clone().unwrap_or_default();
        let selector = set.spec.as_ref().map(|spec| spec.selector.clone()).unwrap_or_default();
        let mut pods = self.caches.pods.list_in(key.namespace_or_empty());
        let fits = |pod: &Pod| ordinal(set, pod).is_some();
        let terms = Terms { fits: &fits, finalizer: None };
        adoption::claim(&self.client, set, &selector, &pods, terms).await?;
        pods.retain(|pod| {
            is_controlled_by(&pod.metadata, &uid) && selects(&selector, pod.metadata.labels.as_ref())
        });
        Ok(pods)
    }

    /// The revisions of the set. `None` if one is only just being made, which wakes the set again.
    async fn revisions(&self, set: &StatefulSet, history: &History) -> Result<Option<Revisions>, CallError> {
        let Some(spec) = &set.spec else { return Ok(None) };
        let status = set.status.as_ref();
        let mut collisions = status.and_then(|status| status.collision_count).unwrap_or(0);
        while history.collides(set, &spec.template, collisions) {
            collisions += 1;
        }
        let update = match &history.current {
            Some(update) if is_deleting(&set.metadata) => Some(update.clone()),
            None if is_deleting(&set.metadata) => None,
            _ => history.ensure(&self.client, set, &spec.template, collisions).await?,
        };
        let Some(update) = update else { return Ok(None) };
        let named = status.and_then(|status| status.current_revision.as_deref());
        let current = history.all.iter().find(|found| Some(revision::name(found)) == named).cloned();
        Ok(Some(Revisions { current: current.unwrap_or_else(|| update.clone()), update }))
    }

    async fn create(&self, set: &StatefulSet, ordinal: i32, revisions: &Revisions) -> Result<(), CallError> {
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let of = if ordinal < partition(set) { &revisions.current } else { &revisions.update };
        let template = revision::template_of(of).unwrap_or_default();
        let pod = pod_of(set, ordinal, template, revision::name(of));
        let (set_name, pod_name) = (name(set), pod.metadata.name.clone().unwrap_or_default());
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
        for claim in claims_of(set, ordinal) {
            let key = ObjectKey::of(&claim);
            if self.caches.claims.get(&key).is_some() {
                continue;
            }
            let call = claims.create(&POST, &claim);
            if tolerant(format!("create claim {key}"), call).await?.is_some() {
                let claim = &key.name;
                let message =
                    format!("create Claim {claim} Pod {pod_name} in StatefulSet {set_name} success");
                self.recorder.record(set, Kind::Normal, "SuccessfulCreate", message);
            }
        }
        info!(pod = %ObjectKey::of(&pod), "creating");
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        match tolerant("create a pod", pods.create(&POST, &pod)).await {
            Ok(Some(_)) => {
                let message = format!("create Pod {pod_name} in StatefulSet {set_name} successful");
                self.recorder.record(set, Kind::Normal, "SuccessfulCreate", message);
                Ok(())
            }
            Ok(None) => Ok(()),
            Err(error) => {
                let message =
                    format!("create Pod {pod_name} in StatefulSet {set_name} failed error: {error}");
                self.recorder.record(set, Kind::Warning, "FailedCreate", message);
                Err(error)
            }
        }
    }

    async fn delete(&self, set: &StatefulSet, pod: &str, uid: &str) -> Result<(), CallError> {
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        info!(namespace, pod, "deleting");
        let preconditions = Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None });
        let params = DeleteParams { preconditions, ..DeleteParams::background() };
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        if tolerant(format!("delete pod {pod}"), pods.delete(pod, &params)).await?.is_some() {
            let message = format!("delete Pod {pod} in StatefulSet {} successful", name(set));
            self.recorder.record(set, Kind::Normal, "SuccessfulDelete", message);
        }
        Ok(())
    }

    /// Gives the claims of a pod the owners that the set's policy asks for.
    async fn own_claims(&self, set: &StatefulSet, pod: &Pod) -> Result<(), CallError> {
        let Some(ordinal) = ordinal(set, pod) else { return Ok(()) };
        let end = first(set) + set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
        let going = !(first(set)..end).contains(&ordinal) && !is_deleting(&set.metadata);
        let wanted = claim_owners(set, going.then_some(pod));
        let (set_uid, pod_uid) = (set.metadata.uid.as_deref(), pod.metadata.uid.as_deref());
        for claim in claims_of(set, ordinal) {
            let key = ObjectKey::of(&claim);
            let Some(found) = self.caches.claims.get(&key) else { continue };
            let before = found.metadata.owner_references.clone().unwrap_or_default();
            // Others may own it too.
            let ours = |owner: &OwnerReference| [set_uid, pod_uid].contains(&Some(owner.uid.as_str()));
            let mut owners: Vec<_> = before.iter().filter(|owner| !ours(owner)).cloned().collect();
            owners.extend(wanted.clone());
            if owners == before || is_deleting(&found.metadata) {
                continue;
            }
            let version = &found.metadata.resource_version;
            let patch = Patch::Merge(
                json!({ "metadata": { "resourceVersion": version, "ownerReferences": owners } }),
            );
            let api: Api<PersistentVolumeClaim> =
                Api::namespaced(self.client.clone(), key.namespace_or_empty());
            tolerant(format!("give claim {key} its owners"), api.patch(&key.name, &PATCH, &patch)).await?;
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
        let Some(spec) = &set.spec else { return Ok(Next::Done) };
        let history = History::of(&self.caches, &set.metadata, &spec.template);
        let Some(revisions) = self.revisions(&set, &history).await? else { return Ok(Next::Done) };
        let (update, current) = (revision::name(&revisions.update), revision::name(&revisions.current));
        let pods = self.pods_of(key, &set).await?;
        let observed = Observed::of(&set, &pods, update, self.clock.now());
        if spec.volume_claim_templates.is_some() {
            for pod in &pods {
                self.own_claims(&set, pod).await?;
            }
        }
        for action in plan::plan(&set, &observed) {
            match &action {
                Action::Create(ordinal) => self.create(&set, *ordinal, &revisions).await?,
                Action::Delete { name, uid } => self.delete(&set, name, uid).await?,
            }
        }
        let status = status(&set, &observed, (update, current));
        if set.status.as_ref() != Some(&status) {
            let api: Api<StatefulSet> = Api::namespaced(self.client.clone(), key.namespace_or_empty());
            let patch = Patch::Merge(json!({ "status": status }));
            let call = api.patch_status(&key.name, &PATCH, &patch);
            tolerant("write the status of a stateful set", call).await?;
        }
        let used = |found: &ControllerRevision| {
            let name = revision::name(found);
            name == current || pods.iter().any(|pod| revision_of(pod) == Some(name))
        };
        let limit = spec.revision_history_limit.unwrap_or(10);
        history.tidy(&self.client, key.namespace_or_empty(), limit, used).await?;
        Ok(observed.look_again.map_or(Next::Done, Next::After))
    }
}
