//! Services and what they lead to. Addresses and node ports are given by whoever keeps the allocations.

use serde_json::{Value, json};

use super::{ensure_object, fill, items, items_mut, remove, text};
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
    if matches!(text(spec, "/type"), "NodePort" | "LoadBalancer") {
        fill(spec, "externalTrafficPolicy", json!("Cluster"));
    }
    if spec["type"] == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", json!(true));
    }
}

/// What a Service gets beside its address. One that leads to no pods of ours may lead anywhere.
pub(super) fn families(object: &mut Value) {
    let spec = &mut object["spec"];
    if spec["type"] == "ExternalName" {
        return;
    }
    let anywhere = spec["clusterIP"] == "None"
        && spec["selector"].as_object().is_none_or(serde_json::Map::is_empty)
        && spec["ipFamilyPolicy"].is_null()
        && spec["ipFamilies"].is_null();
    match anywhere {
        true => {
            spec["ipFamilies"] = json!(["IPv4", "IPv6"]);
            spec["ipFamilyPolicy"] = json!("RequireDualStack");
        }
        false => {
            fill(spec, "ipFamilies", json!(["IPv4"]));
            fill(spec, "ipFamilyPolicy", json!("SingleStack"));
        }
    }
    let address = text(spec, "/clusterIP").to_owned();
    if !address.is_empty() {
        fill(spec, "clusterIPs", json!([address]));
    }
}

/// What is said about a Service that is taken nevertheless.
pub(super) fn warnings(object: &Value) -> Option<String> {
    (object["spec"]["clusterIP"] == "None")
        .then(|| "spec.SessionAffinity is ignored for headless services".to_owned())
}

/// An update that does not mention an address means the one there is; so for node ports, by port and protocol.
pub(super) fn keep_allocated(old: &Value, new: &mut Value) {
    let (before, spec) = (&old["spec"], &mut new["spec"]);
    ensure_object(spec);
    let addressed = |kind: &str| kind != "ExternalName";
    let exposed = |kind: &str| matches!(kind, "NodePort" | "LoadBalancer");
    let (was, is) = (text(before, "/type").to_owned(), text(spec, "/type").to_owned());
    // What belonged to the former type goes with it, unless somebody chose something else.
    if addressed(&was) && !addressed(&is) {
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
            if spec[key] == before[key] {
                remove(spec, key);
            }
        }
    }
    if exposed(&was) && !exposed(&is) {
        if spec["externalTrafficPolicy"] == before["externalTrafficPolicy"] {
            remove(spec, "externalTrafficPolicy");
        }
        let given: Vec<_> = items(before, "/ports").iter().map(|port| port["nodePort"].clone()).collect();
        for port in items_mut(spec, "ports").filter(|port| given.contains(&port["nodePort"])) {
            remove(port, "nodePort");
        }
    }
    if !addressed(&was) || !addressed(&is) {
        return;
    }
    for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
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
        match &port["targetPort"] {
            Value::Number(number) if !number.as_i64().is_some_and(|number| (1..=65535).contains(&number)) => {
                let why = "must be between 1 and 65535, inclusive";
                causes.push(Cause::invalid(format!("{path}.targetPort"), &port["targetPort"], why));
            }
            _ => {}
        }
        let exposed = matches!(kind, "NodePort" | "LoadBalancer");
        if !exposed && port["nodePort"].as_i64().is_some_and(|number| number != 0) && kinds.contains(&kind) {
            let why = format!("may not be used when `type` is '{kind}'");
            causes.push(Cause::forbidden(format!("{path}.nodePort"), &why));
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
