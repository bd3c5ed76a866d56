//! Webhooks, admission policies and registered services. They are kept and shown; nothing here evaluates them.

use serde_json::{Value, json};

use super::{ensure_object, fill, items, items_mut, text};
use crate::status::Cause;

pub(super) fn defaults(plural: &str, object: &mut Value) {
    match plural {
        "validatingwebhookconfigurations" => webhooks(object, false),
        "mutatingwebhookconfigurations" => webhooks(object, true),
        "validatingadmissionpolicies" => {
            let spec = &mut object["spec"];
            ensure_object(spec);
            fill(spec, "failurePolicy", json!("Fail"));
            if spec["matchConstraints"].is_object() {
                constraints(&mut spec["matchConstraints"]);
            }
        }
        "validatingadmissionpolicybindings" => {
            let spec = &mut object["spec"];
            if spec["matchResources"].is_object() {
                constraints(&mut spec["matchResources"]);
            }
        }
        _ => {}
    }
}

fn webhooks(object: &mut Value, mutating: bool) {
    for webhook in items_mut(object, "webhooks") {
        fill(webhook, "failurePolicy", json!("Fail"));
        fill(webhook, "timeoutSeconds", json!(10));
        if mutating {
            fill(webhook, "reinvocationPolicy", json!("Never"));
        }
        selectors(webhook);
        for rule in items_mut(webhook, "rules") {
            fill(rule, "scope", json!("*"));
        }
        if webhook["clientConfig"]["service"].is_object() {
            fill(&mut webhook["clientConfig"]["service"], "port", json!(443));
        }
    }
}

fn constraints(constraints: &mut Value) {
    selectors(constraints);
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in items_mut(constraints, list) {
            fill(rule, "scope", json!("*"));
        }
    }
}

fn selectors(value: &mut Value) {
    fill(value, "matchPolicy", json!("Equivalent"));
    fill(value, "namespaceSelector", json!({}));
    fill(value, "objectSelector", json!({}));
}

pub(super) fn service_defaults(object: &mut Value) {
    let spec = &mut object["spec"];
    if spec["service"].is_object() {
        fill(&mut spec["service"], "port", json!(443));
    }
}

pub(super) fn validate(plural: &str, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if !plural.ends_with("webhookconfigurations") {
        return causes;
    }
    let mut names = Vec::new();
    for (index, webhook) in items(new, "/webhooks").iter().enumerate() {
        let path = format!("webhooks[{index}]");
        let name = text(webhook, "/name");
        if name.split('.').count() < 3 {
            let why = "should be a domain with at least three segments separated by dots";
            causes.push(Cause::invalid(format!("{path}.name"), &webhook["name"], why));
        }
        if names.contains(&name) {
            causes.push(Cause::duplicate(format!("{path}.name"), &webhook["name"]));
        }
        names.push(name);
        let effects = &webhook["sideEffects"];
        match effects.as_str() {
            None => causes.push(Cause::required(
                format!("{path}.sideEffects"),
                "must specify one of None, NoneOnDryRun",
            )),
            Some("None" | "NoneOnDryRun") => {}
            Some(_) => {
                let known = ["None", "NoneOnDryRun"];
                causes.push(Cause::not_supported(format!("{path}.sideEffects"), effects, known));
            }
        }
        if items(webhook, "/admissionReviewVersions").is_empty() {
            let why = "must specify one of v1, v1beta1";
            causes.push(Cause::required(format!("{path}.admissionReviewVersions"), why));
        }
        if webhook["timeoutSeconds"].as_i64().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
            let why = "the timeout value must be between 1 and 30 seconds";
            causes.push(Cause::invalid(format!("{path}.timeoutSeconds"), &webhook["timeoutSeconds"], why));
        }
        let client = &webhook["clientConfig"];
        if client["url"].is_null() == client["service"].is_null() {
            let why = "exactly one of url or service is required";
            causes.push(Cause::required(format!("{path}.clientConfig"), why));
        }
    }
    causes
}
