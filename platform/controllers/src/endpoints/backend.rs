//! One pod behind a service.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::ownership::is_deleting;
use crate::pod;

/// One pod behind a service, with the numbers that the service's ports have on it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Backend {
    pub(super) address: IpAddr,
    pub(super) ports: Vec<Port>,
    pub(super) pod: ObjectReference,
    pub(super) node: Option<String>,
    pub(super) hostname: Option<String>,
    /// Whether new connections should go there.
    pub(super) ready: bool,
    /// Whether it still answers, though it may be ending.
    pub(super) serving: bool,
    pub(super) terminating: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Port {
    pub(super) name: Option<String>,
    pub(super) number: i32,
    pub(super) protocol: String,
    pub(super) app_protocol: Option<String>,
}

impl Backend {
    /// `None` if the pod has no address, or has finished.
    pub(super) fn of(service: &Service, pod: &Pod) -> Option<Self> {
        let status = pod.status.as_ref()?;
        let address: IpAddr = status.pod_ip.as_deref()?.parse().ok()?;
        if pod::is_finished(pod) {
            return None;
        }
        let spec = service.spec.as_ref()?;
        let publish_all = spec.publish_not_ready_addresses.unwrap_or(false);
        let terminating = is_deleting(&pod.metadata);
        let serving = pod::is_ready(pod) || publish_all;
        let ports = spec.ports.iter().flatten().filter_map(|port| Port::of(port, pod)).collect();
        let pod_spec = pod.spec.as_ref();
        let named = pod_spec.and_then(|spec| spec.subdomain.as_deref()) == service.metadata.name.as_deref();
        Some(Self {
            address,
            ports,
            pod: ObjectReference {
                kind: Some("Pod".to_owned()),
                namespace: pod.metadata.namespace.clone(),
                name: pod.metadata.name.clone(),
                uid: pod.metadata.uid.clone(),
                ..ObjectReference::default()
            },
            node: pod::node_name(pod).map(ToOwned::to_owned),
            hostname: pod_spec.and_then(|spec| spec.hostname.clone()).filter(|_| named),
            ready: serving && (!terminating || publish_all),
            serving,
            terminating,
        })
    }
}

impl Port {
    /// `None` if the pod has no port of that name.
    fn of(port: &ServicePort, pod: &Pod) -> Option<Self> {
        let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
        let number = match &port.target_port {
            None => port.port,
            Some(IntOrString::Int(0)) => port.port,
            Some(IntOrString::Int(number)) => *number,
            Some(IntOrString::String(name)) => named(pod, name, &protocol)?,
        };
        Some(Self { name: port.name.clone(), number, protocol, app_protocol: port.app_protocol.clone() })
    }
}

fn named(pod: &Pod, name: &str, protocol: &str) -> Option<i32> {
    let containers = &pod.spec.as_ref()?.containers;
    let ports = containers.iter().flat_map(|container| container.ports.iter().flatten());
    let port = ports.into_iter().find(|port| {
        port.name.as_deref() == Some(name) && port.protocol.as_deref().unwrap_or("TCP") == protocol
    });
    port.map(|port| port.container_port)
}
