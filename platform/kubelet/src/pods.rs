//! The pods of this node: one reconciler, one pod a key.
//!
//! A pass reads the pod from the cache and the containers from the pod's shim, [plans](plan), carries out, and reports. It is
//! woken by the watch, by shims and by probes. What was started is on disk before it is started, so a
//! kubelet that begins anew [finds](Pods::adopt) every pod again; and a shim starts an attempt of a container once,
//! however often it is asked, so nothing runs twice.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt as _;
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_runtime::reconcile::Handle;
use pilothouse_runtime::{Clock, Next, Reconcile, TaskError, Tasks};
use tracing::{Instrument as _, info_span};

use crate::cgroups::Cgroups;
use crate::config::Config;
use crate::images::Images;
use crate::metrics::Metrics;
use crate::network::{Network, Pool};

mod adoption;
mod ending;
mod environment;
mod etc;
mod events;
mod hooks;
mod local;
mod locals;
mod objects;
pub(crate) mod plan;
mod probes;
pub(crate) mod record;
mod referenced;
mod references;
mod report;
mod resource_fields;
pub(crate) mod sandbox;
pub(crate) mod session;
pub(crate) mod specification;
mod starting;
pub(crate) mod status;
mod termination;
mod tokens;
mod volumes;
mod watching;

use events::Events;
pub(crate) use local::Local;
use locals::Locals;
use referenced::Referenced;
pub(crate) use volumes::{host_path, is_below};

/// A pod that was removed from the API without its node's knowledge is not waited for any longer than this.
const GRACE_OF_THE_FORGOTTEN: Duration = Duration::from_secs(2);

/// Names the piece of work a pod belongs to, and is on every line that is logged about it.
const CORRELATION: &str = "pilothouse.dev/correlation-id";

/// What the pods of a node need from it.
pub(crate) struct Surroundings {
    pub(crate) config: Config,
    pub(crate) client: kube::Client,
    pub(crate) clock: Clock,
    pub(crate) tasks: Tasks,
    pub(crate) network: Network,
    /// See [`Entered`](crate::Entered).
    pub(crate) network_identity: String,
    /// This very program, which shims are started from.
    pub(crate) program: PathBuf,
    pub(crate) images: Images,
    pub(crate) pods: Informer<Pod>,
    pub(crate) services: Informer<Service>,
    pub(crate) metrics: Metrics,
    pub(crate) cgroups: Cgroups,
}

/// The reconciler. A cheap handle.
#[derive(Clone)]
pub(crate) struct Pods {
    inner: Arc<Inner>,
}

struct Inner {
    surroundings: Surroundings,
    images: Images,
    events: Events,
    referenced: Referenced,
    pool: Mutex<Pool>,
    locals: Mutex<Locals>,
    waker: Waker,
    stopping: AtomicBool,
}

/// Wakes the controller that drives [`Pods`], once there is one.
#[derive(Clone, Default)]
pub(crate) struct Waker(Arc<OnceLock<Handle<ObjectKey>>>);

// === impl Waker ===

impl Waker {
    pub(crate) fn connect(&self, handle: Handle<ObjectKey>) {
        // The first controller is the only one.
        let _ = self.0.set(handle);
    }

    pub(crate) fn wake(&self, key: ObjectKey) {
        if let Some(handle) = self.0.get() {
            handle.wake(key);
        }
    }

    async fn at_rest(&self) {
        if let Some(handle) = self.0.get() {
            handle.at_rest().await;
        }
    }
}

// === impl Pods ===

impl Pods {
    pub(crate) fn new(surroundings: Surroundings, pool: Pool, waker: Waker) -> Self {
        let images = surroundings.images.clone();
        let Surroundings { client, clock, config, tasks, .. } = &surroundings;
        let events = Events::start(client.clone(), clock.clone(), config.node_name.clone(), tasks);
        let referenced = Referenced::new(client.clone(), tasks.clone(), waker.clone());
        let inner = Inner {
            surroundings,
            images,
            events,
            referenced,
            pool: Mutex::new(pool),
            locals: Mutex::default(),
            waker,
            stopping: AtomicBool::new(false),
        };
        Self { inner: Arc::new(inner) }
    }

    pub(crate) fn cgroups(&self) -> &Cgroups {
        &self.around().cgroups
    }

    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.around().clock.now()
    }

    fn around(&self) -> &Surroundings {
        &self.inner.surroundings
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.inner.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn locals(&self) -> MutexGuard<'_, Locals> {
        self.inner.locals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All pods of this name there is something of here; more than one while a new one replaces an old one.
    pub(crate) fn locals_of(&self, key: &ObjectKey) -> Vec<Arc<Local>> {
        self.locals().named(key)
    }

    pub(crate) fn all_locals(&self) -> Vec<Arc<Local>> {
        self.locals().all()
    }

    fn node_address(&self) -> Ipv4Addr {
        self.around().network.node_address()
    }

    async fn pass(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        if !self.around().pods.is_synced()
            || !self.around().services.is_synced()
            || self.inner.stopping.load(Ordering::Acquire)
        {
            // Everything is visited once the first list is there; and nothing is touched while all is being stopped.
            return Ok(Next::Done);
        }
        let pod = self.around().pods.get(key);
        let uid = pod.as_ref().and_then(|pod| pod.uid());
        let mut wait: Option<Duration> = None;
        for local in self.locals_of(key) {
            if Some(&local.record().uid) != uid.as_ref() {
                match self.end(&local, GRACE_OF_THE_FORGOTTEN).await? {
                    Some(left) => wait = Some(left),
                    None => self.forget(&local).await?,
                }
            }
        }
        let next = match pod {
            None => Next::Done,
            Some(pod) if pod.metadata.deletion_timestamp.is_some() => self.delete(&pod).await?,
            Some(pod) if specification::is_finished(&pod) => self.rest(&pod).await?,
            Some(pod) => self.run(&pod).await?,
        };
        Ok(match (next, wait) {
            (Next::Done, None) => Next::Done,
            (Next::After(one), Some(other)) => Next::After(one.min(other)),
            (Next::After(one), None) | (Next::Done, Some(one)) => Next::After(one),
        })
    }
}

impl Reconcile for Pods {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        self.around().pods.synced().await;
        // Containers are told where the API is, which is a Service.
        self.around().services.synced().await;
        let mut keys: BTreeMap<ObjectKey, ()> =
            self.around().pods.keys().into_iter().map(|key| (key, ())).collect();
        keys.extend(self.all_locals().iter().map(|local| (local.record().key(), ())));
        Ok(keys.into_keys().collect())
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let correlation =
            self.around().pods.get(key).and_then(|pod| pod.annotations().get(CORRELATION).cloned());
        match correlation {
            Some(correlation) => self.pass(key).instrument(info_span!("pod", correlation)).await,
            None => self.pass(key).await,
        }
    }
}
