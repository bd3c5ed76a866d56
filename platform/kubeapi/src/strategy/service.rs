//! Services and what they lead to. Addresses and node ports are given by whoever keeps the allocations.

use serde_json::{Value, json};

use super::{ensure_object, fill, items, items_mut, text};
use crate::status::Cause;

pub(super) fn defaults(object: &mut Value) {
    let spec = &mut object["spec"];
    ensure_object(spec);
    fill(spec, "type", json!("ClusterIP"));
    fill(spec, "sessionAffinity", json!("None"));
    if spec["sessionAffinity"] == "ClientIP" {
        fill(spec, "sessionAffinityConfig", json!({ "clientIP": { "timeoutSeconds": 10_800 } }));
    }
    for port in items_mut(spec, "ports") {
        fill(port, "protocol", json!("TCP"));
        let number = port["port"].clone();
        fill(port, "targetPort", number);
    }
    if spec["type"] == "ExternalName" {
        return;
    }
    fill(spec, "internalTrafficPolicy", json!("Cluster"));
    fill(spec, "ipFamilies", json!(["IPv4"]));
    fill(spec, "ipFamilyPolicy", json!("SingleStack"));
    if matches!(text(spec, "/type"), "NodePort" | "LoadBalancer") {
        fill(spec, "externalTrafficPolicy", json!("Cluster"));
    }
    if spec["type"] == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", json!(true));
    }
    let address = text(spec, "/clusterIP").to_owned();
    if !address.is_empty() {
        fill(spec, "clusterIPs", json!([address]));
    }
}

/// An update that does not mention an address means the one there is; so for node ports, by port and protocol.
pub(super) fn keep_allocated(old: &Value, new: &mut Value) {
    let (before, spec) = (&old["spec"], &mut new["spec"]);
    ensure_object(spec);
    let addressed = |kind: &str| kind != "ExternalName";
    if !addressed(text(before, "/type")) || !addressed(text(spec, "/type")) {
        return;
    }
    for key in ["clusterIP", "clusterIPs"] {
        let unset = spec[key].is_null() || spec[key] == "" || spec[key].as_array().is_some_and(Vec::is_empty);
        if unset && let Some(value) = before.get(key) {
            spec[key] = value.clone();
        }
    }
    if !matches!(text(spec, "/type"), "NodePort" | "LoadBalancer") {
        return;
    }
    for port in items_mut(spec, "ports") {
        let same = items(before, "/ports")
            .iter()
            .find(|one| one["port"] == port["port"] && protocol(one) == protocol(port));
        if let Some(number) = same.and_then(|one| one.get("nodePort")) {
            fill(port, "nodePort", number.clone());
        }
    }
}

fn protocol(port: &Value) -> &str {
    match text(port, "/protocol") {
        "" => "TCP",
        protocol => protocol,
    }
}

pub(super) fn endpoints_defaults(object: &mut Value) {
    for subset in items_mut(object, "subsets") {
        items_mut(subset, "ports").for_each(|port| fill(port, "protocol", json!("TCP")));
    }
}

pub(super) fn slice_defaults(object: &mut Value) {
    for port in items_mut(object, "ports") {
        fill(port, "name", json!(""));
        fill(port, "protocol", json!("TCP"));
    }
    fill(object, "endpoints", json!([]));
}

pub(super) fn validate(old: Option<&Value>, new: &Value) -> Vec<Cause> {
    let spec = &new["spec"];
    let mut causes = Vec::new();
    let kind = text(spec, "/type");
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !kinds.contains(&kind) {
        causes.push(Cause::not_supported("spec.type", &spec["type"], kinds));
    }
    let ports = items(spec, "/ports");
    if ports.is_empty() && kind != "ExternalName" && spec["clusterIP"] != "None" {
        causes.push(Cause::required("spec.ports", ""));
    }
    if kind == "ExternalName" && text(spec, "/externalName").is_empty() {
        causes.push(Cause::required("spec.externalName", ""));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (place, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{place}]");
        let name = text(port, "/name");
        if name.is_empty() && ports.len() > 1 {
            causes.push(Cause::required(format!("{path}.name"), ""));
        } else if !name.is_empty() && seen.contains(&name) {
            causes.push(Cause::duplicate(format!("{path}.name"), &json!(name)));
        }
        seen.push(name);
        if !port["port"].as_i64().is_some_and(|number| (1..=65535).contains(&number)) {
            causes.push(Cause::invalid(
                format!("{path}.port"),
                &port["port"],
                "must be between 1 and 65535, inclusive",
            ));
        }
        let protocols = ["SCTP", "TCP", "UDP"];
        if !protocols.contains(&text(port, "/protocol")) {
            causes.push(Cause::not_supported(format!("{path}.protocol"), &port["protocol"], protocols));
        }
    }
    if let Some(old) = old {
        let (before, after) = (text(&old["spec"], "/clusterIP"), text(spec, "/clusterIP"));
        if !before.is_empty() && before != after && kind != "ExternalName" {
            causes.push(Cause::invalid("spec.clusterIPs[0]", &json!([after]), "may not change once set"));
        }
    }
    causes
}
