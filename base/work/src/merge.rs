//! What an object should be, given what is wanted of it and what it is: pure.
//!
//! A manifest says some fields, the server and controllers add others. Replacing an object by its manifest would take
//! those away, some of which cannot even be taken away (a Service's address). So a manifest is laid over the object: what
//! it says holds, what it does not say stays, and what it said the last time and no longer says goes.

use serde_json::{Map, Value};

/// Fields of which a manifest says everything: nobody else adds to them.
const WHOLE: [&str; 4] = ["data", "binaryData", "stringData", "rules"];
/// Fields that are not the manifest's.
const NOT_OURS: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

/// Whether `live` is already what `wanted` asks for.
pub(crate) fn is_satisfied(wanted: &Value, live: &Value) -> bool {
    let (Some(wanted), Some(live)) = (wanted.as_object(), live.as_object()) else { return false };
    let fields = wanted.iter().filter(|(name, _)| !NOT_OURS.contains(&name.as_str()));
    let mut fields_hold = fields.map(|(name, value)| match live.get(name) {
        // Written only; the server keeps it as `data`.
        _ if name == "stringData" => string_data_holds(value, live.get("data")),
        Some(present) if WHOLE.contains(&name.as_str()) => value == present,
        Some(present) => contains(present, value),
        None => is_empty(value),
    });
    fields_hold.all(|holds| holds) && metadata_holds(wanted, live)
}

fn metadata_holds(wanted: &Map<String, Value>, live: &Map<String, Value>) -> bool {
    ["labels", "annotations"].iter().all(|field| {
        let wanted = wanted.get("metadata").and_then(|metadata| metadata.get(field));
        let live = live.get("metadata").and_then(|metadata| metadata.get(field));
        wanted.and_then(Value::as_object).into_iter().flatten().all(|(key, value)| {
            match key.strip_suffix('-') {
                Some(key) => live.and_then(|live| live.get(key)).is_none(),
                None => live.and_then(|live| live.get(key)) == Some(value),
            }
        })
    })
}

fn string_data_holds(wanted: &Value, live: Option<&Value>) -> bool {
    // The encoding is not undone here: the keys tell whether it was taken over, and a changed value is a changed
    // manifest, which is written in any case.
    wanted.as_object().into_iter().flatten().all(|(key, _)| live.and_then(|live| live.get(key)).is_some())
}

/// Whether everything that `wanted` says is in `present`.
fn contains(present: &Value, wanted: &Value) -> bool {
    match (present, wanted) {
        (Value::Object(present), Value::Object(wanted)) => wanted.iter().all(|(name, wanted)| {
            present.get(name).map_or_else(|| is_empty(wanted), |present| contains(present, wanted))
        }),
        (Value::Array(present), Value::Array(wanted)) => {
            present.len() == wanted.len()
                && present.iter().zip(wanted).all(|(present, wanted)| contains(present, wanted))
        }
        (Value::Number(present), Value::Number(wanted)) => present.as_f64() == wanted.as_f64(),
        _ => present == wanted,
    }
}

/// What a server leaves out.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_empty),
        Value::Array(list) => list.is_empty(),
        _ => false,
    }
}

/// `live` with `wanted` laid over it, less what only `before` said.
pub(crate) fn overlay(wanted: &Value, before: Option<&Value>, live: &Value) -> Value {
    let mut merged = live.clone();
    let (Some(object), Some(wanted)) = (merged.as_object_mut(), wanted.as_object()) else { return merged };
    for (name, value) in wanted.iter().filter(|(name, _)| !NOT_OURS.contains(&name.as_str())) {
        if WHOLE.contains(&name.as_str()) {
            object.insert(name.clone(), value.clone());
            continue;
        }
        let before = before.and_then(|before| before.get(name));
        let present = object.entry(name.clone()).or_insert(Value::Null);
        lay_over(present, value, before);
    }
    if let Some(before) = before.and_then(Value::as_object) {
        let gone =
            before.keys().filter(|name| !wanted.contains_key(*name) && !NOT_OURS.contains(&name.as_str()));
        gone.for_each(|name| drop(object.remove(name)));
    }
    for field in ["labels", "annotations"] {
        let of = |value: &Value| value.get("metadata").and_then(|metadata| metadata.get(field)).cloned();
        let wanted = wanted.get("metadata").and_then(|metadata| metadata.get(field)).cloned();
        let before = before.and_then(of);
        let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { continue };
        lay_over_keys(metadata, field, wanted.as_ref(), before.as_ref());
    }
    merged
}

fn lay_over(present: &mut Value, wanted: &Value, before: Option<&Value>) {
    match (present, wanted) {
        (Value::Object(present), Value::Object(wanted)) => {
            if let Some(before) = before.and_then(Value::as_object) {
                before.keys().filter(|name| !wanted.contains_key(*name)).for_each(|name| {
                    present.remove(name);
                });
            }
            for (name, value) in wanted {
                let before = before.and_then(|before| before.get(name));
                lay_over(present.entry(name.clone()).or_insert(Value::Null), value, before);
            }
        }
        // Element by element as long as there are equally many: each may have been completed by the server.
        (Value::Array(present), Value::Array(wanted)) if present.len() == wanted.len() => {
            for (index, (present, wanted)) in present.iter_mut().zip(wanted).enumerate() {
                lay_over(present, wanted, before.and_then(|before| before.get(index)));
            }
        }
        (present, wanted) => *present = wanted.clone(),
    }
}

/// Keys that end in `-` ask for the key without it to go.
fn lay_over_keys(
    metadata: &mut Map<String, Value>,
    field: &str,
    wanted: Option<&Value>,
    before: Option<&Value>,
) {
    let wanted = wanted.and_then(Value::as_object);
    let before = before.and_then(Value::as_object);
    if wanted.is_none() && before.is_none() {
        return;
    }
    let present = metadata.entry(field).or_insert_with(|| Value::Object(Map::new()));
    let Some(present) = present.as_object_mut() else { return };
    let is_wanted = |key: &String| wanted.is_some_and(|wanted| wanted.contains_key(key));
    before.into_iter().flatten().filter(|(key, _)| !is_wanted(key)).for_each(|(key, _)| {
        present.remove(key);
    });
    for (key, value) in wanted.into_iter().flatten() {
        match key.strip_suffix('-') {
            Some(key) => drop(present.remove(key)),
            None => drop(present.insert(key.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_server_added_is_no_difference() {
        let wanted = json!({"kind": "Service", "metadata": {"name": "a", "labels": {"k": "v"}},
            "spec": {"ports": [{"port": 1}], "selector": {}}});
        let live = json!({"kind": "Service", "metadata": {"name": "a", "uid": "1", "labels": {"k": "v", "o": "o"}},
            "spec": {"ports": [{"port": 1, "protocol": "TCP"}], "clusterIP": "10.0.0.1"}, "status": {}});
        assert!(is_satisfied(&wanted, &live));
        assert_eq!(overlay(&wanted, None, &live)["spec"]["clusterIP"], "10.0.0.1");
        for drifted in [
            json!({"metadata": {"labels": {"k": "v"}}, "spec": {"ports": [{"port": 2}]}}),
            json!({"metadata": {"labels": {"k": "v"}}, "spec": {"ports": [{"port": 1}, {"port": 2}]}}),
            json!({"metadata": {"labels": {"k": "w"}}, "spec": {"ports": [{"port": 1}]}}),
            json!({"metadata": {"labels": {"k": "v"}}}),
        ] {
            assert!(!is_satisfied(&wanted, &drifted), "{drifted}");
        }
    }

    #[test]
    fn what_was_said_before_and_is_no_longer_said_goes() {
        let before = json!({"metadata": {"labels": {"a": "1", "b": "1"}}, "spec": {"x": 1, "labels": {"a": "1", "b": "1"}}});
        let wanted = json!({"metadata": {"labels": {"a": "2"}}, "spec": {"x": 1, "labels": {"a": "2"}}});
        let live = json!({"metadata": {"labels": {"a": "1", "b": "1", "foreign": "1"}},
            "spec": {"x": 1, "labels": {"a": "1", "b": "1"}, "added": true}});
        let merged = overlay(&wanted, Some(&before), &live);
        assert_eq!(merged["metadata"]["labels"], json!({"a": "2", "foreign": "1"}));
        assert_eq!(merged["spec"], json!({"x": 1, "labels": {"a": "2"}, "added": true}));
    }

    #[test]
    fn content_of_config_maps_is_replaced_even_if_nothing_is_remembered() {
        let wanted = json!({"metadata": {}, "data": {"a": "1"}});
        let live = json!({"metadata": {}, "data": {"a": "1", "b": "2"}});
        assert!(!is_satisfied(&wanted, &live));
        assert_eq!(overlay(&wanted, None, &live)["data"], json!({"a": "1"}));
    }

    #[test]
    fn key_with_a_dash_asks_for_removal() {
        let wanted = json!({"metadata": {"annotations": {"old-": ""}}});
        let live = json!({"metadata": {"annotations": {"old": "1", "other": "1"}}});
        assert!(!is_satisfied(&wanted, &live));
        let merged = overlay(&wanted, None, &live);
        assert_eq!(merged["metadata"]["annotations"], json!({"other": "1"}));
        assert!(is_satisfied(&wanted, &merged));
    }
}
