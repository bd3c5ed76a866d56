//! OpenAPI v2: all groups in one document, for clients that know no other version and for people.
//!
//! It is what version 3 says, rewritten; a group at a time, so that only the text is ever held as a whole.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::catalogue::Catalogue;

pub(crate) fn document(catalogue: &Catalogue) -> Bytes {
    let (mut paths, mut definitions) = (String::new(), String::new());
    let mut seen = BTreeSet::new();
    for group in catalogue.groups() {
        for version in &group.versions {
            let mut document = super::describe(catalogue, group.name, version);
            refer(&mut document);
            for (path, mut item) in taken(&mut document["paths"]) {
                item.as_object_mut().into_iter().flatten().for_each(|(_, operation)| rewrite(operation));
                push(&mut paths, &path, &item);
            }
            for (name, mut schema) in taken(&mut document["components"]["schemas"]) {
                if seen.insert(name.clone()) {
                    flatten(&mut schema);
                    push(&mut definitions, &name, &schema);
                }
            }
        }
    }
    let info = json!({ "title": "Kubernetes", "version": "unversioned" });
    Bytes::from(format!(
        "{{\"swagger\":\"2.0\",\"info\":{info},\"paths\":{{{paths}}},\"definitions\":{{{definitions}}}}}"
    ))
}

fn taken(value: &mut Value) -> Map<String, Value> {
    match value.take() {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn push(text: &mut String, name: &str, value: &Value) {
    if !text.is_empty() {
        text.push(',');
    }
    text.push_str(&json!(name).to_string());
    text.push(':');
    text.push_str(&value.to_string());
}

/// Schemas are kept elsewhere.
fn refer(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(name) = text.strip_prefix("#/components/schemas/") {
                *text = format!("#/definitions/{name}");
            }
        }
        Value::Object(fields) => fields.values_mut().for_each(refer),
        Value::Array(items) => items.iter_mut().for_each(refer),
        _ => {}
    }
}

/// One operation, or the parameters that all of a path share.
fn rewrite(operation: &mut Value) {
    if let Value::Array(parameters) = operation {
        parameters.iter_mut().for_each(hoist);
        return;
    }
    let body = operation.as_object_mut().and_then(|fields| fields.remove("requestBody"));
    let parameters = operation["parameters"].as_array_mut();
    parameters.into_iter().flatten().for_each(hoist);
    if let Some(body) = body {
        let content = body["content"].as_object();
        let consumed: Vec<_> = content.into_iter().flatten().map(|(media, _)| media.clone()).collect();
        let schema = content.and_then(|content| content.values().next()).map(|one| one["schema"].clone());
        operation["consumes"] = json!(consumed);
        if let Some(parameters) = operation["parameters"].as_array_mut() {
            parameters.push(json!({ "name": "body", "in": "body", "required": true, "schema": schema }));
        }
    }
    operation["produces"] = json!(["application/json"]);
    for response in operation["responses"].as_object_mut().into_iter().flatten().map(|(_, one)| one) {
        let content = response.as_object_mut().and_then(|fields| fields.remove("content"));
        if let Some(schema) =
            content.and_then(|content| content.pointer("/application~1json/schema").cloned())
        {
            response["schema"] = schema;
        }
    }
}

/// The type of a parameter stands on the parameter.
fn hoist(parameter: &mut Value) {
    let schema = parameter.as_object_mut().and_then(|fields| fields.remove("schema"));
    for (name, value) in schema.as_ref().and_then(Value::as_object).into_iter().flatten() {
        parameter[name.as_str()] = value.clone();
    }
}

/// A reference may have company here, and there is no choice of types.
fn flatten(schema: &mut Value) {
    if let Value::Object(fields) = schema {
        let only = match fields.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            Some([only]) if only.get("$ref").is_some() => Some(only["$ref"].clone()),
            _ => None,
        };
        if let Some(reference) = only {
            fields.remove("allOf");
            fields.insert("$ref".to_owned(), reference);
        }
        // An amount, a number or a text: text says least.
        if fields.contains_key("oneOf") && !fields.contains_key("type") {
            fields.remove("oneOf");
            fields.insert("type".to_owned(), json!("string"));
        }
        fields.values_mut().for_each(flatten);
    } else if let Value::Array(items) = schema {
        items.iter_mut().for_each(flatten);
    }
}
