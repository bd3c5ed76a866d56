//! Services, endpoints and nodes in one line.

use serde_json::{Value, json};

use super::{NONE, UNKNOWN, list, or_none, text, workload};

/// More than this and the rest is only counted.
const SHOWN: usize = 3;

pub(super) fn service(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let ports: Vec<_> = list(object, "/spec/ports")
        .iter()
        .map(|port| match port["nodePort"].as_i64() {
            Some(node_port) if node_port > 0 => {
                format!("{}:{node_port}/{}", port["port"], text(port, "/protocol"))
            }
            _ => format!("{}/{}", port["port"], text(port, "/protocol")),
        })
        .collect();
    vec![
        name,
        object["spec"]["type"].clone(),
        or_none(text(object, "/spec/clusterIP")),
        external(object),
        or_none(ports.join(",")),
        age,
        json!(workload::labels(&object["spec"]["selector"])),
    ]
}

fn external(service: &Value) -> Value {
    let addresses: Vec<_> = list(service, "/spec/externalIPs").iter().filter_map(Value::as_str).collect();
    match text(service, "/spec/type") {
        "ExternalName" => json!(text(service, "/spec/externalName")),
        "LoadBalancer" => {
            let mut all: Vec<_> = list(service, "/status/loadBalancer/ingress")
                .iter()
                .map(|ingress| match text(ingress, "/ip") {
                    "" => text(ingress, "/hostname"),
                    address => address,
                })
                .collect();
            all.extend(addresses);
            if all.is_empty() { json!("<pending>") } else { json!(all.join(",")) }
        }
        _ => or_none(addresses.join(",")),
    }
}

pub(super) fn endpoints(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in list(object, "/subsets") {
        for address in list(subset, "/addresses") {
            let ip = text(address, "/ip");
            let ports = list(subset, "/ports");
            if ports.is_empty() {
                all.push(ip.to_owned());
            }
            all.extend(ports.iter().map(|port| format!("{ip}:{}", port["port"])));
        }
    }
    vec![name, or_none(some_of(&all)), age]
}

pub(super) fn endpoint_slice(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let ports: Vec<_> = list(object, "/ports")
        .iter()
        .map(|port| port["port"].as_i64().map_or_else(|| "*".to_owned(), |number| number.to_string()))
        .collect();
    let addresses: Vec<_> = list(object, "/endpoints")
        .iter()
        .flat_map(|endpoint| list(endpoint, "/addresses"))
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    let unset = |shown: String| if shown.is_empty() { json!("<unset>") } else { json!(shown) };
    vec![name, object["addressType"].clone(), unset(some_of(&ports)), unset(some_of(&addresses)), age]
}

fn some_of(all: &[String]) -> String {
    match all.len() {
        0..=SHOWN => all.join(","),
        many => format!("{} + {} more...", all[..SHOWN].join(","), many - SHOWN),
    }
}

pub(super) fn node(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let ready = list(object, "/status/conditions").iter().find(|condition| condition["type"] == "Ready");
    let mut status = match ready {
        Some(condition) if condition["status"] == "True" => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if object["spec"]["unschedulable"] == true {
        status.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let found = list(object, "/status/addresses").iter().find(|address| address["type"] == kind);
        json!(found.map_or(NONE, |address| text(address, "/address")))
    };
    let info = |key: &str| match text(&object["status"]["nodeInfo"], key) {
        "" => json!(UNKNOWN),
        known => json!(known),
    };
    vec![
        name,
        json!(status),
        or_none(roles(object)),
        age,
        json!(text(object, "/status/nodeInfo/kubeletVersion")),
        address("InternalIP"),
        address("ExternalIP"),
        info("/osImage"),
        info("/kernelVersion"),
        info("/containerRuntimeVersion"),
    ]
}

fn roles(node: &Value) -> String {
    let mut roles: Vec<_> = node["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) if !role.is_empty() => Some(role),
            _ if key == "kubernetes.io/role" => value.as_str().filter(|role| !role.is_empty()),
            _ => None,
        })
        .collect();
    roles.sort_unstable();
    roles.join(",")
}
