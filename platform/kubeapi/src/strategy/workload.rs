//! Deployments, replica sets, stateful sets and daemon sets.

use serde_json::{Value, json};

use super::{ensure_object, fill, items, items_mut, metadata, pod, text};
use crate::selector::LabelSelector;
use crate::status::Cause;

pub(super) fn defaults(plural: &str, object: &mut Value) {
    if plural == "controllerrevisions" {
        return;
    }
    let spec = &mut object["spec"];
    ensure_object(spec);
    ensure_object(&mut spec["template"]);
    ensure_object(&mut spec["template"]["metadata"]);
    pod::defaults(&mut spec["template"]["spec"]);
    if plural != "daemonsets" {
        fill(spec, "replicas", json!(1));
    }
    if plural != "replicasets" {
        fill(spec, "revisionHistoryLimit", json!(10));
    }
    match plural {
        "deployments" => {
            fill(spec, "progressDeadlineSeconds", json!(600));
            rolling(spec, "strategy", json!({ "maxUnavailable": "25%", "maxSurge": "25%" }));
        }
        "daemonsets" => rolling(spec, "updateStrategy", json!({ "maxUnavailable": 1, "maxSurge": 0 })),
        "statefulsets" => {
            fill(spec, "podManagementPolicy", json!("OrderedReady"));
            rolling(spec, "updateStrategy", json!({ "partition": 0 }));
            fill(
                spec,
                "persistentVolumeClaimRetentionPolicy",
                json!({ "whenDeleted": "Retain", "whenScaled": "Retain" }),
            );
            for claim in items_mut(spec, "volumeClaimTemplates") {
                ensure_object(claim);
                claim["apiVersion"] = json!("v1");
                claim["kind"] = json!("PersistentVolumeClaim");
                ensure_object(&mut claim["spec"]);
                fill(&mut claim["spec"], "volumeMode", json!("Filesystem"));
                claim["status"] = json!({ "phase": "Pending" });
            }
        }
        _ => {}
    }
}

/// Old clients tell templates of a daemon set apart by a number.
pub(super) fn count_templates(old: Option<&Value>, new: &mut Value) {
    const COUNT: &str = "deprecated.daemonset.template.generation";
    let count = match old {
        None => 1,
        Some(old) => {
            let count =
                old["metadata"]["annotations"][COUNT].as_str().and_then(|text| text.parse::<u64>().ok());
            count.unwrap_or(1) + u64::from(old["spec"]["template"] != new["spec"]["template"])
        }
    };
    ensure_object(&mut new["metadata"]["annotations"]);
    new["metadata"]["annotations"][COUNT] = json!(count.to_string());
}

/// The oldest of them selects what its template makes, if nothing else is said.
pub(super) fn controller_defaults(object: &mut Value) {
    let spec = &mut object["spec"];
    ensure_object(spec);
    fill(spec, "replicas", json!(1));
    if spec["template"].is_object() {
        pod::defaults(&mut spec["template"]["spec"]);
        let labels = spec["template"]["metadata"]["labels"].clone();
        if labels.is_object() {
            fill(spec, "selector", labels);
        }
    }
}

/// A rolling update unless something else is said, with its numbers where they are absent.
fn rolling(spec: &mut Value, key: &str, numbers: Value) {
    ensure_object(&mut spec[key]);
    let strategy = &mut spec[key];
    fill(strategy, "type", json!("RollingUpdate"));
    if strategy["type"] != "RollingUpdate" {
        return;
    }
    ensure_object(&mut strategy["rollingUpdate"]);
    for (name, number) in numbers.as_object().into_iter().flatten() {
        fill(&mut strategy["rollingUpdate"], name, number.clone());
    }
}

pub(super) fn validate(plural: &str, old: Option<&Value>, new: &Value) -> Vec<Cause> {
    if plural == "controllerrevisions" {
        return match old.is_some_and(|old| old["data"] != new["data"]) {
            true => vec![Cause::invalid("data", &new["data"], "field is immutable")],
            false => Vec::new(),
        };
    }
    let spec = &new["spec"];
    let mut causes = Vec::new();
    selector(spec, &mut causes);
    if let Some(replicas) = spec["replicas"].as_i64().filter(|replicas| *replicas < 0) {
        causes.push(Cause::invalid("spec.replicas", &json!(replicas), "must be greater than or equal to 0"));
    }
    metadata::labels(&spec["template"]["metadata"]["labels"], "spec.template.labels", &mut causes);
    // The claims of a stateful set become volumes of its pods.
    let claims = items(spec, "/volumeClaimTemplates").iter().map(|claim| text(claim, "/metadata/name"));
    let claims: Vec<_> = claims.collect();
    causes.extend(pod::validation::specification(&spec["template"]["spec"], "spec.template.spec", &claims));
    let policy = &spec["template"]["spec"]["restartPolicy"];
    if policy != "Always" {
        causes.push(Cause::not_supported("spec.template.spec.restartPolicy", policy, ["Always"]));
    }
    let strategy = &spec["strategy"]["type"];
    if plural == "deployments" && !matches!(strategy.as_str(), Some("Recreate" | "RollingUpdate")) {
        let message = format!(
            "Unsupported value: {{\"Type\":{strategy},\"RollingUpdate\":null}}: supported values: \"Recreate\", \"RollingUpdate\""
        );
        causes.push(Cause::new("FieldValueNotSupported", message, "spec.strategy"));
    }
    let Some(old) = old else { return causes };
    if old["spec"]["selector"] != spec["selector"] {
        causes.push(Cause::invalid("spec.selector", &spec["selector"], "field is immutable"));
    }
    if plural == "statefulsets" {
        fixed_set(&old["spec"], spec, &mut causes);
    }
    causes
}

fn selector(spec: &Value, causes: &mut Vec<Cause>) {
    let selector = &spec["selector"];
    let parsed = LabelSelector::from_object(selector).filter(|parsed| !parsed.is_empty());
    match parsed {
        None if selector.is_null() => {
            causes.push(Cause::required("spec.selector", ""));
            let labels = &spec["template"]["metadata"]["labels"];
            let why = "`selector` does not match template `labels`";
            causes.push(Cause::invalid("spec.template.metadata.labels", labels, why));
        }
        None => {
            causes.push(Cause::invalid("spec.selector", selector, "empty selector is invalid for deployment"))
        }
        Some(parsed) => {
            let labels = &spec["template"]["metadata"]["labels"];
            if !parsed.matches_labels(labels) {
                causes.push(Cause::invalid(
                    "spec.template.metadata.labels",
                    labels,
                    "`selector` does not match template `labels`",
                ));
            }
        }
    }
}

/// What of a stateful set may change.
fn fixed_set(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    const FREE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let fixed = |spec: &Value| -> Vec<(String, Value)> {
        let fields = spec.as_object().into_iter().flatten();
        fields
            .filter(|(name, _)| !FREE.contains(&name.as_str()) && *name != "selector")
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    if fixed(old) != fixed(new) {
        causes.push(Cause::forbidden(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', \
             'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ));
    }
    for (place, claim) in items(new, "/volumeClaimTemplates").iter().enumerate() {
        if text(claim, "/metadata/name").is_empty() {
            causes.push(Cause::required(format!("spec.volumeClaimTemplates[{place}].metadata.name"), ""));
        }
    }
}
