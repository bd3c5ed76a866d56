//! The `scale` subresource: one number of many kinds, behind one face.

use serde_json::{Value, json};

use crate::catalogue::Resource;
use crate::selector::LabelSelector;
use crate::status::{Cause, Failure};
use crate::table::json_path::JsonPath;

/// The object as an `autoscaling/v1` `Scale`; `None` where the kind has no such thing.
pub(crate) fn view(resource: &Resource, object: &Value) -> Option<Value> {
    let scale = resource.scale.as_ref()?;
    let number =
        |path: &str| JsonPath::parse(path).and_then(|path| path.first(object)?.as_i64()).unwrap_or_default();
    let selector = match &scale.label_selector {
        Some(path) => JsonPath::parse(path).and_then(|path| Some(path.first(object)?.as_str()?.to_owned())),
        None if resource.custom => None,
        None => LabelSelector::from_object(&object["spec"]["selector"]).map(|selector| selector.to_string()),
    };
    let mut status = json!({ "replicas": number(&scale.status_replicas) });
    if let Some(selector) = selector {
        status["selector"] = json!(selector);
    }
    let metadata = &object["metadata"];
    let mut kept = json!({});
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = metadata.get(key) {
            kept[key] = value.clone();
        }
    }
    Some(json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": kept,
        "spec": { "replicas": number(&scale.spec_replicas) },
        "status": status,
    }))
}

/// The object with the number of a `Scale` that a client sent. What is not its number is not looked at.
pub(crate) fn merge(resource: &Resource, object: &Value, sent: &Value) -> Result<Value, Failure> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let replicas = sent["spec"]["replicas"].as_i64().unwrap_or_default();
    if replicas < 0 {
        let cause = Cause::invalid("spec.replicas", &json!(replicas), "must be greater than or equal to 0");
        return Err(Failure::invalid_kind("autoscaling", "Scale", name, vec![cause]));
    }
    let mut scaled = object.clone();
    let path = resource.scale.as_ref().and_then(|scale| JsonPath::parse(&scale.spec_replicas));
    match path.is_some_and(|path| path.set(&mut scaled, json!(replicas))) {
        true => Ok(scaled),
        false => Err(Failure::internal("the path of the number of replicas cannot be followed")),
    }
}

/// What is wrong with the numbers of replicas of a custom resource, before its schema says the same in its own words.
pub(super) fn problems(resource: &Resource, object: &Value) -> Vec<Cause> {
    let Some(scale) = resource.scale.as_ref().filter(|_| resource.custom) else { return Vec::new() };
    [&scale.spec_replicas, &scale.status_replicas]
        .into_iter()
        .filter_map(|path| {
            let value = JsonPath::parse(path)?.first(object)?;
            let shown = match value {
                Value::String(text) => (text.clone(), "string"),
                Value::Bool(value) => (value.to_string(), "bool"),
                Value::Number(number) => {
                    let why = match number.as_i64() {
                        Some(count) if count < 0 => "should be a non-negative integer".to_owned(),
                        Some(count) if count > i64::from(i32::MAX) => {
                            format!("should be less than or equal to {}", i32::MAX)
                        }
                        _ => return None,
                    };
                    return Some(Cause::invalid(path.to_string(), value, why));
                }
                Value::Null | Value::Array(_) | Value::Object(_) => return None,
            };
            let why =
                format!("{path} accessor error: {} is of the type {}, expected int64", shown.0, shown.1);
            Some(Cause::invalid(path.to_string(), &json!(0), why))
        })
        .collect()
}
