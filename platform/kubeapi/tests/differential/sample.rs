//! An object made up from a schema: what is required, and a little of the rest.

use serde_json::{Map, Value, json};

/// How deep what is not required is filled in.
const DEPTH: usize = 2;

/// An object that fits the plain parts of a schema. Patterns and rules are not looked at.
pub(crate) fn of(schema: &Value) -> Value {
    let mut object = value(schema, 0);
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    object
}

fn value(schema: &Value, depth: usize) -> Value {
    if let Some(default) = schema.get("default") {
        return default.clone();
    }
    if let Some(choice) = schema["enum"].as_array().and_then(|choices| choices.first()) {
        return choice.clone();
    }
    match schema["type"].as_str() {
        Some("object") => object(schema, depth),
        Some("array") => {
            let count = schema["minItems"].as_u64().unwrap_or_default().min(3);
            (0..count).map(|_| value(&schema["items"], depth + 1)).collect()
        }
        Some("string") => json!(text(schema)),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        Some("boolean") => json!(true),
        _ if schema["x-kubernetes-int-or-string"] == true => json!(1),
        _ => json!({}),
    }
}

fn object(schema: &Value, depth: usize) -> Value {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut made = Map::new();
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let plain = inner["type"] != "object" && inner["type"] != "array";
        let wanted = required.contains(&name.as_str()) || (depth < DEPTH && (plain || depth == 0));
        if wanted && name != "metadata" {
            made.insert(name.clone(), value(inner, depth + 1));
        }
    }
    if schema["properties"].is_null() && schema["minProperties"].as_u64().is_some_and(|least| least > 0) {
        made.insert("a".to_owned(), value(&schema["additionalProperties"], depth + 1));
    }
    Value::Object(made)
}

fn text(schema: &Value) -> String {
    let plain = match schema["format"].as_str() {
        Some("date-time") => "2026-01-02T03:04:05Z",
        Some("date") => "2026-01-02",
        Some("duration") => "1h",
        Some("byte") => "aGk=",
        Some("ipv4") => "10.0.0.1",
        Some("ipv6") => "::1",
        Some("cidr") => "10.0.0.0/8",
        Some("uri") => "https://a.example.com",
        _ => "a",
    };
    let least = usize::try_from(schema["minLength"].as_u64().unwrap_or_default()).unwrap_or_default();
    format!("{plain:a<least$}")
}
