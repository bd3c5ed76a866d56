//! Pods that run until their work is done.
//!
//! No success may be lost, not even that of a pod that is deleted the moment it ends: every pod of a job is held by a finalizer
//! until the job's status knows about it (`plan`). Pods have random names, so before any is made the job and its
//! pods are read afresh; a cache that is behind is left to catch up, and its event wakes the job again.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use jiff::SignedDuration;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, Preconditions};
use kube::{Api, Client};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use serde_json::json;
use tracing::{debug, info};

use crate::adoption::{self, Terms};
use crate::calls::{CallError, PATCH, POST, required, tolerant};
use crate::events::{Kind, Recorder};
use crate::fresh;
use crate::ownership::{controller_of, is_controlled_by, is_deleting, selects};
use crate::watches::Caches;

mod indexes;
mod plan;
mod pods;
#[cfg(test)]
mod tests;

use plan::Plan;
pub(crate) use plan::finished;

/// Holds a pod until its end was counted.
pub(crate) const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// Which completion a pod works on.
pub(crate) const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// How often that completion had failed when the pod was made.
pub(crate) const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";

/// Jobs of another manager are none of ours.
const MANAGER: &str = "kubernetes.io/job-controller";

/// How many pods are created, deleted or released at once.
const CONCURRENCY: usize = 8;

pub(crate) struct Jobs {
    client: Client,
    caches: Caches,
    clock: Clock,
    recorder: Recorder,
}

/// The job that a pod is held for.
pub(crate) fn job_of(pod: &Pod) -> Option<ObjectKey> {
    let owner = controller_of(&pod.metadata)?;
    let is_job = owner.kind == "Job" && owner.api_version.starts_with("batch/");
    is_job.then(|| ObjectKey { namespace: pod.metadata.namespace.clone(), name: owner.name.clone() })
}

fn is_ours(job: &Job) -> bool {
    let manager = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref());
    manager.is_none_or(|manager| manager == MANAGER)
}

// === impl Jobs ===

impl Jobs {
    pub(crate) fn new(client: Client, caches: Caches, clock: Clock, recorder: Recorder) -> Self {
        Self { client, caches, clock, recorder }
    }

    fn pods_of(&self, key: &ObjectKey) -> Vec<Arc<Pod>> {
        let mut pods = self.caches.pods.list_in(key.namespace_or_empty());
        pods.retain(|pod| job_of(pod).as_ref() == Some(key));
        pods
    }

    /// The job's pods, after those have changed hands that have to.
    async fn claimed(
        &self,
        key: &ObjectKey,
        job: &Job,
        mut own: Vec<Arc<Pod>>,
    ) -> Result<Vec<Arc<Pod>>, CallError> {
        let Some(selector) = job.spec.as_ref().and_then(|spec| spec.selector.as_ref()) else {
            return Ok(own);
        };
        let pods = self.caches.pods.list_in(key.namespace_or_empty());
        let terms = Terms { fits: &|_| true, finalizer: Some(TRACKING) };
        adoption::claim(&self.client, job, selector, &pods, terms).await?;
        // One that is on its way out stays until it was counted.
        own.retain(|pod| is_deleting(&pod.metadata) || selects(selector, pod.metadata.labels.as_ref()));
        Ok(own)
    }

    /// Whether the caches show what the server has. If not, an event is on its way.
    async fn is_current(&self, key: &ObjectKey, job: &Job, known: &[Arc<Pod>]) -> Result<bool, CallError> {
        let jobs: Api<Job> = Api::namespaced(self.client.clone(), key.namespace_or_empty());
        let fresh = required(format!("read job {key}"), jobs.get_metadata_opt(&key.name)).await?;
        let fresh = fresh.and_then(|fresh| fresh.metadata.resource_version);
        if fresh != job.metadata.resource_version {
            return Ok(false);
        }
        let uid = job.metadata.uid.as_deref().unwrap_or_default();
        let selector = job.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        fresh::pods_are_known(&self.client, key.namespace_or_empty(), selector, uid, known).await
    }

    async fn execute(&self, job: &Job, plan: &Plan) -> Result<(), CallError> {
        let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        stream::iter(plan.delete.clone())
            .map(|pod| {
                let api = &api;
                async move {
                    let name = pod.metadata.name.as_deref().unwrap_or_default();
                    let uid = pod.metadata.uid.clone();
                    let preconditions = Some(Preconditions { uid, resource_version: None });
                    let params = DeleteParams { preconditions, ..DeleteParams::background() };
                    let call = api.delete(name, &params);
                    if tolerant(format!("delete pod {name}"), call).await?.is_some() {
                        let message = format!("Deleted pod: {name}");
                        self.recorder.record(job, Kind::Normal, "SuccessfulDelete", message);
                    }
                    Ok::<_, CallError>(())
                }
            })
            .buffer_unordered(CONCURRENCY)
            .try_for_each(|()| async { Ok(()) })
            .await?;
        stream::iter(plan.create.clone())
            .map(|order| {
                let api = &api;
                async move {
                    let pod = pods::pod_of(job, order);
                    match tolerant("create a pod", api.create(&POST, &pod)).await {
                        Ok(Some(made)) => {
                            let message = format!("Created pod: {}", made.metadata.name.unwrap_or_default());
                            self.recorder.record(job, Kind::Normal, "SuccessfulCreate", message);
                            Ok(())
                        }
                        Ok(None) => Ok(()),
                        Err(error) => {
                            let message = format!("Error creating: {error}");
                            self.recorder.record(job, Kind::Warning, "FailedCreate", message);
                            Err(error)
                        }
                    }
                }
            })
            .buffer_unordered(CONCURRENCY)
            .try_for_each(|()| async { Ok(()) })
            .await
    }

    /// Answers whether the status is what was planned.
    async fn write_status(&self, job: &Job, plan: &Plan) -> Result<bool, CallError> {
        if job.status.as_ref() == Some(&plan.status) {
            return Ok(true);
        }
        let name = job.metadata.name.as_deref().unwrap_or_default();
        let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<Job> = Api::namespaced(self.client.clone(), namespace);
        // As a whole, and only over the version that was read: numbers must not be added up twice.
        let job = Job { status: Some(plan.status.clone()), ..job.clone() };
        let call = api.replace_status(name, &POST, &job);
        let written = tolerant("write the status of a job", call).await?.is_some();
        if written {
            for (kind, reason, message) in &plan.events {
                info!(job = name, namespace, reason, message, "job changed");
                self.recorder.record(&job, *kind, reason, message);
            }
        }
        Ok(written)
    }

    async fn release(&self, pods: &[Arc<Pod>]) -> Result<(), CallError> {
        stream::iter(pods.to_vec())
            .map(|pod| async move {
                let key = ObjectKey::of(&*pod);
                let api: Api<Pod> = Api::namespaced(self.client.clone(), key.namespace_or_empty());
                let patch = Patch::Strategic(json!({ "metadata": {
                    "uid": pod.metadata.uid,
                    "$deleteFromPrimitiveList/finalizers": [TRACKING],
                } }));
                tolerant(format!("release pod {key}"), api.patch(&key.name, &PATCH, &patch)).await
            })
            .buffer_unordered(CONCURRENCY)
            .try_for_each(|_| async { Ok(()) })
            .await
    }

    /// A job that is over: nothing changes any more, until it is time to remove it.
    async fn after_the_end(&self, key: &ObjectKey, job: &Job, pods: &[Arc<Pod>]) -> Result<Next, CallError> {
        let held: Vec<_> = pods.iter().filter(|pod| pods::is_tracked(pod)).cloned().collect();
        self.release(&held).await?;
        let seconds = job.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished);
        let since = finished(job).and_then(|(_, since)| since);
        let (Some(seconds), Some(since)) = (seconds, since) else { return Ok(Next::Done) };
        if is_deleting(&job.metadata) {
            return Ok(Next::Done);
        }
        let end = since + SignedDuration::from_secs(i64::from(seconds));
        let rest = Duration::try_from(end.duration_since(self.clock.now())).unwrap_or_default();
        if !rest.is_zero() {
            return Ok(Next::After(rest));
        }
        info!(job = %key, "removing a job whose time is over");
        let preconditions = Preconditions {
            uid: job.metadata.uid.clone(),
            resource_version: job.metadata.resource_version.clone(),
        };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::foreground() };
        let api: Api<Job> = Api::namespaced(self.client.clone(), key.namespace_or_empty());
        tolerant(format!("delete job {key}"), api.delete(&key.name, &params)).await?;
        Ok(Next::Done)
    }

    /// Pods whose job is gone are held for nobody.
    async fn release_orphans(&self, key: &ObjectKey, pods: Vec<Arc<Pod>>) -> Result<(), CallError> {
        let mut orphans = pods;
        orphans.retain(|pod| pods::is_tracked(pod));
        if orphans.is_empty() {
            return Ok(());
        }
        let api: Api<Job> = Api::namespaced(self.client.clone(), key.namespace_or_empty());
        let fresh = required(format!("read job {key}"), api.get_metadata_opt(&key.name)).await?;
        let uid = fresh.and_then(|fresh| fresh.metadata.uid);
        orphans.retain(|pod| uid.as_deref().is_none_or(|uid| !is_controlled_by(&pod.metadata, uid)));
        self.release(&orphans).await
    }
}

impl Reconcile for Jobs {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        let mut keys = self.caches.jobs.keys();
        // Jobs that went while nobody looked.
        let pods = self.caches.pods.list();
        keys.extend(pods.iter().filter(|pod| pods::is_tracked(pod)).filter_map(|pod| job_of(pod)));
        keys.sort();
        keys.dedup();
        Ok(keys)
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let all = self.pods_of(key);
        let Some(job) = self.caches.jobs.get(key) else {
            self.release_orphans(key, all).await?;
            return Ok(Next::Done);
        };
        let uid = job.metadata.uid.clone().unwrap_or_default();
        let (own, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|pod| is_controlled_by(&pod.metadata, &uid));
        self.release_orphans(key, others).await?;
        if !is_ours(&job) {
            return Ok(Next::Done);
        }
        if finished(&job).is_some() {
            return Ok(self.after_the_end(key, &job, &own).await?);
        }
        let own = self.claimed(key, &job, own).await?;
        let plan = plan::plan(&job, &own, self.clock.now());
        if !plan.create.is_empty() || !plan.delete.is_empty() {
            if !self.is_current(key, &job, &own).await? {
                debug!(job = %key, "the cache is behind");
                return Ok(plan.next());
            }
            self.execute(&job, &plan).await?;
        }
        if self.write_status(&job, &plan).await? {
            self.release(&plan.release).await?;
        }
        Ok(plan.next())
    }
}
