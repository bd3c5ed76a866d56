//! Making a pod run.

use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt as _;
use nix::sys::signal::Signal;
use pilothouse_informer::ObjectKey;
use pilothouse_runtime::{Chain, Next, TaskError, fault, former_descriptor_limit};
use tokio::time::Instant;
use tracing::{info, warn};

use super::environment::Parts;
use super::local::Local;
use super::objects::{Objects, Place, Unresolved};
use super::plan::{Action, Observed, Phase, Plan, Waiting, plan};
use super::record::{self, Record};
use super::resource_fields::Allocatable;
use super::sandbox::{self, Sandbox};
use super::volumes::{Basis, Made, Volumes};
use super::{Pods, etc, events, references, specification, termination, watching};
use crate::cgroups::{self, Controller, PodAmounts};
use crate::files::write_json;
use crate::shim::protocol::{self, Request};

/// How soon a token that should have been renewed is looked at again.
const RENEWAL: std::time::Duration = std::time::Duration::from_secs(1);

/// On a pod that is a node: the addresses of its own pods.
const POD_RANGE: &str = "pilothouse.dev/pod-range";

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
        self.lead_behind(pod, &local).await?;
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
            let held = local.held(&state);
            let mut plan = plan(&Observed {
                pod,
                state: &state,
                health: &health,
                failures: &failures,
                held: &held,
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
            // One that fails is tried again, but not at once.
            let renewal = renewal.map(|at| self.around().clock.until(at).max(RENEWAL));
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
                            local.set_awaited(None);
                            sandbox.tell(Request::Start(Box::new(assembled))).await?;
                            info!(container = container.name, attempt, "started a container");
                            self.after_start(pod, local, sandbox, container, attempt);
                            self.around().metrics.started.inc();
                            started = true;
                        }
                        Err(error) => {
                            self.await_missing(pod, local, error.as_ref());
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
                    if first {
                        let which = cause.split_once(": ").map_or("a probe", |(which, _)| which);
                        let why = format!("Container {} failed {which}, will be restarted", container.name);
                        let about = events::about(pod, Some(&container.name));
                        self.inner.events.note(&about, events::Kind::Normal, "Killing", why);
                    }
                    if late {
                        info!(container = container.name, cause, "killing an unhealthy container");
                        let (container, signal) = (container.name.clone(), Signal::SIGKILL as i32);
                        sandbox.tell(Request::Signal { container, signal }).await?;
                    } else if first {
                        info!(container = container.name, cause, "ending an unhealthy container");
                        self.ask_to_end(local, sandbox, &container.name, left).await?;
                    }
                    plan.again = Some(plan.again.map_or(left, |again| again.min(left)));
                }
            }
        }
        Ok(started)
    }

    /// Watches what a container could not be started without, so that its coming wakes the pod.
    fn await_missing(
        &self,
        pod: &Pod,
        local: &Local,
        error: &(dyn std::error::Error + Send + Sync + 'static),
    ) {
        let unresolved = error.downcast_ref::<Unresolved>();
        let namespace = pod.namespace().unwrap_or_default();
        let awaited = unresolved.and_then(|unresolved| unresolved.waits_for(&namespace));
        if awaited.is_some() {
            local.set_awaited(awaited);
            let record = local.record();
            let held = references::of_volumes(pod).into_iter().chain(local.awaited()).collect();
            self.inner.referenced.hold(&record.uid, &record.key(), &held);
        }
    }

    async fn assemble(
        &self,
        pod: &Pod,
        local: &Local,
        container: &Container,
        attempt: u32,
    ) -> Result<protocol::Container, TaskError> {
        let (pod_address, node_address) = self.addresses(local);
        let allocatable = self.allocatable();
        let place =
            Place { pod_address: &pod_address, node_address: &node_address, allocatable: &allocatable };
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
        let mut amounts = PodAmounts::of(pod, None);
        let amounts = amounts.containers.remove(&container.name).unwrap_or_default();
        let (uid, privileged) = (local.record().uid, assembled.privileged);
        assembled.cgroup =
            self.around().cgroups.make_container(&uid, &container.name, &amounts, privileged)?;
        let memory = crate::node::memory(&self.around().config);
        assembled.expendability = Some(cgroups::amounts::expendability(pod, container, &memory));
        Ok(assembled)
    }

    /// Says which limits of a pod are only words here.
    fn note_unenforced(&self, pod: &Pod) {
        let cgroups = &self.around().cgroups;
        let Some(shortfall) = cgroups.shortfall() else { return };
        for (resource, controller) in [("memory", Controller::Memory), ("cpu", Controller::Cpu)] {
            let limited = specification::all_containers(pod)
                .filter(|container| cgroups::amounts::limit_of(container, resource).is_some());
            let limited: Vec<_> = limited.map(|container| container.name.as_str()).collect();
            if !limited.is_empty() && !cgroups.enforces(controller) {
                let message = format!(
                    "the {resource} limit of {} is not enforced on this node: {}",
                    limited.join(", "),
                    shortfall.message
                );
                let about = events::about(pod, None);
                self.inner.events.note(&about, events::Kind::Warning, "LimitsNotEnforced", message);
            }
        }
    }

    /// Routes to the pods of a pod that is a node, once somebody has said which they are.
    async fn lead_behind(&self, pod: &Pod, local: &Local) -> Result<(), TaskError> {
        let Some(address) = local.address().filter(|_| specification::is_privileged(pod)) else {
            return Ok(());
        };
        let range = pod.annotations().get(POD_RANGE).and_then(|range| range.parse().ok());
        Ok(self.around().network.lead_behind(address, range).await?)
    }

    fn addresses(&self, local: &Local) -> (String, String) {
        let pod = local.address().map(|address| address.to_string()).unwrap_or_default();
        (pod, self.node_address().to_string())
    }

    fn allocatable(&self) -> Allocatable {
        let config = &self.around().config;
        Allocatable { processors: crate::node::processors(config), memory: crate::node::memory(config) }
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
        self.locals().insert(local.clone());
        Ok(local)
    }

    /// The pod's shim with its namespaces, network and volumes, made if they are missing.
    async fn ensure_sandbox(&self, pod: &Pod, local: &Arc<Local>) -> Result<Sandbox, TaskError> {
        if let Some(sandbox) = self.living_sandbox(local).await {
            match self.refresh_volumes(pod, local).await {
                // What runs goes on with what it has; a later pass tries again.
                Err(error) if local.volumes().is_some() => {
                    warn!(error = %Chain(error.as_ref()), "cannot refresh the volumes of a running pod");
                }
                refreshed => refreshed?,
            }
            return Ok(sandbox);
        }
        local.set_sandbox(None);
        if let Some(shim) = record::shim(&local.folder) {
            // It lives but does not talk: nothing can be known about its containers.
            sandbox::end(shim).await?;
        }
        let amounts = PodAmounts::of(pod, self.around().config.pod_processes);
        let group = self.around().cgroups.make_pod(&local.record().uid, &amounts.pod)?;
        self.note_unenforced(pod);
        let address = self.ensure_address(pod, local)?;
        etc::write(&local.folder, pod, &self.around().config, address)?;
        let wanted = protocol::Sandbox {
            hostname: etc::hostname(pod),
            privileged: specification::is_privileged(pod),
            host_network: specification::has_host_network(pod),
            cgroup: group,
            descriptors: former_descriptor_limit(),
        };
        write_json(&local.folder.join("sandbox.json"), &wanted)?;
        // At the same time: what volumes are made of is asked of the API server, and a shim is started from this machine's
        // disk. Neither is given up for the other's sake; a shim that waits for its volumes is found by the next pass.
        let (launched, volumes) = tokio::join!(
            self.launch_shim(local, wanted.host_network, address),
            self.refresh_volumes(pod, local),
        );
        let sandbox = launched?;
        local.set_sandbox(Some(sandbox.clone()));
        volumes?;
        Ok(sandbox)
    }

    /// A shim that is connected to the node's network, and to us.
    async fn launch_shim(
        &self,
        local: &Arc<Local>,
        host_network: bool,
        address: Ipv4Addr,
    ) -> Result<Sandbox, TaskError> {
        let launched = Sandbox::launch(&local.folder, &self.around().program);
        let shim = fault::around(["kubelet.launch.before", "kubelet.launch.after"], launched).await?;
        let attached = async {
            if !host_network {
                let namespace = local.record().namespace;
                let attached = self.around().network.attach(address, shim.pid, &namespace);
                fault::around(["kubelet.attach.before", "kubelet.attach.after"], attached).await?;
            }
            Ok::<_, TaskError>(())
        };
        let (attached, sandbox) = tokio::join!(attached, self.open(local, shim));
        attached?;
        local.update_record(|record| record.attached = true)?;
        Ok(sandbox?)
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

    /// Makes the volumes, and makes them anew when what they are made of has changed or a token in them grows old.
    async fn refresh_volumes(&self, pod: &Pod, local: &Local) -> Result<(), TaskError> {
        let now = self.around().clock.now();
        let (record, references) = (local.record(), references::of_volumes(pod));
        let held = references.iter().cloned().chain(local.awaited()).collect();
        self.inner.referenced.hold(&record.uid, &record.key(), &held);
        // Taken before anything is read: what changes in between is a change.
        let basis = Basis {
            versions: self.inner.referenced.versions(&references),
            labels: pod.labels().clone(),
            annotations: pod.annotations().clone(),
        };
        let before = local.volumes();
        let is_current =
            |made: &Made| made.basis == basis && made.renew_at.is_none_or(|renew_at| now < renew_at);
        if before.as_ref().is_some_and(is_current) {
            return Ok(());
        }
        let (pod_address, node_address) = self.addresses(local);
        let volumes = Volumes {
            client: &self.around().client,
            config: &self.around().config,
            pod,
            folder: &local.folder,
            place: &Place {
                pod_address: &pod_address,
                node_address: &node_address,
                allocatable: &self.allocatable(),
            },
            objects: &Objects::watched(self.inner.referenced.clone(), record.namespace),
            tokens: &local.tokens,
            before: before.as_ref(),
            now,
        };
        let made = volumes.make().await?;
        local.set_volumes(Made { basis, ..made });
        Ok(())
    }
}
