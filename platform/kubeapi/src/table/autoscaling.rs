//! Autoscalers in one line.

use serde_json::{Value, json};

use super::{Heading, list, number, text};

pub(super) const AUTOSCALER: &[Heading] = &[
    Heading::text("Name"),
    Heading::text("Reference"),
    Heading::text("Targets"),
    Heading::text("MinPods"),
    Heading::text("MaxPods"),
    Heading::text("Replicas"),
    Heading::text("Age"),
];

/// How many targets are shown.
const SHOWN: usize = 2;
const UNKNOWN: &str = "<unknown>";

pub(super) fn autoscaler(object: &Value, name: Value, age: Value) -> Vec<Value> {
    let target = &object["spec"]["scaleTargetRef"];
    let reference = format!("{}/{}", text(target, "/kind"), text(target, "/name"));
    let least = object["spec"]["minReplicas"].as_i64();
    let least = least.map_or_else(|| "<unset>".to_owned(), |least| least.to_string());
    vec![
        name,
        json!(reference),
        json!(targets(object)),
        json!(least),
        json!(number(object, "/spec/maxReplicas")),
        json!(number(object, "/status/currentReplicas")),
        age,
    ]
}

fn targets(object: &Value) -> String {
    let (metrics, current) = (list(object, "/spec/metrics"), list(object, "/status/currentMetrics"));
    if metrics.is_empty() {
        return "<none>".to_owned();
    }
    let nothing = Value::Null;
    let shown = metrics.iter().enumerate().take(SHOWN);
    let shown: Vec<_> =
        shown.map(|(place, metric)| one(metric, current.get(place).unwrap_or(&nothing))).collect();
    match metrics.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} + {more} more...", shown.join(", ")),
    }
}

/// What there is, and what there is to be.
fn one(metric: &Value, current: &Value) -> String {
    let field = match text(metric, "/type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (target, current) = (&metric[field]["target"], &current[field]["current"]);
    let amount = |value: &Value| value.as_str().unwrap_or(UNKNOWN).to_owned();
    let share = |value: &Value, none: &str| {
        value.as_i64().map_or_else(|| none.to_owned(), |percent| format!("{percent}%"))
    };
    let average = || format!("{}/{}", amount(&current["averageValue"]), amount(&target["averageValue"]));
    match field {
        "resource" | "containerResource" => {
            let shown = match target["averageValue"].is_null() {
                true => format!(
                    "{}/{}",
                    share(&current["averageUtilization"], UNKNOWN),
                    share(&target["averageUtilization"], "<auto>")
                ),
                false => average(),
            };
            format!("{}: {shown}", text(&metric[field], "/name"))
        }
        "pods" => average(),
        _ if target["averageValue"].is_null() => {
            format!("{}/{}", amount(&current["value"]), amount(&target["value"]))
        }
        _ => format!("{} (avg)", average()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_show_what_there_is_and_what_there_is_to_be() {
        let resource = json!({ "type": "Resource", "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 80 } } });
        let external = json!({ "type": "External", "external": { "target": { "averageValue": "5" } } });
        let object = json!({ "spec": { "metrics": [resource] } });
        assert_eq!(targets(&object), "cpu: <unknown>/80%");
        let object = json!({
            "spec": { "metrics": [resource, external, external] },
            "status": { "currentMetrics": [{ "resource": { "current": { "averageUtilization": 40 } } }] },
        });
        assert_eq!(targets(&object), "cpu: 40%/80%, <unknown>/5 (avg) + 1 more...");
    }
}
