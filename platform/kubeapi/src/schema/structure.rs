//! Whether a schema is structural at all: what a definition is refused for.

use pilothouse_cel::Pattern;
use serde_json::Value;

use super::{parse, prune, validate};
use crate::status::Cause;

/// Words of JSON schema that a structural one may not use.
const FORBIDDEN: &[&str] =
    &["$ref", "definitions", "dependencies", "id", "patternProperties", "additionalItems"];

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

pub(super) fn problems(schema: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    if schema["type"] != "object" {
        let at = format!("{path}.type");
        causes.push(match schema["type"].is_null() {
            true => Cause::required(at, "must not be empty at the root"),
            false => Cause::invalid(at, &schema["type"], "must be object at the root"),
        });
    }
    visit(schema, path, Level::Root, &mut causes);
    causes
}

/// Where in a schema another one stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// Describes the whole object.
    Root,
    /// Describes the metadata of the object.
    Metadata,
    /// Describes a value inside.
    Inner,
}

fn visit(schema: &Value, path: &str, level: Level, causes: &mut Vec<Cause>) {
    words(schema, path, causes);
    let open = schema["x-kubernetes-int-or-string"] == true
        || schema["x-kubernetes-preserve-unknown-fields"] == true
        || schema["x-kubernetes-embedded-resource"] == true;
    if schema["type"].is_null() && schema["$ref"].is_null() && !open && level != Level::Root {
        causes.push(Cause::required(format!("{path}.type"), "must not be empty for specified object fields"));
    }
    if schema["properties"].is_object()
        && !matches!(schema["additionalProperties"], Value::Null | Value::Bool(true))
    {
        causes.push(Cause::forbidden(
            format!("{path}.additionalProperties"),
            "additionalProperties and properties are mutual exclusive",
        ));
    }
    if schema["type"] == "array" && schema["items"].is_null() {
        causes.push(Cause::required(format!("{path}.items"), "must be specified"));
    }
    resource(schema, path, level, causes);
    default(schema, path, level, causes);
    junctions(schema, path, causes);
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let level = match (level, name.as_str()) {
            (Level::Root, "metadata") => Level::Metadata,
            (Level::Metadata, _) => Level::Metadata,
            _ => Level::Inner,
        };
        visit(inner, &format!("{path}.properties[{name}]"), level, causes);
    }
    if schema["items"].is_object() {
        visit(&schema["items"], &format!("{path}.items"), Level::Inner, causes);
    }
    if schema["additionalProperties"].is_object() {
        visit(&schema["additionalProperties"], &format!("{path}.additionalProperties"), Level::Inner, causes);
    }
}

/// What is wrong with the words themselves, wherever they stand.
fn words(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let said = |word: &&&str| match &schema[**word] {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    };
    for word in FORBIDDEN.iter().filter(said) {
        causes.push(Cause::forbidden(format!("{path}.{word}"), &format!("{word} is not supported")));
    }
    if let Some(kind) = schema["type"].as_str().filter(|kind| !TYPES.contains(kind)) {
        causes.push(Cause::not_supported(format!("{path}.type"), &schema["type"], TYPES));
        if kind == "null" {
            let why = "type cannot be set to null, use nullable as an alternative";
            causes.push(Cause::forbidden(format!("{path}.type"), why));
        }
    }
    if schema["uniqueItems"] == true {
        causes.push(Cause::forbidden(
            format!("{path}.uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ));
    }
    if schema["items"].is_array() {
        let why = "items must be a schema object and not an array";
        causes.push(Cause::forbidden(format!("{path}.items"), why));
    }
    if let Some(Err(error)) = schema["pattern"].as_str().map(Pattern::new) {
        let why = format!("must be a valid regular expression, but isn't: {error}");
        causes.push(Cause::invalid(format!("{path}.pattern"), &schema["pattern"], why));
    }
    if schema["x-kubernetes-preserve-unknown-fields"] == false {
        let at = format!("{path}.x-kubernetes-preserve-unknown-fields");
        causes.push(Cause::invalid(at, &Value::Bool(false), "must be true or undefined"));
    }
    let map = &schema["x-kubernetes-map-type"];
    if !map.is_null() {
        type_for(schema, "object", "x-kubernetes-map-type is specified", path, causes);
        let kinds = ["atomic", "granular"];
        if !kinds.contains(&map.as_str().unwrap_or_default()) {
            causes.push(Cause::not_supported(format!("{path}.x-kubernetes-map-type"), map, kinds));
        }
    }
    lists(schema, path, causes);
}

fn type_for(schema: &Value, wanted: &str, when: &str, path: &str, causes: &mut Vec<Cause>) {
    let (at, why) = (format!("{path}.type"), format!("must be {wanted} if {when}"));
    match &schema["type"] {
        Value::Null => causes.push(Cause::required(at, &why)),
        found if found != wanted => causes.push(Cause::invalid(at, found, why)),
        _ => {}
    }
}

/// An object, whole or inside another, has an identity, which a schema may narrow and not redefine.
fn resource(schema: &Value, path: &str, level: Level, causes: &mut Vec<Cause>) {
    let embedded = schema["x-kubernetes-embedded-resource"] == true;
    if embedded {
        type_for(schema, "object", "x-kubernetes-embedded-resource is true", path, causes);
        let preserved = schema["x-kubernetes-preserve-unknown-fields"] == true;
        if !preserved && schema["properties"].as_object().is_none_or(serde_json::Map::is_empty) {
            let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
            causes.push(Cause::required(format!("{path}.properties"), why));
        }
    }
    if !embedded && level != Level::Root {
        return;
    }
    for (name, wanted) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
        let Some(inner) = schema["properties"].get(name) else { continue };
        if inner["type"] != wanted {
            let found = inner["type"].as_str().unwrap_or_default();
            let at = format!("{path}.properties[{name}].type");
            causes.push(Cause::invalid(at, &Value::from(found), format!("must be {wanted}")));
        }
    }
    if let Some(metadata) = schema["properties"].get("metadata").filter(|_| level == Level::Root) {
        let others = |word: &String| !matches!(word.as_str(), "type" | "properties");
        let named = |name: &String| matches!(name.as_str(), "name" | "generateName");
        let said = metadata.as_object().is_some_and(|words| words.keys().any(others));
        let fields = metadata["properties"].as_object().is_some_and(|fields| !fields.keys().all(named));
        if metadata["type"] == "object" && (said || fields) {
            let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
            causes.push(Cause::forbidden(format!("{path}.properties[metadata]"), why));
        }
    }
}

/// Below `anyOf` and its like values are only narrowed: what they are is said outside.
fn junctions(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    for word in ["allOf", "anyOf", "oneOf"] {
        for (place, inner) in schema[word].as_array().into_iter().flatten().enumerate() {
            let either = schema["x-kubernetes-int-or-string"] == true
                && match word {
                    "anyOf" => is_either(&schema["anyOf"]),
                    "allOf" => place == 0 && is_either(&inner["anyOf"]),
                    _ => false,
                };
            narrowing(inner, &format!("{path}.{word}[{place}]"), either, causes);
        }
    }
    if schema["not"].is_object() {
        narrowing(&schema["not"], &format!("{path}.not"), false, causes);
    }
}

/// The one way to mention the types of what is a number or a text.
fn is_either(any_of: &Value) -> bool {
    *any_of == serde_json::json!([{ "type": "integer" }, { "type": "string" }])
}

fn narrowing(schema: &Value, path: &str, either: bool, causes: &mut Vec<Cause>) {
    const EMPTY: [&str; 5] =
        ["type", "title", "description", "x-kubernetes-list-map-keys", "x-kubernetes-validations"];
    const UNDEFINED: [&str; 4] =
        ["default", "additionalProperties", "x-kubernetes-list-type", "x-kubernetes-map-type"];
    const FALSE: [&str; 4] = [
        "nullable",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
    ];
    if !either {
        for (words, what) in [(&EMPTY[..], "empty"), (&UNDEFINED[..], "undefined"), (&FALSE[..], "false")] {
            let said = |word: &&&str| !matches!(&schema[**word], Value::Null | Value::Bool(false));
            for word in words.iter().filter(said) {
                let why = format!("must be {what} to be structural");
                causes.push(Cause::forbidden(format!("{path}.{word}"), &why));
            }
        }
    }
    words(schema, path, causes);
    let nested = |word: &str| schema[word].as_array().into_iter().flatten().enumerate();
    for word in ["allOf", "anyOf", "oneOf"] {
        for (place, inner) in nested(word) {
            narrowing(inner, &format!("{path}.{word}[{place}]"), either, causes);
        }
    }
    for word in ["not", "items"] {
        if schema[word].is_object() {
            narrowing(&schema[word], &format!("{path}.{word}"), false, causes);
        }
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        narrowing(inner, &format!("{path}.properties[{name}]"), false, causes);
    }
}

/// How the items of a list are told apart.
fn lists(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let list = &schema["x-kubernetes-list-type"];
    let keys: Vec<&str> = schema["x-kubernetes-list-map-keys"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if let Some(kind) = list.as_str() {
        type_for(schema, "array", "x-kubernetes-list-type is specified", path, causes);
        let kinds = ["atomic", "set", "map"];
        if !kinds.contains(&kind) {
            causes.push(Cause::not_supported(format!("{path}.x-kubernetes-list-type"), list, kinds));
        }
        if matches!(kind, "set" | "map") && schema["items"]["nullable"] == true {
            let why = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
            causes.push(Cause::forbidden(format!("{path}.items.nullable"), &why));
        }
    }
    if list == "set" {
        let items = &schema["items"];
        let word = if items["type"] == "array" { "x-kubernetes-list-type" } else { "x-kubernetes-map-type" };
        let whole = match items["type"].as_str() {
            // A list is whole unless it says otherwise, an object only if it says so.
            Some("array") => matches!(items[word].as_str(), None | Some("atomic")),
            Some("object") => items[word] == "atomic",
            _ => true,
        };
        if !whole {
            let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
            causes.push(Cause::invalid(format!("{path}.items.{word}"), &items[word], why));
        }
    }
    if !keys.is_empty() && list != "map" {
        let (at, why) = (
            format!("{path}.x-kubernetes-list-type"),
            "must be map if x-kubernetes-list-map-keys is non-empty",
        );
        causes.push(match list.is_null() {
            true => Cause::required(at, why),
            false => Cause::invalid(at, list, why),
        });
    }
    if list == "map" {
        keyed(schema, &keys, path, causes);
    }
}

fn keyed(schema: &Value, keys: &[&str], path: &str, causes: &mut Vec<Cause>) {
    let at = format!("{path}.x-kubernetes-list-map-keys");
    if keys.is_empty() {
        causes.push(Cause::required(at.clone(), "must not be empty if x-kubernetes-list-type is map"));
    }
    let items = &schema["items"];
    if !items.is_object() {
        return;
    }
    if items["type"] != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        causes.push(Cause::invalid(format!("{path}.items.type"), &items["type"], why));
        return;
    }
    let shown = &schema["x-kubernetes-list-map-keys"];
    for (place, key) in keys.iter().enumerate() {
        let Some(property) = items["properties"].get(key) else {
            causes.push(Cause::invalid(at.clone(), shown, "entries must all be names of item properties"));
            continue;
        };
        let of_key = format!("{path}.items.properties[{key}]");
        if property["type"] == "array" || property["type"] == "object" {
            let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            causes.push(Cause::invalid(format!("{of_key}.type"), &items["type"], why));
        }
        if keys[..place].contains(key) {
            causes.push(Cause::invalid(at.clone(), shown, "must not contain duplicate entries"));
        }
        let required = items["required"].as_array().is_some_and(|all| all.iter().any(|one| one == key));
        if !required && property.get("default").is_none() {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            causes.push(Cause::required(format!("{of_key}.default"), why));
        }
        if property["nullable"] == true {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            causes.push(Cause::forbidden(format!("{of_key}.nullable"), why));
        }
    }
}

/// A default has to be acceptable itself.
fn default(schema: &Value, path: &str, level: Level, causes: &mut Vec<Cause>) {
    let Some(value) = schema.get("default").filter(|value| !value.is_null()) else { return };
    let at = format!("{path}.default");
    if level == Level::Metadata {
        causes.push(Cause::forbidden(at, "must not be set in top-level metadata"));
        return;
    }
    let node = parse::node(schema);
    let mut known = value.clone();
    let mut dropped = Vec::new();
    prune::value(&node, &mut known, "", &mut dropped);
    if !dropped.is_empty() {
        causes.push(Cause::invalid(at.clone(), value, "must not have unknown fields"));
    }
    if schema["x-kubernetes-embedded-resource"] == true && value.is_object() {
        let missing = ["apiVersion", "kind"].into_iter().filter(|name| value[name].is_null());
        causes.extend(missing.map(|name| Cause::required(format!("{at}.{name}"), "")));
    }
    for cause in validate::default(&node, value) {
        let field = match cause.field.trim_start_matches('.') {
            "" => at.clone(),
            inner => format!("{at}.{inner}"),
        };
        causes.push(Cause { field, ..cause });
    }
}
