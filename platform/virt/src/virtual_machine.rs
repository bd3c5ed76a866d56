//! The controller of virtual machines.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use pilothouse_crds::{VirtualMachine, VirtualMachineInstance};
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError};
use serde_json::json;
use tracing::info;

use crate::config::Config;
use crate::error::{Error, is_conflict, is_missing};
use crate::manifests::{self, CREATED_BY, FINALIZER, MACHINE_NAME};
use crate::order::Order;
use crate::plan::{self, Ending, Instance, Observed, Process, Step};
use crate::status::{self, Seen};

/// How soon to look again when a conflict came in between.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// What is known without asking.
#[derive(Clone, Debug)]
pub(crate) struct Caches {
    pub(crate) machines: Informer<VirtualMachine>,
    pub(crate) instances: Informer<VirtualMachineInstance>,
    pub(crate) pods: Informer<Pod>,
}

pub(crate) struct VirtualMachines {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) config: Config,
    pub(crate) caches: Caches,
}

// === impl VirtualMachines ===

impl Reconcile for VirtualMachines {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        Ok(self.caches.machines.keys())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let Some(machine) = self.caches.machines.get(key) else { return Ok(Next::Done) };
        Ok(self.pass(key, &machine).await?)
    }
}

impl VirtualMachines {
    async fn pass(&self, key: &ObjectKey, machine: &VirtualMachine) -> Result<Next, Error> {
        let order = self.order(key, machine)?;
        let instance = self.caches.instances.get(key).filter(|instance| belongs(instance, machine));
        let pods = self.pods(key);
        let observed = observe(machine, instance.as_deref(), &pods);
        let steps = plan::plan(order.strategy, &observed);
        for step in &steps {
            match step {
                Step::CreateInstance => {
                    info!(machine = %key, "starting a virtual machine");
                    let (made, ()) =
                        futures::try_join!(self.create_instance(machine), self.hold(key, machine))?;
                    if let Some(made) = made {
                        self.create_pod(&made, &order).await?;
                    }
                }
                Step::CreatePod => {
                    if let Some(instance) = &instance {
                        self.create_pod(instance, &order).await?;
                    }
                }
                Step::DeletePod(name) => {
                    info!(machine = %key, pod = name, "stopping a virtual machine");
                    gone(self.pod_api(key).delete(name, &DeleteParams::default()).await, || {
                        format!("pod {name}")
                    })?;
                }
                Step::DeleteInstance => {
                    let uid = instance.as_ref().and_then(|instance| instance.uid());
                    let preconditions = Some(Preconditions { uid, resource_version: None });
                    let parameters = DeleteParams { preconditions, ..DeleteParams::default() };
                    let deleted = self.instance_api(key).delete(&key.name, &parameters).await;
                    gone(deleted, || format!("VirtualMachineInstance {key}"))?;
                }
                Step::Release => return self.release(key, machine).await,
            }
        }
        let own = instance
            .as_ref()
            .and_then(|instance| pods.iter().find(|pod| created_by(pod) == instance.uid().as_deref()));
        let seen = Seen {
            order: &order,
            generation: machine.metadata.generation,
            going: observed.going,
            has_instance: instance.is_some(),
            pod: own.map(Arc::as_ref),
            has_remains: !pods.is_empty(),
            now: self.clock.now(),
        };
        self.report(key, machine, instance.as_deref(), &seen).await
    }

    fn order(&self, key: &ObjectKey, machine: &VirtualMachine) -> Result<Order, Error> {
        let spec = serde_json::to_value(&machine.spec)
            .map_err(|source| Error::Manifest { object: format!("VirtualMachine {key}"), source })?;
        Ok(Order::read(&spec))
    }

    /// All pods of the machine, also those of earlier instances.
    fn pods(&self, key: &ObjectKey) -> Vec<Arc<Pod>> {
        let pods = self.caches.pods.list_in(key.namespace_or_empty()).into_iter();
        pods.filter(|pod| pod.labels().get(MACHINE_NAME) == Some(&key.name)).collect()
    }

    /// `None` if there is one already, that the cache will show.
    async fn create_instance(
        &self,
        machine: &VirtualMachine,
    ) -> Result<Option<VirtualMachineInstance>, Error> {
        let desired = manifests::instance(machine);
        let api: Api<VirtualMachineInstance> =
            Api::namespaced(self.client.clone(), machine.metadata.namespace.as_deref().unwrap_or_default());
        match api.create(&PostParams::default(), &desired).await {
            Ok(made) => Ok(Some(made)),
            Err(error) if is_conflict(&error) => Ok(None),
            Err(error) => Err(Error::refused(
                "create",
                format!("VirtualMachineInstance {}", desired.name_any()),
                &error,
            )),
        }
    }

    async fn create_pod(&self, instance: &VirtualMachineInstance, order: &Order) -> Result<(), Error> {
        // Without it there is nothing to run; the machine says so.
        let Some(user_data) = &order.user_data else { return Ok(()) };
        let desired = manifests::pod(instance, order, user_data, &self.config.image);
        let api = self.pod_api(&ObjectKey::of(instance));
        match api.create(&PostParams::default(), &desired).await {
            Ok(_) => Ok(()),
            Err(error) if is_conflict(&error) => Ok(()),
            Err(error) => Err(Error::refused("create", format!("pod {}", desired.name_any()), &error)),
        }
    }

    /// Keeps the machine until nothing of it runs.
    async fn hold(&self, key: &ObjectKey, machine: &VirtualMachine) -> Result<(), Error> {
        if machine.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(());
        }
        let mut finalizers = machine.finalizers().to_vec();
        finalizers.push(FINALIZER.to_owned());
        self.set_finalizers(key, machine, finalizers).await.map(|_| ())
    }

    async fn release(&self, key: &ObjectKey, machine: &VirtualMachine) -> Result<Next, Error> {
        let finalizers = machine.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER);
        self.set_finalizers(key, machine, finalizers.cloned().collect()).await
    }

    async fn set_finalizers(
        &self,
        key: &ObjectKey,
        machine: &VirtualMachine,
        finalizers: Vec<String>,
    ) -> Result<Next, Error> {
        let patch = json!({ "metadata": {
            "finalizers": finalizers, "resourceVersion": machine.metadata.resource_version,
        } });
        let patched =
            self.machine_api(key).patch(&key.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        settled(patched, || format!("VirtualMachine {key}"))
    }

    async fn report(
        &self,
        key: &ObjectKey,
        machine: &VirtualMachine,
        instance: Option<&VirtualMachineInstance>,
        seen: &Seen<'_>,
    ) -> Result<Next, Error> {
        let mut next = Next::Done;
        if let Some(instance) = instance {
            let previous = instance.status.clone().unwrap_or_default();
            let status = status::instance(&previous, seen);
            if instance.status.as_ref() != Some(&status) {
                let changed = VirtualMachineInstance { status: Some(status), ..instance.clone() };
                let written =
                    self.instance_api(key).replace_status(&key.name, &PostParams::default(), &changed).await;
                next = settled(written, || format!("the status of VirtualMachineInstance {key}"))?;
            }
        }
        let previous = machine.status.clone().unwrap_or_default();
        let status = status::machine(&previous, seen);
        if machine.status.as_ref() != Some(&status) {
            let changed = VirtualMachine { status: Some(status), ..machine.clone() };
            let written =
                self.machine_api(key).replace_status(&key.name, &PostParams::default(), &changed).await;
            if settled(written, || format!("the status of VirtualMachine {key}"))? != Next::Done {
                next = Next::After(LOOK_AGAIN);
            }
        }
        Ok(next)
    }

    fn machine_api(&self, key: &ObjectKey) -> Api<VirtualMachine> {
        Api::namespaced(self.client.clone(), key.namespace_or_empty())
    }

    fn instance_api(&self, key: &ObjectKey) -> Api<VirtualMachineInstance> {
        Api::namespaced(self.client.clone(), key.namespace_or_empty())
    }

    fn pod_api(&self, key: &ObjectKey) -> Api<Pod> {
        Api::namespaced(self.client.clone(), key.namespace_or_empty())
    }
}

/// Whether an instance is this machine's, and not one of an earlier machine of the same name or somebody else's.
fn belongs(instance: &VirtualMachineInstance, machine: &VirtualMachine) -> bool {
    instance.owner_references().iter().any(|owner| Some(&owner.uid) == machine.metadata.uid.as_ref())
}

fn created_by(pod: &Pod) -> Option<&str> {
    pod.labels().get(CREATED_BY).map(String::as_str)
}

fn observe(
    machine: &VirtualMachine,
    instance: Option<&VirtualMachineInstance>,
    pods: &[Arc<Pod>],
) -> Observed {
    Observed {
        going: machine.metadata.deletion_timestamp.is_some(),
        fresh: machine.status.is_none(),
        instance: instance.map(|instance| Instance {
            uid: instance.uid().unwrap_or_default(),
            going: instance.metadata.deletion_timestamp.is_some(),
            started: instance.status.as_ref().is_some_and(|status| !status.active_pods.is_empty()),
        }),
        pods: pods
            .iter()
            .map(|pod| Process {
                name: pod.name_any(),
                instance: created_by(pod).unwrap_or_default().to_owned(),
                going: pod.metadata.deletion_timestamp.is_some(),
                ended: match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
                    Some("Succeeded") => Some(Ending::Well),
                    Some("Failed") => Some(Ending::Badly),
                    _ => None,
                },
            })
            .collect(),
    }
}

/// What is gone already is as good as deleted; what has another identity by now is somebody else's.
fn gone<T>(deleted: Result<T, kube::Error>, what: impl FnOnce() -> String) -> Result<(), Error> {
    match deleted {
        Ok(_) => Ok(()),
        Err(error) if is_missing(&error) || is_conflict(&error) => Ok(()),
        Err(error) => Err(Error::refused("delete", what(), &error)),
    }
}

/// Whoever wrote in between has thereby caused the next pass; this only makes sure of it.
fn settled<T>(written: Result<T, kube::Error>, what: impl FnOnce() -> String) -> Result<Next, Error> {
    match written {
        Ok(_) => Ok(Next::Done),
        Err(error) if is_missing(&error) => Ok(Next::Done),
        Err(error) if is_conflict(&error) => Ok(Next::After(LOOK_AGAIN)),
        Err(error) => Err(Error::refused("change", what(), &error)),
    }
}
