//! Namespaces on their way out are emptied.
//!
//! Pods go first, so that nothing runs on without its secrets, network and account; when the last has ended, all the rest.
//! The inventory says what there is to delete, so that a namespace with objects of five resources is not asked about all
//! sixty each time one of them goes. But only the server's own lists say that a namespace is empty: once the inventory knows of
//! nothing more, every resource is listed, and the namespace is finalized if that left nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition, NamespaceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, ListParams, Patch};
use kube::{Api, Client};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use serde_json::json;
use tracing::{debug, info};

use crate::calls::{CallError, PATCH, POST, tolerant};
use crate::discovery::{Resource, Resources};
use crate::inventory::{Inventory, Remaining, full_name};
use crate::metrics::Metrics;
use crate::ownership::is_deleting;
use crate::watches::Caches;

/// When to look again for the resource of a new definition.
const NOT_SERVED_YET: Duration = Duration::from_secs(1);

/// When to look again for what the inventory does not hear of, and what something holds.
const HELD: Duration = Duration::from_secs(5);

/// The finalizer in a namespace's spec that stands for its content.
const KUBERNETES: &str = "kubernetes";

/// What goes first.
const PODS: &str = "pods";

/// How many resources are emptied at once.
const CONCURRENCY: usize = 8;

pub(crate) struct Emptier {
    client: Client,
    caches: Caches,
    inventory: Arc<Inventory>,
    resources: Resources,
    clock: Clock,
    metrics: Metrics,
    /// The uids of namespaces that were let go and that the cache still shows.
    finalized: Mutex<HashMap<ObjectKey, String>>,
}

/// The next thing to do for a namespace that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Delete all objects of these resources, and wait.
    Delete(Vec<String>),
    /// Nothing is known to be left: look at everything, and if nothing is, let the namespace go.
    Everything,
    /// Everything was asked to go already; wait for what is left.
    Wait,
}

// === planning ===

fn plan(remaining: &[Remaining]) -> Step {
    if remaining.is_empty() {
        return Step::Everything;
    }
    let has_pods = remaining.iter().any(|remaining| remaining.resource == PODS);
    let due = remaining
        .iter()
        .filter(|remaining| !has_pods || remaining.resource == PODS)
        .filter(|remaining| remaining.deleting < remaining.objects);
    let due: Vec<_> = due.map(|remaining| remaining.resource.clone()).collect();
    if due.is_empty() { Step::Wait } else { Step::Delete(due) }
}

/// What keeps a namespace, as conditions.
fn conditions(
    remaining: &[Remaining],
    before: &[NamespaceCondition],
    now: Timestamp,
) -> Vec<NamespaceCondition> {
    let mut contents = String::new();
    let mut held: BTreeMap<&str, usize> = BTreeMap::new();
    for Remaining { resource, objects, finalizers, .. } in remaining {
        let separator = if contents.is_empty() { "" } else { ", " };
        // Writing to a string cannot fail.
        let _ = write!(contents, "{separator}{resource} has {objects} resource instances");
        for (finalizer, objects) in finalizers {
            *held.entry(finalizer).or_default() += objects;
        }
    }
    let holders: Vec<_> = held
        .iter()
        .map(|(finalizer, objects)| format!("{finalizer} in {objects} resource instances"))
        .collect();
    let condition = |type_: &str, holds: bool, (yes, no): (&str, &str), message: String| {
        let status = if holds { "True" } else { "False" };
        let message = if holds { message } else { String::new() };
        let earlier = before.iter().find(|earlier| earlier.type_ == type_ && earlier.status == status);
        NamespaceCondition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: Some(if holds { yes } else { no }.to_owned()),
            message: Some(message),
            last_transition_time: earlier
                .and_then(|earlier| earlier.last_transition_time.clone())
                .or(Some(Time(now))),
        }
    };
    vec![
        condition(
            "NamespaceContentRemaining",
            !remaining.is_empty(),
            ("SomeResourcesRemain", "ContentRemoved"),
            format!("Some resources are remaining: {contents}"),
        ),
        condition(
            "NamespaceFinalizersRemaining",
            !held.is_empty(),
            ("SomeFinalizersRemain", "ContentHasNoFinalizers"),
            format!("Some content in the namespace has finalizers remaining: {}", holders.join(", ")),
        ),
    ]
}

fn same(left: &[NamespaceCondition], right: &[NamespaceCondition]) -> bool {
    let facts = |conditions: &[NamespaceCondition]| {
        let mut facts: Vec<_> = conditions
            .iter()
            .map(|condition| (condition.type_.clone(), condition.status.clone(), condition.message.clone()))
            .collect();
        facts.sort();
        facts
    };
    facts(left) == facts(right)
}

// === impl Emptier ===

impl Emptier {
    pub(crate) fn new(
        client: Client,
        caches: Caches,
        inventory: Arc<Inventory>,
        resources: Resources,
        clock: Clock,
        metrics: Metrics,
    ) -> Self {
        Self { client, caches, inventory, resources, clock, metrics, finalized: Mutex::default() }
    }

    /// Deletes what is known to be there.
    async fn delete_known(&self, namespace: &str, names: &[String]) -> Result<(), CallError> {
        let resources = self.resources.all();
        let known: Vec<_> = resources
            .iter()
            .filter(|resource| resource.namespaced && names.contains(&full_name(&resource.api)))
            .cloned()
            .collect();
        stream::iter(known)
            .map(|resource| async move { self.delete_all(namespace, &resource).await })
            .buffer_unordered(CONCURRENCY)
            .try_collect()
            .await
    }

    /// Deletes whatever there may be. Answers how many resources have objects all the same.
    async fn delete_everything(&self, namespace: &str) -> Result<usize, CallError> {
        let resources = self.resources.all();
        let namespaced: Vec<_> = resources.iter().filter(|resource| resource.namespaced).cloned().collect();
        stream::iter(namespaced)
            .map(|resource| async move {
                if !self.has_any(namespace, &resource).await? {
                    return Ok(false);
                }
                self.delete_all(namespace, &resource).await?;
                // Most objects go at once, and nobody tells of those that the inventory does not hear of.
                self.has_any(namespace, &resource).await
            })
            .buffer_unordered(CONCURRENCY)
            .try_fold(0, |left, has| async move { Ok(left + usize::from(has)) })
            .await
    }

    /// Whether the server has objects of a resource.
    async fn has_any(&self, namespace: &str, resource: &Resource) -> Result<bool, CallError> {
        let api = resource.api(&self.client, Some(namespace));
        let one = ListParams::default().limit(1);
        let what = format!("list {}", full_name(&resource.api));
        // `None`: not served any more.
        let list = tolerant(what, api.list(&one)).await?;
        Ok(list.is_some_and(|list| !list.items.is_empty()))
    }

    /// Deletes all objects of one resource.
    async fn delete_all(&self, namespace: &str, resource: &Resource) -> Result<(), CallError> {
        let api = resource.api(&self.client, Some(namespace));
        let name = full_name(&resource.api);
        let params = DeleteParams::background();
        if resource.deletes_collections {
            let all = ListParams::default();
            let call = api.delete_collection(&params, &all);
            tolerant(format!("delete all {name}"), call).await?;
            return Ok(());
        }
        let all = tolerant(format!("list {name}"), api.list(&ListParams::default())).await?;
        for object in all.into_iter().flat_map(|list| list.items) {
            let object = object.metadata.name.unwrap_or_default();
            tolerant(format!("delete {name} {object}"), api.delete(&object, &params)).await?;
        }
        Ok(())
    }

    /// Whether a definition is so new that its resource is not found yet. One that is not served in time never is.
    fn awaits_a_definition(&self) -> bool {
        let served: BTreeSet<_> = self.resources.all().iter().map(|one| full_name(&one.api)).collect();
        let now = self.clock.now();
        let is_new = |created: Option<&Time>| {
            created.is_some_and(|created| now.duration_since(created.0) < SignedDuration::from_secs(30))
        };
        self.caches.definitions.list().iter().any(|definition| {
            let metadata = &definition.metadata;
            is_new(metadata.creation_timestamp.as_ref())
                && metadata.name.as_ref().is_some_and(|name| !served.contains(name))
        })
    }

    async fn finalize(&self, namespace: &Namespace) -> Result<(), CallError> {
        let mut namespace = namespace.clone();
        let name = namespace.metadata.name.clone().unwrap_or_default();
        let spec = namespace.spec.get_or_insert_with(NamespaceSpec::default);
        spec.finalizers.get_or_insert_default().retain(|finalizer| finalizer != KUBERNETES);
        // Whoever else changed it meanwhile does not change that it is empty.
        namespace.metadata.resource_version = None;
        let api: Api<Namespace> = Api::all(self.client.clone());
        let what = format!("finalize namespace {name}");
        let call = api.replace_subresource("finalize", &name, &POST, &namespace);
        if tolerant(what, call).await?.is_some() {
            info!(namespace = name, "namespace is empty");
            self.metrics.namespaces_emptied.inc();
            let uid = namespace.metadata.uid.unwrap_or_default();
            self.finalized().insert(ObjectKey::cluster(name), uid);
        }
        Ok(())
    }

    fn finalized(&self) -> MutexGuard<'_, HashMap<ObjectKey, String>> {
        self.finalized.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn report(&self, namespace: &Namespace, name: &str) -> Result<(), CallError> {
        let before = namespace.status.as_ref().and_then(|status| status.conditions.as_deref());
        let before = before.unwrap_or_default();
        let now = conditions(&self.inventory.remaining(name), before, self.clock.now());
        if same(before, &now) {
            return Ok(());
        }
        let patch = Patch::Merge(json!({ "status": { "conditions": now } }));
        let api: Api<Namespace> = Api::all(self.client.clone());
        let what = format!("report what remains in namespace {name}");
        tolerant(what, api.patch_status(name, &PATCH, &patch)).await?;
        Ok(())
    }
}

impl Reconcile for Emptier {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        let namespaces = self.caches.namespaces.list();
        Ok(namespaces.iter().filter(|n| is_deleting(&n.metadata)).map(|n| ObjectKey::of(&**n)).collect())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let Some(namespace) = self.caches.namespaces.get(key) else {
            self.finalized().remove(key);
            return Ok(Next::Done);
        };
        let finalizers = namespace.spec.iter().flat_map(|spec| spec.finalizers.iter().flatten());
        if !is_deleting(&namespace.metadata) || !finalizers.into_iter().any(|name| name == KUBERNETES) {
            return Ok(Next::Done);
        }
        if self.finalized().get(key) == namespace.metadata.uid.as_ref() {
            // The cache is behind.
            return Ok(Next::Done);
        }
        let remaining = self.inventory.remaining(&key.name);
        let step = plan(&remaining);
        debug!(?step, resources = remaining.len(), "namespace is being deleted");
        match step {
            // Whatever goes, or is held, wakes this again.
            Step::Delete(resources) => {
                self.delete_known(&key.name, &resources).await?;
                Ok(Next::Done)
            }
            Step::Wait => {
                self.report(&namespace, &key.name).await?;
                Ok(Next::Done)
            }
            Step::Everything => {
                // A resource that nobody has heard of yet may have objects all the same.
                if self.awaits_a_definition() {
                    return Ok(Next::After(NOT_SERVED_YET));
                }
                if self.delete_everything(&key.name).await? == 0 {
                    self.finalize(&namespace).await?;
                    return Ok(Next::Done);
                }
                self.report(&namespace, &key.name).await?;
                Ok(Next::After(HELD))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remaining(resource: &str, objects: usize, deleting: usize) -> Remaining {
        let finalizers = (deleting > 0).then(|| ("example.com/hold".to_owned(), deleting));
        let finalizers = finalizers.into_iter().collect();
        Remaining { resource: resource.to_owned(), objects, deleting, finalizers }
    }

    #[test]
    fn pods_go_first_and_nothing_is_asked_twice() {
        let (pods, ending_pods) = (remaining("pods", 2, 1), remaining("pods", 1, 1));
        let (secrets, held) = (remaining("secrets", 2, 1), remaining("secrets", 1, 1));
        let delete = |names: &[&str]| Step::Delete(names.iter().map(|name| (*name).to_owned()).collect());
        for (remaining, expected) in [
            (vec![], Step::Everything),
            (vec![pods, secrets.clone()], delete(&["pods"])),
            (vec![ending_pods, secrets.clone()], Step::Wait),
            (vec![secrets.clone()], delete(&["secrets"])),
            (vec![held.clone()], Step::Wait),
            (vec![held, secrets], delete(&["secrets"])),
        ] {
            assert_eq!(plan(&remaining), expected, "{remaining:?}");
        }
    }

    #[test]
    fn conditions_say_what_remains_and_keep_their_time() {
        let early = Timestamp::UNIX_EPOCH;
        let late: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let left = [remaining("pods", 2, 0), remaining("secrets", 1, 1)];
        let first = conditions(&left, &[], early);
        let second = conditions(&left[..1], &first, late);
        let message = first[0].message.as_deref().unwrap();
        assert_eq!(
            message,
            "Some resources are remaining: pods has 2 resource instances, secrets has 1 resource instances"
        );
        let message = first[1].message.as_deref().unwrap();
        assert!(
            message.ends_with("finalizers remaining: example.com/hold in 1 resource instances"),
            "{message}"
        );
        assert_eq!(second[0].last_transition_time, Some(Time(early)));
        assert_eq!(
            (second[1].status.as_str(), &second[1].last_transition_time),
            ("False", &Some(Time(late)))
        );
        assert!(!same(&first, &second));
    }
}
