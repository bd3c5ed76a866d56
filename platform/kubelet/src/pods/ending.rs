//! Ending pods: deleted ones, finished ones, forgotten ones, and all of them when the region stops.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, ResourceExt as _};
use pilothouse_runtime::{Next, TaskError, fault};
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use super::local::Local;
use super::sandbox;
use super::{Pods, record};

/// How long passes that are under way may take to finish before everything is stopped.
const PASSES: Duration = Duration::from_secs(20);

impl Pods {
    /// One pass over a pod that is being deleted.
    pub(super) async fn delete(&self, pod: &Arc<Pod>) -> Result<Next, TaskError> {
        let uid = pod.uid().unwrap_or_default();
        let local = self.locals().get(&uid).cloned();
        if let Some(local) = local {
            let grace =
                pod.metadata.deletion_grace_period_seconds.and_then(|grace| u64::try_from(grace).ok());
            let grace = grace.unwrap_or_else(|| local.record().grace_seconds);
            if let Some(left) = self.end(&local, Duration::from_secs(grace)).await? {
                return Ok(Next::After(left));
            }
            self.report_ended(pod, &local).await?;
            self.forget(&local).await?;
        }
        let api: Api<Pod> =
            Api::namespaced(self.around().client.clone(), &pod.namespace().unwrap_or_default());
        let preconditions = Preconditions { uid: Some(uid), resource_version: None };
        let parameters = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        match api.delete(&pod.name_any(), &parameters).await {
            Ok(_) => Ok(Next::Done),
            // Gone, or replaced by another of its name.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(Next::Done),
            Err(error) => Err(error.into()),
        }
    }

    /// One pass over a pod that has finished: its processes and address go, its logs stay until it is deleted.
    pub(super) async fn rest(&self, pod: &Arc<Pod>) -> Result<Next, TaskError> {
        let local = self.locals().get(&pod.uid().unwrap_or_default()).cloned();
        let Some(local) = local else { return Ok(Next::Done) };
        self.end(&local, Duration::ZERO).await?;
        Ok(Next::Done)
    }

    /// Brings a pod's processes to their end: asked first, killed after `grace`. Answers how much of that is left, or
    /// nothing when they are gone, together with their network.
    pub(super) async fn end(
        &self,
        local: &Arc<Local>,
        grace: Duration,
    ) -> Result<Option<Duration>, TaskError> {
        let (deadline, first) = local.begin_to_end(grace);
        let record = local.record();
        self.inner.referenced.release(&record.uid, &record.key());
        if let Some(sandbox) = local.sandbox() {
            let state = sandbox.state().unwrap_or_default();
            let running = state.containers.iter().filter(|(_, container)| container.is_running());
            let running: Vec<_> = running.map(|(name, _)| name.clone()).collect();
            let left = deadline.saturating_duration_since(Instant::now());
            if !running.is_empty() && !left.is_zero() {
                for container in running.iter().filter(|_| first) {
                    self.note_stopping(local, container);
                    self.ask_to_end(local, &sandbox, container, left).await?;
                }
                return Ok(Some(left));
            }
        }
        if let Some(shim) = record::shim(&local.folder) {
            sandbox::end(shim).await?;
        }
        let (cgroups, uid) = (self.around().cgroups.clone(), record.uid);
        tokio::task::spawn_blocking(move || cgroups.remove_pod(&uid)).await??;
        local.set_sandbox(None);
        if let Some(address) = local.address() {
            if address != self.node_address() {
                let detached = self.around().network.detach(address);
                fault::around(["kubelet.detach.before", "kubelet.detach.after"], detached).await?;
            }
            // Before somebody else may have it: no two records name one address.
            local.update_record(record::Record::forget_network)?;
            self.pool().give_back(address);
        }
        Ok(None)
    }

    /// Removes what is left of a pod whose processes are gone.
    pub(super) async fn forget(&self, local: &Arc<Local>) -> Result<(), TaskError> {
        let record = local.record();
        let folder = local.folder.clone();
        match tokio::task::spawn_blocking(move || std::fs::remove_dir_all(folder)).await? {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        self.locals().remove(&record.uid);
        info!(pod = %record.key(), "removed a pod");
        Ok(())
    }

    /// Stops everything, first the nodes inside pods and then what serves them, and starts nothing any more. What the API
    /// says about the pods stays, and so does what is on disk: the next kubelet starts them again.
    pub(crate) async fn stop(&self) -> io::Result<()> {
        self.inner.stopping.store(true, Ordering::Release);
        if timeout(PASSES, self.inner.waker.at_rest()).await.is_err() {
            warn!("passes over pods take long; stopping beside them");
        }
        for privileged in [true, false] {
            let locals =
                self.all_locals().into_iter().filter(|local| local.record().privileged == privileged);
            let outcomes = join_all(locals.map(|local| async move { self.stop_one(&local).await })).await;
            for outcome in outcomes {
                outcome.map_err(io::Error::other)?;
            }
        }
        Ok(())
    }

    async fn stop_one(&self, local: &Arc<Local>) -> Result<(), TaskError> {
        let grace = Duration::from_secs(local.record().grace_seconds);
        loop {
            // Taken before the look, so that an end in between is not missed.
            let sandbox = local.sandbox();
            let Some(left) = self.end(local, grace).await? else { return Ok(()) };
            if let Some(mut sandbox) = sandbox {
                let _ = timeout(left, sandbox.changed()).await;
            }
        }
    }
}
