//! A volume for every claim of the storage class `local`: a folder on the node's disk.
//!
//! The volume's name follows from the claim's uid, so none is made twice. When its claim is gone a volume is `Released`; the
//! kubelet, who owns the disk, then removes the folder and the volume, unless the volume is to be retained. A claim of a
//! class that waits for its first consumer gets its volume when the scheduler has chosen a node for a pod that uses it.
//!
//! A claim that a pod uses and a volume that a claim has are held by finalizers, so that deleting them takes effect only
//! when nobody needs them any more (`protection`).

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{
    HostPathVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Patch;
use kube::{Api, Client};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Next, Reconcile, TaskError};
use serde_json::json;
use tracing::info;

use crate::calls::{CallError, PATCH, POST, required, tolerant};
use crate::events::{Kind, Recorder};
use crate::metrics::Metrics;
use crate::ownership::{CORRELATION, correlation, is_deleting};
use crate::scheduler::{SELECTED_NODE, waits_for_consumer};
use crate::watches::Caches;

/// The storage class that every claim gets that names none.
const CLASS: &str = "local";
const PROVISIONER: &str = "pilothouse.dev/local";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

mod protection;

pub(crate) use protection::Protection;

pub(crate) struct Volumes {
    client: Client,
    caches: Caches,
    root: PathBuf,
    metrics: Metrics,
    recorder: Recorder,
}

/// What a pass is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Claim(ObjectKey),
    Volume(ObjectKey),
    /// The storage class itself.
    Class,
}

/// What a claim needs next.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// A volume of this name.
    MakeVolume(String),
    /// To be told which volume is its own.
    Bind(String),
    /// To be said to be bound.
    SayBound,
    Nothing,
}

// === planning ===

fn plan_claim(claim: &PersistentVolumeClaim, class_is_ours: bool, volume: Option<&PersistentVolume>) -> Step {
    let bound = claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound");
    let named =
        claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).filter(|name| !name.is_empty());
    match (named, volume) {
        _ if is_deleting(&claim.metadata) => Step::Nothing,
        (Some(_), Some(volume)) if !bound && belongs_to(volume, claim) => Step::SayBound,
        (Some(_), _) => Step::Nothing,
        (None, _) if !class_is_ours => Step::Nothing,
        (None, Some(_)) => Step::Bind(volume_name(claim)),
        (None, None) => Step::MakeVolume(volume_name(claim)),
    }
}

/// The phase that a volume should be in.
fn phase(volume: &PersistentVolume, claim: Option<&PersistentVolumeClaim>) -> &'static str {
    let claim_of = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    match (claim_of, claim) {
        (None, _) => "Available",
        (Some(_), Some(claim)) if belongs_to(volume, claim) => "Bound",
        // Somebody reserved it for a claim that is still to come.
        (Some(reference), _) if reference.uid.is_none() => "Available",
        (Some(_), _) => "Released",
    }
}

fn belongs_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    reference.is_some_and(|reference| reference.uid == claim.metadata.uid && reference.uid.is_some())
}

fn volume_name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.metadata.uid.as_deref().unwrap_or_default())
}

/// The class that a claim asks for, by name.
fn class_name(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref()).unwrap_or(CLASS)
}

// === impl Volumes ===

impl Volumes {
    pub(crate) fn new(
        client: Client,
        caches: Caches,
        root: PathBuf,
        metrics: Metrics,
        recorder: Recorder,
    ) -> Self {
        Self { client, caches, root, metrics, recorder }
    }

    /// The claim that a volume is for.
    pub(crate) fn claim_of(volume: &PersistentVolume) -> Option<ObjectKey> {
        let reference = volume.spec.as_ref()?.claim_ref.as_ref()?;
        Some(ObjectKey::namespaced(reference.namespace.clone()?, reference.name.clone()?))
    }

    fn class_is_ours(&self, claim: &PersistentVolumeClaim) -> bool {
        let name = class_name(claim);
        let class = self.caches.storage_classes.get(&ObjectKey::cluster(name));
        class.map_or(name == CLASS, |class| class.provisioner == PROVISIONER)
    }

    /// What becomes of a claim's volume after it: as the class says.
    fn reclaim_policy(&self, claim: &PersistentVolumeClaim) -> String {
        let class = self.caches.storage_classes.get(&ObjectKey::cluster(class_name(claim)));
        class.and_then(|class| class.reclaim_policy.clone()).unwrap_or_else(|| "Delete".to_owned())
    }

    fn volume_for(&self, name: &str, claim: &PersistentVolumeClaim) -> PersistentVolume {
        let spec = claim.spec.clone().unwrap_or_default();
        let mut annotations =
            BTreeMap::from([("pv.kubernetes.io/provisioned-by".to_owned(), PROVISIONER.to_owned())]);
        annotations.extend(correlation(&claim.metadata));
        PersistentVolume {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            spec: Some(PersistentVolumeSpec {
                access_modes: spec.access_modes,
                capacity: spec.resources.and_then(|resources| resources.requests),
                claim_ref: Some(ObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("PersistentVolumeClaim".to_owned()),
                    namespace: claim.metadata.namespace.clone(),
                    name: claim.metadata.name.clone(),
                    uid: claim.metadata.uid.clone(),
                    ..ObjectReference::default()
                }),
                host_path: Some(HostPathVolumeSource {
                    path: self.root.join(name).to_string_lossy().into_owned(),
                    type_: Some("DirectoryOrCreate".to_owned()),
                }),
                persistent_volume_reclaim_policy: Some(self.reclaim_policy(claim)),
                storage_class_name: Some(class_name(claim).to_owned()),
                volume_mode: spec.volume_mode,
                ..PersistentVolumeSpec::default()
            }),
            status: None,
        }
    }

    async fn ensure_class(&self) -> Result<(), CallError> {
        if self.caches.storage_classes.get(&ObjectKey::cluster(CLASS)).is_some() {
            return Ok(());
        }
        let class = StorageClass {
            metadata: ObjectMeta {
                name: Some(CLASS.to_owned()),
                annotations: Some([(DEFAULT_CLASS.to_owned(), "true".to_owned())].into()),
                ..ObjectMeta::default()
            },
            provisioner: PROVISIONER.to_owned(),
            reclaim_policy: Some("Delete".to_owned()),
            volume_binding_mode: Some("Immediate".to_owned()),
            ..StorageClass::default()
        };
        let api: Api<StorageClass> = Api::all(self.client.clone());
        tolerant("create the storage class", api.create(&POST, &class)).await?;
        Ok(())
    }

    async fn look_after_claim(&self, key: &ObjectKey) -> Result<(), CallError> {
        let Some(claim) = self.caches.claims.get(key) else { return Ok(()) };
        let named =
            claim.spec.as_ref().and_then(|spec| spec.volume_name.clone()).filter(|name| !name.is_empty());
        let name = named.unwrap_or_else(|| volume_name(&claim));
        let volume = self.caches.volumes.get(&ObjectKey::cluster(&name));
        let mut step = plan_claim(&claim, self.class_is_ours(&claim), volume.as_deref());
        let class = self.caches.storage_classes.get(&ObjectKey::cluster(class_name(&claim)));
        let chosen = claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(SELECTED_NODE));
        if matches!(step, Step::MakeVolume(_)) && waits_for_consumer(class.as_deref()) && !chosen {
            let message = "waiting for first consumer to be created before binding";
            self.recorder.record(&*claim, Kind::Normal, "WaitForFirstConsumer", message);
            return Ok(());
        }
        self.refuse_expansion(&claim);
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let claims: Api<PersistentVolumeClaim> =
            Api::namespaced(self.client.clone(), key.namespace_or_empty());
        if let Step::MakeVolume(name) = &step {
            // The cached claim has no annotations, and the volume should carry the id of the work.
            let fresh = required(format!("read claim {key}"), claims.get_opt(&key.name)).await?;
            let Some(fresh) = fresh.filter(|fresh| fresh.metadata.uid == claim.metadata.uid) else {
                return Ok(());
            };
            let volume = self.volume_for(name, &fresh);
            let call = volumes.create(&POST, &volume);
            if tolerant(format!("create volume {name}"), call).await?.is_some() {
                let correlation = volume.metadata.annotations.as_ref().and_then(|all| all.get(CORRELATION));
                info!(claim = %key, volume = name, correlation, "volume made");
                self.metrics.volumes_made.inc();
            }
            // Its name is known, so there is no need to wait for the event.
            step = Step::Bind(name.clone());
        }
        if let Step::Bind(name) = &step {
            let patch = Patch::Merge(json!({
                "metadata": { "uid": claim.metadata.uid, "annotations": {
                    "pv.kubernetes.io/bind-completed": "yes",
                    "pv.kubernetes.io/bound-by-controller": "yes",
                    "volume.kubernetes.io/storage-provisioner": PROVISIONER,
                } },
                "spec": { "volumeName": name },
            }));
            let call = claims.patch(&key.name, &PATCH, &patch);
            if tolerant(format!("bind claim {key}"), call).await?.is_some() {
                step = Step::SayBound;
            }
        }
        if step == Step::SayBound {
            let spec = claim.spec.as_ref();
            let patch = Patch::Merge(json!({ "status": {
                "phase": "Bound",
                "accessModes": spec.and_then(|spec| spec.access_modes.clone()),
                "capacity": spec.and_then(|spec| spec.resources.as_ref()?.requests.clone()),
            } }));
            let call = claims.patch_status(&key.name, &PATCH, &patch);
            tolerant(format!("say that claim {key} is bound"), call).await?;
        }
        Ok(())
    }

    /// A folder has no size of its own that could be made larger, and saying nothing would look like waiting.
    fn refuse_expansion(&self, claim: &PersistentVolumeClaim) {
        let storage = |amounts: Option<&BTreeMap<String, Quantity>>| amounts?.get("storage").cloned();
        let asked = claim.spec.as_ref().and_then(|spec| storage(spec.resources.as_ref()?.requests.as_ref()));
        let given = claim.status.as_ref().and_then(|status| storage(status.capacity.as_ref()));
        if let (Some(asked), Some(given)) = (asked, given)
            && asked != given
            && self.class_is_ours(claim)
        {
            let (asked, given) = (asked.0, given.0);
            let message = format!(
                "volumes of class {} keep the size that they were made with: {given} instead of {asked}; \
                 make a new claim to get a larger one",
                class_name(claim)
            );
            self.recorder.record(claim, Kind::Warning, "VolumeResizeFailed", message);
        }
    }

    async fn look_after_volume(&self, key: &ObjectKey) -> Result<(), CallError> {
        let Some(volume) = self.caches.volumes.get(key) else { return Ok(()) };
        let claim_key = Self::claim_of(&volume);
        let mut claim =
            claim_key.as_ref().and_then(|key| self.caches.claims.get(key)).map(|claim| (*claim).clone());
        if let (None, Some(key)) = (&claim, &claim_key) {
            // Releasing a volume loses its content: ask rather than trust a cache that may be behind.
            let api: Api<PersistentVolumeClaim> =
                Api::namespaced(self.client.clone(), key.namespace_or_empty());
            claim = required(format!("read claim {key}"), api.get_opt(&key.name)).await?;
        }
        let wanted = phase(&volume, claim.as_ref());
        let found = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        if found == Some(wanted) || is_deleting(&volume.metadata) {
            return Ok(());
        }
        info!(volume = %key, phase = wanted, "volume changed");
        let api: Api<PersistentVolume> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({ "status": { "phase": wanted } }));
        let call = api.patch_status(&key.name, &PATCH, &patch);
        tolerant(format!("write the phase of volume {key}"), call).await?;
        Ok(())
    }
}

impl Reconcile for Volumes {
    type Key = Key;

    async fn list(&self) -> Result<Vec<Key>, TaskError> {
        let claims = self.caches.claims.keys().into_iter().map(Key::Claim);
        let volumes = self.caches.volumes.keys().into_iter().map(Key::Volume);
        Ok([Key::Class].into_iter().chain(claims).chain(volumes).collect())
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, TaskError> {
        match key {
            Key::Claim(key) => self.look_after_claim(key).await?,
            Key::Volume(key) => self.look_after_volume(key).await?,
            Key::Class => self.ensure_class().await?,
        }
        Ok(Next::Done)
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Claim(key) => write!(formatter, "claim {key}"),
            Self::Volume(key) => write!(formatter, "volume {key}"),
            Self::Class => formatter.write_str("storage class"),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{PersistentVolumeClaimSpec, PersistentVolumeClaimStatus};

    use super::*;

    fn claim(uid: &str, volume: Option<&str>, phase: &str) -> PersistentVolumeClaim {
        PersistentVolumeClaim {
            metadata: ObjectMeta { uid: Some(uid.to_owned()), ..ObjectMeta::default() },
            spec: Some(PersistentVolumeClaimSpec {
                volume_name: volume.map(ToOwned::to_owned),
                ..PersistentVolumeClaimSpec::default()
            }),
            status: Some(PersistentVolumeClaimStatus {
                phase: Some(phase.to_owned()),
                ..PersistentVolumeClaimStatus::default()
            }),
        }
    }

    fn volume(claim: Option<Option<&str>>) -> PersistentVolume {
        let reference = |uid: Option<&str>| ObjectReference {
            uid: uid.map(ToOwned::to_owned),
            ..ObjectReference::default()
        };
        let spec =
            PersistentVolumeSpec { claim_ref: claim.map(reference), ..PersistentVolumeSpec::default() };
        PersistentVolume { spec: Some(spec), ..PersistentVolume::default() }
    }

    #[test]
    fn claim_is_provided_bound_and_then_left_alone() {
        let own = volume(Some(Some("1")));
        for (claim, ours, volume, expected) in [
            (claim("1", None, "Pending"), true, None, Step::MakeVolume("pvc-1".to_owned())),
            (claim("1", None, "Pending"), true, Some(&own), Step::Bind("pvc-1".to_owned())),
            (claim("1", Some("pvc-1"), "Pending"), true, Some(&own), Step::SayBound),
            (claim("1", Some("pvc-1"), "Bound"), true, Some(&own), Step::Nothing),
            (claim("1", None, "Pending"), false, None, Step::Nothing),
            (claim("2", Some("pvc-1"), "Pending"), true, Some(&own), Step::Nothing),
        ] {
            assert_eq!(plan_claim(&claim, ours, volume), expected, "{claim:?}");
        }
    }

    #[test]
    fn volume_is_released_when_its_very_claim_is_gone() {
        let claim = claim("1", None, "Bound");
        assert_eq!(phase(&volume(None), None), "Available");
        assert_eq!(phase(&volume(Some(None)), None), "Available");
        assert_eq!(phase(&volume(Some(Some("1"))), Some(&claim)), "Bound");
        assert_eq!(phase(&volume(Some(Some("1"))), None), "Released");
        assert_eq!(phase(&volume(Some(Some("2"))), Some(&claim)), "Released");
    }
}
