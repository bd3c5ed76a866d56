//! Where a pod's volumes are, and whether there are any yet.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use pilothouse_informer::ObjectKey;

use crate::ownership::is_deleting;
use crate::placement;
use crate::watches::Caches;

/// Where a claim waits for a pod before it gets its volume.
pub(crate) const FIRST_CONSUMER: &str = "WaitForFirstConsumer";

/// What a pod's claims mean for its place.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    bound: Vec<Arc<PersistentVolume>>,
    /// Claims that get their volume once the pod's node is known.
    pub(super) unbound: Vec<ObjectKey>,
}

/// The claims that a pod uses.
pub(crate) fn claims_of(pod: &Pod) -> impl Iterator<Item = ObjectKey> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(move |volume| {
        let claim = match &volume.persistent_volume_claim {
            Some(source) => source.claim_name.clone(),
            None => volume.ephemeral.as_ref().map(|_| format!("{name}-{}", volume.name))?,
        };
        Some(ObjectKey::namespaced(namespace, claim))
    })
}

/// Whether claims of the class get their volume only when a pod uses them.
pub(crate) fn waits_for_consumer(class: Option<&StorageClass>) -> bool {
    class.and_then(|class| class.volume_binding_mode.as_deref()) == Some(FIRST_CONSUMER)
}

impl Volumes {
    /// What the pod's claims say, or why it cannot be placed with them.
    pub(super) fn of(pod: &Pod, caches: &Caches) -> Result<Self, String> {
        let mut volumes = Self::default();
        for key in claims_of(pod) {
            let Some(claim) = caches.claims.get(&key) else {
                return Err(format!("persistentvolumeclaim \"{}\" not found", key.name));
            };
            if is_deleting(&claim.metadata) {
                return Err(format!("persistentvolumeclaim \"{}\" is being deleted", key.name));
            }
            let spec = claim.spec.as_ref();
            let name = spec.and_then(|spec| spec.volume_name.as_deref()).filter(|name| !name.is_empty());
            match name.and_then(|name| caches.volumes.get(&ObjectKey::cluster(name))) {
                Some(volume) => volumes.bound.push(volume),
                None if name.is_none() && can_wait(&claim, caches) => volumes.unbound.push(key),
                None => return Err("pod has unbound immediate PersistentVolumeClaims".to_owned()),
            }
        }
        Ok(volumes)
    }

    /// Whether all volumes can be used from the node.
    pub(super) fn reach(&self, node: &Node) -> bool {
        self.bound.iter().all(|volume| {
            let affinity =
                volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref()?.required.as_ref());
            affinity.is_none_or(|affinity| placement::selects(affinity, node))
        })
    }
}

fn can_wait(claim: &PersistentVolumeClaim, caches: &Caches) -> bool {
    let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref()).unwrap_or_default();
    waits_for_consumer(caches.storage_classes.get(&ObjectKey::cluster(class)).as_deref())
}
