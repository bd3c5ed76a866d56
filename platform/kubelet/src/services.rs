//! Services: connections to their addresses, passed on to pods that are ready.
//!
//! The Service range is local to the node, so that every address of it can be listened on. Each port of each Service has
//! a listener; what connects there is joined with the next endpoint in turn. Connections that are open stay with the endpoint they
//! have, whatever happens to the Service.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};

use k8s_openapi::api::core::v1::{Endpoints, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_runtime::{Next, Reconcile, TaskError, Tasks};

use crate::metrics::Metrics;

mod listener;

use listener::Listener;

/// Names the Service of an EndpointSlice.
pub(crate) const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The reconciler: one Service a key.
pub(crate) struct Services {
    services: Informer<Service>,
    slices: Informer<EndpointSlice>,
    endpoints: Informer<Endpoints>,
    tasks: Tasks,
    metrics: Metrics,
    listeners: Mutex<BTreeMap<ObjectKey, BTreeMap<SocketAddr, Listener>>>,
}

impl Services {
    pub(crate) fn new(
        services: Informer<Service>,
        slices: Informer<EndpointSlice>,
        endpoints: Informer<Endpoints>,
        tasks: Tasks,
        metrics: Metrics,
    ) -> Self {
        Self { services, slices, endpoints, tasks, metrics, listeners: Mutex::default() }
    }

    /// Where the endpoints of each address of a Service are.
    fn desired(&self, key: &ObjectKey) -> BTreeMap<SocketAddr, Vec<SocketAddr>> {
        let Some(service) = self.services.get(key) else { return BTreeMap::new() };
        let slices: Vec<_> = self
            .slices
            .list_in(key.namespace_or_empty())
            .into_iter()
            .filter(|slice| {
                slice.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_LABEL)) == Some(&key.name)
            })
            .collect();
        let slices: Vec<_> = slices.iter().map(AsRef::as_ref).collect();
        plan(&service, &slices, self.endpoints.get(key).as_deref())
    }
}

impl Reconcile for Services {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        self.services.synced().await;
        self.slices.synced().await;
        self.endpoints.synced().await;
        let mut keys = self.services.keys();
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        keys.extend(listeners.keys().cloned());
        keys.sort();
        keys.dedup();
        Ok(keys)
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let desired = self.desired(key);
        // Passes over one key do not overlap, so what is taken out here is missed by nobody.
        let mut present = {
            let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
            listeners.remove(key).unwrap_or_default()
        };
        present.retain(|address, _| desired.contains_key(address));
        let mut failure = None;
        for (address, backends) in desired {
            match present.get(&address) {
                Some(listener) => listener.set_backends(backends),
                None => match Listener::start(address, backends, &self.tasks, &self.metrics).await {
                    Ok(listener) => drop(present.insert(address, listener)),
                    Err(error) => failure = Some(error),
                },
            }
        }
        if !present.is_empty() {
            let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
            listeners.insert(key.clone(), present);
        }
        failure.map_or(Ok(Next::Done), |error| Err(error.into()))
    }
}

/// Which addresses a Service has, and the ready endpoints behind each. Slices are the newer form; a Service without any may
/// still have the older.
fn plan(
    service: &Service,
    slices: &[&EndpointSlice],
    endpoints: Option<&Endpoints>,
) -> BTreeMap<SocketAddr, Vec<SocketAddr>> {
    let Some(spec) = &service.spec else { return BTreeMap::new() };
    let addresses = spec.cluster_ips.clone().or_else(|| spec.cluster_ip.clone().map(|address| vec![address]));
    let addresses: Vec<IpAddr> = addresses
        .unwrap_or_default()
        .iter()
        .filter_map(|address| address.parse().ok())
        .filter(IpAddr::is_ipv4)
        .collect();
    let mut plan = BTreeMap::new();
    for port in spec.ports.iter().flatten() {
        if port.protocol.as_deref().unwrap_or("TCP") != "TCP" {
            continue;
        }
        let Ok(number) = u16::try_from(port.port) else { continue };
        let name = port.name.as_deref().unwrap_or_default();
        let mut backends =
            if slices.is_empty() { of_endpoints(endpoints, name) } else { of_slices(slices, name) };
        backends.sort_unstable();
        backends.dedup();
        for address in &addresses {
            plan.insert(SocketAddr::new(*address, number), backends.clone());
        }
    }
    plan
}

fn of_slices(slices: &[&EndpointSlice], name: &str) -> Vec<SocketAddr> {
    let mut backends = Vec::new();
    for slice in slices {
        let ports =
            slice.ports.iter().flatten().filter(|port| port.name.as_deref().unwrap_or_default() == name);
        for number in ports.filter_map(|port| port.port.and_then(|number| u16::try_from(number).ok())) {
            let ready = slice.endpoints.iter().filter(|endpoint| {
                endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
            });
            let addresses =
                ready.flat_map(|endpoint| &endpoint.addresses).filter_map(|address| address.parse().ok());
            backends.extend(addresses.map(|address: IpAddr| SocketAddr::new(address, number)));
        }
    }
    backends
}

fn of_endpoints(endpoints: Option<&Endpoints>, name: &str) -> Vec<SocketAddr> {
    let mut backends = Vec::new();
    for subset in endpoints.and_then(|endpoints| endpoints.subsets.as_deref()).unwrap_or_default() {
        let ports =
            subset.ports.iter().flatten().filter(|port| port.name.as_deref().unwrap_or_default() == name);
        for number in ports.filter_map(|port| u16::try_from(port.port).ok()) {
            let addresses = subset.addresses.iter().flatten().filter_map(|address| address.ip.parse().ok());
            backends.extend(addresses.map(|address: IpAddr| SocketAddr::new(address, number)));
        }
    }
    backends
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ports_are_matched_by_name_and_only_ready_endpoints_are_used() {
        let service: Service = serde_json::from_value(json!({"spec": {"clusterIP": "10.96.0.9", "ports": [
            {"name": "api", "port": 443}, {"name": "dns", "port": 53, "protocol": "UDP"}]}}))
        .unwrap();
        let slice: EndpointSlice = serde_json::from_value(json!({"addressType": "IPv4",
            "ports": [{"name": "api", "port": 6443}, {"name": "other", "port": 1}],
            "endpoints": [{"addresses": ["10.200.0.7"], "conditions": {"ready": true}},
                          {"addresses": ["10.200.0.8"], "conditions": {"ready": false}},
                          {"addresses": ["10.200.0.9"]}]}))
        .unwrap();
        let older: Endpoints = serde_json::from_value(json!({"subsets": [
            {"addresses": [{"ip": "10.1.1.1"}], "ports": [{"name": "api", "port": 7443}]}]}))
        .unwrap();
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();

        let found = plan(&service, &[&slice], Some(&older));
        let expected = vec![address("10.200.0.7:6443"), address("10.200.0.9:6443")];
        assert_eq!(found, BTreeMap::from([(address("10.96.0.9:443"), expected)]));
        let found = plan(&service, &[], Some(&older));
        assert_eq!(found, BTreeMap::from([(address("10.96.0.9:443"), vec![address("10.1.1.1:7443")])]));

        let headless: Service =
            serde_json::from_value(json!({"spec": {"clusterIP": "None", "ports": [{"port": 80}]}})).unwrap();
        assert!(plan(&headless, &[&slice], None).is_empty());
    }
}
