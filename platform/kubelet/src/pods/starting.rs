//! Making a pod run.

use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt as _;
use nix::sys::signal::Signal;
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Chain, Next, TaskError};
use tokio::time::Instant;
use tracing::{info, warn};

use super::environment::Parts;
use super::local::Local;
use super::objects::{Objects, Place};
use super::plan::{Action, Observed, Phase, Plan, Waiting, plan};
use super::record::{self, Record};
use super::sandbox::{self, Sandbox};
use super::volumes::{Made, Volumes};
use super::{Pods, etc, events, specification, termination, watching};
use crate::files::write_json;
use crate::shim::protocol::{self, Request};

/// How long volumes with content from the API are left alone. Whoever changes a Secret finds it in the pods after this and
/// the next pass.
const FRESH: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);

impl Pods {
    /// One pass over a pod that should run.
    pub(super) async fn run(&self, pod: &Arc<Pod>) -> Result<Next, TaskError> {
        if let Err(refusal) = specification::admit(pod, &self.around().config, &self.inner.images) {
            self.refuse(pod, &refusal).await?;
            return Ok(Next::Done);
        }
        let local = self.local(pod)?;
        let sandbox = match self.ensure_sandbox(pod, &local).await {
            Ok(sandbox) => sandbox,
            Err(error) => {
                let cause = Chain(error.as_ref()).to_string();
                self.report_waiting(pod, &local, &cause).await?;
                return Err(error);
            }
        };
        let mut trouble = None;
        let plan = loop {
            watching::ensure(
                &local,
                pod,
                &sandbox,
                &self.around().tasks,
                (&self.inner.waker, &self.inner.events),
            );
            let state = local.state();
            let (health, failures) = (local.health(), local.failures(&state));
            let mut plan = plan(&Observed {
                pod,
                state: &state,
                health: &health,
                failures: &failures,
                images: &self.inner.images,
                now: self.around().clock.now(),
            });
            if trouble.is_some() || !self.carry_out(pod, &local, &sandbox, &mut plan, &mut trouble).await? {
                break plan;
            }
        };
        if let Some((container, waiting, _)) = &trouble {
            let mut plan = plan;
            plan.waiting.insert(container.clone(), waiting.clone());
            self.report(pod, &local, &plan).await?;
        } else {
            self.report(pod, &local, &plan).await?;
            if matches!(plan.phase, Phase::Succeeded | Phase::Failed) {
                return self.rest(pod).await;
            }
            let renewal = local.volumes().and_then(|volumes| volumes.renew_at);
            let renewal = renewal.map(|at| self.around().clock.until(at));
            let again = plan.again.into_iter().chain(renewal).min();
            return Ok(again.map_or(Next::Done, Next::After));
        }
        match trouble {
            Some((_, _, error)) => Err(error),
            None => Ok(Next::Done),
        }
    }

    /// Carries out a plan. Answers whether something was started, so that there is a new state to plan by.
    async fn carry_out(
        &self,
        pod: &Pod,
        local: &Arc<Local>,
        sandbox: &Sandbox,
        plan: &mut Plan<'_>,
        trouble: &mut Option<(String, Waiting, TaskError)>,
    ) -> Result<bool, TaskError> {
        let mut started = false;
        for action in std::mem::take(&mut plan.actions) {
            match action {
                Action::Start { container, attempt } => {
                    match self.assemble(pod, local, container, attempt).await {
                        Ok(assembled) => {
                            sandbox.tell(Request::Start(Box::new(assembled))).await?;
                            info!(container = container.name, attempt, "started a container");
                            self.after_start(pod, local, sandbox, container);
                            self.around().metrics.started.inc();
                            started = true;
                        }
                        Err(error) => {
                            let message = Some(Chain(error.as_ref()).to_string());
                            let waiting = Waiting { reason: "CreateContainerConfigError", message };
                            *trouble = Some((container.name.clone(), waiting, error));
                        }
                    }
                }
                Action::End { container, cause } => {
                    let grace = std::time::Duration::from_secs(local.record().grace_seconds);
                    let Some((deadline, first)) = local.unhealthy_deadline(&container.name, grace) else {
                        continue;
                    };
                    let late = Instant::now() >= deadline;
                    let left = deadline.saturating_duration_since(Instant::now());
                    if late {
                        info!(container = container.name, cause, "killing an unhealthy container");
                        let (container, signal) = (container.name.clone(), Signal::SIGKILL as i32);
                        sandbox.tell(Request::Signal { container, signal }).await?;
                    } else if first {
                        info!(container = container.name, cause, "ending an unhealthy container");
                        let about = events::about(pod, Some(&container.name));
                        self.inner.events.note(&about, events::Kind::Warning, "Unhealthy", cause);
                        self.ask_to_end(local, sandbox, &container.name, left).await?;
                    }
                    plan.again = Some(plan.again.map_or(left, |again| again.min(left)));
                }
            }
        }
        Ok(started)
    }

    async fn assemble(
        &self,
        pod: &Pod,
        local: &Local,
        container: &Container,
        attempt: u32,
    ) -> Result<protocol::Container, TaskError> {
        let (pod_address, node_address) = self.addresses(local);
        let place = Place { pod_address: &pod_address, node_address: &node_address };
        let objects = Objects::new(self.around().client.clone(), pod.namespace().unwrap_or_default());
        let parts = Parts {
            pod,
            container,
            attempt,
            image: self.inner.images.resolve(container.image.as_deref().unwrap_or_default())?,
            objects: &objects,
            place: &place,
            volumes: &local.volumes().unwrap_or_default().paths,
            api_service: self.api_service(),
        };
        let mut assembled = parts.assemble().await?;
        // After the volumes: it may lie in one.
        assembled.mounts.push(termination::prepare(&local.folder, container, attempt)?);
        Ok(assembled)
    }

    fn addresses(&self, local: &Local) -> (String, String) {
        let pod = local.address().map(|address| address.to_string()).unwrap_or_default();
        (pod, self.node_address().to_string())
    }

    fn api_service(&self) -> Option<(String, i32)> {
        let service = self.around().services.get(&ObjectKey::namespaced("default", "kubernetes"))?;
        let spec = service.spec.as_ref()?;
        Some((spec.cluster_ip.clone()?, spec.ports.as_ref()?.first()?.port))
    }

    /// What is known of a pod here; written down before anything of it exists.
    fn local(&self, pod: &Pod) -> Result<Arc<Local>, TaskError> {
        let uid = pod.uid().unwrap_or_default();
        let known = self.locals().get(&uid).cloned();
        if let Some(local) = known {
            return Ok(local);
        }
        if uid.is_empty() || uid.contains(['/', '.']) {
            return Err(format!("`{uid}` is not a uid").into());
        }
        let record = Record::of(pod, &self.around().network_identity, self.around().clock.now());
        let folder = record::folder(&self.around().config.root).join(&uid);
        record.write(&folder)?;
        let local = Arc::new(Local::new(folder, record));
        self.locals().insert(uid, local.clone());
        Ok(local)
    }

    /// The pod's shim with its namespaces, network and volumes, made if they are missing.
    async fn ensure_sandbox(&self, pod: &Pod, local: &Arc<Local>) -> Result<Sandbox, TaskError> {
        if let Some(sandbox) = self.living_sandbox(local).await {
            if let Err(error) = self.refresh_volumes(pod, local).await {
                // What runs goes on with what it has; a later pass tries again.
                warn!(error = %Chain(error.as_ref()), "cannot refresh the volumes of a running pod");
            }
            return Ok(sandbox);
        }
        local.set_sandbox(None);
        if let Some(shim) = record::shim(&local.folder) {
            // It lives but does not talk: nothing can be known about its containers.
            sandbox::end(shim).await?;
        }
        let address = self.ensure_address(pod, local)?;
        self.refresh_volumes(pod, local).await?;
        etc::write(&local.folder, pod, &self.around().config, address)?;
        let wanted = protocol::Sandbox {
            hostname: etc::hostname(pod),
            privileged: specification::is_privileged(pod),
            host_network: specification::has_host_network(pod),
        };
        write_json(&local.folder.join("sandbox.json"), &wanted)?;
        let shim = Sandbox::launch(&local.folder, &self.around().program).await?;
        if !wanted.host_network {
            self.around().network.attach(address, shim.pid).await?;
        }
        local.update_record(|record| record.attached = true)?;
        let sandbox = self.open(local, shim).await?;
        local.set_sandbox(Some(sandbox.clone()));
        Ok(sandbox)
    }

    /// The connection to the pod's shim, made anew if it was lost.
    async fn living_sandbox(&self, local: &Arc<Local>) -> Option<Sandbox> {
        if let Some(sandbox) = local.sandbox() {
            return Some(sandbox);
        }
        if !local.record().attached {
            return None;
        }
        let shim = record::shim(&local.folder)?;
        let sandbox = self.open(local, shim).await.ok()?;
        local.set_sandbox(Some(sandbox.clone()));
        Some(sandbox)
    }

    fn ensure_address(&self, pod: &Pod, local: &Local) -> Result<Ipv4Addr, TaskError> {
        if let Some(address) = local.address() {
            return Ok(address);
        }
        let address = if specification::has_host_network(pod) {
            self.node_address()
        } else {
            self.pool().take().ok_or("no address is free on this node; enlarge its pod range")?
        };
        let network = self.around().network_identity.clone();
        local.update_record(|record| {
            record.address = Some(address);
            record.network = network;
        })?;
        Ok(address)
    }

    /// Makes the volumes, and makes them anew when a token in them grows old.
    async fn refresh_volumes(&self, pod: &Pod, local: &Local) -> Result<(), TaskError> {
        let now = self.around().clock.now();
        let is_fresh = |made: Made| {
            now < made.made_at.saturating_add(FRESH).unwrap_or(now) && made.renew_at.is_none_or(|at| now < at)
        };
        if local.volumes().is_some_and(is_fresh) {
            return Ok(());
        }
        let (pod_address, node_address) = self.addresses(local);
        let volumes = Volumes {
            client: &self.around().client,
            config: &self.around().config,
            pod,
            folder: &local.folder,
            place: &Place { pod_address: &pod_address, node_address: &node_address },
            now,
        };
        local.set_volumes(volumes.make().await?);
        Ok(())
    }
}
