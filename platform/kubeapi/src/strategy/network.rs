//! Ingresses and network policies.

use serde_json::{Value, json};

use super::{ensure_object, fill, items, items_mut, text};
use crate::status::Cause;

pub(super) fn policy_defaults(object: &mut Value) {
    let spec = &mut object["spec"];
    ensure_object(spec);
    for direction in ["ingress", "egress"] {
        for rule in items_mut(spec, direction) {
            for port in items_mut(rule, "ports") {
                fill(port, "protocol", json!("TCP"));
            }
        }
    }
    let both = spec["egress"].as_array().is_some_and(|rules| !rules.is_empty());
    fill(spec, "policyTypes", if both { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
}

pub(super) fn validate_policy(new: &Value) -> Vec<Cause> {
    let types = items(new, "/spec/policyTypes");
    let wrong = types.iter().enumerate().filter(|(_, one)| *one != "Ingress" && *one != "Egress");
    wrong
        .map(|(place, one)| {
            Cause::not_supported(format!("spec.policyTypes[{place}]"), one, ["Egress", "Ingress"])
        })
        .collect()
}

pub(super) fn validate_ingress(new: &Value) -> Vec<Cause> {
    let spec = &new["spec"];
    let mut causes = Vec::new();
    if items(spec, "/rules").is_empty() && spec["defaultBackend"].is_null() {
        let why = "either `defaultBackend` or `rules` must be specified";
        causes.push(Cause::invalid("spec", &spec["rules"], why));
    }
    if !spec["defaultBackend"].is_null() {
        backend(&spec["defaultBackend"], "spec.defaultBackend", &mut causes);
    }
    for (index, rule) in items(spec, "/rules").iter().enumerate() {
        let paths = items(rule, "/http/paths");
        if rule["http"].is_object() && paths.is_empty() {
            causes.push(Cause::required(format!("spec.rules[{index}].http.paths"), ""));
        }
        for (place, path) in paths.iter().enumerate() {
            let here = format!("spec.rules[{index}].http.paths[{place}]");
            match text(path, "/pathType") {
                "" => causes.push(Cause::required(format!("{here}.pathType"), "pathType must be specified")),
                "Exact" | "Prefix" if !text(path, "/path").starts_with('/') => {
                    causes.push(Cause::invalid(
                        format!("{here}.path"),
                        &path["path"],
                        "must be an absolute path",
                    ));
                }
                "Exact" | "Prefix" | "ImplementationSpecific" => {}
                _ => {
                    let known = ["Exact", "ImplementationSpecific", "Prefix"];
                    causes.push(Cause::not_supported(format!("{here}.pathType"), &path["pathType"], known));
                }
            }
            backend(&path["backend"], &format!("{here}.backend"), &mut causes);
        }
    }
    causes
}

fn backend(backend: &Value, path: &str, causes: &mut Vec<Cause>) {
    let (service, resource) = (&backend["service"], &backend["resource"]);
    match (service.is_object(), resource.is_object()) {
        (true, true) => {
            causes.push(Cause::invalid(path, &Value::Null, "cannot set both resource and service backends"))
        }
        (false, false) => causes.push(Cause::required(path, "")),
        (true, false) => {
            if text(service, "/name").is_empty() {
                causes.push(Cause::required(format!("{path}.service.name"), ""));
            }
            let port = &service["port"];
            let number = port["number"].as_i64().unwrap_or_default();
            match (text(port, "/name").is_empty(), number) {
                (true, 0) => causes
                    .push(Cause::required(format!("{path}.service.port"), "port name or number is required")),
                (false, number) if number != 0 => {
                    causes.push(Cause::invalid(path, &Value::Null, "cannot set both port name & port number"))
                }
                (_, number) if !(0..=65_535).contains(&number) => causes.push(Cause::invalid(
                    format!("{path}.service.port.number"),
                    &port["number"],
                    "must be between 1 and 65535, inclusive",
                )),
                _ => {}
            }
        }
        (false, true) => {}
    }
}

pub(super) fn validate_class(old: Option<&Value>, new: &Value) -> Vec<Cause> {
    let controller = &new["spec"]["controller"];
    let mut causes = Vec::new();
    if text(new, "/spec/controller").is_empty() {
        causes.push(Cause::required("spec.controller", ""));
    }
    if old.is_some_and(|old| old["spec"]["controller"] != *controller) {
        causes.push(Cause::invalid("spec.controller", controller, "field is immutable"));
    }
    causes
}
