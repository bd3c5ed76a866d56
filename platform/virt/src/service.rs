use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _};
use pilothouse_crds::{VirtualMachine, VirtualMachineInstance};
use pilothouse_informer::{Builder, Informer, ObjectKey, watcher};
use pilothouse_runtime::reconcile::{Handle, Options};
use pilothouse_runtime::{Clock, Controller, Shutdown, Tasks};

use crate::manifests::{LAUNCHER, MACHINE_NAME};
use crate::virtual_machine::{Caches, VirtualMachines};
use crate::{Config, Error};

/// How long passes that run may take to finish at shutdown.
const DRAIN: Duration = Duration::from_secs(20);

/// What the controller needs from outside.
pub struct Deps {
    /// The cluster, which serves the definitions of `pilothouse-crds`.
    pub client: Client,
    /// The time.
    pub clock: Clock,
}

/// The controller of virtual machines.
pub struct Service {
    machines: Builder<VirtualMachine>,
    instances: Builder<VirtualMachineInstance>,
    pods: Builder<Pod>,
    caches: Caches,
    controller: Controller<VirtualMachines>,
}

// === impl Service ===

impl Service {
    /// Puts it together. Nothing is watched before [`run`](Self::run).
    pub fn new(config: Config, deps: Deps) -> Self {
        let Deps { client, clock } = deps;
        let everything = watcher::Config::default;
        let machines = Informer::new(Api::all(client.clone()), everything());
        let instances = Informer::new(Api::all(client.clone()), everything());
        let launchers = everything().labels(&format!("{}={}", LAUNCHER.0, LAUNCHER.1));
        let pods = Informer::new(Api::all(client.clone()), launchers);
        let caches =
            Caches { machines: machines.informer(), instances: instances.informer(), pods: pods.informer() };
        let options = Options { concurrency: config.concurrency, ..Options::default() };
        let reconciler = VirtualMachines { client, clock, config, caches: caches.clone() };
        let controller = Controller::new("virtual-machines", reconciler, options);
        Self { machines, instances, pods, caches, controller }
    }

    /// What the controller is at, for the debug page and for tests that wait until nothing is left to do.
    pub fn handle(&self) -> Handle<ObjectKey> {
        self.controller.handle()
    }

    /// Runs until shutdown, and returns when the passes that were running have finished.
    ///
    /// # Errors
    ///
    /// When they did not finish in time.
    pub fn run(self, shutdown: Shutdown) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.work(shutdown))
    }

    async fn work(self, shutdown: Shutdown) -> Result<(), Error> {
        let Self { machines, instances, pods, caches, controller } = self;
        let tasks = Tasks::new("virt", shutdown.clone());
        let (of_machine, of_instance, of_pod) =
            (controller.handle(), controller.handle(), controller.handle());
        machines.on_change(move |machine| of_machine.wake(ObjectKey::of(machine))).spawn(&tasks, "machines");
        instances
            .on_change(move |instance| of_instance.wake(ObjectKey::of(instance)))
            .spawn(&tasks, "instances");
        pods.on_change(move |pod| {
            if let Some(machine) = pod.labels().get(MACHINE_NAME) {
                of_pod.wake(ObjectKey::namespaced(pod.namespace().unwrap_or_default(), machine));
            }
        })
        .spawn(&tasks, "pods");
        let synced = async {
            caches.machines.synced().await;
            caches.instances.synced().await;
            caches.pods.synced().await;
        };
        // A pass before the caches are full would take everything for missing.
        tokio::select! {
            () = synced => {
                controller.spawn(&tasks);
            }
            () = shutdown.requested() => {}
        }
        shutdown.requested().await;
        Ok(tasks.drain(DRAIN).await?)
    }
}
