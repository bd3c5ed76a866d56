//! From the OpenAPI schema of a definition to the tree.

use std::sync::OnceLock;

use serde_json::Value;

use super::{Additional, Kind, ListType, Node, Pattern, Rules};

pub(super) fn node(schema: &Value) -> Node {
    let mut properties: Vec<_> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, schema)| (name.as_str().into(), node(schema)))
        .collect();
    properties.sort_by(|(left, _): &(Box<str>, Node), (right, _)| left.cmp(right));
    Node {
        kind: kind(&schema["type"]),
        nullable: schema["nullable"] == true,
        properties,
        additional: match &schema["additionalProperties"] {
            Value::Bool(true) => Additional::Any,
            schema @ Value::Object(fields) if !fields.is_empty() => Additional::Of(Box::new(node(schema))),
            Value::Object(_) => Additional::Any,
            _ => Additional::None,
        },
        items: schema["items"].is_object().then(|| Box::new(node(&schema["items"]))),
        preserve_unknown: schema["x-kubernetes-preserve-unknown-fields"] == true,
        embedded_resource: schema["x-kubernetes-embedded-resource"] == true,
        int_or_string: schema["x-kubernetes-int-or-string"] == true,
        list_type: match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => ListType::Set,
            Some("map") => ListType::Map(strings(&schema["x-kubernetes-list-map-keys"])),
            _ => ListType::Atomic,
        },
        atomic_map: schema["x-kubernetes-map-type"] == "atomic",
        default: schema.get("default").map(|default| Box::new(default.clone())),
        rules: rules(schema),
    }
}

fn kind(name: &Value) -> Option<Kind> {
    Some(match name.as_str()? {
        "object" => Kind::Object,
        "array" => Kind::Array,
        "string" => Kind::String,
        "integer" => Kind::Integer,
        "number" => Kind::Number,
        "boolean" => Kind::Boolean,
        _ => return None,
    })
}

fn rules(schema: &Value) -> Option<Box<Rules>> {
    const WORDS: &[&str] = &[
        "format",
        "oneOf",
        "anyOf",
        "allOf",
        "not",
        "required",
        "enum",
        "pattern",
        "minimum",
        "maximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
    ];
    if !WORDS.iter().any(|word| schema.get(word).is_some()) {
        return None;
    }
    let number = |word: &str| schema[word].as_f64();
    let count = |word: &str| schema[word].as_u64();
    let nodes = |word: &str| schema[word].as_array().into_iter().flatten().map(node).collect();
    Some(Box::new(Rules {
        format: schema["format"].as_str().map(Into::into),
        one_of: nodes("oneOf"),
        any_of: nodes("anyOf"),
        all_of: nodes("allOf"),
        not: schema["not"].is_object().then(|| Box::new(node(&schema["not"]))),
        required: strings(&schema["required"]),
        allowed: schema["enum"].as_array().cloned().unwrap_or_default(),
        pattern: schema["pattern"]
            .as_str()
            .map(|text| Pattern { text: text.into(), compiled: OnceLock::new() }),
        minimum: number("minimum"),
        exclusive_minimum: schema["exclusiveMinimum"] == true,
        maximum: number("maximum"),
        exclusive_maximum: schema["exclusiveMaximum"] == true,
        multiple_of: number("multipleOf"),
        min_length: count("minLength"),
        max_length: count("maxLength"),
        min_items: count("minItems"),
        max_items: count("maxItems"),
        min_properties: count("minProperties"),
        max_properties: count("maxProperties"),
    }))
}

fn strings(value: &Value) -> Vec<Box<str>> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
}
