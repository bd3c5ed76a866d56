//! Services: what comes to their addresses is passed on to pods that are ready.
//!
//! The Service range is local to the node, so that every address of it can be listened on. Each port of each Service that leads
//! somewhere has a socket; who connects there is joined with the next endpoint in turn. Connections that are open stay with the
//! endpoint they have until one of them ends, whatever happens to the Service. Where nobody is, nobody listens: clients are refused.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::{Endpoints, Service};
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_runtime::{Next, Reconcile, TaskError};

mod backends;
mod datagrams;
mod host_ports;
mod listener;
mod plan;
mod relay;
mod slices;

pub(crate) use host_ports::HostPorts;
use listener::Listener;
pub(crate) use listener::Proxy;
pub(crate) use plan::{Front, addresses};
use plan::{Here, Target, plan};
pub(crate) use slices::Slices;

/// The reconciler: one Service a key.
pub(crate) struct Services {
    pub(crate) services: Informer<Service>,
    pub(crate) slices: Slices,
    pub(crate) endpoints: Informer<Endpoints>,
    pub(crate) proxy: Proxy,
    pub(crate) node: String,
    pub(crate) node_address: Ipv4Addr,
    /// Where the node answers itself, whatever Service may have that address.
    pub(crate) reserved: Vec<SocketAddr>,
    pub(crate) listeners: Listeners,
}

/// What is listened on, by whom it is for.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    by_key: Mutex<BTreeMap<ObjectKey, BTreeMap<Front, Listener>>>,
}

// === impl Services ===

impl Services {
    /// Where each address of a Service leads.
    fn desired(&self, key: &ObjectKey) -> BTreeMap<Front, Target> {
        let Some(service) = self.services.get(key) else { return BTreeMap::new() };
        let slices = self.slices.of(key);
        let slices: Vec<_> = slices.iter().map(AsRef::as_ref).collect();
        let here = Here { node: &self.node, address: self.node_address };
        let mut desired = plan(&service, &slices, self.endpoints.get(key).as_deref(), here);
        desired.retain(|front, _| !self.reserved.contains(&front.address));
        desired
    }
}

impl Reconcile for Services {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        self.services.synced().await;
        self.slices.synced().await;
        self.endpoints.synced().await;
        let mut keys = self.services.keys();
        keys.extend(self.listeners.keys());
        keys.sort();
        keys.dedup();
        Ok(keys)
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        self.listeners.ensure(key, self.desired(key), &self.proxy).await?;
        Ok(Next::Done)
    }
}

// === impl Listeners ===

impl Listeners {
    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        self.by_key.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    /// Listens on what is desired for a key, and on nothing else. Passes over one key must not overlap.
    pub(crate) async fn ensure(
        &self,
        key: &ObjectKey,
        desired: BTreeMap<Front, Target>,
        proxy: &Proxy,
    ) -> std::io::Result<()> {
        // What is taken out here is missed by nobody.
        let mut present = {
            let mut listeners = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
            listeners.remove(key).unwrap_or_default()
        };
        present.retain(|front, _| desired.contains_key(front));
        let mut failure = None;
        for (front, target) in desired {
            match present.get(&front) {
                Some(listener) => listener.lead_to(target),
                None => match proxy.listen(front, target, key.namespace_or_empty()).await {
                    Ok(listener) => drop(present.insert(front, listener)),
                    Err(error) => failure = Some(error),
                },
            }
        }
        if !present.is_empty() {
            let mut listeners = self.by_key.lock().unwrap_or_else(PoisonError::into_inner);
            listeners.insert(key.clone(), present);
        }
        failure.map_or(Ok(()), Err)
    }
}
