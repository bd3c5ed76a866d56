//! Autoscalers: what one means where it is silent, and what it must say.

use serde_json::{Value, json};

use super::{ensure_object, fill, items, text};
use crate::status::Cause;

/// How much of its CPU a pod may use before there are more of it, if nobody says otherwise.
const UTILIZATION: i64 = 80;
const LONGEST_WINDOW: i64 = 3600;
const LONGEST_PERIOD: i64 = 1800;
/// Types of metrics, each with the field that describes it.
const METRICS: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

pub(super) fn defaults(object: &mut Value) {
    ensure_object(&mut object["spec"]);
    let spec = &mut object["spec"];
    fill(spec, "minReplicas", json!(1));
    if items(spec, "/metrics").is_empty() {
        let target = json!({ "type": "Utilization", "averageUtilization": UTILIZATION });
        spec["metrics"] = json!([{ "type": "Resource", "resource": { "name": "cpu", "target": target } }]);
    }
    if spec["behavior"].is_object() {
        let policy = |kind: &str, value: i64| json!({ "type": kind, "value": value, "periodSeconds": 15 });
        let up = json!([policy("Pods", 4), policy("Percent", 100)]);
        for (direction, policies) in [("scaleUp", up), ("scaleDown", json!([policy("Percent", 100)]))] {
            let rules = &mut spec["behavior"][direction];
            if rules.is_null() {
                *rules = json!({});
            }
            if direction == "scaleUp" {
                fill(rules, "stabilizationWindowSeconds", json!(0));
            }
            fill(rules, "selectPolicy", json!("Max"));
            fill(rules, "policies", policies);
        }
    }
}

pub(super) fn validate(new: &Value) -> Vec<Cause> {
    let spec = &new["spec"];
    let mut causes = Vec::new();
    let (least, most) = (spec["minReplicas"].as_i64(), spec["maxReplicas"].as_i64().unwrap_or_default());
    if least.is_some_and(|least| least < 1) {
        let why = "must be greater than or equal to 1";
        causes.push(Cause::invalid("spec.minReplicas", &spec["minReplicas"], why));
    }
    if most < 1 {
        causes.push(Cause::invalid("spec.maxReplicas", &json!(most), "must be greater than 0"));
    }
    if least.is_some_and(|least| most < least) {
        let why = "must be greater than or equal to `minReplicas`";
        causes.push(Cause::invalid("spec.maxReplicas", &json!(most), why));
    }
    reference(&spec["scaleTargetRef"], "spec.scaleTargetRef", &mut causes);
    for (place, metric) in items(spec, "/metrics").iter().enumerate() {
        self::metric(metric, &format!("spec.metrics[{place}]"), &mut causes);
    }
    let outside = |metric: &Value| matches!(text(metric, "/type"), "Object" | "External");
    if least == Some(0) && !items(spec, "/metrics").iter().any(outside) {
        let why = "must specify at least one Object or External metric to support scaling to zero replicas";
        causes.push(Cause::forbidden("spec.metrics", why));
    }
    for direction in ["scaleUp", "scaleDown"] {
        if spec["behavior"][direction].is_object() {
            rules(&spec["behavior"][direction], &format!("spec.behavior.{direction}"), &mut causes);
        }
    }
    causes
}

fn reference(reference: &Value, path: &str, causes: &mut Vec<Cause>) {
    for field in ["kind", "name"] {
        if text(reference, &format!("/{field}")).is_empty() {
            causes.push(Cause::required(format!("{path}.{field}"), ""));
        }
    }
    let version = text(reference, "/apiVersion");
    let core = !version.contains('/');
    // In the core group there is one kind with a scale, and who means it may say so.
    if core && version != "v1" {
        let why = "apiVersion must specify API group";
        causes.push(Cause::invalid(format!("{path}.apiVersion"), &json!(version), why));
    }
}

fn metric(metric: &Value, path: &str, causes: &mut Vec<Cause>) {
    let kind = text(metric, "/type");
    let names = METRICS.map(|(name, _)| name);
    if kind.is_empty() {
        causes.push(Cause::required(format!("{path}.type"), "must specify a metric source type"));
    }
    let Some((_, field)) = METRICS.into_iter().find(|(name, _)| *name == kind) else {
        // It is found twice, and said twice.
        for _ in 0..2 {
            causes.push(Cause::not_supported(format!("{path}.type"), &json!(kind), names));
        }
        return;
    };
    let source = &metric[field];
    if source.is_null() {
        let why = "must populate information for the given metric source";
        causes.push(Cause::required(format!("{path}.{field}"), why));
        return;
    }
    self::source(field, source, &format!("{path}.{field}"), causes);
    for (_, other) in METRICS.into_iter().filter(|(_, other)| *other != field) {
        if !metric[other].is_null() {
            let why = "must populate the given metric source only";
            causes.push(Cause::forbidden(format!("{path}.{other}"), why));
        }
    }
}

fn source(field: &str, source: &Value, path: &str, causes: &mut Vec<Cause>) {
    let target = &source["target"];
    let has = |name: &str| !target[name].is_null();
    match field {
        "resource" | "containerResource" => {
            if text(source, "/name").is_empty() {
                causes.push(Cause::required(format!("{path}.name"), "must specify a resource name"));
            }
            if field == "containerResource" && text(source, "/container").is_empty() {
                causes.push(Cause::required(format!("{path}.container"), "must specify a container"));
            }
        }
        _ if text(source, "/metric/name").is_empty() => {
            causes.push(Cause::required(format!("{path}.metric.name"), "must specify a metric name"));
        }
        _ => {}
    }
    if field == "object" {
        reference(&source["describedObject"], &format!("{path}.describedObject"), causes);
    }
    self::target(target, &format!("{path}.target"), causes);
    let lacks = match field {
        "object" if !has("value") && !has("averageValue") => {
            Some(("averageValue", "must set either a target value or averageValue"))
        }
        "external" if !has("value") && !has("averageValue") => {
            Some(("averageValue", "must set either a target value for metric or a per-pod target"))
        }
        "pods" if !has("averageValue") => {
            Some(("averageValue", "must specify a positive target averageValue"))
        }
        "resource" | "containerResource" if !has("averageUtilization") && !has("averageValue") => {
            Some(("averageUtilization", "must set either a target raw value or a target utilization"))
        }
        _ => None,
    };
    if let Some((name, why)) = lacks {
        causes.push(Cause::required(format!("{path}.target.{name}"), why));
    }
    let both = match field {
        "external" if has("value") && has("averageValue") => {
            Some(("value", "may not set both a target value for metric and a per-pod target"))
        }
        "resource" | "containerResource" if has("averageUtilization") && has("averageValue") => {
            Some(("averageValue", "may not set both a target raw value and a target utilization"))
        }
        _ => None,
    };
    if let Some((name, why)) = both {
        causes.push(Cause::forbidden(format!("{path}.target.{name}"), why));
    }
}

fn target(target: &Value, path: &str, causes: &mut Vec<Cause>) {
    let kinds = ["Utilization", "Value", "AverageValue"];
    match text(target, "/type") {
        "" => causes.push(Cause::required(format!("{path}.type"), "must specify a metric target type")),
        kind if !kinds.contains(&kind) => {
            let why = "must be either Utilization, Value, or AverageValue";
            causes.push(Cause::invalid(format!("{path}.type"), &json!(kind), why));
        }
        _ => {}
    }
    if target["averageUtilization"].as_i64().is_some_and(|share| share < 1) {
        let why = "must be greater than 0";
        causes.push(Cause::invalid(format!("{path}.averageUtilization"), &target["averageUtilization"], why));
    }
}

fn rules(rules: &Value, path: &str, causes: &mut Vec<Cause>) {
    if let Some(window) = rules["stabilizationWindowSeconds"].as_i64() {
        let field = || format!("{path}.stabilizationWindowSeconds");
        if window < 0 {
            let why = "must be greater than or equal to zero";
            causes.push(Cause::invalid(field(), &json!(window), why));
        }
        if window > LONGEST_WINDOW {
            let why = format!("must be less than or equal to {LONGEST_WINDOW}");
            causes.push(Cause::invalid(field(), &json!(window), why));
        }
    }
    let choices = ["Disabled", "Max", "Min"];
    if !choices.contains(&text(rules, "/selectPolicy")) {
        causes.push(Cause::not_supported(format!("{path}.selectPolicy"), &rules["selectPolicy"], choices));
    }
    let policies = items(rules, "/policies");
    if policies.is_empty() {
        causes.push(Cause::required(format!("{path}.policies"), "must specify at least one Policy"));
    }
    for (place, policy) in policies.iter().enumerate() {
        let path = format!("{path}.policies[{place}]");
        if !["Percent", "Pods"].contains(&text(policy, "/type")) {
            causes.push(Cause::not_supported(format!("{path}.type"), &policy["type"], ["Percent", "Pods"]));
        }
        for field in ["value", "periodSeconds"] {
            let number = policy[field].as_i64().unwrap_or_default();
            if number <= 0 {
                let why = "must be greater than zero";
                causes.push(Cause::invalid(format!("{path}.{field}"), &json!(number), why));
            }
            if field == "periodSeconds" && number > LONGEST_PERIOD {
                let why = format!("must be less than or equal to {LONGEST_PERIOD}");
                causes.push(Cause::invalid(format!("{path}.{field}"), &json!(number), why));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_autoscaler_that_says_little_means_a_lot() {
        let mut object =
            json!({ "spec": { "maxReplicas": 3, "behavior": { "scaleUp": { "selectPolicy": "Min" } } } });
        defaults(&mut object);
        let spec = &object["spec"];
        assert_eq!(spec["minReplicas"], 1);
        assert_eq!(spec["metrics"][0]["resource"]["target"]["averageUtilization"], UTILIZATION);
        let (up, down) = (&spec["behavior"]["scaleUp"], &spec["behavior"]["scaleDown"]);
        assert_eq!((&up["selectPolicy"], &up["stabilizationWindowSeconds"]), (&json!("Min"), &json!(0)));
        assert_eq!(items(up, "/policies").len(), 2);
        assert_eq!((items(down, "/policies").len(), &down["stabilizationWindowSeconds"]), (1, &Value::Null));
    }

    #[test]
    fn each_mistake_is_named_with_its_place() {
        let object = json!({ "spec": {
            "minReplicas": 0, "maxReplicas": 0,
            "scaleTargetRef": { "kind": "", "name": "" },
            "metrics": [
                { "type": "Resource" },
                { "type": "Foo" },
                { "type": "Resource", "resource": { "name": "cpu", "target": { "type": "Utilization" } } },
            ],
            "behavior": { "scaleDown": { "selectPolicy": "Max", "policies": [{ "type": "Pods", "value": 0, "periodSeconds": 0 }] } },
        } });
        let found: Vec<_> = validate(&object).into_iter().map(|cause| cause.field).collect();
        assert_eq!(
            found,
            [
                "spec.minReplicas",
                "spec.maxReplicas",
                "spec.scaleTargetRef.kind",
                "spec.scaleTargetRef.name",
                "spec.scaleTargetRef.apiVersion",
                "spec.metrics[0].resource",
                "spec.metrics[1].type",
                "spec.metrics[1].type",
                "spec.metrics[2].resource.target.averageUtilization",
                "spec.metrics",
                "spec.behavior.scaleDown.policies[0].value",
                "spec.behavior.scaleDown.policies[0].periodSeconds",
            ]
        );
    }
}
