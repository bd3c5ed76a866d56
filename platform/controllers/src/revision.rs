//! The history of a pod template, as `kubectl rollout` reads it.
//!
//! Every template that a daemon set or stateful set had is kept as a ControllerRevision: its number says in which
//! order they came, and its content is the patch that brings the template back. Going back is applying that patch; the
//! revision is then found again by its content, and becomes the newest.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::api::{DeleteParams, Patch, Preconditions};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};

use crate::calls::{CallError, PATCH, POST, tolerant};
use crate::ownership::{controller_reference, is_controlled_by};
use crate::template;
use crate::watches::Caches;

/// The label with a revision's name, on pods; with its hash, on revisions.
pub(crate) const HASH: &str = "controller-revision-hash";

/// The templates of one object.
#[derive(Debug)]
pub(crate) struct History {
    /// Oldest first.
    pub(crate) all: Vec<Arc<ControllerRevision>>,
    /// The one whose content is the current template, if it is known.
    pub(crate) current: Option<Arc<ControllerRevision>>,
}

/// What a revision of this template contains.
pub(crate) fn content(template: &PodTemplateSpec) -> Value {
    let mut template = serde_json::to_value(template).unwrap_or_default();
    if let Some(fields) = template.as_object_mut() {
        // A patch with it replaces the template as a whole.
        fields.insert("$patch".to_owned(), json!("replace"));
    }
    json!({ "spec": { "template": template } })
}

/// The template that a revision contains.
pub(crate) fn template_of(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let mut template = revision.data.as_ref()?.0.get("spec")?.get("template")?.clone();
    template.as_object_mut()?.remove("$patch");
    serde_json::from_value(template).ok()
}

fn same(revision: &ControllerRevision, template: &PodTemplateSpec) -> bool {
    // As types, so that empty and absent fields are alike, as far as they can be.
    template_of(revision).as_ref() == Some(template)
}

pub(crate) fn name(revision: &ControllerRevision) -> &str {
    revision.metadata.name.as_deref().unwrap_or_default()
}

/// The hash of a revision, which is the end of its name.
pub(crate) fn hash(revision: &ControllerRevision) -> &str {
    let labels = revision.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(HASH)).map(String::as_str).unwrap_or_default()
}

impl History {
    pub(crate) fn of(caches: &Caches, owner: &ObjectMeta, template: &PodTemplateSpec) -> Self {
        let namespace = owner.namespace.as_deref().unwrap_or_default();
        let uid = owner.uid.as_deref().unwrap_or_default();
        let mut all = caches.revisions.list_in(namespace);
        all.retain(|revision| is_controlled_by(&revision.metadata, uid));
        Self::from(all, template)
    }

    fn from(mut all: Vec<Arc<ControllerRevision>>, template: &PodTemplateSpec) -> Self {
        all.sort_by_cached_key(|revision| (revision.revision, revision.metadata.name.clone()));
        let current = all.iter().rev().find(|revision| same(revision, template)).cloned();
        Self { all, current }
    }

    fn newest(&self) -> i64 {
        self.all.last().map_or(0, |newest| newest.revision)
    }

    /// Makes sure that the current template is in the history, as its newest. `None` if somebody was faster: the event
    /// follows.
    pub(crate) async fn ensure<K: Resource<DynamicType = ()>>(
        &self,
        client: &Client,
        owner: &K,
        template: &PodTemplateSpec,
        collisions: i32,
    ) -> Result<Option<Arc<ControllerRevision>>, CallError> {
        let namespace = owner.meta().namespace.as_deref().unwrap_or_default();
        let api: Api<ControllerRevision> = Api::namespaced(client.clone(), namespace);
        if let Some(current) = &self.current {
            if current.revision >= self.newest() {
                return Ok(Some(current.clone()));
            }
            // An old template is wanted again.
            let patch = Patch::Merge(json!({
                "metadata": { "resourceVersion": current.metadata.resource_version },
                "revision": self.newest() + 1,
            }));
            let call = api.patch(name(current), &PATCH, &patch);
            return Ok(tolerant("renumber a revision", call).await?.map(Arc::new));
        }
        let revision = made(owner, template, collisions, self.newest() + 1);
        Ok(tolerant("create a revision", api.create(&POST, &revision)).await?.map(Arc::new))
    }

    /// Whether another template has the name that this one would get.
    pub(crate) fn collides<K: Resource<DynamicType = ()>>(
        &self,
        owner: &K,
        template: &PodTemplateSpec,
        collisions: i32,
    ) -> bool {
        let wanted = made(owner, template, collisions, 0).metadata.name;
        self.current.is_none() && self.all.iter().any(|revision| revision.metadata.name == wanted)
    }

    /// Deletes the oldest that nobody uses, beyond so many.
    pub(crate) async fn tidy(
        &self,
        client: &Client,
        namespace: &str,
        limit: i32,
        is_used: impl Fn(&ControllerRevision) -> bool,
    ) -> Result<(), CallError> {
        let api: Api<ControllerRevision> = Api::namespaced(client.clone(), namespace);
        for revision in self.surplus(limit, is_used) {
            let uid = revision.metadata.uid.clone();
            let preconditions = Some(Preconditions { uid, resource_version: None });
            let params = DeleteParams { preconditions, ..DeleteParams::background() };
            let call = api.delete(name(revision), &params);
            tolerant(format!("delete revision {}", name(revision)), call).await?;
        }
        Ok(())
    }

    fn surplus(
        &self,
        limit: i32,
        is_used: impl Fn(&ControllerRevision) -> bool,
    ) -> Vec<&Arc<ControllerRevision>> {
        let is_current = |revision: &ControllerRevision| {
            self.current.as_ref().is_some_and(|current| current.metadata.uid == revision.metadata.uid)
        };
        let unused: Vec<_> =
            self.all.iter().filter(|revision| !is_current(revision) && !is_used(revision)).collect();
        let count = unused.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
        unused.into_iter().take(count).collect()
    }
}

fn made<K: Resource<DynamicType = ()>>(
    owner: &K,
    template: &PodTemplateSpec,
    collisions: i32,
    revision: i64,
) -> ControllerRevision {
    let hash = match collisions {
        0 => template::hash(template),
        count => template::hash_text(&format!("{}{count}", template::hash(template))),
    };
    let metadata = owner.meta();
    let mut labels = template.metadata.as_ref().and_then(|given| given.labels.clone()).unwrap_or_default();
    labels.insert(HASH.to_owned(), hash.clone());
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", metadata.name.as_deref().unwrap_or_default())),
            namespace: metadata.namespace.clone(),
            labels: Some(labels),
            annotations: metadata.annotations.clone().map(|mut annotations| {
                annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
                annotations
            }),
            owner_references: Some(vec![controller_reference(owner)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(content(template))),
        revision,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::DaemonSet;

    use super::*;

    fn template(image: &str) -> PodTemplateSpec {
        let value = json!({ "spec": { "containers": [{ "name": "main", "image": image }] } });
        serde_json::from_value(value).unwrap()
    }

    fn revision(image: &str, number: i64) -> Arc<ControllerRevision> {
        let mut revision = made(&DaemonSet::default(), &template(image), 0, number);
        revision.metadata.uid = Some(image.to_owned());
        Arc::new(revision)
    }

    #[test]
    fn template_is_found_again_by_its_content() {
        let all = vec![revision("c", 3), revision("a", 1), revision("b", 2)];
        let history = History::from(all, &template("b"));
        assert_eq!(history.current.as_ref().map(|current| current.revision), Some(2));
        assert_eq!(history.newest(), 3);
        assert_eq!(template_of(&history.all[0]), Some(template("a")));
        assert_eq!(history.all[0].data.as_ref().unwrap().0["spec"]["template"]["$patch"], "replace");
        let surplus = |limit, used: &'static str| -> Vec<String> {
            let used = move |revision: &ControllerRevision| revision.metadata.uid.as_deref() == Some(used);
            history.surplus(limit, used).iter().map(|r| r.metadata.uid.clone().unwrap()).collect()
        };
        assert_eq!(surplus(0, "c"), ["a"]);
        assert_eq!(surplus(1, ""), ["a"]);
        assert_eq!(surplus(2, ""), Vec::<String>::new());
        assert!(!history.collides(&DaemonSet::default(), &template("d"), 0));
    }
}
