//! Pods change hands: an owner takes pods of nobody that it selects, and lets go those that it does not select any more.

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::api::Patch;
use kube::{Api, Client, Resource};
use pilothouse_informer::ObjectKey;
use serde::de::DeserializeOwned;
use serde_json::json;
use tracing::info;

use crate::calls::{CallError, PATCH, required, tolerant};
use crate::ownership::{controller_of, controller_reference, is_controlled_by, is_deleting, selects};
use crate::pod;

/// What is particular to a kind of owner.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    /// Which pods of nobody it may take, beside that it selects them.
    pub(crate) fits: &'a (dyn Fn(&Pod) -> bool + Send + Sync),
    /// What it holds its pods by.
    pub(crate) finalizer: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Take,
    Release,
}

fn change(pod: &Pod, uid: &str, selector: &LabelSelector, fits: &dyn Fn(&Pod) -> bool) -> Option<Change> {
    let wanted = selects(selector, pod.metadata.labels.as_ref());
    let ours = is_controlled_by(&pod.metadata, uid);
    match (wanted, ours) {
        _ if is_deleting(&pod.metadata) => None,
        (true, false) => {
            let free = controller_of(&pod.metadata).is_none() && pod::is_active(pod) && fits(pod);
            free.then_some(Change::Take)
        }
        (false, true) => Some(Change::Release),
        _ => None,
    }
}

/// Takes and lets go among these pods. What changes hands is seen by the next pass.
pub(crate) async fn claim<K>(
    client: &Client,
    owner: &K,
    selector: &LabelSelector,
    pods: &[Arc<Pod>],
    terms: Terms<'_>,
) -> Result<(), CallError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let metadata = owner.meta();
    let uid = metadata.uid.as_deref().unwrap_or_default();
    if is_deleting(metadata) {
        return Ok(());
    }
    let mut asked = None;
    for pod in pods {
        let Some(change) = change(pod, uid, selector, terms.fits) else { continue };
        if change == Change::Take {
            // An owner that the cache still shows may be gone, and another of its name there.
            let lives = match asked {
                Some(lives) => lives,
                None => lives(client, owner).await?,
            };
            asked = Some(lives);
            if !lives {
                continue;
            }
        }
        hand_over(client, owner, pod, change, terms.finalizer).await?;
    }
    Ok(())
}

async fn lives<K>(client: &Client, owner: &K) -> Result<bool, CallError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug,
{
    let metadata = owner.meta();
    let api: Api<K> = Api::namespaced(client.clone(), metadata.namespace.as_deref().unwrap_or_default());
    let name = metadata.name.as_deref().unwrap_or_default();
    let fresh = required(format!("read {name}"), api.get_metadata_opt(name)).await?;
    Ok(fresh.is_some_and(|fresh| fresh.metadata.uid == metadata.uid && !is_deleting(&fresh.metadata)))
}

async fn hand_over<K: Resource<DynamicType = ()>>(
    client: &Client,
    owner: &K,
    pod: &Pod,
    change: Change,
    finalizer: Option<&str>,
) -> Result<(), CallError> {
    let uid = owner.meta().uid.as_deref().unwrap_or_default();
    let key = ObjectKey::of(pod);
    let mut owners: Vec<OwnerReference> = pod.metadata.owner_references.clone().unwrap_or_default();
    let mut finalizers = pod.metadata.finalizers.clone().unwrap_or_default();
    match change {
        Change::Take => {
            owners.push(controller_reference(owner));
            finalizers.extend(finalizer.map(str::to_owned));
        }
        Change::Release => {
            owners.retain(|one| one.uid != uid);
            finalizers.retain(|one| Some(one.as_str()) != finalizer);
        }
    }
    info!(kind = %K::kind(&()), owner = owner.meta().name, pod = %key, ?change, "a pod changes hands");
    let api: Api<Pod> = Api::namespaced(client.clone(), key.namespace_or_empty());
    // Only over the version that was read: two owners may want the same pod.
    let mut metadata = json!({
        "uid": pod.metadata.uid,
        "resourceVersion": pod.metadata.resource_version,
        "ownerReferences": owners,
    });
    if finalizer.is_some() {
        metadata["finalizers"] = json!(finalizers);
    }
    let patch = Patch::Merge(json!({ "metadata": metadata }));
    tolerant(format!("claim pod {key}"), api.patch(&key.name, &PATCH, &patch)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_is_taken_or_let_go_by_its_labels_and_its_owner() {
        let selector: LabelSelector =
            serde_json::from_value(json!({ "matchLabels": { "app": "web" } })).unwrap();
        let pod = |label: &str, owner: Option<&str>, phase: &str| -> Pod {
            let owners: Vec<_> = owner
                .map(|uid| {
                    json!({ "apiVersion": "v1", "kind": "X", "name": "x", "uid": uid, "controller": true })
                })
                .into_iter()
                .collect();
            let metadata = json!({ "labels": { "app": label }, "ownerReferences": owners });
            serde_json::from_value(json!({ "metadata": metadata, "status": { "phase": phase } })).unwrap()
        };
        let decide = |pod: &Pod| change(pod, "me", &selector, &|_| true);
        assert_eq!(decide(&pod("web", None, "Running")), Some(Change::Take));
        assert_eq!(
            change(&pod("web", None, "Running"), "me", &selector, &|_| false),
            None,
            "of another form"
        );
        assert_eq!(decide(&pod("web", None, "Succeeded")), None, "it has ended");
        assert_eq!(decide(&pod("web", Some("you"), "Running")), None, "somebody else's");
        assert_eq!(decide(&pod("web", Some("me"), "Running")), None, "already ours");
        assert_eq!(decide(&pod("db", Some("me"), "Running")), Some(Change::Release));
        assert_eq!(decide(&pod("db", None, "Running")), None);
        let mut ending = pod("db", Some("me"), "Running");
        ending.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(decide(&ending), None, "on its way out");
    }
}
