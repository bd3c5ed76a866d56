//! The built-in types as OpenAPI schemas.
//!
//! They say what the server checks: names and types of fields, which are required, and how lists and maps merge. There are
//! no descriptions: those are other people's prose, and would be many times as long as all the rest.

use serde_json::{Map, Value, json};

use super::{Field, Holds, List, Merge, Message, Type, find, schema_type};

/// Under which a document keeps its schemas.
const ROOT: &str = "#/components/schemas/";

/// A schema that is referred to by its name.
pub(crate) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("{ROOT}{name}") })
}

/// How OpenAPI calls a type: `io.k8s.api.core.v1.Pod`.
pub(crate) fn name(message: &Message) -> String {
    let Message { package, name, .. } = message;
    match *package {
        "meta" => format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}"),
        "apiextensions" => format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.{name}"),
        "apiregistration" => format!("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.{name}"),
        "autoscaling-v2" => format!("io.k8s.api.autoscaling.v2.{name}"),
        package => format!("io.k8s.api.{package}.v1.{name}"),
    }
}

/// Adds a type, and every type it mentions, unless it is there.
pub(crate) fn add(message: &'static Message, schemas: &mut Map<String, Value>) {
    let mut waiting = vec![message];
    while let Some(message) = waiting.pop() {
        let name = name(message);
        if schemas.contains_key(&name) {
            continue;
        }
        schemas.insert(name, schema(message));
        for field in message.by_name() {
            match &field.of {
                Type::Message(_) => waiting.extend(field.of.message()),
                Type::SchemaOrFlag | Type::SchemaOrList | Type::SchemaOrTexts => {
                    waiting.extend(schema_type())
                }
                plain => {
                    if let Some((name, schema)) = named(plain) {
                        schemas.entry(name).or_insert(schema);
                    }
                }
            }
        }
    }
}

/// What lists of objects have beside the objects.
pub(crate) fn list_metadata(schemas: &mut Map<String, Value>) -> Value {
    match find("meta", "ListMeta") {
        Some(message) => {
            add(message, schemas);
            reference(&name(message))
        }
        None => json!({ "type": "object" }),
    }
}

/// What all objects have beside their content.
pub(crate) fn object_metadata(schemas: &mut Map<String, Value>) -> Value {
    match find("meta", "ObjectMeta") {
        Some(message) => {
            add(message, schemas);
            json!({ "allOf": [reference(&name(message))], "default": {} })
        }
        None => json!({ "type": "object" }),
    }
}

fn schema(message: &'static Message) -> Value {
    let fields = message.by_name();
    let mut schema = json!({ "type": "object" });
    if !fields.is_empty() {
        let properties: Map<_, _> =
            fields.iter().map(|field| (field.name.to_owned(), property(field))).collect();
        schema["properties"] = Value::Object(properties);
    }
    let required: Vec<_> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    if message.atomic {
        schema["x-kubernetes-map-type"] = json!("atomic");
    }
    schema
}

fn property(field: &Field) -> Value {
    let mut schema = match field.holds {
        // Nothing may stand beside a reference.
        Holds::One => match value(&field.of) {
            reference if reference.get("$ref").is_some() => json!({ "allOf": [reference] }),
            plain => plain,
        },
        Holds::List => json!({ "type": "array", "items": value(&field.of) }),
        Holds::Map => json!({ "type": "object", "additionalProperties": value(&field.of) }),
    };
    match (&field.list, field.holds) {
        (List::Map(keys), _) => {
            schema["x-kubernetes-list-type"] = json!("map");
            schema["x-kubernetes-list-map-keys"] = json!(keys);
        }
        (List::Set, _) => schema["x-kubernetes-list-type"] = json!("set"),
        (List::Atomic | List::Unsaid, Holds::List) => schema["x-kubernetes-list-type"] = json!("atomic"),
        (List::Atomic, _) => schema["x-kubernetes-map-type"] = json!("atomic"),
        (List::Unsaid, _) => {}
    }
    let merges = field.merge != Merge::Replace;
    let strategy = match (merges, field.retain_keys) {
        (true, true) => "merge,retainKeys",
        (true, false) => "merge",
        (false, true) => "retainKeys",
        (false, false) => "",
    };
    if !strategy.is_empty() {
        schema["x-kubernetes-patch-strategy"] = json!(strategy);
    }
    if let Merge::By(key) = field.merge {
        schema["x-kubernetes-patch-merge-key"] = json!(key);
    }
    if let Some(default) = field.default {
        schema["default"] = match &field.of {
            Type::Text => json!(default),
            _ => serde_json::from_str(default).unwrap_or_else(|_| json!(default)),
        };
    }
    schema
}

fn value(of: &Type) -> Value {
    match of {
        Type::Text => json!({ "type": "string" }),
        Type::Integer32 => json!({ "type": "integer", "format": "int32" }),
        Type::Integer64 => json!({ "type": "integer", "format": "int64" }),
        Type::Flag => json!({ "type": "boolean" }),
        Type::Double => json!({ "type": "number", "format": "double" }),
        Type::Bytes => json!({ "type": "string", "format": "byte" }),
        Type::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Type::SchemaOrFlag | Type::SchemaOrList | Type::SchemaOrTexts => {
            json!({ "x-kubernetes-preserve-unknown-fields": true })
        }
        Type::Message(_) => of.message().map_or_else(|| json!({}), |message| reference(&name(message))),
        special => named(special).map_or_else(|| json!({}), |(name, _)| reference(&name)),
    }
}

/// Types that have a name but no fields.
fn named(of: &Type) -> Option<(String, Value)> {
    let (name, schema) = match of {
        Type::Time => ("pkg.apis.meta.v1.Time", json!({ "type": "string", "format": "date-time" })),
        Type::MicroTime => ("pkg.apis.meta.v1.MicroTime", json!({ "type": "string", "format": "date-time" })),
        Type::Quantity => {
            ("pkg.api.resource.Quantity", json!({ "oneOf": [{ "type": "string" }, { "type": "number" }] }))
        }
        Type::IntegerOrText => (
            "pkg.util.intstr.IntOrString",
            json!({ "format": "int-or-string", "oneOf": [{ "type": "integer" }, { "type": "string" }] }),
        ),
        Type::Raw => ("pkg.runtime.RawExtension", json!({ "type": "object" })),
        Type::Fields => ("pkg.apis.meta.v1.FieldsV1", json!({ "type": "object" })),
        Type::Json => {
            let name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON";
            return Some((name.to_owned(), json!({ "x-kubernetes-preserve-unknown-fields": true })));
        }
        _ => return None,
    };
    Some((format!("io.k8s.apimachinery.{name}"), schema))
}
