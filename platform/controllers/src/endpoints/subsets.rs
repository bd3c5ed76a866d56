//! Backends as an Endpoints object.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::MANAGED_BY;
use super::backend::{Backend, Port};

pub(super) fn endpoints(service: &Service, backends: &[Backend]) -> Endpoints {
    // Pods of one service may have a named port at different numbers; each set of numbers is a subset.
    let mut grouped: BTreeMap<Vec<Port>, Vec<&Backend>> = BTreeMap::new();
    let listed = backends.iter().filter(|backend| backend.ready || !backend.terminating);
    for backend in listed {
        let mut ports = backend.ports.clone();
        ports.sort();
        grouped.entry(ports).or_default().push(backend);
    }
    let subsets: Vec<_> = grouped.into_iter().map(|(ports, backends)| subset(&ports, backends)).collect();
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    Endpoints {
        metadata: ObjectMeta {
            name: service.metadata.name.clone(),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        subsets: (!subsets.is_empty()).then_some(subsets),
    }
}

fn subset(ports: &[Port], mut backends: Vec<&Backend>) -> EndpointSubset {
    backends.sort_by_key(|backend| backend.address);
    let address = |backend: &&Backend| EndpointAddress {
        ip: backend.address.to_string(),
        hostname: backend.hostname.clone(),
        node_name: backend.node.clone(),
        target_ref: Some(backend.pod.clone()),
    };
    let (ready, unready): (Vec<_>, Vec<_>) = backends.into_iter().partition(|backend| backend.ready);
    let some = |list: Vec<EndpointAddress>| (!list.is_empty()).then_some(list);
    let port = |port: &Port| EndpointPort {
        name: port.name.clone(),
        port: port.number,
        protocol: Some(port.protocol.clone()),
        app_protocol: port.app_protocol.clone(),
    };
    EndpointSubset {
        addresses: some(ready.iter().map(address).collect()),
        not_ready_addresses: some(unready.iter().map(address).collect()),
        ports: (!ports.is_empty()).then(|| ports.iter().map(port).collect()),
    }
}

/// Whether nothing would change by writing.
pub(super) fn same(found: &Endpoints, wanted: &Endpoints) -> bool {
    found.subsets.as_deref().unwrap_or_default() == wanted.subsets.as_deref().unwrap_or_default()
        && found.metadata.labels == wanted.metadata.labels
}
