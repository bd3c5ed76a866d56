//! Roles and bindings, and requests for certificates.

use serde_json::{Value, json};

use super::{ensure_object, fill, items, items_mut, text};
use crate::status::Cause;

const GROUP: &str = "rbac.authorization.k8s.io";

/// What was asked for stays; only its answer changes.
pub(super) fn validate_request(old: Option<&Value>, new: &Value) -> Vec<Cause> {
    let spec = &new["spec"];
    let mut causes = Vec::new();
    if text(spec, "/request").is_empty() {
        causes.push(Cause::required("spec.request", ""));
    }
    if text(spec, "/signerName").is_empty() {
        causes.push(Cause::required("spec.signerName", ""));
    }
    if items(spec, "/usages").is_empty() {
        causes.push(Cause::required("spec.usages", "usages must be set"));
    }
    if old.is_some_and(|old| old["spec"] != *spec) {
        causes.push(Cause::invalid("spec", &Value::Null, "field is immutable"));
    }
    causes
}

pub(super) fn defaults(plural: &str, object: &mut Value) {
    if !plural.ends_with("bindings") {
        return;
    }
    ensure_object(&mut object["roleRef"]);
    fill(&mut object["roleRef"], "apiGroup", json!(GROUP));
    for subject in items_mut(object, "subjects") {
        if matches!(text(subject, "/kind"), "User" | "Group") {
            fill(subject, "apiGroup", json!(GROUP));
        }
    }
}

pub(super) fn validate(plural: &str, old: Option<&Value>, new: &Value) -> Vec<Cause> {
    match plural.ends_with("bindings") {
        true => binding(plural, old, new),
        false => role(plural, new),
    }
}

fn role(plural: &str, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for (place, rule) in items(new, "/rules").iter().enumerate() {
        let path = format!("rules[{place}]");
        let urls = !items(rule, "/nonResourceURLs").is_empty();
        if items(rule, "/verbs").is_empty() {
            causes.push(Cause::required(format!("{path}.verbs"), "verbs must contain at least one value"));
        }
        if urls {
            if plural == "roles" {
                causes.push(Cause::invalid(
                    format!("{path}.nonResourceURLs"),
                    &rule["nonResourceURLs"],
                    "namespaced rules cannot apply to non-resource URLs",
                ));
            }
            continue;
        }
        if items(rule, "/apiGroups").is_empty() {
            causes.push(Cause::required(
                format!("{path}.apiGroups"),
                "resource rules must supply at least one api group",
            ));
        }
        if items(rule, "/resources").is_empty() {
            causes.push(Cause::required(
                format!("{path}.resources"),
                "resource rules must supply at least one resource",
            ));
        }
    }
    causes
}

fn binding(plural: &str, old: Option<&Value>, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let role = &new["roleRef"];
    let kinds: &[&str] = if plural == "rolebindings" { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&text(role, "/kind")) {
        causes.push(Cause::not_supported("roleRef.kind", &role["kind"], kinds.iter().copied()));
    }
    if role["apiGroup"] != GROUP {
        causes.push(Cause::not_supported("roleRef.apiGroup", &role["apiGroup"], [GROUP]));
    }
    if text(role, "/name").is_empty() {
        causes.push(Cause::required("roleRef.name", ""));
    }
    for (place, subject) in items(new, "/subjects").iter().enumerate() {
        let path = format!("subjects[{place}]");
        if text(subject, "/name").is_empty() {
            causes.push(Cause::required(format!("{path}.name"), ""));
        }
        let kinds = ["ServiceAccount", "User", "Group"];
        match text(subject, "/kind") {
            "ServiceAccount" if plural == "clusterrolebindings" && text(subject, "/namespace").is_empty() => {
                causes.push(Cause::required(format!("{path}.namespace"), ""));
            }
            kind if kinds.contains(&kind) => {}
            _ => causes.push(Cause::not_supported(format!("{path}.kind"), &subject["kind"], kinds)),
        }
    }
    if old.is_some_and(|old| old["roleRef"] != *role) {
        // In the manner of Go: all fields, with the names they have there.
        let shown = format!(
            "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
            role["apiGroup"], role["kind"], role["name"]
        );
        let why = format!("Invalid value: {shown}: cannot change roleRef");
        causes.push(Cause::new("FieldValueInvalid", why, "roleRef"));
    }
    causes
}
