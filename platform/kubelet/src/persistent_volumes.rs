//! Persistent volumes whose claim is gone: their folder is on this node, so removing it is this node's work.

use std::io;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::Api;
use kube::api::{DeleteParams, Preconditions};
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_runtime::{Next, Reconcile, TaskError};
use tracing::info;

use crate::pods::{host_path, is_below};

/// The reconciler: one volume a key.
pub(crate) struct PersistentVolumes {
    pub(crate) client: kube::Client,
    pub(crate) volumes: Informer<PersistentVolume>,
    /// What is not below it is not ours to remove.
    pub(crate) root: PathBuf,
}

impl Reconcile for PersistentVolumes {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        self.volumes.synced().await;
        Ok(self.volumes.keys())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let Some(volume) = self.volumes.get(key) else { return Ok(Next::Done) };
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
        if phase != Some("Released") || policy != Some("Delete") {
            return Ok(Next::Done);
        }
        let Some(path) = host_path(&volume).filter(|path| is_below(path, &self.root)) else {
            return Ok(Next::Done);
        };
        let removing = path.clone();
        match tokio::task::spawn_blocking(move || std::fs::remove_dir_all(removing)).await? {
            Ok(()) => info!(volume = %key, path = %path.display(), "removed a released volume"),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        let preconditions = Preconditions { uid: volume.metadata.uid.clone(), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let api: Api<PersistentVolume> = Api::all(self.client.clone());
        match api.delete(&key.name, &parameters).await {
            Ok(_) => Ok(Next::Done),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Next::Done),
            Err(error) => Err(error.into()),
        }
    }
}
