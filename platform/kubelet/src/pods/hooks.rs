//! What a container asked to have done after its start and before its end.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod};
use nix::sys::signal::Signal;
use pilothouse_runtime::OnExit;
use tokio::time::timeout;
use tracing::{info, warn};

use super::Pods;
use super::events::Kind;
use super::local::Local;
use super::probes::{self, Subject};
use super::sandbox::Sandbox;
use super::specification::all_containers;
use crate::shim::protocol::Request;

/// Nobody waits longer for what follows a start.
const LONGEST: Duration = Duration::from_secs(3600);

fn handler(container: &Container, before_end: bool) -> Option<&LifecycleHandler> {
    let lifecycle = container.lifecycle.as_ref()?;
    if before_end { lifecycle.pre_stop.as_ref() } else { lifecycle.post_start.as_ref() }
}

async fn carry_out(subject: &Subject, handler: &LifecycleHandler, limit: Duration) -> Result<(), String> {
    let done = async {
        if let Some(action) = &handler.exec {
            probes::execute(subject, action.command.clone().unwrap_or_default(), limit).await
        } else if let Some(action) = &handler.http_get {
            probes::get(subject, action).await
        } else if let Some(action) = &handler.sleep {
            tokio::time::sleep(Duration::from_secs(action.seconds.unsigned_abs())).await;
            Ok(())
        } else {
            Ok(())
        }
    };
    timeout(limit, done).await.unwrap_or_else(|_| Err(format!("it took longer than {} s", limit.as_secs())))
}

impl Pods {
    /// Does what a container wants done after its start. One for which that fails is killed, and restarted by its policy.
    pub(super) fn after_start(
        &self,
        pod: &Pod,
        local: &Arc<Local>,
        sandbox: &Sandbox,
        container: &Container,
        attempt: u32,
    ) {
        let Some(handler) = handler(container, false).cloned() else { return };
        let Some(address) = local.address() else { return };
        let folder = local.folder.clone();
        let subject = Subject { address, container: Arc::new(container.clone()), folder };
        // Until that is done it does not count as running.
        local.hold(&container.name, attempt);
        let (local, waker) = (local.clone(), self.inner.waker.clone());
        let (sandbox, name) = (sandbox.clone(), container.name.clone());
        let (events, about) = (self.inner.events.clone(), super::events::about(pod, Some(&name)));
        self.around().tasks.spawn("post-start", OnExit::Expendable, async move {
            if let Err(error) = carry_out(&subject, &handler, LONGEST).await {
                warn!(container = name, error, "what should follow a start failed");
                events.note(
                    &about,
                    Kind::Warning,
                    "FailedPostStartHook",
                    format!("PostStartHook failed: {error}"),
                );
                let signal = Signal::SIGKILL as i32;
                // The pod may have been ended meanwhile.
                let _ = sandbox.tell(Request::Signal { container: name.clone(), signal }).await;
            }
            local.let_go(&name, attempt);
            waker.wake(local.record().key());
            Ok(())
        });
    }

    /// The pod as the API has it, if it still does.
    fn pod_of(&self, local: &Local) -> Option<Arc<Pod>> {
        let record = local.record();
        let pod = self.around().pods.get(&record.key());
        pod.filter(|pod| pod.metadata.uid.as_ref() == Some(&record.uid))
    }

    pub(super) fn note_stopping(&self, local: &Local, container: &str) {
        if let Some(pod) = self.pod_of(local) {
            let about = super::events::about(&pod, Some(container));
            let message = format!("Stopping container {container}");
            self.inner.events.note(&about, Kind::Normal, "Killing", message);
        }
    }

    /// Asks a container to end, after what it wants done before. Whoever calls kills it when its time is over.
    pub(super) async fn ask_to_end(
        &self,
        local: &Arc<Local>,
        sandbox: &Sandbox,
        name: &str,
        left: Duration,
    ) -> std::io::Result<()> {
        let request = Request::Signal { container: name.to_owned(), signal: Signal::SIGTERM as i32 };
        let pod = self.pod_of(local);
        let container =
            pod.as_ref().and_then(|pod| all_containers(pod).find(|one| one.name == name).cloned());
        let hook = container.as_ref().and_then(|container| handler(container, true)).cloned();
        let (Some(container), Some(handler), Some(address)) = (container, hook, local.address()) else {
            return sandbox.tell(request).await;
        };
        let subject = Subject { address, container: Arc::new(container), folder: local.folder.clone() };
        let (sandbox, name) = (sandbox.clone(), name.to_owned());
        self.around().tasks.spawn("pre-stop", OnExit::Expendable, async move {
            if let Err(error) = carry_out(&subject, &handler, left).await {
                info!(container = name, error, "what should come before an end failed");
            }
            // The pod may have been ended meanwhile.
            let _ = sandbox.tell(request).await;
            Ok(())
        });
        Ok(())
    }
}
