//! Watching over containers that run.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod};
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{OnExit, Tasks};
use tokio::time::Instant;
use tracing::info;

use super::Waker;
use super::events::{self, Events, Kind};
use super::local::Local;
use super::plan::Health;
use super::probes::{self, Subject, Verdict};
use super::sandbox::Sandbox;
use super::specification::all_containers;

/// How often the same failure is told of.
const REPEATED: Duration = Duration::from_secs(30);

/// Begins to watch every container that runs and is not watched yet, and forgets those that have ended.
pub(super) fn ensure(
    local: &Arc<Local>,
    pod: &Pod,
    sandbox: &Sandbox,
    tasks: &Tasks,
    (waker, events): (&Waker, &Events),
) {
    let Some(state) = sandbox.state() else { return };
    let Some(address) = local.address() else { return };
    for container in all_containers(pod) {
        let Some(known) = state.containers.get(&container.name) else { continue };
        if !known.is_running() {
            local.unwatch(&container.name);
            continue;
        }
        let attempt = known.attempt;
        if local.is_held(&container.name, attempt) {
            continue;
        }
        let Some(token) = local.watch(&container.name, attempt, || initial(container, pod, attempt)) else {
            continue;
        };
        let folder = local.folder.clone();
        let subject = Subject { address, container: Arc::new(container.clone()), folder };
        let watching = Watching {
            local: local.clone(),
            attempt,
            key: local.record().key(),
            waker: waker.clone(),
            events: events.clone(),
            pod: events::about(pod, None),
        };
        tasks.spawn("probes", OnExit::Expendable, async move {
            tokio::select! {
                () = token.cancelled() => {}
                () = watching.watch(&subject) => {}
            }
            Ok(())
        });
    }
}

/// What is known before the first answer. A container that an earlier kubelet found ready is so until found otherwise.
fn initial(container: &Container, pod: &Pod, attempt: u32) -> Health {
    let reported =
        pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    let reported = reported
        .iter()
        .find(|status| status.name == container.name && u32::try_from(status.restart_count) == Ok(attempt))
        .filter(|status| status.state.as_ref().is_some_and(|state| state.running.is_some()));
    let started =
        container.startup_probe.is_none() || reported.is_some_and(|status| status.started == Some(true));
    let ready = match container.readiness_probe {
        None => started,
        Some(_) => started && reported.is_some_and(|status| status.ready),
    };
    Health { started, ready, failed: None }
}

struct Watching {
    local: Arc<Local>,
    attempt: u32,
    key: ObjectKey,
    waker: Waker,
    events: Events,
    pod: ObjectReference,
}

impl Watching {
    fn about(&self, container: &Container) -> ObjectReference {
        let field_path = Some(format!("spec.containers{{{}}}", container.name));
        ObjectReference { field_path, ..self.pod.clone() }
    }

    /// Tells of failures that count: of new ones at once, and of the same from time to time.
    fn telling(&self, kind: &'static str, container: &Container) -> impl FnMut(&str) + use<'_> {
        let about = self.about(container);
        let mut told: Option<(Instant, String)> = None;
        move |observed| {
            if told.as_ref().is_some_and(|(at, words)| words == observed && at.elapsed() < REPEATED) {
                return;
            }
            told = Some((Instant::now(), observed.to_owned()));
            let message = format!("{kind} probe failed: {observed}");
            self.events.note(&about, Kind::Warning, "Unhealthy", message);
        }
    }

    async fn watch(&self, subject: &Subject) {
        let container = &subject.container;
        let started = self.local.health().get(&container.name).is_some_and(|health| health.started);
        if let Some(probe) = container.startup_probe.as_ref().filter(|_| !started) {
            let mut gone_well = false;
            probes::watch(subject, probe, self.telling("Startup", container), |verdict| {
                gone_well = verdict == Verdict::Succeeded;
                self.note(container, verdict, |health, verdict| match verdict {
                    Verdict::Succeeded => {
                        health.started = true;
                        health.ready = container.readiness_probe.is_none();
                    }
                    Verdict::Failed(observed) => health.failed = Some(format!("startup probe: {observed}")),
                });
                false
            })
            .await;
            if !gone_well {
                return;
            }
        }
        let readiness = async {
            if let Some(probe) = &container.readiness_probe {
                probes::watch(subject, probe, self.telling("Readiness", container), |verdict| {
                    self.note(container, verdict, |health, verdict| {
                        health.ready = verdict == Verdict::Succeeded
                    });
                    true
                })
                .await;
            }
        };
        let liveness = async {
            if let Some(probe) = &container.liveness_probe {
                probes::watch(subject, probe, self.telling("Liveness", container), |verdict| {
                    self.note(container, verdict, |health, verdict| {
                        if let Verdict::Failed(observed) = verdict {
                            health.failed = Some(format!("liveness probe: {observed}"));
                        }
                    });
                    true
                })
                .await;
            }
        };
        tokio::join!(readiness, liveness);
    }

    fn note(&self, container: &Container, verdict: Verdict, change: impl FnOnce(&mut Health, Verdict)) {
        if let Verdict::Failed(observed) = &verdict {
            info!(pod = %self.key, container = container.name, observed, "a probe failed");
        }
        self.local.set_health(&container.name, self.attempt, |health| change(health, verdict));
        self.waker.wake(self.key.clone());
    }
}
