//! The controller of works.

use std::time::Duration;

use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use pilothouse_crds::{
    Condition, ConditionStatus, ManifestWork, ManifestWorkStatus, is_condition_true, set_condition,
};
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use pilothouse_work::{Engine, Removal, Work};
use serde_json::json;
use tracing::{debug, info};

use crate::error::Error;
use crate::metrics::{Metrics, Outcome};

/// Keeps a work until everything it applied is gone.
const FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";

/// How soon to look again when somebody else wrote in between.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// How soon to try a manifest again that the API server refused. What it waits for may be of a kind that nobody watches.
const TRY_AGAIN: Duration = Duration::from_secs(2);

pub(crate) struct Works {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) namespace: String,
    pub(crate) works: Informer<ManifestWork>,
    pub(crate) engine: Engine,
    pub(crate) metrics: Metrics,
}

// === impl Works ===

impl Reconcile for Works {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        Ok(self.works.keys())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        match self.pass(key).await {
            Ok(next) => Ok(next),
            Err(error) if error.is_missing() => Ok(Next::Done),
            Err(error) if error.is_conflict() => Ok(Next::After(LOOK_AGAIN)),
            Err(error) => {
                self.metrics.pass(Outcome::Failed);
                Err(error.into())
            }
        }
    }
}

impl Works {
    async fn pass(&self, key: &ObjectKey) -> Result<Next, Error> {
        // The cache holds no manifests: they are large, and some are secret.
        let found = self.api().get_opt(&key.name).await;
        let Some(work) = found.map_err(|error| Error::cluster("show", describe(key), error))? else {
            return Ok(Next::Done);
        };
        if work.metadata.deletion_timestamp.is_some() {
            return self.remove(key, work).await;
        }
        let work = self.claim(key, work).await?;
        let before = work.status.clone().unwrap_or_default();
        let wanted = Work {
            name: key.name.clone(),
            generation: work.metadata.generation.unwrap_or_default(),
            labels: work.labels().clone(),
            spec: work.spec.clone().into(),
            previous: None,
        };
        let applied = self.engine.apply(&wanted, &before).await;
        let status = applied.map_err(|source| Error::Work { work: key.to_string(), source })?;
        let complete = is_condition_true(&status.conditions, "Applied");
        self.metrics.pass(if complete { Outcome::Applied } else { Outcome::Incomplete });
        self.write_status(key, work, status).await?;
        Ok(if complete { Next::Done } else { Next::After(TRY_AGAIN) })
    }

    async fn remove(&self, key: &ObjectKey, work: ManifestWork) -> Result<Next, Error> {
        if !work.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(Next::Done);
        }
        let removal = self.engine.remove(&key.name).await;
        match removal.map_err(|source| Error::Work { work: key.to_string(), source })? {
            Removal::Done => {
                let others: Vec<_> =
                    work.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER).cloned().collect();
                self.set_finalizers(key, &work, others).await?;
                self.metrics.pass(Outcome::Removed);
                info!(work = %key, "removed");
            }
            Removal::Waiting(left) => {
                let names: Vec<_> =
                    left.iter().map(|left| format!("{} {}", left.resource, left.name)).collect();
                debug!(work = %key, left = names.join(", "), "being removed");
                let mut status = work.status.clone().unwrap_or_default();
                let message = format!("waiting for {} to go", names.join(", "));
                let condition = Condition::new(
                    "Deleting",
                    ConditionStatus::True,
                    "WorkDeleting",
                    message,
                    self.clock.now(),
                );
                set_condition(&mut status.conditions, condition.of_generation(work.metadata.generation));
                self.write_status(key, work, status).await?;
            }
        }
        Ok(Next::Done)
    }

    /// Puts our finalizer on the work before anything of it is applied.
    async fn claim(&self, key: &ObjectKey, work: ManifestWork) -> Result<ManifestWork, Error> {
        if work.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(work);
        }
        let finalizers = work.finalizers().iter().cloned().chain([FINALIZER.to_owned()]).collect();
        self.set_finalizers(key, &work, finalizers).await
    }

    async fn set_finalizers(
        &self,
        key: &ObjectKey,
        work: &ManifestWork,
        finalizers: Vec<String>,
    ) -> Result<ManifestWork, Error> {
        let patch = json!({
            "metadata": { "finalizers": finalizers, "resourceVersion": work.metadata.resource_version },
        });
        let patched = self.api().patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.map_err(|error| Error::cluster("change", describe(key), error))
    }

    async fn write_status(
        &self,
        key: &ObjectKey,
        mut work: ManifestWork,
        status: ManifestWorkStatus,
    ) -> Result<(), Error> {
        if work.status.as_ref() == Some(&status) {
            return Ok(());
        }
        work.status = Some(status);
        self.api()
            .replace_status(&key.name, &PostParams::default(), &work)
            .await
            .map_err(|error| Error::cluster("change the status of", describe(key), error))?;
        Ok(())
    }

    fn api(&self) -> Api<ManifestWork> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

fn describe(key: &ObjectKey) -> String {
    format!("ManifestWork {key}")
}
