//! Backends as EndpointSlices.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::backend::{Backend, Port};
use crate::ownership::controller_reference;
use crate::template;

pub(super) const SERVICE: &str = "kubernetes.io/service-name";
const MANAGED_BY: (&str, &str) =
    ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io");

/// How many endpoints one slice holds.
const MOST: usize = 100;

/// Slices with names that follow from the service, so that a stale cache makes none twice. A service with no pods has one
/// empty slice.
pub(super) fn slices(service: &Service, backends: &[Backend]) -> Vec<EndpointSlice> {
    let mut grouped: BTreeMap<(&str, Vec<Port>), Vec<&Backend>> = BTreeMap::new();
    for backend in backends {
        let family = if backend.address.is_ipv4() { "IPv4" } else { "IPv6" };
        let mut ports = backend.ports.clone();
        ports.sort();
        grouped.entry((family, ports)).or_default().push(backend);
    }
    if grouped.is_empty() {
        grouped.insert(("IPv4", Vec::new()), Vec::new());
    }
    let mut slices = Vec::new();
    for ((family, ports), mut backends) in grouped {
        backends.sort_by_key(|backend| backend.address);
        let chunks: Vec<_> =
            if backends.is_empty() { vec![&[][..]] } else { backends.chunks(MOST).collect() };
        for chunk in chunks {
            let index = slices.len();
            slices.push(slice(service, index, family, &ports, chunk));
        }
    }
    slices
}

fn slice(
    service: &Service,
    index: usize,
    family: &str,
    ports: &[Port],
    backends: &[&Backend],
) -> EndpointSlice {
    let name = service.metadata.name.clone().unwrap_or_default();
    let uid = service.metadata.uid.as_deref().unwrap_or_default();
    let suffix = template::hash_text(&format!("{uid}/{index}"));
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE.to_owned(), name.clone());
    labels.insert(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned());
    EndpointSlice {
        address_type: family.to_owned(),
        endpoints: backends.iter().map(|backend| endpoint(backend)).collect(),
        metadata: ObjectMeta {
            name: Some(format!("{name}-{suffix}")),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![controller_reference(service)]),
            ..ObjectMeta::default()
        },
        ports: Some(
            ports
                .iter()
                .map(|port| EndpointPort {
                    // Absent and empty are told apart by nobody, but clients expect a name.
                    name: Some(port.name.clone().unwrap_or_default()),
                    port: Some(port.number),
                    protocol: Some(port.protocol.clone()),
                    app_protocol: port.app_protocol.clone(),
                })
                .collect(),
        ),
    }
}

fn endpoint(backend: &Backend) -> Endpoint {
    Endpoint {
        addresses: vec![backend.address.to_string()],
        conditions: Some(EndpointConditions {
            ready: Some(backend.ready),
            serving: Some(backend.serving),
            terminating: Some(backend.terminating),
        }),
        hostname: backend.hostname.clone(),
        node_name: backend.node.clone(),
        target_ref: Some(backend.pod.clone()),
        ..Endpoint::default()
    }
}

pub(super) fn is_ours(slice: &EndpointSlice, service: &str) -> bool {
    let label = |name: &str| slice.metadata.labels.as_ref().and_then(|labels| labels.get(name));
    label(SERVICE).is_some_and(|name| name == service)
        && label(MANAGED_BY.0).is_some_and(|name| name == MANAGED_BY.1)
}

/// Whether nothing would change by writing.
pub(super) fn same(found: &EndpointSlice, wanted: &EndpointSlice) -> bool {
    found.endpoints == wanted.endpoints
        && found.ports.as_deref().unwrap_or_default() == wanted.ports.as_deref().unwrap_or_default()
        && found.address_type == wanted.address_type
        && found.metadata.labels == wanted.metadata.labels
}
