//! Claims and volumes are held while somebody uses them.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, Patch};
use kube::{Api, Client};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Next, Reconcile, TaskError};
use serde_json::{Value, json};

use super::Key;
use crate::calls::{CallError, PATCH, required, tolerant};
use crate::ownership::is_deleting;
use crate::pod;
use crate::scheduler::claims_of;
use crate::watches::Caches;

const OF_CLAIM: &str = "kubernetes.io/pvc-protection";
const OF_VOLUME: &str = "kubernetes.io/pv-protection";

pub(crate) struct Protection {
    client: Client,
    caches: Caches,
}

/// What to do about a finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Hold,
    Release,
    Nothing,
}

fn plan(metadata: &ObjectMeta, finalizer: &str, in_use: bool) -> Step {
    let held = metadata.finalizers.iter().flatten().any(|found| found == finalizer);
    match (is_deleting(metadata), held) {
        (false, false) => Step::Hold,
        (true, true) if !in_use => Step::Release,
        _ => Step::Nothing,
    }
}

/// The change of metadata, over the version that was read.
fn patch(metadata: &ObjectMeta, finalizer: &str, step: Step) -> Value {
    let mut finalizers = metadata.finalizers.clone().unwrap_or_default();
    match step {
        Step::Hold => finalizers.push(finalizer.to_owned()),
        _ => finalizers.retain(|found| found != finalizer),
    }
    json!({ "metadata": { "resourceVersion": metadata.resource_version, "finalizers": finalizers } })
}

/// Whether the pod needs the claim: from the moment it has a node until it has ended.
fn uses(pod: &Pod, claim: &ObjectKey) -> bool {
    pod::node_name(pod).is_some() && !pod::is_finished(pod) && claims_of(pod).any(|key| key == *claim)
}

impl Protection {
    pub(crate) fn new(client: Client, caches: Caches) -> Self {
        Self { client, caches }
    }

    async fn look_after_claim(&self, key: &ObjectKey) -> Result<(), CallError> {
        let Some(claim) = self.caches.claims.get(key) else { return Ok(()) };
        let namespace = key.namespace_or_empty();
        let in_use = self.caches.pods.list_in(namespace).iter().any(|pod| uses(pod, key));
        let step = plan(&claim.metadata, OF_CLAIM, in_use);
        if step == Step::Release {
            // A pod that was placed a moment ago must not lose its data to a cache that is behind.
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
            let fresh = required("list pods", pods.list(&ListParams::default())).await?;
            if fresh.items.iter().any(|pod| uses(pod, key)) {
                return Ok(());
            }
        }
        if step != Step::Nothing {
            let api: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
            let patch = Patch::Merge(patch(&claim.metadata, OF_CLAIM, step));
            tolerant(format!("protect claim {key}"), api.patch(&key.name, &PATCH, &patch)).await?;
        }
        Ok(())
    }

    async fn look_after_volume(&self, key: &ObjectKey) -> Result<(), CallError> {
        let Some(volume) = self.caches.volumes.get(key) else { return Ok(()) };
        let bound = volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
        let step = plan(&volume.metadata, OF_VOLUME, bound);
        if step != Step::Nothing {
            let api: Api<PersistentVolume> = Api::all(self.client.clone());
            let patch = Patch::Merge(patch(&volume.metadata, OF_VOLUME, step));
            tolerant(format!("protect volume {key}"), api.patch(&key.name, &PATCH, &patch)).await?;
        }
        Ok(())
    }
}

impl Reconcile for Protection {
    type Key = Key;

    async fn list(&self) -> Result<Vec<Key>, TaskError> {
        let claims = self.caches.claims.keys().into_iter().map(Key::Claim);
        let volumes = self.caches.volumes.keys().into_iter().map(Key::Volume);
        Ok(claims.chain(volumes).collect())
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, TaskError> {
        match key {
            Key::Claim(key) => self.look_after_claim(key).await?,
            Key::Volume(key) => self.look_after_volume(key).await?,
            Key::Class => {}
        }
        Ok(Next::Done)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    #[test]
    fn object_is_held_from_the_start_and_let_go_when_nobody_uses_it() {
        let metadata = |held: bool, deleting: bool| ObjectMeta {
            finalizers: Some(if held { vec!["other".to_owned(), OF_CLAIM.to_owned()] } else { Vec::new() }),
            deletion_timestamp: deleting.then_some(Time(jiff::Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        };
        assert_eq!(plan(&metadata(false, false), OF_CLAIM, false), Step::Hold);
        assert_eq!(plan(&metadata(true, false), OF_CLAIM, false), Step::Nothing);
        assert_eq!(plan(&metadata(true, true), OF_CLAIM, true), Step::Nothing);
        assert_eq!(plan(&metadata(true, true), OF_CLAIM, false), Step::Release);
        assert_eq!(plan(&metadata(false, true), OF_CLAIM, false), Step::Nothing);
        let left = patch(&metadata(true, true), OF_CLAIM, Step::Release);
        assert_eq!(left["metadata"]["finalizers"], json!(["other"]));
    }
}
