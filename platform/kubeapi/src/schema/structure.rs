//! Whether a schema is structural at all: what a definition is refused for.

use serde_json::Value;

use super::{parse, validate};
use crate::status::Cause;

/// Words of JSON schema that a structural one may not use.
const FORBIDDEN: &[&str] = &[
    "$ref",
    "definitions",
    "dependencies",
    "deprecated",
    "discriminator",
    "id",
    "patternProperties",
    "readOnly",
    "writeOnly",
    "xml",
    "additionalItems",
];

pub(super) fn problems(schema: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    if schema["type"] != "object" {
        let message = "must be object at the root";
        causes.push(match schema["type"].is_null() {
            true => Cause::required(format!("{path}.type"), message),
            false => Cause::invalid(format!("{path}.type"), &schema["type"], message),
        });
    }
    visit(schema, path, &mut causes);
    causes
}

fn visit(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    for word in FORBIDDEN.iter().filter(|word| schema.get(word).is_some()) {
        causes.push(Cause::forbidden(format!("{path}.{word}"), &format!("{word} is not supported")));
    }
    if schema["uniqueItems"] == true {
        causes.push(Cause::forbidden(
            format!("{path}.uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ));
    }
    let open = schema["x-kubernetes-int-or-string"] == true
        || schema["x-kubernetes-preserve-unknown-fields"] == true
        || schema["x-kubernetes-embedded-resource"] == true;
    if schema["type"].is_null() && !open {
        causes.push(Cause::required(format!("{path}.type"), "must not be empty for specified object fields"));
    }
    if schema["properties"].is_object() && schema["additionalProperties"].is_object() {
        causes.push(Cause::forbidden(
            format!("{path}.additionalProperties"),
            "additionalProperties and properties are mutual exclusive",
        ));
    }
    if schema["type"] == "array" && !schema["items"].is_object() {
        causes.push(Cause::required(format!("{path}.items"), "must be specified"));
    }
    lists(schema, path, causes);
    default(schema, path, causes);
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        // Metadata may be mentioned without being described.
        let metadata = name == "metadata" && !path.contains(".properties[");
        if !metadata {
            visit(inner, &format!("{path}.properties[{name}]"), causes);
        }
    }
    if schema["items"].is_object() {
        visit(&schema["items"], &format!("{path}.items"), causes);
    }
    if schema["additionalProperties"].is_object() {
        visit(&schema["additionalProperties"], &format!("{path}.additionalProperties"), causes);
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
        if schema["type"] != "array" {
            let (at, why) = (format!("{path}.type"), "must be array if x-kubernetes-list-type is specified");
            causes.push(match schema["type"].is_null() {
                true => Cause::required(at, why),
                false => Cause::invalid(at, &schema["type"], why),
            });
        }
        let kinds = ["atomic", "set", "map"];
        if !kinds.contains(&kind) {
            causes.push(Cause::not_supported(format!("{path}.x-kubernetes-list-type"), list, kinds));
        }
        if matches!(kind, "set" | "map") && schema["items"]["nullable"] == true {
            let why = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
            causes.push(Cause::forbidden(format!("{path}.items.nullable"), &why));
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
fn default(schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let Some(value) = schema.get("default").filter(|value| !value.is_null()) else { return };
    let at = format!("{path}.default");
    for cause in validate::default(&parse::node(schema), value) {
        let field = match cause.field.trim_start_matches('.') {
            "" => at.clone(),
            inner => format!("{at}.{inner}"),
        };
        causes.push(Cause { field, ..cause });
    }
}
