//! Ports of pods on the node's own addresses.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use k8s_openapi::api::core::v1::{ContainerPort, Pod};
use pilothouse_informer::{Informer, ObjectKey};
use pilothouse_runtime::{Next, Reconcile, TaskError};

use super::Listeners;
use super::listener::Proxy;
use super::plan::{Front, Protocol, Target};

/// The reconciler: one pod of this node a key.
pub(crate) struct HostPorts {
    pub(crate) pods: Informer<Pod>,
    pub(crate) proxy: Proxy,
    pub(crate) node_address: Ipv4Addr,
    pub(crate) listeners: Listeners,
}

impl Reconcile for HostPorts {
    type Key = ObjectKey;

    async fn list(&self) -> Result<Vec<ObjectKey>, TaskError> {
        self.pods.synced().await;
        let mut keys = self.pods.keys();
        keys.extend(self.listeners.keys());
        keys.sort();
        keys.dedup();
        Ok(keys)
    }

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, TaskError> {
        let desired = self.pods.get(key).map(|pod| desired(&pod, self.node_address)).unwrap_or_default();
        self.listeners.ensure(key, desired, &self.proxy).await?;
        Ok(Next::Done)
    }
}

/// Where the node's ports lead that a pod has. A pod in the node's network needs none: its ports are the node's.
fn desired(pod: &Pod, node: Ipv4Addr) -> BTreeMap<Front, Target> {
    let mut plan = BTreeMap::new();
    let (Some(spec), Some(status)) = (&pod.spec, &pod.status) else { return plan };
    let ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let address = status.pod_ip.as_deref().and_then(|address| address.parse::<Ipv4Addr>().ok());
    let Some(address) = address.filter(|_| !ended && spec.host_network != Some(true)) else { return plan };
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    for port in containers.flat_map(|container| container.ports.iter().flatten()) {
        let Some(protocol) = Protocol::named(port.protocol.as_deref()) else { continue };
        let (Some(outside), Ok(inside)) = (host_port(port), u16::try_from(port.container_port)) else {
            continue;
        };
        let backends = vec![SocketAddr::new(address.into(), inside)];
        for address in host_addresses(port, node) {
            let front = Front { protocol, address: SocketAddr::new(address.into(), outside) };
            plan.insert(front, Target { backends: backends.clone(), affinity: None });
        }
    }
    plan
}

fn host_port(port: &ContainerPort) -> Option<u16> {
    port.host_port.and_then(|number| u16::try_from(number).ok()).filter(|number| *number != 0)
}

/// The addresses of the node that are meant: one, or all.
fn host_addresses(port: &ContainerPort, node: Ipv4Addr) -> Vec<Ipv4Addr> {
    let all = vec![node, Ipv4Addr::LOCALHOST];
    match port.host_ip.as_deref().and_then(|address| address.parse::<IpAddr>().ok()) {
        None => all,
        Some(address) if address.is_unspecified() => all,
        Some(address) => all.into_iter().filter(|one| IpAddr::V4(*one) == address).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn planned(mut pod: Value) -> Vec<String> {
        pod["spec"]["containers"] = json!([{"name": "a", "ports": [
            {"containerPort": 80, "hostPort": 8080}, {"containerPort": 81},
            {"containerPort": 53, "hostPort": 5353, "protocol": "UDP", "hostIP": "10.200.0.1"},
            {"containerPort": 9, "hostPort": 9, "hostIP": "192.0.2.1"}]}]);
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let plan = desired(&pod, Ipv4Addr::new(10, 200, 0, 1));
        plan.iter().map(|(front, target)| format!("{} -> {}", front.address, target.backends[0])).collect()
    }

    #[test]
    fn ports_of_the_node_lead_to_pods_that_have_not_ended() {
        let running = json!({"phase": "Running", "podIP": "10.200.0.7"});
        assert_eq!(
            planned(json!({"spec": {}, "status": running})),
            [
                "10.200.0.1:8080 -> 10.200.0.7:80",
                "127.0.0.1:8080 -> 10.200.0.7:80",
                "10.200.0.1:5353 -> 10.200.0.7:53"
            ]
        );
        assert!(planned(json!({"spec": {"hostNetwork": true}, "status": running})).is_empty());
        assert!(planned(json!({"spec": {}, "status": {"phase": "Pending"}})).is_empty());
        let ended = json!({"phase": "Failed", "podIP": "10.200.0.7"});
        assert!(planned(json!({"spec": {}, "status": ended})).is_empty());
    }
}
